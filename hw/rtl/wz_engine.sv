// SPDX-License-Identifier: Apache-2.0
//
// The engine: encoder and decoder, each behind a bypass, with registers and counters.
//
//   s_axis_enc    blocks; tuser block_user_t, at a packet's first beat
//   m_axis_enc    frames, or blocks as they are; tuser 1 for a frame, in all beats
//   s_axis_dec    frames or blocks; tuser packet_user_t, at a packet's first beat
//   m_axis_dec    blocks; tuser error_e, at tlast: a packet with an error ends like any other
//   s_axis_ref    resident copies, reserved for reference mode: never ready
//   s_axil        registers (docs/csr.md)
//
// One packet in gives one packet out, in order, in each direction; only packets of more than 4096
// bytes are cut by the encoder into blocks of 4096. After reset both directions are in bypass: a
// wire with one register, of any packet length, tuser 0 at the output. A change of configuration
// takes effect at the next packet boundary once everything has left.
//
// One clock. `rst` is synchronous, active high, and is needed for one clock. All stream outputs but
// the ready signals are driven by flops.
//
//   latency       bypass 1 clock; else 1 clock added to that of wz_encoder and wz_decoder
//   throughput    that of wz_encoder and wz_decoder; in bypass 1 beat a clock
//   back-pressure passed on from outputs to inputs, per direction

module wz_engine
  import wz_format_pkg::*;
  import wz_pkg::*;
  import wz_csr_pkg::*;
#(
    parameter int unsigned DATA_W = 512,  // 128, 256 or 512
    parameter int unsigned LANES = DATA_W / 16,  // values a clock in the symbol path: 8 to 64
    parameter logic [5:0] TYPES = 6'b111111,  // element types that are built, bit = tag
    localparam int unsigned KEEP_W = DATA_W / 8
) (
    input logic clk,
    input logic rst,

    input  logic        [DATA_W-1:0] s_axis_enc_tdata,
    input  logic        [KEEP_W-1:0] s_axis_enc_tkeep,
    input  logic                     s_axis_enc_tlast,
    input  block_user_t              s_axis_enc_tuser,
    input  logic                     s_axis_enc_tvalid,
    output logic                     s_axis_enc_tready,

    output logic [DATA_W-1:0] m_axis_enc_tdata,
    output logic [KEEP_W-1:0] m_axis_enc_tkeep,
    output logic              m_axis_enc_tlast,
    output logic              m_axis_enc_tuser,
    output logic              m_axis_enc_tvalid,
    input  logic              m_axis_enc_tready,

    input  logic         [DATA_W-1:0] s_axis_dec_tdata,
    input  logic         [KEEP_W-1:0] s_axis_dec_tkeep,
    input  logic                      s_axis_dec_tlast,
    input  packet_user_t              s_axis_dec_tuser,
    input  logic                      s_axis_dec_tvalid,
    output logic                      s_axis_dec_tready,

    output logic   [DATA_W-1:0] m_axis_dec_tdata,
    output logic   [KEEP_W-1:0] m_axis_dec_tkeep,
    output logic                m_axis_dec_tlast,
    output error_e              m_axis_dec_tuser,
    output logic                m_axis_dec_tvalid,
    input  logic                m_axis_dec_tready,

    input  logic [DATA_W-1:0] s_axis_ref_tdata,
    input  logic [KEEP_W-1:0] s_axis_ref_tkeep,
    input  logic              s_axis_ref_tlast,
    input  logic              s_axis_ref_tvalid,
    output logic              s_axis_ref_tready,

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

  // Of the engine, not of the format.
  localparam logic [7:0] VERSION_MAJOR = 8'd0;
  localparam logic [7:0] VERSION_MINOR = 8'd1;
  localparam logic [7:0] VERSION_PATCH = 8'd0;

  localparam int unsigned BLOCK_USER_W = $bits(block_user_t);
  localparam int unsigned PACKET_USER_W = $bits(packet_user_t);
  localparam int unsigned ERROR_W = $bits(error_e);

  // What the gates hold until a path is empty; `enable` is bit 0.
  typedef struct packed {
    logic [12:0] min_bytes;
    logic [5:0] types;
    logic bare;
    logic enable;
  } enc_config_t;
  typedef struct packed {
    logic bare;
    logic enable;
  } dec_config_t;

  // Registers.

  wz_csr_control__in_t csr_in;
  wz_csr_control__out_t csr_out;
  enc_config_t enc_want, enc_active;
  dec_config_t dec_want, dec_active;
  logic enc_busy, dec_busy, enc_busy_q, dec_busy_q, enc_pending, dec_pending;

  logic access, access_write, access_ack, access_error;
  logic [11:0] access_address;
  logic [31:0] access_write_data, access_write_bits, access_read_data;

  wz_axil #(
      .ADDRESS_W(12)
  ) u_axil (
      .clk,
      .rst,
      .s_axil_awaddr,
      .s_axil_awprot,
      .s_axil_awvalid,
      .s_axil_awready,
      .s_axil_wdata,
      .s_axil_wstrb,
      .s_axil_wvalid,
      .s_axil_wready,
      .s_axil_bresp,
      .s_axil_bvalid,
      .s_axil_bready,
      .s_axil_araddr,
      .s_axil_arprot,
      .s_axil_arvalid,
      .s_axil_arready,
      .s_axil_rdata,
      .s_axil_rresp,
      .s_axil_rvalid,
      .s_axil_rready,
      .request(access),
      .is_write(access_write),
      .address(access_address),
      .write_data(access_write_data),
      .write_bits(access_write_bits),
      .ack(access_ack),
      .error(access_error),
      .read_data(access_read_data)
  );

  // Control registers begin at 0x000, counters at 0x100. The latter may only be read.
  logic access_control, access_counters;
  logic control_read_ack, control_read_error, control_write_ack, control_write_error;
  logic control_read_stall, control_write_stall, counters_ack;
  logic [31:0] control_read_data, counters_read_data;
  localparam int unsigned CONTROL_W = WZ_CSR_MIN_ADDR_WIDTH;

  // Decoded in a clock of its own.
  logic control_q, counters_q, nothing_q;
  always_ff @(posedge clk) begin
    control_q <= access && access_control;
    counters_q <= access && access_counters;
    nothing_q <= access && !access_control && !access_counters;
    if (rst) begin
      control_q <= 1'b0;
      counters_q <= 1'b0;
      nothing_q <= 1'b0;
    end
  end

  assign access_control = access_address[11:CONTROL_W] == '0;
  assign access_counters = access_address[11:8] == 4'h1 && !access_write;
  assign access_ack = control_read_ack || control_write_ack || counters_ack || nothing_q;
  assign access_error = control_read_error || control_write_error || nothing_q;
  assign access_read_data = counters_ack ? counters_read_data : control_read_data;

  wz_csr u_csr (
      .clk,
      .rst,
      .s_cpuif_req(control_q),
      .s_cpuif_req_is_wr(access_write),
      .s_cpuif_addr({access_address[CONTROL_W-1:2], 2'b00}),
      .s_cpuif_wr_data(access_write_data),
      .s_cpuif_wr_biten(access_write_bits),
      .s_cpuif_req_stall_wr(control_write_stall),
      .s_cpuif_req_stall_rd(control_read_stall),
      .s_cpuif_rd_ack(control_read_ack),
      .s_cpuif_rd_err(control_read_error),
      .s_cpuif_rd_data(control_read_data),
      .s_cpuif_wr_ack(control_write_ack),
      .s_cpuif_wr_err(control_write_error),
      .hwif_in(csr_in),
      .hwif_out(csr_out)
  );

  assign csr_in.version.format.next = 8'(FORMAT_VERSION);
  assign csr_in.version.major.next = VERSION_MAJOR;
  assign csr_in.version.minor.next = VERSION_MINOR;
  assign csr_in.version.patch.next = VERSION_PATCH;
  assign csr_in.build.data_bytes.next = 8'(KEEP_W);
  assign csr_in.build.lanes.next = 8'(LANES);
  assign csr_in.build.types.next = TYPES;
  assign csr_in.build.by_reference.next = 1'b0;
  assign csr_in.enc_status.enabled.next = enc_active.enable;
  assign csr_in.enc_status.busy.next = enc_busy_q;
  assign csr_in.enc_status.pending.next = enc_pending;
  assign csr_in.dec_status.enabled.next = dec_active.enable;
  assign csr_in.dec_status.busy.next = dec_busy_q;
  assign csr_in.dec_status.pending.next = dec_pending;

  always_ff @(posedge clk) begin
    enc_busy_q <= enc_busy;
    dec_busy_q <= dec_busy;
  end

  assign enc_want = '{
          min_bytes: csr_out.enc_policy.min_bytes.value,
          types: csr_out.enc_policy.types.value,
          bare: csr_out.enc_control.bare.value,
          enable: csr_out.enc_control.enable.value
      };
  assign dec_want = '{
          bare: csr_out.dec_control.bare.value,
          enable: csr_out.dec_control.enable.value
      };

  // Encoder.

  logic [DATA_W-1:0] enc_in_tdata, enc_out_tdata;
  logic [KEEP_W-1:0] enc_in_tkeep, enc_out_tkeep;
  block_user_t enc_in_tuser, enc_in_policy;
  logic enc_in_tlast, enc_in_tvalid, enc_in_tready;
  logic enc_out_tlast, enc_out_tuser, enc_out_tvalid, enc_out_tready;
  logic enc_rst, enc_bypassed, enc_cut, enc_event_valid, enc_event_coded;
  mode_e enc_event_mode;

  wz_gate #(
      .DATA_W(DATA_W),
      .S_USER_W(BLOCK_USER_W),
      .M_USER_W(1),
      .CONFIG_W($bits(enc_config_t)),
      .CUT_BYTES(BLOCK_BYTES_MAX)
  ) u_enc_gate (
      .clk,
      .rst,
      .flush(csr_out.enc_control.flush.value),
      .want(enc_want),
      .active(enc_active),
      .pending(enc_pending),
      .busy(enc_busy),
      .bypassed(enc_bypassed),
      .cut(enc_cut),
      .s_axis_tdata(s_axis_enc_tdata),
      .s_axis_tkeep(s_axis_enc_tkeep),
      .s_axis_tlast(s_axis_enc_tlast),
      .s_axis_tuser(s_axis_enc_tuser),
      .s_axis_tvalid(s_axis_enc_tvalid),
      .s_axis_tready(s_axis_enc_tready),
      .m_axis_tdata(m_axis_enc_tdata),
      .m_axis_tkeep(m_axis_enc_tkeep),
      .m_axis_tlast(m_axis_enc_tlast),
      .m_axis_tuser(m_axis_enc_tuser),
      .m_axis_tvalid(m_axis_enc_tvalid),
      .m_axis_tready(m_axis_enc_tready),
      .core_rst(enc_rst),
      .m_core_tdata(enc_in_tdata),
      .m_core_tkeep(enc_in_tkeep),
      .m_core_tlast(enc_in_tlast),
      .m_core_tuser(enc_in_tuser),
      .m_core_tvalid(enc_in_tvalid),
      .m_core_tready(enc_in_tready),
      .s_core_tdata(enc_out_tdata),
      .s_core_tkeep(enc_out_tkeep),
      .s_core_tlast(enc_out_tlast),
      .s_core_tuser(enc_out_tuser),
      .s_core_tvalid(enc_out_tvalid),
      .s_core_tready(enc_out_tready)
  );

  // Policy by type; that by length waits in wz_encoder for the end of the block.
  logic [7:0] coded_types;
  assign coded_types = {2'b00, enc_active.types};
  always_comb begin
    enc_in_policy = enc_in_tuser;
    enc_in_policy.code = enc_in_tuser.code && coded_types[enc_in_tuser.element];
  end

  wz_encoder #(
      .DATA_W(DATA_W),
      .LANES (LANES),
      .TYPES (TYPES)
  ) u_encoder (
      .clk,
      .rst(enc_rst),
      .bare(enc_active.bare),
      .min_bytes(enc_active.min_bytes),
      .s_axis_tdata(enc_in_tdata),
      .s_axis_tkeep(enc_in_tkeep),
      .s_axis_tlast(enc_in_tlast),
      .s_axis_tuser(enc_in_policy),
      .s_axis_tvalid(enc_in_tvalid),
      .s_axis_tready(enc_in_tready),
      .m_axis_tdata(enc_out_tdata),
      .m_axis_tkeep(enc_out_tkeep),
      .m_axis_tlast(enc_out_tlast),
      .m_axis_tuser(enc_out_tuser),
      .m_axis_tvalid(enc_out_tvalid),
      .m_axis_tready(enc_out_tready),
      .event_valid(enc_event_valid),
      .event_coded(enc_event_coded),
      .event_mode(enc_event_mode)
  );

  // Decoder.

  logic [DATA_W-1:0] dec_in_tdata, dec_out_tdata;
  logic [KEEP_W-1:0] dec_in_tkeep, dec_out_tkeep;
  packet_user_t dec_in_tuser;
  error_e dec_out_tuser, dec_event_error;
  logic dec_in_tlast, dec_in_tvalid, dec_in_tready;
  logic dec_out_tlast, dec_out_tvalid, dec_out_tready;
  logic dec_rst, dec_bypassed, dec_cut, dec_event_valid, dec_event_coded;
  mode_e dec_event_mode;
  logic [ERROR_W-1:0] dec_m_tuser;
  assign m_axis_dec_tuser = error_e'(dec_m_tuser);

  wz_gate #(
      .DATA_W(DATA_W),
      .S_USER_W(PACKET_USER_W),
      .M_USER_W(ERROR_W),
      .CONFIG_W($bits(dec_config_t))
  ) u_dec_gate (
      .clk,
      .rst,
      .flush(csr_out.dec_control.flush.value),
      .want(dec_want),
      .active(dec_active),
      .pending(dec_pending),
      .busy(dec_busy),
      .bypassed(dec_bypassed),
      .cut(dec_cut),
      .s_axis_tdata(s_axis_dec_tdata),
      .s_axis_tkeep(s_axis_dec_tkeep),
      .s_axis_tlast(s_axis_dec_tlast),
      .s_axis_tuser(s_axis_dec_tuser),
      .s_axis_tvalid(s_axis_dec_tvalid),
      .s_axis_tready(s_axis_dec_tready),
      .m_axis_tdata(m_axis_dec_tdata),
      .m_axis_tkeep(m_axis_dec_tkeep),
      .m_axis_tlast(m_axis_dec_tlast),
      .m_axis_tuser(dec_m_tuser),
      .m_axis_tvalid(m_axis_dec_tvalid),
      .m_axis_tready(m_axis_dec_tready),
      .core_rst(dec_rst),
      .m_core_tdata(dec_in_tdata),
      .m_core_tkeep(dec_in_tkeep),
      .m_core_tlast(dec_in_tlast),
      .m_core_tuser(dec_in_tuser),
      .m_core_tvalid(dec_in_tvalid),
      .m_core_tready(dec_in_tready),
      .s_core_tdata(dec_out_tdata),
      .s_core_tkeep(dec_out_tkeep),
      .s_core_tlast(dec_out_tlast),
      .s_core_tuser(dec_out_tuser),
      .s_core_tvalid(dec_out_tvalid),
      .s_core_tready(dec_out_tready)
  );

  wz_decoder #(
      .DATA_W(DATA_W),
      .LANES (LANES),
      .TYPES (TYPES)
  ) u_decoder (
      .clk,
      .rst(dec_rst),
      .bare(dec_active.bare),
      .s_axis_tdata(dec_in_tdata),
      .s_axis_tkeep(dec_in_tkeep),
      .s_axis_tlast(dec_in_tlast),
      .s_axis_tuser(dec_in_tuser),
      .s_axis_tvalid(dec_in_tvalid),
      .s_axis_tready(dec_in_tready),
      .m_axis_tdata(dec_out_tdata),
      .m_axis_tkeep(dec_out_tkeep),
      .m_axis_tlast(dec_out_tlast),
      .m_axis_tuser(dec_out_tuser),
      .m_axis_tvalid(dec_out_tvalid),
      .m_axis_tready(dec_out_tready),
      .event_valid(dec_event_valid),
      .event_coded(dec_event_coded),
      .event_mode(dec_event_mode),
      .event_error(dec_event_error)
  );

  // Statistics.

  logic [31:0][6:0] step;
  logic [2:0] dec_errors;
  assign dec_errors = {
    dec_event_valid && dec_event_error == ERROR_UNSUPPORTED,
    dec_event_valid && dec_event_error == ERROR_CORRUPT,
    dec_event_valid && dec_event_error == ERROR_TRUNCATED
  };

  wz_monitor #(
      .DATA_W(DATA_W)
  ) u_enc_monitor (
      .clk,
      .rst,
      .busy(enc_busy),
      .bypassed(enc_bypassed),
      .in_tkeep(s_axis_enc_tkeep),
      .in_tvalid(s_axis_enc_tvalid),
      .in_tready(s_axis_enc_tready),
      .out_tkeep(m_axis_enc_tkeep),
      .out_tvalid(m_axis_enc_tvalid),
      .out_tready(m_axis_enc_tready),
      .event_valid(enc_event_valid),
      .event_good(1'b1),
      .event_coded(enc_event_coded),
      .event_mode(enc_event_mode),
      .other({1'b1, 1'b0, enc_cut}),  // the highest counts clocks
      .step(step[15:0])
  );

  wz_monitor #(
      .DATA_W(DATA_W)
  ) u_dec_monitor (
      .clk,
      .rst,
      .busy(dec_busy),
      .bypassed(dec_bypassed),
      .in_tkeep(s_axis_dec_tkeep),
      .in_tvalid(s_axis_dec_tvalid),
      .in_tready(s_axis_dec_tready),
      .out_tkeep(m_axis_dec_tkeep),
      .out_tvalid(m_axis_dec_tvalid),
      .out_tready(m_axis_dec_tready),
      .event_valid(dec_event_valid),
      .event_good(dec_event_error == ERROR_NONE),
      .event_coded(dec_event_coded),
      .event_mode(dec_event_mode),
      .other(dec_errors),
      .step(step[31:16])
  );

  wz_counters #(
      .WIDE(32'h0060_0060)  // the bytes
  ) u_counters (
      .clk,
      .rst,
      .step,
      .snapshot(csr_out.statistics.snapshot.value),
      .clear(csr_out.statistics.clear.value),
      .busy(csr_in.statistics.busy.next),
      .read_req(counters_q),
      .read_address(access_address[7:2]),
      .read_data(counters_read_data),
      .read_ack(counters_ack)
  );

  // Reserved.
  assign s_axis_ref_tready = 1'b0;
  wire unused = &{
      1'b0, s_axis_ref_tdata, s_axis_ref_tkeep, s_axis_ref_tlast, s_axis_ref_tvalid, dec_cut,
      control_read_stall, control_write_stall, access_address[1:0]
  };

`ifndef SYNTHESIS
  initial begin
    assert (DATA_W == 128 || DATA_W == 256 || DATA_W == 512);
    assert (LANES == 8 || LANES == 16 || LANES == 32 || LANES == 64);
  end
`endif

  wz_axis_check #(
      .DATA_W(DATA_W),
      .USER_W(BLOCK_USER_W)
  ) u_check_s_enc (
      .clk,
      .rst,
      .tdata(s_axis_enc_tdata),
      .tkeep(s_axis_enc_tkeep),
      .tlast(s_axis_enc_tlast),
      .tuser(s_axis_enc_tuser),
      .tvalid(s_axis_enc_tvalid),
      .tready(s_axis_enc_tready)
  );

  wz_axis_check #(
      .DATA_W(DATA_W),
      .USER_W(1)
  ) u_check_m_enc (
      .clk,
      .rst(enc_rst),
      .tdata(m_axis_enc_tdata),
      .tkeep(m_axis_enc_tkeep),
      .tlast(m_axis_enc_tlast),
      .tuser(m_axis_enc_tuser),
      .tvalid(m_axis_enc_tvalid),
      .tready(m_axis_enc_tready)
  );

  wz_axis_check #(
      .DATA_W(DATA_W),
      .USER_W(PACKET_USER_W)
  ) u_check_s_dec (
      .clk,
      .rst,
      .tdata(s_axis_dec_tdata),
      .tkeep(s_axis_dec_tkeep),
      .tlast(s_axis_dec_tlast),
      .tuser(s_axis_dec_tuser),
      .tvalid(s_axis_dec_tvalid),
      .tready(s_axis_dec_tready)
  );

  wz_axis_check #(
      .DATA_W(DATA_W),
      .USER_W(ERROR_W)
  ) u_check_m_dec (
      .clk,
      .rst(dec_rst),
      .tdata(m_axis_dec_tdata),
      .tkeep(m_axis_dec_tkeep),
      .tlast(m_axis_dec_tlast),
      .tuser(dec_m_tuser),
      .tvalid(m_axis_dec_tvalid),
      .tready(m_axis_dec_tready)
  );

endmodule
