// SPDX-License-Identifier: Apache-2.0
//
// One stage of the network of wz_compact: brings elements to lanes that agree with their
// destinations in the bits LSB to LSB + BITS - 1.
//
// The lanes that differ in these bits alone exchange their elements. Of those at most one may hold a
// valid element for a given lane (asserted by wz_compact); a lane without one is not valid and its
// element undefined.
//
//   latency       none: combinational, 2 LUT levels
//   throughput    1 vector a clock
//   back-pressure none

module wz_banyan #(
    parameter int unsigned LANES = 32,
    parameter int unsigned W = 16,
    parameter int unsigned LSB = 0,
    parameter int unsigned BITS = 2  // 1 or 2
) (
    input logic [LANES-1:0][W-1:0]    s_element,
    input logic [LANES-1:0][BITS-1:0] s_bits,  // of the destination
    input logic [LANES-1:0]           s_valid,

    output logic [LANES-1:0][W-1:0] m_element,
    output logic [LANES-1:0]        m_valid,
    output logic [LANES-1:0]        collision  // for assertions
);

  localparam int unsigned WAYS = 1 << BITS;

  for (genvar p = 0; p < LANES; p++) begin : g_lane
    localparam logic [BITS-1:0] HERE = BITS'(p >> LSB);
    logic [WAYS-1:0][W-1:0] ways;
    logic [WAYS-1:0] hit;
    logic [BITS-1:0] select;

    for (genvar c = 0; c < WAYS; c++) begin : g_way
      localparam int unsigned FROM = (p & ~((WAYS - 1) << LSB)) + (c << LSB);
      assign ways[c] = s_element[FROM];
      assign hit[c]  = s_valid[FROM] && s_bits[FROM] == HERE;
    end

    // Without a hit any way will do, so that the select is two bits of six inputs each.
    if (BITS == 1) begin : g_two
      assign select = hit[1];
    end else begin : g_four
      assign select = {hit[2] || hit[3], hit[1] || hit[3]};
    end

    assign m_element[p] = ways[select];
    assign m_valid[p] = |hit;
    assign collision[p] = |(hit & (hit - 1'b1));
  end

endmodule
