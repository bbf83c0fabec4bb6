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

  // Row j: which of the 512 data bits count towards bit j of the state after the beat.
  function automatic logic [CRC_BITS-1:0][511:0] rows();
    matrix_t part;
    for (int i = 0; i < 512 / int'(STEP_BITS); i++) begin
      part = matrix(512 - STEP_BITS * (i + 1));
      for (int j = 0; j < int'(CRC_BITS); j++) rows[j][i*int'(STEP_BITS)+:STEP_BITS] = part[j];
    end
  endfunction

  localparam logic [CRC_BITS-1:0][511:0] ROWS = rows();

  // Bits of the state are taken five or six together. What a data bit adds to those is one of 31 or
  // 63 sets of them, and all data bits with the same set are one parity: so each data bit counts once
  // for five or six bits of the state, which takes a third of the logic of one row after the other.
  localparam int unsigned GROUPS = 6;
  localparam int unsigned SIX = CRC_BITS - 5 * GROUPS;  // groups of six; they come first

  // The data bits that add to just those of `size` bits from `first` on that `set` names.
  function automatic logic [511:0] members(input int unsigned first, input int unsigned size,
                                           input int unsigned set);
    members = '1;
    for (int unsigned j = 0; j < size; j++) begin
      members &= (((set >> j) & 1) == 1) ? ROWS[first+j] : ~ROWS[first+j];
    end
  endfunction

  logic [CRC_BITS-1:0] sum_d, sum_q;
  for (genvar g = 0; g < GROUPS; g++) begin : g_group
    localparam int unsigned SIZE = g < SIX ? 6 : 5;
    localparam int unsigned FIRST = 5 * g + (g < SIX ? g : SIX);

    // Clock 1: the parity of each set, 2 LUT levels.
    logic [2**SIZE-1:1] set_d, set_q;
    for (genvar set = 1; set < 2 ** SIZE; set++) begin : g_set
      localparam logic [511:0] MEMBERS = members(FIRST, SIZE, set);
      assign set_d[set] = ^(s_tdata & MEMBERS);
    end
    always_ff @(posedge clk) if (en) set_q <= set_d;

    // Clock 2: each bit of the state is in half of the sets, 2 LUT levels.
    for (genvar j = 0; j < SIZE; j++) begin : g_bit
      logic [2**SIZE-1:1] bits;
      for (genvar set = 1; set < 2 ** SIZE; set++) begin : g_with
        assign bits[set] = set_q[set] && ((set >> j) & 1) == 1;
      end
      assign sum_d[FIRST+j] = ^bits;
    end
  end

  // Clock 3: the only loop, a matrix of 32 by 32, 4 LUT levels.
  localparam matrix_t OLD = matrix(512 - STEP_BITS);
  localparam logic [CRC_BITS-1:0] START = apply(OLD, STEP_BITS'(CRC_INIT));
  logic [CRC_BITS-1:0] state_q, state_d;
  logic [2:1] first_q;
  logic [3:1] valid_q;
  assign state_d = sum_q ^ apply(OLD, STEP_BITS'(first_q[2] ? '0 : state_q));

  assign m_state = state_q;
  assign m_valid = valid_q[3];

  always_ff @(posedge clk) begin
    if (en) begin
      sum_q   <= sum_d ^ (first_q[1] ? START : '0);
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
