// SPDX-License-Identifier: Apache-2.0
//
// Joins the sections of a frame, which come as rows that already stand where the frame wants them.
//
// For every 64-byte word of the frame it takes a row of each section that has bytes in the word into a
// register, whose bytes outside the section are reset, and joins the registers with an OR. A word in
// which one section ends and others begin costs no more than any other.
//
//   latency       4 clocks from the layout to the first word, 2 clocks from the last row it needs
//   throughput    1 word a clock, also across frames
//   back-pressure m_axis_tready reaches the enables of the output register and of four stages, and
//                 r_ready of the sections

module wz_frame #(
    // Lanes of the unary section's row: twice as many as a word has when the row is two words.
    parameter int unsigned UNARY_LANES = 32
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input  wz_pack_pkg::frame_layout_t s_layout,
    input  logic                 s_layout_valid,
    output logic                 s_layout_ready,

    input  logic [8*wz_pack_pkg::HEAD_BYTES-1:0] s_head,
    input  logic                                 s_head_valid,
    output logic                                 s_head_ready,

    input  logic [63:0][7:0]              remainders_data,
    input  logic                          remainders_valid,
    output logic                          remainders_ready,
    input  logic [63:0][7:0]              low_data,
    input  logic                          low_valid,
    output logic                          low_ready,
    input  logic [16*UNARY_LANES-1:0]     unary_data,
    input  logic                          unary_valid,
    output logic                          unary_ready,
    input  logic [63:0][7:0]              escapes_data,
    input  logic                          escapes_valid,
    output logic                          escapes_ready,

    output logic [511:0]           m_axis_tdata,
    output logic [63:0]            m_axis_tkeep,
    output logic                   m_axis_tlast,
    output logic                   m_axis_tuser,  // coded: the packet is a frame
    output wz_format_pkg::mode_e   m_mode,
    output logic                   m_axis_tvalid,
    input  logic                   m_axis_tready
);

  import wz_format_pkg::*;
  import wz_pack_pkg::*;

  localparam int unsigned SECTIONS = 4;
  localparam int unsigned UNARY = 2;
  // Sections that begin at a multiple of 16 bytes.
  localparam logic [SECTIONS-1:0] ALIGNED = 4'b0110;

  section_t section[SECTIONS];
  assign section[0] = s_layout.remainders;
  assign section[1] = s_layout.low;
  assign section[UNARY] = s_layout.unary;
  assign section[3] = s_layout.escapes;

  // Stage 1: words in turn, and which sections are in them. A bound of a byte is split into eighths
  // of the word: the bytes of an eighth are in, not in, or to be compared.
  typedef struct packed {
    logic [7:0] start_in;  // the eighth lies behind the first byte
    logic [7:0] start_at;  // the first byte is in it
    logic [7:0] start_byte;  // bytes of an eighth at and behind the first byte
    logic [7:0] stop_in;
    logic [7:0] stop_at;
    logic [7:0] stop_byte;
  } bounds_t;

  logic [6:0] word_q;
  logic head_q;  // the word is the frame's first
  logic last_q;  // and its last, if it is not the first
  logic [SECTIONS-1:0] begun_q;
  logic one_valid_q, two_valid_q, three_valid_q;
  logic one_ready, two_ready, step, word_last, fire;

  assign word_last = head_q ? s_layout.single : last_q;
  assign step = s_layout_valid && one_ready;
  assign s_layout_ready = one_ready && word_last;

  // Sections whose rows are two words: the next word is the row's second.
  logic unary_half_q;

  function automatic bounds_t bounds(input logic in, input logic at_first, input logic [5:0] start,
                                     input logic at_last, input logic [5:0] stop);
    bounds_t b;
    for (int i = 0; i < 8; i++) begin
      b.start_in[i] = !at_first || 3'(i) > start[5:3];
      b.start_at[i] = at_first && 3'(i) == start[5:3];
      b.start_byte[i] = 3'(i) >= start[2:0];
      // Nothing is in where the section is not.
      b.stop_in[i] = in && (!at_last || 3'(i) < stop[5:3]);
      b.stop_at[i] = in && at_last && 3'(i) == stop[5:3];
      b.stop_byte[i] = 3'(i) <= stop[2:0];
    end
    return b;
  endfunction

  function automatic logic [63:0] outside(input bounds_t b);
    logic [63:0] bytes;
    for (int i = 0; i < 64; i++) begin
      bytes[i] = (!b.start_in[i/8] && !(b.start_at[i/8] && b.start_byte[i%8]))
              || (!b.stop_in[i/8] && !(b.stop_at[i/8] && b.stop_byte[i%8]));
    end
    return bytes;
  endfunction

  logic [SECTIONS-1:0] at_first, at_last, in;
  always_comb begin
    for (int s = 0; s < int'(SECTIONS); s++) begin
      at_first[s] = section[s].first == word_q;
      at_last[s] = section[s].last == word_q;
      in[s] = section[s].any && (at_first[s] || begun_q[s]);
    end
  end

  bounds_t one_bounds_q[SECTIONS];
  logic [SECTIONS-1:0] one_in_q;
  logic one_head_q, one_last_q, one_coded_q, one_unary_half_q, one_unary_pop_q;
  logic [5:0] one_stop_q;
  mode_e one_mode_q;

  always_ff @(posedge clk) begin
    if (step) begin
      word_q <= word_last ? '0 : word_q + 1'b1;
      head_q <= word_last;
      last_q <= s_layout.last == word_q + 1'b1;
      begun_q <= in & ~at_last;
      unary_half_q <= in[UNARY] && !at_last[UNARY] && !unary_half_q;
      one_in_q <= in;
      for (int s = 0; s < int'(SECTIONS); s++) begin
        one_bounds_q[s] <= bounds(in[s], at_first[s], section[s].start, at_last[s],
                                  section[s].stop);
      end
      one_head_q <= head_q;
      one_last_q <= word_last;
      one_stop_q <= s_layout.stop;
      one_coded_q <= s_layout.coded;
      one_mode_q <= s_layout.mode;
      one_unary_half_q <= unary_half_q;
      one_unary_pop_q <= UNARY_LANES == 32 || unary_half_q || at_last[UNARY];
    end
    if (one_ready) one_valid_q <= s_layout_valid;
    if (rst) begin
      word_q <= '0;
      head_q <= 1'b1;
      begun_q <= '0;
      unary_half_q <= 1'b0;
      one_valid_q <= 1'b0;
    end
  end

  // Stage 2: a mask of bytes for each section. Where a section begins with an eighth, little is left
  // to be worked out.
  logic [SECTIONS-1:0][63:0] beside, beside_q;
  bounds_t [SECTIONS-1:0] two_bounds, two_bounds_q;
  always_comb begin
    for (int s = 0; s < int'(SECTIONS); s++) begin
      two_bounds[s] = one_bounds_q[s];
      two_bounds[s].start_in |= one_bounds_q[s].start_at;
    end
  end
  logic [63:0] keep_q;
  logic [SECTIONS-1:0] two_in_q;
  logic two_head_q, two_last_q, two_coded_q, two_unary_half_q, two_unary_pop_q;
  mode_e two_mode_q;

  assign one_ready = !one_valid_q || !two_valid_q || fire;
  assign two_ready = !two_valid_q || fire;

  always_ff @(posedge clk) begin
    if (two_ready) begin
      for (int s = 0; s < int'(SECTIONS); s++) begin
        beside_q[s] <= outside(one_bounds_q[s]);
      end
      two_bounds_q <= two_bounds;
      for (int i = 0; i < 64; i++) keep_q[i] <= !one_last_q || 6'(i) <= one_stop_q;
      two_in_q <= one_in_q;
      two_head_q <= one_head_q;
      two_last_q <= one_last_q;
      two_coded_q <= one_coded_q;
      two_mode_q <= one_mode_q;
      two_unary_half_q <= one_unary_half_q;
      two_unary_pop_q <= one_unary_pop_q;
      two_valid_q <= one_valid_q;
    end
    if (rst) two_valid_q <= 1'b0;
  end

  always_comb begin
    for (int s = 0; s < int'(SECTIONS); s++) begin
      beside[s] = beside_q[s];
      if (ALIGNED[s]) begin
        for (int i = 0; i < 64; i++) begin
          beside[s][i] = !two_bounds_q[s].start_in[i/8]
                      || (!two_bounds_q[s].stop_in[i/8]
                          && !(two_bounds_q[s].stop_at[i/8] && two_bounds_q[s].stop_byte[i%8]));
        end
      end
    end
  end

  // Stage 3: the rows, and zeros beside the sections.
  logic [SECTIONS-1:0] have;
  logic [63:0][7:0] unary_word;
  logic complete, three_ready, out_ready;
  assign have = {escapes_valid, unary_valid, low_valid, remainders_valid};
  assign complete = two_valid_q && (two_in_q & ~have) == '0 && (s_head_valid || !two_head_q);
  assign out_ready = m_axis_tready || !m_axis_tvalid;
  assign three_ready = out_ready || !three_valid_q;
  assign fire = complete && three_ready;
  assign s_head_ready = fire && two_head_q;
  assign remainders_ready = fire && two_in_q[0];
  assign low_ready = fire && two_in_q[1];
  assign unary_ready = fire && two_in_q[UNARY] && two_unary_pop_q;
  assign escapes_ready = fire && two_in_q[3];

  if (UNARY_LANES == 32) begin : g_unary_word
    assign unary_word = unary_data;
    wire unused = &{1'b0, two_unary_half_q};
  end else begin : g_unary_half
    assign unary_word = two_unary_half_q ? unary_data[1023:512] : unary_data[511:0];
  end

  logic [SECTIONS-1:0][63:0][7:0] row, row_q;
  logic [8*HEAD_BYTES-1:0] head_data_q;
  logic [63:0] three_keep_q;
  logic three_last_q, three_coded_q;
  mode_e three_mode_q;
  assign row = {escapes_data, unary_word, low_data, remainders_data};

  always_ff @(posedge clk) begin
    // Whether or not the rows are there, which is known late: without them nothing is valid.
    if (three_ready) begin
      row_q <= row;
      head_data_q <= s_head;
      three_keep_q <= keep_q;
      three_last_q <= two_last_q;
      three_coded_q <= two_coded_q;
      three_mode_q <= two_mode_q;
      three_valid_q <= complete;
      if (!two_head_q) head_data_q <= '0;
    end
    for (int s = 0; s < int'(SECTIONS); s++) begin
      for (int i = 0; i < 64; i++) begin
        if (three_ready && beside[s][i]) row_q[s][i] <= '0;
      end
    end
    if (rst) three_valid_q <= 1'b0;
  end

  // Stage 4: join.
  always_ff @(posedge clk) begin
    if (out_ready) begin
      m_axis_tdata <= row_q[0] | row_q[1] | row_q[2] | row_q[3] | 512'(head_data_q);
      m_axis_tkeep <= three_keep_q;
      m_axis_tlast <= three_last_q;
      m_axis_tuser <= three_coded_q;
      m_mode <= three_mode_q;
      m_axis_tvalid <= three_valid_q;
    end
    if (rst) m_axis_tvalid <= 1'b0;
  end

`ifndef SYNTHESIS
  initial assert (UNARY_LANES == 32 || UNARY_LANES == 64);
  a_head_first : assert property (@(posedge clk) disable iff (rst)
      s_layout_valid && s_layout_ready |-> word_q == s_layout.last);
  a_sections_end : assert property (@(posedge clk) disable iff (rst)
      step && word_last |=> begun_q == '0);
  a_stable : assert property (@(posedge clk) disable iff (rst)
      m_axis_tvalid && !m_axis_tready |=> m_axis_tvalid && $stable(m_axis_tdata)
      && $stable(m_axis_tkeep) && $stable(m_axis_tlast));
  a_aligned : assert property (@(posedge clk) disable iff (rst) s_layout_valid
      |-> (!s_layout.low.any || s_layout.low.start[2:0] == '0)
      && (!s_layout.unary.any || s_layout.unary.start[2:0] == '0));
  a_latency : assert property (@(posedge clk) disable iff (rst)
      fire && (m_axis_tready || !m_axis_tvalid) |=> three_valid_q ##1 m_axis_tvalid);
`endif

endmodule
