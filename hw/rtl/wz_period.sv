// SPDX-License-Identifier: Apache-2.0
//
// Does a block repeat with a period of 1, 2 or 4 bytes? (constant mode, docs/format.md, section 4)
//
// Takes the beats of a block as they are, bytes outside s_tkeep zero. m_pattern is the block's first
// four bytes, zero beyond its end. A block that is not longer than a period has it.
//
//   latency       3 clocks; the outputs hold until the next beat's
//   throughput    1 beat a clock
//   back-pressure none

module wz_period (
    input logic clk,

    input logic [511:0] s_tdata,
    input logic [ 63:0] s_tkeep,
    input logic         s_first,
    input logic         s_valid,

    output logic [ 2:0] m_periods,  // bit i: the block so far has a period of 2**i bytes
    output logic [31:0] m_pattern
);

  // Clock 1: does each byte equal the one at its place in the beat's first word? And that word, the
  // block's first?
  logic [63:0] differs_q;
  logic first_q, valid_q;
  logic halves_q, bytes_q;  // the block's first word repeats within itself
  logic [31:0] word_q, word2_q;
  always_ff @(posedge clk) begin
    valid_q <= s_valid;
    if (s_valid) begin
      first_q <= s_first;
      for (int i = 0; i < 4; i++) begin
        differs_q[i] <= s_tkeep[i] && !s_first && s_tdata[8*i+:8] != word_q[8*i+:8];
      end
      for (int i = 4; i < 64; i++) begin
        differs_q[i] <= s_tkeep[i] && s_tdata[8*i+:8] != s_tdata[8*(i%4)+:8];
      end
      if (s_first) begin
        word_q <= s_tdata[31:0];
        halves_q <= (!s_tkeep[2] || s_tdata[23:16] == s_tdata[7:0]) &&
                    (!s_tkeep[3] || s_tdata[31:24] == s_tdata[15:8]);
        bytes_q <= !s_tkeep[1] || s_tdata[15:8] == s_tdata[7:0];
      end
    end
  end

  // Clock 2: in groups of 8.
  logic [7:0] group_q;
  logic halves2_q, bytes2_q, first2_q, valid2_q;
  always_ff @(posedge clk) begin
    valid2_q <= valid_q;
    for (int i = 0; i < 8; i++) group_q[i] <= |differs_q[8*i+:8];
    halves2_q <= halves_q;
    bytes2_q <= bytes_q;
    first2_q <= first_q;
    word2_q <= word_q;
  end

  // Clock 3: over the block.
  logic [2:0] fits;
  assign fits = {1'b1, halves2_q, halves2_q && bytes2_q} & {3{group_q == '0}};
  always_ff @(posedge clk) begin
    if (valid2_q) begin
      m_periods <= fits & (first2_q ? '1 : m_periods);
      m_pattern <= word2_q;
    end
  end

endmodule
