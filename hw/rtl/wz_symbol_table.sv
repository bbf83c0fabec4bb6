// SPDX-License-Identifier: Apache-2.0
//
// The symbol of each rank (docs/format.md, section 7), looked up for LANES ranks at once.
//
// A job's order is walked two ranks a clock and written to one of two tables, each with a copy for
// every lane. Lookups are in the older table until `done`, with which it is free for another job.
//
//   latency       from a job to m_ready: 10 clocks with 15 ranks, 18 with 31
//   throughput    8 clocks a job with 15 ranks, 16 with 31; any number of lookups
//   back-pressure s_job_tready is low while a walk is going on or both tables are taken
//
// Lookups are combinational: a memory read and a multiplexer.

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

  // Whether a number is at most S - less, for less up to 3.
  function automatic logic at_most(input logic [9:0] x, input logic [1:0] bits,
                                   input logic [1:0] less);
    logic end_of_four;
    end_of_four = x[1:0] > 2'd3 - less;
    return (bits[1] && x[9:8] == '0 && !(&x[7:2] && end_of_four)) ||
           (bits[0] && x[9:5] == '0 && !(&x[4:2] && end_of_four)) ||
           (bits == '0 && x[9:4] == '0 && !(&x[3:2] && end_of_four));
  endfunction

  // Walk: `left_q` and `right_q` are the next symbols on each side. It begins with the base on the
  // left and a path that goes there, so that the base is a step like any other.
  logic walking_q, last_pair, load;
  logic [PAIR_W-1:0] pair_q, last_pair_q;
  logic [PAIR_W-1:0] to_zero_q;  // pairs before the one that symbol 0 is in
  logic zero_odd_q, zero_none_q, zero_first_q, zero_second_q;
  logic [1:0] bits_q;
  logic [PATH_BITS+16:0] path_q;  // base, path, then left at every second step
  logic [7:0] left_q, left_1, left_2;
  logic [9:0] right_q, right_1, right_2, job_1;
  logic [1:0] job_bits;
  // Whether left_q, left_q - 1, ... are at least 1, and right_q, right_q + 1, ... at most S.
  logic [1:0] left_ok_q, right_ok_q;
  logic [3:0] left_ok, right_ok;

  assign last_pair = pair_q == last_pair_q;

  assign left_1 = left_q - 8'd1;
  assign left_2 = left_q - 8'd2;
  assign right_1 = right_q + 10'd1;
  assign right_2 = right_q + 10'd2;
  assign job_1 = 10'(s_job_tdata.base) + 10'd1;
  assign job_bits = symbol_bits(built(TYPES, s_job_tdata.element));
  assign left_ok = {left_q > 8'd3, left_q > 8'd2, left_ok_q};
  assign right_ok = {at_most(right_q, bits_q, 2'd3), at_most(right_q, bits_q, 2'd2), right_ok_q};

  // Two ranks: the second for either turn of the first, as if there were no symbol 0; then what a
  // rank of symbol 0 leaves of that.
  logic turn_left, turn_right, first_left, first_right, second_left, second_right;
  logic after_left_left, after_left_right, after_right_left, after_right_right;
  logic [7:0] first_symbol, second_symbol;

  always_comb begin
    turn_left = left_ok_q[0] && (!right_ok_q[0] || path_q[0]);
    turn_right = right_ok_q[0] && !(left_ok_q[0] && path_q[0]);
    after_left_left = left_ok_q[1] && (!right_ok_q[0] || path_q[1]);
    after_left_right = right_ok_q[0] && !(left_ok_q[1] && path_q[1]);
    after_right_left = left_ok_q[0] && (!right_ok_q[1] || path_q[1]);
    after_right_right = right_ok_q[1] && !(left_ok_q[0] && path_q[1]);
    first_left = turn_left && !zero_first_q;
    first_right = turn_right && !zero_first_q;
    second_left = !zero_second_q &&
                  (zero_first_q ? turn_left : turn_left ? after_left_left : after_right_left);
    second_right = !zero_second_q &&
                   (zero_first_q ? turn_right : turn_left ? after_left_right : after_right_right);
    first_symbol = turn_left ? left_q : right_q[7:0];
    second_symbol = second_left ? (first_left ? left_1 : left_q)
                                : (first_right ? right_1[7:0] : right_q[7:0]);
  end

  // Tables: `write_bank_q` is being written, `read_bank_q` is looked up in.
  logic write_bank_q, read_bank_q;
  logic [1:0] taken_q, complete_q;
  logic finished_q;

  assign load = s_job_tvalid && s_job_tready;
  assign s_job_tready = (!walking_q || last_pair) && taken_q != 2'd2;
  assign m_ready = complete_q != '0;

  always_ff @(posedge clk) begin
    pair_q <= pair_q + 1'b1;
    left_q <= first_left ? (second_left ? left_2 : left_1) : (second_left ? left_1 : left_q);
    left_ok_q <= first_left ? (second_left ? left_ok[3:2] : left_ok[2:1])
                            : (second_left ? left_ok[2:1] : left_ok[1:0]);
    right_q <= first_right ? (second_right ? right_2 : right_1)
                           : (second_right ? right_1 : right_q);
    right_ok_q <= first_right ? (second_right ? right_ok[3:2] : right_ok[2:1])
                              : (second_right ? right_ok[2:1] : right_ok[1:0]);
    path_q <= (zero_first_q || zero_second_q) ? path_q >> 1 : path_q >> 2;

    to_zero_q <= to_zero_q - 1'b1;
    zero_first_q <= to_zero_q == PAIR_W'(1) && !zero_odd_q;
    zero_second_q <= to_zero_q == PAIR_W'(1) && zero_odd_q && !zero_none_q;

    if (load) begin
      pair_q <= '0;
      last_pair_q <= (s_job_tdata.coder == CODER_R2) ? 4'd15 : 4'd7;
      // Ranks of symbol 0 are below 15: counting from it does not come round within a walk.
      to_zero_q <= PAIR_W'(s_job_tdata.zero_rank[ZERO_RANK_BITS-1:1]);
      zero_odd_q <= s_job_tdata.zero_rank[0];
      zero_none_q <= s_job_tdata.zero_rank == ZERO_RANK_BITS'(ZERO_RANK_NONE);
      zero_first_q <= s_job_tdata.zero_rank == '0;
      zero_second_q <= s_job_tdata.zero_rank == ZERO_RANK_BITS'(1);
      bits_q <= job_bits;
      path_q <= {16'h5555, s_job_tdata.path, 1'b1};
      left_q <= s_job_tdata.base;
      right_q <= job_1;
      left_ok_q <= {s_job_tdata.base > 8'd1, s_job_tdata.base != '0};
      right_ok_q <= {at_most(job_1, job_bits, 2'd1), at_most(job_1, job_bits, 2'd0)};
      write_bank_q <= !write_bank_q;
    end

    if (load) walking_q <= 1'b1;
    else if (last_pair) walking_q <= 1'b0;
    finished_q  <= walking_q && last_pair;
    taken_q <= taken_q + 2'(load) - 2'(done);
    complete_q <= complete_q + 2'(finished_q) - 2'(done);
    if (done) read_bank_q <= !read_bank_q;

    if (rst) begin
      walking_q <= 1'b0;
      finished_q <= 1'b0;
      taken_q <= '0;
      complete_q <= '0;
      write_bank_q <= 1'b1;
      read_bank_q <= 1'b0;
    end
  end

  // Entries: known, nonzero, symbol.
  logic [9:0] even_q, odd_q;
  logic [PAIR_W:0] address_q;
  logic write_q;
  logic always_known;

  // A build for 8-bit exponents alone needs no mark: its orders are never short.
  assign always_known = (TYPES & ~6'b001010) == '0;

  always_ff @(posedge clk) begin
    even_q <= {
      first_left || first_right || zero_first_q || always_known,
      first_left || first_right,
      first_symbol & {8{!zero_first_q}}
    };
    odd_q <= {
      second_left || second_right || zero_second_q || always_known,
      second_left || second_right,
      second_symbol & {8{!zero_second_q}}
    };
    address_q <= {write_bank_q, pair_q};
    write_q <= walking_q;
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
