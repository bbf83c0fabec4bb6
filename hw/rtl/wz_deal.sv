// SPDX-License-Identifier: Apache-2.0
//
// Deals items out to lanes: each kept lane of a mask gets the next item, in lane order.
//
// Masks come in packets. The items of a packet come in vectors of LANES of which only the last may
// hold fewer than LANES, or none at all; a mask packet with `none` has no items. Lanes that ask for
// more than there is get anything, and items that nobody asks for are dropped; both raise m_terror,
// the latter at the packet's last mask. m_titem is s_item_tuser of the packet's last vector, at the
// packet's last mask.
//
// The network is a compactor's backwards. A node needs no place routed to it: the items of an aligned
// block of lanes follow each other, so its select is the place of the block's first item, plus one
// if the node lies before it.
//
//   latency       2 clocks from a mask, 0 from its items
//   throughput    1 mask a clock
//   back-pressure m_tready reaches s_mask_tready and s_item_tready combinationally
//
// Outputs are combinational from flops and s_item: give them a register.

module wz_deal #(
    parameter int unsigned LANES = 32,  // 8, 16, 32 or 64
    parameter int unsigned W = 8,
    parameter int unsigned USER_W = 1,
    parameter int unsigned ITEM_USER_W = 1,
    localparam int unsigned LANE_W = $clog2(LANES),
    localparam int unsigned COUNT_W = LANE_W + 1
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input  logic [LANES-1:0]  s_mask_tdata,
    input  logic              s_mask_none,
    input  logic [USER_W-1:0] s_mask_tuser,
    input  logic              s_mask_tlast,
    input  logic              s_mask_tvalid,
    output logic              s_mask_tready,

    input  logic [LANES-1:0][W-1:0] s_item_tdata,
    input  logic [COUNT_W-1:0]      s_item_tcount,
    input  logic [ITEM_USER_W-1:0]  s_item_tuser,
    input  logic                    s_item_tlast,
    input  logic                    s_item_tvalid,
    output logic                    s_item_tready,

    output logic [LANES-1:0][W-1:0] m_tdata,  // undefined where m_tkeep is 0
    output logic [LANES-1:0]        m_tkeep,
    output logic [USER_W-1:0]       m_tuser,
    output logic [ITEM_USER_W-1:0]  m_titem,
    output logic                    m_terror,
    output logic                    m_tlast,
    output logic                    m_tvalid,
    input  logic                    m_tready
);

  // Clock 1: kept lanes before each lane of a block, before each block of a segment, and in each
  // segment.
  localparam int unsigned BLOCK = 4;
  localparam int unsigned BLOCKS = LANES / BLOCK;
  localparam int unsigned SEGMENT = (LANES < 32) ? LANES : 32;
  localparam int unsigned SEGMENTS = LANES / SEGMENT;
  localparam int unsigned SEGMENT_W = $clog2(SEGMENT);

  logic [LANES-1:0] keep_q;
  logic [LANES-1:0][1:0] in_block_q;
  logic [BLOCKS-1:0][SEGMENT_W-1:0] in_segment_q;
  logic [SEGMENTS-1:0][SEGMENT_W:0] segment_q;
  logic [USER_W-1:0] user_q;
  logic none_q, last_q, valid_q;
  logic advance1;

  // Ones of up to 36 bits from those of sixes: of each weight of these counts, then their sum.
  function automatic logic [5:0] total(input logic [5:0][2:0] six);
    logic [2:0][2:0] weight;
    for (int w = 0; w < 3; w++) begin
      weight[w] = 3'($countones({
        six[0][w], six[1][w], six[2][w], six[3][w], six[4][w], six[5][w]}));
    end
    return 6'(weight[0]) + {2'b00, weight[1], 1'b0} + {1'b0, weight[2], 2'b00};
  endfunction

  logic [SEGMENTS-1:0][5:0][2:0] six;
  for (genvar s = 0; s < SEGMENTS; s++) begin : g_six
    logic [35:0] segment;
    assign segment = 36'(s_mask_tdata[s*SEGMENT+:SEGMENT]);
    for (genvar k = 0; k < 6; k++) begin : g_count
      assign six[s][k] = 3'($countones(segment[6*k+:6]));
    end
  end

  for (genvar i = 0; i < LANES; i++) begin : g_lane
    localparam int unsigned FIRST = i / BLOCK * BLOCK;
    if (i == FIRST) begin : g_first
      assign in_block_q[i] = 2'd0;
    end else begin : g_more
      always_ff @(posedge clk) begin
        if (advance1) in_block_q[i] <= 2'($countones(s_mask_tdata[i-1:FIRST]));
      end
    end
  end

  for (genvar b = 0; b < BLOCKS; b++) begin : g_block
    localparam int unsigned FIRST = b * BLOCK / SEGMENT * SEGMENT;
    if (b * BLOCK == FIRST) begin : g_first
      assign in_segment_q[b] = '0;
    end else begin : g_more
      // Whole sixes, and the rest.
      localparam int unsigned SIXES = (b * BLOCK - FIRST) / 6;
      localparam int unsigned REST = (b * BLOCK - FIRST) % 6;
      logic [5:0][2:0] lower;
      for (genvar k = 0; k < 6; k++) begin : g_count
        if (k < SIXES) begin : g_six
          assign lower[k] = six[FIRST/SEGMENT][k];
        end else if (k == SIXES && REST != 0) begin : g_rest
          assign lower[k] = 3'($countones(s_mask_tdata[b*BLOCK-1-:REST]));
        end else begin : g_none
          assign lower[k] = '0;
        end
      end
      always_ff @(posedge clk) begin
        if (advance1) in_segment_q[b] <= SEGMENT_W'(total(lower));
      end
    end
  end

  for (genvar s = 0; s < SEGMENTS; s++) begin : g_segment
    always_ff @(posedge clk) begin
      if (advance1) segment_q[s] <= (SEGMENT_W + 1)'(total(six[s]));
    end
  end

  always_ff @(posedge clk) begin
    if (advance1) begin
      keep_q  <= s_mask_tdata;
      user_q  <= s_mask_tuser;
      none_q  <= s_mask_none;
      last_q  <= s_mask_tlast;
      valid_q <= s_mask_tvalid;
    end
    if (rst) valid_q <= 1'b0;
  end

  // Clock 2: the place of each item in the window of the vector before and the one at the input,
  // LANES at the latter's first, and the selects that follow from the places.
  localparam int unsigned LEVELS = (COUNT_W + 1) / 2;

  logic [LANE_W-1:0] base_q;  // items taken of the vector before; 0: all of them
  logic [LANE_W-1:0] less_one_q;  // that less one: its carry tells whether a vector is wanted
  logic [COUNT_W-1:0] base;
  logic [COUNT_W-1:0] less_one;
  logic [LANES-1:0][COUNT_W-1:0] place;
  logic [LANE_W-1:0] stop;  // the place behind the last item, modulo LANES
  logic [LEVELS-1:0][LANES-1:0][1:0] select_d, select_q;
  logic [LANES-1:0] keep_q2;
  logic [USER_W-1:0] user_q2;
  logic [COUNT_W-1:0] position_q2;  // items taken of the last vector that was touched
  logic want, want_q2, none_q2, last_q2, valid_q2;
  logic use_item_q2;  // takes of the items at the input: what waits for them stays so
  logic advance2, issue;
  logic ended_q, ended_d, drain_q, ended, take;  // about the items, see below

  assign base = {base_q == '0, base_q};

  // Sums of three: a carry-save step, then by threes of bits, the upper one for either carry.
  localparam int unsigned SUM_W = 7;
  typedef logic [SUM_W-1:0] sum_t;

  function automatic logic [3:0] three(input logic [2:0] x, input logic [2:0] y, input logic carry);
    three[0] = x[0] ^ y[0] ^ carry;
    three[1] = x[1] ^ y[1] ^ ((x[0] & y[0]) | ((x[0] | y[0]) & carry));
    three[2] = x[2] ^ y[2] ^ ((x[1] & y[1]) | ((x[1] | y[1]) & x[0] & y[0]) |
                              ((x[1] | y[1]) & (x[0] | y[0]) & carry));
    three[3] = (x[2] & y[2]) | ((x[2] | y[2]) & x[1] & y[1]) |
               ((x[2] | y[2]) & (x[1] | y[1]) & x[0] & y[0]) |
               ((x[2] | y[2]) & (x[1] | y[1]) & (x[0] | y[0]) & carry);
  endfunction

  function automatic sum_t sum(input sum_t x, input sum_t y, input sum_t z);
    sum_t one, two;
    logic [3:0] lower, upper;
    one = x ^ y ^ z;
    two = ((x & y) | (x & z) | (y & z)) << 1;
    lower = three(one[2:0], two[2:0], 1'b0);
    upper = lower[3] ? three(one[5:3], two[5:3], 1'b1) : three(one[5:3], two[5:3], 1'b0);
    return {one[6] ^ two[6] ^ upper[3], upper[2:0], lower[2:0]};
  endfunction

  if (SEGMENTS == 1) begin : g_one
    assign stop = LANE_W'(sum(SUM_W'(base_q), SUM_W'(segment_q[0]), '0));
    assign less_one = COUNT_W'(sum(SUM_W'(less_one_q), SUM_W'(segment_q[0]), '0));
    for (genvar i = 0; i < LANES; i++) begin : g_place
      assign place[i] = COUNT_W'(sum(
          SUM_W'(base), SUM_W'(in_segment_q[i/BLOCK]), SUM_W'(in_block_q[i])));
    end
  end else begin : g_two
    assign stop = LANE_W'(sum(
        SUM_W'(base_q), SUM_W'(segment_q[0]), SUM_W'(segment_q[SEGMENTS-1])));
    assign less_one = COUNT_W'(sum(
        SUM_W'(less_one_q), SUM_W'(segment_q[0]), SUM_W'(segment_q[SEGMENTS-1])));
    for (genvar i = 0; i < LANES; i++) begin : g_place
      if (i < SEGMENT) begin : g_lower
        assign place[i] = COUNT_W'(sum(
            SUM_W'(base), SUM_W'(in_segment_q[i/BLOCK]), SUM_W'(in_block_q[i])));
      end else begin : g_upper
        sum_t x, y, z;
        assign {x, y, z} = {
          SUM_W'(base), SUM_W'(segment_q[0]), SUM_W'(in_segment_q[i/BLOCK])
        };
        assign place[i] = COUNT_W'(sum(
            x ^ y ^ z, ((x & y) | (x & z) | (y & z)) << 1, SUM_W'(in_block_q[i])));
      end
    end
  end

  for (genvar k = 0; k < LEVELS; k++) begin : g_select
    localparam int unsigned HIGH = LANE_W - 2 * k;
    localparam int unsigned LOW = (HIGH == 0) ? 0 : HIGH - 1;
    for (genvar p = 0; p < LANES; p++) begin : g_node
      if (LOW == 0) begin : g_leaf
        assign select_d[k][p] = 2'(place[p][HIGH:0]);
      end else begin : g_inner
        localparam int unsigned FIRST = p >> LOW << LOW;
        localparam logic [LOW-1:0] NODE = LOW'(p - FIRST);
        if (&NODE) begin : g_end
          assign select_d[k][p] = place[FIRST][HIGH:LOW];
        end else begin : g_not_end
          assign select_d[k][p] = place[FIRST][HIGH:LOW] + 2'(NODE < place[FIRST][LOW-1:0]);
        end
      end
    end
  end

  assign want = less_one[LANE_W];
  assign advance2 = !valid_q2 || (m_tready && !drain_q && (!use_item_q2 || s_item_tvalid));
  assign advance1 = !valid_q || advance2;
  assign s_mask_tready = advance1;

  always_ff @(posedge clk) begin
    if (advance2) begin
      select_q <= select_d;
      keep_q2 <= keep_q;
      user_q2 <= user_q;
      position_q2 <= {stop == '0, stop};
      want_q2 <= want;
      use_item_q2 <= (want || last_q) && !none_q && !ended_d;
      none_q2 <= none_q;
      last_q2 <= last_q;
      valid_q2 <= valid_q;
      if (valid_q) begin
        base_q <= last_q ? '0 : stop;
        less_one_q <= last_q ? '1 : less_one[LANE_W-1:0];
      end
    end
    if (rst) begin
      valid_q2 <= 1'b0;
      base_q <= '0;
      less_one_q <= '1;
    end
  end

  // The vector before, and whether it was the packet's last.
  logic [LANES-1:0][W-1:0] before_q;
  logic [COUNT_W-1:0] count_q;
  logic [ITEM_USER_W-1:0] item_user_q;
  assign ended = ended_q || none_q2;
  assign m_tvalid = valid_q2 && !drain_q && (!use_item_q2 || s_item_tvalid);
  assign issue = valid_q2 && m_tready && !drain_q && (!use_item_q2 || s_item_tvalid);
  assign s_item_tready = drain_q || (valid_q2 && use_item_q2 && m_tready);
  assign take = s_item_tvalid && s_item_tready;
  assign ended_d = issue ? !last_q2 && (use_item_q2 ? s_item_tlast : ended_q) : ended_q;

  assign m_tkeep = keep_q2;
  assign m_tuser = user_q2;
  assign m_tlast = last_q2;
  assign m_titem = use_item_q2 ? s_item_tuser : item_user_q;

  always_comb begin
    if (ended) begin
      m_terror = want_q2 || (last_q2 ? position_q2 != count_q : position_q2 > count_q);
    end else if (want_q2) begin
      m_terror = last_q2 ? !s_item_tlast || position_q2 != s_item_tcount
                         : position_q2 > s_item_tcount;
    end else begin
      m_terror = last_q2 && (!s_item_tlast || s_item_tcount != '0 || !position_q2[LANE_W]);
    end
  end

  always_ff @(posedge clk) begin
    if (take) begin
      before_q <= s_item_tdata;
      item_user_q <= s_item_tuser;
    end

    ended_q <= ended_d;
    if (drain_q) begin
      if (s_item_tvalid && s_item_tlast) drain_q <= 1'b0;
    end else if (issue) begin
      if (last_q2) begin
        count_q <= COUNT_W'(LANES);
        drain_q <= use_item_q2 && !s_item_tlast;
      end else if (use_item_q2) begin
        count_q <= s_item_tcount;
      end
    end

    if (rst) begin
      ended_q <= 1'b0;
      count_q <= COUNT_W'(LANES);
      drain_q <= 1'b0;
    end
  end

  // The network, from the highest bit of the place down.
  logic [LEVELS:0][2*LANES-1:0][W-1:0] level;
  assign level[0] = {s_item_tdata, before_q};
  assign m_tdata  = level[LEVELS][LANES-1:0];

  for (genvar k = 0; k < LEVELS; k++) begin : g_level
    localparam int unsigned HIGH = LANE_W - 2 * k;
    localparam int unsigned LOW = (HIGH == 0) ? 0 : HIGH - 1;
    localparam int unsigned WAYS = (HIGH == 0) ? 2 : 4;
    for (genvar p = 0; p < LANES; p++) begin : g_node
      // Level 0 begins with twice the lanes: its nodes' own high bits do not matter.
      localparam int unsigned OWN = p % (1 << LOW) + ((k == 0) ? 0 : p >> (HIGH + 1) << (HIGH + 1));
      logic [WAYS-1:0][W-1:0] ways;
      for (genvar c = 0; c < WAYS; c++) begin : g_way
        assign ways[c] = level[k][OWN+(c<<LOW)];
      end
      assign level[k+1][p] = ways[select_q[k][p][$clog2(WAYS)-1:0]];
    end
    assign level[k+1][2*LANES-1:LANES] = '0;
  end

`ifndef SYNTHESIS
  logic [2:1] latency_q;
  always_ff @(posedge clk) begin
    latency_q <= {latency_q[1], s_mask_tvalid && s_mask_tready && !valid_q && !valid_q2};
    if (rst) latency_q <= '0;
  end
  a_latency : assert property (@(posedge clk) disable iff (rst) latency_q[2] |-> valid_q2);
  a_vector : assert property (@(posedge clk) disable iff (rst)
      s_item_tvalid && !s_item_tlast |-> s_item_tcount == COUNT_W'(LANES));
  a_stable : assert property (@(posedge clk) disable iff (rst)
      m_tvalid && !m_tready |=> m_tvalid && $stable({m_tkeep, m_tuser, m_terror, m_tlast}));
`endif

endmodule
