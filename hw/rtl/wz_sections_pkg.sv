// SPDX-License-Identifier: Apache-2.0
//
// Types inside the decoder's intake: where a packet lies in the rings, and what each reader of the
// rings has to do for it.

package wz_sections_pkg;

  import wz_format_pkg::*;
  import wz_pkg::*;

  // No single module uses them all.
  // verilator lint_off UNUSEDPARAM

  // Beats that a ring holds: at least three frames of the greatest length, so that one can be read
  // while the next is there and the one after it arrives.
  localparam int unsigned RING_BEATS = 256;
  localparam int unsigned ADDRESS_W = $clog2(RING_BEATS);
  // Pointers have one bit more than addresses: a difference tells how far one is ahead.
  localparam int unsigned POINTER_W = ADDRESS_W + 1;
  localparam int unsigned WORD_BYTES = ALIGN_BYTES;
  localparam int unsigned WORDS = BEAT_BYTES / WORD_BYTES;  // a beat
  localparam int unsigned WORD_POINTER_W = POINTER_W + $clog2(WORDS);
  // Beats of the longest frame; of a longer packet only these are kept.
  localparam int unsigned BEATS_MAX = (BLOCK_BYTES_MAX + SHORT_HEADER_BYTES + BEAT_BYTES - 1)
      / BEAT_BYTES;
  // Packets are numbered modulo 64; never so many are between the input and the slowest reader.
  localparam int unsigned PACKET_W = 6;
  localparam int unsigned JOBS = 32;  // depth of the queue before each reader
  localparam int unsigned READERS = 4;
  // Header and extras.
  localparam int unsigned FIRST_BYTES = 48;
  localparam int unsigned PACKET_BYTES_W = 13;  // saturates

  // verilator lint_on UNUSEDPARAM

  typedef struct packed {
    logic [PACKET_W-1:0] packet;
    logic [POINTER_W-1:0] start;  // of its first beat
  } place_t;

  // What has been written: of packet `packet`, the newest, everything before `reached`. Valid in
  // the clock before the memory has it. `ended`: that was its last beat; a new number follows.
  // `wrote`: a beat has come to it.
  typedef struct packed {
    logic [PACKET_W-1:0] packet;
    logic [POINTER_W-1:0] reached;
    logic ended;
    logic wrote;
  } progress_t;

  // The first beat of a packet.
  typedef struct packed {
    logic [8*FIRST_BYTES-1:0] bytes;
    packet_user_t user;
    logic has_short;  // the beat holds a short header
    logic has_long;
    place_t place;
  } first_t;

  // Remainder records, or the payload as it is.
  typedef struct packed {
    place_t place;
    logic [POINTER_W-1:0] ahead;  // the beat after the first two
    logic [6:0] records;  // 0 to 64
    logic [5:0] offset;  // of the first record in the packet, in bytes
    logic [6:0] step;  // bytes of a full record
    logic [6:0] last;  // values (as it is: bytes) of the last record, 1 to 64
    logic split;  // the last record is partial and has several parts
    logic [1:0] parts;  // stored planes and, if there are any, top bits; less one
    logic as_is;
    element_type_e element;
    logic sign_flag;
    logic sign_value;
    logic [2:0] plane_flags;
    logic [23:0] plane_bytes;
  } record_job_t;

  typedef struct packed {
    place_t place;
    logic [WORD_POINTER_W-1:0] word;
    logic [7:0] words;  // 0 to 128
    logic [3:0] last_bytes;  // of the last word; 0: all
  } unary_job_t;

  // How low bits are unpacked.
  typedef struct packed {
    logic two_bits;
    logic [1:0] group_log2;  // values of a group: 8 << group_log2
    logic [9:0] groups;  // of the frame, less one
  } unpack_t;

  // Low bits, and the padding of remainders and low bits: bits from `*_used` up must be zero in the
  // last word of the section (0: the word has no padding).
  typedef struct packed {
    place_t place;
    logic [WORD_POINTER_W-1:0] word;
    logic [7:0] words;  // to read; the first is of the remainders if remainder_used is not 0
    logic [6:0] remainder_used;
    logic [6:0] low_used;
    logic emit;  // the words of the low bits are wanted
    unpack_t unpack;
  } low_job_t;

  typedef struct packed {
    place_t place;
    logic [WORD_POINTER_W-1:0] word;
    logic [4:0] words;
    logic [3:0] shift;  // bytes before the first escape in the first word
    logic flush;  // the last word is not only the end of a quarter: it makes one by itself
  } escape_job_t;

  // Parts of a plan, as the parser comes to know them. The header is as it came.
  typedef struct packed {
    logic [1:0] head_bytes;
    logic [1:0] tail_bytes;
    logic [23:0] head;
    logic [23:0] tail;
    logic [23:0] plane_bytes;
    logic [63:0] stored_beats;
  } plan_extras_t;

  typedef struct packed {
    logic coded;
    logic [12:0] block_bytes;
    logic [12:0] values;
    logic [12:0] stored_values;
    logic [12:0] carriers;
  } plan_counts_t;

  // What the header says, for the verdict on the packet.
  typedef struct packed {
    logic frame;
    logic coded;  // a frame in coded mode
    logic long_header;
    logic bad_version;
    logic bad_fields;
    logic unsupported;
    logic bad_early;  // known from the header alone
    logic bad_extras;  // known from the extras
    logic bad_symbols;  // base, or what must be 0 without symbols
    logic bad_escapes;  // more than allowed
    logic too_long;  // longer than allowed
    logic shorter;  // the frame must be shorter than the block
    logic [12:0] block_bytes;
    logic [1:0] extras_words;
    logic [9:0] low_word;  // first word of the low bits in the frame
    logic [9:0] unary_word;
    logic [13:0] escape_byte;
    logic [13:0] frame_bytes;
  } claim_t;

  // A window on the payload that holds a record, or a part of the last one. Plane p (FP16: top bits
  // as plane 1) begins at byte p * V, but for what `low` says.
  typedef struct packed {
    logic [6:0] bytes;  // of the elements that it becomes
    logic [3:0] set;  // by byte of an element of 4 (of 2: twice): this part gives it its value
    logic last_part;
    // For BF16 alone, all there is to know. 0: as it is, 1: the sign is dropped, 2: the plane is
    // constant, 3: it is stored.
    logic [1:0] choice;
    logic low;  // the highest plane, or the top bits, of FP32 are where plane 1 would be
    element_type_e element;
    logic sign_flag;
    logic sign_value;
    logic [2:0] plane_flags;
    logic [23:0] plane_bytes;
  } window_t;

  // Byte planes and top bits of a remainder whose sign is dropped or not (format.md, section 6).
  function automatic logic [1:0] byte_planes(input element_type_e element, input logic dropped);
    logic [1:0] planes;
    planes = 2'd0;
    for (int t = 0; t < 6; t++) begin
      if (element == element_type_e'(t)) begin
        planes = dropped ? 2'((LAYOUTS[t].remainder_bits - 1) / 8)
                         : 2'(LAYOUTS[t].remainder_bits / 8);
      end
    end
    return planes;
  endfunction

  function automatic logic [2:0] top_bits(input element_type_e element, input logic dropped);
    logic [2:0] bits;
    bits = 3'd0;
    for (int t = 0; t < 6; t++) begin
      if (element == element_type_e'(t)) begin
        bits = dropped ? 3'((LAYOUTS[t].remainder_bits - 1) % 8)
                       : 3'(LAYOUTS[t].remainder_bits % 8);
      end
    end
    return bits;
  endfunction

  // The plan from its parts.
  function automatic plan_t whole_plan(
      input logic [127:0] header, input plan_extras_t extras, input plan_counts_t counts);
    plan_t plan;
    logic long_header;
    plan = '0;
    plan.coded = counts.coded;
    plan.mode = counts.coded ? mode_e'(header[MODE_LSB+:MODE_BITS]) : MODE_RAW;
    long_header = plan.mode == MODE_CODED;
    plan.header = {long_header ? header[127:64] : 64'd0, header[63:0]};
    plan.element = element_type_e'(header[ELEMENT_LSB+:ELEMENT_BITS]);
    plan.block_bytes = counts.block_bytes;
    plan.head_bytes = extras.head_bytes;
    plan.tail_bytes = extras.tail_bytes;
    plan.head = extras.head;
    plan.tail = extras.tail;
    plan.values = counts.values;
    plan.bitmap = header[BITMAP_LSB];
    plan.stored_beats = extras.stored_beats;
    plan.stored_values = counts.stored_values;
    plan.bare_zeros = header[BARE_ZEROS_LSB+:BARE_ZEROS_BITS];
    plan.carriers = counts.carriers;
    plan.sign_flag = header[SIGN_FLAG_LSB];
    plan.sign_value = header[SIGN_VALUE_LSB];
    plan.plane_flags = header[PLANE_FLAGS_LSB+:PLANE_FLAGS_BITS];
    plan.plane_bytes = extras.plane_bytes;
    plan.pattern = header[64+:32];
    for (int i = 1; i < 4; i++) begin
      if (i >= 1 << width_log2(plan.element)) plan.pattern[8*i+:8] = '0;
    end
    plan.base = header[BASE_LSB+:BASE_BITS];
    plan.path = header[PATH_LSB+:PATH_BITS];
    plan.zero_rank = header[ZERO_RANK_LSB+:ZERO_RANK_BITS];
    plan.coder = coder_e'(header[CODER_LSB+:CODER_BITS]);
    plan.unary_bytes = header[UNARY_BYTES_LSB+:UNARY_BYTES_BITS];
    plan.escapes = header[ESCAPES_LSB+:ESCAPES_BITS];
    return plan;
  endfunction

  // A build for one type need not ask which it is.
  function automatic element_type_e built_element(
      input logic [5:0] types, input element_type_e element);
    element_type_e only;
    only = element;
    for (int t = 0; t < 6; t++) if (types == 6'(1 << t)) only = element_type_e'(t);
    return only;
  endfunction

endpackage
