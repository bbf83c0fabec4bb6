// SPDX-License-Identifier: Apache-2.0
//
// Types that the modules of the encoder's second pass share (wz_pack and its parts).
//
// A frame is built from four sections behind its first bytes: remainders, low bits, unary and
// escapes. Each is packed at the place in a 64-byte word where the frame wants it, so that the
// assembler only has to join words.

package wz_pack_pkg;

  import wz_format_pkg::*;

  // How carriers become records (docs/format.md, section 6); the same for a whole frame.
  typedef struct packed {
    logic raw;  // the values' bytes as they are; counts are bytes
    logic [5:0] kind;  // element type, a bit each by its tag
    logic sign_flag;
    logic [2:0] plane_flags;
    logic [5:0] start;  // where in a 64-byte word of the frame the section begins
  } record_t;

  // How symbols become codes (sections 7 and 8); the same for a whole frame.
  typedef struct packed {
    element_type_e element;
    coder_e coder;
    wz_pkg::table_bank_t bank;
    logic [7:0] order_lo;  // the interval of ranked symbols
    logic [7:0] order_hi;
    logic [ZERO_RANK_BITS-1:0] zero_rank;
    logic [1:0] low_start;  // where in a word the section begins, in 16 bytes
    logic [1:0] unary_start;
    logic unary_any;  // the section is not empty
    logic [5:0] escape_start;
    logic [ESCAPES_BITS-1:0] escapes;
  } codes_t;

  // The words of a frame that hold bytes of a section.
  typedef struct packed {
    logic any;
    logic [6:0] first;  // word of the first byte
    logic [5:0] start;  // and the byte in it
    logic [6:0] last;  // word of the last byte
    logic [5:0] stop;  // and the byte in it
  } section_t;

  typedef struct packed {
    section_t remainders;
    section_t low;
    section_t unary;
    section_t escapes;
    logic coded;
    mode_e mode;
    logic single;  // the frame is one word
    logic [6:0] last;  // the last word of the frame
    logic [5:0] stop;  // and its last byte
  } frame_layout_t;

  // No single module uses all of what follows.
  // verilator lint_off UNUSEDPARAM

  // The bytes before the sections: header and extras, at most 16 + 32.
  localparam int unsigned HEAD_BYTES = LONG_HEADER_BYTES + 2 * ALIGN_BYTES;

  // Whether a build for `types` (bit = tag) takes `element` for one of type `tag`.
  function automatic logic is_type(input logic [5:0] types, input element_type_e element,
                                   input element_type_e tag);
    // A build for one type does not look at the element.
    return types == 6'(1 << tag) || (types[tag] && element == tag);
  endfunction

  // The same of a type that is known by its bit.
  function automatic logic [5:0] fold_kind(input logic [5:0] types, input logic [5:0] kind);
    return ((types & (types - 6'd1)) == '0) ? types : types & kind;
  endfunction

  localparam logic [5:0] TYPES_1_BYTE = 6'(1 << ELEMENT_TYPE_E4M3 | 1 << ELEMENT_TYPE_E5M2);
  localparam logic [5:0] TYPES_2_BYTES = 6'(1 << ELEMENT_TYPE_BF16 | 1 << ELEMENT_TYPE_FP16);
  localparam logic [5:0] TYPES_4_BYTES = 6'(1 << ELEMENT_TYPE_FP32);

  // Bytes of the narrowest element of `types` that has symbols, as a power of two.
  function automatic int unsigned narrowest(input logic [5:0] types);
    if ((types & TYPES_1_BYTE) != '0) return 0;
    if ((types & TYPES_2_BYTES) != '0) return 1;
    return 2;
  endfunction

  // Values of the smallest beat of `types`.
  function automatic int unsigned beat_values_min(input logic [5:0] types);
    if ((types & TYPES_4_BYTES) != '0) return 16;
    if ((types & TYPES_2_BYTES) != '0) return 32;
    return 64;
  endfunction

  // verilator lint_on UNUSEDPARAM

endpackage
