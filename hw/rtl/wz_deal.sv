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

  // Ones, in 4 LUT levels: of every six bits, then of every weight, then their sum.
  function automatic logic [5:0] ones(input logic [35:0] bits);
    logic [5:0][2:0] six;
    logic [2:0][2:0] weight;
    for (int i = 0; i < 6; i++) six[i] = 3'($countones(bits[6*i+:6]));
    for (int w = 0; w < 3; w++) begin
      weight[w] = 3'($countones({six[0][w], six[1][w], six[2][w], six[3][w], six[4][w], six[5][w]}));
    end
    return 6'(weight[0]) + {2'b00, weight[1], 1'b0} + {1'b0, weight[2], 2'b00};
  endfunction

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
      always_ff @(posedge clk) begin
        if (advance1) in_segment_q[b] <= SEGMENT_W'(ones(36'(s_mask_tdata[b*BLOCK-1:FIRST])));
      end
    end
  end

  for (genvar s = 0; s < SEGMENTS; s++) begin : g_segment
    always_ff @(posedge clk) begin
      if (advance1) segment_q[s] <= (SEGMENT_W + 1)'(ones(36'(s_mask_tdata[s*SEGMENT+:SEGMENT])));
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
  logic [COUNT_W-1:0] base;
  logic [LANES-1:0][COUNT_W-1:0] place;
  logic [COUNT_W:0] stop;  // the place behind the last item
  logic [LEVELS-1:0][LANES-1:0][1:0] select_d, select_q;
  logic [LANES-1:0] keep_q2;
  logic [USER_W-1:0] user_q2;
  logic [COUNT_W-1:0] position_q2;  // items taken of the last vector that was touched
  logic want, want_q2, none_q2, last_q2, valid_q2;
  logic advance2, issue;

  assign base = {base_q == '0, base_q};

  // Sums of three: a carry-save step and one adder.
  function automatic logic [COUNT_W:0] sum(input logic [COUNT_W:0] x, input logic [COUNT_W:0] y,
                                           input logic [COUNT_W:0] z);
    return (x ^ y ^ z) + {(x[COUNT_W-1:0] & y[COUNT_W-1:0]) | (x[COUNT_W-1:0] & z[COUNT_W-1:0]) |
                          (y[COUNT_W-1:0] & z[COUNT_W-1:0]), 1'b0};
  endfunction

  localparam int unsigned SUM_W = COUNT_W + 1;
  if (SEGMENTS == 1) begin : g_one
    assign stop = SUM_W'(base) + SUM_W'(segment_q[0]);
    for (genvar i = 0; i < LANES; i++) begin : g_place
      assign place[i] = COUNT_W'(sum(
          SUM_W'(base), SUM_W'(in_segment_q[i/BLOCK]), SUM_W'(in_block_q[i])));
    end
  end else begin : g_two
    assign stop = sum(SUM_W'(base), SUM_W'(segment_q[0]), SUM_W'(segment_q[SEGMENTS-1]));
    for (genvar i = 0; i < LANES; i++) begin : g_place
      if (i < SEGMENT) begin : g_lower
        assign place[i] = COUNT_W'(sum(
            SUM_W'(base), SUM_W'(in_segment_q[i/BLOCK]), SUM_W'(in_block_q[i])));
      end else begin : g_upper
        logic [COUNT_W:0] x, y, z;
        assign {x, y, z} = {
          SUM_W'(base), SUM_W'(segment_q[0]), SUM_W'(in_segment_q[i/BLOCK])
        };
        assign place[i] = COUNT_W'(sum(
            x ^ y ^ z,
            {(x[COUNT_W-1:0] & y[COUNT_W-1:0]) | (x[COUNT_W-1:0] & z[COUNT_W-1:0]) |
             (y[COUNT_W-1:0] & z[COUNT_W-1:0]), 1'b0},
            SUM_W'(in_block_q[i])));
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

  assign want = stop > (COUNT_W + 1)'(LANES);
  assign advance2 = !valid_q2 || issue;
  assign advance1 = !valid_q || advance2;
  assign s_mask_tready = advance1;

  always_ff @(posedge clk) begin
    if (advance2) begin
      select_q <= select_d;
      keep_q2 <= keep_q;
      user_q2 <= user_q;
      position_q2 <= {stop[LANE_W-1:0] == '0, stop[LANE_W-1:0]};
      want_q2 <= want;
      none_q2 <= none_q;
      last_q2 <= last_q;
      valid_q2 <= valid_q;
      if (valid_q) base_q <= last_q ? '0 : stop[LANE_W-1:0];
    end
    if (rst) begin
      valid_q2 <= 1'b0;
      base_q   <= '0;
    end
  end

  // The vector before, and whether it was the packet's last.
  logic [LANES-1:0][W-1:0] before_q;
  logic [COUNT_W-1:0] count_q;
  logic [ITEM_USER_W-1:0] item_user_q;
  logic ended_q, drain_q;
  logic ended, use_item, take;

  assign ended = ended_q || none_q2;
  assign use_item = (want_q2 || last_q2) && !ended;
  assign m_tvalid = valid_q2 && !drain_q && (!use_item || s_item_tvalid);
  assign issue = m_tvalid && m_tready;
  assign s_item_tready = drain_q || (valid_q2 && use_item && m_tready);
  assign take = s_item_tvalid && s_item_tready;

  assign m_tkeep = keep_q2;
  assign m_tuser = user_q2;
  assign m_tlast = last_q2;
  assign m_titem = use_item ? s_item_tuser : item_user_q;

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

    if (drain_q) begin
      if (s_item_tvalid && s_item_tlast) drain_q <= 1'b0;
    end else if (issue) begin
      if (last_q2) begin
        ended_q <= 1'b0;
        count_q <= COUNT_W'(LANES);
        drain_q <= use_item && !s_item_tlast;
      end else if (use_item) begin
        ended_q <= s_item_tlast;
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
