// SPDX-License-Identifier: Apache-2.0
//
// Walks over a run of 16-byte words of a packet in a ring: asks for them one after the other as soon
// as they have been written.
//
// A word that a packet which ended early does not have is asked for as `missing`: it counts as
// zeros. Beside the word m_first and m_last tell its place in the run. A run of no words makes one
// request, m_empty, so that every job is seen in its turn; nothing is to be read for it.
//
//   latency       1 clock from s_job, or from `progress` to the word
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

  logic [WORD_POINTER_W-1:0] word_q;
  logic [7:0] left_q;  // words, but one
  logic [USER_W-1:0] user_q;
  logic [POINTER_W-1:0] held_q, limit, limit_now, behind;
  logic busy_q, empty_q, first_q, last_q, ended, ended_now, load;

  wz_reach u_reach (
      .clk,
      .rst,
      .progress,
      .load,
      .next_packet(s_place.packet),
      .limit,
      .ended,
      .limit_now,
      .ended_now
  );

  wire unused = &{1'b0, limit_now, ended_now};

  // Both are less than half of their range apart: the sign tells which is ahead.
  assign behind = word_q[WORD_POINTER_W-1-:POINTER_W] - limit;
  assign m_missing = !behind[POINTER_W-1];
  assign m_empty = empty_q;
  assign m_valid = busy_q && (behind[POINTER_W-1] || ended || empty_q);
  assign m_address = word_q[$clog2(WORDS)+:ADDRESS_W];
  assign m_bank = word_q[$clog2(WORDS)-1:0];
  assign m_first = first_q;
  assign m_last = last_q;
  assign m_user = user_q;
  assign held = held_q;

  assign s_ready = !busy_q || (m_valid && m_grant && last_q);
  assign load = s_valid && s_ready;

  always_ff @(posedge clk) begin
    if (s_ready) begin
      busy_q  <= s_valid;
      word_q  <= s_word;
      left_q  <= s_words - 8'd1;
      user_q  <= s_user;
      empty_q <= s_words == 8'd0;
      first_q <= 1'b1;
      last_q  <= s_words <= 8'd1;
    end else if (m_valid && m_grant) begin
      word_q  <= word_q + 1'b1;
      left_q  <= left_q - 8'd1;
      first_q <= 1'b0;
      last_q  <= left_q == 8'd1;
    end
    if (load) held_q <= s_place.start;

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
      load |=> busy_q && m_first);
`endif

endmodule
