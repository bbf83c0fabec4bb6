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
  for (genvar t = 0; t < 6; t++) begin : g_kind
    assign kind[t] = is_type(TYPES, s_record.element, element_type_e'(t));
  end

  // Clock 1: the parts of the record, and the length of each.
  logic sign;  // flag: not stored
  logic [3:0] parts;  // planes 0 to 2 and top bits
  logic [2:0] top_bits;
  logic [6:0] full_bytes;
  logic full;
  logic [9:0] tops;
  assign sign = s_record.sign_flag;

  always_comb begin
    parts = 4'b0000;
    top_bits = 3'd0;
    full_bytes = 7'd0;
    full = 1'b0;
    unique case (1'b1)
      kind[ELEMENT_TYPE_BF16]: begin
        parts = {sign, 2'b00, !sign && !s_record.plane_flags[0]};
        top_bits = 3'd7;
        full_bytes = sign ? 7'd28 : 7'd32;
        full = s_count == 7'd32;
      end
      kind[ELEMENT_TYPE_FP16]: begin
        parts = {1'b1, 2'b00, !s_record.plane_flags[0]};
        top_bits = sign ? 3'd2 : 3'd3;
        full_bytes = (sign ? 7'd8 : 7'd12) + (s_record.plane_flags[0] ? 7'd0 : 7'd32);
        full = s_count == 7'd32;
      end
      kind[ELEMENT_TYPE_FP32]: begin
        parts = {sign, ~s_record.plane_flags & {!sign, 2'b11}};
        top_bits = 3'd7;
        full_bytes = (sign ? 7'd14 : 7'd0) + {1'b0, 2'($countones(parts[2:0])), 4'd0};
        full = s_count == 7'd16;
      end
      kind[ELEMENT_TYPE_E4M3]: begin
        parts = 4'b1000;
        top_bits = sign ? 3'd3 : 3'd4;
        full_bytes = sign ? 7'd24 : 7'd32;
        full = s_count == 7'd64;
      end
      kind[ELEMENT_TYPE_E5M2]: begin
        parts = 4'b1000;
        top_bits = sign ? 3'd2 : 3'd3;
        full_bytes = sign ? 7'd16 : 7'd24;
        full = s_count == 7'd64;
      end
      kind[ELEMENT_TYPE_RAW]: begin
        parts = {3'b000, !s_record.plane_flags[0]};
        full_bytes = 7'd64;
        full = s_count == 7'd64;
      end
      default: ;
    endcase
    if (s_record.raw) parts = 4'b0001;
  end

  // Bytes of the top bits, a multiplication by 2, 3, 4 or 7.
  always_comb begin
    unique case (top_bits)
      3'd2: tops = {2'b0, s_count, 1'b0};
      3'd3: tops = {2'b0, s_count, 1'b0} + {3'b0, s_count};
      3'd4: tops = {1'b0, s_count, 2'b0};
      default: tops = {s_count, 3'b0} - {3'b0, s_count};
    endcase
  end

  logic [511:0] data_q;
  logic [3:0] parts_q;
  logic whole_q;  // one chunk
  logic [6:0] whole_bytes_q, count_q, tops_q;
  logic first_q, last_q, valid_q;
  logic [5:0] start_q;
  logic raw_q, sign_q;
  logic [5:0] kind_q;
  logic [3:0] rest, lowest;
  logic final_part;
  wire unused = &{1'b0, kind_q, lowest};

  assign rest = parts_q & (parts_q - 1'b1);
  assign final_part = whole_q || rest == '0;

  always_ff @(posedge clk) begin
    if (s_valid) begin
      data_q <= s_data;
      parts_q <= parts;
      // The end of a frame can come without a carrier.
      whole_q <= s_record.raw || full || s_count == '0;
      whole_bytes_q <= (s_record.raw || s_count == '0) ? s_count : full_bytes;
      count_q <= s_count;
      tops_q <= 7'((tops + 10'd7) >> 3);
      first_q <= s_first;
      last_q <= s_last;
      start_q <= s_record.start;
      raw_q <= s_record.raw;
      sign_q <= sign;
      kind_q <= kind;
    end else if (!final_part) begin
      parts_q <= rest;
      first_q <= 1'b0;
    end
    valid_q <= s_valid || (valid_q && !final_part);
    if (rst) valid_q <= 1'b0;
  end

  // Clock 2: choose. The candidates for the places at bytes 0, 16 and 32, by type.
  logic [511:0] chunk;
  assign lowest = parts_q & (~parts_q + 1'b1);

  // BF16: one plane of 32 bytes, or 7 bits a value.
  logic [255:0] bf16;
  logic [255:0] bf16_plane;
  logic [223:0] bf16_tops;
  for (genvar i = 0; i < 32; i++) begin : g_bf16
    assign bf16_plane[8*i+:8] = {data_q[16*i+15], data_q[16*i+:7]};
    assign bf16_tops[7*i+:7]  = data_q[16*i+:7];
  end
  assign bf16 = sign_q ? {32'b0, bf16_tops} : bf16_plane;

  // FP16: a plane of 32 bytes and 3 or 2 bits a value.
  logic [351:0] fp16;
  logic [255:0] fp16_plane;
  logic [95:0] fp16_tops3, fp16_tops;
  logic [63:0] fp16_tops2;
  for (genvar i = 0; i < 32; i++) begin : g_fp16
    assign fp16_plane[8*i+:8] = data_q[16*i+:8];
    assign fp16_tops3[3*i+:3] = {data_q[16*i+15], data_q[16*i+8+:2]};
    assign fp16_tops2[2*i+:2] = data_q[16*i+8+:2];
  end
  assign fp16_tops = sign_q ? {32'b0, fp16_tops2} : fp16_tops3;
  assign fp16 = {fp16_tops, lowest[0] ? fp16_plane : {160'b0, fp16_tops}};

  // FP32: up to three planes of 16 bytes, and 7 bits a value in the place of the third.
  logic [383:0] fp32;
  logic [127:0] fp32_part[3];
  logic [127:0] fp32_slot[3];
  for (genvar i = 0; i < 16; i++) begin : g_fp32
    assign fp32_part[0][8*i+:8] = data_q[32*i+:8];
    assign fp32_part[1][8*i+:8] = data_q[32*i+8+:8];
  end
  logic [127:0] fp32_plane2;
  logic [111:0] fp32_tops;
  for (genvar i = 0; i < 16; i++) begin : g_fp32_high
    assign fp32_plane2[8*i+:8] = {data_q[32*i+31], data_q[32*i+16+:7]};
    assign fp32_tops[7*i+:7]   = data_q[32*i+16+:7];
  end
  assign fp32_part[2] = sign_q ? {16'b0, fp32_tops} : fp32_plane2;
  // Part 2 is plane 2 or the top bits, never both.
  assign fp32_slot[0] = lowest[0] ? fp32_part[0] : lowest[1] ? fp32_part[1] : fp32_part[2];
  assign fp32_slot[1] = (lowest[0] && parts_q[1]) ? fp32_part[1] : fp32_part[2];
  assign fp32_slot[2] = fp32_part[2];
  assign fp32 = {fp32_slot[2], fp32_slot[1], fp32_slot[0]};

  // FP8: 4, 3 or 2 bits a value.
  logic [255:0] fp8;
  logic [255:0] fp8_tops4;
  logic [191:0] fp8_tops3;
  logic [127:0] fp8_tops2;
  for (genvar i = 0; i < 64; i++) begin : g_fp8
    assign fp8_tops4[4*i+:4] = {data_q[8*i+7], data_q[8*i+:3]};
    assign fp8_tops3[3*i+:3] = {
      kind_q[ELEMENT_TYPE_E4M3] ? data_q[8*i+2] : data_q[8*i+7], data_q[8*i+:2]
    };
    assign fp8_tops2[2*i+:2] = data_q[8*i+:2];
  end
  assign fp8 = kind_q[ELEMENT_TYPE_E4M3] ? (sign_q ? {64'b0, fp8_tops3} : fp8_tops4)
                                         : (sign_q ? {128'b0, fp8_tops2} : {64'b0, fp8_tops3});

  always_comb begin
    chunk = data_q;
    if (!raw_q) begin
      unique case (1'b1)
        kind_q[ELEMENT_TYPE_BF16]: chunk[255:0] = bf16;
        kind_q[ELEMENT_TYPE_FP16]: chunk[351:0] = fp16;
        kind_q[ELEMENT_TYPE_FP32]: chunk[383:0] = fp32;
        kind_q[ELEMENT_TYPE_E4M3], kind_q[ELEMENT_TYPE_E5M2]: chunk[255:0] = fp8;
        default: ;
      endcase
    end
  end

  always_ff @(posedge clk) begin
    m_data  <= chunk;
    m_bytes <= whole_q ? whole_bytes_q : lowest[3] ? tops_q : count_q;
    m_first <= first_q;
    m_start <= start_q;
    m_last  <= last_q && final_part;
    m_valid <= valid_q;
    if (rst) m_valid <= 1'b0;
  end

`ifndef SYNTHESIS
  a_latency : assert property (@(posedge clk) disable iff (rst) s_valid |-> ##2 m_valid);
  a_distance : assert property (@(posedge clk) disable iff (rst)
      valid_q && s_valid |-> final_part);
`endif

endmodule
