// SPDX-License-Identifier: Apache-2.0
//
// Stands around the encoder or the decoder: bypass, changes of configuration, flush.
//
// In bypass the input goes to the output as it came, with tuser 0. `active` is the configuration in
// force, bit 0 of it enables the core. When `want` differs, the gate stops taking beats after the
// packet that is coming in, waits until everything has left, and then lets `want` be active: a
// configuration never changes while a packet is inside, and nothing is lost or overtaken.
//
// `flush` resets the core and drops all that is inside. Of a packet that is coming in the rest is
// taken and dropped too; on the output a packet may then stay without its end, and a valid beat may
// be withdrawn.
//
// With CUT_BYTES, a packet for the core ends after so many bytes and goes on as another with the
// same tuser.
//
//   latency       bypass 1 clock; with the core, 1 clock added to its own
//   throughput    1 beat a clock
//   back-pressure that of the output or of the core; also while a change waits, and while 512
//                 packets are inside. m_axis is driven by flops

module wz_gate #(
    parameter int unsigned DATA_W = 512,
    parameter int unsigned S_USER_W = 6,
    parameter int unsigned M_USER_W = 1,
    parameter int unsigned CONFIG_W = 2,
    parameter int unsigned CUT_BYTES = 0,
    localparam int unsigned KEEP_W = DATA_W / 8
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input  logic                flush,
    input  logic [CONFIG_W-1:0] want,
    output logic [CONFIG_W-1:0] active,
    output logic                pending,   // `want` is not in force yet
    output logic                busy,      // a packet is inside
    output logic                bypassed,  // pulse: a packet has passed in bypass
    output logic                cut,       // pulse: a packet was cut

    input  logic [  DATA_W-1:0] s_axis_tdata,
    input  logic [  KEEP_W-1:0] s_axis_tkeep,
    input  logic                s_axis_tlast,
    input  logic [S_USER_W-1:0] s_axis_tuser,
    input  logic                s_axis_tvalid,
    output logic                s_axis_tready,

    output logic [  DATA_W-1:0] m_axis_tdata,
    output logic [  KEEP_W-1:0] m_axis_tkeep,
    output logic                m_axis_tlast,
    output logic [M_USER_W-1:0] m_axis_tuser,
    output logic                m_axis_tvalid,
    input  logic                m_axis_tready,

    // To the core and back.
    output logic                core_rst,
    output logic [  DATA_W-1:0] m_core_tdata,
    output logic [  KEEP_W-1:0] m_core_tkeep,
    output logic                m_core_tlast,
    output logic [S_USER_W-1:0] m_core_tuser,
    output logic                m_core_tvalid,
    input  logic                m_core_tready,
    input  logic [  DATA_W-1:0] s_core_tdata,
    input  logic [  KEEP_W-1:0] s_core_tkeep,
    input  logic                s_core_tlast,
    input  logic [M_USER_W-1:0] s_core_tuser,
    input  logic                s_core_tvalid,
    output logic                s_core_tready
);

  typedef enum logic [1:0] {
    RUN,
    DRAIN,  // a change waits until nothing is inside
    SETTLE,  // `differs_q` catches up with the new configuration
    SKIP  // the rest of a packet that a flush has cut off
  } state_e;

  localparam int unsigned COUNT_W = 10;
  localparam int unsigned FLUSH_CLOCKS = 4;

  state_e state_q, state_d;
  logic open_q, skip_q;  // RUN with room, and SKIP: the clocks in which beats are taken
  logic entered_q, left_q, empty;
  logic [CONFIG_W-1:0] active_q;
  logic differs_q;
  logic in_packet_q;  // between the first and the last beat of a packet at the input
  logic [COUNT_W-1:0] count_q;  // packets taken and not yet given
  logic [FLUSH_CLOCKS-1:0] flush_q;
  logic core_rst_q;
  logic enable, open, take, take_block, give, cut_here;
  logic out_ready, out_valid;

  assign active = active_q;
  assign pending = differs_q;
  assign core_rst = core_rst_q || rst;
  assign enable = active_q[0];
  assign busy = in_packet_q || entered_q || count_q != '0;

  assign open = open_q;
  assign s_axis_tready = skip_q || (open && (enable ? m_core_tready : out_ready));
  assign take = s_axis_tvalid && s_axis_tready;
  assign take_block = take && open_q && (s_axis_tlast || (enable && cut_here));
  assign give = m_axis_tvalid && m_axis_tready && m_axis_tlast;

  always_comb begin
    state_d = state_q;
    unique case (state_q)
      RUN: if (differs_q && (take ? s_axis_tlast : !in_packet_q)) state_d = DRAIN;
      DRAIN: if (empty) state_d = SETTLE;
      SETTLE: state_d = RUN;
      default: if (take && s_axis_tlast) state_d = RUN;
    endcase
    if (core_rst_q) state_d = in_packet_q ? SKIP : RUN;
    if (rst) state_d = RUN;
  end

  // What enters is counted a clock later than it does; before that it cannot leave.
  assign empty = count_q == '0 && !entered_q;

  always_ff @(posedge clk) begin
    flush_q <= {flush_q[FLUSH_CLOCKS-2:0], flush};
    core_rst_q <= |flush_q || rst;  // one clock longer than rst, so that `want` has settled

    if (take) in_packet_q <= !s_axis_tlast;
    entered_q <= take_block;
    left_q <= give;
    if (entered_q && !left_q) count_q <= count_q + 1'b1;
    if (!entered_q && left_q) count_q <= count_q - 1'b1;

    state_q <= state_d;
    open_q <= state_d == RUN && !count_q[COUNT_W-1] && !(|flush_q);
    skip_q <= state_d == SKIP && !(|flush_q);

    differs_q <= want != active_q;
    if (state_q == DRAIN && empty) active_q <= want;

    if (core_rst_q) begin
      active_q  <= want;
      differs_q <= 1'b0;
    end
    if (core_rst) begin
      count_q   <= '0;
      entered_q <= 1'b0;
      left_q    <= 1'b0;
    end
    if (rst) begin
      active_q <= '0;
      in_packet_q <= 1'b0;
      flush_q <= '0;
      open_q <= 1'b0;
      skip_q <= 1'b0;
    end
  end

  // To the core.
  if (CUT_BYTES == 0) begin : g_whole
    assign cut_here = 1'b0;
    assign cut = 1'b0;
    assign m_core_tuser = s_axis_tuser;
  end else begin : g_cut
    localparam int unsigned BEATS = CUT_BYTES / KEEP_W;
    localparam int unsigned BEAT_W = $clog2(BEATS);
    logic [BEAT_W-1:0] beat_q;
    logic [S_USER_W-1:0] user_q;
    logic cut_q;
    assign cut_here = &beat_q;
    assign cut = cut_q;
    assign m_core_tuser = in_packet_q ? user_q : s_axis_tuser;
    always_ff @(posedge clk) begin
      if (take) beat_q <= s_axis_tlast ? '0 : beat_q + 1'b1;
      if (take && !in_packet_q) user_q <= s_axis_tuser;
      cut_q <= take && enable && cut_here && !s_axis_tlast && open_q;
      if (core_rst) begin
        beat_q <= '0;
        cut_q  <= 1'b0;
      end
    end
`ifndef SYNTHESIS
    initial assert (BEATS * KEEP_W == CUT_BYTES && BEATS == 1 << BEAT_W);
`endif
  end

  assign m_core_tdata = s_axis_tdata;
  assign m_core_tkeep = s_axis_tkeep;
  assign m_core_tlast = s_axis_tlast || cut_here;
  assign m_core_tvalid = s_axis_tvalid && open && enable;

  // To the output.
  localparam int unsigned OUT_W = DATA_W + KEEP_W + 1 + M_USER_W;
  logic [OUT_W-1:0] out;
  assign out = enable ? {s_core_tdata, s_core_tkeep, s_core_tlast, s_core_tuser}
      : {s_axis_tdata, s_axis_tkeep, s_axis_tlast, M_USER_W'(0)};
  assign out_valid = enable ? s_core_tvalid : s_axis_tvalid && open;
  assign s_core_tready = enable && out_ready;

  wz_skid #(
      .W(OUT_W)
  ) u_skid (
      .clk,
      .rst(core_rst),
      .s_tdata(out),
      .s_tvalid(out_valid),
      .s_tready(out_ready),
      .m_tdata({m_axis_tdata, m_axis_tkeep, m_axis_tlast, m_axis_tuser}),
      .m_tvalid(m_axis_tvalid),
      .m_tready(m_axis_tready)
  );

  logic bypassed_q;
  assign bypassed = bypassed_q;
  always_ff @(posedge clk) begin
    bypassed_q <= give && !enable;
    if (core_rst) bypassed_q <= 1'b0;
  end

`ifndef SYNTHESIS
  // Latency of the bypass.
  a_bypass : assert property (@(posedge clk) disable iff (core_rst)
      !enable && take && open_q && !m_axis_tvalid |=>
      m_axis_tvalid && m_axis_tdata == $past(s_axis_tdata) && m_axis_tuser == '0);
  // The configuration changes only while nothing is inside.
  a_quiet : assert property (@(posedge clk) disable iff (core_rst)
      busy |=> $stable(active_q));
  a_count : assert property (@(posedge clk) disable iff (core_rst)
      left_q |-> count_q != '0);
`endif

endmodule
