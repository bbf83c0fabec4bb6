// SPDX-License-Identifier: Apache-2.0
//
// The inverse of wz_compact: kept lane i gets element (s_base + kept lanes before it) mod LANES of
// s_data, every other lane gets zero.
//
// wz_compact's network backwards: first the places travel through it from the lowest bit up, and set
// the multiplexers that then take the data from the highest bit down.
//
// s_data is sampled DATA_LATENCY clocks after the control, for elements that are fetched meanwhile;
// what is not used of DATA_LATENCY_MAX is spent in registers.
//
//   latency       LATENCY clocks on which `en` is high: 3, 3, 4, 5, 6 for LANES = 4, 8, 16, 32, 64
//   throughput    1 vector a clock
//   back-pressure none; `en` low holds everything

module wz_expand #(
    parameter int unsigned LANES = 32,  // 4, 8, 16, 32 or 64
    parameter int unsigned W = 16,
    parameter int unsigned USER_W = 1,
    parameter int unsigned DATA_LATENCY = 0,  // at most 2 (LANES 4, 8), 3 (16, 32) or 4 (64)
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
    output logic [LANES-1:0]        m_keep,
    output logic [USER_W-1:0]       m_user,
    output logic                    m_valid
);

  localparam int unsigned GROUP = (LANES < 8) ? LANES : 8;
  localparam int unsigned GROUPS = LANES / GROUP;
  localparam int unsigned LEVELS = (BASE_W + 1) / 2;
  localparam int unsigned PREFIX_CLOCKS = (GROUPS == 1) ? 1 : (GROUPS <= 4) ? 2 : 3;
  localparam int unsigned DATA_LATENCY_MAX = PREFIX_CLOCKS + 1;
  // With three levels the highest has a clock of its own.
  localparam int unsigned LATENCY = PREFIX_CLOCKS + ((LEVELS == 3) ? 3 : 2);

  logic [LANES-1:0][2:0] prefix;
  logic [GROUPS-1:0][BASE_W:0] start;
  logic [LANES-1:0] keep;

  wz_prefix #(
      .LANES(LANES)
  ) u_prefix (
      .clk,
      .en,
      .s_keep,
      .s_base,
      .m_keep(keep),
      .m_prefix(prefix),
      .m_start(start)
  );

  // Level 0: the place of each lane's element.
  logic [LANES-1:0][BASE_W-1:0] place0, place0_q;
  logic [LANES-1:0] keep_q;
  for (genvar i = 0; i < LANES; i++) begin : g_place
    assign place0[i] = start[i/GROUP][BASE_W-1:0] + BASE_W'(prefix[i]);
  end

  // Level 1, in the same clock: the places once bits 0 and 1 are where they belong.
  logic [LANES-1:0][BASE_W-1:0] place1, place1_q;
  logic [LANES-1:0] valid1, valid1_q, collision0;
  logic [LANES-1:0][1:0] bits0;
  for (genvar i = 0; i < LANES; i++) begin : g_bits0
    assign bits0[i] = place0[i][1:0];
  end
  wz_banyan #(
      .LANES(LANES),
      .W(BASE_W),
      .LSB(0),
      .BITS(2)
  ) u_banyan0 (
      .s_element(place0),
      .s_bits(bits0),
      .s_valid(keep),
      .m_element(place1),
      .m_valid(valid1),
      .collision(collision0)
  );

  always_ff @(posedge clk) begin
    if (en) begin
      place0_q <= place0;
      keep_q   <= keep;
      place1_q <= place1;
      valid1_q <= valid1;
    end
  end

  // The data, in step with level 1.
  logic [LANES-1:0][W-1:0] data;
  if (DATA_LATENCY == DATA_LATENCY_MAX) begin : g_data_late
    assign data = s_data;
  end else begin : g_data_delay
    localparam int unsigned DELAY = DATA_LATENCY_MAX - DATA_LATENCY;
    logic [LANES-1:0][W-1:0] data_q[DELAY];
    always_ff @(posedge clk) begin
      if (en) begin
        data_q[0] <= s_data;
        for (int i = 1; i < int'(DELAY); i++) data_q[i] <= data_q[i-1];
      end
    end
    assign data = data_q[DELAY-1];
  end

  // Level 2, if there is one: route, and take the data through the highest multiplexers.
  logic [LANES-1:0][W-1:0] low_data;
  logic [LANES-1:0][BASE_W-1:0] low_place0, low_place1;
  logic [LANES-1:0] low_keep;

  if (LEVELS == 3) begin : g_level2
    localparam int unsigned BITS = BASE_W - 4;
    logic [LANES-1:0][BASE_W-1:0] place2, place0_q2, place1_q2;
    logic [LANES-1:0] valid2, keep_q2, collision1;
    logic [LANES-1:0][W-1:0] high_q;
    logic [LANES-1:0][1:0] bits1;
    for (genvar i = 0; i < LANES; i++) begin : g_bits1
      assign bits1[i] = place1_q[i][3:2];
    end
    wz_banyan #(
        .LANES(LANES),
        .W(BASE_W),
        .LSB(2),
        .BITS(2)
    ) u_banyan1 (
        .s_element(place1_q),
        .s_bits(bits1),
        .s_valid(valid1_q),
        .m_element(place2),
        .m_valid(valid2),
        .collision(collision1)
    );

    for (genvar p = 0; p < LANES; p++) begin : g_high
      logic [(1<<BITS)-1:0][W-1:0] ways;
      for (genvar c = 0; c < 1 << BITS; c++) begin : g_way
        assign ways[c] = data[(p%16)+16*c];
      end
      always_ff @(posedge clk) if (en) high_q[p] <= ways[place2[p][BASE_W-1:4]];
    end

    always_ff @(posedge clk) begin
      if (en) begin
        place0_q2 <= place0_q;
        place1_q2 <= place1_q;
        keep_q2   <= keep_q;
      end
    end

    assign {low_data, low_place0, low_place1, low_keep} = {high_q, place0_q2, place1_q2, keep_q2};
    wire unused = &{1'b0, valid2, place2, collision1};
  end else begin : g_level1
    assign {low_data, low_place0, low_place1, low_keep} = {data, place0_q, place1_q, keep_q};
    wire unused = &{1'b0, valid1_q};
  end

  // The middle and the lowest multiplexers.
  localparam int unsigned MIDDLE_BITS = (BASE_W == 2) ? 0 : (BASE_W == 3) ? 1 : 2;
  logic [LANES-1:0][W-1:0] middle, out_q;
  logic [LANES-1:0] out_keep_q;

  for (genvar p = 0; p < LANES; p++) begin : g_low
    if (MIDDLE_BITS == 0) begin : g_none
      assign middle[p] = low_data[p];
    end else begin : g_middle
      localparam int unsigned WAYS = 1 << MIDDLE_BITS;
      logic [WAYS-1:0][W-1:0] ways;
      for (genvar c = 0; c < WAYS; c++) begin : g_way
        assign ways[c] = low_data[(p&~((WAYS-1)<<2))+(c<<2)];
      end
      assign middle[p] = ways[low_place1[p][2+:MIDDLE_BITS]];
    end

    logic [3:0][W-1:0] lowest;
    for (genvar c = 0; c < 4; c++) begin : g_way
      assign lowest[c] = middle[(p/4*4)+c];
    end
    always_ff @(posedge clk) begin
      if (en) out_q[p] <= lowest[low_place0[p][1:0]] & {W{low_keep[p]}};
    end
  end

  logic [LATENCY:1] valid_q;
  logic [USER_W-1:0] user_q[LATENCY];
  always_ff @(posedge clk) begin
    if (en) begin
      out_keep_q <= low_keep;
      valid_q <= {valid_q[LATENCY-1:1], s_valid};
      user_q[0] <= s_user;
      for (int i = 1; i < int'(LATENCY); i++) user_q[i] <= user_q[i-1];
    end
    if (rst) valid_q <= '0;
  end

  assign m_data  = out_q;
  assign m_keep  = out_keep_q;
  assign m_valid = valid_q[LATENCY];
  assign m_user  = user_q[LATENCY-1];

  // The carry of the additions, and of each place the bits that another level uses.
  wire unused = &{1'b0, start, low_place0, low_place1, collision0};

`ifndef SYNTHESIS
  initial begin
    assert (LANES >= 4 && LANES <= 64 && LANES == 1 << BASE_W);
    assert (DATA_LATENCY <= DATA_LATENCY_MAX);
    assert (LATENCY == BASE_W || (LANES == 4 && LATENCY == 3));
  end
`endif

endmodule
