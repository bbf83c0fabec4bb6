// SPDX-License-Identifier: Apache-2.0
//
// Walks over a run of 16-byte words of a packet in a ring: asks for them one after the other as soon
// as they have been written.
//
// A word that a packet which ended early does not have is asked for as `missing`: it counts as
// zeros. Beside the word m_first and m_last tell its place in the run. A run of no words makes one
// request, m_empty, so that every job is seen in its turn; nothing is to be read for it.
//
//   latency       2 clocks from s_job, 1 clock from `progress` to the word
//   throughput    1 word a clock; a job of one word or none a clock
//   back-pressure a request stays until m_grant

module wz_words
  import wz_sections_pkg::*;
#(
    parameter int unsigned USER_W = 1
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input progress_t progress,

    input  place_t                    s_place,
    input  logic [WORD_POINTER_W-1:0] s_word,
    input  logic [7:0]                s_words,
    input  logic [USER_W-1:0]         s_user,
    input  logic                      s_valid,
    output logic                      s_ready,

    output logic [POINTER_W-1:0] held,  // the packet in work begins here

    output logic [ADDRESS_W-1:0]     m_address,
    output logic [$clog2(WORDS)-1:0] m_bank,
    output logic                     m_missing,
    output logic                     m_empty,
    output logic                     m_first,
    output logic                     m_last,
    output logic [USER_W-1:0]        m_user,
    output logic                     m_valid,
    input  logic                     m_grant
);

  // 1: the next job.
  logic [WORD_POINTER_W-1:0] next_word_q;
  logic [7:0] next_words_q;
  logic [USER_W-1:0] next_user_q;
  logic [POINTER_W-1:0] next_start_q, next_limit, next_limit_now, next_gap;
  logic next_valid_q, next_ended, next_ended_now, load;

  wz_reach u_reach (
      .clk,
      .rst,
      .progress,
      .load(s_valid && s_ready),
      .next_packet(s_place.packet),
      .limit(next_limit),
      .ended(next_ended),
      .limit_now(next_limit_now),
      .ended_now(next_ended_now)
  );

  wire unused = &{1'b0, next_limit_now};

  assign s_ready = !next_valid_q || load;
  assign next_gap = next_limit - next_word_q[WORD_POINTER_W-1-:POINTER_W];

  always_ff @(posedge clk) begin
    if (s_ready) begin
      next_valid_q <= s_valid;
      next_word_q  <= s_word;
      next_words_q <= s_words;
      next_user_q  <= s_user;
      next_start_q <= s_place.start;
    end
    if (rst) next_valid_q <= 1'b0;
  end

  // 2: its words. `gap` is by how many beats the writer is ahead of the word, at least 1 if the word
  // is there; `late` a beat that was written while it was computed first.
  logic [WORD_POINTER_W-1:0] word_q;
  logic [7:0] left_q;  // words, but one
  logic [USER_W-1:0] user_q;
  logic [POINTER_W-1:0] held_q, gap_q;
  logic busy_q, empty_q, first_q, last_q, there_q, late_q, ended_q, take, comes, goes;

  assign m_missing = !there_q;
  assign m_empty = empty_q;
  assign m_valid = busy_q && (there_q || (ended_q && !late_q) || empty_q);
  assign m_address = word_q[$clog2(WORDS)+:ADDRESS_W];
  assign m_bank = word_q[$clog2(WORDS)-1:0];
  assign m_first = first_q;
  assign m_last = last_q;
  assign m_user = user_q;
  assign held = held_q;

  assign take = m_valid && m_grant;
  assign load = !busy_q || (take && last_q);
  assign comes = progress.wrote && !ended_q;
  assign goes = take && m_bank == '1;

  always_ff @(posedge clk) begin
    if (load) begin
      busy_q  <= next_valid_q;
      word_q  <= next_word_q;
      left_q  <= next_words_q - 8'd1;
      user_q  <= next_user_q;
      empty_q <= next_words_q == 8'd0;
      first_q <= 1'b1;
      last_q  <= next_words_q <= 8'd1;
      gap_q   <= next_gap;
      there_q <= !next_gap[POINTER_W-1] && next_gap != '0;
      late_q  <= progress.wrote && !next_ended;
      ended_q <= next_ended_now;
      if (next_valid_q) held_q <= next_start_q;
    end else begin
      if (take) begin
        word_q  <= word_q + 1'b1;
        left_q  <= left_q - 8'd1;
        first_q <= 1'b0;
        last_q  <= left_q == 8'd1;
      end
      gap_q   <= gap_q + POINTER_W'(late_q) + POINTER_W'(comes) - POINTER_W'(goes);
      late_q  <= 1'b0;
      ended_q <= ended_q || progress.ended;
      // Is the gap then at least 1?
      case ({late_q, comes, goes})
        3'b001: there_q <= !gap_q[POINTER_W-1] && gap_q[POINTER_W-2:1] != '0;
        3'b010, 3'b100, 3'b111: there_q <= !gap_q[POINTER_W-1];
        3'b110: there_q <= !gap_q[POINTER_W-1] || gap_q == '1;
        default: there_q <= !gap_q[POINTER_W-1] && gap_q != '0;
      endcase
    end

    if (rst) begin
      busy_q <= 1'b0;
      held_q <= '0;
    end
  end

`ifndef SYNTHESIS
  a_stable : assert property (@(posedge clk) disable iff (rst)
      m_valid && !m_grant |=> m_valid && $stable(m_address) && $stable(m_bank)
      && $stable(m_user) && $stable(m_last));
  a_latency : assert property (@(posedge clk) disable iff (rst)
      s_valid && s_ready ##1 load |=> busy_q && m_first);
  a_gap : assert property (@(posedge clk) disable iff (rst)
      there_q == (!gap_q[POINTER_W-1] && gap_q != '0));
`endif

endmodule
