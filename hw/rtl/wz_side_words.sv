// SPDX-License-Identifier: Apache-2.0
//
// Reads the words of the low bits and of the escapes from one ring, each at an address of its own:
// they only meet where both want the same bank in the same clock, and then the low bits go first.
//
// Words of low bits are given out without back-pressure: they are only asked for while s_low_room
// says that the queue behind has room for ROOM more. Escapes come one in some clocks.
//
//   latency       3 clocks from `progress` to the word of low bits, 4 to that of escapes
//   throughput    1 word of low bits a clock, 1 word of escapes in 2 clocks
//   back-pressure s_low_room; m_escape_tready

module wz_side_words
  import wz_sections_pkg::*;
(
    input logic clk,
    input logic rst,  // synchronous, active high

    input progress_t progress,

    input  low_job_t s_low,
    input  logic     s_low_valid,
    output logic     s_low_ready,
    input  logic     s_low_room,

    input  escape_job_t s_escape,
    input  logic        s_escape_valid,
    output logic        s_escape_ready,

    output logic [1:0][POINTER_W-1:0] held,

    output logic [WORDS-1:0]                   read,
    output logic [WORDS-1:0][ADDRESS_W-1:0]    read_address,
    input  logic [WORDS-1:0][8*WORD_BYTES-1:0] read_data,

    output logic [8*WORD_BYTES-1:0] m_low_tdata,
    output logic [6:0]              m_low_used,  // bits from here up must be zero; 0: none
    output logic                    m_low_remainder,  // the word is of the remainders
    output logic                    m_low_emit,  // the word is wanted
    output logic                    m_low_last,  // of the frame
    output unpack_t                 m_low_unpack,
    output logic                    m_low_tvalid,

    output logic [8*WORD_BYTES-1:0] m_escape_tdata,
    output logic [3:0]              m_escape_shift,
    output logic                    m_escape_first,  // of the frame
    output logic                    m_escape_last,
    output logic                    m_escape_flush,
    output logic                    m_escape_tvalid,
    input  logic                    m_escape_tready
);

  logic [ADDRESS_W-1:0] low_address, escape_address;
  logic [$clog2(WORDS)-1:0] low_bank, escape_bank, low_bank_q, escape_bank_q;
  logic low_missing, low_empty, low_first, low_last, low_valid;
  logic escape_missing, escape_empty, escape_valid, escape_grant;
  localparam int unsigned LOW_USER_W = 15 + $bits(unpack_t);
  logic [LOW_USER_W-1:0] low_user;
  logic [6:0] remainder_used, low_used;
  logic low_emit;
  unpack_t low_unpack, low_unpack_q, low_out_unpack_q;

  wz_words #(
      .USER_W(LOW_USER_W)
  ) u_low (
      .clk,
      .rst,
      .progress,
      .s_place(s_low.place),
      .s_word(s_low.word),
      .s_words(s_low.words),
      .s_user({s_low.remainder_used, s_low.low_used, s_low.emit, s_low.unpack}),
      .s_valid(s_low_valid),
      .s_ready(s_low_ready),
      .held(held[0]),
      .m_address(low_address),
      .m_bank(low_bank),
      .m_missing(low_missing),
      .m_empty(low_empty),
      .m_first(low_first),
      .m_last(low_last),
      .m_user(low_user),
      .m_valid(low_valid),
      .m_grant(s_low_room)
  );

  logic escape_first, escape_last;
  logic [4:0] escape_user;
  wz_words #(
      .USER_W(5)
  ) u_escape (
      .clk,
      .rst,
      .progress,
      .s_place(s_escape.place),
      .s_word(s_escape.word),
      .s_words({3'd0, s_escape.words}),
      .s_user({s_escape.shift, s_escape.flush}),
      .s_valid(s_escape_valid),
      .s_ready(s_escape_ready),
      .held(held[1]),
      .m_address(escape_address),
      .m_bank(escape_bank),
      .m_missing(escape_missing),
      .m_empty(escape_empty),
      .m_first(escape_first),
      .m_last(escape_last),
      .m_user(escape_user),
      .m_valid(escape_valid),
      .m_grant(escape_grant)
  );

  assign {remainder_used, low_used, low_emit, low_unpack} = low_user;

  // The ring. A word of escapes is caught before it is read, so that its walk does not wait for what
  // the low bits do.
  logic low_read;
  logic [ADDRESS_W-1:0] caught_address_q;
  logic [$clog2(WORDS)-1:0] caught_bank_q;
  logic [6:0] caught_tags_q;
  logic caught_missing_q, caught_valid_q, escape_read;
  logic escape_busy_q, escape_missing_q, escape_valid_q;  // busy: a word is on its way

  assign low_read = low_valid && s_low_room;
  assign escape_grant = !caught_valid_q;
  assign escape_read = caught_valid_q && !escape_busy_q && (!escape_valid_q || m_escape_tready)
      && !(low_read && low_bank == caught_bank_q);

  for (genvar b = 0; b < int'(WORDS); b++) begin : g_bank
    assign read[b] = (low_read && low_bank == b) || (caught_valid_q && caught_bank_q == b);
    assign read_address[b] = (low_read && low_bank == b) ? low_address : caught_address_q;
  end

  always_ff @(posedge clk) begin
    if (!caught_valid_q) begin
      caught_address_q <= escape_address;
      caught_bank_q <= escape_bank;
      caught_missing_q <= escape_missing;
      caught_tags_q <= {escape_first, escape_last, escape_user};
    end
    caught_valid_q <= caught_valid_q ? !escape_read : escape_valid && !escape_empty;
    if (rst) caught_valid_q <= 1'b0;
  end

  // Low bits. The first word may be the last of the remainders: that is only looked at.
  logic low_read_q, low_missing_q, low_emit_q, low_last_q;
  logic [6:0] low_used_q;
  logic remainder;
  logic [8*WORD_BYTES-1:0] low_word, low_data_q;
  logic [6:0] low_out_used_q;
  logic low_remainder_q, low_out_remainder_q;
  logic low_out_emit_q, low_out_last_q, low_out_valid_q;

  assign remainder = low_first && remainder_used != '0;
  assign low_word = read_data[low_bank_q];
  assign m_low_tdata = low_data_q;
  assign m_low_used = low_out_used_q;
  assign m_low_remainder = low_out_remainder_q;
  assign m_low_unpack = low_out_unpack_q;
  assign m_low_emit = low_out_emit_q;
  assign m_low_last = low_out_last_q;
  assign m_low_tvalid = low_out_valid_q;

  always_ff @(posedge clk) begin
    low_read_q <= low_read;
    low_bank_q <= low_bank;
    low_missing_q <= low_missing || low_empty;
    low_last_q <= low_last;
    low_emit_q <= low_emit && !low_empty && !remainder;
    low_remainder_q <= remainder;
    low_used_q <= remainder ? remainder_used : low_last ? low_used : '0;

    low_data_q <= low_missing_q ? '0 : low_word;
    low_out_valid_q <= low_read_q;
    low_out_last_q <= low_last_q;
    low_unpack_q <= low_unpack;
    low_out_unpack_q <= low_unpack_q;
    low_out_emit_q <= low_emit_q;
    low_out_remainder_q <= low_remainder_q;
    low_out_used_q <= low_used_q;

    if (rst) begin
      low_read_q <= 1'b0;
      low_out_valid_q <= 1'b0;
    end
  end

  // Escapes.
  logic [8*WORD_BYTES-1:0] escape_word, escape_data_q;
  logic [6:0] escape_tags_q, escape_out_tags_q;

  assign escape_word = read_data[escape_bank_q];
  assign m_escape_tdata = escape_data_q;
  assign {m_escape_first, m_escape_last, m_escape_shift, m_escape_flush} = escape_out_tags_q;
  assign m_escape_tvalid = escape_valid_q;

  always_ff @(posedge clk) begin
    escape_busy_q <= escape_read;
    escape_bank_q <= caught_bank_q;
    escape_missing_q <= caught_missing_q;
    escape_tags_q <= caught_tags_q;
    if (escape_busy_q) begin
      escape_data_q  <= escape_missing_q ? '0 : escape_word;
      escape_out_tags_q <= escape_tags_q;
      escape_valid_q <= 1'b1;
    end else if (m_escape_tready) begin
      escape_valid_q <= 1'b0;
    end
    if (rst) begin
      escape_busy_q  <= 1'b0;
      escape_valid_q <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  a_latency : assert property (@(posedge clk) disable iff (rst)
      low_read |=> ##1 m_low_tvalid);
  a_escape_stable : assert property (@(posedge clk) disable iff (rst)
      m_escape_tvalid && !m_escape_tready |=> m_escape_tvalid && $stable(m_escape_tdata));
`endif

endmodule
