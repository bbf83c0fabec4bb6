// SPDX-License-Identifier: Apache-2.0
//
// What each coder would make of a block: bits of the unary section and number of escapes, and the zero
// rank (docs/format.md, sections 7 and 8). All follow from the counts of the symbols in the list.
//
// s_start brings the block's numbers of values; from the next clock on, s_valid brings the list's
// counts in order, one or (s_two, from symbol 15 on) two a clock.
//
// A value of rank r costs a bit for each j up to r that the coder counts: every j for R0, every second
// for R1, every fourth for R2, and those from 3 on for F2. So bits are sums over j of the number of
// values of rank j or more. tail_q is that number by the list without symbol 0, of values of other
// symbols. Symbol 0, inserted at rank z, costs its own values a bit for each j up to z, and every value
// from place z of the list on one more if that shifts it over one of the coder's j: the tail at z,
// less for R1 and R2 the values at places that stay on their side (hold_*).
//
//   latency       sums are right 5 clocks after symbol 14 of the list, and 2 after any later one
//   throughput    a list symbol, or two, a clock
//   back-pressure none

module wz_coder_bits
  import wz_format_pkg::*;
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
    output logic                      m_unranked,  // symbol 0 is not in the order; a clock later
    output logic [3:0][SUM_W-1:0]     m_bits,  // by coder_e
    output logic [COUNT_W-1:0]        m_escapes_short,  // with 15 ranks
    output logic [COUNT_W-1:0]        m_escapes_long  // with 31 ranks
);

  // Places of the list with 15 ranks.
  localparam logic [5:0] SHORT = 6'(CODER_RANKS[CODER_R0]);

  logic [COUNT_W-1:0] zeros_now_q;  // stored values of symbol 0
  logic [COUNT_W-1:0] stored_q;
  logic [COUNT_W-1:0] tail_q, tail14_q, tail15_q, tail30_q;
  logic [COUNT_W-1:0] hold2_q, hold4_q;
  logic [SUM_W-1:0] bits1_q, bits2_q, bits4_q;
  logic [SUM_W-1:0] zero1_q, zero2_q, zero4_q;  // of the values of symbol 0
  logic [ZERO_RANK_BITS-1:0] zero_rank_q;
  logic at_least_q, at_least_valid_q, no_zeros_q, fresh_q;

  // What stood at each place of the list, to look up at the zero rank.
  logic [3*COUNT_W-1:0] places[16];
  always_ff @(posedge clk) begin
    if (s_valid && s_step < SHORT) begin
      places[s_step[3:0]] <= {hold4_q, hold2_q, tail_q};
    end
  end

  logic [COUNT_W-1:0] tail_one, tail_two;
  assign tail_one = tail_q - s_count;
  assign tail_two = tail_one - s_second;

  assign m_covered = tail_q == '0;
  assign m_zeros = zeros_now_q;
  assign m_zero_rank = no_zeros_q ? ZERO_RANK_BITS'(ZERO_RANK_NONE) : zero_rank_q;

  always_ff @(posedge clk) begin
    if (s_start) begin
      tail_q <= s_values - s_raw_zeros;
      hold2_q <= s_values - s_raw_zeros;
      hold4_q <= s_values - s_raw_zeros;
      zeros_now_q <= s_raw_zeros - s_left_out;
      stored_q <= s_values - s_left_out;
      no_zeros_q <= s_raw_zeros == s_left_out;
      bits1_q <= '0;
      bits2_q <= '0;
      bits4_q <= '0;
      tail30_q <= '0;
    end
    if (s_valid) begin
      tail_q <= s_two ? tail_two : tail_one;
      if (s_step < SHORT) bits1_q <= bits1_q + SUM_W'(tail_q);
      if (s_step < SHORT && s_step[0]) begin
        bits2_q <= bits2_q + SUM_W'(tail_q);
        hold2_q <= hold2_q - s_count;
      end
      if (s_step[1:0] == 2'd3) begin
        bits4_q <= bits4_q + SUM_W'(tail_q);
        hold4_q <= hold4_q - s_count;
      end
      if (s_step == SHORT - 1'b1) begin
        tail14_q <= tail_q;
        tail15_q <= tail_one;
      end
      // Of the last symbol, or of the last but one where it is one of two.
      if (s_step >= SHORT) tail30_q <= s_two ? tail_one : tail_q;
    end

    // Zero rank: how many of the first 15 occur at least as often.
    at_least_valid_q <= s_valid && s_step < SHORT;
    at_least_q <= s_count >= zeros_now_q;
    fresh_q <= s_valid && s_step == '0;
    if (fresh_q) begin
      // The first comparison is the base's.
      zero_rank_q <= ZERO_RANK_BITS'(at_least_q);
      zero1_q <= at_least_q ? SUM_W'({zeros_now_q, 1'b0}) : SUM_W'(zeros_now_q);
      zero2_q <= SUM_W'(zeros_now_q);
      zero4_q <= SUM_W'(zeros_now_q);
    end else if (at_least_valid_q && at_least_q) begin
      zero_rank_q <= zero_rank_q + 1'b1;
      zero1_q <= zero1_q + SUM_W'(zeros_now_q);
      if (zero_rank_q[0]) zero2_q <= zero2_q + SUM_W'(zeros_now_q);
      if (&zero_rank_q[1:0]) zero4_q <= zero4_q + SUM_W'(zeros_now_q);
    end
  end

  // The tails at places 0, 1 and 2.
  logic [COUNT_W-1:0] tail0_q, tail1_q, tail2_q;
  always_ff @(posedge clk) begin
    if (s_valid && s_step == 6'd0) tail0_q <= tail_q;
    if (s_valid && s_step == 6'd1) tail1_q <= tail_q;
    if (s_valid && s_step == 6'd2) tail2_q <= tail_q;
  end

  // 2 more clocks. Where symbol 0 has no rank its values, if any, are escapes.
  logic unranked;
  assign unranked = no_zeros_q || zero_rank_q == ZERO_RANK_BITS'(ZERO_RANK_NONE);
  logic [COUNT_W-1:0] shift1_q, shift2_q, shift4_q, rank1_q, rank2_q;
  logic [SUM_W-1:0] sum1_q, sum2_q, sum4_q, sum_flat_q, first3_q;
  logic [SUM_W-1:0] pair1_q, pair2_q, pair4_q;
  logic unranked_q;
  logic [COUNT_W-1:0] escapes_short_q, escapes_long_q;
  logic [3*COUNT_W-1:0] place;
  assign place = places[zero_rank_q];
  always_ff @(posedge clk) begin
    unranked_q <= unranked;
    shift1_q <= unranked ? tail15_q : place[0+:COUNT_W];
    shift2_q <= unranked ? hold2_q : place[COUNT_W+:COUNT_W];
    shift4_q <= unranked ? hold4_q : place[2*COUNT_W+:COUNT_W];
    pair1_q <= bits1_q + zero1_q;
    pair2_q <= bits2_q + zero2_q;
    // An escape of R2 has quotient 7.
    pair4_q <= bits4_q + (unranked ? SUM_W'({zeros_now_q, 3'd0}) : zero4_q);
    // Values of rank 1 and more, and of rank 2 and more.
    rank1_q <= zero_rank_q == '0 && !unranked ? tail0_q : tail1_q + zeros_now_q;
    rank2_q <= !unranked && zero_rank_q[ZERO_RANK_BITS-1:1] == '0 ? tail1_q :
        tail2_q + zeros_now_q;

    sum1_q <= pair1_q + SUM_W'(shift1_q);
    sum2_q <= pair2_q + SUM_W'(shift2_q);
    sum4_q <= pair4_q + SUM_W'(shift4_q);
    first3_q <= SUM_W'(stored_q) + SUM_W'(rank1_q) + SUM_W'(rank2_q);
    sum_flat_q <= sum1_q - first3_q;
    escapes_short_q <= unranked ? tail15_q + zeros_now_q : tail14_q;
    escapes_long_q <= unranked ? tail_q + zeros_now_q : tail30_q;
  end

  assign m_unranked = unranked_q;
  assign m_bits[CODER_R0] = sum1_q;
  assign m_bits[CODER_R1] = sum2_q;
  assign m_bits[CODER_R2] = sum4_q;
  assign m_bits[CODER_F2] = sum_flat_q;
  assign m_escapes_short = escapes_short_q;
  assign m_escapes_long = escapes_long_q;

endmodule
