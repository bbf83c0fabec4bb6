// SPDX-License-Identifier: Apache-2.0
//
// Packs the unary codes of a group of LANES ranks, up to 16 bits each (docs/format.md, section 8).
//
// Of a code only the place of its one matters. The places are prefix sums of the lengths, added to
// where the frame's section stands. The section is cut into words of 16 bits; a place is a word and a
// bit in it, and a network brings the bits of every lane to the word's lane, by the word's number
// from its lowest bits up: in pairs of lanes, in groups of eight, in all. Lanes of one word are
// neighbours with the same destination, so that wherever two of them meet in the network they are
// joined by an OR, and words never collide: any group takes one clock, also the longest.
// Each stage holds its bits once for every way they may go and clears the copies that do not, by the
// flops' reset. So the stages are ORs without masks, and the first also decodes: it sees a place as
// two of four lines (`high_q`, `low_q`), not as one of sixteen.
// The words go straight to the lanes of a wz_rows. The last, incomplete word stays in its lane
// (`kept_q`) and is joined to the next group's bits there.
//
// A group whose codes reach round to the word they began in (it takes nearly 16 bits a value) leaves
// its last bit to the next group: that of its last lane, as the lanes before cannot get there. If it
// is the frame's last group, a write follows by itself, and the clock after it must bring no group:
// only R0 can have such a group.
//
//   latency       9 + log2(LANES / 4) clocks: 12 for 32 lanes
//   throughput    1 group a clock
//   back-pressure none: while `used` rows are taken, there must be room for one row more than the
//                 groups under way fill

module wz_unary_pack #(
    parameter int unsigned LANES = 32,  // 8, 16, 32 or 64
    parameter int unsigned ROWS = 32,
    localparam int unsigned ROW_W = $clog2(ROWS),
    localparam int unsigned ROW_LANES = (LANES < 32) ? 32 : LANES
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input logic [LANES-1:0][4:0] s_rank,
    input logic [LANES-1:0]      s_present,
    input logic                  s_first,  // of the frame
    input logic                  s_last,
    input wz_pack_pkg::codes_t   s_codes,
    input logic                  s_valid,

    output logic                       w_valid,  // to wz_rows
    output logic [ROW_LANES-1:0]       w_lanes,
    output logic [ROW_LANES-1:0]       w_next,
    output logic [ROW_W-1:0]           w_row,
    output logic [ROW_LANES-1:0][15:0] w_data,
    output logic [1:0]                 w_done,
    input  logic [ROW_W-1:0]           r_row,

    output logic [ROW_W-1:0] used  // complete rows not read, one clock late
);

  import wz_format_pkg::*;
  import wz_pack_pkg::*;

  localparam int unsigned LANE_W = $clog2(LANES);
  localparam int unsigned RING_W = LANE_W + 4;  // bits of a place modulo 16 * LANES
  localparam int unsigned ROW_PLACE_W = $clog2(ROW_LANES) + 4;  // of a place in a row
  localparam int unsigned QUADS = LANES / 4;
  localparam int unsigned QUAD_STEPS = LANE_W - 2;
  localparam int unsigned SUM_W = RING_W + 1;
  localparam int unsigned NETWORK = 3;  // clocks
  localparam int unsigned OCTETS = LANES / 8;

  // Clock 1: lengths, 0 where there is no code.
  logic [LANES-1:0][4:0] length_q;
  for (genvar i = 0; i < LANES; i++) begin : g_length
    logic [4:0] length;
    always_comb begin
      unique case (s_codes.coder)
        CODER_R0: length = s_rank[i] + 5'd1;
        CODER_R1: length = {1'b0, s_rank[i][4:1]} + 5'd1;
        CODER_R2: length = {2'b0, s_rank[i][4:2]} + 5'd1;
        default: length = (s_rank[i] >= 5'd3) ? s_rank[i] - 5'd2 : 5'd0;
      endcase
    end
    always_ff @(posedge clk) length_q[i] <= s_present[i] ? length : 5'd0;
  end

  wire unused_codes = &{1'b0, s_codes};

  // What goes beside, up to the base. Index: after clock i + 1.
  localparam int unsigned BEFORE = 3 + QUAD_STEPS;
  logic [BEFORE-1:0] valid_q, first_q, last_q;
  logic [1:0] start_q[BEFORE];
  always_ff @(posedge clk) begin
    valid_q <= {valid_q[BEFORE-2:0], s_valid && s_codes.unary_any};
    first_q <= {first_q[BEFORE-2:0], s_first};
    last_q  <= {last_q[BEFORE-2:0], s_last};
    start_q[0] <= s_codes.unary_start;
    for (int i = 1; i < int'(BEFORE); i++) start_q[i] <= start_q[i-1];
    if (rst) valid_q <= '0;
  end

  // Clocks 2 and 3: sums inside groups of four. The place of a one is a sum less one: `base_less`
  // takes that off.
  logic [LANES-1:0] has_q[BEFORE];  // index as above; a lane has a code
  logic [QUADS-1:0][3:0][6:0] place3_q;
  for (genvar q = 0; q < QUADS; q++) begin : g_quad
    logic [4:0] a_q, c_q;
    logic [5:0] ab_q, cd_q;
    always_ff @(posedge clk) begin
      a_q  <= length_q[4*q];
      ab_q <= {1'b0, length_q[4*q]} + {1'b0, length_q[4*q+1]};
      c_q  <= length_q[4*q+2];
      cd_q <= {1'b0, length_q[4*q+2]} + {1'b0, length_q[4*q+3]};
      place3_q[q][0] <= {2'b0, a_q};
      place3_q[q][1] <= {1'b0, ab_q};
      place3_q[q][2] <= {1'b0, ab_q} + {2'b0, c_q};
      place3_q[q][3] <= {1'b0, ab_q} + {1'b0, cd_q};
    end
  end
  always_comb begin
    for (int i = 0; i < int'(LANES); i++) has_q[0][i] = length_q[i] != '0;
  end
  for (genvar k = 1; k < BEFORE; k++) begin : g_has
    always_ff @(posedge clk) has_q[k] <= has_q[k-1];
  end

  // Clocks 4 up: totals of the groups of four before, by doubling.
  logic [QUADS-1:0][SUM_W-1:0] sum[QUAD_STEPS+1]  /*verilator split_var*/;
  logic [QUADS-1:0][3:0][6:0] place[QUAD_STEPS+1]  /*verilator split_var*/;
  assign place[0] = place3_q;
  for (genvar q = 0; q < QUADS; q++) begin : g_sum0
    assign sum[0][q] = SUM_W'(place3_q[q][3]);
  end
  for (genvar k = 0; k < QUAD_STEPS; k++) begin : g_sum
    logic [QUADS-1:0][SUM_W-1:0] sum_q;
    logic [QUADS-1:0][3:0][6:0] place_q;
    for (genvar q = 0; q < QUADS; q++) begin : g_add
      if (q >= (1 << k)) begin : g_two
        always_ff @(posedge clk) sum_q[q] <= sum[k][q] + sum[k][q-(1<<k)];
      end else begin : g_one
        always_ff @(posedge clk) sum_q[q] <= sum[k][q];
      end
    end
    always_ff @(posedge clk) place_q <= place[k];
    assign sum[k+1] = sum_q;
    assign place[k+1] = place_q;
  end

  // Clock B (the base): where the group begins in the row. The only loop but for the count of rows.
  logic [QUADS-1:0][SUM_W-1:0] sums;
  assign sums = sum[QUAD_STEPS];
  logic [ROW_PLACE_W-1:0] base, base_q;
  logic [ROW_PLACE_W:0] stop;
  logic b_valid, b_last;

  assign b_valid = valid_q[BEFORE-1];
  assign b_last = last_q[BEFORE-1];
  assign base = first_q[BEFORE-1] ? ROW_PLACE_W'({start_q[BEFORE-1], 7'd0}) : base_q;
  // The choice behind the adders: one in front of them makes a longer path.
  assign stop = first_q[BEFORE-1]
              ? (ROW_PLACE_W + 1)'({start_q[BEFORE-1], 7'd0}) + (ROW_PLACE_W + 1)'(sums[QUADS-1])
              : {1'b0, base_q} + (ROW_PLACE_W + 1)'(sums[QUADS-1]);

  // In the ring of 16 * LANES bits: a group ends in the word it began in, after a turn.
  logic [SUM_W-1:0] ring_stop;
  logic turned, again;
  assign ring_stop = {1'b0, base[RING_W-1:0]} + sums[QUADS-1];

  // The same less one, where ones are placed.
  logic [RING_W-1:0] base_less, base_less_q, start_less_q;
  assign base_less = first_q[BEFORE-1] ? start_less_q : base_less_q;

  logic [QUADS-1:0][RING_W-1:0] quad_q;
  logic [QUADS-1:0][3:0][6:0] quad_place_q;
  logic [LANES-1:0] quad_has_q;
  logic c_valid_q, c_last_q;
  logic [ROW_PLACE_W-1:4] c_base_q;  // in words
  logic [LANE_W:0] c_stop_q;  // word of the end in the ring, not wrapped
  logic c_stop_aligned_q;
  logic [ROW_PLACE_W:0] c_row_stop_q;  // in the row

  always_ff @(posedge clk) begin
    start_less_q <= RING_W'({start_q[BEFORE-2], 7'd0}) - 1'b1;
    if (b_valid) begin
      base_q <= stop[ROW_PLACE_W-1:0];
      base_less_q <= base_less + sums[QUADS-1][RING_W-1:0];
    end
    c_row_stop_q <= stop;
    for (int q = 0; q < int'(QUADS); q++) begin
      quad_q[q] <= base_less + ((q == 0) ? '0 : sums[(q == 0) ? 0 : q-1][RING_W-1:0]);
    end
    quad_place_q <= place[QUAD_STEPS];
    quad_has_q <= has_q[BEFORE-1];
    c_valid_q <= b_valid;
    c_last_q <= b_last;
    c_base_q <= base[ROW_PLACE_W-1:4];
    c_stop_q <= ring_stop[SUM_W-1:4];
    c_stop_aligned_q <= ring_stop[3:0] == '0;
    if (rst) c_valid_q <= 1'b0;
  end

  // The group fills the ring to its turn; with `again`, a bit in the word of the base belongs to the
  // next row.
  assign turned = c_stop_q == {1'b1, c_base_q[4+:LANE_W]};
  assign again = turned && !c_stop_aligned_q;

  // Rows that the group completes.
  logic [ROW_W-1:0] row_q;
  logic [1:0] done;
  assign done = {1'b0, c_row_stop_q[ROW_PLACE_W]}
              + {1'b0, c_last_q && c_row_stop_q[ROW_PLACE_W-1:0] != '0};

  // Clock C: the places of the ones.
  logic [LANES-1:0][RING_W-1:0] one_q;
  logic [LANES-1:0] one_has_q;
  logic d_valid_q, d_last_q, d_again_q, d_keep_q;
  logic [ROW_PLACE_W-1:4] d_base_q;
  logic [LANE_W-1:0] d_stop_q;
  logic [ROW_W-1:0] d_row_q;
  logic [1:0] d_done_q;

  always_ff @(posedge clk) begin
    for (int i = 0; i < int'(LANES); i++) begin
      one_q[i] <= quad_q[i/4] + RING_W'(quad_place_q[i/4][i%4]);
    end
    one_has_q <= quad_has_q & {LANES{c_valid_q}};
    d_valid_q <= c_valid_q;
    d_last_q  <= c_last_q;
    d_again_q <= again;
    d_keep_q  <= !turned && !c_last_q;
    d_base_q  <= c_base_q;
    d_stop_q  <= c_stop_q[LANE_W-1:0];
    d_row_q   <= row_q;
    d_done_q  <= done;
    if (c_valid_q) row_q <= row_q + ROW_W'(done);
    used <= row_q - r_row;
    if (rst) begin
      row_q <= '0;
      d_valid_q <= 1'b0;
    end
  end

  // Clock D: the bit as two of four lines, for an even and for an odd word. Resets are written as
  // what they are, a reset by the inverse of a signal takes an inverter.
  logic [LANES-1:0][1:0][3:0] high_q;
  logic [LANES-1:0][3:0] low_q;
  logic [LANES-1:0][1:0] other_q;  // no code, or the word is odd, even
  logic [LANES-1:0][LANE_W-2:0] to_q;  // the word without its lowest bit
  for (genvar i = 0; i < LANES; i++) begin : g_one
    logic none;
    logic [1:0] other;
    assign none  = !one_has_q[i] || (i == LANES - 1 && d_again_q);
    assign other = {none || !one_q[i][4], none || one_q[i][4]};
    always_ff @(posedge clk) begin
      other_q[i] <= other;
      to_q[i] <= one_q[i][5+:LANE_W-1];
      low_q[i] <= 4'd1 << one_q[i][1:0];
      for (int h = 0; h < 2; h++) begin
        high_q[i][h] <= 4'd1 << one_q[i][3:2];
        if (other[h]) high_q[i][h] <= '0;
      end
    end
  end

  // Clock E: pairs. Lane i of a pair has the words whose lowest bit is that of i; for each value of
  // the next two bits.
  logic [LANES-1:0][3:0][15:0] pair_q;
  logic [LANES-1:0][3:0][OCTETS-1:0] pair_to_q;  // the rest of the word's number, a bit each
  for (genvar i = 0; i < LANES; i++) begin : g_pair
    localparam int unsigned A = i & ~1;
    localparam int unsigned B = i | 1;
    localparam int unsigned H = i & 1;
    logic [15:0] bits;
    logic [OCTETS-1:0] octet;
    always_comb begin
      for (int l = 0; l < 16; l++) begin
        bits[l] = (high_q[A][H][l/4] && low_q[A][l%4]) || (high_q[B][H][l/4] && low_q[B][l%4]);
      end
      for (int o = 0; o < int'(OCTETS); o++) begin
        octet[o] = (!other_q[A][H] && {1'b0, to_q[A]} >> 2 == LANE_W'(o))
                || (!other_q[B][H] && {1'b0, to_q[B]} >> 2 == LANE_W'(o));
      end
    end
    for (genvar c = 0; c < 4; c++) begin : g_way
      logic other;
      assign other = (other_q[A][H] || to_q[A][1:0] != 2'(c))
                  && (other_q[B][H] || to_q[B][1:0] != 2'(c));
      always_ff @(posedge clk) begin
        pair_q[i][c] <= bits;
        pair_to_q[i][c] <= octet;
        if (other) begin
          pair_q[i][c] <= '0;
          pair_to_q[i][c] <= '0;
        end
      end
    end
  end

  // Clock F: eights. Lane i of eight has the words whose lowest bits are those of i; for each octet.
  logic [LANES-1:0][OCTETS-1:0][15:0] eight_q;
  logic [LANES-1:0][OCTETS-1:0] eight_to;
  for (genvar i = 0; i < LANES; i++) begin : g_eight
    localparam int unsigned FIRST = (i & ~7) | (i & 1);
    localparam int unsigned C = i >> 1 & 3;
    logic [15:0] bits;
    assign bits = pair_q[FIRST][C] | pair_q[FIRST+2][C] | pair_q[FIRST+4][C] | pair_q[FIRST+6][C];
    for (genvar o = 0; o < OCTETS; o++) begin : g_octet
      logic other;
      assign other = !pair_to_q[FIRST][C][o] && !pair_to_q[FIRST+2][C][o]
                  && !pair_to_q[FIRST+4][C][o] && !pair_to_q[FIRST+6][C][o];
      assign eight_to[i][o] = !other;
      always_ff @(posedge clk) begin
        eight_q[i][o] <= bits;
        if (other) eight_q[i][o] <= '0;
      end
    end
  end

  // Beside the network. Index: 0 after clock D.
  logic [NETWORK-1:0] e_valid_q, e_last_q, e_again_q, e_keep_q;
  logic [ROW_PLACE_W-1:4] e_base_q[NETWORK];
  logic [LANE_W-1:0] e_stop_q[NETWORK-1];
  logic [3:0] e_end_q[NETWORK];  // the bit of the last lane
  logic [ROW_W-1:0] e_row_q[NETWORK];
  logic [1:0] e_done_q[NETWORK];
  always_ff @(posedge clk) begin
    e_valid_q <= {e_valid_q[NETWORK-2:0], d_valid_q};
    e_last_q  <= {e_last_q[NETWORK-2:0], d_last_q};
    e_again_q <= {e_again_q[NETWORK-2:0], d_again_q};
    e_keep_q  <= {e_keep_q[NETWORK-2:0], d_keep_q};
    e_base_q[0] <= d_base_q;
    e_stop_q[0] <= d_stop_q;
    e_end_q[0]  <= one_q[LANES-1][3:0];
    e_row_q[0]  <= d_row_q;
    e_done_q[0] <= d_done_q;
    for (int i = 1; i < int'(NETWORK); i++) begin
      e_base_q[i] <= e_base_q[i-1];
      e_end_q[i]  <= e_end_q[i-1];
      e_row_q[i]  <= e_row_q[i-1];
      e_done_q[i] <= e_done_q[i-1];
    end
    for (int i = 1; i < int'(NETWORK) - 1; i++) e_stop_q[i] <= e_stop_q[i-1];
    if (rst) e_valid_q <= '0;
  end

  // Clock G, the last: all lanes, and what was left by the group before; write.
  localparam int unsigned TURNS_W = $clog2(ROW_LANES) - LANE_W;  // rings in a row
  logic flush_q;  // a bit is left of the frame's end and goes to the row's next turn
  logic e_valid, e_again, e_last_again;
  logic [LANES-1:0] first_word_q, behind_q;  // of the group in clock G: first word; words before
  logic [LANES-1:0] keep_q;  // its last word, if it is not complete
  logic [ROW_PLACE_W-1:4] e_base;
  logic [LANES-1:0][15:0] kept_q, left_q, data_d;

  assign e_valid = e_valid_q[NETWORK-1];
  assign e_base = e_base_q[NETWORK-1];
  assign e_again = e_valid && e_again_q[NETWORK-1];
  assign e_last_again = e_again && e_last_q[NETWORK-1];

  always_ff @(posedge clk) begin
    // A clock ahead; kept where the end of the frame still has to be written.
    if (!e_last_again) begin
      for (int i = 0; i < int'(LANES); i++) begin
        first_word_q[i] <= LANE_W'(i) == e_base_q[NETWORK-2][4+:LANE_W];
        behind_q[i] <= LANE_W'(i) < e_base_q[NETWORK-2][4+:LANE_W];
      end
    end
    for (int i = 0; i < int'(LANES); i++) begin
      keep_q[i] <= e_keep_q[NETWORK-2] && LANE_W'(i) == e_stop_q[NETWORK-2];
    end
    flush_q <= e_last_again;
    if (rst) flush_q <= 1'b0;
  end

  for (genvar i = 0; i < LANES; i++) begin : g_word
    always_comb begin
      data_d[i] = kept_q[i] | left_q[i];
      for (int o = 0; o < int'(OCTETS); o++) data_d[i] |= eight_q[8*o+i%8][i/8];
    end
    always_ff @(posedge clk) begin
      if (e_valid) begin
        kept_q[i] <= data_d[i];
        left_q[i] <= 16'd1 << e_end_q[NETWORK-1];
      end
      if (rst || (e_valid && !keep_q[i])) kept_q[i] <= '0;
      if (rst || flush_q || (e_valid && !(e_again && first_word_q[i]))) left_q[i] <= '0;
    end
  end

  // Where the group, or the rest of one, is written. A ring can be less than a row.
  logic [ROW_W-1:0] flush_row_q;
  logic [ROW_LANES-1:0] lanes_d, next_d;
  if (TURNS_W == 0) begin : g_row_is_ring
    always_comb begin
      lanes_d = flush_q ? first_word_q : '1;
      next_d  = flush_q ? '0 : behind_q;
    end
    always_ff @(posedge clk) flush_row_q <= e_row_q[NETWORK-1] + 1'b1;
  end else begin : g_row_is_rings
    localparam int unsigned TURNS = 1 << TURNS_W;
    logic [TURNS_W-1:0] turn, turn_after, flush_turn_q;
    assign turn = e_base[4+LANE_W+:TURNS_W];
    assign turn_after = turn + 1'b1;
    always_comb begin
      for (int t = 0; t < int'(TURNS); t++) begin
        for (int i = 0; i < int'(LANES); i++) begin
          lanes_d[t*int'(LANES)+i] = flush_q ? first_word_q[i] && flush_turn_q == TURNS_W'(t)
                                   : behind_q[i] ? turn_after == TURNS_W'(t)
                                   : turn == TURNS_W'(t);
          next_d[t*int'(LANES)+i] = !flush_q && behind_q[i] && turn == '1;
        end
      end
    end
    always_ff @(posedge clk) begin
      flush_turn_q <= turn_after;
      flush_row_q  <= e_row_q[NETWORK-1] + ROW_W'(turn == '1);
    end
  end

  always_ff @(posedge clk) begin
    w_lanes <= lanes_d;
    w_next <= next_d;
    for (int i = 0; i < int'(ROW_LANES); i++) w_data[i] <= data_d[i%int'(LANES)];
    w_row <= flush_q ? flush_row_q : e_row_q[NETWORK-1];
    // The row that the rest goes to is complete only with it.
    w_done <= flush_q ? 2'd1 : e_done_q[NETWORK-1] - 2'(e_last_again);
    w_valid <= e_valid || flush_q;
    if (rst) w_valid <= 1'b0;
  end
  wire unused_base = &{1'b0, e_base};

`ifndef SYNTHESIS
  localparam int unsigned LATENCY = BEFORE + 3 + NETWORK;
  initial assert (LANES == 8 || LANES == 16 || LANES == 32 || LANES == 64);
  a_latency : assert property (@(posedge clk) disable iff (rst)
      s_valid && s_codes.unary_any |-> ##(LATENCY) w_valid);
  a_distance : assert property (@(posedge clk) disable iff (rst) flush_q |-> !e_valid);
  a_left : assert property (@(posedge clk) disable iff (rst) flush_q |-> kept_q == '0);
  a_begin : assert property (@(posedge clk) disable iff (rst)
      b_valid && first_q[BEFORE-1] |-> ##(3 + NETWORK - 1) {kept_q, left_q} == '0);
  for (genvar i = 0; i < LANES; i++) begin : g_check
    // Different words never meet.
    a_pair : assert property (@(posedge clk) disable iff (rst)
        e_valid_q[0] && !other_q[i & ~1][i & 1] && !other_q[i | 1][i & 1]
        |-> to_q[i & ~1] == to_q[i | 1]);
    a_eight : assert property (@(posedge clk) disable iff (rst)
        e_valid_q[1] |-> $onehot0(eight_to[i]));
  end
`endif

endmodule
