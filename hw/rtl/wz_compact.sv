// SPDX-License-Identifier: Apache-2.0
//
// Moves the kept elements of a vector together: lane (s_base + i) mod LANES gets the i-th kept one.
//
// Prefix counts give every element its destination. A reverse banyan, routed from the lowest bit of
// the destination up, takes any run of destinations modulo LANES without a collision, so that
// closing the gaps and rotating by the base are one network; a multiplexer of four serves two bits.
//
// m_taken says which lanes got an element (m_data of the others is undefined), m_wrapped which of
// these lie past the end: with a base that counts on, they belong to the next row. s_user travels
// beside, for what the neighbours need.
//
// s_base comes DATA_CLOCKS after its vector (1, 1, 2, 2, 3 for LANES = 4, 8, 16, 32, 64), when the
// network begins: so that a base that counts on can be worked out beside the prefix counts.
//
//   latency       LATENCY clocks on which `en` is high: 2, 3, 4, 5, 6 for LANES = 4, 8, 16, 32, 64
//   throughput    1 vector a clock
//   back-pressure none; `en` low holds everything

module wz_compact #(
    parameter int unsigned LANES = 32,  // 4, 8, 16, 32 or 64
    parameter int unsigned W = 16,
    parameter int unsigned USER_W = 1,
    localparam int unsigned BASE_W = $clog2(LANES)
) (
    input logic clk,
    input logic rst,  // synchronous, active high
    input logic en,

    input logic [LANES-1:0][W-1:0] s_data,
    input logic [LANES-1:0]        s_keep,
    input logic [BASE_W-1:0]       s_base,
    input logic [USER_W-1:0]       s_user,
    input logic                    s_valid,

    output logic [LANES-1:0][W-1:0] m_data,
    output logic [LANES-1:0]        m_taken,
    output logic [LANES-1:0]        m_wrapped,
    output logic [USER_W-1:0]       m_user,
    output logic                    m_valid
);

  localparam int unsigned GROUP = (LANES < 8) ? LANES : 8;
  localparam int unsigned GROUPS = LANES / GROUP;
  localparam int unsigned STAGES = (BASE_W + 1) / 2;
  // Clocks: counts inside groups, the starts of groups, and the network, whose first stage shares
  // its clock with the last addition.
  localparam int unsigned START_CLOCKS = (GROUPS == 1) ? 0 : (GROUPS <= 4) ? 1 : 2;
  localparam int unsigned DATA_CLOCKS = 1 + START_CLOCKS;
  localparam int unsigned LATENCY = DATA_CLOCKS + STAGES;

  logic [LANES-1:0][2:0] prefix;
  logic [GROUPS-1:0][BASE_W:0] start;
  logic [LANES-1:0] keep;

  wz_prefix #(
      .LANES(LANES)
  ) u_prefix (
      .clk,
      .en,
      .s_keep,
      .m_keep(keep),
      .m_prefix(prefix),
      .m_start(start)
  );

  // The data wait for their destinations.
  logic [LANES-1:0][W-1:0] data_q[DATA_CLOCKS];
  always_ff @(posedge clk) begin
    if (en) begin
      data_q[0] <= s_data;
      for (int i = 1; i < int'(DATA_CLOCKS); i++) data_q[i] <= data_q[i-1];
    end
  end

  logic [LATENCY:1] valid_q;

  // The network. Index s: before stage s. An element is its place and its data.
  localparam int unsigned PLACE_W = BASE_W + 1;
  logic [LANES-1:0][PLACE_W+W-1:0] element[STAGES+1]  /*verilator split_var*/;
  logic [LANES-1:0] valid[STAGES+1]  /*verilator split_var*/;

  assign valid[0] = keep;
  for (genvar i = 0; i < LANES; i++) begin : g_place
    assign element[0][i] = {
      start[i/GROUP] + PLACE_W'(s_base) + PLACE_W'(prefix[i]), data_q[DATA_CLOCKS-1][i]
    };
  end

  for (genvar s = 0; s < STAGES; s++) begin : g_stage
    localparam int unsigned LSB = 2 * s;
    localparam int unsigned BITS = (BASE_W - LSB < 2) ? 1 : 2;

    logic [LANES-1:0][BITS-1:0] bits;
    logic [LANES-1:0][PLACE_W+W-1:0] element_d, element_q;
    logic [LANES-1:0] valid_d, valid_stage_q, collision;

    for (genvar i = 0; i < LANES; i++) begin : g_bits
      assign bits[i] = element[s][i][W+LSB+:BITS];
    end

    wz_banyan #(
        .LANES(LANES),
        .W(PLACE_W + W),
        .LSB(LSB),
        .BITS(BITS)
    ) u_banyan (
        .s_element(element[s]),
        .s_bits(bits),
        .s_valid(valid[s]),
        .m_element(element_d),
        .m_valid(valid_d),
        .collision
    );

    always_ff @(posedge clk) begin
      if (en) begin
        element_q <= element_d;
        valid_stage_q <= valid_d;
      end
    end
    assign element[s+1] = element_q;
    assign valid[s+1] = valid_stage_q;

`ifdef SYNTHESIS
    wire unused_collision = &{1'b0, collision};
`else
    a_no_collision : assert property (@(posedge clk) disable iff (rst)
        valid_q[DATA_CLOCKS+s] |-> collision == '0);
`endif
  end

  // Of the places only the carry is left to be read.
  wire unused = &{1'b0, element[STAGES]};
  for (genvar i = 0; i < LANES; i++) begin : g_out
    assign m_data[i] = element[STAGES][i][W-1:0];
    assign m_taken[i] = valid[STAGES][i];
    assign m_wrapped[i] = valid[STAGES][i] && element[STAGES][i][W+BASE_W];
  end

  logic [USER_W-1:0] user_q[LATENCY];
  always_ff @(posedge clk) begin
    if (en) begin
      valid_q <= {valid_q[LATENCY-1:1], s_valid};
      user_q[0] <= s_user;
      for (int i = 1; i < int'(LATENCY); i++) user_q[i] <= user_q[i-1];
    end
    if (rst) valid_q <= '0;
  end
  assign m_valid = valid_q[LATENCY];
  assign m_user  = user_q[LATENCY-1];

`ifndef SYNTHESIS
  initial begin
    assert (LANES >= 4 && LANES <= 64 && LANES == 1 << BASE_W);
    assert (LATENCY == BASE_W || (LANES == 4 && LATENCY == 2));
  end
`endif

endmodule
