// SPDX-License-Identifier: Apache-2.0
//
// Stands for wz_engine in tests of what drives it: passes every packet on, and misbehaves on demand.
//
// The first byte of a packet says how. Encoder: 0xEE is never taken in; 0xDD comes out without an end.
// Decoder: a coded packet is marked with the error in the lowest two bits of its first byte.

module wz_engine
  import wz_pkg::*;
#(
    parameter int unsigned DATA_W = 512
) (
    input logic clk,
    input logic rst,

    input  logic        [  DATA_W-1:0] s_enc_axis_tdata,
    input  logic        [DATA_W/8-1:0] s_enc_axis_tkeep,
    input  logic                       s_enc_axis_tlast,
    input  block_user_t                s_enc_axis_tuser,
    input  logic                       s_enc_axis_tvalid,
    output logic                       s_enc_axis_tready,

    output logic [  DATA_W-1:0] m_enc_axis_tdata,
    output logic [DATA_W/8-1:0] m_enc_axis_tkeep,
    output logic                m_enc_axis_tlast,
    output logic                m_enc_axis_tuser,
    output logic                m_enc_axis_tvalid,
    input  logic                m_enc_axis_tready,

    input  logic         [  DATA_W-1:0] s_dec_axis_tdata,
    input  logic         [DATA_W/8-1:0] s_dec_axis_tkeep,
    input  logic                        s_dec_axis_tlast,
    input  packet_user_t                s_dec_axis_tuser,
    input  logic                        s_dec_axis_tvalid,
    output logic                        s_dec_axis_tready,

    output logic   [  DATA_W-1:0] m_dec_axis_tdata,
    output logic   [DATA_W/8-1:0] m_dec_axis_tkeep,
    output logic                  m_dec_axis_tlast,
    output error_e                m_dec_axis_tuser,
    output logic                  m_dec_axis_tvalid,
    input  logic                  m_dec_axis_tready,

    input  logic [11:0] s_axil_awaddr,
    input  logic [ 2:0] s_axil_awprot,
    input  logic        s_axil_awvalid,
    output logic        s_axil_awready,
    input  logic [31:0] s_axil_wdata,
    input  logic [ 3:0] s_axil_wstrb,
    input  logic        s_axil_wvalid,
    output logic        s_axil_wready,
    output logic [ 1:0] s_axil_bresp,
    output logic        s_axil_bvalid,
    input  logic        s_axil_bready,
    input  logic [11:0] s_axil_araddr,
    input  logic [ 2:0] s_axil_arprot,
    input  logic        s_axil_arvalid,
    output logic        s_axil_arready,
    output logic [31:0] s_axil_rdata,
    output logic [ 1:0] s_axil_rresp,
    output logic        s_axil_rvalid,
    input  logic        s_axil_rready
);

  logic stuck, endless_q;

  assign stuck = s_enc_axis_tdata[7:0] == 8'hee;
  assign s_enc_axis_tready = m_enc_axis_tready && !stuck;
  assign m_enc_axis_tvalid = (s_enc_axis_tvalid && !stuck) || endless_q;
  assign m_enc_axis_tdata = s_enc_axis_tdata;
  assign m_enc_axis_tkeep = endless_q ? '1 : s_enc_axis_tkeep;
  assign m_enc_axis_tlast = s_enc_axis_tlast && !endless_q && s_enc_axis_tdata[7:0] != 8'hdd;
  assign m_enc_axis_tuser = 1'b0;

  always_ff @(posedge clk) begin
    if (s_enc_axis_tvalid && s_enc_axis_tdata[7:0] == 8'hdd) endless_q <= 1'b1;
    if (rst) endless_q <= 1'b0;
  end

  assign s_dec_axis_tready = m_dec_axis_tready;
  assign m_dec_axis_tvalid = s_dec_axis_tvalid;
  assign m_dec_axis_tdata = s_dec_axis_tdata;
  assign m_dec_axis_tkeep = s_dec_axis_tkeep;
  assign m_dec_axis_tlast = s_dec_axis_tlast;
  assign m_dec_axis_tuser = s_dec_axis_tuser.coded ? error_e'(s_dec_axis_tdata[1:0]) : ERROR_NONE;

  // Every register reads 1: the engine is enabled.
  assign s_axil_awready = s_axil_wvalid && !s_axil_bvalid;
  assign s_axil_wready = s_axil_awvalid && !s_axil_bvalid;
  assign s_axil_arready = !s_axil_rvalid;
  assign s_axil_rdata = 32'd1;
  assign s_axil_bresp = '0;
  // An address beyond the first page is refused.
  assign s_axil_rresp = s_axil_araddr[11] ? 2'd2 : 2'd0;

  always_ff @(posedge clk) begin
    if (s_axil_bready) s_axil_bvalid <= 1'b0;
    if (s_axil_awready && s_axil_awvalid) s_axil_bvalid <= 1'b1;
    if (s_axil_rready) s_axil_rvalid <= 1'b0;
    if (s_axil_arready && s_axil_arvalid) s_axil_rvalid <= 1'b1;
    if (rst) begin
      s_axil_bvalid <= 1'b0;
      s_axil_rvalid <= 1'b0;
    end
  end

endmodule
