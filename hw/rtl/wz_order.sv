// SPDX-License-Identifier: Apache-2.0
//
// The order of a block's symbols, and what each coder would make of it (docs/format.md, sections 7
// and 8).
//
// Takes a block's counts from wz_histogram and its shape, finds the base, walks left and right from it
// by falling count, and adds up unary bits and escapes. While it walks it writes the rank table: for
// each symbol (mod 32: ranked symbols are consecutive) its step, the base being step 0. Steps 0 to 14
// take a clock each; from there the path alternates, so left and right are taken together.
//
// The order leaves as soon as the sums are known; m_range, when the table is written: so a plan that
// waits for both may be used at once. Two blocks' counts are held; s_bank says which table to write.
//
//   latency       at most 35 clocks from the last word to m_order, 37 to m_range; 27 and 20 where no
//                 value lies beyond the first 15 symbols
//   throughput    a block every 24 to 39 clocks (walk and table), and one word a clock
//   back-pressure m_order and m_range hold the next walk; s_room falls while two blocks are held

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
    output logic       table_bank,
    output logic [4:0] table_symbol,
    output logic [4:0] table_step,

    input  logic s_bank_free,
    input  logic s_bank,
    output logic s_bank_take
);

  localparam int unsigned SUM_W = COUNT_W + 4;  // at most 16 bits a value
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
  logic [3:0][COUNT_W-1:0] left_words, right_words;
  for (genvar bank = 0; bank < 4; bank++) begin : g_bank
    // One memory a reader: each has one read port.
    logic [COUNT_W-1:0] left_memory[128];
    logic [COUNT_W-1:0] right_memory[128];
    always_ff @(posedge clk) begin
      if (s_valid) begin
        left_memory[{write_page_q, s_word}]  <= s_counts[bank];
        right_memory[{write_page_q, s_word}] <= s_counts[bank];
      end
    end
    assign left_words[bank]  = left_memory[{walk_page_q, left_at_q[7:2]}];
    assign right_words[bank] = right_memory[{walk_page_q, right_at_q[7:2]}];
  end
  // Groups that were not read hold counts of other blocks.
  logic [COUNT_W-1:0] left_next, right_next;
  assign left_next = walk_groups_q[left_at_q[7:5]] ? left_words[left_at_q[1:0]] : '0;
  assign right_next = walk_groups_q[right_at_q[7:5]] ? right_words[right_at_q[1:0]] : '0;

  // ---- Base: the lowest symbol from 1 on of maximal count, in 3 clocks ----

  typedef struct packed {
    logic [7:0] symbol;
    logic [COUNT_W-1:0] count;
  } peak_t;

  logic [COUNT_W-1:0] count0;  // symbol 0 is no candidate
  assign count0 = s_word == '0 ? '0 : s_counts[0];

  peak_t low_q, high_q, word_q, best_q;
  logic [2:0] valid_q, last_q;
  logic first1_q, first2_q;
  logic [COUNT_W-1:0] zeros1_q, zeros2_q, zeros_q;
  logic [7:0] groups1_q, groups2_q, groups_q;
  always_ff @(posedge clk) begin
    low_q <= s_counts[1] > count0 ? {s_word, 2'd1, s_counts[1]} : {s_word, 2'd0, count0};
    high_q <= s_counts[3] > s_counts[2] ? {s_word, 2'd3, s_counts[3]} :
        {s_word, 2'd2, s_counts[2]};
    word_q <= high_q.count > low_q.count ? high_q : low_q;
    if (valid_q[1]) begin
      if (first2_q || word_q.count > best_q.count) best_q <= word_q;
      // If no count is above 0, it is symbol 1.
      if (first2_q && word_q.count == '0) best_q <= {8'd1, COUNT_W'(0)};
      if (first2_q) begin
        zeros_q  <= zeros2_q;
        groups_q <= groups2_q;
      end
    end
    zeros1_q  <= s_word == '0 && s_groups[0] ? s_counts[0] : '0;
    zeros2_q  <= zeros1_q;
    groups1_q <= s_groups;
    groups2_q <= groups1_q;
    first1_q <= s_first;
    first2_q <= first1_q;
    valid_q  <= {valid_q[1:0], s_valid};
    last_q   <= {last_q[1:0], s_last};
    if (rst) valid_q <= '0;
  end

  // Blocks that wait for their walk, by page.
  peak_t [1:0] waits_best_q;
  logic [1:0][COUNT_W-1:0] waits_zeros_q;
  logic [1:0][7:0] waits_groups_q;
  logic [1:0] waits_q;
  logic found_page_q, begin_walk;
  logic found;
  assign found = valid_q[2] && last_q[2];

  peak_t wait_best;
  assign wait_best = waits_best_q[!walk_page_q];

  // ---- The walk ----

  typedef enum logic [2:0] {
    IDLE,
    FETCH,  // the first neighbours of the base
    STEPS,  // 0 to 13: by count
    PAIRS,  // from 14: alternating
    SETTLE,  // the sums of the last step
    GIVE  // hand over the order
  } state_t;
  state_t state_q;

  logic ranked_q, bank_q;
  logic [8:0] symbols_q;  // S + 1
  logic [7:0] base_q;
  logic [COUNT_W-1:0] base_count_q, raw_zeros_q, left_out_q, values_q;
  logic [COUNT_W-1:0] left_count_q, right_count_q;  // of the next symbol on either side
  logic left_ok_q, right_ok_q;  // there is one
  logic [5:0] step_q;  // symbols in the list so far
  logic [PATH_BITS-1:0] path_q;
  logic covered_q;  // all values of a symbol other than 0 are in the list
  logic [1:0] settle_q;

  logic go_left, use_left, use_right;
  assign go_left = !right_ok_q || (left_ok_q && left_count_q >= right_count_q);
  always_comb begin
    use_left  = 1'b0;
    use_right = 1'b0;
    unique case (state_q)
      FETCH: begin
        use_left  = 1'b1;
        use_right = 1'b1;
      end
      STEPS: begin
        use_left  = go_left;
        use_right = !go_left;
      end
      PAIRS: begin
        use_left  = left_ok_q;
        use_right = right_ok_q;
      end
      default: ;
    endcase
  end

  logic list_ends;
  assign list_ends = !left_ok_q && !right_ok_q;

  // One symbol, or two, that join the list: to the sums.
  logic join_q, join_two_q;
  logic [5:0] join_step_q;
  logic [COUNT_W-1:0] join_count_q, join_second_q;
  // The same to the table writer.
  logic decided_q, decided_left_q;

  logic writer_q;  // the table of this block is not complete
  logic complete_q;
  logic order_free;
  assign order_free = !m_order_tvalid || m_order_tready;

  assign begin_walk = state_q == IDLE && waits_q[!walk_page_q] && s_shape_tvalid && !writer_q &&
      !complete_q && !m_range_tvalid && (s_bank_free || !s_shape_tdata.ranked);
  assign s_bank_take = begin_walk && s_shape_tdata.ranked;
  assign s_shape_tready = begin_walk;

  element_type_e shape_element;
  assign shape_element = built_element(TYPES, s_shape_tdata.element);

  always_ff @(posedge clk) begin
    join_q <= 1'b0;
    decided_q <= 1'b0;
    join_two_q <= 1'b0;
    join_step_q <= step_q;
    decided_left_q <= go_left;

    if (use_left) begin
      left_count_q <= left_next;
      left_ok_q <= left_at_q != '0 && (state_q == FETCH || left_ok_q);
      if (left_at_q != '0) left_at_q <= left_at_q - 1'b1;
    end
    if (use_right) begin
      right_count_q <= right_next;
      right_ok_q <= right_at_q != symbols_q;
      if (right_at_q != symbols_q) right_at_q <= right_at_q + 1'b1;
    end

    unique case (state_q)
      IDLE: begin
        covered_q <= 1'b0;
        if (begin_walk) begin
          state_q <= s_shape_tdata.ranked ? FETCH : GIVE;
          walk_page_q <= !walk_page_q;
          walk_groups_q <= waits_groups_q[!walk_page_q];
          bank_q <= s_bank;
          ranked_q <= s_shape_tdata.ranked;
          base_q <= wait_best.symbol;
          base_count_q <= wait_best.count;
          raw_zeros_q <= waits_zeros_q[!walk_page_q];
          left_out_q <= COUNT_W'(s_shape_tdata.left_out);
          values_q <= COUNT_W'(s_shape_tdata.values);
          left_at_q <= {1'b0, wait_best.symbol} - 1'b1;
          right_at_q <= {1'b0, wait_best.symbol} + 1'b1;
          unique case (shape_element)
            ELEMENT_TYPE_BF16, ELEMENT_TYPE_FP32: symbols_q <= 9'd256;
            ELEMENT_TYPE_E4M3: symbols_q <= 9'd16;
            default: symbols_q <= 9'd32;
          endcase
          step_q <= '0;
          path_q <= '0;
        end
      end
      FETCH: begin
        state_q <= STEPS;
        join_q <= 1'b1;
        join_count_q <= base_count_q;
        join_step_q <= '0;
        step_q <= 6'd1;
      end
      STEPS: begin
        step_q <= step_q + 1'b1;
        join_q <= 1'b1;
        join_count_q <= go_left ? left_count_q : right_count_q;
        decided_q <= 1'b1;
        for (int i = 0; i < int'(PATH_BITS); i++) if (step_q == 6'(i + 1)) path_q[i] <= go_left;
        if (step_q == SHORT - 1'b1) state_q <= PAIRS;
      end
      PAIRS: begin
        settle_q <= 2'd3;
        if (covered_q || list_ends || step_q == LONG) begin
          state_q <= SETTLE;
          // Of a whole walk nothing but the last counts is under way.
          if (step_q == LONG) settle_q <= 2'd0;
        end else begin
          join_q <= 1'b1;
          join_two_q <= left_ok_q && right_ok_q;
          join_count_q <= left_ok_q ? left_count_q : right_count_q;
          join_second_q <= right_count_q;
          step_q <= left_ok_q && right_ok_q ? step_q + 6'd2 : step_q + 6'd1;
        end
      end
      SETTLE: begin
        settle_q <= settle_q - 1'b1;
        if (settle_q == '0) state_q <= GIVE;
      end
      default: if (order_free) state_q <= IDLE;
    endcase

    if (state_q == PAIRS && tail_q == '0) covered_q <= 1'b1;

    // Pages and the blocks that wait.
    if (s_start) begin
      busy_q[grant_page_q] <= 1'b1;
      grant_page_q <= !grant_page_q;
    end
    if (s_valid && s_last) write_page_q <= !write_page_q;
    if (found) begin
      waits_q[found_page_q] <= 1'b1;
      waits_best_q[found_page_q] <= best_q;
      waits_zeros_q[found_page_q] <= zeros_q;
      waits_groups_q[found_page_q] <= groups_q;
      found_page_q <= !found_page_q;
    end
    if (begin_walk) waits_q[!walk_page_q] <= 1'b0;
    if (state_q == GIVE && order_free) busy_q[walk_page_q] <= 1'b0;

    if (rst) begin
      state_q <= IDLE;
      join_q <= 1'b0;
      decided_q <= 1'b0;
      busy_q <= '0;
      waits_q <= '0;
      found_page_q <= 1'b0;
      grant_page_q <= 1'b0;
      write_page_q <= 1'b0;
      walk_page_q <= 1'b1;
    end
  end

  // ---- Sums ----
  //
  // A value of rank r costs a bit for each j up to r that the coder counts, so bits are sums over j of
  // the number of values of rank j or more. tail_q is that number by the list without symbol 0, of
  // values of other symbols. Symbol 0, inserted at rank z, costs its own values a bit for each of the
  // coder's j up to z, and every value from place z of the list on one more, if the place shifts it
  // over one of the coder's j: that is the tail at z, less for R1 and R2 the values at places that
  // stay where they are (hold_*).

  logic [COUNT_W-1:0] zeros_now_q;  // stored values of symbol 0
  logic [COUNT_W-1:0] stored_q;
  logic [COUNT_W-1:0] tail_q, tail14_q, tail15_q, tail30_q;
  logic [COUNT_W-1:0] hold2_q, hold4_q;
  logic [SUM_W-1:0] bits1_q, bits2_q, bits4_q;
  logic [SUM_W-1:0] zero1_q, zero2_q, zero4_q;  // of the values of symbol 0
  logic [ZERO_RANK_BITS-1:0] zero_rank_q;
  logic at_least_q, at_least_valid_q, no_zeros_q, fresh_q;

  // What stood at each place of the list, to look up at the zero rank.
  logic [3*COUNT_W-1:0] places[16];
  always_ff @(posedge clk) begin
    if (join_q && join_step_q < SHORT) begin
      places[join_step_q[3:0]] <= {hold4_q, hold2_q, tail_q};
    end
  end

  logic [COUNT_W-1:0] tail_one, tail_two;
  assign tail_one = tail_q - join_count_q;
  assign tail_two = tail_one - join_second_q;

  always_ff @(posedge clk) begin
    if (state_q == FETCH) begin
      tail_q <= values_q - raw_zeros_q;
      hold2_q <= values_q - raw_zeros_q;
      hold4_q <= values_q - raw_zeros_q;
      zeros_now_q <= raw_zeros_q - left_out_q;
      stored_q <= values_q - left_out_q;
      no_zeros_q <= raw_zeros_q == left_out_q;
      bits1_q <= '0;
      bits2_q <= '0;
      bits4_q <= '0;
      tail30_q <= '0;
    end
    if (join_q) begin
      tail_q <= join_two_q ? tail_two : tail_one;
      if (join_step_q < SHORT) bits1_q <= bits1_q + SUM_W'(tail_q);
      if (join_step_q < SHORT && join_step_q[0]) begin
        bits2_q <= bits2_q + SUM_W'(tail_q);
        hold2_q <= hold2_q - join_count_q;
      end
      if (join_step_q[1:0] == 2'd3) begin
        bits4_q <= bits4_q + SUM_W'(tail_q);
        hold4_q <= hold4_q - join_count_q;
      end
      if (join_step_q == SHORT - 1'b1) begin
        tail14_q <= tail_q;
        tail15_q <= tail_one;
      end
      // Of the last symbol, or of the last but one where it is one of two.
      if (join_step_q >= SHORT) tail30_q <= join_two_q ? tail_one : tail_q;
    end

    // Zero rank: how many of the first 15 occur at least as often.
    at_least_valid_q <= join_q && join_step_q < SHORT;
    at_least_q <= join_count_q >= zeros_now_q;
    fresh_q <= join_q && join_step_q == '0;
    if (fresh_q) begin
      // The first comparison is the base's.
      zero_rank_q <= ZERO_RANK_BITS'(at_least_q);
      zero1_q <= at_least_q ? SUM_W'({zeros_now_q, 1'b0}) : SUM_W'(zeros_now_q);
      zero2_q <= SUM_W'(zeros_now_q);
      zero4_q <= SUM_W'(zeros_now_q);
    end else if (at_least_valid_q && at_least_q) begin
      zero_rank_q <= zero_rank_q + 1'b1;
      zero1_q <= zero1_q + SUM_W'(zeros_now_q);
      if (zero_rank_q[0]) zero2_q <= zero2_q + SUM_W'(zeros_now_q);
      if (&zero_rank_q[1:0]) zero4_q <= zero4_q + SUM_W'(zeros_now_q);
    end
  end

  // 2 more clocks. Where symbol 0 has no rank its values, if any, are escapes.
  logic unranked;
  assign unranked = no_zeros_q || zero_rank_q == ZERO_RANK_BITS'(ZERO_RANK_NONE);
  logic [COUNT_W-1:0] shift1_q, shift2_q, shift4_q, rank1_q, rank2_q;
  logic [SUM_W-1:0] sum1_q, sum2_q, sum4_q, sum_flat_q, first3_q;
  logic [SUM_W-1:0] pair1_q, pair2_q, pair4_q;
  logic unranked_q;
  logic [COUNT_W-1:0] escapes_short_q, escapes_long_q;
  logic [3*COUNT_W-1:0] place;
  assign place = places[zero_rank_q];
  always_ff @(posedge clk) begin
    unranked_q <= unranked;
    shift1_q <= unranked ? tail15_q : place[0+:COUNT_W];
    shift2_q <= unranked ? hold2_q : place[COUNT_W+:COUNT_W];
    shift4_q <= unranked ? hold4_q : place[2*COUNT_W+:COUNT_W];
    pair1_q <= bits1_q + zero1_q;
    pair2_q <= bits2_q + zero2_q;
    // An escape of R2 has quotient 7.
    pair4_q <= bits4_q + (unranked ? SUM_W'({zeros_now_q, 3'd0}) : zero4_q);
    // Values of rank 1 and more, and of rank 2 and more.
    rank1_q <= zero_rank_q == '0 && !unranked ? places_first : after_base + zeros_now_q;
    rank2_q <= !unranked && zero_rank_q[ZERO_RANK_BITS-1:1] == '0 ? after_base :
        after_second + zeros_now_q;

    sum1_q <= pair1_q + SUM_W'(shift1_q);
    sum2_q <= pair2_q + SUM_W'(shift2_q);
    sum4_q <= pair4_q + SUM_W'(shift4_q);
    first3_q <= SUM_W'(stored_q) + SUM_W'(rank1_q) + SUM_W'(rank2_q);
    sum_flat_q <= sum1_q - first3_q;
    escapes_short_q <= unranked ? tail15_q + zeros_now_q : tail14_q;
    escapes_long_q <= unranked ? tail_q + zeros_now_q : tail30_q;
  end

  // The tails at places 0, 1 and 2.
  logic [COUNT_W-1:0] places_first, after_base, after_second;
  always_ff @(posedge clk) begin
    if (join_q && join_step_q == 6'd0) places_first <= tail_q;
    if (join_q && join_step_q == 6'd1) after_base <= tail_q;
    if (join_q && join_step_q == 6'd2) after_second <= tail_q;
  end

  always_ff @(posedge clk) begin
    if (order_free) begin
      m_order_tvalid <= state_q == GIVE;
      m_order_tdata <= '0;
      if (ranked_q) begin
        m_order_tdata.bank <= bank_q;
        m_order_tdata.base <= base_q;
        m_order_tdata.path <= path_q;
        m_order_tdata.zero_rank <= no_zeros_q ? ZERO_RANK_BITS'(ZERO_RANK_NONE) : zero_rank_q;
        m_order_tdata.zeros <= 13'(zeros_now_q);
        m_order_tdata.unary_bits[CODER_R0] <= 17'(sum1_q);
        m_order_tdata.unary_bits[CODER_R1] <= 17'(sum2_q);
        m_order_tdata.unary_bits[CODER_R2] <= 17'(sum4_q);
        m_order_tdata.unary_bits[CODER_F2] <= 17'(sum_flat_q);
        m_order_tdata.escapes_short <= 13'(escapes_short_q);
        m_order_tdata.escapes_long <= 13'(escapes_long_q);
      end
    end
    if (rst) m_order_tvalid <= 1'b0;
  end

  // ---- Table writer: follows the walk, one symbol a clock ----

  logic [8:0] low_end_q, high_end_q;  // the symbols next to the list
  logic [5:0] written_q;
  logic [1:0][8:0] at14_q, at15_q, at30_q;  // the ends after so many symbols
  logic write, write_left, write_base;
  logic low_ok, high_ok;
  assign low_ok = low_end_q != '0;
  assign high_ok = high_end_q != symbols_q;
  assign write_base = writer_q && written_q == '0;
  always_comb begin
    write = write_base;
    write_left = decided_left_q;
    if (writer_q && written_q != '0) begin
      if (written_q < SHORT) begin
        write = decided_q;
      end else begin
        write = written_q < step_q;
        write_left = low_ok && (!high_ok || written_q[0]);
      end
    end
  end

  logic walk_over, complete;
  assign walk_over = state_q == GIVE || state_q == IDLE;  // the zero rank is final
  assign complete = writer_q && walk_over && written_q == step_q;

  always_ff @(posedge clk) begin
    table_we <= write;
    table_bank <= bank_q;
    table_symbol <= write_base ? base_q[4:0] : write_left ? low_end_q[4:0] : high_end_q[4:0];
    table_step <= written_q[4:0];
    if (write && !write_base) begin
      if (write_left) low_end_q <= low_end_q - 1'b1;
      else high_end_q <= high_end_q + 1'b1;
    end
    if (write) written_q <= written_q + 1'b1;
    if (written_q == SHORT - 1'b1) at14_q <= {high_end_q, low_end_q};
    if (written_q == SHORT) at15_q <= {high_end_q, low_end_q};
    if (written_q <= LONG - 1'b1) at30_q <= {high_end_q, low_end_q};
    if (complete) writer_q <= 1'b0;
    if (begin_walk) begin
      writer_q <= s_shape_tdata.ranked;
      written_q <= '0;
      low_end_q <= {1'b0, wait_best.symbol} - 1'b1;
      high_end_q <= {1'b0, wait_best.symbol} + 1'b1;
    end
    if (rst) begin
      writer_q <= 1'b0;
      table_we <= 1'b0;
    end
  end

  // The last write reaches the table in the clock in which m_range becomes valid.
  logic none;  // symbol 0 takes no rank from the others
  assign none = unranked_q;
  logic [1:0][8:0] short_ends, long_ends;
  assign short_ends = none ? at15_q : at14_q;
  assign long_ends = none ? {high_end_q, low_end_q} : at30_q;
  always_ff @(posedge clk) begin
    if (m_range_tready) m_range_tvalid <= 1'b0;
    complete_q <= complete || (begin_walk && !s_shape_tdata.ranked);
    if (complete_q) begin
      m_range_tvalid <= 1'b1;
      m_range_tdata.short_lo <= 8'(short_ends[0] + 1'b1);
      m_range_tdata.short_hi <= 8'(short_ends[1] - 1'b1);
      m_range_tdata.long_lo <= 8'(long_ends[0] + 1'b1);
      m_range_tdata.long_hi <= 8'(long_ends[1] - 1'b1);
    end
    if (rst) begin
      m_range_tvalid <= 1'b0;
      complete_q <= 1'b0;
    end
  end

endmodule
