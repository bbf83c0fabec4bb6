// SPDX-License-Identifier: Apache-2.0
//
// Exact counts of a block's symbols (docs/format.md, section 7).
//
// Takes the beats of wz_align, LANES values a clock. Each lane counts all 256 symbols in a memory of
// its own; there are two of them, so that a block is counted while the one before is read. After a
// block's last beat its counts are added up over the lanes and leave four symbols a clock, words in
// rising order. Only the groups of 32 symbols in which a value lies are read (value 0 also counts as
// seen in a partial beat); m_groups names them with every word, and words of other groups are all
// zero.
//
// The counts of zero beats that the bitmap leaves out are in: subtract them from symbol 0.
//
// m_start says that the words of one more block will follow; it waits for m_room. The words
// themselves cannot be held.
//
//   latency       SCAN_LATENCY + 3 clocks from a block's last beat to its first word
//                 (SCAN_LATENCY: 4 with 8 lanes, 5 with 16 or 32, 6 with 64)
//   throughput    a beat a clock where it has at most LANES values, else V / LANES clocks a beat;
//                 reading takes 8 clocks a group, beside the counting of the next block
//   back-pressure s_tready falls while both memories hold blocks that are not read yet; also for
//                 66 clocks after a reset, which clears them

module wz_histogram
  import wz_format_pkg::*;
  import wz_pkg::*;
  import wz_analyze_pkg::*;
#(
    parameter int unsigned LANES = 32,
    parameter logic [5:0] TYPES = 6'b111111,
    localparam int unsigned COUNT_W = count_bits(TYPES)
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input  logic          [511:0] s_tdata,
    input  logic          [ 63:0] s_tkeep,
    input  logic                  s_tlast,
    input  format_t               s_format,
    input  logic                  s_tvalid,
    output logic                  s_tready,

    input  logic                     m_room,
    output logic                     m_start,
    output logic                     m_valid,
    output logic                     m_first,
    output logic                     m_last,
    output logic [5:0]               m_word,
    output logic [7:0]               m_groups,
    output logic [3:0][COUNT_W-1:0]  m_counts
);

  localparam int unsigned LANE_W = $clog2(lane_values(TYPES, LANES) + 1);
  localparam int unsigned PAIRS = LANES / 2;
  // Clocks of the adder tree: two to one, then four to one.
  localparam int unsigned LEVELS = 1 + (PAIRS > 16 ? 3 : PAIRS > 4 ? 2 : 1);

  format_t format;
  assign format = folded_format(TYPES, s_format);

  // A beat of more values than lanes comes in several groups.
  localparam int unsigned STEPS = 64 / LANES;  // of one-byte values
  localparam int unsigned STEP_W = STEPS > 1 ? $clog2(STEPS) : 1;
  localparam bit SEVERAL = 64 > LANES && (TYPES & 6'b110001) != 0 ||
      32 > LANES && (TYPES & 6'b000110) != 0 || 16 > LANES && (TYPES & 6'b001000) != 0;
  logic [STEP_W-1:0] step_q, last_step;
  always_comb begin
    last_step = '0;
    for (int i = 0; i < 3; i++) begin
      if (format.width[i] && 64 >> i > LANES) last_step = STEP_W'((64 >> i) / LANES - 1);
    end
  end

  // Which values of the beat this step takes: of one-byte values each step has its own choice, then of
  // two-byte values, then of four-byte values.
  localparam int unsigned HALF = STEPS > 1 ? STEPS / 2 : 1;
  localparam int unsigned QUARTER = STEPS > 3 ? STEPS / 4 : 1;
  localparam int unsigned CHOICES = STEPS + HALF + QUARTER;
  localparam int unsigned CHOICE_W = $clog2(CHOICES);
  logic [CHOICE_W-1:0] choice;
  assign choice = format.width[0] ? CHOICE_W'(step_q) :
      format.width[1] ? CHOICE_W'(STEPS) + CHOICE_W'(step_q) :
      CHOICE_W'(STEPS + HALF) + CHOICE_W'(step_q);

  logic [LANES-1:0][7:0] symbol;
  logic [LANES-1:0] lane_valid;
  for (genvar lane = 0; lane < LANES; lane++) begin : g_symbol
    // By choice: the bits from below the sign on, and whether there is a value.
    logic [2**CHOICE_W-1:0][7:0] tops;
    logic [2**CHOICE_W-1:0] valids;
    for (genvar c = CHOICES; c < 2 ** CHOICE_W; c++) begin : g_never
      assign tops[c]   = tops[CHOICES-1];
      assign valids[c] = valids[CHOICES-1];
    end
    for (genvar c = 0; c < CHOICES; c++) begin : g_choice
      localparam int unsigned I = c < STEPS ? 0 : c < STEPS + HALF ? 1 : 2;
      localparam int unsigned STEP = c - (I == 0 ? 0 : I == 1 ? STEPS : STEPS + HALF);
      // Lanes beyond a beat's values repeat others, so that they show no other symbol.
      localparam int unsigned TOP = ((LANES * STEP + lane) % (64 >> I) + 1) * (8 << I) - 1;
      if (I == 0) begin : g_byte
        assign tops[c] = {s_tdata[TOP-1-:7], 1'b0};
      end else begin : g_wide
        assign tops[c] = s_tdata[TOP-1-:8];
      end
      assign valids[c] = s_tkeep[TOP/8] && lane < (64 >> I);
    end
    logic [7:0] top;
    always_comb begin
      top = tops[choice];
      lane_valid[lane] = valids[choice];
      symbol[lane] = format.five ? {3'd0, top[7:3]} : format.four ? {4'd0, top[7:4]} : top;
    end
  end

  logic unused;
  assign unused = &{1'b0, s_tdata};  // signs and mantissas do not count

  // Which memory: blocks take turns.
  logic count_page_q;
  logic [1:0] busy_q;  // holds a block that is not read yet
  logic init_q, settle_q;  // clearing after a reset
  logic open_q, take;  // this block's memory is free
  assign take = s_tvalid && open_q;
  assign s_tready = open_q && (!SEVERAL || step_q == last_step);

  // Clock 1: the symbol is the address.
  logic [LANES-1:0][7:0] symbol_q;
  logic [LANES-1:0] lane_q, again;
  logic item_q, item_page_q, item_last_q;
  // Clock 2: the next count is written. Of the page that does not count it is 0, which clears.
  logic [LANES-1:0][1:0][LANE_W-1:0] next_q;
  logic [1:0] zero_q;
  logic [LANES-1:0][7:0] symbol2_q;
  logic [LANES-1:0] lane2_q;
  logic item2_page_q;

  // Reading and clearing, in step with clocks 1 and 2.
  logic scan_q, scan_page_q, scan_last_q;
  logic [5:0] scan_word_q;
  logic [1:0] clear_d, clear_q, clear2_q;  // by page: clock 1 and 2 read and clear a word

  always_ff @(posedge clk) begin
    item_q <= take;
    item_page_q <= count_page_q;
    item_last_q <= take && s_tready && s_tlast;
    for (int i = 0; i < int'(LANES); i++) begin
      symbol_q[i] <= symbol[i];
      lane_q[i] <= lane_valid[i] && take;
      symbol2_q[i] <= symbol_q[i];
    end
    item2_page_q <= item_page_q;
    lane2_q <= lane_q;
    if (take) step_q <= step_q == last_step ? '0 : step_q + 1'b1;
    if (!SEVERAL) step_q <= '0;
    if (rst) begin
      item_q <= 1'b0;
      item_last_q <= 1'b0;
      lane_q <= '0;
      lane2_q <= '0;
      step_q <= '0;
    end
  end

  logic [LANES-1:0][1:0][3:0][LANE_W-1:0] page_words;
  for (genvar lane = 0; lane < LANES; lane++) begin : g_lane
    logic [1:0][3:0][LANE_W-1:0] words;
    for (genvar page = 0; page < 2; page++) begin : g_page
      logic [5:0] address_q, address2_q;
      always_ff @(posedge clk) begin
        address_q  <= clear_d[page] ? scan_word_q : symbol[lane][7:2];
        address2_q <= address_q;
      end
      for (genvar bank = 0; bank < 4; bank++) begin : g_bank
        logic [LANE_W-1:0] memory[64];
        logic write;
        assign write = clear2_q[page] ||
            (lane2_q[lane] && item2_page_q == 1'(page) && symbol2_q[lane][1:0] == 2'(bank));
        always_ff @(posedge clk) begin
          if (write) memory[address2_q] <= next_q[lane][page];
        end
        assign words[page][bank] = memory[address_q];
      end
    end
    assign page_words[lane] = words;
    // What is read now is one short if the value just before was the same.
    assign again[lane] = lane2_q[lane] && symbol2_q[lane] == symbol_q[lane] &&
        item2_page_q == item_page_q;
    logic [LANE_W-1:0] count, count_next;
    assign count = again[lane] ? next_q[lane][0] | next_q[lane][1] :
        words[item_page_q][symbol_q[lane][1:0]];
    assign count_next = count + 1'b1;
    always_ff @(posedge clk) begin
      for (int page = 0; page < 2; page++) begin
        next_q[lane][page] <= count_next;
        if (zero_q[page]) next_q[lane][page] <= '0;
      end
    end
  end

  // Groups of 32 symbols in which a value lies, a clock behind.
  logic [7:0] group_d, group_q;
  logic [7:0] groups_d;
  logic [1:0][7:0] groups_q;
  logic seen_q, seen_page_q, seen_last_q, fresh_q;
  logic [1:0] pending_q;
  always_comb begin
    group_d = '0;
    for (int g = 0; g < 8; g++) begin
      for (int i = 0; i < int'(LANES); i++) group_d[g] |= symbol_q[i][7:5] == 3'(g);
    end
  end
  assign groups_d = group_q | (fresh_q ? '0 : groups_q[seen_page_q]);
  always_ff @(posedge clk) begin
    group_q <= group_d;
    seen_q <= item_q;
    seen_page_q <= item_page_q;
    seen_last_q <= item_last_q;
    if (seen_q) begin
      groups_q[seen_page_q] <= groups_d;
      fresh_q <= seen_last_q;  // the next item is a block's first
    end
    if (rst) begin
      seen_q <= 1'b0;
      seen_last_q <= 1'b0;
      fresh_q <= 1'b1;
    end
  end

  // Walk over the words of those groups.
  logic read_last_q, read_page_q;  // the last word is being read, of this memory
  logic next_page_q;  // of the next block to read
  logic [7:0] rest_q;  // groups still to be read after the present one
  logic [7:0] all_q;
  logic start;
  logic [2:0] group_now_q, step8_q;
  logic word_end, scan_ends_q;  // of a group; the last word of the block is being read
  logic [7:0] next_groups;
  logic ends_now;  // the next block to read is seen to its end in this clock
  assign ends_now = seen_last_q && seen_page_q == next_page_q;
  assign next_groups = ends_now ? groups_d : groups_q[next_page_q];
  assign start = (pending_q[next_page_q] || ends_now) && (!scan_q || scan_ends_q) && !init_q &&
      m_room;
  assign word_end = step8_q == '1;
  assign m_start = start;
  assign scan_word_q = {group_now_q, step8_q};
  assign scan_last_q = scan_ends_q;

  function automatic logic [7:0] without_lowest(input logic [7:0] set);
    for (int i = 0; i < 8; i++) without_lowest[i] = set[i] && (set & 8'((1 << i) - 1)) != '0;
  endfunction

  function automatic logic [2:0] lowest(input logic [7:0] set);
    lowest = '0;
    for (int i = 7; i >= 0; i--) if (set[i]) lowest = 3'(i);
  endfunction

  // A memory is free once its last word is being read: the next value comes after it is cleared.
  logic ends;
  logic [1:0] busy_d;
  assign ends = take && s_tready && s_tlast;
  always_comb begin
    busy_d = busy_q;
    for (int page = 0; page < 2; page++) begin
      if (read_last_q && read_page_q == 1'(page)) busy_d[page] = 1'b0;
      if (ends && count_page_q == 1'(page)) busy_d[page] = 1'b1;
    end
  end

  logic first_q;
  always_ff @(posedge clk) begin
    scan_ends_q <= scan_q && step8_q == 3'd6 && rest_q == '0;
    if (rst) scan_ends_q <= 1'b0;
  end
  always_comb begin
    for (int page = 0; page < 2; page++) begin
      clear_d[page] = (scan_q && scan_page_q == 1'(page)) || init_q;
    end
  end

  always_ff @(posedge clk) begin
    if (start) begin
      scan_q <= 1'b1;
      scan_page_q <= next_page_q;
      next_page_q <= !next_page_q;
      rest_q <= without_lowest(next_groups);
      all_q <= next_groups;
      group_now_q <= lowest(next_groups);
      step8_q <= '0;
      first_q <= 1'b1;
    end else if (scan_q || init_q) begin
      first_q <= 1'b0;
      step8_q <= step8_q + 1'b1;
      if (init_q && step8_q == '1) group_now_q <= group_now_q + 1'b1;
      if (scan_q && word_end) begin
        rest_q <= without_lowest(rest_q);
        group_now_q <= lowest(rest_q);
        scan_q <= rest_q != '0;
      end
    end

    for (int page = 0; page < 2; page++) begin
      clear_q[page] <= clear_d[page];
      zero_q[page] <= clear_d[page] || count_page_q != 1'(page);
      if (seen_last_q && seen_page_q == 1'(page)) pending_q[page] <= 1'b1;
      if (start && next_page_q == 1'(page)) pending_q[page] <= 1'b0;
    end
    clear2_q <= clear_q;
    settle_q <= init_q;
    busy_q <= busy_d;
    if (ends) count_page_q <= !count_page_q;
    open_q <= !settle_q && !busy_d[count_page_q^ends];
    if (init_q && group_now_q == '1 && step8_q == '1) init_q <= 1'b0;

    if (rst) begin
      scan_q <= 1'b0;
      next_page_q <= 1'b0;
      count_page_q <= 1'b0;
      pending_q <= '0;
      busy_q <= '0;
      clear_q <= '0;
      clear2_q <= '0;
      init_q <= 1'b1;
      settle_q <= 1'b1;
      open_q <= 1'b0;
      group_now_q <= '0;
      step8_q <= '0;
    end
  end

  // The words on their way through memory and adders: SCAN_LATENCY clocks.
  localparam int unsigned SCAN_LATENCY = 2 + LEVELS;
  logic [SCAN_LATENCY-1:0] valid_q, first_pipe_q, last_pipe_q;
  logic [SCAN_LATENCY-1:0][5:0] word_pipe_q;
  logic [SCAN_LATENCY-1:0][7:0] groups_pipe_q;
  assign read_last_q = valid_q[0] && last_pipe_q[0];
  always_ff @(posedge clk) begin
    read_page_q   <= scan_page_q;
    valid_q       <= {valid_q[SCAN_LATENCY-2:0], scan_q};
    first_pipe_q  <= {first_pipe_q[SCAN_LATENCY-2:0], first_q};
    last_pipe_q   <= {last_pipe_q[SCAN_LATENCY-2:0], scan_last_q};
    word_pipe_q   <= {word_pipe_q[SCAN_LATENCY-2:0], scan_word_q};
    groups_pipe_q <= {groups_pipe_q[SCAN_LATENCY-2:0], all_q};
    if (rst) valid_q <= '0;
  end
  assign m_valid  = valid_q[SCAN_LATENCY-1];
  assign m_first  = first_pipe_q[SCAN_LATENCY-1];
  assign m_last   = last_pipe_q[SCAN_LATENCY-1];
  assign m_word   = word_pipe_q[SCAN_LATENCY-1];
  assign m_groups = groups_pipe_q[SCAN_LATENCY-1];

  // The page that is not read counts as 0, so that no multiplexer is needed.
  logic [LANES-1:0][1:0][3:0][LANE_W-1:0] read_q;
  logic [1:0] skip_q;
  always_ff @(posedge clk) begin
    for (int page = 0; page < 2; page++) begin
      skip_q[page] <= !scan_q || scan_page_q != 1'(page);
      for (int i = 0; i < int'(LANES); i++) begin
        read_q[i][page] <= page_words[i][page];
        if (skip_q[page]) read_q[i][page] <= '0;
      end
    end
  end

  for (genvar bank = 0; bank < 4; bank++) begin : g_sum
    logic [PAIRS-1:0][LANE_W:0] pairs_q;
    logic [COUNT_W-1:0] sum;
    for (genvar pair = 0; pair < PAIRS; pair++) begin : g_pair
      logic [LANE_W-1:0] even, odd;
      assign even = read_q[2*pair][0][bank] | read_q[2*pair][1][bank];
      assign odd  = read_q[2*pair+1][0][bank] | read_q[2*pair+1][1][bank];
      always_ff @(posedge clk) pairs_q[pair] <= {1'b0, even} + {1'b0, odd};
    end
    wz_sum #(
        .COUNT(PAIRS),
        .W(LANE_W + 1),
        .SUM_W(COUNT_W)
    ) u_sum (
        .clk,
        .s_data(pairs_q),
        .m_sum(sum)
    );
    assign m_counts[bank] = sum;
  end

`ifndef SYNTHESIS
  a_room : assert property (@(posedge clk) disable iff (rst) m_start |-> m_room);
  a_order : assert property (@(posedge clk) disable iff (rst)
      m_valid && m_last |=> !m_valid || m_first);
`endif

endmodule
