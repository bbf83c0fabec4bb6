// SPDX-License-Identifier: Apache-2.0
//
// Cuts blocks into head, values and tail (docs/format.md, section 2).
//
// Takes a block a packet and gives its values, the first at byte 0, so that beat b of the stream is
// beat b of the format. The last beat of a block (m_tlast) carries its length; it holds no value
// (m_tkeep 0) where the values ended in the beat before, or where there are none. m_head, m_tail and
// the other block fields are those of the beat at the output; m_tail and m_length_less_one are
// complete at m_tlast. Bytes outside m_tkeep are zero.
//
// A packet longer than 4096 bytes is cut into blocks of 4096 that share its tuser. Element types that
// are not in TYPES are cut like the first one that is, and are not to be coded.
//
// m_walk says in a block's first beat, and in all others, whether its symbols are to be counted and
// ordered: not where there are none, nor where the block is of one beat and leaves as it is because
// it has fewer than min_bytes bytes or, with `bare`, at most 32, whose frame is longer unless the block
// is constant.
//
// raw_* repeats every beat as it came (bytes outside raw_tkeep zero) in the clock before its values
// reach the output, for checksum and period.
//
//   latency       2 clocks for the last beat of a block; for others 1 after the next beat
//   throughput    1 beat a clock
//   back-pressure s_axis_tready follows m_tready in the same clock

module wz_align
  import wz_format_pkg::*;
  import wz_pkg::*;
  import wz_analyze_pkg::*;
#(
    parameter logic [5:0] TYPES = 6'b111111
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input logic        bare,
    input logic [12:0] min_bytes,

    input  logic        [511:0] s_axis_tdata,
    input  logic        [ 63:0] s_axis_tkeep,
    input  logic                s_axis_tlast,
    input  block_user_t         s_axis_tuser,
    input  logic                s_axis_tvalid,
    output logic                s_axis_tready,

    output logic          [511:0] m_tdata,
    output logic          [ 63:0] m_tkeep,
    output logic                  m_tfirst,
    output logic                  m_tlast,
    output logic                  m_code,
    output logic                  m_walk,
    output element_type_e         m_element,
    output format_t               m_format,  // of m_element
    output logic          [  1:0] m_phase,
    output logic          [ 11:0] m_length_less_one,
    output logic          [ 23:0] m_head,
    output logic          [ 23:0] m_tail,
    output logic                  m_tvalid,
    input  logic                  m_tready,

    output logic [511:0] raw_tdata,
    output logic [ 63:0] raw_tkeep,
    output logic         raw_first,
    output logic         raw_last,
    output logic         raw_valid
);

  localparam int unsigned BEATS_W = $clog2(BLOCK_BYTES_MAX / BEAT_BYTES);

  // The beat that waits for the next one, whose first bytes complete its values.
  logic [511:0] a_data_q;
  logic [63:0] a_keep_q;
  logic [BEATS_W-1:0] a_index_q;
  logic a_first_q, a_last_q, a_valid_q, a_code_q;
  element_type_e a_element_q;
  logic [1:0] a_phase_q, a_turn_q;
  logic [1:0] a_width_q;

  logic packet_q;  // a packet has begun: the next beat is not its first
  logic [BEATS_W-1:0] next_index_q;  // of the next beat in its block

  logic accept, advance, room;
  assign room = !m_tvalid || m_tready;
  assign advance = a_valid_q && room && (a_last_q || s_axis_tvalid);
  assign s_axis_tready = !a_valid_q || room;
  assign accept = s_axis_tvalid && s_axis_tready;

  logic s_cut;
  assign s_cut = s_axis_tlast || next_index_q == '1;

  element_type_e s_element;
  logic [1:0] s_width, s_phase;
  assign s_element = built_element(TYPES, s_axis_tuser.element);
  assign s_width = width_log2(s_element);
  assign s_phase = s_axis_tuser.phase & {s_width[1], s_width != 2'd0};

  always_ff @(posedge clk) begin
    if (accept) begin
      // One synchronous reset a byte: no logic in the way of the data.
      for (int i = 0; i < 64; i++) begin
        a_data_q[8*i+:8] <= s_axis_tkeep[i] ? s_axis_tdata[8*i+:8] : '0;
      end
      a_keep_q  <= s_axis_tkeep;
      a_index_q <= next_index_q;
      a_first_q <= next_index_q == '0;
      a_last_q  <= s_cut;
      packet_q <= !s_axis_tlast;
      next_index_q <= s_cut ? '0 : next_index_q + 1'b1;
    end
    a_valid_q <= accept || (a_valid_q && !advance);
    // Without s_axis_tvalid: what is not yet part of a packet does no harm.
    if (!packet_q && s_axis_tready) begin
      a_code_q <= s_axis_tuser.code && is_built(TYPES, s_axis_tuser.element);
      a_element_q <= s_element;
      a_phase_q <= s_phase;
      a_turn_q <= {s_phase[1], ^s_phase};
      a_width_q <= s_width;
    end

    if (rst) begin
      a_valid_q <= 1'b0;
      packet_q <= 1'b0;
      next_index_q <= '0;
    end
  end

  // A block of one beat that is known to leave as it is.
  logic min_any_q, min_beyond_q;
  logic [5:0] min_last_q;  // the byte that makes a block long enough, where it is in the first beat
  logic short_block;
  always_ff @(posedge clk) begin
    min_any_q <= min_bytes != '0;
    min_beyond_q <= min_bytes > 13'(BEAT_BYTES);
    min_last_q <= 6'(min_bytes - 1'b1);
  end
  assign short_block = a_first_q && a_last_q &&
      ((min_any_q && (min_beyond_q || !a_keep_q[min_last_q])) || (bare && !a_keep_q[bare_bytes()]));

  // The window of 64 bytes from the phase on, and which of its bytes are in the block.
  localparam bit HAS_FOUR = TYPES[ELEMENT_TYPE_FP32];
  localparam bit HAS_TWO = TYPES[ELEMENT_TYPE_BF16] || TYPES[ELEMENT_TYPE_FP16];
  localparam bit HAS_ONE = (TYPES & 6'b110001) != 0;
  element_type_e element;
  logic two, four;  // bytes an element
  // The phase in a Gray code, so that no half of a choice of four is the same in neighbours: tools that
  // share halves need two LUTs for each instead of one. Bits of widths that are not built are constant.
  logic [1:0] turn;
  assign element = folded_element(TYPES, a_element_q);
  assign four = HAS_FOUR && (a_width_q[1] || !(HAS_TWO || HAS_ONE));
  assign two = HAS_TWO && (a_width_q[0] || !(HAS_FOUR || HAS_ONE));
  assign turn = a_turn_q & {HAS_FOUR, HAS_TWO || HAS_FOUR};

  logic [66:0] keep;
  logic [66:0][7:0] bytes;
  assign keep = {a_last_q ? 3'b0 : s_axis_tkeep[2:0], a_keep_q};
  assign bytes = {s_axis_tdata[23:0], a_data_q};

  logic [63:0] window_keep, value_keep, partial;
  logic [63:0][7:0] window;

  always_comb begin
    for (int i = 0; i < 64; i++) begin
      logic [3:0][8:0] ways;
      ways = {{keep[i+2], bytes[i+2]}, {keep[i+3], bytes[i+3]},
              {keep[i+1], bytes[i+1]}, {keep[i], bytes[i]}};
      {window_keep[i], window[i]} = ways[turn];
    end
    for (int i = 0; i < 64; i++) begin
      // A value is in the block if its last byte is.
      value_keep[i] = four ? window_keep[i|3] : two ? window_keep[i|1] : window_keep[i];
      partial[i] = window_keep[i] && !value_keep[i];
    end
  end

  // The tail lies in one element's place, at the place's first bytes. Gathered by two words.
  logic [7:0][2:0][7:0] tail, tail_q;
  logic [23:0] before_q;  // of the beats before
  logic tail_two_q;
  always_comb begin
    tail = '0;
    for (int i = 0; i < 64; i += 4) begin
      for (int j = 0; j < 3; j++) tail[i/8][j] |= window[i+j] & {8{partial[i+j]}};
    end
    m_tail = before_q;
    for (int i = 0; i < 8; i++) m_tail |= tail_q[i];
    // Elements of two bytes also begin in the middle of four.
    if (tail_two_q) m_tail = {16'd0, m_tail[7:0] | m_tail[23:16]};
  end

  // Place of the last byte, from the one place where the keep bits fall.
  logic [5:0] last_byte;
  logic [63:0] edge_keep;
  assign edge_keep = a_keep_q & ~{1'b0, a_keep_q[63:1]};
  always_comb begin
    last_byte = '0;
    for (int i = 0; i < 64; i++) last_byte |= {6{edge_keep[i]}} & 6'(i);
  end

  always_ff @(posedge clk) begin
    if (advance) begin
      for (int i = 0; i < 64; i++) begin
        m_tdata[8*i+:8] <= value_keep[i] ? window[i] : '0;
      end
      m_tkeep <= value_keep;
      m_tfirst <= a_first_q;
      m_tlast <= a_last_q;
      m_code <= a_code_q;
      m_walk <= a_code_q && element != ELEMENT_TYPE_RAW && !short_block;
      m_element <= element;
      m_format <= format_of(element);
      m_phase <= a_phase_q;
      m_length_less_one <= {a_index_q, last_byte};
      tail_q <= tail;
      before_q <= a_first_q ? '0 : m_tail;
      tail_two_q <= two;
      if (a_first_q) begin
        for (int i = 0; i < 3; i++) m_head[8*i+:8] <= 2'(i) < a_phase_q ? a_data_q[8*i+:8] : '0;
      end
    end
    if (advance || m_tready) m_tvalid <= advance;
    if (rst) m_tvalid <= 1'b0;
  end

  assign raw_tdata = a_data_q;
  assign raw_tkeep = a_keep_q;
  assign raw_first = a_first_q;
  assign raw_last  = a_last_q;
  assign raw_valid = advance;

`ifndef SYNTHESIS
  a_full_beats : assert property (@(posedge clk) disable iff (rst)
      s_axis_tvalid && !s_axis_tlast |-> &s_axis_tkeep);
  a_keep_contiguous : assert property (@(posedge clk) disable iff (rst)
      s_axis_tvalid |-> s_axis_tkeep[0] && ((s_axis_tkeep & (s_axis_tkeep + 64'd1)) == 64'd0));
  a_stable : assert property (@(posedge clk) disable iff (rst)
      m_tvalid && !m_tready |=> m_tvalid && $stable(m_tdata) && $stable(m_tkeep));
  // Latency of a last beat: 2 clocks when nothing is in its way.
  a_latency : assert property (@(posedge clk) disable iff (rst)
      accept && s_cut && room ##1 room |=> m_tvalid && m_tlast);
`endif

endmodule
