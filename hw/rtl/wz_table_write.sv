// SPDX-License-Identifier: Apache-2.0
//
// Writes the rank table of a block: for each symbol of its list (mod 32: they are consecutive) the
// place (docs/format.md, section 7). Follows the walk of wz_order, one symbol a clock: by its decisions
// up to place 14; from there on alternately, while the walk, which takes two at a time, is ahead.
//
// s_begin starts a block; s_over says that its walk is over and the zero rank final. m_range, the
// ranked symbols' interval with 15 and with 31 ranks, comes with the last write or after it.
//
//   latency       m_range at most 33 clocks after s_begin, at once for a block without ranks (with an
//                 interval of no meaning)
//   throughput    a block at a time: none may begin while m_busy
//   back-pressure none; m_range must be taken before the next block begins

module wz_table_write
  import wz_format_pkg::*;
  import wz_analyze_pkg::*;
(
    input logic clk,
    input logic rst,  // synchronous, active high

    input logic       s_begin,
    input logic       s_ranked,
    input logic [7:0] s_base,
    input logic [8:0] s_left,  // base - 1
    input logic [8:0] s_right,  // base + 1
    input logic [7:0] s_highest,  // S
    input logic       s_bank,  // holds during the walk
    input logic       s_decided,  // a place up to 14, and on which side its symbol lies
    input logic       s_decided_left,
    input logic [5:0] s_steps,  // length of the list so far
    input logic       s_over,
    input logic       s_unranked,  // symbol 0 takes no rank from the others; valid once over
    output logic      m_busy,

    output logic       table_we,
    output logic       table_bank,
    output logic [4:0] table_symbol,
    output logic [4:0] table_step,

    output range_t m_range_tdata,
    output logic   m_range_tvalid,
    input  logic   m_range_tready
);

  // Symbols in the list with 15 ranks, and with 31.
  localparam logic [5:0] SHORT = 6'(CODER_RANKS[CODER_R0]);
  localparam logic [5:0] LONG = 6'(CODER_RANKS[CODER_R2]);

  logic [8:0] low_end_q, high_end_q;  // the symbols next to the list
  logic low_ok_q, high_ok_q;  // there are such
  logic [5:0] written_q;
  logic [1:0][8:0] at14_q, at15_q, at30_q;  // the ends after so many symbols
  logic [7:0] highest_q;
  logic [4:0] base_low_q;
  logic writer_q;
  logic first_q, follow_q;  // the base is next; or one that the walk decides on
  logic write, write_left;
  always_comb begin
    if (first_q || follow_q) begin
      write = first_q || s_decided;
      write_left = s_decided_left;
    end else begin
      write = writer_q && written_q != s_steps;
      write_left = low_ok_q && (!high_ok_q || written_q[0]);
    end
  end

  // The last of a full list is not waited for.
  logic complete, fills;
  assign fills = s_over && write && written_q == LONG - 1'b1;
  assign complete = writer_q && s_over && (written_q == s_steps || fills);

  always_ff @(posedge clk) begin
    table_we <= write;
    table_bank <= s_bank;
    table_symbol <= first_q ? base_low_q : write_left ? low_end_q[4:0] : high_end_q[4:0];
    table_step <= written_q[4:0];
    if (write) begin
      first_q   <= 1'b0;
      follow_q  <= first_q || (follow_q && written_q != SHORT - 1'b1);
      written_q <= written_q + 1'b1;
      if (!first_q) begin
        if (write_left) begin
          low_end_q <= low_end_q - 1'b1;
          low_ok_q  <= low_end_q != 9'd1;
        end else begin
          high_end_q <= high_end_q + 1'b1;
          high_ok_q  <= high_end_q != {1'b0, highest_q};
        end
      end
    end
    if (written_q == SHORT - 1'b1) at14_q <= {high_end_q, low_end_q};
    if (written_q == SHORT) at15_q <= {high_end_q, low_end_q};
    if (written_q != LONG) at30_q <= {high_end_q, low_end_q};
    if (complete) writer_q <= 1'b0;
    if (s_begin) begin
      writer_q <= s_ranked;
      first_q <= s_ranked;
      follow_q <= 1'b0;
      written_q <= '0;
      base_low_q <= s_base[4:0];
      highest_q <= s_highest;
      low_end_q <= s_left;
      high_end_q <= s_right;
      low_ok_q <= s_base != 8'd1;
      high_ok_q <= s_base != s_highest;
    end
    if (rst) begin
      writer_q <= 1'b0;
      first_q <= 1'b0;
      follow_q <= 1'b0;
      table_we <= 1'b0;
    end
  end

  // A plan that waits for it comes later than the last write.
  logic [1:0][8:0] short_ends, long_ends;
  assign short_ends = s_unranked ? at15_q : at14_q;
  assign long_ends = s_unranked || fills ? {high_end_q, low_end_q} : at30_q;
  assign m_busy = writer_q;
  always_ff @(posedge clk) begin
    if (m_range_tready) m_range_tvalid <= 1'b0;
    if (complete || (s_begin && !s_ranked)) begin
      m_range_tvalid <= 1'b1;
      m_range_tdata.short_lo <= 8'(short_ends[0] + 1'b1);
      m_range_tdata.short_hi <= 8'(short_ends[1] - 1'b1);
      // The symbol that is just written counts as well if symbol 0 takes no rank.
      m_range_tdata.long_lo <= 8'(long_ends[0] + 9'(!(fills && s_unranked && write_left)));
      m_range_tdata.long_hi <= 8'(long_ends[1] - 9'(!(fills && s_unranked && !write_left)));
    end
    if (rst) m_range_tvalid <= 1'b0;
  end

endmodule
