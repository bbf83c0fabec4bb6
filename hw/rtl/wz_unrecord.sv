// SPDX-License-Identifier: Apache-2.0
//
// A record of remainders becomes the elements that it is about, with the symbol's bits zero: byte
// planes and top bits go to their places, a dropped sign and constant planes are filled in
// (docs/format.md, section 6). A payload that travels as it is passes. Bytes beyond the last element
// are zero.
//
// Where a bit of an element may come from depends on type, flags and part of the record. The choice
// is made a clock before, as one select for each kind of place that a bit is taken from, and a byte
// of constants for each byte of an element.
//
//   latency       2 clocks from the last part of a record
//   throughput    1 window a clock
//   back-pressure none

module wz_unrecord
  import wz_format_pkg::*;
  import wz_sections_pkg::*;
#(
    parameter logic [5:0] TYPES = 6'b111111
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input logic [8*BEAT_BYTES-1:0] s_data,
    input window_t                 s_info,
    input logic                    s_valid,

    output logic [8*BEAT_BYTES-1:0] m_data,
    output logic                    m_valid
);

  // Types by width, and what their remainders are made of: top bits with the sign, and without.
  localparam logic BF16 = TYPES[ELEMENT_TYPE_BF16];
  localparam logic FP16 = TYPES[ELEMENT_TYPE_FP16];
  localparam logic FP32 = TYPES[ELEMENT_TYPE_FP32];
  localparam logic E4M3 = TYPES[ELEMENT_TYPE_E4M3];
  localparam logic E5M2 = TYPES[ELEMENT_TYPE_E5M2];
  localparam logic ONLY_BF16 = TYPES == 6'(1 << ELEMENT_TYPE_BF16);
  localparam logic PARTS = FP16 || FP32;
  localparam int unsigned BF16_TOP = (LAYOUTS[ELEMENT_TYPE_BF16].remainder_bits - 1) % 8;
  localparam int unsigned FP16_TOP = LAYOUTS[ELEMENT_TYPE_FP16].remainder_bits % 8;
  localparam int unsigned FP32_TOP = (LAYOUTS[ELEMENT_TYPE_FP32].remainder_bits - 1) % 8;
  localparam int unsigned E4M3_TOP = LAYOUTS[ELEMENT_TYPE_E4M3].remainder_bits;
  localparam int unsigned E5M2_TOP = LAYOUTS[ELEMENT_TYPE_E5M2].remainder_bits;
  // Bits of a plane of 2-byte and of 4-byte elements.
  localparam int unsigned PLANE_2 = 8 * BEAT_BYTES / 2;
  localparam int unsigned PLANE_4 = 8 * BEAT_BYTES / 4;
  localparam int unsigned SIGN = 7;  // bit of the highest byte of an element

  // 1: what each byte of an element is made of. Numbers in names are those of bytes of an element.
  logic [8*BEAT_BYTES-1:0] data_q;
  logic [BEAT_BYTES-1:0] clear_q;
  logic valid_q, last_part_q;
  logic [1:0] choice_q;
  // A build for BF16 alone goes by choice_q.
  // verilator lint_off UNUSEDSIGNAL
  logic [3:0] set_q;
  logic raw_q;
  logic bf16_plane_q, bf16_top_q, fp16_plane_q, fp16_sign_q, fp16_top_q;
  logic fp32_plane0_q, fp32_plane1_q, fp32_plane2_q, fp32_plane2_low_q;
  logic fp32_top_q, fp32_top_low_q;
  logic e4m3_sign_q, e4m3_top_q, e5m2_sign_q, e5m2_top_q;
  logic [3:0][7:0] constant_q;
  // verilator lint_on UNUSEDSIGNAL

  logic is_raw, is_bf16, is_fp16, is_fp32, is_e4m3, is_e5m2, dropped, sign, low;
  logic [2:0] flags;

  always_comb begin
    is_raw = s_info.choice != 2'd0 && s_info.element == ELEMENT_TYPE_RAW;
    is_bf16 = BF16 && s_info.choice != 2'd0
        && (ONLY_BF16 || s_info.element == ELEMENT_TYPE_BF16);
    is_fp16 = FP16 && s_info.choice != 2'd0 && s_info.element == ELEMENT_TYPE_FP16;
    is_fp32 = FP32 && s_info.choice != 2'd0 && s_info.element == ELEMENT_TYPE_FP32;
    is_e4m3 = E4M3 && s_info.choice != 2'd0 && s_info.element == ELEMENT_TYPE_E4M3;
    is_e5m2 = E5M2 && s_info.choice != 2'd0 && s_info.element == ELEMENT_TYPE_E5M2;
    dropped = s_info.sign_flag;
    sign = s_info.sign_value;
    flags = s_info.plane_flags;
    // The highest plane of FP32, or its top bits, in the place of plane 1.
    low = s_info.low;
  end

  always_ff @(posedge clk) begin
    data_q <= s_data;
    for (int i = 0; i < int'(BEAT_BYTES); i++) clear_q[i] <= 7'(i) >= s_info.bytes;
    set_q <= s_info.set;
    last_part_q <= s_info.last_part;
    choice_q <= s_info.choice;

    raw_q <= s_info.choice == 2'd0 || (is_raw && !flags[0]);
    bf16_plane_q <= is_bf16 && !dropped && !flags[0];
    bf16_top_q <= is_bf16 && dropped;
    fp16_plane_q <= is_fp16 && !flags[0];
    fp16_sign_q <= is_fp16 && !dropped;
    fp16_top_q <= is_fp16 && dropped;
    fp32_plane0_q <= is_fp32 && !flags[0];
    fp32_plane1_q <= is_fp32 && !flags[1];
    fp32_plane2_q <= is_fp32 && !dropped && !flags[2] && !low;
    fp32_plane2_low_q <= is_fp32 && !dropped && !flags[2] && low;
    fp32_top_q <= is_fp32 && dropped && !low;
    fp32_top_low_q <= is_fp32 && dropped && low;
    e4m3_sign_q <= is_e4m3 && !dropped;
    e4m3_top_q <= is_e4m3 && dropped;
    e5m2_sign_q <= is_e5m2 && !dropped;
    e5m2_top_q <= is_e5m2 && dropped;

    // The bytes of constant planes are zero where there are none, and so is the sign if it is not
    // dropped.
    constant_q <= '0;
    if (is_raw) constant_q <= {4{s_info.plane_bytes[7:0]}};
    if (is_bf16) begin
      constant_q <= {2{s_info.plane_bytes[SIGN] || sign, 8'd0, s_info.plane_bytes[SIGN-1:0]}};
    end
    if (is_fp16) constant_q <= {2{sign, 7'd0, s_info.plane_bytes[7:0]}};
    if (is_fp32) begin
      constant_q <= {s_info.plane_bytes[16+SIGN] || sign, 8'd0, s_info.plane_bytes[16+SIGN-1:16],
          s_info.plane_bytes[15:0]};
    end
    if (is_e4m3 || is_e5m2) constant_q <= {4{sign, 7'd0}};

    valid_q <= s_valid;
    if (rst) valid_q <= 1'b0;
  end

  // 2: the bits.
  logic [8*BEAT_BYTES-1:0] out_q;
  logic out_valid_q;

  assign m_data = out_q;
  assign m_valid = out_valid_q;

  always_ff @(posedge clk) begin
    out_valid_q <= valid_q && last_part_q;
    if (rst) out_valid_q <= 1'b0;
  end

  if (ONLY_BF16) begin : g_bf16
    // Only the choice as a number: a multiplexer of four is one LUT, and what hides the bits of the
    // symbol is a reset.
    localparam int unsigned MANTISSA = LAYOUTS[ELEMENT_TYPE_BF16].mantissa_bits;
    logic [BEAT_BYTES-1:0] hide_q;

    always_ff @(posedge clk) begin
      for (int i = 0; i < int'(BEAT_BYTES); i++) begin
        hide_q[i] <= 7'(i) >= s_info.bytes || s_info.choice != 2'd0;
      end
    end

    for (genvar e = 0; e < int'(BEAT_BYTES) / 2; e++) begin : g_value
      logic [MANTISSA-1:0] mantissa;
      logic sign_bit;

      always_comb begin
        case (choice_q)
          2'd0: {sign_bit, mantissa} = {data_q[16*e+15], data_q[16*e+:MANTISSA]};
          2'd1: {sign_bit, mantissa} = {constant_q[1][SIGN], data_q[BF16_TOP*e+:BF16_TOP]};
          2'd2: {sign_bit, mantissa} = {constant_q[1][SIGN], constant_q[0][MANTISSA-1:0]};
          default: {sign_bit, mantissa} = {data_q[8*e+SIGN], data_q[8*e+:MANTISSA]};
        endcase
      end

      always_ff @(posedge clk) begin
        out_q[16*e+:MANTISSA] <= clear_q[2*e] ? '0 : mantissa;
        out_q[16*e+7] <= hide_q[2*e] ? 1'b0 : data_q[16*e+7];
        out_q[16*e+8+:7] <= hide_q[2*e+1] ? 7'd0 : data_q[16*e+8+:7];
        out_q[16*e+15] <= clear_q[2*e+1] ? 1'b0 : sign_bit;
      end
    end
  end else begin : g_mixed
    logic [8*BEAT_BYTES-1:0] record;

    wire unused = &{1'b0, choice_q};
    for (genvar b = 0; b < int'(BEAT_BYTES); b++) begin : g_byte
      localparam int unsigned PLACE = b % 4;
      localparam int unsigned TWO = b / 2;  // number of the element, of 2 bytes
      localparam int unsigned FOUR = b / 4;
      logic [7:0] from_raw, from_narrow, from_two, from_four;

      assign from_raw = data_q[8*b+:8] & {8{raw_q}};

      assign from_narrow = {
          (data_q[E4M3_TOP*b+E4M3_TOP-1] & e4m3_sign_q)
              | (data_q[E5M2_TOP*b+E5M2_TOP-1] & e5m2_sign_q),
          4'd0,
          (data_q[E4M3_TOP*b+2] & e4m3_sign_q) | (data_q[(E4M3_TOP-1)*b+2] & e4m3_top_q),
          (data_q[E4M3_TOP*b+:2] & {2{e4m3_sign_q}})
              | (data_q[E5M2_TOP*b+:2] & {2{e4m3_top_q | e5m2_sign_q}})
              | (data_q[(E5M2_TOP-1)*b+:2] & {2{e5m2_top_q}})
      };

      if (b % 2 == 0) begin : g_even
        assign from_two = {
            data_q[8*TWO+7] & fp16_plane_q,
            (data_q[8*TWO+:7] & {7{bf16_plane_q | fp16_plane_q}})
                | (data_q[BF16_TOP*TWO+:7] & {7{bf16_top_q}})
        };
      end else begin : g_odd
        assign from_two = {
            (data_q[8*TWO+SIGN] & bf16_plane_q)
                | (data_q[PLANE_2+FP16_TOP*TWO+FP16_TOP-1] & fp16_sign_q),
            5'd0,
            (data_q[PLANE_2+FP16_TOP*TWO+:2] & {2{fp16_sign_q}})
                | (data_q[PLANE_2+(FP16_TOP-1)*TWO+:2] & {2{fp16_top_q}})
        };
      end

      case (PLACE)
        0: begin : g_low
          assign from_four = data_q[8*FOUR+:8] & {8{fp32_plane0_q}};
        end
        1: begin : g_middle
          assign from_four = data_q[PLANE_4+8*FOUR+:8] & {8{fp32_plane1_q}};
        end
        2: begin : g_high
          assign from_four = {
              1'b0,
              (data_q[2*PLANE_4+8*FOUR+:7] & {7{fp32_plane2_q}})
                  | (data_q[PLANE_4+8*FOUR+:7] & {7{fp32_plane2_low_q}})
                  | (data_q[2*PLANE_4+FP32_TOP*FOUR+:7] & {7{fp32_top_q}})
                  | (data_q[PLANE_4+FP32_TOP*FOUR+:7] & {7{fp32_top_low_q}})
          };
        end
        default: begin : g_sign
          assign from_four = {
              (data_q[2*PLANE_4+8*FOUR+SIGN] & fp32_plane2_q)
                  | (data_q[PLANE_4+8*FOUR+SIGN] & fp32_plane2_low_q),
              7'd0
          };
        end
      endcase

      assign record[8*b+:8] = from_raw | from_narrow | from_two | from_four | constant_q[PLACE];

      always_ff @(posedge clk) begin
        // Of a part, only the bytes that it is about.
        if (!PARTS || (valid_q && set_q[PLACE])) begin
          out_q[8*b+:8] <= clear_q[b] ? 8'd0 : record[8*b+:8];
        end
      end
    end
  end

`ifndef SYNTHESIS
  a_latency : assert property (@(posedge clk) disable iff (rst)
      s_valid && s_info.last_part |=> ##1 m_valid);
`endif

endmodule
