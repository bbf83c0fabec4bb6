// SPDX-License-Identifier: Apache-2.0
//
// What each coder would make of a block: bits of the unary section and number of escapes, and the zero
// rank (docs/format.md, sections 7 and 8). All follow from the counts of the symbols in the list.
//
// s_start brings the block's numbers of values. In the next clock s_count must be s_raw_zeros - s_values
// (a negative count, which all tails lose: so they are loaded without a multiplexer); from then on
// s_valid brings the list's counts in order, one or (s_two, from symbol 15 on) two a clock. s_second is
// 0 without s_two.
//
// A value of rank r costs a bit for each j up to r that the coder counts: every j for R0, every second
// for R1, every fourth for R2, and those from 3 on for F2. So bits are sums over j of the number of
// values of rank j or more. tail_q is that number by the list without symbol 0, of values of other
// symbols. Symbol 0, inserted at rank z, costs its own values a bit for each j up to z, and every value
// from place z of the list on one more if that shifts it over one of the coder's j: the tail at z,
// less for R1 and R2 the values at places that stay on their side (hold_*).
//
// A list may end before its symbol 14 if all values are in it.
//
//   latency       m_bits is right 6 clocks after symbol 14 of the list, or the last before (F2: 7), and 3
//                 after symbols 27 and 28; the rest is right 3 clocks after the last symbol
//   throughput    a list symbol, or two, a clock. s_start of the next block may follow 2 clocks after
//                 the last symbol: then m_bits is right in that one clock alone, and the rest in one
//   back-pressure none

module wz_coder_bits
  import wz_format_pkg::*;
  import wz_analyze_pkg::*;
#(
    parameter int unsigned COUNT_W = 13,
    localparam int unsigned SUM_W = COUNT_W + 4  // at most 16 bits a value
) (
    input logic clk,

    input logic               s_start,
    input logic [COUNT_W-1:0] s_values,  // n
    input logic [COUNT_W-1:0] s_raw_zeros,  // of symbol 0, left out or not
    input logic [COUNT_W-1:0] s_left_out,  // of them, left out by the bitmap

    input logic               s_valid,
    input logic               s_two,
    input logic [5:0]         s_step,  // place in the list
    input logic [COUNT_W-1:0] s_count,
    input logic [COUNT_W-1:0] s_second,

    output logic                      m_covered,  // the list so far has all values but zeros
    output logic [COUNT_W-1:0]        m_zeros,  // stored values of symbol 0
    output logic [ZERO_RANK_BITS-1:0] m_zero_rank,
    output logic [3:0][SUM_W-1:0]     m_bits,  // by coder_e
    output logic [COUNT_W-1:0]        m_escapes_short,  // with 15 ranks
    output logic [COUNT_W-1:0]        m_escapes_long  // with 31 ranks
);

  // Places of the list with 15 ranks.
  localparam logic [5:0] SHORT = 6'(CODER_RANKS[CODER_R0]);

  // Clock 1: both counts together, and does the first occur as often as symbol 0?
  logic valid_q, two_q, odd_q, fourth_q, short_q, last_short_q;
  logic [5:0] step_q;
  logic [COUNT_W-1:0] count_q, second_q, both_q;
  logic at_least_q, ranks_q, no_zeros_q;
  logic [COUNT_W-1:0] zeros_q, stored_q;
  logic start_q, load_q;

  always_ff @(posedge clk) begin
    start_q <= s_start;
    load_q <= start_q;
    if (start_q) begin
      zeros_q <= s_raw_zeros - s_left_out;
      stored_q <= s_values - s_left_out;
      no_zeros_q <= s_raw_zeros == s_left_out;
    end
    valid_q <= s_valid;
    two_q <= s_two;
    step_q <= s_step;
    short_q <= s_step < SHORT;
    last_short_q <= s_step == SHORT - 1'b1;
    odd_q <= s_step[0] && s_step < SHORT;
    fourth_q <= s_step[1:0] == 2'd3;
    count_q <= s_count;
    second_q <= s_second;
    both_q <= s_count + s_second;
    ranks_q <= s_valid && s_step < SHORT;
    // The highest bit of a count means that there is no other symbol, so it decides alone.
    at_least_q <= !zeros_q[COUNT_W-1] &&
        !above(18'(zeros_q[COUNT_W-2:0]), 18'(s_count[COUNT_W-2:0]));
  end

  // Clock 2: the tails, and their sums.
  logic [COUNT_W-1:0] tail_q, tail0_q, tail1_q, tail2_q, tail15_q;
  logic [3:0] length_q;  // of the list, up to 15
  logic [COUNT_W-1:0] last14_q, last_q;  // counts of symbol 14 and of the last one beyond
  logic [COUNT_W-1:0] hold2_q, hold4_q;
  logic [SUM_W-1:0] bits1_q, bits2_q, bits4_q;
  logic [SUM_W-1:0] zero1_q, zero2_q, zero4_q;  // of the values of symbol 0
  logic [ZERO_RANK_BITS-1:0] zero_rank_q;
  assign m_covered = tail_q == '0;

  // What stood at each place of the list, to look up at the zero rank.
  logic [3*COUNT_W-1:0] places[16];
  always_ff @(posedge clk) begin
    if (valid_q && short_q) places[step_q[3:0]] <= {hold4_q, hold2_q, tail_q};
  end

  always_ff @(posedge clk) begin
    if (valid_q || load_q) tail_q <= tail_q - both_q;
    if ((valid_q && odd_q) || load_q) hold2_q <= hold2_q - count_q;
    if ((valid_q && fourth_q) || load_q) hold4_q <= hold4_q - count_q;
    if (valid_q && short_q) bits1_q <= bits1_q + SUM_W'(tail_q);
    if (valid_q && odd_q) bits2_q <= bits2_q + SUM_W'(tail_q);
    if (valid_q && fourth_q) bits4_q <= bits4_q + SUM_W'(tail_q);
    if (valid_q && !short_q) last_q <= two_q ? second_q : count_q;

    // Zero rank: how many of the first 15 occur at least as often.
    if (ranks_q && at_least_q) zero_rank_q <= zero_rank_q + 1'b1;
    if ((ranks_q && at_least_q) || load_q) zero1_q <= zero1_q + SUM_W'(zeros_q);
    if ((ranks_q && at_least_q && zero_rank_q[0]) || load_q) zero2_q <= zero2_q + SUM_W'(zeros_q);
    if ((ranks_q && at_least_q && &zero_rank_q[1:0]) || load_q) begin
      zero4_q <= zero4_q + SUM_W'(zeros_q);
    end

    if (start_q) begin
      tail_q <= '0;
      hold2_q <= '0;
      hold4_q <= '0;
      bits1_q <= '0;
      bits2_q <= '0;
      bits4_q <= '0;
      last_q <= '0;
      zero1_q <= '0;
      zero2_q <= '0;
      zero4_q <= '0;
      zero_rank_q <= '0;
      last14_q <= '0;
      tail1_q <= '0;
      tail2_q <= '0;
      tail15_q <= '0;
    end
    if (valid_q && short_q) length_q <= step_q[3:0] + 1'b1;
    if (valid_q && last_short_q) begin
      last14_q <= count_q;
      tail15_q <= tail_q - count_q;
    end
    if (valid_q && step_q == 6'd0) tail0_q <= tail_q;
    if (valid_q && step_q == 6'd1) tail1_q <= tail_q;
    if (valid_q && step_q == 6'd2) tail2_q <= tail_q;
  end

  // Then, clock after clock: the tails at the zero rank, and three terms a coder. Where symbol 0 has no
  // rank its values, if any, are escapes.
  logic unranked, unranked_q, rank_0_q, rank_01_q;  // symbol 0 has no rank; it has rank 0; 0 or 1
  logic behind_q;  // the whole list, or its first 15 places, lie before symbol 0
  assign unranked = no_zeros_q || zero_rank_q == ZERO_RANK_BITS'(ZERO_RANK_NONE);
  logic [3*COUNT_W-1:0] place_q;
  logic [COUNT_W-1:0] shift1_q, shift2_q, shift4_q;
  logic [SUM_W-1:0] pair1_q, pair2_q, pair4_q, four_q, sum1_q, sum2_q, sum4_q, after_q;
  logic [COUNT_W-1:0] rank1_q, rank2_q, past1_q, past2_q;
  logic [SUM_W-1:0] beyond_q, first3_q;
  logic [COUNT_W-1:0] more_short_q, more_long_q, stored1_q, stored2_q;
  always_ff @(posedge clk) begin
    place_q <= places[zero_rank_q];
    unranked_q <= unranked;
    behind_q <= unranked || zero_rank_q == length_q;
    rank_0_q <= zero_rank_q == '0;
    rank_01_q <= zero_rank_q[ZERO_RANK_BITS-1:1] == '0;
    past1_q <= tail1_q + zeros_q;
    past2_q <= tail2_q + zeros_q;

    shift1_q <= behind_q ? tail15_q : place_q[0+:COUNT_W];
    shift2_q <= behind_q ? hold2_q : place_q[COUNT_W+:COUNT_W];
    shift4_q <= behind_q ? hold4_q : place_q[2*COUNT_W+:COUNT_W];
    pair1_q <= bits1_q + zero1_q;
    pair2_q <= bits2_q + zero2_q;
    // An escape of R2 has quotient 7.
    four_q <= unranked ? SUM_W'({zeros_q, 3'd0}) : zero4_q;
    pair4_q <= bits4_q + four_q;
    // Values of rank 1 and more, and of rank 2 and more.
    rank1_q <= rank_0_q && !unranked_q ? tail0_q : past1_q;
    rank2_q <= rank_01_q && !unranked_q ? tail1_q : past2_q;
    // Without a rank, symbol 0 leaves room for one symbol more but escapes itself.
    more_short_q <= unranked ? zeros_q : last14_q;
    more_long_q <= unranked ? zeros_q : last_q;

    sum1_q <= pair1_q + SUM_W'(shift1_q);
    sum2_q <= pair2_q + SUM_W'(shift2_q);
    sum4_q <= pair4_q + SUM_W'(shift4_q);
    beyond_q <= SUM_W'(rank1_q) + SUM_W'(rank2_q);
    stored1_q <= stored_q;
    stored2_q <= stored1_q;
    first3_q <= SUM_W'(stored2_q) + SUM_W'(beyond_q);
    after_q <= sum1_q;
  end

  assign m_zeros = zeros_q;
  assign m_zero_rank = no_zeros_q ? ZERO_RANK_BITS'(ZERO_RANK_NONE) : zero_rank_q;
  assign m_bits[CODER_R0] = sum1_q;
  assign m_bits[CODER_R1] = sum2_q;
  assign m_bits[CODER_R2] = sum4_q;
  assign m_bits[CODER_F2] = after_q - first3_q;
  assign m_escapes_short = tail15_q + more_short_q;
  assign m_escapes_long = tail_q + more_long_q;

endmodule
