// SPDX-License-Identifier: Apache-2.0
//
// Encoder: blocks in, frames out (docs/format.md).
//
//   s_axis -> wz_width_up -> wz_analyze -> wz_fifo (beats) -> wz_pack -> wz_width_down -> m_axis
//                                       -> plan, rank tables ->
//
// A packet in is a block of 1 to 4096 bytes (a longer one is cut) with block_user_t at its first beat;
// a packet out is its frame (tuser 1) or, where tuser.code, `bare` or `min_bytes` asks for it, the
// block as it is (tuser 0). A block must be seen to its end before its frame can begin, so the beats
// of up to four wait in a FIFO of 16 KiB.
//
//   latency       DATA_W = 512, LANES = 32, first beat in to first beat out: b clocks for a block of b
//                 beats, those from its last beat to its plan, which wz_analyze states, and those from
//                 there to the first word, which wz_pack states (14 for BF16, 22 with bare zeros)
//   throughput    clocks a block: the most of its beats in, its beats out, and what its order takes
//                 in wz_analyze (14 to 34; 64 with values in all eight groups of 32 symbols), or 8
//                 where it has none (RAW). wz_pack says what costs a clock more. A block that is not
//                 to be coded takes its beats; of those shorter than min_bytes, one of several beats
//                 8 clocks for each group of 32 symbols in which a value lies, if that is more
//   back-pressure m_axis_tready holds the second pass back, and s_axis_tready falls when the FIFO of
//                 beats is full

module wz_encoder
  import wz_format_pkg::*;
  import wz_pkg::*;
#(
    parameter int unsigned DATA_W = 512,  // 128, 256 or 512
    parameter int unsigned LANES = DATA_W / 16,  // values a clock in the symbol path: 8 to 64
    parameter logic [5:0] TYPES = 6'b111111,  // element types that are built, bit = tag
    localparam int unsigned KEEP_W = DATA_W / 8
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    // These change only while nothing is inside.
    input logic        bare,  // a block whose frame is not shorter than itself leaves as it is
    input logic [12:0] min_bytes,  // so does a block of fewer bytes

    input  logic        [DATA_W-1:0] s_axis_tdata,
    input  logic        [KEEP_W-1:0] s_axis_tkeep,
    input  logic                     s_axis_tlast,
    input  block_user_t              s_axis_tuser,
    input  logic                     s_axis_tvalid,
    output logic                     s_axis_tready,

    output logic [DATA_W-1:0] m_axis_tdata,
    output logic [KEEP_W-1:0] m_axis_tkeep,
    output logic              m_axis_tlast,
    output logic              m_axis_tuser,  // the packet is a frame
    output logic              m_axis_tvalid,
    input  logic              m_axis_tready,

    // A pulse for each packet, the clock after its last beat was handed over.
    output logic  event_valid,
    output logic  event_coded,
    output mode_e event_mode
);

  localparam int unsigned BEATS = 256;  // that wait for their plan

  logic [511:0] wide_data;
  logic [63:0] wide_keep;
  block_user_t wide_user;
  logic wide_last, wide_valid, wide_ready;

  wz_width_up #(
      .DATA_W(DATA_W),
      .USER_W($bits(block_user_t))
  ) u_width_up (
      .clk,
      .rst,
      .s_axis_tdata,
      .s_axis_tkeep,
      .s_axis_tlast,
      .s_axis_tuser,
      .s_axis_tvalid,
      .s_axis_tready,
      .m_axis_tdata(wide_data),
      .m_axis_tkeep(wide_keep),
      .m_axis_tlast(wide_last),
      .m_axis_tuser(wide_user),
      .m_axis_tvalid(wide_valid),
      .m_axis_tready(wide_ready)
  );

  logic [511:0] new_beat, beat;
  logic new_beat_valid, new_beat_ready, beat_valid, beat_ready;
  plan_t plan;
  logic [7:0] order_lo, order_hi;
  logic plan_valid, plan_ready;
  table_bank_t bank, table_bank;
  logic table_we, table_release;
  logic [4:0] table_symbol, table_step;

  wz_analyze #(
      .LANES(LANES),
      .TYPES(TYPES)
  ) u_analyze (
      .clk,
      .rst,
      .bare,
      .min_bytes,
      .s_axis_tdata(wide_data),
      .s_axis_tkeep(wide_keep),
      .s_axis_tlast(wide_last),
      .s_axis_tuser(wide_user),
      .s_axis_tvalid(wide_valid),
      .s_axis_tready(wide_ready),
      .m_beat_tdata(new_beat),
      .m_beat_tvalid(new_beat_valid),
      .m_beat_tready(new_beat_ready),
      .m_plan_tdata(plan),
      .m_plan_order_lo(order_lo),
      .m_plan_order_hi(order_hi),
      .m_plan_table_bank(bank),
      .m_plan_tvalid(plan_valid),
      .m_plan_tready(plan_ready),
      .table_we,
      .table_bank,
      .table_symbol,
      .table_step,
      .table_release
  );

  logic [$clog2(BEATS):0] beats_level;
  wire unused_level = &{1'b0, beats_level};

  wz_fifo #(
      .W(512),
      .DEPTH(BEATS),
      .MEMORY("block")
  ) u_beats (
      .clk,
      .rst,
      .s_tdata(new_beat),
      .s_tvalid(new_beat_valid),
      .s_tready(new_beat_ready),
      .m_tdata(beat),
      .m_tvalid(beat_valid),
      .m_tready(beat_ready),
      .level(beats_level)
  );

  logic [511:0] out_data;
  logic [63:0] out_keep;
  mode_e out_mode;
  logic out_last, out_user, out_valid, out_ready;

  wz_pack #(
      .LANES(LANES),
      .TYPES(TYPES)
  ) u_pack (
      .clk,
      .rst,
      .s_beat_tdata(beat),
      .s_beat_tvalid(beat_valid),
      .s_beat_tready(beat_ready),
      .s_plan_tdata(plan),
      .s_plan_order_lo(order_lo),
      .s_plan_order_hi(order_hi),
      .s_plan_bank(bank),
      .s_plan_tvalid(plan_valid),
      .s_plan_tready(plan_ready),
      .table_we,
      .table_bank,
      .table_symbol,
      .table_step,
      .table_release,
      .m_axis_tdata(out_data),
      .m_axis_tkeep(out_keep),
      .m_axis_tlast(out_last),
      .m_axis_tuser(out_user),
      .m_axis_mode(out_mode),
      .m_axis_tvalid(out_valid),
      .m_axis_tready(out_ready)
  );

  mode_e mode;
  wz_width_down #(
      .DATA_W(DATA_W),
      .USER_W(1 + MODE_BITS)
  ) u_width_down (
      .clk,
      .rst,
      .s_axis_tdata(out_data),
      .s_axis_tkeep(out_keep),
      .s_axis_tlast(out_last),
      .s_axis_tuser({out_mode, out_user}),
      .s_axis_tvalid(out_valid),
      .s_axis_tready(out_ready),
      .m_axis_tdata,
      .m_axis_tkeep,
      .m_axis_tlast,
      .m_axis_tuser({mode, m_axis_tuser}),
      .m_axis_tvalid,
      .m_axis_tready
  );

  always_ff @(posedge clk) begin
    event_valid <= m_axis_tvalid && m_axis_tready && m_axis_tlast;
    event_coded <= m_axis_tuser;
    event_mode  <= mode;
    if (rst) event_valid <= 1'b0;
  end

`ifndef SYNTHESIS
  initial begin
    assert (DATA_W == 128 || DATA_W == 256 || DATA_W == 512);
    assert (LANES == 8 || LANES == 16 || LANES == 32 || LANES == 64);
  end
  a_stable : assert property (@(posedge clk) disable iff (rst)
      m_axis_tvalid && !m_axis_tready |=> m_axis_tvalid && $stable(m_axis_tdata)
      && $stable(m_axis_tkeep) && $stable(m_axis_tlast) && $stable(m_axis_tuser));
`endif

endmodule
