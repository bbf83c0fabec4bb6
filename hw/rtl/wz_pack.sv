// SPDX-License-Identifier: Apache-2.0
//
// The encoder's second pass: from plans and value beats to frames (docs/format.md, sections 4 to 8).
//
//   s_beat, s_plan -> wz_pack_issue -> wz_carrier -> wz_record -> wz_concat ----> wz_rows -> wz_frame
//                                   -> wz_rank -> wz_low_pack ------------------> wz_rows ->
//                                              -> wz_unary_pack ----------------> wz_rows ->
//                                              -> wz_escape_pack ---------------> wz_rows ->
//                     wz_frame_head -> wz_fifo (first bytes, layout) ------------------->
//
// Every section is packed where the frame wants it in a 64-byte word, so that wz_frame joins them at
// a word a clock and the second pass of a block runs while the sections of the one before leave.
//
//   latency       from the plan to the first word of a frame: 12 clocks and one for each record that it
//                 takes to fill that word (2 for BF16); 8 more with bare zeros or behind such a frame
//                 (7 without types of one byte); more where the word holds codes too
//   throughput    max(beats, words of the frame) clocks a block in steady state; a beat takes
//                 V / LANES clocks where that is more than one. More: 1 clock for the tail of a raw
//                 block, up to 2 where a partial last record of FP16 or FP32 has several parts, 1 for
//                 R0 with 16 escapes or more, up to 10 where a raw block follows one with bare zeros
//   back-pressure s_beat and s_plan wait while a buffer is short of room
//
// No deadlock: nothing between wz_pack_issue and the rows ever waits, but for escapes, which wait for
// rows. Beats are handed out while the rows of each section have room for all that may be under way,
// and every buffer holds more than one frame needs at most: low bits 17 rows, unary 25, escapes 5. So
// all of the oldest frame gets into the rows whatever younger frames fill, except for remainders,
// whose rows leave as they come: they are the first section, and a word that other sections share is
// asked for only when all of the frame's beats have been handed out.

module wz_pack #(
    parameter int unsigned LANES = 32,  // values a clock in the symbol path: 8, 16, 32 or 64
    parameter logic [5:0] TYPES = 6'b111111  // element types built (bit = tag)
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    // Values of the blocks, each block's from a new beat; no beat for a block without values.
    input  logic [511:0] s_beat_tdata,
    input  logic         s_beat_tvalid,
    output logic         s_beat_tready,

    input  wz_pkg::plan_t s_plan_tdata,
    input  logic [7:0]    s_plan_order_lo,  // ranked symbols but 0
    input  logic [7:0]    s_plan_order_hi,
    input  wz_pkg::table_bank_t s_plan_bank,
    input  logic          s_plan_tvalid,
    output logic          s_plan_tready,

    // Symbol to step in the order; written before the plan comes.
    input logic       table_we,
    input wz_pkg::table_bank_t table_bank,
    input logic [4:0] table_symbol,
    input logic [4:0] table_step,

    output logic table_release,  // once for every plan: it no longer needs its table

    output logic [511:0]         m_axis_tdata,
    output logic [63:0]          m_axis_tkeep,
    output logic                 m_axis_tlast,
    output logic                 m_axis_tuser,  // coded: the packet is a frame
    output wz_format_pkg::mode_e m_axis_mode,  // of the frame
    output logic                 m_axis_tvalid,
    input  logic                 m_axis_tready
);

  import wz_format_pkg::*;
  import wz_pkg::*;
  import wz_pack_pkg::*;

  localparam bit FP8 = (TYPES & TYPES_1_BYTE) != '0;
  // While the last codes and escapes of a frame are packed and leave, remainders of the next come in.
  localparam int unsigned REMAINDERS_ROWS = 64;
  localparam int unsigned LOW_ROWS = 32;
  localparam int unsigned UNARY_ROWS = (FP8 && LANES < 64) ? 64 : 32;
  localparam int unsigned ESCAPES_ROWS = 16;
  localparam int unsigned ESCAPES_GROUPS = 32;
  localparam int unsigned FRAMES = 16;  // under way: as many as plans come before the first leaves

  // Levels at which beats are still handed out. What may be under way then: remainders, 18 beats of up
  // to 48 bytes, whose frames are 7 at most and begin at byte 32 (22 rows; raw blocks do not pass the
  // network, so theirs are 10 beats of two rows each at most); low bits, 9 groups; unary, 16 groups; escapes, 9.
  localparam int unsigned REMAINDERS_LEVEL = REMAINDERS_ROWS - 1 - 22;
  localparam int unsigned LOW_LEVEL = LOW_ROWS - 1 - 10;
  localparam int unsigned UNARY_LEVEL = UNARY_ROWS - 1 - 17;
  localparam int unsigned ESCAPES_LEVEL = ESCAPES_GROUPS - 1 - 10;

  localparam int unsigned COUNT_W = $clog2(LANES) + 1;

  // Plans: to the issue, and to what precedes the sections.
  localparam int unsigned FRAMES_W = $clog2(FRAMES + 1);
  logic [FRAMES_W-1:0] frames_q;
  logic issue_ready, plan_taken, frame_left;
  logic room_q;  // for one more, should one come in this clock too
  assign s_plan_tready = issue_ready && room_q;
  assign plan_taken = s_plan_tvalid && s_plan_tready;
  assign frame_left = m_axis_tvalid && m_axis_tready && m_axis_tlast;

  always_ff @(posedge clk) begin
    frames_q <= frames_q + FRAMES_W'(plan_taken) - FRAMES_W'(frame_left);
    room_q   <= frames_q < FRAMES_W'(FRAMES - 1);
    if (rst) frames_q <= '0;
  end

  logic [8*HEAD_BYTES-1:0] new_head, head;
  frame_layout_t new_layout, layout;
  logic new_valid, head_in_ready, head_valid, head_ready;
  logic layout_in_ready, layout_valid, layout_ready;
  logic [$clog2(2*FRAMES):0] head_level, layout_level;
  wire unused_levels = &{1'b0, head_level, layout_level};

  wz_frame_head u_frame_head (
      .clk,
      .rst,
      .s_plan(s_plan_tdata),
      .s_valid(plan_taken),
      .m_head(new_head),
      .m_layout(new_layout),
      .m_valid(new_valid)
  );

  wz_fifo #(
      .W(8 * HEAD_BYTES),
      .DEPTH(2 * FRAMES)
  ) u_head (
      .clk,
      .rst,
      .s_tdata(new_head),
      .s_tvalid(new_valid),
      .s_tready(head_in_ready),
      .m_tdata(head),
      .m_tvalid(head_valid),
      .m_tready(head_ready),
      .level(head_level)
  );

  wz_fifo #(
      .W($bits(frame_layout_t)),
      .DEPTH(2 * FRAMES)
  ) u_layout (
      .clk,
      .rst,
      .s_tdata(new_layout),
      .s_tvalid(new_valid),
      .s_tready(layout_in_ready),
      .m_tdata(layout),
      .m_tvalid(layout_valid),
      .m_tready(layout_ready),
      .level(layout_level)
  );

  // Beats.
  logic go_q, network_idle;
  logic [511:0] beat;
  logic beat_valid, beat_first, beat_last, beat_network, beat_drop;
  logic [6:0] beat_count;
  record_t beat_record;
  logic group_valid, group_first, group_last;
  logic [2:0] group;
  logic [COUNT_W-1:0] group_count;
  codes_t group_codes;

  wz_pack_issue #(
      .LANES(LANES),
      .TYPES(TYPES)
  ) u_issue (
      .clk,
      .rst,
      .s_plan(s_plan_tdata),
      .s_order_lo(s_plan_order_lo),
      .s_order_hi(s_plan_order_hi),
      .s_bank(s_plan_bank),
      .s_plan_valid(plan_taken),
      .s_plan_ready(issue_ready),
      .s_beat(s_beat_tdata),
      .s_beat_valid(s_beat_tvalid),
      .s_beat_ready(s_beat_tready),
      .go(go_q),
      .network_idle,
      .m_data(beat),
      .m_beat_valid(beat_valid),
      .m_count(beat_count),
      .m_beat_first(beat_first),
      .m_beat_last(beat_last),
      .m_record(beat_record),
      .m_network(beat_network),
      .m_drop(beat_drop),
      .m_group_valid(group_valid),
      .m_group(group),
      .m_group_count(group_count),
      .m_group_first(group_first),
      .m_group_last(group_last),
      .m_codes(group_codes),
      .m_release(table_release)
  );

  // Remainders.
  localparam int unsigned REMAINDERS_ROW_W = $clog2(REMAINDERS_ROWS);
  logic [511:0] carriers;
  logic [6:0] carriers_count;
  logic carriers_first, carriers_last, carriers_valid;
  record_t carriers_record;

  wz_carrier #(
      .TYPES(TYPES)
  ) u_carrier (
      .clk,
      .rst,
      .s_data(beat),
      .s_count(beat_count),
      .s_first(beat_first),
      .s_last(beat_last),
      .s_record(beat_record),
      .s_network(beat_network),
      .s_drop(beat_drop),
      .s_valid(beat_valid),
      .m_data(carriers),
      .m_count(carriers_count),
      .m_first(carriers_first),
      .m_last(carriers_last),
      .m_record(carriers_record),
      .m_valid(carriers_valid),
      .idle(network_idle)
  );

  logic [511:0] chunk;
  logic [6:0] chunk_bytes;
  logic chunk_first, chunk_last, chunk_valid;
  logic [5:0] chunk_start;

  wz_record #(
      .TYPES(TYPES)
  ) u_record (
      .clk,
      .rst,
      .s_data(carriers),
      .s_count(carriers_count),
      .s_first(carriers_first),
      .s_last(carriers_last),
      .s_record(carriers_record),
      .s_valid(carriers_valid),
      .m_data(chunk),
      .m_bytes(chunk_bytes),
      .m_first(chunk_first),
      .m_start(chunk_start),
      .m_last(chunk_last),
      .m_valid(chunk_valid)
  );

  logic rem_valid, rem_row_valid, rem_row_ready;
  logic [63:0] rem_next;
  logic [REMAINDERS_ROW_W-1:0] rem_row, rem_read, rem_used;
  logic [511:0] rem_data, rem_row_data;
  logic [1:0] rem_done;

  wz_concat #(
      .ROWS(REMAINDERS_ROWS)
  ) u_concat (
      .clk,
      .rst,
      .s_data(chunk),
      .s_bytes(chunk_bytes),
      .s_first(chunk_first),
      .s_start(chunk_start),
      .s_last(chunk_last),
      .s_valid(chunk_valid),
      .w_valid(rem_valid),
      .w_next(rem_next),
      .w_row(rem_row),
      .w_data(rem_data),
      .w_done(rem_done),
      .r_row(rem_read),
      .used(rem_used)
  );

  wz_rows #(
      .LANES(64),
      .LANE_W(8),
      .ROWS(REMAINDERS_ROWS)
  ) u_remainders (
      .clk,
      .rst,
      .w_valid(rem_valid),
      .w_lanes('1),
      .w_next(rem_next),
      .w_row(rem_row),
      .w_data(rem_data),
      .w_done(rem_done),
      .r_data(rem_row_data),
      .r_valid(rem_row_valid),
      .r_ready(rem_row_ready),
      .r_row(rem_read)
  );

  // Symbols.
  logic [LANES-1:0][4:0] rank;
  logic [LANES-1:0] present, escape;
  logic [LANES-1:0][7:0] symbol;
  logic rank_first, rank_last, rank_valid;
  codes_t rank_codes;

  wz_rank #(
      .LANES(LANES),
      .TYPES(TYPES)
  ) u_rank (
      .clk,
      .rst,
      .table_we,
      .table_bank,
      .table_symbol,
      .table_step,
      .s_data(beat),
      .s_group(group),
      .s_count(group_count),
      .s_first(group_first),
      .s_last(group_last),
      .s_codes(group_codes),
      .s_valid(group_valid),
      .m_rank(rank),
      .m_present(present),
      .m_escape(escape),
      .m_symbol(symbol),
      .m_first(rank_first),
      .m_last(rank_last),
      .m_codes(rank_codes),
      .m_valid(rank_valid)
  );

  // Low bits.
  localparam int unsigned LOW_ROW_W = $clog2(LOW_ROWS);
  localparam int unsigned LOW_VALUES = beat_values_min(TYPES);
  localparam int unsigned LOW_LANE_W = (LANES < LOW_VALUES) ? LANES : LOW_VALUES;
  localparam int unsigned LOW_LANES = 512 / LOW_LANE_W;
  logic low_valid, low_row_valid, low_row_ready;
  logic [LOW_LANES-1:0] low_lanes;
  logic [LOW_ROW_W-1:0] low_row, low_read, low_used;
  logic [511:0] low_data, low_row_data;
  logic [1:0] low_done;

  wz_low_pack #(
      .LANES(LANES),
      .TYPES(TYPES),
      .ROWS(LOW_ROWS)
  ) u_low_pack (
      .clk,
      .rst,
      .s_rank(rank),
      .s_present(present),
      .s_first(rank_first),
      .s_last(rank_last),
      .s_codes(rank_codes),
      .s_valid(rank_valid),
      .w_valid(low_valid),
      .w_lanes(low_lanes),
      .w_row(low_row),
      .w_data(low_data),
      .w_done(low_done),
      .r_row(low_read),
      .used(low_used)
  );

  wz_rows #(
      .LANES(LOW_LANES),
      .LANE_W(LOW_LANE_W),
      .ROWS(LOW_ROWS)
  ) u_low (
      .clk,
      .rst,
      .w_valid(low_valid),
      .w_lanes(low_lanes),
      .w_next('0),
      .w_row(low_row),
      .w_data(low_data),
      .w_done(low_done),
      .r_data(low_row_data),
      .r_valid(low_row_valid),
      .r_ready(low_row_ready),
      .r_row(low_read)
  );

  // Unary codes.
  localparam int unsigned UNARY_ROW_W = $clog2(UNARY_ROWS);
  localparam int unsigned UNARY_LANES = (LANES < 32) ? 32 : LANES;
  logic unary_valid, unary_row_valid, unary_row_ready;
  logic [UNARY_LANES-1:0] unary_lanes, unary_next;
  logic [UNARY_ROW_W-1:0] unary_row, unary_read, unary_used;
  logic [16*UNARY_LANES-1:0] unary_data, unary_row_data;
  logic [1:0] unary_done;

  wz_unary_pack #(
      .LANES(LANES),
      .ROWS(UNARY_ROWS)
  ) u_unary_pack (
      .clk,
      .rst,
      .s_rank(rank),
      .s_present(present),
      .s_first(rank_first),
      .s_last(rank_last),
      .s_codes(rank_codes),
      .s_valid(rank_valid),
      .w_valid(unary_valid),
      .w_lanes(unary_lanes),
      .w_next(unary_next),
      .w_row(unary_row),
      .w_data(unary_data),
      .w_done(unary_done),
      .r_row(unary_read),
      .used(unary_used)
  );

  wz_rows #(
      .LANES(UNARY_LANES),
      .LANE_W(16),
      .ROWS(UNARY_ROWS)
  ) u_unary (
      .clk,
      .rst,
      .w_valid(unary_valid),
      .w_lanes(unary_lanes),
      .w_next(unary_next),
      .w_row(unary_row),
      .w_data(unary_data),
      .w_done(unary_done),
      .r_data(unary_row_data),
      .r_valid(unary_row_valid),
      .r_ready(unary_row_ready),
      .r_row(unary_read)
  );

  // Escapes.
  localparam int unsigned ESCAPES_ROW_W = $clog2(ESCAPES_ROWS);
  localparam int unsigned ESCAPES_LEVEL_W = $clog2(ESCAPES_GROUPS) + 1;
  logic escapes_valid, escapes_row_valid, escapes_row_ready;
  logic [63:0] escapes_lanes;
  logic [ESCAPES_ROW_W-1:0] escapes_row, escapes_read;
  logic [ESCAPES_LEVEL_W-1:0] escapes_level;
  logic [7:0] escapes_data;
  logic [511:0] escapes_row_data;
  logic [1:0] escapes_done;

  wz_escape_pack #(
      .LANES(LANES),
      .DEPTH(ESCAPES_GROUPS),
      .ROWS(ESCAPES_ROWS)
  ) u_escape_pack (
      .clk,
      .rst,
      .s_escape(escape),
      .s_symbol(symbol),
      .s_codes(rank_codes),
      .s_valid(rank_valid),
      .w_valid(escapes_valid),
      .w_lanes(escapes_lanes),
      .w_row(escapes_row),
      .w_data(escapes_data),
      .w_done(escapes_done),
      .r_row(escapes_read),
      .level(escapes_level)
  );

  wz_rows #(
      .LANES(64),
      .LANE_W(8),
      .ROWS(ESCAPES_ROWS)
  ) u_escapes (
      .clk,
      .rst,
      .w_valid(escapes_valid),
      .w_lanes(escapes_lanes),
      .w_next('0),
      .w_row(escapes_row),
      .w_data({64{escapes_data}}),
      .w_done(escapes_done),
      .r_data(escapes_row_data),
      .r_valid(escapes_row_valid),
      .r_ready(escapes_row_ready),
      .r_row(escapes_read)
  );

  always_ff @(posedge clk) begin
    go_q <= rem_used <= REMAINDERS_ROW_W'(REMAINDERS_LEVEL)
         && low_used <= LOW_ROW_W'(LOW_LEVEL)
         && unary_used <= UNARY_ROW_W'(UNARY_LEVEL)
         && escapes_level <= ESCAPES_LEVEL_W'(ESCAPES_LEVEL);
    if (rst) go_q <= 1'b0;
  end

  wz_frame #(
      .UNARY_LANES(UNARY_LANES)
  ) u_frame (
      .clk,
      .rst,
      .s_layout(layout),
      .s_layout_valid(layout_valid),
      .s_layout_ready(layout_ready),
      .s_head(head),
      .s_head_valid(head_valid),
      .s_head_ready(head_ready),
      .remainders_data(rem_row_data),
      .remainders_valid(rem_row_valid),
      .remainders_ready(rem_row_ready),
      .low_data(low_row_data),
      .low_valid(low_row_valid),
      .low_ready(low_row_ready),
      .unary_data(unary_row_data),
      .unary_valid(unary_row_valid),
      .unary_ready(unary_row_ready),
      .escapes_data(escapes_row_data),
      .escapes_valid(escapes_row_valid),
      .escapes_ready(escapes_row_ready),
      .m_axis_tdata,
      .m_axis_tkeep,
      .m_axis_tlast,
      .m_axis_tuser,
      .m_mode(m_axis_mode),
      .m_axis_tvalid,
      .m_axis_tready
  );

`ifndef SYNTHESIS
  a_fifos : assert property (@(posedge clk) disable iff (rst)
      new_valid |-> head_in_ready && layout_in_ready);
`else
  wire unused = &{1'b0, head_in_ready, layout_in_ready};
`endif

endmodule
