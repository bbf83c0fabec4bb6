// SPDX-License-Identifier: Apache-2.0
//
// The base of a block's order: the lowest symbol from 1 on of maximal count (docs/format.md,
// section 7).
//
// Takes the words of wz_histogram, four counts each, in rising order. If no symbol but 0 occurs the
// base is 1. m_zeros is the count of symbol 0.
//
//   latency       3 clocks from a block's last word to m_valid
//   throughput    1 word a clock
//   back-pressure none

module wz_peak
  import wz_analyze_pkg::*;
#(
    parameter int unsigned COUNT_W = 13
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input logic                    s_valid,
    input logic                    s_first,
    input logic                    s_last,
    input logic [5:0]              s_word,
    input logic [7:0]              s_groups,
    input logic [3:0][COUNT_W-1:0] s_counts,

    output logic               m_valid,
    output logic [7:0]         m_symbol,
    output logic [COUNT_W-1:0] m_count,
    output logic [COUNT_W-1:0] m_zeros,
    output logic [7:0]         m_groups
);

  typedef struct packed {
    logic [7:0] symbol;
    logic [COUNT_W-1:0] count;
  } peak_t;

  logic [COUNT_W-1:0] count0;  // symbol 0 is no candidate
  assign count0 = s_word == '0 ? '0 : s_counts[0];

  peak_t low_q, high_q, word_q, best_q;
  logic [2:0] valid_q, last_q;
  logic first1_q, first2_q;
  logic [COUNT_W-1:0] zeros1_q, zeros2_q;
  logic [7:0] groups1_q, groups2_q;

  assign m_valid  = valid_q[2] && last_q[2];
  assign m_symbol = best_q.symbol;
  assign m_count  = best_q.count;

  always_ff @(posedge clk) begin
    // Clock 1: of two.
    low_q <= s_counts[1] > count0 ? {s_word, 2'd1, s_counts[1]} : {s_word, 2'd0, count0};
    high_q <= s_counts[3] > s_counts[2] ? {s_word, 2'd3, s_counts[3]} :
        {s_word, 2'd2, s_counts[2]};
    zeros1_q <= s_word == '0 && s_groups[0] ? s_counts[0] : '0;
    groups1_q <= s_groups;
    first1_q <= s_first;

    // Clock 2: of four.
    word_q <= high_q.count > low_q.count ? high_q : low_q;
    zeros2_q <= zeros1_q;
    groups2_q <= groups1_q;
    first2_q <= first1_q;

    // Clock 3: of all so far. The highest bit of a count means that all others are 0.
    if (valid_q[1]) begin
      if (first2_q || word_q.count[COUNT_W-1] ||
          above(18'(word_q.count[COUNT_W-2:0]), 18'(best_q.count[COUNT_W-2:0]))) begin
        best_q <= word_q;
      end
      if (first2_q && word_q.count == '0) best_q <= {8'd1, COUNT_W'(0)};
      if (first2_q) begin
        m_zeros  <= zeros2_q;
        m_groups <= groups2_q;
      end
    end

    valid_q <= {valid_q[1:0], s_valid};
    last_q  <= {last_q[1:0], s_last};
    if (rst) valid_q <= '0;
  end

`ifndef SYNTHESIS
  a_latency : assert property (@(posedge clk) disable iff (rst)
      s_valid && s_last |=> ##2 m_valid);
`endif

endmodule
