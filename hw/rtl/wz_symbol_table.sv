// SPDX-License-Identifier: Apache-2.0
//
// The symbol of each rank (docs/format.md, section 7), looked up for LANES ranks at once.
//
// A job's order is walked two ranks a clock and written to one of two tables, each with a copy for
// every lane. Lookups are in the older table until `done`, with which it is free for another job.
//
// No step depends on what the step before has met: after l + r steps of a path to the left and to the
// right of the base, the next symbol is known, and where one side has come to its end, all symbols on
// that side have been met, so that the number of steps alone tells the symbol.
//
//   latency       from a job to m_ready: 11 clocks with 15 ranks, 19 with 31
//   throughput    8 clocks a job with 15 ranks, 16 with 31; any number of lookups
//   back-pressure s_job_tready is low while a walk is going on or both tables are taken
//
// Lookups are combinational: a memory read and a multiplexer. Of a base that is not a symbol from 1
// on the table is undefined.

module wz_symbol_table
  import wz_format_pkg::*;
  import wz_restore_pkg::*;
#(
    parameter int unsigned LANES = 32,
    parameter logic [5:0] TYPES = 6'b111111
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input  table_job_t s_job_tdata,
    input  logic       s_job_tvalid,
    output logic       s_job_tready,

    output logic                  m_ready,  // the next job's table is complete
    input  logic                  done,     // with the table; only if m_ready
    input  logic [LANES-1:0][4:0] rank,
    output logic [LANES-1:0][7:0] symbol,
    output logic [LANES-1:0]      nonzero,  // the symbol is not 0
    output logic [LANES-1:0]      known     // the order has this rank
);

  localparam int unsigned PAIR_W = 4;

  // Symbols up to 15, 31 or 255, the last two as a bit each.
  function automatic logic [1:0] symbol_bits(input element_type_e element);
    symbol_bits = 2'b00;
    for (int tag = 0; tag < 6; tag++) begin
      if (element == element_type_e'(3'(tag))) begin
        symbol_bits = {LAYOUTS[tag].exponent_bits == 8, LAYOUTS[tag].exponent_bits == 5};
      end
    end
  endfunction

  // The largest symbol, of symbol_bits.
  function automatic logic [7:0] largest(input logic [1:0] bits);
    return {{3{bits[1]}}, bits != '0, 4'b1111};
  endfunction

  // The walk over the symbols but 0, of which step k gives the one at place k of the order. `left_q`
  // is the next symbol on the left, `right_q` the last one on the right, `more_q` how many there are
  // beyond; a negative number tells that the path has gone too far. It begins with the base on the
  // left and a path that goes there, so that the base is a step like any other.
  logic walking_q, ending_q, long_q, load;
  logic [PAIR_W-1:0] pair_q;
  logic [ZERO_RANK_BITS-1:0] zero_rank_q;
  logic [1:0] bits_q, job_bits;
  logic [PATH_BITS+16:0] path_q;  // base, path, then left at every second step
  logic [8:0] left_q, left_next, more_q, more_next;
  logic [7:0] right_q;

  assign job_bits = symbol_bits(built(TYPES, s_job_tdata.element));
  assign left_next = left_q - 9'(path_q[0]) - 9'(path_q[1]);
  assign more_next = more_q - 9'(!path_q[0]) - 9'(!path_q[1]);

  // Tables: `write_bank_q` is being written, `read_bank_q` is looked up in.
  logic write_bank_q, read_bank_q;
  logic [1:0] taken_q, complete_q;
  logic finishing_q, finished_q;

  assign load = s_job_tvalid && s_job_tready;
  assign s_job_tready = (!walking_q || ending_q) && taken_q != 2'd2;
  assign m_ready = complete_q != '0;

  always_ff @(posedge clk) begin
    pair_q <= pair_q + 1'b1;
    ending_q <= pair_q[2:0] == 3'd6 && pair_q[3] == long_q;
    left_q <= left_next;
    more_q <= more_next;
    right_q <= right_q + 8'(!path_q[0]) + 8'(!path_q[1]);
    path_q <= path_q >> 2;

    if (load) begin
      pair_q <= '0;
      ending_q <= 1'b0;
      long_q <= s_job_tdata.coder == CODER_R2;
      zero_rank_q <= s_job_tdata.zero_rank;
      bits_q <= job_bits;
      path_q <= {16'h5555, s_job_tdata.path, 1'b1};
      left_q <= 9'(s_job_tdata.base);
      right_q <= s_job_tdata.base;
      // The largest symbol is all ones.
      more_q <= {1'b0, ~s_job_tdata.base & largest(job_bits)};
      write_bank_q <= !write_bank_q;
    end

    if (load) walking_q <= 1'b1;
    else if (ending_q) walking_q <= 1'b0;
    finishing_q <= walking_q && ending_q;
    finished_q  <= finishing_q;
    taken_q <= taken_q + 2'(load) - 2'(done);
    complete_q <= complete_q + 2'(finished_q) - 2'(done);
    if (done) read_bank_q <= !read_bank_q;

    if (rst) begin
      walking_q <= 1'b0;
      finishing_q <= 1'b0;
      finished_q <= 1'b0;
      taken_q <= '0;
      complete_q <= '0;
      write_bank_q <= 1'b1;
      read_bank_q <= 1'b0;
    end
  end

  // Clock 1: two steps of the path, whether a side has come to its end with them, and whether the
  // ranks of the same numbers are that of symbol 0 or lie behind it.
  typedef struct packed {
    logic left_end;
    logic right_end;
    logic known;  // there are so many symbols
    logic [7:0] symbol;
    logic zero;
    logic behind;
  } step_t;

  step_t even_step_q, odd_step_q;
  logic [PAIR_W-1:0] step_pair_q;
  logic [1:0] step_bits_q;
  logic step_bank_q, step_valid_q;
  logic always_known, has_zero;

  // A build for 8-bit exponents alone needs no mark: its orders are never short.
  assign always_known = (TYPES & ~6'b001010) == '0;
  assign has_zero = zero_rank_q != ZERO_RANK_BITS'(ZERO_RANK_NONE);

  always_ff @(posedge clk) begin
    even_step_q <= '{
        left_end: left_q[8] || (left_q == '0 && path_q[0]),
        right_end: more_q[8] || (more_q == '0 && !path_q[0]),
        known: bits_q != '0 || !pair_q[3],
        symbol: path_q[0] ? left_q[7:0] : right_q + 8'd1,
        zero: has_zero && {pair_q, 1'b0} == 5'(zero_rank_q),
        behind: has_zero && {pair_q, 1'b0} > 5'(zero_rank_q)
    };
    odd_step_q <= '{
        left_end: left_next[8],
        right_end: more_next[8],
        known: bits_q[1] || (bits_q[0] ? pair_q != 4'd15 : pair_q < 4'd7),
        symbol: path_q[1] ? left_q[7:0] - 8'(path_q[0]) : right_q + (path_q[0] ? 8'd1 : 8'd2),
        zero: has_zero && {pair_q, 1'b1} == 5'(zero_rank_q),
        behind: has_zero && {pair_q, 1'b1} > 5'(zero_rank_q)
    };
    step_pair_q <= pair_q;
    step_bits_q <= bits_q;
    step_bank_q <= write_bank_q;
    step_valid_q <= walking_q;
    if (rst) step_valid_q <= 1'b0;
  end

  // Clock 2: symbols, and symbol 0 among them, which moves those behind it by one. Entries: known,
  // nonzero, symbol.
  logic [8:0] even_symbol, odd_symbol, odd_before_q;  // the top bit: known
  logic [9:0] even_q, odd_q;
  logic [PAIR_W:0] address_q;
  logic write_q;

  assign even_symbol = {
    even_step_q.known || always_known,
    even_step_q.left_end ? 8'({step_pair_q, 1'b1})
        : even_step_q.right_end ? {3'b111, ~step_pair_q, 1'b1} & largest(step_bits_q)
        : even_step_q.symbol
  };
  assign odd_symbol = {
    odd_step_q.known || always_known,
    odd_step_q.left_end ? 8'({5'(step_pair_q) + 5'd1, 1'b0})
        : odd_step_q.right_end ? {3'b111, ~step_pair_q, 1'b0} & largest(step_bits_q)
        : odd_step_q.symbol
  };

  function automatic logic [9:0] entry_of(input logic zero, input logic [8:0] of_step);
    return zero ? {1'b1, 1'b0, 8'd0} : {of_step[8], of_step};
  endfunction

  always_ff @(posedge clk) begin
    odd_before_q <= odd_symbol;
    even_q <= entry_of(even_step_q.zero, even_step_q.behind ? odd_before_q : even_symbol);
    odd_q <= entry_of(odd_step_q.zero, odd_step_q.behind ? even_symbol : odd_symbol);
    address_q <= {step_bank_q, step_pair_q};
    write_q <= step_valid_q;
    if (rst) write_q <= 1'b0;
  end

  for (genvar i = 0; i < LANES; i++) begin : g_lane
    logic [9:0] even[32];
    logic [9:0] odd[32];
    logic [4:0] address;
    logic [9:0] entry;
    assign address = {read_bank_q, rank[i][4:1]};
    assign entry = rank[i][0] ? odd[address] : even[address];
    assign {known[i], nonzero[i], symbol[i]} = {entry[9] || always_known, entry[8:0]};
    always_ff @(posedge clk) begin
      if (write_q) begin
        even[address_q] <= even_q;
        odd[address_q]  <= odd_q;
      end
    end
  end

`ifndef SYNTHESIS
  a_done : assert property (@(posedge clk) disable iff (rst) done |-> m_ready);
  a_taken : assert property (@(posedge clk) disable iff (rst)
      taken_q <= 2'd2 && complete_q <= taken_q);
`endif

endmodule
