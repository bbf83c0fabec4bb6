// SPDX-License-Identifier: Apache-2.0
//
// Checks that a section is padded with zeros: the bits of its last word from `s_used` up.
//
// One finding a frame, with the word marked s_last: whether the last word of the remainders or that
// of the low bits broke the rule.
//
//   latency       3 clocks
//   throughput    1 word a clock
//   back-pressure none

module wz_padding
  import wz_sections_pkg::*;
(
    input logic clk,
    input logic rst,  // synchronous, active high

    input logic [8*WORD_BYTES-1:0] s_data,
    input logic [6:0]              s_used,  // 0: the word has no padding
    input logic                    s_remainder,  // the word is of the remainders
    input logic                    s_last,  // of the frame
    input logic                    s_valid,

    output logic m_remainder_bad,
    output logic m_low_bad,
    output logic m_valid
);

  logic [WORD_BYTES-1:0] beyond_q;  // bytes wholly beyond that are not zero
  logic [7:0] partial_q;  // the byte in which the padding begins
  logic [2:0] bits_q;
  logic padded_q, remainder_q, last_q, valid_q;
  logic broken_q, broken_remainder_q, broken_last_q, broken_valid_q;
  logic [1:0] bad_q;  // of the frame: low bits, remainders
  logic out_valid_q;

  assign {m_low_bad, m_remainder_bad} = bad_q;
  assign m_valid = out_valid_q;

  always_ff @(posedge clk) begin
    for (int i = 0; i < int'(WORD_BYTES); i++) begin
      beyond_q[i] <= s_data[8*i+:8] != '0 && 4'(i) > s_used[6:3];
    end
    partial_q <= s_data[{s_used[6:3], 3'd0}+:8];
    bits_q <= s_used[2:0];
    padded_q <= s_used != '0;
    remainder_q <= s_remainder;
    last_q <= s_last;
    valid_q <= s_valid;

    broken_q <= padded_q && (beyond_q != '0 || (partial_q >> bits_q) != '0);
    broken_remainder_q <= remainder_q;
    broken_last_q <= last_q;
    broken_valid_q <= valid_q;

    // Behind the last word of a frame begins the next.
    out_valid_q <= broken_valid_q && broken_last_q;
    if (out_valid_q) bad_q <= '0;
    if (broken_valid_q && broken_q) bad_q[!broken_remainder_q] <= 1'b1;

    if (rst) begin
      valid_q <= 1'b0;
      broken_valid_q <= 1'b0;
      bad_q <= '0;
      out_valid_q <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  a_latency : assert property (@(posedge clk) disable iff (rst)
      s_valid && s_last |=> ##2 m_valid);
`endif

endmodule
