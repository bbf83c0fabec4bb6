// SPDX-License-Identifier: Apache-2.0
//
// First pass of the encoder: what a block is made of, and how it leaves (docs/format.md, sections 2 to
// 8). Its values go on to m_beat at once, with the head stripped, so that the second pass reads them
// from byte 0; the plan, with the finished header, follows when the block has been seen.
//
// s_axis takes a block a packet, 1 to 4096 bytes; a longer packet is cut. m_beat gives ceil(values / V)
// beats a block, zero beyond the last value. m_plan comes once a block, in order, after its last beat.
// Non-zero symbols outside plan_order_lo .. plan_order_hi escape; for those inside, table
// m_plan_table_bank holds the step in the order, at the symbol mod 32. It is complete when the plan is
// valid, and stays until table_release, which the second pass gives once for each plan, in their order,
// when it will not read the table again.
//
// Blocks of types outside TYPES, those with tuser.code 0, and those of fewer than min_bytes bytes get a
// plan with coded 0.
//
//   latency       from a block's last beat to its plan, at 32 lanes: 37 clocks and one for each symbol of
//                 the list that wz_order walks until it has all values (2 at least), at most 57, or 58
//                 where one side of the order ends in its second half; and 8 for each group of 32
//                 symbols in which a value lies but the first (113 for all eight; a partial beat has a
//                 0). 7 for a block that is not to be coded, if none waits before it
//   throughput    1 beat a clock with at most LANES values a beat (else LANES values a clock), and a
//                 coded block every 14 clocks, or as wz_order has it (18 for lists of 15 symbols), or 8
//                 for each group of 32 symbols, whichever is most. A block without a walk takes 8
//                 clocks, one that is not to be coded a clock or its beats
//   back-pressure s_axis_tready follows m_beat_tready in the same clock; it falls while two blocks
//                 wait to be read or some 24 for their plans and, after a reset, for 66 clocks

module wz_analyze
  import wz_format_pkg::*;
  import wz_pkg::*;
  import wz_analyze_pkg::*;
#(
    parameter int unsigned LANES = 32,
    parameter logic [5:0] TYPES = 6'b111111
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    // These change only while nothing is inside.
    input logic        bare,  // a frame that is not shorter than its block is not sent
    input logic [12:0] min_bytes,  // nor that of a block of fewer bytes

    input  logic        [511:0] s_axis_tdata,
    input  logic        [ 63:0] s_axis_tkeep,
    input  logic                s_axis_tlast,
    input  block_user_t         s_axis_tuser,
    input  logic                s_axis_tvalid,
    output logic                s_axis_tready,

    output logic [511:0] m_beat_tdata,
    output logic         m_beat_tvalid,
    input  logic         m_beat_tready,

    output plan_t      m_plan_tdata,
    output logic [7:0] m_plan_order_lo,
    output logic [7:0] m_plan_order_hi,
    output table_bank_t m_plan_table_bank,
    output logic       m_plan_tvalid,
    input  logic       m_plan_tready,

    output logic       table_we,
    output table_bank_t table_bank,
    output logic [4:0] table_symbol,
    output logic [4:0] table_step,
    input  logic       table_release
);

  localparam int unsigned COUNT_W = count_bits(TYPES);
  // That wait for their order. Some of the last may still be on their way when no more is let in.
  localparam int unsigned BLOCKS = 32;
  localparam int unsigned BLOCKS_LEVEL = BLOCKS - 8;

  logic [511:0] data, raw_data;
  logic [63:0] keep, raw_keep;
  logic first, last, code, walk, valid, ready, raw_first, raw_last, raw_valid;
  element_type_e element;
  format_t format;
  logic [1:0] phase;
  logic [11:0] length_less_one;
  logic [23:0] head, tail;

  wz_align #(
      .TYPES(TYPES)
  ) u_align (
      .clk,
      .rst,
      .bare,
      .min_bytes,
      .s_axis_tdata,
      .s_axis_tkeep,
      .s_axis_tlast,
      .s_axis_tuser,
      .s_axis_tvalid,
      .s_axis_tready,
      .m_tdata(data),
      .m_tkeep(keep),
      .m_tfirst(first),
      .m_tlast(last),
      .m_code(code),
      .m_walk(walk),
      .m_element(element),
      .m_format(format),
      .m_phase(phase),
      .m_length_less_one(length_less_one),
      .m_head(head),
      .m_tail(tail),
      .m_tvalid(valid),
      .m_tready(ready),
      .raw_tdata(raw_data),
      .raw_tkeep(raw_keep),
      .raw_first,
      .raw_last,
      .raw_valid
  );

  // A beat leaves for the second pass and, if its symbols count, for the histogram in the same clock.
  logic to_beats, count_ready, room_q, take;
  assign to_beats = keep[0];
  assign m_beat_tdata = data;
  assign m_beat_tvalid = valid && to_beats && room_q && (count_ready || !walk);
  assign ready = room_q && (count_ready || !walk) && (m_beat_tready || !to_beats);
  assign take = valid && ready;

  logic room, start, word_valid, word_first, word_last;
  logic [5:0] word;
  logic [7:0] groups;
  logic [3:0][COUNT_W-1:0] counts;

  wz_histogram #(
      .LANES(LANES),
      .TYPES(TYPES)
  ) u_histogram (
      .clk,
      .rst,
      .s_tdata(data),
      .s_tkeep(keep),
      .s_tlast(last),
      .s_format(format),
      .s_tvalid(valid && walk && room_q && (m_beat_tready || !to_beats)),
      .s_tready(count_ready),
      .m_room(room),
      .m_start(start),
      .m_valid(word_valid),
      .m_first(word_first),
      .m_last(word_last),
      .m_word(word),
      .m_groups(groups),
      .m_counts(counts)
  );

  logic [2:0] periods;
  logic [31:0] pattern;

  wz_period u_period (
      .clk,
      .s_tdata(raw_data),
      .s_tkeep(raw_keep),
      .s_first(raw_first),
      .s_valid(raw_valid),
      .m_periods(periods),
      .m_pattern(pattern)
  );

  traits_t traits, traits_out;
  shape_t shape, shape_out;
  logic traits_valid, traits_out_valid, traits_out_ready, shape_out_valid, shape_out_ready;

  wz_traits #(
      .TYPES(TYPES)
  ) u_traits (
      .clk,
      .rst,
      .bare,
      .min_bytes,
      .s_tdata(data),
      .s_tkeep(keep),
      .s_tfirst(first),
      .s_tlast(last),
      .s_code(code),
      .s_walk(walk),
      .s_element(element),
      .s_format(format),
      .s_phase(phase),
      .s_length_less_one(length_less_one),
      .s_head(head),
      .s_tail(tail),
      .s_tvalid(take),
      .s_periods(periods),
      .s_pattern(pattern),
      .m_traits(traits),
      .m_shape(shape),
      .m_valid(traits_valid)
  );

  // What waits for the order of its block, and for the plans before. As many beats are let in as the
  // FIFOs hold blocks, so they are always ready, and the level of one will do.
  logic traits_ready, shape_ready, crc_ready;
  logic [$clog2(BLOCKS):0] blocks;
  always_ff @(posedge clk) room_q <= blocks < ($clog2(BLOCKS) + 1)'(BLOCKS_LEVEL);

  wz_fifo #(
      .W($bits(traits_t)),
      .DEPTH(BLOCKS)
  ) u_traits_fifo (
      .clk,
      .rst,
      .s_tdata(traits),
      .s_tvalid(traits_valid),
      .s_tready(traits_ready),
      .m_tdata(traits_out),
      .m_tvalid(traits_out_valid),
      .m_tready(traits_out_ready),
      .level(blocks)
  );

  // How many blocks wait is read at the queue of traits alone.
  // verilator lint_off PINCONNECTEMPTY

  wz_fifo #(
      .W($bits(shape_t)),
      .DEPTH(BLOCKS)
  ) u_shape_fifo (
      .clk,
      .rst,
      .s_tdata(shape),
      .s_tvalid(traits_valid && traits.walked),
      .s_tready(shape_ready),
      .m_tdata(shape_out),
      .m_tvalid(shape_out_valid),
      .m_tready(shape_out_ready),
      .level()
  );

  logic [CRC_BITS-1:0] state, state_out;
  logic [2:0] last_pipe_q;
  logic state_valid, state_out_valid, state_out_ready;

  wz_crc32c u_crc (
      .clk,
      .rst,
      .en(1'b1),
      .s_tdata(raw_data),
      .s_first(raw_first),
      .s_valid(raw_valid),
      .m_state(state),
      .m_valid(state_valid)
  );
  always_ff @(posedge clk) last_pipe_q <= {last_pipe_q[1:0], raw_last};

  wz_fifo #(
      .W(CRC_BITS),
      .DEPTH(BLOCKS)
  ) u_crc_fifo (
      .clk,
      .rst,
      .s_tdata(state),
      .s_tvalid(state_valid && last_pipe_q[2]),
      .s_tready(crc_ready),
      .m_tdata(state_out),
      .m_tvalid(state_out_valid),
      .m_tready(state_out_ready),
      .level()
  );

  // verilator lint_on PINCONNECTEMPTY

  order_t order;
  range_t range;
  logic order_valid, order_ready, range_valid, range_ready;
  logic bank_free, bank_take;
  table_bank_t bank, plan_bank;
  logic plan_room, plan_valid, plan_takes, plan_uses;

  wz_order #(
      .TYPES(TYPES)
  ) u_order (
      .clk,
      .rst,
      .s_room(room),
      .s_start(start),
      .s_valid(word_valid),
      .s_first(word_first),
      .s_last(word_last),
      .s_word(word),
      .s_groups(groups),
      .s_counts(counts),
      .s_shape_tdata(shape_out),
      .s_shape_tvalid(shape_out_valid),
      .s_shape_tready(shape_out_ready),
      .m_order_tdata(order),
      .m_order_tvalid(order_valid),
      .m_order_tready(order_ready),
      .m_range_tdata(range),
      .m_range_tvalid(range_valid),
      .m_range_tready(range_ready),
      .table_we,
      .table_bank,
      .table_symbol,
      .table_step,
      .s_bank_free(bank_free),
      .s_bank(bank),
      .s_bank_take(bank_take)
  );

  wz_table_banks u_banks (
      .clk,
      .rst,
      .m_free(bank_free),
      .m_bank(bank),
      .s_take(bank_take),
      .s_plan_valid(plan_valid),
      .s_plan_takes(plan_takes),
      .s_plan_uses(plan_uses),
      .s_plan_bank(plan_bank),
      .m_plan_room(plan_room),
      .s_release(table_release)
  );

  wz_choose #(
      .TYPES(TYPES)
  ) u_choose (
      .clk,
      .rst,
      .bare,
      .s_traits_tdata(traits_out),
      .s_traits_tvalid(traits_out_valid),
      .s_traits_tready(traits_out_ready),
      .s_order_tdata(order),
      .s_order_tvalid(order_valid),
      .s_order_tready(order_ready),
      .s_range_tdata(range),
      .s_range_tvalid(range_valid),
      .s_range_tready(range_ready),
      .s_crc_tdata(state_out),
      .s_crc_tvalid(state_out_valid),
      .s_crc_tready(state_out_ready),
      .m_plan_tdata,
      .m_plan_order_lo,
      .m_plan_order_hi,
      .m_plan_table_bank,
      .m_plan_tvalid,
      .m_plan_tready,
      .plan_room,
      .plan_valid,
      .plan_takes,
      .plan_uses,
      .plan_bank
  );

`ifndef SYNTHESIS
  a_fifos : assert property (@(posedge clk) disable iff (rst)
      (!traits_valid || (traits_ready && shape_ready)) &&
      (!(state_valid && last_pipe_q[2]) || crc_ready));
`endif

endmodule
