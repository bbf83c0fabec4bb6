// SPDX-License-Identifier: Apache-2.0
//
// Types that the modules of the engine share.
//
// A plan is what the encoder decided about a block, and what the decoder read about it in a frame:
// the fields of the header (docs/format.md, section 4) and the sizes that follow from them.

package wz_pkg;

  import wz_format_pkg::*;

  // Why a packet was refused. A marked packet carries one of these in tuser at tlast.
  typedef enum logic [1:0] {
    ERROR_NONE = 2'd0,
    ERROR_TRUNCATED = 2'd1,  // the packet ends before the frame does
    ERROR_CORRUPT = 2'd2,  // not a valid frame, or not the one that the receiver expects
    ERROR_UNSUPPORTED = 2'd3  // another version, reference mode, or a type that is not built
  } error_e;

  // Beside a block, sampled at its first beat, at the encoder's input.
  typedef struct packed {
    logic code;  // 0: leave the block as it is
    logic [PHASE_BITS-1:0] phase;
    element_type_e element;
  } block_user_t;

  // Beside a packet, sampled at its first beat, at the decoder's input. With `expect_block`, a frame
  // of another element type, length or (coded frames) phase is corrupt.
  typedef struct packed {
    logic [LENGTH_BITS-1:0] length_less_one;
    logic [PHASE_BITS-1:0] phase;
    element_type_e element;
    logic expect_block;
    logic coded;  // 0: the packet is the block itself
  } packet_user_t;

  typedef struct packed {
    logic [127:0] header;  // as on the wire; bits 64 and up are 0 in a short header
    mode_e mode;
    element_type_e element;
    logic coded;  // 0: the payload is the block itself, without a frame (mode is MODE_RAW)
    logic [12:0] block_bytes;  // 1 to 4096
    logic [1:0] head_bytes;
    logic [1:0] tail_bytes;
    logic [23:0] head;  // first byte lowest, zero above
    logic [23:0] tail;
    logic [12:0] values;  // n
    logic bitmap;  // a zero-beat bitmap is present
    logic [63:0] stored_beats;  // bit b: beat b is stored; all beats of the block without a bitmap
    logic [12:0] stored_values;  // m
    logic [12:0] bare_zeros;
    logic [12:0] carriers;  // c = m - bare zeros
    logic sign_flag;
    logic sign_value;
    logic [2:0] plane_flags;
    logic [23:0] plane_bytes;  // plane p, if flagged, in bits 8p to 8p+7; zero otherwise
    logic [31:0] pattern;  // the element of a constant block, first byte lowest
    logic [BASE_BITS-1:0] base;
    logic [PATH_BITS-1:0] path;
    logic [ZERO_RANK_BITS-1:0] zero_rank;
    coder_e coder;
    logic [UNARY_BYTES_BITS-1:0] unary_bytes;
    logic [ESCAPES_BITS-1:0] escapes;
    logic [5:0] extras_bytes;  // without padding, at most 17
    logic [12:0] remainder_bytes;  // without padding
    logic [10:0] low_bytes;  // without padding
    logic [12:0] frame_bytes;  // of the whole payload: 9 to 4104 for a frame
  } plan_t;

  // Rank tables of blocks between their walk and the end of their second pass: so many that blocks of a
  // KiB follow each other as fast as they are walked.
  localparam int unsigned TABLE_BANKS = 4;
  typedef logic [$clog2(TABLE_BANKS)-1:0] table_bank_t;

  // Bytes of an element, as a power of two.
  function automatic logic [1:0] width_log2(input element_type_e element);
    case (element)
      ELEMENT_TYPE_BF16, ELEMENT_TYPE_FP16: return 2'd1;
      ELEMENT_TYPE_FP32: return 2'd2;
      default: return 2'd0;
    endcase
  endfunction

endpackage
