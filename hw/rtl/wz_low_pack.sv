// SPDX-License-Identifier: Apache-2.0
//
// Packs the low part of the ranks: 1 bit a value for R1, 2 for R2 and F2 (docs/format.md, section 8).
//
// A full group has the same bits every time, a power of two from LANES / 2 or more, so they stay in
// step with 64-byte rows, and a group is written to the lanes of a wz_rows where it belongs. Lanes
// without a value write zeros.
//
//   latency       2 clocks
//   throughput    1 group a clock
//   back-pressure none: while `used` rows are taken, there must be room for those of the groups under
//                 way

module wz_low_pack #(
    parameter int unsigned LANES = 32,
    parameter logic [5:0] TYPES = 6'b111111,
    parameter int unsigned ROWS = 32,
    localparam int unsigned ROW_W = $clog2(ROWS),
    // Bits of the smallest group, which is what a lane of the rows holds.
    localparam int unsigned VALUES_MIN = wz_pack_pkg::beat_values_min(TYPES),
    localparam int unsigned LANE_W = (LANES < VALUES_MIN) ? LANES : VALUES_MIN,
    localparam int unsigned ROW_LANES = 512 / LANE_W
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input logic [LANES-1:0][4:0] s_rank,
    input logic [LANES-1:0]      s_present,
    input logic                  s_first,  // of the frame
    input logic                  s_last,
    input wz_pack_pkg::codes_t   s_codes,
    input logic                  s_valid,

    output logic                              w_valid,  // to wz_rows
    output logic [ROW_LANES-1:0]              w_lanes,
    output logic [ROW_W-1:0]                  w_row,
    output logic [ROW_LANES-1:0][LANE_W-1:0]  w_data,
    output logic [1:0]                        w_done,
    input  logic [ROW_W-1:0]                  r_row,

    output logic [ROW_W-1:0] used  // complete rows not read, one clock late
);

  import wz_format_pkg::*;
  import wz_pack_pkg::*;

  localparam int unsigned BITS = 2 * LANES;
  localparam int unsigned UNITS = BITS / LANE_W;  // lanes of the largest group, 2, 4 or 8
  localparam int unsigned PLACE_W = $clog2(ROW_LANES);

  // Clock 1: the bits, and how many lanes they are, as a power of two.
  wire unused = &{1'b0, s_codes};
  logic [LANES-1:0] one, low, high;
  logic [BITS-1:0] two;
  logic two_bits;
  logic [1:0] lanes_log2;  // 0 to 3
  assign two_bits = s_codes.coder != CODER_R1;

  for (genvar i = 0; i < LANES; i++) begin : g_value
    logic clipped;  // F2: 3 and more are 3
    assign clipped = s_codes.coder == CODER_F2 && s_rank[i] >= 5'd3;
    assign one[i] = s_present[i] && s_rank[i][0];
    assign low[i] = s_present[i] && (s_rank[i][0] || clipped);
    assign high[i] = s_present[i] && (s_rank[i][1] || clipped);
    assign two[2*i+:2] = {high[i], low[i]};
  end

  // Values of a group: LANES, or fewer where a beat has fewer.
  logic [1:0] values_log2;  // over LANE_W
  always_comb begin
    values_log2 = 2'($clog2(LANES / LANE_W));
    if (LANES > 16 && is_type(TYPES, s_codes.element, ELEMENT_TYPE_FP32)) begin
      values_log2 = 2'($clog2(16 / LANE_W + 32'(LANE_W > 16)));
    end
    if (LANES > 32 && (is_type(TYPES, s_codes.element, ELEMENT_TYPE_BF16)
                       || is_type(TYPES, s_codes.element, ELEMENT_TYPE_FP16))) begin
      values_log2 = 2'($clog2(32 / LANE_W + 32'(LANE_W > 32)));
    end
    lanes_log2 = values_log2 + 2'(two_bits);
  end

  // Each lane of the largest group with what it gets of a smaller one, repeated.
  logic [UNITS-1:0][LANE_W-1:0] bits, bits_q;
  for (genvar u = 0; u < UNITS; u++) begin : g_unit
    logic [3:0][LANE_W-1:0] ways;  // by lanes_log2
    for (genvar k = 0; k < 4; k++) begin : g_way
      // Only the smallest group can be one lane, of one bit a value.
      localparam int unsigned FROM = u % (1 << k);
      logic [LANE_W-1:0] from_one;
      if (FROM * LANE_W < LANES) begin : g_one
        assign from_one = one[FROM*LANE_W+:LANE_W];
      end else begin : g_none
        assign from_one = '0;
      end
      assign ways[k] = two_bits ? two[FROM*LANE_W+:LANE_W] : from_one;
    end
    assign bits[u] = ways[lanes_log2];
  end

  logic [PLACE_W-1:0] start;
  logic first_q, last_q, valid_q;
  logic [1:0] lanes_log2_q;
  logic [PLACE_W-1:0] start_q;
  assign start = {s_codes.low_start, {(PLACE_W - 2){1'b0}}};

  always_ff @(posedge clk) begin
    bits_q <= bits;
    first_q <= s_first;
    last_q <= s_last;
    lanes_log2_q <= lanes_log2;
    start_q <= start;
    valid_q <= s_valid && s_codes.coder != CODER_R0;
    if (rst) valid_q <= 1'b0;
  end

  // Clock 2: the place in the row.
  logic [PLACE_W-1:0] place, place_q;
  logic [PLACE_W:0] stop;
  logic [ROW_W-1:0] row_q;
  logic done;
  assign place = first_q ? start_q : place_q;
  assign stop = {1'b0, place} + ((PLACE_W + 1)'(1) << lanes_log2_q);
  assign done = stop[PLACE_W] || last_q;

  always_ff @(posedge clk) begin
    used <= row_q - r_row;
    if (valid_q) begin
      place_q <= stop[PLACE_W-1:0];
      row_q   <= row_q + ROW_W'(done);
    end
    for (int i = 0; i < int'(ROW_LANES); i++) begin
      w_lanes[i] <= ((PLACE_W'(i) ^ place) >> lanes_log2_q) == '0;
      w_data[i]  <= bits_q[i%int'(UNITS)];
    end
    w_row   <= row_q;
    w_done  <= {1'b0, done};
    w_valid <= valid_q;
    if (rst) begin
      row_q   <= '0;
      w_valid <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  initial assert (UNITS >= 2 && UNITS <= 8 && LANE_W >= 8);
  a_latency : assert property (@(posedge clk) disable iff (rst)
      s_valid && s_codes.coder != CODER_R0 |-> ##2 w_valid);
`endif

endmodule
