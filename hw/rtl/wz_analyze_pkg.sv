// SPDX-License-Identifier: Apache-2.0
//
// What the parts of the encoder's first pass (wz_analyze) tell each other.

package wz_analyze_pkg;

  import wz_format_pkg::*;
  import wz_pkg::*;

  // An element type taken apart, one bit a question.
  typedef struct packed {
    logic [2:0] width;  // one hot: 1, 2 or 4 bytes
    logic five;  // symbols of five bits
    logic four;  // symbols of four bits
  } format_t;

  // What wz_order needs to know about a block beside its counts.
  typedef struct packed {
    logic ranked;  // the block has stored values that have symbols: there is an order to find
    element_type_e element;
    logic [12:0] values;  // n
    logic [12:0] left_out;  // values of beats that the bitmap leaves out
  } shape_t;

  // What wz_traits found.
  typedef struct packed {
    logic code;  // 0: the block leaves as it is
    logic walked;  // wz_order has an order for it, if an empty one
    element_type_e element;
    logic [PHASE_BITS-1:0] phase;
    logic [12:0] block_bytes;
    logic [1:0] head_bytes;
    logic [1:0] tail_bytes;
    logic [23:0] head;
    logic [23:0] tail;
    logic [12:0] values;
    logic bitmap;
    logic [63:0] stored_beats;
    logic [12:0] stored_values;
    logic bare;  // values of symbol 0 are all zero: none has a remainder
    logic sign_flag;
    logic sign_value;
    logic [1:0] plane_flags;  // plane 2 holds the sign: constant only where that is not stored
    logic [15:0] plane_bytes;  // of no meaning where a plane is not flagged
    logic constant;  // the block has period W and is longer than W
    logic [31:0] pattern;
  } traits_t;

  // What wz_order found. All zero where there is nothing to rank.
  typedef struct packed {
    table_bank_t bank;
    logic [BASE_BITS-1:0] base;
    logic [PATH_BITS-1:0] path;
    logic [ZERO_RANK_BITS-1:0] zero_rank;
    logic [12:0] zeros;  // stored values of symbol 0
    logic [3:0][16:0] unary_bits;  // by coder_e
    logic [12:0] escapes_short;  // with 15 ranks
    logic [12:0] escapes_long;  // with 31 ranks
  } order_t;

  // Symbols other than 0 that have a rank, lowest and highest, with 15 and with 31 ranks; where symbol
  // 0 takes one of these (`less`) and where it does not.
  typedef struct packed {
    logic [7:0] lo;
    logic [7:0] hi;
  } span_t;
  typedef struct packed {
    span_t short_less;
    span_t short_all;
    span_t long_less;
    span_t long_all;
  } range_t;

  // A frame that is not raw nor constant is no shorter, so with `bare` a block of so many bytes leaves as
  // it is: 16 for the header and 16 for the first record or, without one, extras.
  function automatic int unsigned bare_bytes();
    return LONG_HEADER_BYTES + ALIGN_BYTES;
  endfunction

  // Bits of a count of values, where only some element types are built.
  function automatic int unsigned count_bits(input logic [5:0] types);
    return (types & 6'b110001) != 0 ? 13 : 12;
  endfunction

  // Most values that one of `lanes` lanes sees in a block.
  function automatic int unsigned lane_values(input logic [5:0] types, input int unsigned lanes);
    int unsigned most, of_width;
    most = 0;
    for (int unsigned width = 1; width <= 4; width *= 2) begin
      of_width =
          BLOCK_BYTES_MAX / width / (lanes < BEAT_BYTES / width ? lanes : BEAT_BYTES / width);
      for (int unsigned tag = 1; tag < 6; tag++) begin
        if (types[tag] && LAYOUTS[tag].width_bytes == width && of_width > most) most = of_width;
      end
    end
    return most;
  endfunction

  // The element type as which a block is cut into values: its own, or the first that is built (such
  // a block is not coded, so any will do).
  function automatic element_type_e built_element(input logic [5:0] types, input logic [2:0] tag);
    logic [2:0] first;
    first = 3'd0;
    for (int i = 5; i >= 0; i--) if (types[i]) first = 3'(i);
    for (int i = 0; i < 6; i++) if (types[i] && tag == 3'(i)) return element_type_e'(tag);
    return element_type_e'(first);
  endfunction

  // An element type that is built, as a constant where it is the only one.
  function automatic element_type_e folded_element(input logic [5:0] types,
                                                   input element_type_e element);
    for (int i = 0; i < 6; i++) if (types == (6'd1 << i)) return element_type_e'(3'(i));
    return element;
  endfunction

  function automatic format_t format_of(input element_type_e element);
    format_of.width = 3'b001 << width_log2(element);
    format_of.five = element == ELEMENT_TYPE_FP16 || element == ELEMENT_TYPE_E5M2;
    format_of.four = element == ELEMENT_TYPE_E4M3;
  endfunction

  // A format of one of the types that are built: constant, as far as these agree.
  function automatic format_t folded_format(input logic [5:0] types, input format_t format);
    format_t any, all, one;
    any = '0;
    all = '1;
    for (int i = 0; i < 6; i++) begin
      if (types[i]) begin
        one = format_of(element_type_e'(3'(i)));
        any |= one;
        all &= one;
      end
    end
    return (format & any) | all;
  endfunction

  function automatic logic is_built(input logic [5:0] types, input logic [2:0] tag);
    for (int i = 0; i < 6; i++) if (types[i] && tag == 3'(i)) return 1'b1;
    return 1'b0;
  endfunction

  // a > b, digits of three bits at a time: three LUT6 levels. A comparison by carries, once it is
  // mixed with the logic around it, comes out twice as deep.
  function automatic logic above(input logic [17:0] a, input logic [17:0] b);
    logic [5:0] more;
    logic [5:1] same;
    for (int i = 0; i < 6; i++) begin
      logic [2:0] x, y;
      x = a[3*i+:3];
      y = b[3*i+:3];
      if (i > 0) same[i] = x == y;
      more[i] = (x[2] & ~y[2]) | ((x[2] | ~y[2]) & x[1] & ~y[1]) |
          ((x[2] | ~y[2]) & (x[1] | ~y[1]) & x[0] & ~y[0]);
    end
    return more[5] | (same[5] & more[4]) | (same[5] & same[4] & more[3]) |
        (same[5] & same[4] & same[3] &
         (more[2] | (same[2] & more[1]) | (same[2] & same[1] & more[0])));
  endfunction

endpackage
