// SPDX-License-Identifier: Apache-2.0
//
// The order of a block's symbols, and what each coder would make of it (docs/format.md, sections 7
// and 8).
//
// Takes a block's counts from wz_histogram and its shape, finds the base, walks left and right from it
// by falling count, and adds up unary bits and escapes. While it walks it writes the rank table: for
// each symbol (mod 32: ranked symbols are consecutive) its step, the base being step 0. Steps 0 to 14
// take a clock each; from there the path alternates, so left and right are taken together. Where one
// side is at its end two of the other are, one of which the idle side's memory reads. A walk ends when
// its list has all values: the path goes left from there as far as it can, and ranks that no value has
// need no table.
//
// The order leaves as soon as the sums are known, and the next walk runs meanwhile. m_range comes for
// every order with symbols, with the last write of the table: so a plan that waits for both may be used
// a clock later. Two blocks' counts are held; s_bank says which table to write.
//
//   latency       from the last word to m_order: 13 clocks and one for each symbol of the list (2 at
//                 least), at most 33, or 34 where the walk has one side alone. m_range comes 6 clocks
//                 before it for lists of up to 15 symbols, at most 5 after it for others
//   throughput    a block every 3 clocks and one for each symbol of the list (10 at least) up to 15;
//                 at most 2 more for each symbol beyond, 34 for lists of 22 and more. A word a clock
//   back-pressure m_order holds the end of the next walk, and m_range the next table; s_room falls
//                 while two blocks are held

module wz_order
  import wz_format_pkg::*;
  import wz_pkg::*;
  import wz_analyze_pkg::*;
#(
    parameter logic [5:0] TYPES = 6'b111111,
    localparam int unsigned COUNT_W = count_bits(TYPES)
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    output logic                    s_room,
    input  logic                    s_start,
    input  logic                    s_valid,
    input  logic                    s_first,
    input  logic                    s_last,
    input  logic [5:0]              s_word,
    input  logic [7:0]              s_groups,
    input  logic [3:0][COUNT_W-1:0] s_counts,

    input  shape_t s_shape_tdata,
    input  logic   s_shape_tvalid,
    output logic   s_shape_tready,

    output order_t m_order_tdata,
    output logic   m_order_tvalid,
    input  logic   m_order_tready,

    output range_t m_range_tdata,
    output logic   m_range_tvalid,
    input  logic   m_range_tready,

    output logic       table_we,
    output table_bank_t table_bank,
    output logic [4:0] table_symbol,
    output logic [4:0] table_step,

    input  logic s_bank_free,
    input  table_bank_t s_bank,
    output logic s_bank_take
);

  localparam int unsigned SUM_W = COUNT_W + 4;
  // Steps of the list with 15 ranks, and with 31.
  localparam logic [5:0] SHORT = 6'(CODER_RANKS[CODER_R0]);
  localparam logic [5:0] LONG = 6'(CODER_RANKS[CODER_R2]);

  // ---- Counts in; two pages, read by either side of the walk ----

  logic grant_page_q, write_page_q;
  logic [1:0] busy_q;
  assign s_room = !busy_q[grant_page_q];

  logic [8:0] left_at_q, right_at_q;  // the symbol to read next
  logic walk_page_q;
  logic [7:0] walk_groups_q;
  // Beside the base no symbol has more than half of all values: a bit less.
  logic [3:0][COUNT_W-2:0] left_words, right_words;
  for (genvar bank = 0; bank < 4; bank++) begin : g_bank
    // One memory a reader: each has one read port.
    logic [COUNT_W-2:0] left_memory[128];
    logic [COUNT_W-2:0] right_memory[128];
    always_ff @(posedge clk) begin
      if (s_valid) begin
        left_memory[{write_page_q, s_word}]  <= s_counts[bank][COUNT_W-2:0];
        right_memory[{write_page_q, s_word}] <= s_counts[bank][COUNT_W-2:0];
      end
    end
    assign left_words[bank]  = left_memory[{walk_page_q, left_at_q[7:2]}];
    assign right_words[bank] = right_memory[{walk_page_q, right_at_q[7:2]}];
  end
  // Groups that were not read hold counts of other blocks. Beyond symbol 255 the count is 0 as well.
  logic [COUNT_W-2:0] left_next, right_next;
  assign left_next = walk_groups_q[left_at_q[7:5]] ? left_words[left_at_q[1:0]] : '0;
  assign right_next = walk_groups_q[right_at_q[7:5]] && !right_at_q[8] ?
      right_words[right_at_q[1:0]] : '0;

  // Blocks that wait for their walk, by page.
  typedef struct packed {
    logic [7:0] symbol;
    logic [COUNT_W-1:0] count;
  } peak_t;
  peak_t best;
  logic [COUNT_W-1:0] zeros;
  logic [7:0] groups;
  peak_t [1:0] waits_best_q;
  logic [1:0][8:0] waits_left_q, waits_right_q;  // symbols beside the base
  logic [1:0][COUNT_W-1:0] waits_zeros_q;
  logic [1:0][7:0] waits_groups_q;
  logic [1:0] waits_q;
  logic found_page_q, begin_walk;
  logic found;

  wz_peak #(
      .COUNT_W(COUNT_W)
  ) u_peak (
      .clk,
      .rst,
      .s_valid,
      .s_first,
      .s_last,
      .s_word,
      .s_groups,
      .s_counts,
      .m_valid(found),
      .m_symbol(best.symbol),
      .m_count(best.count),
      .m_zeros(zeros),
      .m_groups(groups)
  );

  logic next_page;  // of the block to walk next
  assign next_page = !walk_page_q;

  // ---- The walk ----

  typedef enum logic [2:0] {
    IDLE,
    FETCH,  // the neighbours of the base
    FILL,  // and theirs; compare the first two
    STEPS,  // 0 to 13: by count
    PAIRS,  // from 14: alternating
    HOLD,  // until the order before is taken
    REST  // the sums catch up
  } state_t;
  state_t state_q;

  logic ranked_q;
  table_bank_t bank_q;
  logic [7:0] highest, highest_q;  // S
  logic [7:0] base_q;
  logic [COUNT_W-1:0] base_count_q, raw_zeros_q, left_out_q, values_q;
  // The next symbols on either side, the nearer one first: count, and whether there is one.
  logic [1:0][COUNT_W-2:0] left_count_q, right_count_q;
  logic [1:0] left_ok_q, right_ok_q;
  logic left_more_q, right_more_q;  // there is one where the next count is read
  logic [5:0] step_q;  // symbols in the list so far
  logic [PATH_BITS-1:0] path_q;
  logic double_q, double_left_q;  // two of one side are taken at a time; of the left one
  logic [COUNT_W-1:0] rest_q;  // values of symbols other than 0 that are not in the list
  logic [COUNT_W-1:0] step_count;  // of the symbol that joins
  logic covers, fills;  // with this step the list has all values; all symbols that it can

  // The order on its way out. Sums of a list that ended among the steps settle later than its tails.
  logic slot_q;  // there is one
  logic out_ranked_q, out_stepped_q;
  logic [7:1] settle_q;  // clocks after the launch
  order_t order_q;
  logic order_valid_q;
  logic stops, launch;  // the walk is over; its order is on its way

  // The next step's side is decided one clock ahead, for either outcome of the present one.
  logic go_left_q, use_left, use_right;
  logic first_left, after_left, after_right;
  // Right of the last symbol all counts are 0, so left leads there too.
  assign first_left = left_ok_q[1] && !above(18'(right_count_q[1]), 18'(left_count_q[1]));
  assign after_left = left_ok_q[1] && !above(18'(right_count_q[0]), 18'(left_count_q[1]));
  assign after_right = left_ok_q[0] && !above(18'(right_count_q[1]), 18'(left_count_q[0]));
  logic both, second_ok;
  assign both = left_ok_q[0] && right_ok_q[0];
  assign second_ok = double_left_q ? left_ok_q[1] : right_ok_q[1];  // with double_q
  always_comb begin
    use_left  = 1'b0;
    use_right = 1'b0;
    unique case (state_q)
      FETCH, FILL: begin
        use_left  = 1'b1;
        use_right = 1'b1;
      end
      STEPS: begin
        use_left  = go_left_q;
        use_right = !go_left_q;
      end
      PAIRS: begin
        use_left  = both;
        use_right = both;
      end
      default: ;
    endcase
  end


  // One symbol, or two, that join the list: to the sums.
  logic join_q, join_two_q;
  logic [5:0] join_step_q;
  logic [COUNT_W-1:0] join_count_q, join_second_q;

  logic writing;  // the table of the block before is not complete
  logic all_covered;
  logic [COUNT_W-1:0] zeros_stored, escapes_short, escapes_long;
  logic [ZERO_RANK_BITS-1:0] zero_rank;
  logic [3:0][SUM_W-1:0] bits;

  assign begin_walk = state_q == IDLE && waits_q[next_page] && s_shape_tvalid && !writing &&
      (s_bank_free || !s_shape_tdata.ranked);
  assign s_bank_take = begin_walk && s_shape_tdata.ranked;
  assign s_shape_tready = begin_walk;

  element_type_e shape_element;
  assign shape_element = folded_element(TYPES, s_shape_tdata.element);
  always_comb begin
    unique case (shape_element)
      ELEMENT_TYPE_BF16, ELEMENT_TYPE_FP32: highest = 8'd255;
      ELEMENT_TYPE_E4M3: highest = 8'd15;
      default: highest = 8'd31;
    endcase
  end

  assign step_count = state_q != STEPS ? base_count_q :
      COUNT_W'(go_left_q ? left_count_q[0] : right_count_q[0]);
  assign covers = step_count == rest_q;
  // A pair that fills the list ends it at once; symbols run out with the values at the latest.
  assign fills = double_q ? step_q == LONG - 6'd1 || (second_ok && step_q == LONG - 6'd2) :
      both && step_q == LONG - 6'd2;
  assign stops = (state_q == STEPS && covers) || (state_q == PAIRS && (all_covered || fills));
  assign launch = (stops || state_q == HOLD) && !slot_q;

  always_ff @(posedge clk) begin
    join_q <= 1'b0;
    join_two_q <= 1'b0;
    join_second_q <= '0;
    join_step_q <= step_q;
    if (state_q == FILL) go_left_q <= first_left;
    else go_left_q <= go_left_q ? after_left : after_right;

    if (use_left) begin
      left_count_q <= {left_next, left_count_q[1]};
      left_ok_q <= {left_more_q, left_ok_q[1]};
      left_more_q <= left_more_q && left_at_q != 9'd1;
      left_at_q <= left_at_q - 1'b1;
    end
    if (use_right) begin
      right_count_q <= {right_next, right_count_q[1]};
      right_ok_q <= {right_more_q, right_ok_q[1]};
      right_more_q <= right_more_q && right_at_q != 9'(highest_q);
      right_at_q <= right_at_q + 1'b1;
    end

    unique case (state_q)
      IDLE: begin
        double_q <= 1'b0;
        // What nothing else needs is loaded whether or not a walk begins.
        walk_groups_q <= waits_groups_q[next_page];
        ranked_q <= s_shape_tdata.ranked;
        base_q <= waits_best_q[next_page].symbol;
        base_count_q <= waits_best_q[next_page].count;
        raw_zeros_q <= waits_zeros_q[next_page];
        left_out_q <= COUNT_W'(s_shape_tdata.left_out);
        values_q <= COUNT_W'(s_shape_tdata.values);
        left_at_q <= waits_left_q[next_page];
        right_at_q <= waits_right_q[next_page];
        left_more_q <= waits_best_q[next_page].symbol != 8'd1;
        right_more_q <= waits_best_q[next_page].symbol != highest;
        highest_q <= highest;
        if (begin_walk) begin
          state_q <= s_shape_tdata.ranked ? FETCH : HOLD;
          walk_page_q <= next_page;
          bank_q <= s_bank;
          step_q <= '0;
          path_q <= '0;
        end
      end
      FETCH: begin
        state_q <= FILL;
        join_count_q <= raw_zeros_q - values_q;  // what loads the tails
        rest_q <= values_q - raw_zeros_q;
      end
      FILL: begin
        state_q <= STEPS;
        join_q <= 1'b1;
        join_count_q <= step_count;
        join_step_q <= '0;
        rest_q <= rest_q - step_count;
        step_q <= 6'd1;
      end
      STEPS: begin
        step_q <= step_q + 1'b1;
        join_q <= 1'b1;
        join_count_q <= step_count;
        rest_q <= rest_q - step_count;
        for (int i = 0; i < int'(PATH_BITS); i++) if (step_q == 6'(i + 1)) path_q[i] <= go_left_q;
        if (step_q == SHORT - 1'b1) state_q <= PAIRS;
      end
      PAIRS: begin
        if (all_covered) begin
          // Nothing is left to join.
        end else if (both) begin
          join_q <= 1'b1;
          join_two_q <= 1'b1;
          join_count_q <= COUNT_W'(left_count_q[0]);
          join_second_q <= COUNT_W'(right_count_q[0]);
          step_q <= step_q + 6'd2;
        end else if (!double_q) begin
          // The side at its end follows the other, a symbol ahead.
          double_q <= 1'b1;
          double_left_q <= left_ok_q[0];
          if (left_ok_q[0]) right_at_q <= left_at_q - 1'b1;
          else left_at_q <= right_at_q + 1'b1;
        end else begin
          join_q <= 1'b1;
          join_two_q <= second_ok;
          join_count_q <= COUNT_W'(double_left_q ? left_count_q[0] : right_count_q[0]);
          if (second_ok) begin
            join_second_q <= COUNT_W'(double_left_q ? left_count_q[1] : right_count_q[1]);
          end
          step_q <= step_q + (second_ok ? 6'd2 : 6'd1);
          left_at_q <= double_left_q ? left_at_q - 9'd2 : left_at_q + 9'd2;
          right_at_q <= double_left_q ? right_at_q - 9'd2 : right_at_q + 9'd2;
          if (double_left_q) begin
            left_count_q <= {right_next, left_next};
            left_ok_q <= {left_more_q && left_at_q != 9'd1, left_more_q};
            left_more_q <= left_more_q && left_at_q != 9'd1 && left_at_q != 9'd2;
          end else begin
            right_count_q <= {left_next, right_next};
            right_ok_q <= {right_more_q && right_at_q != 9'(highest_q), right_more_q};
            // The highest symbol is odd: it is not this one nor the one before.
            right_more_q <= right_more_q && {right_at_q[8:1], 1'b1} != 9'(highest_q);
          end
        end
      end
      REST: state_q <= IDLE;
      default: ;
    endcase

    if (launch) state_q <= REST;
    else if (stops) state_q <= HOLD;

    // Pages and the blocks that wait.
    if (s_start) begin
      busy_q[grant_page_q] <= 1'b1;
      grant_page_q <= !grant_page_q;
    end
    if (s_valid && s_last) write_page_q <= !write_page_q;
    if (found) begin
      waits_q[found_page_q] <= 1'b1;
      waits_best_q[found_page_q] <= best;
      waits_left_q[found_page_q] <= {1'b0, best.symbol} - 1'b1;
      waits_right_q[found_page_q] <= {1'b0, best.symbol} + 1'b1;
      waits_zeros_q[found_page_q] <= zeros;
      waits_groups_q[found_page_q] <= groups;
      found_page_q <= !found_page_q;
    end
    if (begin_walk) waits_q[next_page] <= 1'b0;
    if (launch) busy_q[walk_page_q] <= 1'b0;

    if (rst) begin
      state_q <= IDLE;
      join_q <= 1'b0;
      busy_q <= '0;
      waits_q <= '0;
      found_page_q <= 1'b0;
      grant_page_q <= 1'b0;
      write_page_q <= 1'b0;
      walk_page_q <= 1'b1;
    end
  end

  wz_coder_bits #(
      .COUNT_W(COUNT_W)
  ) u_bits (
      .clk,
      .s_start(state_q == FETCH),
      .s_values(values_q),
      .s_raw_zeros(raw_zeros_q),
      .s_left_out(left_out_q),
      .s_valid(join_q),
      .s_two(join_two_q),
      .s_step(join_step_q),
      .s_count(join_count_q),
      .s_second(join_second_q),
      .m_covered(all_covered),
      .m_zeros(zeros_stored),
      .m_zero_rank(zero_rank),
      .m_bits(bits),
      .m_escapes_short(escapes_short),
      .m_escapes_long(escapes_long)
  );

  // The path that no value needs: left, as far as there are symbols. The next one is 2 above left_at_q.
  logic [PATH_BITS-1:0] path;
  logic [8:0] left_end;  // the step at which none is left
  assign left_end = 9'(step_q) + left_at_q + 1'b1;
  always_comb begin
    path = path_q;
    for (int i = 0; i < int'(PATH_BITS); i++) begin
      if (6'(i) + 1'b1 >= step_q && 9'(i) < left_end) path[i] = 1'b1;
    end
  end

  assign m_order_tdata = order_q;
  assign m_order_tvalid = order_valid_q;
  always_ff @(posedge clk) begin
    settle_q <= {settle_q[6:1], launch};
    settle_q[5] <= settle_q[4] && out_stepped_q;
    if (launch) begin
      slot_q <= 1'b1;
      out_ranked_q <= ranked_q;
      out_stepped_q <= state_q == STEPS || (state_q == HOLD && ranked_q && step_q <= SHORT);
    end
    if (settle_q[1]) begin
      order_q.bank <= bank_q;
      order_q.base <= base_q;
      order_q.path <= path;
    end
    if (settle_q[4]) begin
      order_q.zero_rank <= zero_rank;
      order_q.zeros <= 13'(zeros_stored);
      order_q.escapes_short <= 13'(escapes_short);
      order_q.escapes_long <= 13'(escapes_long);
    end
    for (int i = 0; i < 4; i++) begin
      if (settle_q[4] || settle_q[i == int'(CODER_F2) ? 7 : 6]) begin
        order_q.unary_bits[i] <= 17'(bits[i]);
      end
    end
    if (settle_q[4] && !out_ranked_q) order_q <= '0;
    if (m_order_tready) order_valid_q <= 1'b0;
    if ((settle_q[4] && !out_stepped_q) || settle_q[7]) order_valid_q <= 1'b1;
    if (order_valid_q && m_order_tready) slot_q <= 1'b0;
    if (rst) begin
      settle_q <= '0;
      slot_q <= 1'b0;
      order_valid_q <= 1'b0;
    end
  end

  wz_table_write u_table (
      .clk,
      .rst,
      .s_begin(s_bank_take),
      .s_base(waits_best_q[next_page].symbol),
      .s_bank(bank_q),
      .s_highest(highest),
      .s_decided(state_q == STEPS),
      .s_decided_left(go_left_q),
      .s_steps(step_q),
      .s_more(state_q == PAIRS && step_q == SHORT),
      .s_over(state_q inside {HOLD, REST, IDLE}),
      .m_busy(writing),
      .table_we,
      .table_bank,
      .table_symbol,
      .table_step,
      .m_range_tdata,
      .m_range_tvalid,
      .m_range_tready
  );

endmodule
