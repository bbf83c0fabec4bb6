// SPDX-License-Identifier: Apache-2.0
//
// The verdict on a packet, once it has been taken in: what its header says (s_claim), how many bytes
// it has (s_end) and whether sections are padded with zeros (s_padding).
//
// Of several errors it is the one that a decoder comes upon first which reads the frame from front
// to back. m_late: the packet ends in the escapes; a decoder has read the unary section before, so
// if that is corrupt, or has another number of escapes, the frame is corrupt and not truncated.
//
//   latency       2 clocks
//   throughput    1 packet a clock
//   back-pressure m_tready enables both stages

module wz_verdict
  import wz_format_pkg::*;
  import wz_pkg::*;
  import wz_sections_pkg::*;
(
    input logic clk,
    input logic rst,  // synchronous, active high

    input  claim_t s_claim,
    input  logic   s_claim_valid,
    output logic   s_claim_ready,

    input  logic [PACKET_BYTES_W-1:0] s_end_bytes,
    input  logic                      s_end_valid,
    output logic                      s_end_ready,

    input  logic s_padding_remainder,
    input  logic s_padding_low,
    input  logic s_padding_valid,
    output logic s_padding_ready,

    output error_e m_error,
    output logic   m_late,
    output logic   m_tvalid,
    input  logic   m_tready
);

  typedef struct packed {
    logic frame;
    logic bad_version;
    logic bad_fields;
    logic unsupported;
    logic bad_early;
    logic bad_extras;
    logic bad_symbols;
    logic bad_escapes;
    logic too_long;
    logic remainder_bad;
    logic low_bad;
    // The packet has fewer bytes than: a short header, the header, header and extras, all before
    // the low bits, the unary section, the escapes; the frame.
    logic in_short;
    logic in_header;
    logic in_extras;
    logic in_remainders;
    logic in_low;
    logic in_unary;
    logic in_escapes;
    logic over;  // more bytes than any frame of this block
    logic excess;  // more bytes than the frame
  } found_t;

  found_t found_q;
  logic found_valid_q, out_valid_q, take, found_ready, advance;
  error_e error_q, error;
  logic late_q, late;
  logic [13:0] bytes;
  logic [9:0] words;

  assign take = s_claim_valid && s_end_valid && s_padding_valid && found_ready;
  assign s_claim_ready = take;
  assign s_end_ready = take;
  assign s_padding_ready = take;
  assign advance = !out_valid_q || m_tready;
  assign found_ready = !found_valid_q || advance;
  assign bytes = 14'(s_end_bytes);
  assign words = 10'(s_end_bytes >> 4);
  assign m_error = error_q;
  assign m_late = late_q;
  assign m_tvalid = out_valid_q;

  always_comb begin
    late = 1'b0;
    error = ERROR_NONE;
    if (!found_q.frame) begin
      if (found_q.bad_fields || found_q.in_escapes || found_q.excess) error = ERROR_CORRUPT;
    end else if (found_q.in_short) error = ERROR_TRUNCATED;
    else if (found_q.bad_version) error = ERROR_UNSUPPORTED;
    else if (found_q.in_header) error = ERROR_TRUNCATED;
    else if (found_q.bad_fields) error = ERROR_CORRUPT;
    else if (found_q.over) error = ERROR_CORRUPT;
    else if (found_q.unsupported) error = ERROR_UNSUPPORTED;
    else if (found_q.bad_early) error = ERROR_CORRUPT;
    else if (found_q.in_extras) error = ERROR_TRUNCATED;
    else if (found_q.bad_extras) error = ERROR_CORRUPT;
    else if (found_q.in_remainders) error = ERROR_TRUNCATED;
    else if (found_q.remainder_bad || found_q.bad_symbols) error = ERROR_CORRUPT;
    else if (found_q.in_low) error = ERROR_TRUNCATED;
    else if (found_q.low_bad) error = ERROR_CORRUPT;
    else if (found_q.in_unary) error = ERROR_TRUNCATED;
    else if (found_q.bad_escapes || found_q.too_long) error = ERROR_CORRUPT;
    else if (found_q.in_escapes) begin
      error = ERROR_TRUNCATED;
      late  = 1'b1;
    end else if (found_q.excess) error = ERROR_CORRUPT;
  end

  always_ff @(posedge clk) begin
    if (found_ready) begin
      found_valid_q <= take;
      found_q <= '{
          frame: s_claim.frame,
          bad_version: s_claim.bad_version,
          bad_fields: s_claim.bad_fields,
          unsupported: s_claim.unsupported,
          bad_early: s_claim.bad_early,
          bad_extras: s_claim.bad_extras,
          bad_symbols: s_claim.bad_symbols,
          bad_escapes: s_claim.bad_escapes,
          too_long: s_claim.too_long,
          remainder_bad: s_padding_remainder,
          low_bad: s_padding_low,
          in_short: bytes < 14'(SHORT_HEADER_BYTES),
          in_header: s_claim.long_header && bytes < 14'(LONG_HEADER_BYTES),
          in_extras: s_claim.coded && words < 10'd1 + 10'(s_claim.extras_words),
          in_remainders: s_claim.coded && words < s_claim.low_word,
          in_low: s_claim.coded && words < s_claim.unary_word,
          in_unary: s_claim.coded && bytes < s_claim.escape_byte,
          in_escapes: bytes < s_claim.frame_bytes,
          over: bytes > 14'(s_claim.block_bytes) + 14'(SHORT_HEADER_BYTES)
              || (s_claim.shorter && bytes >= 14'(s_claim.block_bytes)),
          excess: bytes > s_claim.frame_bytes
      };
    end
    if (advance) begin
      out_valid_q <= found_valid_q;
      error_q <= error;
      late_q <= late;
    end
    if (rst) begin
      found_valid_q <= 1'b0;
      out_valid_q <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  a_latency : assert property (@(posedge clk) disable iff (rst)
      take && advance |=> ##1 m_tvalid);
  a_stable : assert property (@(posedge clk) disable iff (rst)
      m_tvalid && !m_tready |=> m_tvalid && $stable(m_error) && $stable(m_late));
`endif

endmodule
