// SPDX-License-Identifier: Apache-2.0
//
// The escapes of a frame as 64-byte words, the first escape in byte 0, from the 16-byte words that
// hold them (docs/format.md, section 8). Bytes beyond the last escape are undefined.
//
//   latency       3 clocks from the last 16-byte word that a word needs
//   throughput    1 16-byte word a clock
//   back-pressure m_tready; s_tready is low while the output waits

module wz_escape_words
  import wz_sections_pkg::*;
(
    input logic clk,
    input logic rst,  // synchronous, active high

    input  logic [8*WORD_BYTES-1:0] s_tdata,
    input  logic [3:0]              s_shift,  // bytes before the first escape in the first word
    input  logic                    s_first,  // of the frame
    input  logic                    s_last,
    input  logic                    s_flush,  // the last word makes a quarter by itself as well
    input  logic                    s_tvalid,
    output logic                    s_tready,

    output logic [8*WORD_BYTES*WORDS-1:0] m_tdata,
    output logic                          m_tvalid,
    input  logic                          m_tready
);

  localparam int unsigned WORD_W = 8 * WORD_BYTES;

  logic flush_q, en, take;

  assign s_tready = !flush_q && en;
  assign take = s_tvalid && s_tready;

  // Rotation: bytes, then fours of bytes. `pair`: with the word before, the word makes a quarter;
  // `flush`: the word before makes one alone.
  logic [WORD_W-1:0] by_byte_q, by_four, rotated_q;
  logic [3:0] by_byte_shift_q, rotated_shift_q;
  logic by_byte_valid_q, by_byte_pair_q, by_byte_flush_q, by_byte_last_q;
  logic [1:0] slot_q;
  logic [WORDS-1:0][WORD_W-1:0] out_q;
  logic out_valid_q;
  logic [WORD_W-1:0] quarter;
  logic make, full;

  function automatic logic [WORD_W-1:0] rotate(input logic [WORD_W-1:0] word,
                                               input int unsigned bytes);
    logic [2*WORD_W-1:0] twice;
    twice = {word, word};
    return twice[8*bytes+:WORD_W];
  endfunction

  always_comb begin
    case (by_byte_shift_q[3:2])
      2'd0: by_four = by_byte_q;
      2'd1: by_four = rotate(by_byte_q, 4);
      2'd2: by_four = rotate(by_byte_q, 8);
      default: by_four = rotate(by_byte_q, 12);
    endcase
    // Bytes below 16 - shift are of the word before, the others of the one after.
    for (int i = 0; i < int'(WORD_BYTES); i++) begin
      quarter[8*i+:8] = (5'(i) + 5'(rotated_shift_q) < 5'd16) ? rotated_q[8*i+:8]
                                                              : by_four[8*i+:8];
    end
  end

  assign make = by_byte_valid_q && (by_byte_pair_q || by_byte_flush_q);
  assign full = slot_q == 2'(WORDS - 1) || by_byte_last_q;
  assign en = !out_valid_q || m_tready;
  assign m_tdata = out_q;
  assign m_tvalid = out_valid_q;

  always_ff @(posedge clk) begin
    if (en) begin
      flush_q <= take && s_last && s_flush;
      by_byte_valid_q <= take || flush_q;
      by_byte_pair_q <= take && !s_first;
      by_byte_flush_q <= flush_q;
      by_byte_last_q <= flush_q || (s_last && !s_flush);
      if (take) begin
        case (s_shift[1:0])
          2'd0: by_byte_q <= s_tdata;
          2'd1: by_byte_q <= rotate(s_tdata, 1);
          2'd2: by_byte_q <= rotate(s_tdata, 2);
          default: by_byte_q <= rotate(s_tdata, 3);
        endcase
        by_byte_shift_q <= s_shift;
      end

      if (by_byte_valid_q && !by_byte_flush_q) begin
        rotated_q <= by_four;
        rotated_shift_q <= by_byte_shift_q;
      end

      out_valid_q <= make && full;
      if (make) begin
        out_q[slot_q] <= quarter;
        slot_q <= full ? '0 : slot_q + 2'd1;
      end
    end

    if (rst) begin
      flush_q <= 1'b0;
      by_byte_valid_q <= 1'b0;
      out_valid_q <= 1'b0;
      slot_q <= '0;
    end
  end

`ifndef SYNTHESIS
  a_stable : assert property (@(posedge clk) disable iff (rst)
      m_tvalid && !m_tready |=> m_tvalid && $stable(m_tdata));
`endif

endmodule
