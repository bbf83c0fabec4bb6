// SPDX-License-Identifier: Apache-2.0
//
// Turns a beat of carriers into the bytes of its record (docs/format.md, section 6): the byte planes
// that are stored, then the top bits. A beat of a raw block passes as it is.
//
// A full record leaves as one chunk, since its planes have fixed places. Those of the partial last
// one move with the number of carriers; each part leaves as a chunk of its own, and wz_concat joins
// them. Bits of carriers that are not there must be zero.
//
//   latency       2 clocks
//   throughput    1 full record a clock; a partial one takes `parts` clocks, up to 2 for FP16 and 3
//                 for FP32, in the last of which the next may come
//   back-pressure none: the source must keep that distance

module wz_record #(
    parameter logic [5:0] TYPES = 6'b111111
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input logic [511:0]            s_data,
    input logic [6:0]              s_count,  // carriers, or bytes of a raw beat
    input logic                    s_first,  // of the frame
    input logic                    s_last,
    input wz_pack_pkg::record_t    s_record,
    input logic                    s_valid,

    output logic [511:0] m_data,
    output logic [6:0]   m_bytes,
    output logic         m_first,
    output logic [5:0]   m_start,
    output logic         m_last,
    output logic         m_valid
);

  import wz_format_pkg::*;
  import wz_pack_pkg::*;

  // By element type: which the build knows is folded. One of these, or `raw`, is set.
  logic [5:0] kind;
  assign kind = fold_kind(TYPES, s_record.kind);

  // Clock 1: the parts of the record, and the length of each.
  logic sign;  // flag: not stored
  logic [3:0] parts;  // planes 0 to 2 and top bits
  logic [6:0] full_bytes;
  logic full;
  logic [9:0] tops;
  assign sign = s_record.sign_flag;

  logic [2:0] stored;  // planes that exist and are not constant
  assign stored[0] = !s_record.plane_flags[0]
                  && (kind[ELEMENT_TYPE_RAW] || (kind[ELEMENT_TYPE_BF16] && !sign)
                      || kind[ELEMENT_TYPE_FP16] || kind[ELEMENT_TYPE_FP32]);
  assign stored[1] = !s_record.plane_flags[1] && kind[ELEMENT_TYPE_FP32];
  assign stored[2] = !s_record.plane_flags[2] && kind[ELEMENT_TYPE_FP32] && !sign;

  // Widths of the top bits, one-hot.
  logic tops7, tops4, tops3, tops2;
  assign tops7 = sign && (kind[ELEMENT_TYPE_BF16] || kind[ELEMENT_TYPE_FP32]);
  assign tops4 = !sign && kind[ELEMENT_TYPE_E4M3];
  assign tops3 = sign ? kind[ELEMENT_TYPE_E4M3]
                      : kind[ELEMENT_TYPE_FP16] || kind[ELEMENT_TYPE_E5M2];
  assign tops2 = sign && (kind[ELEMENT_TYPE_FP16] || kind[ELEMENT_TYPE_E5M2]);

  assign parts = s_record.raw ? 4'b0001 : {tops7 || tops4 || tops3 || tops2, stored};

  // Bytes of a full record: V for each plane, V / 8 for each top bit; by type, V is 32, 16 or 64.
  logic half, word, narrow;
  assign half = kind[ELEMENT_TYPE_BF16] || kind[ELEMENT_TYPE_FP16];
  assign word = kind[ELEMENT_TYPE_FP32];
  assign narrow = kind[ELEMENT_TYPE_E4M3] || kind[ELEMENT_TYPE_E5M2];
  assign full_bytes = ({7{half && stored[0]}} & 7'd32)
                    | ({7{half && tops7}} & 7'd28)
                    | ({7{half && tops3}} & 7'd12)
                    | ({7{half && tops2}} & 7'd8)
                    | ({7{word}} & {1'b0, 2'($countones(stored)), 4'd0})
                    | ({7{word && tops7}} & 7'd14)
                    | ({7{narrow && tops4}} & 7'd32)
                    | ({7{narrow && tops3}} & 7'd24)
                    | ({7{narrow && tops2}} & 7'd16)
                    | ({7{kind[ELEMENT_TYPE_RAW]}} & 7'd64);
  assign full = (half && s_count == 7'd32) || (word && s_count == 7'd16) || s_count == 7'd64;

  // Bytes of the top bits, a multiplication by 2, 3, 4 or 7.
  always_comb begin
    tops = {s_count, 3'b0} - {3'b0, s_count};
    if (tops4) tops = {1'b0, s_count, 2'b0};
    if (tops3) tops = {2'b0, s_count, 1'b0} + {3'b0, s_count};
    if (tops2) tops = {2'b0, s_count, 1'b0};
  end

  // What can stand at a byte of a chunk, one-hot a clock ahead of its use: from byte 0 and from byte 16.
  typedef struct packed {
    logic raw;
    logic bf16_plane, bf16_tops;
    logic fp16_plane, fp16_tops3, fp16_tops2;
    logic fp32_plane0, fp32_plane1, fp32_plane2, fp32_tops;
    logic e4m3_tops4, e4m3_tops3, e5m2_tops3, e5m2_tops2;
  } choice_t;

  // `left`: the parts that are not yet out, of which the first stands at byte 0; the second of FP32
  // follows at byte 16. Plane 2 and top bits exclude each other.
  function automatic choice_t choose(input logic is_raw, input logic [5:0] is_kind,
                                     input logic no_sign, input logic [3:0] left, input int place);
    logic [3:0] part;  // the one that stands there
    choice_t c;
    if (place == 0) part = {left[3] && left[1:0] == '0, left[2] && left[1:0] == '0,
                            left[1] && !left[0], left[0]};
    else part = {left[3:2] & ~{2{left[0] && left[1]}}, left[0] && left[1], 1'b0};
    c = '0;
    c.raw = is_raw || is_kind[ELEMENT_TYPE_RAW];
    if (!is_raw) begin
      c.bf16_plane = is_kind[ELEMENT_TYPE_BF16] && !no_sign;
      c.bf16_tops = is_kind[ELEMENT_TYPE_BF16] && no_sign;
      c.fp16_plane = is_kind[ELEMENT_TYPE_FP16] && left[0];
      c.fp16_tops3 = is_kind[ELEMENT_TYPE_FP16] && !left[0] && !no_sign;
      c.fp16_tops2 = is_kind[ELEMENT_TYPE_FP16] && !left[0] && no_sign;
      c.fp32_plane0 = is_kind[ELEMENT_TYPE_FP32] && part[0];
      c.fp32_plane1 = is_kind[ELEMENT_TYPE_FP32] && part[1];
      c.fp32_plane2 = is_kind[ELEMENT_TYPE_FP32] && part[2];
      c.fp32_tops = is_kind[ELEMENT_TYPE_FP32] && part[3];
      c.e4m3_tops4 = is_kind[ELEMENT_TYPE_E4M3] && !no_sign;
      c.e4m3_tops3 = is_kind[ELEMENT_TYPE_E4M3] && no_sign;
      c.e5m2_tops3 = is_kind[ELEMENT_TYPE_E5M2] && !no_sign;
      c.e5m2_tops2 = is_kind[ELEMENT_TYPE_E5M2] && no_sign;
    end
    return c;
  endfunction

  logic [511:0] data_q;
  logic [3:0] parts_q, rest;
  logic whole_q;  // one chunk
  logic final_q;  // the last chunk of the record
  logic [6:0] whole_bytes_q, count_q, tops_q;
  logic first_q, last_q, valid_q, tops_now_q;
  logic [5:0] start_q;
  logic raw_q, sign_q;
  logic [5:0] kind_q;
  choice_t at0_q, at16_q;

  // Without the lowest.
  function automatic logic [3:0] without_first(input logic [3:0] left);
    return {left[3] && left[2:0] != '0, left[2] && left[1:0] != '0, left[1] && left[0], 1'b0};
  endfunction
  assign rest = without_first(parts_q);

  always_ff @(posedge clk) begin
    if (s_valid) begin
      data_q <= s_data;
      parts_q <= parts;
      // The end of a frame can come without a carrier.
      whole_q <= s_record.raw || full || s_count == '0;
      final_q <= s_record.raw || full || s_count == '0 || without_first(parts) == '0;
      whole_bytes_q <= (s_record.raw || s_count == '0) ? s_count : full_bytes;
      count_q <= s_count;
      tops_q <= 7'((tops + 10'd7) >> 3);
      tops_now_q <= parts[2:0] == '0;
      first_q <= s_first;
      last_q <= s_last;
      start_q <= s_record.start;
      raw_q <= s_record.raw;
      sign_q <= sign;
      kind_q <= kind;
      at0_q <= choose(s_record.raw, kind, sign, parts, 0);
      at16_q <= choose(s_record.raw, kind, sign, parts, 1);
    end else if (!final_q) begin
      parts_q <= rest;
      final_q <= without_first(rest) == '0;
      tops_now_q <= rest[2:0] == '0;
      first_q <= 1'b0;
      at0_q <= choose(raw_q, kind_q, sign_q, rest, 0);
      at16_q <= choose(raw_q, kind_q, sign_q, rest, 1);
    end
    valid_q <= s_valid || (valid_q && !final_q);
    if (rst) valid_q <= 1'b0;
  end

  // Clock 2: the candidates, and the choice among them.
  logic [255:0] bf16_plane, bf16_tops, fp16_plane, e4m3_tops4;
  logic [255:0] fp16_tops3, fp16_tops2, e4m3_tops3, e5m2_tops3, e5m2_tops2;
  logic [127:0] fp32_plane0, fp32_plane1, fp32_plane2, fp32_tops;

  assign bf16_tops[255:224] = '0;
  assign fp16_tops3[255:96] = '0;
  assign fp16_tops2[255:64] = '0;
  assign e4m3_tops3[255:192] = '0;
  assign e5m2_tops3[255:192] = '0;
  assign e5m2_tops2[255:128] = '0;
  assign fp32_tops[127:112] = '0;
  for (genvar i = 0; i < 64; i++) begin : g_value
    if (i < 16) begin : g_four
      assign fp32_plane0[8*i+:8] = data_q[32*i+:8];
      assign fp32_plane1[8*i+:8] = data_q[32*i+8+:8];
      assign fp32_plane2[8*i+:8] = {data_q[32*i+31], data_q[32*i+16+:7]};
      assign fp32_tops[7*i+:7] = data_q[32*i+16+:7];
    end
    if (i < 32) begin : g_two
      assign bf16_plane[8*i+:8] = {data_q[16*i+15], data_q[16*i+:7]};
      assign bf16_tops[7*i+:7] = data_q[16*i+:7];
      assign fp16_plane[8*i+:8] = data_q[16*i+:8];
      assign fp16_tops3[3*i+:3] = {data_q[16*i+15], data_q[16*i+8+:2]};
      assign fp16_tops2[2*i+:2] = data_q[16*i+8+:2];
    end
    assign e4m3_tops4[4*i+:4] = {data_q[8*i+7], data_q[8*i+:3]};
    assign e4m3_tops3[3*i+:3] = data_q[8*i+:3];
    assign e5m2_tops3[3*i+:3] = {data_q[8*i+7], data_q[8*i+:2]};
    assign e5m2_tops2[2*i+:2] = data_q[8*i+:2];
  end

  logic [511:0] chunk;
  always_comb begin
    chunk[511:384] = data_q[511:384];
    // Byte 32: a third part of FP32, tops of FP16 behind their plane.
    chunk[383:256] = (data_q[383:256] & {128{at0_q.raw}})
                   | ((sign_q ? fp32_tops : fp32_plane2)
                      & {128{kind_q[ELEMENT_TYPE_FP32] && !raw_q}})
                   | ((sign_q ? fp16_tops2[127:0] : fp16_tops3[127:0])
                      & {128{kind_q[ELEMENT_TYPE_FP16] && !raw_q}});
    for (int i = 0; i < 256; i++) begin
      choice_t c;
      c = (i < 128) ? at0_q : at16_q;
      chunk[i] = (data_q[i] & c.raw) | (bf16_plane[i] & c.bf16_plane)
               | (bf16_tops[i] & c.bf16_tops) | (fp16_plane[i] & c.fp16_plane)
               | (fp16_tops3[i] & c.fp16_tops3) | (fp16_tops2[i] & c.fp16_tops2)
               | (fp32_plane0[i%128] & c.fp32_plane0) | (fp32_plane1[i%128] & c.fp32_plane1)
               | (fp32_plane2[i%128] & c.fp32_plane2) | (fp32_tops[i%128] & c.fp32_tops)
               | (e4m3_tops4[i] & c.e4m3_tops4) | (e4m3_tops3[i] & c.e4m3_tops3)
               | (e5m2_tops3[i] & c.e5m2_tops3) | (e5m2_tops2[i] & c.e5m2_tops2);
    end
  end

  always_ff @(posedge clk) begin
    m_data  <= chunk;
    m_bytes <= whole_q ? whole_bytes_q : tops_now_q ? tops_q : count_q;
    m_first <= first_q;
    m_start <= start_q;
    m_last  <= last_q && final_q;
    m_valid <= valid_q;
    if (rst) m_valid <= 1'b0;
  end

`ifndef SYNTHESIS
  a_latency : assert property (@(posedge clk) disable iff (rst) s_valid |-> ##2 m_valid);
  a_distance : assert property (@(posedge clk) disable iff (rst)
      valid_q && s_valid |-> final_q);
`endif

endmodule
