// SPDX-License-Identifier: Apache-2.0
//
// wz_engine as plain Verilog with flat ports, for IP integrators that take no SystemVerilog top.
//
// The attributes let them find clock, reset and buses (one is longer than a line, since a string
// ends where a line does). aresetn is synchronous, active low. The fields of tuser, highest first:
//
//   s_axis_enc_tuser  [5] code  [4:3] phase  [2:0] element type
//   m_axis_enc_tuser  [0] 1: a frame; 0: the block as it is
//   s_axis_dec_tuser  [18:7] length less one  [6:5] phase  [4:2] element type
//                     [1] expect these three  [0] coded
//   m_axis_dec_tuser  at tlast: 0 good, 1 truncated, 2 corrupt, 3 unsupported
//
//   latency       that of wz_engine
//   throughput    that of wz_engine
//   back-pressure that of wz_engine

module wz_engine_ip #(
    parameter integer DATA_W = 512,  // 128, 256 or 512
    parameter integer LANES = DATA_W / 16,  // values a clock in the symbol path: 8 to 64
    parameter [5:0] TYPES = 6'b111111  // element types that are built, bit = tag of the format
) (
    (* X_INTERFACE_INFO = "xilinx.com:signal:clock:1.0 aclk CLK" *)
    (* X_INTERFACE_PARAMETER = "ASSOCIATED_BUSIF s_axis_enc:m_axis_enc:s_axis_dec:m_axis_dec:s_axis_ref:s_axil, ASSOCIATED_RESET aresetn" *)
    input  wire aclk,
    (* X_INTERFACE_INFO = "xilinx.com:signal:reset:1.0 aresetn RST" *)
    (* X_INTERFACE_PARAMETER = "POLARITY ACTIVE_LOW" *)
    input  wire aresetn,

    (* X_INTERFACE_INFO = "xilinx.com:interface:axis_rtl:1.0 s_axis_enc TDATA" *)
    input  wire [DATA_W-1:0] s_axis_enc_tdata,
    (* X_INTERFACE_INFO = "xilinx.com:interface:axis_rtl:1.0 s_axis_enc TKEEP" *)
    input  wire [DATA_W/8-1:0] s_axis_enc_tkeep,
    (* X_INTERFACE_INFO = "xilinx.com:interface:axis_rtl:1.0 s_axis_enc TLAST" *)
    input  wire s_axis_enc_tlast,
    (* X_INTERFACE_INFO = "xilinx.com:interface:axis_rtl:1.0 s_axis_enc TUSER" *)
    input  wire [5:0] s_axis_enc_tuser,
    (* X_INTERFACE_INFO = "xilinx.com:interface:axis_rtl:1.0 s_axis_enc TVALID" *)
    input  wire s_axis_enc_tvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:axis_rtl:1.0 s_axis_enc TREADY" *)
    output wire s_axis_enc_tready,

    (* X_INTERFACE_INFO = "xilinx.com:interface:axis_rtl:1.0 m_axis_enc TDATA" *)
    output wire [DATA_W-1:0] m_axis_enc_tdata,
    (* X_INTERFACE_INFO = "xilinx.com:interface:axis_rtl:1.0 m_axis_enc TKEEP" *)
    output wire [DATA_W/8-1:0] m_axis_enc_tkeep,
    (* X_INTERFACE_INFO = "xilinx.com:interface:axis_rtl:1.0 m_axis_enc TLAST" *)
    output wire m_axis_enc_tlast,
    (* X_INTERFACE_INFO = "xilinx.com:interface:axis_rtl:1.0 m_axis_enc TUSER" *)
    output wire [0:0] m_axis_enc_tuser,
    (* X_INTERFACE_INFO = "xilinx.com:interface:axis_rtl:1.0 m_axis_enc TVALID" *)
    output wire m_axis_enc_tvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:axis_rtl:1.0 m_axis_enc TREADY" *)
    input  wire m_axis_enc_tready,

    (* X_INTERFACE_INFO = "xilinx.com:interface:axis_rtl:1.0 s_axis_dec TDATA" *)
    input  wire [DATA_W-1:0] s_axis_dec_tdata,
    (* X_INTERFACE_INFO = "xilinx.com:interface:axis_rtl:1.0 s_axis_dec TKEEP" *)
    input  wire [DATA_W/8-1:0] s_axis_dec_tkeep,
    (* X_INTERFACE_INFO = "xilinx.com:interface:axis_rtl:1.0 s_axis_dec TLAST" *)
    input  wire s_axis_dec_tlast,
    (* X_INTERFACE_INFO = "xilinx.com:interface:axis_rtl:1.0 s_axis_dec TUSER" *)
    input  wire [18:0] s_axis_dec_tuser,
    (* X_INTERFACE_INFO = "xilinx.com:interface:axis_rtl:1.0 s_axis_dec TVALID" *)
    input  wire s_axis_dec_tvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:axis_rtl:1.0 s_axis_dec TREADY" *)
    output wire s_axis_dec_tready,

    (* X_INTERFACE_INFO = "xilinx.com:interface:axis_rtl:1.0 m_axis_dec TDATA" *)
    output wire [DATA_W-1:0] m_axis_dec_tdata,
    (* X_INTERFACE_INFO = "xilinx.com:interface:axis_rtl:1.0 m_axis_dec TKEEP" *)
    output wire [DATA_W/8-1:0] m_axis_dec_tkeep,
    (* X_INTERFACE_INFO = "xilinx.com:interface:axis_rtl:1.0 m_axis_dec TLAST" *)
    output wire m_axis_dec_tlast,
    (* X_INTERFACE_INFO = "xilinx.com:interface:axis_rtl:1.0 m_axis_dec TUSER" *)
    output wire [1:0] m_axis_dec_tuser,
    (* X_INTERFACE_INFO = "xilinx.com:interface:axis_rtl:1.0 m_axis_dec TVALID" *)
    output wire m_axis_dec_tvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:axis_rtl:1.0 m_axis_dec TREADY" *)
    input  wire m_axis_dec_tready,

    (* X_INTERFACE_INFO = "xilinx.com:interface:axis_rtl:1.0 s_axis_ref TDATA" *)
    input  wire [DATA_W-1:0] s_axis_ref_tdata,
    (* X_INTERFACE_INFO = "xilinx.com:interface:axis_rtl:1.0 s_axis_ref TKEEP" *)
    input  wire [DATA_W/8-1:0] s_axis_ref_tkeep,
    (* X_INTERFACE_INFO = "xilinx.com:interface:axis_rtl:1.0 s_axis_ref TLAST" *)
    input  wire s_axis_ref_tlast,
    (* X_INTERFACE_INFO = "xilinx.com:interface:axis_rtl:1.0 s_axis_ref TVALID" *)
    input  wire s_axis_ref_tvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:axis_rtl:1.0 s_axis_ref TREADY" *)
    output wire s_axis_ref_tready,

    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axil AWADDR" *)
    input  wire [11:0] s_axil_awaddr,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axil AWPROT" *)
    input  wire [2:0] s_axil_awprot,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axil AWVALID" *)
    input  wire s_axil_awvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axil AWREADY" *)
    output wire s_axil_awready,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axil WDATA" *)
    input  wire [31:0] s_axil_wdata,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axil WSTRB" *)
    input  wire [3:0] s_axil_wstrb,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axil WVALID" *)
    input  wire s_axil_wvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axil WREADY" *)
    output wire s_axil_wready,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axil BRESP" *)
    output wire [1:0] s_axil_bresp,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axil BVALID" *)
    output wire s_axil_bvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axil BREADY" *)
    input  wire s_axil_bready,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axil ARADDR" *)
    input  wire [11:0] s_axil_araddr,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axil ARPROT" *)
    input  wire [2:0] s_axil_arprot,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axil ARVALID" *)
    input  wire s_axil_arvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axil ARREADY" *)
    output wire s_axil_arready,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axil RDATA" *)
    output wire [31:0] s_axil_rdata,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axil RRESP" *)
    output wire [1:0] s_axil_rresp,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axil RVALID" *)
    output wire s_axil_rvalid,
    (* X_INTERFACE_INFO = "xilinx.com:interface:aximm_rtl:1.0 s_axil RREADY" *)
    input  wire s_axil_rready
);

  wz_engine #(
      .DATA_W(DATA_W),
      .LANES(LANES),
      .TYPES(TYPES)
  ) u_engine (
      .clk(aclk),
      .rst(!aresetn),
      .s_axis_enc_tdata(s_axis_enc_tdata),
      .s_axis_enc_tkeep(s_axis_enc_tkeep),
      .s_axis_enc_tlast(s_axis_enc_tlast),
      .s_axis_enc_tuser(s_axis_enc_tuser),
      .s_axis_enc_tvalid(s_axis_enc_tvalid),
      .s_axis_enc_tready(s_axis_enc_tready),
      .m_axis_enc_tdata(m_axis_enc_tdata),
      .m_axis_enc_tkeep(m_axis_enc_tkeep),
      .m_axis_enc_tlast(m_axis_enc_tlast),
      .m_axis_enc_tuser(m_axis_enc_tuser),
      .m_axis_enc_tvalid(m_axis_enc_tvalid),
      .m_axis_enc_tready(m_axis_enc_tready),
      .s_axis_dec_tdata(s_axis_dec_tdata),
      .s_axis_dec_tkeep(s_axis_dec_tkeep),
      .s_axis_dec_tlast(s_axis_dec_tlast),
      .s_axis_dec_tuser(s_axis_dec_tuser),
      .s_axis_dec_tvalid(s_axis_dec_tvalid),
      .s_axis_dec_tready(s_axis_dec_tready),
      .m_axis_dec_tdata(m_axis_dec_tdata),
      .m_axis_dec_tkeep(m_axis_dec_tkeep),
      .m_axis_dec_tlast(m_axis_dec_tlast),
      .m_axis_dec_tuser(m_axis_dec_tuser),
      .m_axis_dec_tvalid(m_axis_dec_tvalid),
      .m_axis_dec_tready(m_axis_dec_tready),
      .s_axis_ref_tdata(s_axis_ref_tdata),
      .s_axis_ref_tkeep(s_axis_ref_tkeep),
      .s_axis_ref_tlast(s_axis_ref_tlast),
      .s_axis_ref_tvalid(s_axis_ref_tvalid),
      .s_axis_ref_tready(s_axis_ref_tready),
      .s_axil_awaddr(s_axil_awaddr),
      .s_axil_awprot(s_axil_awprot),
      .s_axil_awvalid(s_axil_awvalid),
      .s_axil_awready(s_axil_awready),
      .s_axil_wdata(s_axil_wdata),
      .s_axil_wstrb(s_axil_wstrb),
      .s_axil_wvalid(s_axil_wvalid),
      .s_axil_wready(s_axil_wready),
      .s_axil_bresp(s_axil_bresp),
      .s_axil_bvalid(s_axil_bvalid),
      .s_axil_bready(s_axil_bready),
      .s_axil_araddr(s_axil_araddr),
      .s_axil_arprot(s_axil_arprot),
      .s_axil_arvalid(s_axil_arvalid),
      .s_axil_arready(s_axil_arready),
      .s_axil_rdata(s_axil_rdata),
      .s_axil_rresp(s_axil_rresp),
      .s_axil_rvalid(s_axil_rvalid),
      .s_axil_rready(s_axil_rready)
  );

endmodule
