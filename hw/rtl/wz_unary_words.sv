// SPDX-License-Identifier: Apache-2.0
//
// The unary section of a frame as 128-bit words, zero beyond its last byte (docs/format.md,
// section 8).
//
// It has a ring of its own, whose memory holds the next word while the output waits.
//
//   latency       2 clocks from `progress` to the word: 3 from the beat that holds it
//   throughput    1 word a clock; a frame without the section a clock
//   back-pressure m_tready enables the output register and the reads of the ring

module wz_unary_words
  import wz_sections_pkg::*;
(
    input logic clk,
    input logic rst,  // synchronous, active high

    input progress_t progress,

    input  unary_job_t s_job,
    input  logic       s_valid,
    output logic       s_ready,

    output logic [POINTER_W-1:0] held,

    output logic [WORDS-1:0]                    read,
    output logic [WORDS-1:0][ADDRESS_W-1:0]     read_address,
    input  logic [WORDS-1:0][8*WORD_BYTES-1:0]  read_data,

    output logic [8*WORD_BYTES-1:0] m_tdata,
    output logic                    m_tlast,
    output logic                    m_tvalid,
    input  logic                    m_tready
);

  logic [ADDRESS_W-1:0] address;
  logic [$clog2(WORDS)-1:0] bank, bank_q;
  logic missing, empty, last, valid, grant;
  logic [3:0] last_bytes;
  logic [WORD_BYTES-1:0] clear_q;  // bytes that are not of the section
  logic last_q, read_valid_q;
  logic [8*WORD_BYTES-1:0] word, out_q;
  logic out_last_q, out_valid_q, advance, read_ready;
  logic first;

  wz_words #(
      .USER_W(4)
  ) u_words (
      .clk,
      .rst,
      .progress,
      .s_place(s_job.place),
      .s_word(s_job.word),
      .s_words(s_job.words),
      .s_user(s_job.last_bytes),
      .s_valid,
      .s_ready,
      .held,
      .m_address(address),
      .m_bank(bank),
      .m_missing(missing),
      .m_empty(empty),
      .m_first(first),
      .m_last(last),
      .m_user(last_bytes),
      .m_valid(valid),
      .m_grant(grant)
  );

  wire unused = first;

  assign advance = !out_valid_q || m_tready;
  assign read_ready = !read_valid_q || advance;
  assign grant = read_ready || empty;
  for (genvar b = 0; b < int'(WORDS); b++) begin : g_bank
    assign read[b] = read_ready && bank == b;
    assign read_address[b] = address;
  end
  assign word = read_data[bank_q];
  assign m_tdata = out_q;
  assign m_tlast = out_last_q;
  assign m_tvalid = out_valid_q;

  always_ff @(posedge clk) begin
    if (read_ready) begin
      read_valid_q <= valid && !empty;
      bank_q <= bank;
      last_q <= last;
      for (int i = 0; i < int'(WORD_BYTES); i++) begin
        clear_q[i] <= missing || (last && last_bytes != '0 && 4'(i) >= last_bytes);
      end
    end
    if (advance) begin
      out_valid_q <= read_valid_q;
      out_last_q  <= last_q;
      for (int i = 0; i < int'(WORD_BYTES); i++) begin
        out_q[8*i+:8] <= clear_q[i] ? 8'd0 : word[8*i+:8];
      end
    end
    if (rst) begin
      read_valid_q <= 1'b0;
      out_valid_q  <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  a_stable : assert property (@(posedge clk) disable iff (rst)
      m_tvalid && !m_tready |=> m_tvalid && $stable(m_tdata) && $stable(m_tlast));
  a_latency : assert property (@(posedge clk) disable iff (rst)
      valid && grant && !empty && !m_tvalid && !read_valid_q |=> ##1 m_tvalid);
`endif

endmodule
