// SPDX-License-Identifier: Apache-2.0
//
// Skid buffer: a two-word FIFO with every output driven by a flop.
//
// It breaks the timing path in both directions and costs no throughput. The payload is one vector,
// so that no field can be forgotten in a copy: concatenate data, keep, last and user.
//
//   latency       1 clock
//   throughput    1 word a clock
//   back-pressure s_tready falls one clock after a word is caught while m_tready is low

module wz_skid #(
    parameter int unsigned W = 512
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input  logic [W-1:0] s_tdata,
    input  logic         s_tvalid,
    output logic         s_tready,

    output logic [W-1:0] m_tdata,
    output logic         m_tvalid,
    input  logic         m_tready
);

  logic [W-1:0] out_q, skid_q;
  logic out_valid_q, ready_q;  // ready_q: skid_q is empty

  assign s_tready = ready_q;
  assign m_tdata  = out_q;
  assign m_tvalid = out_valid_q;

  always_ff @(posedge clk) begin
    // Caught on every clock on which it is free: only `ready_q` knows whether the word counts, and
    // the wide register does not wait for m_tready.
    if (ready_q) skid_q <= s_tdata;

    if (m_tready || !out_valid_q) begin
      // The output register is free: refill it, oldest word first.
      out_q       <= ready_q ? s_tdata : skid_q;
      out_valid_q <= s_tvalid || !ready_q;
      ready_q     <= 1'b1;
    end else if (s_tvalid) begin
      // The output is stalled and a word arrived, or one is held already.
      ready_q <= 1'b0;
    end

    // Only the valid bits are reset; they qualify everything else.
    if (rst) begin
      out_valid_q <= 1'b0;
      ready_q     <= 1'b1;
    end
  end

`ifndef SYNTHESIS
  // Latency: into an empty buffer, out on the next clock.
  a_latency : assert property (@(posedge clk) disable iff (rst)
      s_tvalid && s_tready && !m_tvalid |=> m_tvalid && m_tdata == $past(s_tdata));
  // Throughput: s_tready falls only behind a word that could not leave.
  a_full_rate : assert property (@(posedge clk) disable iff (rst) m_tready |=> s_tready);
  a_stable : assert property (@(posedge clk) disable iff (rst)
      m_tvalid && !m_tready |=> m_tvalid && $stable(m_tdata));
`endif

endmodule
