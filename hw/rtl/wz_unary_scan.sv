// SPDX-License-Identifier: Apache-2.0
//
// Finds the codes of unary sections (docs/format.md, section 8), without decoding one after the other.
//
// Every 1 ends a code and a code has at most 16 bits. So the codes of 8 bits are a table of these 8
// bits, but for the zeros that the first of them takes over from the 16 bits before; how many codes
// lie before a byte is a prefix count; and the only loop is the write pointer. Codes go to
// consecutive slots: the codes of each byte are rotated to their slots modulo 8, then bytes are
// merged by fours and fours to all slots. Each slot has a memory of its own, 32 codes deep.
//
// A packet in is a unary section in 128-bit words, zero beyond its end. A packet out is its codes,
// LANES a vector, in the last of which m_tcount may be less, 0 if the section has no codes at all.
// Beside the last: m_overflow, more than 15 zeros before a one; m_found and m_position, the last 1 in
// the section's last word.
//
//   latency       7 clocks from the word with the code behind a vector, or the section's last word;
//                 1 more if that word takes two clocks and the code is in its upper half
//   throughput    4 * LANES bits, at most 128, a clock, while they hold at most 2 * LANES codes; then
//                 two clocks. A vector of LANES codes a clock out
//   back-pressure s_tready falls while fewer than some 30 of the 64 vectors of the buffer are free;
//                 it depends on flops alone

module wz_unary_scan #(
    parameter int unsigned LANES = 32,  // 8, 16, 32 or 64
    localparam int unsigned LANE_W = $clog2(LANES)
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input  logic [127:0] s_tdata,
    input  logic         s_tlast,
    input  logic         s_tvalid,
    output logic         s_tready,

    output logic [LANES-1:0][3:0] m_tdata,  // zeros of the code; undefined beyond m_tcount
    output logic [LANE_W:0]       m_tcount,
    output logic                  m_overflow,
    output logic                  m_found,
    output logic [6:0]            m_position,
    output logic                  m_tlast,
    output logic                  m_tvalid,
    input  logic                  m_tready
);

  localparam int unsigned BITS = (LANES < 32) ? 4 * LANES : 128;
  localparam int unsigned PARTS = 128 / BITS;
  localparam int unsigned CHUNKS = BITS / 8;
  localparam int unsigned QUADS = CHUNKS / 4;
  localparam int unsigned SLOTS = 2 * LANES;
  localparam int unsigned SLOT_W = LANE_W + 1;
  localparam int unsigned ROWS = 32;
  // A pointer counts codes; the highest bit tells full from empty.
  localparam int unsigned POINTER_W = SLOT_W + $clog2(ROWS) + 1;
  localparam int unsigned GROUP_W = POINTER_W - LANE_W;
  localparam int unsigned CHUNK_W = $clog2(CHUNKS);
  // Of each four chunks, before they are merged with other fours.
  localparam int unsigned QUAD_LANES = (SLOTS < 32) ? SLOTS : 32;
  localparam int unsigned BLOCK_W = $clog2(QUAD_LANES / 8);
  // Vectors that the words in the pipeline may still need.
  localparam int unsigned IN_FLIGHT = 6 * (BITS / LANES + 1);
  localparam int unsigned ROOM = 2 * ROWS - IN_FLIGHT;

  // What 8 bits say, as tables: `gap` zeros before code 1, 2, ... of them, `lead` zeros before the
  // first 1, `trail` zeros behind the last.
  typedef logic [255:0][2:0] table_t;

  function automatic table_t gap_table(input int code);
    for (int bits = 0; bits < 256; bits++) begin
      int found, zeros;
      found = 0;
      zeros = 0;
      gap_table[bits] = 3'd0;
      for (int i = 0; i < 8; i++) begin
        if (bits[i]) begin
          if (found == code) gap_table[bits] = 3'(zeros);
          found++;
          zeros = 0;
        end else zeros++;
      end
    end
  endfunction

  function automatic table_t trail_table();
    for (int bits = 0; bits < 256; bits++) begin
      int zeros;
      zeros = 0;
      for (int i = 0; i < 8; i++) zeros = bits[i] ? 0 : zeros + 1;
      trail_table[bits] = 3'(zeros);
    end
  endfunction

  // Ones in 4 LUT levels, none of which needs more than 6 inputs: of every six bits, of every weight
  // of these counts, and two small sums.
  function automatic logic [2:0] ones_of_6(input logic [5:0] x);
    logic s0, s1, c0, c1, c2;
    s0 = x[0] ^ x[1] ^ x[2];
    c0 = (x[0] & x[1]) | (x[2] & (x[0] | x[1]));
    s1 = x[3] ^ x[4] ^ x[5];
    c1 = (x[3] & x[4]) | (x[5] & (x[3] | x[4]));
    c2 = s0 & s1;
    return {(c0 & c1) | (c2 & (c0 | c1)), c0 ^ c1 ^ c2, s0 ^ s1};
  endfunction

  function automatic logic [5:0] ones(input logic [35:0] word);
    logic [5:0][2:0] six;
    logic [2:0][2:0] weight;
    logic [3:0] twos, fours;
    for (int i = 0; i < 6; i++) six[i] = ones_of_6(word[6*i+:6]);
    for (int w = 0; w < 3; w++) begin
      weight[w] = ones_of_6({six[0][w], six[1][w], six[2][w], six[3][w], six[4][w], six[5][w]});
    end
    twos  = 4'(weight[1]) + 4'(weight[0][2:1]);
    fours = 4'(weight[2]) + 4'(twos[3:1]);
    return {fours, twos[0], weight[0][0]};
  endfunction

  localparam table_t GAPS[7] = '{
      gap_table(0), gap_table(1), gap_table(2), gap_table(3),
      gap_table(4), gap_table(5), gap_table(6)
  };
  localparam table_t TRAIL = trail_table();

  logic hold_q;  // clock E takes the word in two halves
  logic room_q;
  logic advance;
  assign advance = !hold_q;

  // Input: parts of a word.
  localparam int unsigned PART_W = (PARTS == 1) ? 1 : $clog2(PARTS);
  logic [PARTS-1:0][BITS-1:0] parts;
  logic [PART_W-1:0] part_q;
  logic [BITS-1:0] bits;
  logic first_q, part_last, take;

  assign parts = s_tdata;
  assign bits = (PARTS == 1) ? parts[0] : parts[part_q];
  assign part_last = part_q == PART_W'(PARTS - 1);
  assign take = s_tvalid && room_q && advance;
  assign s_tready = room_q && advance && part_last;

  always_ff @(posedge clk) begin
    if (take) begin
      part_q  <= part_last ? '0 : part_q + 1'b1;
      first_q <= part_last && s_tlast;
    end
    if (rst) begin
      part_q  <= '0;
      first_q <= 1'b1;
    end
  end

  // Clock B: the tables, and counts inside fours of chunks.
  logic [CHUNKS-1:0][6:0][2:0] gap_b;
  logic [CHUNKS-1:0][2:0] trail_b;
  logic [CHUNKS-1:0][3:0] count_b;
  logic [CHUNKS-1:0] empty_b;
  logic [CHUNKS-1:0][4:0] before_b;  // codes before the chunk in its four
  logic [QUADS-1:0][5:0] quad_b;
  logic [PART_W-1:0] part_b;
  logic first_b, last_b, valid_b;

  for (genvar c = 0; c < CHUNKS; c++) begin : g_tables
    logic [7:0] chunk;
    assign chunk = bits[8*c+:8];
    always_ff @(posedge clk) begin
      if (advance) begin
        for (int j = 0; j < 7; j++) gap_b[c][j] <= GAPS[j][chunk];
        trail_b[c] <= TRAIL[chunk];
        count_b[c] <= 4'($countones(chunk));
        empty_b[c] <= chunk == '0;
      end
    end
    if (c % 4 == 0) begin : g_first
      assign before_b[c] = 5'd0;
    end else begin : g_more
      always_ff @(posedge clk) begin
        if (advance) before_b[c] <= 5'(ones(36'(bits[8*c-1:c/4*32])));
      end
    end
  end

  always_ff @(posedge clk) begin
    if (advance) begin
      for (int q = 0; q < int'(QUADS); q++) quad_b[q] <= ones(36'(bits[32*q+:32]));
      part_b  <= part_q;
      first_b <= first_q;
      last_b  <= part_last && s_tlast;
      valid_b <= take;
    end
    if (rst) valid_b <= 1'b0;
  end

  // Clock C: the zeros before the first code of each chunk, from two chunks back at most; counts
  // before each four.
  logic [CHUNKS+1:0][2:0] trail;  // two chunks of the part before, then this part's
  logic [CHUNKS+1:0] empty;
  logic [1:0][2:0] trail_before_q;
  logic [1:0] empty_before_q;
  logic [CHUNKS-1:0][7:0][3:0] gap_c;
  logic [CHUNKS-1:0][3:0] count_c;
  logic [CHUNKS-1:0][4:0] before_c;
  logic [CHUNKS-1:0][2:0] trail_c;
  logic [QUADS:0][7:0] quad_sum, quad_c;
  logic [7:0] half_sum, half_c, half_less_one_c;  // codes of the lower half of the chunks
  // What is added to the write pointer: to advance it; for the place of the last code; for the
  // vectors that are complete.
  logic [7:0] step_c, less_one_c, complete_c;
  logic [CHUNKS-1:0] overflow_c;
  logic [CHUNK_W-1:0] highest, highest_c;
  logic [PART_W-1:0] part_c;
  logic found_c, last_c, valid_c, over;

  for (genvar c = 0; c < CHUNKS; c++) begin : g_zeros
    logic [3:0] carried;
    logic [4:0] zeros;
    logic too_many;
    assign trail[c+2] = trail_b[c];
    assign empty[c+2] = empty_b[c];
    assign carried = empty[c+1] ? 4'd8 + 4'(trail[c]) : 4'(trail[c+1]);
    assign too_many = empty[c+1] && empty[c];
    assign zeros = 5'(carried) + 5'(gap_b[c][0]);
    always_ff @(posedge clk) begin
      if (advance) begin
        gap_c[c][0] <= zeros[3:0];
        for (int j = 1; j < 7; j++) gap_c[c][j] <= 4'(gap_b[c][j]);
        gap_c[c][7] <= 4'd0;  // the eighth code of eight bits
        overflow_c[c] <= !empty[c+2] && (too_many || zeros[4]);
        count_c[c] <= count_b[c];
        before_c[c] <= before_b[c];
        trail_c[c] <= trail_b[c];
      end
    end
  end
  assign trail[1:0] = first_b ? '0 : trail_before_q;
  assign empty[1:0] = first_b ? '0 : empty_before_q;

  assign quad_sum[0] = '0;
  for (genvar q = 1; q <= QUADS; q++) begin : g_quad_sum
    if (q < 3) begin : g_low
      assign quad_sum[q] = 8'(quad_b[0]) + ((q == 2) ? 8'(quad_b[q-1]) : 8'd0);
    end else begin : g_high
      assign quad_sum[q] = (8'(quad_b[0]) + 8'(quad_b[1])) +
                           (8'(quad_b[2]) + ((q == 4) ? 8'(quad_b[q-1]) : 8'd0));
    end
  end
  assign half_sum = (QUADS == 1) ? 8'(before_b[2]) : quad_sum[QUADS/2];
  // More codes than slots: with four quads, the carry of their sum and a constant, in carry-save
  // steps and then by threes of bits.
  if (QUADS == 4) begin : g_over
    localparam logic [7:0] MORE = 8'(127 - SLOTS);
    logic [7:0] q0, q1, q2, q3, s1, c1, s2, c2, s3, c3;
    logic [2:0] made, passed;
    assign {q0, q1, q2, q3} = {
      8'(quad_b[0]), 8'(quad_b[1]), 8'(quad_b[2]), 8'(quad_b[QUADS-1])
    };
    assign s1 = q0 ^ q1 ^ q2;
    assign c1 = ((q0 & q1) | (q2 & (q0 | q1))) << 1;
    assign s2 = s1 ^ c1 ^ q3;
    assign c2 = ((s1 & c1) | (q3 & (s1 | c1))) << 1;
    assign s3 = s2 ^ c2 ^ MORE;
    assign c3 = ((s2 & c2) | (MORE & (s2 | c2))) << 1;
    for (genvar g = 0; g < 3; g++) begin : g_three
      // Of bits 0, 1 to 3 and 4 to 6.
      localparam int unsigned LOW = (g == 0) ? 0 : 3 * g - 2;
      localparam int unsigned W = (g == 0) ? 1 : 3;
      logic [W:0] x;
      assign x = (W + 1)'(s3[LOW+:W]) + (W + 1)'(c3[LOW+:W]);
      assign made[g] = x[W];
      assign passed[g] = &(s3[LOW+:W] ^ c3[LOW+:W]);
    end
    assign over = SLOTS < BITS && (s3[7] ^ c3[7] ^ (made[2] || (passed[2] &&
                  (made[1] || (passed[1] && made[0])))));
    wire unused = &{1'b0, passed[0]};
  end else begin : g_over_few
    assign over = quad_sum[QUADS] > 8'(SLOTS);
  end

  // All codes of the part and K more, in 8 bits.
  function automatic logic [7:0] total(input logic [3:0][5:0] four, input logic [7:0] k);
    return (8'(four[0]) + 8'(four[1])) + ((8'(four[2]) + 8'(four[3])) + k);
  endfunction

  always_comb begin
    highest = '0;
    for (int c = 0; c < int'(CHUNKS); c++) if (!empty[c+2]) highest = CHUNK_W'(c);
  end

  always_ff @(posedge clk) begin
    if (advance) begin
      if (valid_b) begin
        trail_before_q <= trail[CHUNKS+1:CHUNKS];
        empty_before_q <= empty[CHUNKS+1:CHUNKS];
      end
      highest_c <= highest;
      found_c <= !(&empty[CHUNKS+1:2]);
      quad_c <= quad_sum;
      half_c <= half_sum;
      half_less_one_c <= half_sum - 1'b1;
      // Rounded up, once the low bits are cut, to the vector that the next section begins with.
      step_c <= total(24'(quad_b), last_b ? 8'(LANES - 1) : 8'd0);
      less_one_c <= total(24'(quad_b), 8'hff);
      // A full vector can be read once a code follows it or its section ends: then every section's
      // last vector is known to be the last.
      complete_c <= total(24'(quad_b), last_b ? 8'(LANES - 1) : 8'hff);
      part_c <= part_b;
      last_c <= last_b;
      valid_c <= valid_b;
    end
    hold_q <= advance && valid_b && over;
    if (rst) begin
      valid_c <= 1'b0;
      hold_q  <= 1'b0;
    end
  end
  // Clock E: where each chunk's codes go. A part with too many codes goes in two halves.
  logic upper_q;  // the lower half went on the clock before
  logic [POINTER_W-1:0] write_q, next_write, half_write, half_write_q, last_code, start_e;
  logic [POINTER_W-1:0] complete, half_complete;
  logic [SLOT_W:0] stop, stop_e;
  logic [QUADS-1:0][SLOT_W:0] bound_e;  // of each four; the top bit tells whether it has wrapped
  logic [CHUNKS-1:0][SLOT_W-1:0] place_e;
  logic [CHUNKS-1:0][3:0] count_e;
  logic [CHUNKS-1:0][7:0][3:0] gap_e;
  logic lower_e, upper_e, valid_e;
  logic [GROUP_W-1:0] complete_e;  // vectors that can be read once this is written
  logic go;
  logic codes_seen_q, overflow_seen_q, found_seen_q;
  logic [6:0] position, position_seen_q;

  // One adder for each, from flops: they are the longest paths. `found_c` is the sign.
  assign go = valid_c && advance;
  assign next_write = write_q + POINTER_W'(step_c);
  assign half_write = write_q + POINTER_W'(half_c);
  assign stop = (SLOT_W + 1)'(write_q) + (SLOT_W + 1)'(quad_c[QUADS]);
  assign last_code = write_q + {{POINTER_W - 8{!found_c}}, less_one_c};
  assign complete = write_q + {{POINTER_W - 8{!found_c && !last_c}}, complete_c};
  assign half_complete = write_q + POINTER_W'(half_less_one_c);
  assign position = ((PARTS == 1) ? 7'd0 : 7'(part_c) << ($clog2(BITS) % 7)) |
                    (7'(highest_c) << 3) |
                    7'(3'd7 - trail_c[highest_c]);

  // Three at once: a carry-save step and one adder.
  function automatic logic [SLOT_W-1:0] sum(input logic [SLOT_W-1:0] x, input logic [SLOT_W-1:0] y,
                                            input logic [SLOT_W-1:0] z);
    return (x ^ y ^ z) + (((x & y) | (z & (x | y))) << 1);
  endfunction

  for (genvar c = 0; c < CHUNKS; c++) begin : g_place
    always_ff @(posedge clk) begin
      place_e[c] <= sum(write_q[SLOT_W-1:0], SLOT_W'(quad_c[c/4]), SLOT_W'(before_c[c]));
      count_e[c] <= (((c < CHUNKS / 2) ? upper_q : hold_q) || !valid_c) ? 4'd0 : count_c[c];
    end
  end
  for (genvar q = 0; q < QUADS; q++) begin : g_bound
    always_ff @(posedge clk) bound_e[q] <= (SLOT_W + 1)'(write_q) + (SLOT_W + 1)'(quad_c[q]);
  end

  always_ff @(posedge clk) begin
    upper_q <= hold_q;
    gap_e <= gap_c;
    half_write_q <= half_write;
    start_e <= upper_q ? half_write_q : write_q;
    stop_e <= hold_q ? (SLOT_W + 1)'(half_write) : stop;
    lower_e <= hold_q;
    upper_e <= upper_q;
    valid_e <= valid_c;

    if (valid_c && (found_c || last_c)) begin
      complete_e <= hold_q ? half_complete[POINTER_W-1:LANE_W] : complete[POINTER_W-1:LANE_W];
    end

    if (go) begin
      write_q <= last_c ? {next_write[POINTER_W-1:LANE_W], LANE_W'(0)} : next_write;
      codes_seen_q <= !last_c && (codes_seen_q || found_c);
      overflow_seen_q <= !last_c && (overflow_seen_q || |overflow_c);
    end

    if (rst) begin
      upper_q <= 1'b0;
      valid_e <= 1'b0;
      complete_e <= '0;
      write_q <= '0;
      codes_seen_q <= 1'b0;
      overflow_seen_q <= 1'b0;
    end
  end

  // Ends of sections: the last vector, and how many codes it has.
  typedef struct packed {
    logic [GROUP_W-1:0] group;
    logic [LANE_W:0] count;
    logic overflow;
    logic found;
    logic [6:0] position;
  } end_t;

  end_t end_e;
  logic end_valid_e;
  logic [LANE_W-1:0] stop_low;
  assign stop_low = write_q[LANE_W-1:0] + quad_c[QUADS][LANE_W-1:0];

  always_ff @(posedge clk) begin
    end_e.group <= (found_c || codes_seen_q) ? last_code[POINTER_W-1:LANE_W]
                                             : write_q[POINTER_W-1:LANE_W];
    end_e.count <= (found_c || codes_seen_q) ? {stop_low == '0, stop_low} : '0;
    end_e.overflow <= overflow_seen_q || |overflow_c;
    end_e.found <= found_seen_q || found_c;
    end_e.position <= found_c ? position : position_seen_q;
    end_valid_e <= go && last_c;
    if (rst) end_valid_e <= 1'b0;
  end

  if (PARTS == 1) begin : g_whole
    assign found_seen_q = 1'b0;
    assign position_seen_q = '0;
  end else begin : g_parts
    always_ff @(posedge clk) begin
      if (go) begin
        found_seen_q <= part_c != PART_W'(PARTS - 1) && (found_c || found_seen_q);
        if (found_c) position_seen_q <= position;
      end
      if (rst) found_seen_q <= 1'b0;
    end
  end

  // Clock R: rotate each chunk's codes to their slots modulo 8; which of them there are, and for
  // which 8 slots of their four. Where each four begins, as a bit a slot.
  logic [CHUNKS-1:0][7:0][3:0] gap_r;
  logic [CHUNKS-1:0][7:0] there_r;
  logic [CHUNKS-1:0][7:0][BLOCK_W-1:0] block_r;
  logic [QUADS-1:0][SLOTS-1:0] past_r;  // not before the four's first slot
  logic [QUADS-1:0] wrap_r;
  logic [SLOTS-1:0] past_start_r, past_stop_r;
  logic wrap_stop_r, lower_r, upper_r, valid_r;
  logic [$clog2(ROWS)-1:0] row_r;

  for (genvar c = 0; c < CHUNKS; c++) begin : g_rotate
    logic [7:0][3:0] by_3;
    for (genvar r = 0; r < 8; r++) begin : g_lane
      logic [3:0][3:0] ways;
      logic [2:0] code;  // of the chunk, that lane r would get
      for (genvar s = 0; s < 4; s++) begin : g_way
        assign ways[s] = gap_e[c][(r+8-s)%8];
      end
      assign code = 3'(r) - place_e[c][2:0];
      assign by_3[r] = ways[place_e[c][1:0]];
      always_ff @(posedge clk) begin
        gap_r[c][r] <= place_e[c][2] ? by_3[(r+4)%8] : by_3[r];
        there_r[c][r] <= {1'b0, code} < count_e[c];
        block_r[c][r] <= place_e[c][BLOCK_W+2:3] +
                         BLOCK_W'({1'b0, 3'(r)} < {1'b0, place_e[c][2:0]});
      end
    end
  end

  for (genvar p = 0; p < SLOTS; p++) begin : g_past
    localparam logic [SLOT_W:0] SLOT = (SLOT_W + 1)'(p);
    for (genvar q = 0; q < QUADS; q++) begin : g_quad
      always_ff @(posedge clk) past_r[q][p] <= SLOT >= {1'b0, bound_e[q][SLOT_W-1:0]};
    end
    always_ff @(posedge clk) begin
      past_start_r[p] <= SLOT >= {1'b0, start_e[SLOT_W-1:0]};
      past_stop_r[p]  <= SLOT >= {1'b0, stop_e[SLOT_W-1:0]};
    end
  end

  always_ff @(posedge clk) begin
    for (int q = 0; q < int'(QUADS); q++) wrap_r[q] <= bound_e[q][SLOT_W] != start_e[SLOT_W];
    wrap_stop_r <= stop_e[SLOT_W] != start_e[SLOT_W];
    lower_r <= lower_e;
    upper_r <= upper_e;
    row_r <= start_e[SLOT_W+:$clog2(ROWS)];
    valid_r <= valid_e;
    if (rst) valid_r <= 1'b0;
  end

  // Clock M: merge fours of chunks; for each slot the four that it takes, its row and whether it
  // takes anything.
  logic [QUADS-1:0][QUAD_LANES-1:0][3:0] gap_m;
  logic [SLOTS-1:0][1:0] quad_m;
  logic [SLOTS-1:0] write_m;
  logic [SLOTS-1:0][$clog2(ROWS)-1:0] row_m;

  for (genvar q = 0; q < QUADS; q++) begin : g_merge
    for (genvar p = 0; p < QUAD_LANES; p++) begin : g_lane
      logic [3:0] mine;
      logic [3:0][3:0] ways;
      logic [1:0] way;
      for (genvar c = 0; c < 4; c++) begin : g_chunk
        assign mine[c] = there_r[4*q+c][p%8] && block_r[4*q+c][p%8] == BLOCK_W'(p / 8);
        assign ways[c] = gap_r[4*q+c][p%8];
      end
      assign way = {mine[2] || mine[3], mine[1] || mine[3]};
      always_ff @(posedge clk) gap_m[q][p] <= ways[way];
      wire unused = &{1'b0, mine[0]};
    end
  end

  for (genvar p = 0; p < SLOTS; p++) begin : g_slot
    logic [3:0] past;
    for (genvar q = 0; q < 4; q++) begin : g_past
      if (q == 0 || q >= QUADS) begin : g_never
        assign past[q] = 1'b0;
      end else begin : g_quad
        // In two halves, the lower one does not have the upper fours, and the upper begins there.
        assign past[q] = (q >= QUADS / 2 && lower_r) ? 1'b0
                       : (q <= QUADS / 2 && upper_r) ? 1'b1
                       : wrap_r[q] ? !past_start_r[p] && past_r[q][p]
                                   : !past_start_r[p] || past_r[q][p];
      end
    end
    always_ff @(posedge clk) begin
      quad_m[p] <= {past[2], past[3] || (past[1] && !past[2])};
      write_m[p] <= valid_r && (wrap_stop_r ? past_start_r[p] || !past_stop_r[p]
                                            : past_start_r[p] && !past_stop_r[p]);
      row_m[p] <= row_r + $clog2(ROWS)'(!past_start_r[p]);
      if (rst) write_m[p] <= 1'b0;
    end
    wire unused_first = &{1'b0, past[0]};
  end

  // Clock W: into the slots' memories. They are read a vector at a time: all even or all odd halves.
  logic [GROUP_W-1:0] group_q;  // the next vector to read
  logic [SLOTS-1:0][3:0] slot;

  for (genvar p = 0; p < SLOTS; p++) begin : g_memory
    logic [3:0] memory[ROWS];
    logic [3:0][3:0] ways;
    for (genvar q = 0; q < 4; q++) begin : g_way
      assign ways[q] = gap_m[(q<QUADS)?q : 0][p%QUAD_LANES];
    end
    always_ff @(posedge clk) begin
      if (write_m[p]) memory[row_m[p]] <= ways[quad_m[p]];
    end
    assign slot[p] = memory[group_q[1+:$clog2(ROWS)]];
  end

  // The ends of sections, ahead of the codes that they belong to.
  localparam int unsigned ENDS = 32;
  end_t next_end, section_end;
  logic next_end_valid, next_end_ready, end_valid, end_take, end_ready;
  logic [$clog2(ENDS):0] end_level;

  wz_fifo #(
      .W($bits(end_t)),
      .DEPTH(ENDS)
  ) u_ends (
      .clk,
      .rst,
      .s_tdata(end_e),
      .s_tvalid(end_valid_e),
      .s_tready(end_ready),
      .m_tdata(next_end),
      .m_tvalid(next_end_valid),
      .m_tready(next_end_ready),
      .level(end_level)
  );

  wz_skid #(
      .W($bits(end_t))
  ) u_end (
      .clk,
      .rst,
      .s_tdata(next_end),
      .s_tvalid(next_end_valid),
      .s_tready(next_end_ready),
      .m_tdata(section_end),
      .m_tvalid(end_valid),
      .m_tready(end_take)
  );

  // Output. `some_q`: the memories have the next vector.
  logic [1:0][GROUP_W-1:0] complete_q;
  logic last, empty_section, some_q, some_valid, load, out_ready, step;
  logic [GROUP_W-1:0] next_group_q;

  // An end is less than all vectors of the buffer ahead.
  assign last = end_valid && section_end.group[GROUP_W-2:0] == group_q[GROUP_W-2:0];
  assign empty_section = section_end.count == '0;
  assign some_valid = some_q || (last && empty_section);
  assign load = some_valid && out_ready;
  assign step = some_q && out_ready && !(last && empty_section);
  assign end_take = load && last;

  assign out_ready = !m_tvalid || m_tready;
  always_ff @(posedge clk) begin
    if (out_ready) begin
      m_tdata <= group_q[0] ? slot[SLOTS-1:LANES] : slot[LANES-1:0];
      m_tcount <= last ? section_end.count : (LANE_W + 1)'(LANES);
      m_overflow <= section_end.overflow;
      m_found <= section_end.found;
      m_position <= section_end.position;
      m_tlast <= last;
      m_tvalid <= some_valid;
    end
    if (rst) m_tvalid <= 1'b0;
  end

  always_ff @(posedge clk) begin
    complete_q <= {complete_q[0], complete_e};
    some_q <= (step && complete_q[1] != next_group_q) || (!step && complete_q[1] != group_q);
    room_q <= GROUP_W'(write_q[POINTER_W-1:LANE_W] - group_q) < GROUP_W'(ROOM) &&
              end_level < ($clog2(ENDS) + 1)'(ENDS - 8);
    if (step) begin
      group_q <= next_group_q;
      next_group_q <= next_group_q + 1'b1;
    end

    if (rst) begin
      complete_q <= '0;
      some_q <= 1'b0;
      room_q <= 1'b0;
      group_q <= '0;
      next_group_q <= GROUP_W'(1);
    end
  end

`ifndef SYNTHESIS
  a_room : assert property (@(posedge clk) disable iff (rst)
      GROUP_W'(write_q[POINTER_W-1:LANE_W] - group_q) <= GROUP_W'(2 * ROWS));
  a_ends : assert property (@(posedge clk) disable iff (rst) end_valid_e |-> end_ready);
  a_stable : assert property (@(posedge clk) disable iff (rst)
      m_tvalid && !m_tready |=> m_tvalid && $stable({m_tdata, m_tcount, m_tlast}));
`endif
  wire unused = &{1'b0, last_code, complete, half_complete, start_e, section_end, end_ready, past_r,
                  wrap_r, lower_r, upper_r};

endmodule
