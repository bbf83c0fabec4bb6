// SPDX-License-Identifier: Apache-2.0
//
// Stands for wz_engine in tests of what drives it: passes packets on, and misbehaves on demand.
//
// The first byte of a packet says how. Encoder: 0xEE is never taken in; 0xDD comes out without an
// end. Decoder: a coded packet is marked with the error in the lowest two bits of its first byte.

module wz_engine
  import wz_pkg::*;
#(
    parameter int unsigned DATA_W = 512
) (
    input logic clk,
    input logic rst,

    input  logic        [  DATA_W-1:0] s_axis_enc_tdata,
    input  logic        [DATA_W/8-1:0] s_axis_enc_tkeep,
    input  logic                       s_axis_enc_tlast,
    input  block_user_t                s_axis_enc_tuser,
    input  logic                       s_axis_enc_tvalid,
    output logic                       s_axis_enc_tready,

    output logic [  DATA_W-1:0] m_axis_enc_tdata,
    output logic [DATA_W/8-1:0] m_axis_enc_tkeep,
    output logic                m_axis_enc_tlast,
    output logic                m_axis_enc_tuser,
    output logic                m_axis_enc_tvalid,
    input  logic                m_axis_enc_tready,

    input  logic         [  DATA_W-1:0] s_axis_dec_tdata,
    input  logic         [DATA_W/8-1:0] s_axis_dec_tkeep,
    input  logic                        s_axis_dec_tlast,
    input  packet_user_t                s_axis_dec_tuser,
    input  logic                        s_axis_dec_tvalid,
    output logic                        s_axis_dec_tready,

    output logic   [  DATA_W-1:0] m_axis_dec_tdata,
    output logic   [DATA_W/8-1:0] m_axis_dec_tkeep,
    output logic                  m_axis_dec_tlast,
    output error_e                m_axis_dec_tuser,
    output logic                  m_axis_dec_tvalid,
    input  logic                  m_axis_dec_tready,

    input  logic [  DATA_W-1:0] s_axis_ref_tdata,
    input  logic [DATA_W/8-1:0] s_axis_ref_tkeep,
    input  logic                s_axis_ref_tlast,
    input  logic                s_axis_ref_tvalid,
    output logic                s_axis_ref_tready,

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

  assign stuck = s_axis_enc_tdata[7:0] == 8'hee;
  assign s_axis_enc_tready = m_axis_enc_tready && !stuck;
  assign m_axis_enc_tvalid = (s_axis_enc_tvalid && !stuck) || endless_q;
  assign m_axis_enc_tdata = s_axis_enc_tdata;
  assign m_axis_enc_tkeep = endless_q ? '1 : s_axis_enc_tkeep;
  assign m_axis_enc_tlast = s_axis_enc_tlast && !endless_q && s_axis_enc_tdata[7:0] != 8'hdd;
  assign m_axis_enc_tuser = 1'b0;

  always_ff @(posedge clk) begin
    if (s_axis_enc_tvalid && s_axis_enc_tdata[7:0] == 8'hdd) endless_q <= 1'b1;
    if (rst) endless_q <= 1'b0;
  end

  assign s_axis_dec_tready = m_axis_dec_tready;
  assign m_axis_dec_tvalid = s_axis_dec_tvalid;
  assign m_axis_dec_tdata = s_axis_dec_tdata;
  assign m_axis_dec_tkeep = s_axis_dec_tkeep;
  assign m_axis_dec_tlast = s_axis_dec_tlast;
  assign m_axis_dec_tuser = s_axis_dec_tuser.coded ? error_e'(s_axis_dec_tdata[1:0]) : ERROR_NONE;

  assign s_axis_ref_tready = 1'b0;

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
