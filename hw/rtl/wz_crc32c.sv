// SPDX-License-Identifier: Apache-2.0
//
// CRC-32C over 64-byte beats (docs/format.md, section 5).
//
// `s_first` starts over from the initial value. m_state is the state after the beat, without the
// final XOR, and holds until the next one; headers follow by wz_crc_pkg::step64.
//
//   latency       3 clocks on which `en` is high
//   throughput    1 beat a clock
//   back-pressure none; `en` low holds everything

module wz_crc32c
  import wz_format_pkg::*;
  import wz_crc_pkg::*;
(
    input logic clk,
    input logic rst,  // synchronous, active high
    input logic en,

    input logic [511:0] s_tdata,
    input logic         s_first,
    input logic         s_valid,

    output logic [CRC_BITS-1:0] m_state,
    output logic                m_valid
);

  localparam int unsigned STEPS = 512 / STEP_BITS;

  // Clock 1: what every 8 bytes add to the state after the beat, 2 LUT levels.
  logic [STEPS-1:0][CRC_BITS-1:0] part_d, part_q;
  for (genvar i = 0; i < STEPS; i++) begin : g_part
    localparam matrix_t ROWS = matrix(STEP_BITS * (STEPS - 1 - i));
    assign part_d[i] = apply(ROWS, s_tdata[STEP_BITS*i+:STEP_BITS]);
  end

  // Clock 2: their sum, 2 LUT levels.
  logic [CRC_BITS-1:0] sum_d, sum_q;
  for (genvar j = 0; j < CRC_BITS; j++) begin : g_sum
    logic [STEPS-1:0] bits;
    for (genvar i = 0; i < STEPS; i++) begin : g_bit
      assign bits[i] = part_q[i][j];
    end
    assign sum_d[j] = ^bits;
  end

  // Clock 3: the only loop, a matrix of 32 by 32, 3 LUT levels.
  localparam matrix_t OLD = matrix(STEP_BITS * (STEPS - 1));
  logic [CRC_BITS-1:0] state_q, state_d;
  logic [2:1] first_q;
  logic [3:1] valid_q;
  assign state_d = sum_q ^ apply(OLD, STEP_BITS'(first_q[2] ? CRC_INIT : state_q));

  assign m_state = state_q;
  assign m_valid = valid_q[3];

  always_ff @(posedge clk) begin
    if (en) begin
      part_q  <= part_d;
      sum_q   <= sum_d;
      first_q <= {first_q[1], s_first};
      valid_q <= {valid_q[2:1], s_valid};
      if (valid_q[2]) state_q <= state_d;
    end

    if (rst) valid_q <= '0;
  end

`ifndef SYNTHESIS
  logic [2:0] latency_q;
  always_ff @(posedge clk) begin
    if (en) latency_q <= {latency_q[1:0], s_valid};
    if (rst) latency_q <= '0;
  end
  a_latency : assert property (@(posedge clk) disable iff (rst) m_valid == latency_q[2]);
  a_hold : assert property (@(posedge clk) disable iff (rst) !valid_q[2] |=> $stable(m_state));
`endif

endmodule
