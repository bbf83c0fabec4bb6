// SPDX-License-Identifier: Apache-2.0
//
// 32 counters of 64 bits, with a snapshot of all of them at one clock.
//
// Only the last 128 clocks are counted in flops. Then all these small counters move aside at once,
// and a pass over a memory adds them to the 64-bit values, a counter every 4 clocks. A pass that
// takes a snapshot writes what it computes into a second memory too, one that clears leaves zeros.
// Two memories and one short adder stand for 32 adders and 4096 flops.
//
// A bit of WIDE says that a counter takes steps of 0 to 64, else its step is 0 or 1.
//
//   latency       a step counts in snapshots requested in its clock or later;
//                 a snapshot or clear takes at most 261 clocks, during which `busy` is high
//   throughput    all counters every clock
//   back-pressure none; requests may come at any time
//
// Reading: `read_ack` and data two clocks after `read_req`. Until the first snapshot all is zero.

module wz_counters #(
    parameter logic [31:0] WIDE = '0
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input  logic [31:0][6:0] step,
    input  logic             snapshot,
    input  logic             clear,     // after the snapshot, if both come at once
    output logic             busy,

    input  logic        read_req,
    input  logic [ 5:0] read_address,  // counter and half, low half first
    output logic [31:0] read_data,
    output logic        read_ack
);

  localparam int unsigned PASS_CLOCKS = 128;
  localparam int unsigned SMALL_W = $clog2(PASS_CLOCKS * 64) + 1;
  localparam int unsigned NARROW_W = $clog2(PASS_CLOCKS) + 1;

  // A word of 32 bits every two clocks.
  logic [$clog2(PASS_CLOCKS)-1:0] clock_q;
  logic pass_ends_q;  // a flop: it goes to every counter

  // Requests wait for the next pass. The first after reset clears, and leaves an empty snapshot.
  logic snapshot_request_q, clear_request_q, snapshot_q, clear_q, fresh_q;
  always_ff @(posedge clk) begin
    clock_q <= clock_q + 1'b1;
    pass_ends_q <= clock_q == ($clog2(PASS_CLOCKS))'(PASS_CLOCKS - 2);
    if (pass_ends_q) begin
      snapshot_request_q <= snapshot;
      clear_request_q <= clear;
      snapshot_q <= snapshot_request_q;
      clear_q <= clear_request_q;
      fresh_q <= 1'b0;
    end else begin
      if (snapshot) snapshot_request_q <= 1'b1;
      if (clear) clear_request_q <= 1'b1;
    end

    if (rst) begin
      clock_q <= '0;
      pass_ends_q <= 1'b0;
      snapshot_request_q <= 1'b0;
      clear_request_q <= 1'b0;
      snapshot_q <= 1'b1;
      clear_q <= 1'b1;
      fresh_q <= 1'b1;
    end
  end

  // The small counters, and what they were when the pass began.
  logic [31:0][SMALL_W-1:0] aside;
  for (genvar i = 0; i < 32; i++) begin : g_small
    localparam int unsigned W = WIDE[i] ? SMALL_W : NARROW_W;
    localparam int unsigned STEP_W = WIDE[i] ? 7 : 1;
    logic [W-1:0] small_q, aside_q;
    assign aside[i] = SMALL_W'(aside_q);
    always_ff @(posedge clk) begin
      small_q <= (pass_ends_q ? '0 : small_q) + W'(step[i][STEP_W-1:0]);
      if (pass_ends_q) aside_q <= small_q;
      if (rst) begin
        small_q <= '0;
        aside_q <= '0;
      end
    end
    if (!WIDE[i]) begin : g_unused
      wire unused = &{1'b0, step[i][6:1]};
    end
  end

  // The pass, a word of 32 bits every two clocks and in four steps, so that no addition is long.
  logic [31:0] totals[64];
  logic [31:0] taken[64];
  logic [5:0] address, address0_q, address1_q, address2_q;
  logic phase;
  assign address = clock_q[6:1];
  assign phase = clock_q[0];

  // Step 0: read.
  logic [31:0] word_q;
  logic [SMALL_W-1:0] addend_q;

  // Step 1: add 8 bits and 8 bits. To a high half nothing is added but the carry, which so needs no
  // input of its own.
  logic [8:0] low_q, middle_q;
  logic [15:0] high1_q, high2_q;
  logic [SMALL_W-1:0] operand;
  logic carry;
  assign operand = {addend_q[SMALL_W-1:1], addend_q[0] || (address0_q[0] && carry)};

  // Step 2: the carry between them.
  logic [15:0] below_q;
  logic carry_q, all_ones_q;
  logic [8:0] middle;
  assign middle = middle_q + 9'(low_q[8]);
  assign carry = carry_q && all_ones_q;  // out of the word, in step 3

  // Step 3: the carry above, and write.
  logic [31:0] sum;
  assign sum = {high2_q + 16'(carry_q), below_q};

  // `write_q`: there is a word in step 2 and 3. Steps 1 and 2 carry the orders of its pass along.
  logic [2:1] write_q, snapshot_step_q, clear_step_q;

  always_ff @(posedge clk) begin
    if (!phase) begin
      word_q <= fresh_q ? '0 : totals[address];
      addend_q <= address[0] ? '0 : aside[address[5:1]];
      address0_q <= address;

      below_q <= {middle[7:0], low_q[7:0]};
      carry_q <= middle[8];
      all_ones_q <= &high1_q;
      high2_q <= high1_q;
      address2_q <= address1_q;
      write_q[2] <= write_q[1];
      snapshot_step_q[2] <= snapshot_step_q[1];
      clear_step_q[2] <= clear_step_q[1];
    end else begin
      low_q <= 9'(word_q[7:0]) + 9'(operand[7:0]);
      middle_q <= 9'(word_q[15:8]) + 9'(operand[SMALL_W-1:8]);
      high1_q <= word_q[31:16];
      address1_q <= address0_q;
      write_q[1] <= 1'b1;
      snapshot_step_q[1] <= snapshot_q;
      clear_step_q[1] <= clear_q;

      if (write_q[2]) totals[address2_q] <= clear_step_q[2] ? '0 : sum;
      if (write_q[2] && snapshot_step_q[2]) taken[address2_q] <= sum;
    end

    if (rst) write_q <= '0;
  end

  logic busy_q;
  assign busy = busy_q;
  always_ff @(posedge clk) begin
    busy_q <= snapshot || clear || snapshot_request_q || clear_request_q || snapshot_q || clear_q ||
        |(write_q & (snapshot_step_q | clear_step_q));
    if (rst) busy_q <= 1'b1;
  end

  logic [31:0] read_data_q;
  logic [5:0] read_address_q;
  logic [2:1] read_q;
  assign read_data = read_data_q;
  assign read_ack  = read_q[2];
  always_ff @(posedge clk) begin
    read_address_q <= read_address;
    read_data_q <= taken[read_address_q];
    read_q <= {read_q[1], read_req};
    if (rst) read_q <= '0;
  end

`ifndef SYNTHESIS
  localparam int unsigned BUSY_CLOCKS = 2 * PASS_CLOCKS + 5;
  logic [9:0] busy_clocks_q;
  always_ff @(posedge clk) begin
    busy_clocks_q <= (busy && !snapshot && !clear) ? busy_clocks_q + 1'b1 : '0;
    if (rst) busy_clocks_q <= '0;
  end
  a_read : assert property (@(posedge clk) disable iff (rst) read_ack == $past(read_req, 2));
  a_busy : assert property (@(posedge clk) disable iff (rst) busy_clocks_q <= 10'(BUSY_CLOCKS));
  a_step : assert property (@(posedge clk) disable iff (rst) step_fits(step));
  function automatic logic step_fits(input logic [31:0][6:0] steps);
    step_fits = 1'b1;
    for (int i = 0; i < 32; i++) if (steps[i] > (WIDE[i] ? 7'd64 : 7'd1)) step_fits = 1'b0;
  endfunction
`endif

endmodule
