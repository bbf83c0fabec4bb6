// SPDX-License-Identifier: Apache-2.0
//
// 32 counters of 64 bits, with a snapshot of all of them at one clock.
//
// Only the last 128 clocks are counted in flops. Then all these small counters move aside at once,
// and a pass over a memory adds them to the 64-bit values, a counter every 4 clocks. A pass that
// takes a snapshot writes what it computes into a second memory too, one that clears leaves zeros.
// Two memories and one adder of 16 bits stand for 32 adders and 4096 flops.
//
// A bit of WIDE says that a counter takes steps of 0 to 64, else its step is 0 or 1.
//
//   latency       a step counts in snapshots requested in its clock or later;
//                 a snapshot or clear takes at most 258 clocks, during which `busy` is high
//   throughput    all counters every clock
//   back-pressure none; requests may come at any time
//
// Reading: `read_ack` and data one clock after `read_req`. Until the first snapshot all is zero.

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
  logic pass_ends;
  assign pass_ends = &clock_q;

  // Requests wait for the next pass. The first after reset clears, and leaves an empty snapshot.
  logic snapshot_request_q, clear_request_q, snapshot_q, clear_q, fresh_q;
  always_ff @(posedge clk) begin
    clock_q <= clock_q + 1'b1;
    if (pass_ends) begin
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
      small_q <= (pass_ends ? '0 : small_q) + W'(step[i][STEP_W-1:0]);
      if (pass_ends) aside_q <= small_q;
      if (rst) begin
        small_q <= '0;
        aside_q <= '0;
      end
    end
    if (!WIDE[i]) begin : g_unused
      wire unused = &{1'b0, step[i][6:1]};
    end
  end

  // The pass. Read a word; add below 2^16; add above, and write.
  logic [31:0] totals[64];
  logic [31:0] taken[64];
  logic [5:0] address, address1_q, address2_q;
  logic [31:0] word_q, sum;
  logic [SMALL_W-1:0] addend_q;
  logic [15:0] low_q, high_q;
  logic carry_q, half_carry_q, write_q, snapshot2_q, clear2_q, phase;

  assign address = clock_q[6:1];
  assign phase = clock_q[0];
  logic carry_out;
  assign {carry_out, sum} = {17'(high_q) + 17'(half_carry_q), low_q};

  always_ff @(posedge clk) begin
    if (!phase) begin
      word_q <= fresh_q ? '0 : totals[address];
      addend_q <= address[0] ? '0 : aside[address[5:1]];
      address1_q <= address;
      // The word of two clocks ago.
      carry_q <= carry_out;
      if (write_q) totals[address2_q] <= clear2_q ? '0 : sum;
      if (write_q && snapshot2_q) taken[address2_q] <= sum;
    end else begin
      {half_carry_q, low_q} <=
          17'(word_q[15:0]) + 17'(addend_q) + 17'(address1_q[0] && carry_q);
      high_q <= word_q[31:16];
      address2_q <= address1_q;
      snapshot2_q <= snapshot_q;
      clear2_q <= clear_q;
      write_q <= 1'b1;
    end

    if (rst) write_q <= 1'b0;
  end

  assign busy = snapshot_request_q || clear_request_q || snapshot_q || clear_q ||
      (write_q && (snapshot2_q || clear2_q));

  logic [31:0] read_data_q;
  logic read_ack_q;
  assign read_data = read_data_q;
  assign read_ack = read_ack_q;
  always_ff @(posedge clk) begin
    read_data_q <= taken[read_address];
    read_ack_q  <= read_req;
    if (rst) read_ack_q <= 1'b0;
  end

`ifndef SYNTHESIS
  localparam int unsigned BUSY_CLOCKS = 2 * PASS_CLOCKS + 2;
  logic [9:0] busy_clocks_q;
  always_ff @(posedge clk) begin
    busy_clocks_q <= (busy && !snapshot && !clear) ? busy_clocks_q + 1'b1 : '0;
    if (rst) busy_clocks_q <= '0;
  end
  a_busy : assert property (@(posedge clk) disable iff (rst) busy_clocks_q <= 10'(BUSY_CLOCKS));
  a_step : assert property (@(posedge clk) disable iff (rst) step_fits(step));
  function automatic logic step_fits(input logic [31:0][6:0] steps);
    step_fits = 1'b1;
    for (int i = 0; i < 32; i++) if (steps[i] > (WIDE[i] ? 7'd64 : 7'd1)) step_fits = 1'b0;
  endfunction
`endif

endmodule
