// SPDX-License-Identifier: Apache-2.0
//
// Reads header and extras of a frame: its fields, the place and size of every section, and whether
// it is valid as far as its first beat tells (docs/format.md, sections 2 to 8 and 11).
//
// What comes out is the plan, a job for each reader of the rings, and what the verdict on the packet
// is made of. A frame that cannot be valid is refused: its plan has coded = 0 and block_bytes = 0,
// and its jobs are empty but for the padding that is still looked at, so that the error is the one
// that a decoder finds first which reads the frame from front to back.
//
// The plan comes in three parts, each as soon as it is known, for queues of their own: a packet's
// header, later its extras, at last its counts with everything else.
//
// A packet that is its block and came without a length waits for m_end of wz_intake:
// s_packet_bytes is taken one clock after s_first.
//
//   latency       LATENCY = 16 clocks; 1 to m_header, 6 to m_extras
//   throughput    1 packet a clock
//   back-pressure none

module wz_parse
  import wz_format_pkg::*;
  import wz_pkg::*;
  import wz_sections_pkg::*;
#(
    parameter logic [5:0] TYPES = 6'b111111,
    parameter int unsigned LANES = 32
) (
    input logic clk,
    input logic rst,  // synchronous, active high
    input logic bare,  // static: frames must be shorter than their blocks and not raw

    input first_t                    s_first,
    input logic                      s_valid,
    input logic [PACKET_BYTES_W-1:0] s_packet_bytes,

    output logic [127:0] m_header,
    output logic         m_header_valid,
    output plan_extras_t m_extras,
    output logic         m_extras_valid,

    output plan_counts_t m_counts,
    output record_job_t  m_record,
    output unary_job_t   m_unary,
    output low_job_t     m_low,
    output escape_job_t  m_escape,
    output claim_t       m_claim,
    output logic         m_valid
);

  localparam int unsigned LATENCY = 16;
  localparam int unsigned EXTRAS_LATENCY = 6;
  localparam int unsigned LANES_LOG2 = $clog2(LANES);

  // All that is known of a packet at a stage; what no later stage reads is not built.
  typedef struct packed {
    logic [127:0] header;
    element_type_e element;
    plan_extras_t extras;
    plan_counts_t counts;
    claim_t claim;
    place_t place;
    logic bitmap;
    logic sign_flag;
    logic sign_value;
    logic [2:0] plane_flags;
    coder_e coder;
    logic [UNARY_BYTES_BITS-1:0] unary_bytes;
    logic [ESCAPES_BITS-1:0] escapes;
    logic told;  // the length is known from the header or from beside the packet
    logic unmet;  // another block than expected
    logic cut;  // the packet ends in the header
    logic refuse;
    logic checked;  // the padding is looked at
    logic constant;
    logic [11:0] length;  // of the block, less one
    logic [1:0] phase;
    logic within_head;  // the block ends in its head
    logic [255:0] raw;  // the extras
    logic [31:0] raw_set;  // a byte of them is not zero
    logic [8*9-1:0] bytes;  // what follows the bitmap, then what is left of it
    logic [12:0] rest;  // block without head
    logic [4:0] extras_bytes;
    logic [6:0] full_beats;
    logic [5:0] partial;  // values of the last beat if it is not full
    logic [63:0] beats_mask;
    logic beyond, padding;  // bits where none may be
    logic [7:0][3:0] ones8;
    logic [3:0][4:0] ones16;
    logic [1:0][5:0] ones32;
    logic [6:0] stored;  // beats
    logic partial_stored;
    logic [1:0] planes;  // stored byte planes
    logic [2:0] top;
    logic symbols;  // the type has symbols
    logic ranked;  // there are symbols
    logic base_bad;
    logic no_symbols;  // every field about symbols is 0
    logic negative;  // number of carriers
    logic [8:0] escapes_max;
    logic one_round, two_round;  // the values do not fill their words of low bits
    logic [6:0] low_words;
    logic [15:0] top_a, top_b, top_sum;
    logic top_borrow;
    logic [14:0] plane_a, plane_b, plane_sum;
    logic [12:0] used_bytes;  // of the remainders, without a last partial byte
    logic [2:0] used_bits;
    logic [9:0] remainder_words;
    logic [9:0] ahead;  // words of the frame but the remainders, up to the unary section
    logic [13:0] ahead_bytes;  // the same, and the unary section, in bytes
    logic [13:0] other_bytes;  // of the frame, without the remainders
    logic [12:0] fixed_bytes;  // of a frame that is not coded
    logic [13:0] limit;  // bytes that the frame must not exceed
    logic [6:0] carrier_beats;
    logic [5:0] carriers_left;
    logic carriers_partial;
    logic [6:0] records;
    logic [6:0] last;
    logic [6:0] step;
    logic split;
    logic [1:0] parts;
  } stage_t;

  // Not arrays: synthesis would treat each as one signal of 20,000 bits.
  stage_t d1, d2, d3, d4, d5, d6, d7, d8, d9, d10, d11, d12, d13, d14, d15;
  stage_t q1, q2, q3, q4, q5, q6, q7, q8, q9, q10, q11, q12, q13, q14;
  logic [LATENCY:1] valid_q;

  always_ff @(posedge clk) begin
    q1 <= d1;
    q2 <= d2;
    q3 <= d3;
    q4 <= d4;
    q5 <= d5;
    q6 <= d6;
    q7 <= d7;
    q8 <= d8;
    q9 <= d9;
    q10 <= d10;
    q11 <= d11;
    q12 <= d12;
    q13 <= d13;
    q14 <= d14;
    valid_q <= {valid_q[LATENCY-1:1], s_valid};
    if (rst) valid_q <= '0;
  end

  // As many whole elements as so many bytes hold.
  function automatic logic [12:0] elements(
      input logic [12:0] bytes, input element_type_e element);
    case (width_log2(element))
      2'd1: return {1'b0, bytes[12:1]};
      2'd2: return {2'b0, bytes[12:2]};
      default: return bytes;
    endcase
  endfunction

  function automatic logic [23:0] first_bytes(input logic [23:0] bytes, input logic [1:0] count);
    logic [23:0] kept;
    for (int i = 0; i < 3; i++) kept[8*i+:8] = (2'(i) < count) ? bytes[8*i+:8] : 8'd0;
    return kept;
  endfunction

  function automatic logic [71:0] without(input logic [71:0] bytes, input logic [1:0] count);
    case (count)
      2'd0: return bytes;
      2'd1: return bytes >> 8;
      2'd2: return bytes >> 16;
      default: return bytes >> 24;
    endcase
  endfunction

  // 1: fields, checks that need nothing else.
  always_comb begin : stage_1
    logic [127:0] h;
    logic [7:0] tag_types;
    element_type_e tag, element;  // element: a constant in a build for one type
    mode_e mode;
    logic frame, coded, reference, sign_flag, gaps;
    logic [1:0] phase, phase_used;
    logic [2:0] flags;
    logic [11:0] length;

    d1 = '0;
    h = s_first.bytes[127:0];
    frame = s_first.user.coded;
    mode = frame ? mode_e'(h[MODE_LSB+:MODE_BITS]) : MODE_RAW;
    coded = mode == MODE_CODED;
    reference = mode == MODE_REFERENCE;
    tag = element_type_e'(h[ELEMENT_LSB+:ELEMENT_BITS]);
    element = built_element(TYPES, tag);
    tag_types = {2'b00, TYPES};
    phase = h[PHASE_LSB+:PHASE_BITS];
    phase_used = coded ? phase : 2'd0;
    flags = coded ? h[PLANE_FLAGS_LSB+:PLANE_FLAGS_BITS] : '0;
    sign_flag = h[SIGN_FLAG_LSB] && coded;
    gaps = h[GAPS_LSB];
    length = frame ? h[LENGTH_LSB+:LENGTH_BITS] : s_first.user.length_less_one;

    d1.header = h;
    d1.element = element;
    d1.counts.coded = frame;
    d1.place = s_first.place;
    d1.told = frame || s_first.user.expect_block;
    d1.constant = mode == MODE_CONSTANT;
    d1.cut = frame && (!s_first.has_short || ((coded || reference) && !s_first.has_long));
    d1.length = length;
    d1.phase = phase_used;
    d1.within_head = length[11:2] == '0 && length[1:0] < phase_used;
    d1.bitmap = h[BITMAP_LSB] && coded;
    d1.sign_flag = sign_flag;
    d1.sign_value = h[SIGN_VALUE_LSB] && sign_flag;
    d1.plane_flags = flags;
    d1.coder = coder_e'(h[CODER_LSB+:CODER_BITS]);
    d1.unary_bytes = h[UNARY_BYTES_LSB+:UNARY_BYTES_BITS];
    d1.escapes = h[ESCAPES_LSB+:ESCAPES_BITS];
    d1.raw = s_first.bytes[128+:256];
    d1.bytes = h[BITMAP_LSB] ? s_first.bytes[128+64+:72] : s_first.bytes[128+:72];
    d1.planes = byte_planes(element, sign_flag)
        - (2'(flags[0]) + 2'(flags[1]) + 2'(flags[2]));
    d1.top = top_bits(element, sign_flag);
    d1.symbols = element != ELEMENT_TYPE_RAW;

    // Precedence among errors is that of a decoder that reads from front to back.
    d1.claim.frame = frame;
    d1.claim.coded = coded;
    d1.claim.long_header = coded || reference;
    d1.claim.bad_version = h[VERSION_LSB+:VERSION_BITS] != VERSION_BITS'(FORMAT_VERSION);
    d1.claim.bad_fields = frame
        && (tag > ELEMENT_TYPE_E5M2
            || ((coded || reference) && width_log2(tag) == 2'd0 && phase != 2'd0)
            || ((coded || reference) && width_log2(tag) == 2'd1 && phase[1])
            || (!coded && !reference && (h[15:8] != '0 || h[ZERO_RANK_LSB+:ZERO_RANK_BITS] != '0))
            || (coded && h[RESERVED_LSB+:RESERVED_BITS] != '0)
            || (coded && h[SIGN_VALUE_LSB] && !h[SIGN_FLAG_LSB])
            || (coded && tag == ELEMENT_TYPE_RAW && h[BARE_ZEROS_LSB+:BARE_ZEROS_BITS] != '0)
            || (reference && !gaps && (h[GAP_SHIFT_LSB+:GAP_SHIFT_BITS] != '0
                || h[ENTRIES_LSB+:ENTRIES_BITS] != '0))
            || (reference && gaps && h[BITMAP_LSB]));
    d1.unmet = frame && ((bare && mode == MODE_RAW)
        || (s_first.user.expect_block
            && (s_first.user.element != tag
                || s_first.user.length_less_one != h[LENGTH_LSB+:LENGTH_BITS]
                || ((coded || reference) && s_first.user.phase != phase))));
    d1.claim.unsupported = frame && (reference || !tag_types[tag]);
    d1.claim.shorter = bare && frame;
    // Flags of planes that do not exist, and a sign where there is none.
    case (byte_planes(element, sign_flag))
      2'd0: d1.claim.bad_early = flags != '0;
      2'd1: d1.claim.bad_early = flags[2:1] != '0;
      2'd2: d1.claim.bad_early = flags[2];
      default: d1.claim.bad_early = 1'b0;
    endcase
    if (sign_flag && element == ELEMENT_TYPE_RAW) d1.claim.bad_early = 1'b1;
  end

  // 2: the block without its head.
  always_comb begin : stage_2
    d2 = q1;
    d2.counts.block_bytes = q1.told ? 13'(q1.length) + 13'd1 : s_packet_bytes;
    d2.extras.head_bytes = q1.within_head ? q1.length[1:0] + 2'd1 : q1.phase;
    case (q1.phase)
      2'd0: d2.rest = 13'(q1.length) + 13'd1;
      2'd1: d2.rest = 13'(q1.length);
      2'd2: d2.rest = 13'(q1.length) - 13'd1;
      default: d2.rest = 13'(q1.length) - 13'd2;
    endcase
    if (q1.within_head) d2.rest = '0;
    d2.claim.bad_fields = q1.claim.bad_fields || q1.unmet;
    // A constant must be shorter than its block.
    if (q1.constant && q1.length < 12'(12'd1 << width_log2(q1.element))) d2.claim.bad_early = 1'b1;
    for (int g = 0; g < 8; g++) begin
      d2.ones8[g] = '0;
      for (int i = 0; i < 8; i++) d2.ones8[g] += 4'(q1.raw[8*g+i]);
    end
    for (int i = 0; i < 32; i++) d2.raw_set[i] = q1.raw[8*i+:8] != '0;
  end

  // 3: values, tail and head.
  always_comb begin : stage_3
    d3 = q2;
    d3.counts.values = elements(q2.rest, q2.element);
    d3.full_beats = q2.rest[12:6];
    d3.partial = 6'(elements(13'(q2.rest[5:0]), q2.element));
    case (width_log2(q2.element))
      2'd1: d3.extras.tail_bytes = {1'b0, q2.rest[0]};
      2'd2: d3.extras.tail_bytes = q2.rest[1:0];
      default: d3.extras.tail_bytes = 2'd0;
    endcase
    if (!q2.claim.coded) d3.extras.tail_bytes = 2'd0;
    d3.extras_bytes = {1'b0, q2.bitmap, 3'd0} + 5'(q2.extras.head_bytes)
        + (5'(q2.plane_flags[0]) + 5'(q2.plane_flags[1]) + 5'(q2.plane_flags[2]));
    d3.extras.head = first_bytes(q2.bytes[23:0], q2.extras.head_bytes);
    d3.bytes = without(q2.bytes, q2.extras.head_bytes);
    for (int g = 0; g < 4; g++) d3.ones16[g] = 5'(q2.ones8[2*g]) + 5'(q2.ones8[2*g+1]);
    // Of a block that travels as it is only the length can be wrong.
    if (!q2.claim.frame && (q2.counts.block_bytes == '0
        || q2.counts.block_bytes > 13'(BLOCK_BYTES_MAX))) begin
      d3.claim.bad_fields = 1'b1;
    end
    d3.limit = 14'(q2.counts.block_bytes)
        + (q2.claim.shorter ? 14'h3fff : 14'(SHORT_HEADER_BYTES));
    d3.fixed_bytes = q2.counts.block_bytes
        + (q2.claim.frame ? 13'(SHORT_HEADER_BYTES) : 13'd0);
    if (q2.constant) begin
      d3.fixed_bytes = 13'(SHORT_HEADER_BYTES) + (13'd1 << width_log2(q2.element));
    end
  end

  // 4: the beats that there are; tail.
  always_comb begin : stage_4
    d4 = q3;
    d4.extras_bytes = q3.extras_bytes + 5'(q3.extras.tail_bytes);
    for (int b = 0; b < 64; b++) begin
      d4.beats_mask[b] = q3.full_beats > 7'(b)
          || (q3.full_beats == 7'(b) && q3.partial != '0);
    end
    d4.extras.tail = first_bytes(q3.bytes[23:0], q3.extras.tail_bytes);
    d4.bytes = without(q3.bytes, q3.extras.tail_bytes);
    for (int g = 0; g < 2; g++) d4.ones32[g] = 6'(q3.ones16[2*g]) + 6'(q3.ones16[2*g+1]);
    // Is a last beat of less than V values stored?
    d4.partial_stored = q3.partial != '0 && (!q3.bitmap || q3.raw[8'(q3.full_beats[5:0])]);
  end

  // 5: the beats that are stored; padding of the extras; bytes of constant planes.
  always_comb begin : stage_5
    logic [31:0] padding;
    logic [1:0] below;
    d5 = q4;
    d5.extras.stored_beats = q4.bitmap ? q4.raw[63:0] : q4.beats_mask;
    d5.stored = 7'(q4.ones32[0]) + 7'(q4.ones32[1]);
    for (int i = 0; i < 32; i++) begin
      padding[i] = q4.raw_set[i] && 5'(i) >= q4.extras_bytes
          && (q4.extras_bytes > 5'(WORD_BYTES)
              || (i < int'(WORD_BYTES) && q4.extras_bytes != '0));
    end
    d5.padding = padding != '0;
    d5.beyond = (q4.raw[63:0] & ~q4.beats_mask) != '0;
    d5.claim.extras_words = {q4.extras_bytes > 5'(WORD_BYTES),
        q4.extras_bytes != '0 && q4.extras_bytes <= 5'(WORD_BYTES)};
    for (int p = 0; p < 3; p++) begin
      below = 2'd0;
      for (int i = 0; i < p; i++) below += 2'(q4.plane_flags[i]);
      d5.extras.plane_bytes[8*p+:8] = q4.plane_flags[p] ? q4.bytes[8*below+:8] : 8'd0;
    end
  end

  // 6: stored beats that are full. The extras are known.
  always_comb begin : stage_6
    d6 = q5;
    d6.stored = !q5.bitmap ? q5.full_beats : q5.stored - 7'(q5.partial_stored);
    d6.claim.bad_extras = q5.claim.coded && (q5.padding || (q5.bitmap && q5.beyond));
    d6.base_bad = q5.header[BASE_LSB+:BASE_BITS] == '0;
    for (int t = 0; t < 6; t++) begin
      if (q5.element == element_type_e'(t)
          && (q5.header[BASE_LSB+:BASE_BITS] >> LAYOUTS[t].exponent_bits) != '0) begin
        d6.base_bad = 1'b1;
      end
    end
    d6.no_symbols = q5.header[BASE_LSB+:BASE_BITS] == '0 && q5.header[PATH_LSB+:PATH_BITS] == '0
        && q5.header[ZERO_RANK_LSB+:ZERO_RANK_BITS] == '0 && q5.coder == CODER_R0
        && q5.unary_bytes == '0 && q5.escapes == '0;
  end

  assign m_header = q1.header;
  assign m_header_valid = valid_q[1];
  assign m_extras = q6.extras;
  assign m_extras_valid = valid_q[EXTRAS_LATENCY];

  // 7: stored values: the partial beat adds to zeros.
  always_comb begin : stage_7
    logic [12:0] full;
    d7 = q6;
    case (width_log2(q6.element))
      2'd1: full = {1'b0, q6.stored, 5'd0};
      2'd2: full = {2'b0, q6.stored, 4'd0};
      default: full = {q6.stored, 6'd0};
    endcase
    d7.counts.stored_values = full | 13'(q6.partial_stored ? q6.partial : 6'd0);
  end

  // 8: carriers; are there symbols?
  always_comb begin : stage_8
    d8 = q7;
    {d8.negative, d8.counts.carriers} = 14'(q7.counts.stored_values)
        - 14'(q7.header[BARE_ZEROS_LSB+:BARE_ZEROS_BITS]);
    d8.ranked = q7.symbols && q7.counts.stored_values != '0;
    d8.escapes_max = 9'(q7.counts.stored_values[12:5])
        + 9'(q7.counts.stored_values[4:0] != '0);
    d8.one_round = q7.counts.stored_values[6:0] != '0;
    d8.two_round = q7.counts.stored_values[5:0] != '0;
  end

  // 9: terms of the sums that give the bytes of the remainders; words of low bits.
  always_comb begin : stage_9
    logic [15:0] c;
    logic [6:0] per_beat;
    d9 = q8;
    if (q8.negative && q8.claim.coded) d9.claim.bad_extras = 1'b1;
    c = 16'(q8.counts.carriers);
    // Top bits times carriers as a sum of two terms: 2, 3 = 2 + 1, 4, 7 = 8 - 1
    d9.top_a = '0;
    if (q8.top == 3'd2 || q8.top == 3'd3) d9.top_a = c << 1;
    if (q8.top == 3'd4) d9.top_a = c << 2;
    if (q8.top == 3'd7) d9.top_a = c << 3;
    d9.top_b = (q8.top == 3'd3) ? c : (q8.top == 3'd7) ? ~c : '0;
    d9.top_borrow = q8.top == 3'd7;
    d9.plane_a = q8.planes[1] ? 15'(c << 1) : '0;
    d9.plane_b = q8.planes[0] ? 15'(c) : '0;

    // Records have as many carriers as a beat has values.
    per_beat = 7'(BEAT_BYTES) >> width_log2(q8.element);
    case (width_log2(q8.element))
      2'd1: {d9.carrier_beats, d9.carriers_left} = {c[11:5], 1'b0, c[4:0]};
      2'd2: {d9.carrier_beats, d9.carriers_left} = {c[10:4], 2'b0, c[3:0]};
      default: {d9.carrier_beats, d9.carriers_left} = c[12:0];
    endcase
    d9.parts = q8.planes - 2'(q8.top == '0);
    d9.step = (q8.planes[0] ? per_beat : '0) + (q8.planes[1] ? per_beat << 1 : '0)
        + 7'({q8.top, 3'd0} >> width_log2(q8.element));

    case (CODER_LOW_BITS[q8.coder])
      1: d9.low_words = 7'(q8.counts.stored_values[12:7]) + 7'(q8.one_round);
      2: d9.low_words = q8.counts.stored_values[12:6] + 7'(q8.two_round);
      default: d9.low_words = '0;
    endcase
    if (!q8.ranked) d9.low_words = '0;
    d9.claim.bad_escapes = q8.claim.coded && 9'(q8.escapes) > q8.escapes_max;
    d9.claim.bad_symbols = q8.claim.coded && (q8.ranked ? q8.base_bad : !q8.no_symbols);
  end

  // 10: the sums; is the last record partial?
  always_comb begin : stage_10
    d10 = q9;
    d10.top_sum = q9.top_a + q9.top_b + 16'(q9.top_borrow);
    d10.plane_sum = q9.plane_a + q9.plane_b;
    d10.carriers_partial = q9.carriers_left != '0;
    d10.ahead = 10'd1 + 10'(q9.claim.extras_words) + 10'(q9.low_words);
    d10.other_bytes = 14'(q9.unary_bytes) + 14'(q9.escapes);
    d10.refuse = q9.cut || (q9.claim.frame && q9.claim.bad_version) || q9.claim.bad_fields
        || q9.claim.unsupported || q9.claim.bad_early || q9.claim.bad_extras
        || q9.claim.bad_symbols;
  end

  // 11: bytes of the remainders, without a last partial one; records, or the beats of a payload as
  // it is.
  always_comb begin : stage_11
    d11 = q10;
    d11.used_bytes = 13'(q10.plane_sum) + q10.top_sum[15:3];
    d11.used_bits = q10.top_sum[2:0];
    d11.ahead_bytes = {q10.ahead, 4'd0} + 14'(q10.unary_bytes);
    d11.other_bytes = {q10.ahead, 4'd0} + q10.other_bytes;
    d11.records = q10.carrier_beats + 7'(q10.carriers_partial);
    d11.last = q10.carriers_partial ? {1'b0, q10.carriers_left}
                                    : 7'(BEAT_BYTES) >> width_log2(q10.element);
    d11.split = q10.carriers_partial && q10.parts != '0 && q10.parts != '1;
    if (!q10.claim.coded) begin
      d11.records = q10.counts.block_bytes[12:6] + 7'(q10.counts.block_bytes[5:0] != '0);
      d11.last = {q10.counts.block_bytes[5:0] == '0, q10.counts.block_bytes[5:0]};
      d11.step = 7'(BEAT_BYTES);
      d11.split = 1'b0;
    end
  end

  // 12: words of the remainders.
  always_comb begin : stage_12
    d12 = q11;
    d12.remainder_words = 10'(q11.used_bytes[12:4])
        + 10'(q11.used_bytes[3:0] != '0 || q11.used_bits != '0);
    if (q11.constant) d12.records = '0;
  end

  // 13: where the sections lie.
  always_comb begin : stage_13
    d13 = q12;
    d13.claim.low_word = q12.remainder_words + 10'(2'd1 + q12.claim.extras_words);
    d13.claim.unary_word = q12.ahead + q12.remainder_words;
    d13.claim.escape_byte = q12.ahead_bytes + {q12.remainder_words, 4'd0};
    d13.claim.frame_bytes = q12.claim.coded ? q12.other_bytes + {q12.remainder_words, 4'd0}
                                            : 14'(q12.fixed_bytes);
    d13.claim.block_bytes = q12.counts.block_bytes;
  end

  // 14: the last check.
  always_comb begin : stage_14
    d14 = q13;
    d14.claim.too_long = q13.claim.frame && q13.claim.frame_bytes > q13.limit;
  end

  // 15: refused or not. Padding is looked at also where only what comes behind it is wrong: a
  // decoder that reads from front to back finds it first.
  always_comb begin : stage_15
    d15 = q14;
    d15.refuse = q14.refuse || q14.claim.too_long || q14.claim.bad_escapes;
    d15.checked = q14.claim.coded && !q14.refuse;
  end

  // 16: the jobs.
  // Fields that only the stages need end here.
  // verilator lint_off UNUSEDSIGNAL
  stage_t q15;
  // verilator lint_on UNUSEDSIGNAL
  logic ranked, escaped, remainder_padded, low_padded;
  logic [6:0] low_used;
  logic [4:0] escape_words, quarters;
  logic [WORD_POINTER_W-1:0] start;

  always_ff @(posedge clk) q15 <= d15;

  always_comb begin
    start = {q15.place.start, 2'b00};
    ranked = q15.claim.coded && q15.ranked && !q15.refuse;
    escaped = ranked && q15.escapes != '0;
    remainder_padded = q15.checked && {q15.used_bytes[3:0], q15.used_bits} != '0;
    low_padded = q15.checked && q15.low_words != '0;
    low_used = (CODER_LOW_BITS[q15.coder] == 2) ? {q15.counts.stored_values[5:0], 1'b0}
                                                : q15.counts.stored_values[6:0];
    // 16-byte words that the escapes touch, and that they fill.
    escape_words = 5'((9'(q15.escapes) + 9'(q15.claim.escape_byte[3:0]) + 9'd15) >> 4);
    quarters = 5'((9'(q15.escapes) + 9'd15) >> 4);
  end

  // Groups of values, less one: of at most LANES, and of the values of a beat.
  logic [12:0] values_less_one;
  logic [9:0] groups4, groups5, groups6;
  assign values_less_one = q15.counts.stored_values - 13'd1;
  assign groups4 = 10'(values_less_one >> (LANES_LOG2 < 4 ? LANES_LOG2 : 4));
  assign groups5 = 10'(values_less_one >> (LANES_LOG2 < 5 ? LANES_LOG2 : 5));
  assign groups6 = 10'(values_less_one >> (LANES_LOG2 < 6 ? LANES_LOG2 : 6));

  plan_counts_t counts_q;
  record_job_t record_q;
  unary_job_t unary_q;
  low_job_t low_q;
  escape_job_t escape_q;
  claim_t claim_q;

  assign m_valid = valid_q[LATENCY];
  assign m_counts = counts_q;
  assign m_record = record_q;
  assign m_unary = unary_q;
  assign m_low = low_q;
  assign m_escape = escape_q;
  assign m_claim = claim_q;

  always_ff @(posedge clk) begin
    counts_q <= q15.counts;
    if (q15.refuse) begin
      counts_q.coded <= 1'b0;
      counts_q.block_bytes <= '0;
    end

    claim_q <= q15.claim;

    record_q <= '{
        place: q15.place,
        ahead: q15.place.start + POINTER_W'(2),
        records: q15.refuse ? '0 : q15.records,
        offset: !q15.claim.frame ? 6'd0
            : q15.claim.coded ? {q15.claim.extras_words + 2'd1, 4'd0} : 6'(SHORT_HEADER_BYTES),
        step: q15.step,
        last: q15.last,
        split: q15.split,
        parts: q15.parts,
        as_is: !q15.claim.coded,
        element: q15.element,
        sign_flag: q15.sign_flag,
        sign_value: q15.sign_value,
        plane_flags: q15.plane_flags,
        plane_bytes: q15.extras.plane_bytes
    };

    unary_q <= '{
        place: q15.place,
        word: start + WORD_POINTER_W'(q15.claim.unary_word),
        words: !ranked ? '0 : 8'(q15.unary_bytes[10:4]) + 8'(q15.unary_bytes[3:0] != '0),
        last_bytes: q15.unary_bytes[3:0]
    };

    low_q <= '{
        place: q15.place,
        word: start + WORD_POINTER_W'(q15.claim.low_word) - WORD_POINTER_W'(remainder_padded),
        words: (low_padded ? 8'(q15.low_words) : 8'd0) + 8'(remainder_padded),
        remainder_used: remainder_padded ? {q15.used_bytes[3:0], q15.used_bits} : '0,
        low_used: low_padded ? low_used : '0,
        emit: !q15.refuse,
        unpack: '{
            two_bits: CODER_LOW_BITS[q15.coder] == 2,
            group_log2: '0,
            groups: '0
        }
    };
    unique case (width_log2(q15.element))
      2'd1: begin
        low_q.unpack.group_log2 <= 2'((LANES_LOG2 < 5 ? LANES_LOG2 : 5) - 3);
        low_q.unpack.groups <= groups5;
      end
      2'd2: begin
        low_q.unpack.group_log2 <= 2'((LANES_LOG2 < 4 ? LANES_LOG2 : 4) - 3);
        low_q.unpack.groups <= groups4;
      end
      default: begin
        low_q.unpack.group_log2 <= 2'((LANES_LOG2 < 6 ? LANES_LOG2 : 6) - 3);
        low_q.unpack.groups <= groups6;
      end
    endcase

    escape_q <= '{
        place: q15.place,
        word: start + WORD_POINTER_W'(q15.claim.escape_byte[13:4]),
        words: escaped ? escape_words : '0,
        shift: q15.claim.escape_byte[3:0],
        flush: escape_words == quarters
    };
  end

endmodule
