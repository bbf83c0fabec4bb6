// SPDX-License-Identifier: Apache-2.0
//
// FIFO, first word falls through, with a registered output.
//
// It holds exactly DEPTH words, the one at the output included. MEMORY is "lut" for a memory that is
// read in the same clock (LUTRAM; up to some 64 words) or "block" for one with a registered read port
// (block RAM). `level` counts the words held, so that a producer can reserve room for what is in its
// pipeline.
//
//   latency       2 clocks ("lut"), 3 clocks ("block")
//   throughput    1 word a clock
//   back-pressure s_tready is a flop; it rises one clock after the word that makes room has left
//
// m_tready reaches only the output register's enable and the read pointer.

module wz_fifo #(
    parameter int unsigned W = 512,
    parameter int unsigned DEPTH = 32,  // a power of two, 4 or more
    parameter string MEMORY = "lut",
    localparam int unsigned LEVEL_W = $clog2(DEPTH) + 1
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input  logic [W-1:0] s_tdata,
    input  logic         s_tvalid,
    output logic         s_tready,

    output logic [W-1:0] m_tdata,
    output logic         m_tvalid,
    input  logic         m_tready,

    output logic [LEVEL_W-1:0] level
);

  localparam int unsigned ADDRESS_W = $clog2(DEPTH);

  logic [W-1:0] memory[DEPTH];
  // One bit more than an address: equal pointers mean empty.
  logic [ADDRESS_W:0] write_q, read_q;
  logic [LEVEL_W-1:0] level_q;
  logic ready_q;
  logic push, pop, fetch, in_memory;

  assign push = s_tvalid && ready_q;
  assign pop = m_tvalid && m_tready;
  assign in_memory = write_q != read_q;
  assign s_tready = ready_q;
  assign level = level_q;

  always_ff @(posedge clk) begin
    if (push) begin
      memory[write_q[ADDRESS_W-1:0]] <= s_tdata;
      write_q <= write_q + 1'b1;
    end
    if (fetch) read_q <= read_q + 1'b1;

    if (push && !pop) level_q <= level_q + 1'b1;
    if (!push && pop) level_q <= level_q - 1'b1;

    // Full with the next word, unless one leaves: `level_q` is compared before the strobes come in.
    if (pop) ready_q <= 1'b1;
    else if (push) ready_q <= level_q != LEVEL_W'(DEPTH - 1);

    if (rst) begin
      write_q <= '0;
      read_q  <= '0;
      level_q <= '0;
      ready_q <= 1'b1;
    end
  end

  if (MEMORY == "block") begin : g_block
    logic [W-1:0] read_data_q, out_q;
    logic read_valid_q, out_valid_q, advance;

    assign advance = !out_valid_q || m_tready;
    assign fetch = in_memory && (!read_valid_q || advance);
    assign m_tdata = out_q;
    assign m_tvalid = out_valid_q;

    always_ff @(posedge clk) begin
      if (fetch) read_data_q <= memory[read_q[ADDRESS_W-1:0]];
      if (advance) begin
        out_q <= read_data_q;
        out_valid_q <= read_valid_q;
      end
      read_valid_q <= fetch || (read_valid_q && !advance);
      if (rst) begin
        read_valid_q <= 1'b0;
        out_valid_q  <= 1'b0;
      end
    end
  end else begin : g_lut
    logic [W-1:0] out_q;
    logic out_valid_q, advance;

    assign advance = !out_valid_q || m_tready;
    assign fetch = in_memory && advance;
    assign m_tdata = out_q;
    assign m_tvalid = out_valid_q;

    always_ff @(posedge clk) begin
      if (advance) begin
        out_q <= memory[read_q[ADDRESS_W-1:0]];
        out_valid_q <= in_memory;
      end
      if (rst) out_valid_q <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  localparam int unsigned LATENCY = (MEMORY == "block") ? 3 : 2;

  initial begin
    assert (DEPTH >= 4 && DEPTH == 1 << ADDRESS_W);
    assert (MEMORY == "lut" || MEMORY == "block");
  end

  // Latency: a word that came into an empty FIFO LATENCY clocks ago is at the output.
  logic [LATENCY:1] first_q;
  logic [W-1:0] first_data_q[LATENCY:1];
  always_ff @(posedge clk) begin
    first_q <= {first_q[LATENCY-1:1], push && level_q == '0};
    first_data_q[1] <= s_tdata;
    for (int i = 2; i <= int'(LATENCY); i++) first_data_q[i] <= first_data_q[i-1];
    if (rst) first_q <= '0;
  end
  a_latency : assert property (@(posedge clk) disable iff (rst)
      first_q[LATENCY] |-> m_tvalid && m_tdata == first_data_q[LATENCY]);
  // Throughput: a FIFO that holds more than its pipeline always has a word to give.
  a_full_rate : assert property (@(posedge clk) disable iff (rst)
      level_q >= LEVEL_W'(LATENCY) |-> m_tvalid || $past(level_q) < LEVEL_W'(LATENCY));
  a_level : assert property (@(posedge clk) disable iff (rst) level_q <= LEVEL_W'(DEPTH));
  a_ready : assert property (@(posedge clk) disable iff (rst)
      ready_q == (level_q != LEVEL_W'(DEPTH)));
  a_stable : assert property (@(posedge clk) disable iff (rst)
      m_tvalid && !m_tready |=> m_tvalid && $stable(m_tdata));
`endif

endmodule
