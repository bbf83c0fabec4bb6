// SPDX-License-Identifier: Apache-2.0
//
// Turns what happens at the two streams of a direction, and the core's events, into the steps of
// sixteen counters, in the order of the register map (docs/csr.md).
//
//   latency       2 clocks
//   throughput    every clock
//   back-pressure none: it only watches

module wz_monitor
  import wz_format_pkg::*;
#(
    parameter int unsigned DATA_W = 512,
    localparam int unsigned KEEP_W = DATA_W / 8
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input logic              busy,
    input logic              bypassed,
    input logic [KEEP_W-1:0] in_tkeep,
    input logic              in_tvalid,
    input logic              in_tready,
    input logic [KEEP_W-1:0] out_tkeep,
    input logic              out_tvalid,
    input logic              out_tready,

    // A packet has left the core; `event_good` unless it is marked with an error.
    input logic  event_valid,
    input logic  event_good,
    input logic  event_coded,
    input mode_e event_mode,
    input logic  [2:0] other,  // what counters 13 to 15 count

    output logic [15:0][6:0] step
);

  // Clock 1: flops between the streams and their counters.
  logic [KEEP_W-1:0] in_keep_q, out_keep_q;
  logic in_take_q, out_take_q, in_stall_q, out_stall_q, busy_q, bypassed_q;
  logic good_q, coded_q;
  mode_e mode_q;
  logic [2:0] other_q;

  always_ff @(posedge clk) begin
    in_keep_q <= in_tkeep;
    out_keep_q <= out_tkeep;
    in_take_q <= in_tvalid && in_tready;
    out_take_q <= out_tvalid && out_tready;
    in_stall_q <= in_tvalid && !in_tready;
    out_stall_q <= out_tvalid && !out_tready;
    busy_q <= busy;
    bypassed_q <= bypassed;
    good_q <= event_valid && event_good;
    coded_q <= event_coded;
    mode_q <= event_mode;
    other_q <= other;

    if (rst) begin
      in_take_q <= 1'b0;
      out_take_q <= 1'b0;
      in_stall_q <= 1'b0;
      out_stall_q <= 1'b0;
      busy_q <= 1'b0;
      bypassed_q <= 1'b0;
      good_q <= 1'b0;
      other_q <= '0;
    end
  end

  // Clock 2.
  logic [15:0][6:0] step_d, step_q;
  assign step = step_q;

  always_comb begin
    step_d = '0;
    step_d[0][0] = busy_q;
    step_d[1][0] = in_stall_q;
    step_d[2][0] = out_stall_q;
    step_d[3][0] = in_take_q;
    step_d[4][0] = out_take_q;
    step_d[5] = in_take_q ? bytes(in_keep_q) : '0;
    step_d[6] = out_take_q ? bytes(out_keep_q) : '0;
    step_d[7][0] = bypassed_q;
    step_d[8][0] = good_q && !coded_q;
    step_d[9][0] = good_q && coded_q && mode_q == MODE_RAW;
    step_d[10][0] = good_q && coded_q && mode_q == MODE_CONSTANT;
    step_d[11][0] = good_q && coded_q && mode_q == MODE_CODED;
    step_d[12][0] = good_q && coded_q && mode_q == MODE_REFERENCE;
    for (int i = 0; i < 3; i++) step_d[13+i][0] = other_q[i];
  end

  always_ff @(posedge clk) begin
    step_q <= step_d;
    if (rst) step_q <= '0;
  end

  // The length of a run of ones from bit 0. Bit i of it changes where the length passes a multiple
  // of 2^i, so it is the parity of the run at these places.
  function automatic logic [6:0] bytes(input logic [KEEP_W-1:0] keep);
    bytes = '0;
    for (int i = 0; i <= $clog2(KEEP_W); i++) begin
      for (int place = 1 << i; place <= int'(KEEP_W); place += 1 << i) begin
        bytes[i] = bytes[i] ^ keep[place-1];
      end
    end
  endfunction

`ifndef SYNTHESIS
  a_bytes : assert property (@(posedge clk) disable iff (rst)
      in_take_q && (in_keep_q & (in_keep_q + 1'b1)) == '0 |=>
      step_q[5] == 7'($past($countones(in_keep_q))));
`endif

endmodule
