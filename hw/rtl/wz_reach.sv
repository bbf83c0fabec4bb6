// SPDX-License-Identifier: Apache-2.0
//
// How far a packet has been written into the rings, for a reader that works on it.
//
// On `load` it turns to packet `next_packet`, whose first beat must have been written. From the
// next clock on, `limit` is the pointer after the last beat of that packet that the memory holds,
// and `ended` tells that no more will come. `limit_now` and `ended_now` are what they will be in the
// next clock if nothing is loaded.
//
//   latency       1 clock from `progress` or `load`
//   throughput    a packet a clock

module wz_reach
  import wz_sections_pkg::*;
(
    input logic clk,
    input logic rst,  // synchronous, active high

    input progress_t progress,

    input logic                load,
    input logic [PACKET_W-1:0] next_packet,

    output logic [POINTER_W-1:0] limit,
    output logic                 ended,
    output logic [POINTER_W-1:0] limit_now,
    output logic                 ended_now
);

  logic [POINTER_W-1:0] ends[1<<PACKET_W];  // of the packets that have ended
  logic [POINTER_W-1:0] limit_q, next_limit;
  logic ended_q, next_is_newest;

  wire unused = progress.wrote;

  assign next_is_newest = next_packet == progress.packet;
  assign next_limit = next_is_newest ? progress.reached : ends[next_packet];
  assign limit = limit_q;
  assign ended = ended_q;
  // A packet that has not ended is the newest.
  assign limit_now = ended_q ? limit_q : progress.reached;
  assign ended_now = ended_q || progress.ended;

  always_ff @(posedge clk) begin
    if (progress.ended) ends[progress.packet] <= progress.reached;

    if (load) begin
      limit_q <= next_limit;
      ended_q <= !next_is_newest || progress.ended;
    end else begin
      limit_q <= limit_now;
      ended_q <= ended_now;
    end

    if (rst) ended_q <= 1'b1;
  end

`ifndef SYNTHESIS
  // Numbers are unique among the packets on their way.
  a_packets : assert property (@(posedge clk) disable iff (rst)
      load |-> PACKET_W'(progress.packet - next_packet) < PACKET_W'((1 << PACKET_W) - 4));
  a_latency : assert property (@(posedge clk) disable iff (rst)
      !load && !ended |=> limit == $past(progress.reached) && ended == $past(progress.ended));
`endif

endmodule
