// SPDX-License-Identifier: Apache-2.0
//
// Buffer of rows that is written in lanes: a FIFO for streams that do not come in whole words.
//
// Every lane is a memory of its own with its own address, so one write can end a row and begin the
// next: lanes in w_next go to the row behind w_row. That replaces the accumulator, the split of
// words and the flush of the last one that a packer would need. Lanes that were never written hold
// what was there before; the reader knows where a section begins and ends and masks them.
//
// The writer counts rows (modulo ROWS), says with w_done how many are now complete, and must leave
// unread rows alone: with r_row, the oldest, it knows how many there are.
//
//   latency       a row is at r_data the clock after the write that completes it
//   throughput    1 write and 1 row a clock
//   back-pressure none for writes; r_data stays until r_ready

module wz_rows #(
    parameter int unsigned LANES = 64,
    parameter int unsigned LANE_W = 8,
    parameter int unsigned ROWS = 32,  // a power of two, 4 or more
    localparam int unsigned ROW_W = $clog2(ROWS)
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input logic                         w_valid,
    input logic [LANES-1:0]             w_lanes,  // lanes to write
    input logic [LANES-1:0]             w_next,
    input logic [ROW_W-1:0]             w_row,
    input logic [LANES-1:0][LANE_W-1:0] w_data,
    input logic [1:0]                   w_done,  // rows that this write completes, 0 to 2

    output logic [LANES-1:0][LANE_W-1:0] r_data,
    output logic                         r_valid,
    input  logic                         r_ready,
    output logic [ROW_W-1:0]             r_row
);

  logic [ROW_W-1:0] read_q, after;
  logic [ROW_W:0] complete_q;
  logic one_q, valid_q;  // complete_q is 1; is not 0
  logic pop, done;

  assign after = w_row + 1'b1;
  assign r_row = read_q;
  assign r_valid = valid_q;
  assign pop = valid_q && r_ready;
  assign done = w_valid && w_done != '0;

  for (genvar i = 0; i < LANES; i++) begin : g_lane
    logic [LANE_W-1:0] memory[ROWS];
    logic [ROW_W-1:0] address;
    assign address = w_next[i] ? after : w_row;
    always_ff @(posedge clk) begin
      if (w_valid && w_lanes[i]) memory[address] <= w_data[i];
    end
    assign r_data[i] = memory[read_q];
  end

  logic [ROW_W:0] more;
  assign more = w_valid ? (ROW_W + 1)'(w_done) : '0;

  always_ff @(posedge clk) begin
    if (pop) read_q <= read_q + 1'b1;
    // A pop is too late for an adder's carry in: it selects.
    complete_q <= pop ? complete_q + more - 1'b1 : complete_q + more;
    one_q   <= pop ? complete_q + more == (ROW_W + 1)'(2) : complete_q + more == (ROW_W + 1)'(1);
    valid_q <= done || (pop ? !one_q : valid_q);
    if (rst) begin
      read_q <= '0;
      complete_q <= '0;
      one_q <= 1'b0;
      valid_q <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  initial assert (ROWS >= 4 && ROWS == 1 << ROW_W);
  // Row w_row is not one that waits to be read, nor is the next where it is written.
  a_room : assert property (@(posedge clk) disable iff (rst)
      w_valid |-> complete_q < (ROW_W + 1)'(ROWS - 1));
  a_order : assert property (@(posedge clk) disable iff (rst)
      w_valid |-> w_row == ROW_W'(read_q + ROW_W'(complete_q)));
  a_latency : assert property (@(posedge clk) disable iff (rst)
      done |=> r_valid);
  a_count : assert property (@(posedge clk) disable iff (rst)
      valid_q == (complete_q != '0) && one_q == (complete_q == (ROW_W + 1)'(1)));
  a_stable : assert property (@(posedge clk) disable iff (rst)
      r_valid && !r_ready |=> r_valid && $stable(r_row));
`endif

endmodule
