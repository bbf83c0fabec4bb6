// SPDX-License-Identifier: Apache-2.0
//
// Writes the rank table of a block: for each symbol of its list (mod 32: they are consecutive) the
// place (docs/format.md, section 7). Follows the walk of wz_order, one symbol a clock: by its decisions
// up to place 14; from there on alternately, while the walk, which takes two at a time, is ahead.
//
// s_begin starts a block; s_over says that its walk is over. m_range, the intervals of ranked symbols,
// comes with the last write or after it.
//
//   latency       m_range 2 clocks after the last step of a walk of up to 15 steps, at most 10 after
//                 that of a longer one
//   throughput    a block at a time: none may begin while m_busy
//   back-pressure m_busy stays while the m_range before is not taken

module wz_table_write
  import wz_format_pkg::*;
  import wz_pkg::*;
  import wz_analyze_pkg::*;
(
    input logic clk,
    input logic rst,  // synchronous, active high

    input logic       s_begin,
    input logic [7:0] s_base,
    input logic [7:0] s_highest,  // S
    input table_bank_t s_bank,  // holds during the walk
    input logic       s_decided,  // a place up to 14, and on which side its symbol lies
    input logic       s_decided_left,
    input logic [5:0] s_steps,  // length of the list so far
    input logic       s_more,  // one more than s_steps will be in the list
    input logic       s_over,
    output logic      m_busy,

    output logic       table_we,
    output table_bank_t table_bank,
    output logic [4:0] table_symbol,
    output logic [4:0] table_step,

    output range_t m_range_tdata,
    output logic   m_range_tvalid,
    input  logic   m_range_tready
);

  // Symbols in the list with 15 ranks, and with 31.
  localparam logic [5:0] SHORT = 6'(CODER_RANKS[CODER_R0]);
  localparam logic [5:0] LONG = 6'(CODER_RANKS[CODER_R2]);

  // Lowest and highest symbol of the list: so far, and when it had as many symbols as the coders have
  // ranks, less one for symbol 0.
  span_t list_q, list_d, at14_q, at15_q, at30_q;
  logic low_ok_q, high_ok_q;  // there are symbols beside it
  logic [5:0] written_q;
  logic [7:0] highest_q, next_lo, next_hi;
  logic writer_q;
  logic first_q, follow_q;  // the base is next; or one that the walk decides on
  logic write, write_left;
  assign next_lo = list_q.lo - 1'b1;
  assign next_hi = list_q.hi + 1'b1;
  always_comb begin
    if (first_q || follow_q) begin
      write = first_q || s_decided;
      write_left = s_decided_left;
    end else begin
      write = writer_q && (written_q != s_steps || s_more);
      write_left = low_ok_q && (!high_ok_q || written_q[0]);
    end
    list_d = list_q;
    if (s_begin) list_d = {s_base, s_base};
    else if (write && !first_q) begin
      if (write_left) list_d.lo = next_lo;
      else list_d.hi = next_hi;
    end
  end

  logic complete;
  assign complete = writer_q && s_over && written_q == s_steps &&
      (!m_range_tvalid || m_range_tready);

  always_ff @(posedge clk) begin
    table_we <= write;
    table_bank <= s_bank;
    table_symbol <= first_q ? list_q.lo[4:0] : write_left ? next_lo[4:0] : next_hi[4:0];
    table_step <= written_q[4:0];
    list_q <= list_d;
    if (s_begin || written_q < SHORT - 1'b1) at14_q <= list_d;
    if (s_begin || written_q < SHORT) at15_q <= list_d;
    if (s_begin || written_q < LONG - 1'b1) at30_q <= list_d;
    if (write) begin
      first_q   <= 1'b0;
      follow_q  <= first_q || (follow_q && written_q != SHORT - 1'b1);
      written_q <= written_q + 1'b1;
      if (!first_q) begin
        if (write_left) low_ok_q <= next_lo != 8'd1;
        else high_ok_q <= next_hi != highest_q;
      end
    end
    if (complete) writer_q <= 1'b0;
    if (s_begin) begin
      writer_q <= 1'b1;
      first_q <= 1'b1;
      follow_q <= 1'b0;
      written_q <= '0;
      highest_q <= s_highest;
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
  assign m_busy = writer_q;
  always_ff @(posedge clk) begin
    if (m_range_tready) m_range_tvalid <= 1'b0;
    if (complete) begin
      m_range_tvalid <= 1'b1;
      m_range_tdata.short_less <= at14_q;
      m_range_tdata.short_all <= at15_q;
      m_range_tdata.long_less <= at30_q;
      m_range_tdata.long_all <= list_q;
    end
    if (rst) m_range_tvalid <= 1'b0;
  end

endmodule
