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
// A packet that is its block and came without a length waits for m_end of wz_intake:
// s_packet_bytes is taken one clock after s_first.
//
//   latency       LATENCY = 13 clocks
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

    input first_t                     s_first,
    input logic                       s_valid,
    input logic [PACKET_BYTES_W-1:0]  s_packet_bytes,

    output plan_t       m_plan,
    output record_job_t m_record,
    output unary_job_t  m_unary,
    output low_job_t    m_low,
    output unpack_job_t m_unpack,
    output logic        m_unpack_valid,
    output escape_job_t m_escape,
    output claim_t      m_claim,
    output logic        m_valid
);

  localparam int unsigned LATENCY = 13;
  localparam int unsigned LANES_LOG2 = $clog2(LANES);

  // All that is known of a packet at a stage; what no later stage reads is not built.
  typedef struct packed {
    plan_t plan;
    claim_t claim;
    place_t place;
    logic told;  // the length is known from the header or from beside the packet
    logic unmet;  // another block than expected
    logic cut;  // the packet ends in the header
    logic refuse;
    logic checked;  // the padding is looked at
    logic coded;  // a frame in coded mode
    logic constant;
    logic [8*32-1:0] extras;
    logic [31:0] extra_set;  // a byte of the extras is not zero
    logic [8*9-1:0] bytes;  // extras behind the bitmap, then what is left of them
    logic [12:0] rest;  // block without head
    logic [4:0] extras_bytes;
    logic [6:0] full_beats;
    logic [5:0] partial;  // values of the last beat if it is not full
    logic [63:0] beats_mask;
    logic [7:0][3:0] ones8;
    logic [1:0][5:0] ones32;
    logic [6:0] stored;  // beats
    logic partial_stored;
    logic [1:0] planes;  // stored byte planes
    logic [2:0] top;
    logic symbols;  // the type has symbols
    logic ranked;  // there are symbols
    logic base_bad;
    logic no_symbols;  // every field about symbols is 0
    logic [8:0] escapes_max;
    logic [7:0] low_words;
    logic [15:0] top_a, top_b, top_sum;
    logic [14:0] plane_a, plane_b, plane_sum;
    logic [12:0] used_bytes;  // of the remainders, without a last partial byte
    logic [2:0] used_bits;
    logic [9:0] remainder_words;
    logic [9:0] ahead;  // words of the frame but the remainders, up to the unary section
    logic [13:0] ahead_bytes;  // the same, and the unary section, in bytes
    logic [13:0] other_bytes;  // of the frame, without the remainders
    logic [12:0] fixed_bytes;  // of a frame that is not coded
    logic [13:0] limit;  // bytes that the frame must not exceed
    logic [6:0] records;
    logic [6:0] last;
    logic [6:0] step;
    logic split;
    logic [1:0] parts;
  } stage_t;

  // Not arrays: synthesis would treat each as one signal of 20,000 bits.
  stage_t d1, d2, d3, d4, d5, d6, d7, d8, d9, d10, d11, d12, d13;
  stage_t q1, q2, q3, q4, q5, q6, q7, q8, q9, q10, q11, q12, q13;
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
    valid_q <= {valid_q[LATENCY-1:1], s_valid};
    if (rst) valid_q <= '0;
  end

  // Elements of W bytes: how many are so many bytes.
  function automatic logic [12:0] elements(
      input logic [12:0] bytes, input element_type_e element);
    case (width_log2(element))
      2'd1: return {1'b0, bytes[12:1]};
      2'd2: return {2'b0, bytes[12:2]};
      default: return bytes;
    endcase
  endfunction

  // 1: fields, checks that need nothing else.
  always_comb begin : stage_1
    logic [127:0] h;
    logic [7:0] tag_types;
    element_type_e tag, element;  // element: a constant in a build for one type
    mode_e mode;
    logic frame, coded, reference, sign_flag, gaps, phase_bad;
    logic [1:0] phase, phase_used, width;
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
    width = width_log2(element);
    phase = h[PHASE_LSB+:PHASE_BITS];
    phase_used = coded ? phase : 2'd0;
    flags = coded ? h[PLANE_FLAGS_LSB+:PLANE_FLAGS_BITS] : '0;
    sign_flag = h[SIGN_FLAG_LSB] && coded;
    gaps = h[GAPS_LSB];
    length = frame ? h[LENGTH_LSB+:LENGTH_BITS] : s_first.user.length_less_one;

    d1.place = s_first.place;
    d1.told = frame || s_first.user.expect_block;
    d1.coded = coded;
    d1.constant = mode == MODE_CONSTANT;
    d1.cut = frame
        && (!s_first.has_short || ((coded || reference) && !s_first.has_long));

    d1.plan.header = h;
    d1.plan.mode = mode;
    d1.plan.element = element;
    d1.plan.coded = frame;
    d1.plan.block_bytes = 13'(length) + 13'd1;
    d1.plan.bitmap = h[BITMAP_LSB] && coded;
    d1.plan.bare_zeros = h[BARE_ZEROS_LSB+:BARE_ZEROS_BITS];
    d1.plan.sign_flag = sign_flag;
    d1.plan.sign_value = h[SIGN_VALUE_LSB] && sign_flag;
    d1.plan.plane_flags = flags;
    d1.plan.pattern = h[8*SHORT_HEADER_BYTES+:32];
    d1.plan.base = h[BASE_LSB+:BASE_BITS];
    d1.plan.path = h[PATH_LSB+:PATH_BITS];
    d1.plan.zero_rank = h[ZERO_RANK_LSB+:ZERO_RANK_BITS];
    d1.plan.coder = coder_e'(h[CODER_LSB+:CODER_BITS]);
    d1.plan.unary_bytes = h[UNARY_BYTES_LSB+:UNARY_BYTES_BITS];
    d1.plan.escapes = h[ESCAPES_LSB+:ESCAPES_BITS];

    // The head, and what follows it.
    if (length[11:2] == '0 && length[1:0] < phase_used) begin
      d1.plan.head_bytes = length[1:0] + 2'd1;
      d1.rest = '0;
    end else begin
      d1.plan.head_bytes = phase_used;
      case (phase_used)
        2'd0: d1.rest = 13'(length) + 13'd1;
        2'd1: d1.rest = 13'(length);
        2'd2: d1.rest = 13'(length) - 13'd1;
        default: d1.rest = 13'(length) - 13'd2;
      endcase
    end
    d1.extras = s_first.bytes[128+:256];
    d1.bytes = h[BITMAP_LSB] ? s_first.bytes[128+64+:72] : s_first.bytes[128+:72];
    d1.planes = byte_planes(element, sign_flag)
        - 2'(3'(flags[0]) + 3'(flags[1]) + 3'(flags[2]));
    d1.top = top_bits(element, sign_flag);
    d1.symbols = element != ELEMENT_TYPE_RAW;

    // Precedence among errors is that of a decoder that reads from front to back.
    phase_bad = (coded || reference)
        && ((width_log2(tag) == 2'd0 && phase != 2'd0) || (width_log2(tag) == 2'd1 && phase[1]));
    d1.claim.frame = frame;
    d1.claim.coded = coded;
    d1.claim.long_header = coded || reference;
    d1.claim.bad_version = h[VERSION_LSB+:VERSION_BITS] != VERSION_BITS'(FORMAT_VERSION);
    d1.claim.bad_fields = frame
        && (tag > ELEMENT_TYPE_E5M2 || phase_bad
            || (!coded && !reference && (h[15:8] != '0 || h[ZERO_RANK_LSB+:ZERO_RANK_BITS] != '0))
            || (coded && h[RESERVED_LSB+:RESERVED_BITS] != '0)
            || (coded && h[SIGN_VALUE_LSB] && !h[SIGN_FLAG_LSB])
            || (coded && tag == ELEMENT_TYPE_RAW
                && h[BARE_ZEROS_LSB+:BARE_ZEROS_BITS] != '0)
            || (reference && !gaps && (h[GAP_SHIFT_LSB+:GAP_SHIFT_BITS] != '0
                || h[ENTRIES_LSB+:ENTRIES_BITS] != '0))
            || (reference && gaps && h[BITMAP_LSB]));
    d1.unmet = frame && ((bare && mode == MODE_RAW)
        || (s_first.user.expect_block
            && (s_first.user.element != tag
                || s_first.user.length_less_one != length
                || ((coded || reference) && s_first.user.phase != phase))));
    d1.claim.unsupported = frame && (reference || !tag_types[tag]);
    d1.claim.shorter = bare && frame;
    // Flags of planes that do not exist; a sign where there is none; a constant no shorter than its
    // block.
    case (byte_planes(element, sign_flag))
      2'd0: d1.claim.bad_early = flags != '0;
      2'd1: d1.claim.bad_early = flags[2:1] != '0;
      2'd2: d1.claim.bad_early = flags[2];
      default: d1.claim.bad_early = 1'b0;
    endcase
    if (sign_flag && element == ELEMENT_TYPE_RAW) d1.claim.bad_early = 1'b1;
    if (mode == MODE_CONSTANT && length < 12'(1 << width)) d1.claim.bad_early = 1'b1;
  end

  // 2: values, tail, head; ones of the bitmap.
  always_comb begin : stage_2
    logic [12:0] payload_bytes;
    d2 = q1;
    payload_bytes = q1.told ? q1.plan.block_bytes : s_packet_bytes;
    d2.plan.block_bytes = payload_bytes;
    d2.claim.bad_fields = q1.claim.bad_fields || q1.unmet;
    d2.plan.values = elements(q1.rest, q1.plan.element);
    d2.full_beats = q1.rest[12:6];
    d2.partial = 6'(elements(13'(q1.rest[5:0]), q1.plan.element));
    case (width_log2(q1.plan.element))
      2'd1: d2.plan.tail_bytes = {1'b0, q1.rest[0]};
      2'd2: d2.plan.tail_bytes = q1.rest[1:0];
      default: d2.plan.tail_bytes = 2'd0;
    endcase
    if (!q1.coded) d2.plan.tail_bytes = 2'd0;
    d2.extras_bytes = {1'b0, q1.plan.bitmap, 3'd0} + 5'(q1.plan.head_bytes)
        + 5'(q1.plan.plane_flags[0]) + 5'(q1.plan.plane_flags[1])
        + 5'(q1.plan.plane_flags[2]);
    for (int g = 0; g < 8; g++) begin
      d2.ones8[g] = '0;
      for (int i = 0; i < 8; i++) d2.ones8[g] += 4'(q1.extras[8*g+i]);
    end
    for (int i = 0; i < 32; i++) d2.extra_set[i] = q1.extras[8*i+:8] != '0;
    for (int i = 0; i < 3; i++) begin
      d2.plan.head[8*i+:8] = (i < int'(q1.plan.head_bytes)) ? q1.bytes[8*i+:8] : 8'd0;
    end
    case (q1.plan.head_bytes)
      2'd0: d2.bytes = q1.bytes;
      2'd1: d2.bytes = q1.bytes >> 8;
      2'd2: d2.bytes = q1.bytes >> 16;
      default: d2.bytes = q1.bytes >> 24;
    endcase
    // Of a block that travels as it is only the length is wrong, if anything.
    if (!q1.plan.coded && (payload_bytes == '0
        || payload_bytes > 13'(BLOCK_BYTES_MAX))) begin
      d2.claim.bad_fields = 1'b1;
    end
  end

  // 3: the beats that there are; tail.
  always_comb begin : stage_3
    logic [12:0] limit;
    d3 = q2;
    d3.extras_bytes = q2.extras_bytes + 5'(q2.plan.tail_bytes);
    for (int b = 0; b < 64; b++) begin
      d3.beats_mask[b] = q2.full_beats > 7'(b)
          || (q2.full_beats == 7'(b) && q2.partial != '0);
    end
    for (int i = 0; i < 3; i++) begin
      d3.plan.tail[8*i+:8] = (i < int'(q2.plan.tail_bytes)) ? q2.bytes[8*i+:8] : 8'd0;
    end
    case (q2.plan.tail_bytes)
      2'd0: d3.bytes = q2.bytes;
      2'd1: d3.bytes = q2.bytes >> 8;
      2'd2: d3.bytes = q2.bytes >> 16;
      default: d3.bytes = q2.bytes >> 24;
    endcase
    for (int g = 0; g < 2; g++) begin
      d3.ones32[g] = (6'(q2.ones8[4*g]) + 6'(q2.ones8[4*g+1]))
          + (6'(q2.ones8[4*g+2]) + 6'(q2.ones8[4*g+3]));
    end
    limit = q2.plan.block_bytes;
    d3.limit = q2.claim.shorter ? 14'(limit) - 14'd1
                                    : 14'(limit) + 14'(SHORT_HEADER_BYTES);
    d3.fixed_bytes = !q2.plan.coded ? limit : limit + 13'(SHORT_HEADER_BYTES);
    if (q2.constant) begin
      d3.fixed_bytes = 13'(SHORT_HEADER_BYTES) + (13'd1 << width_log2(q2.plan.element));
    end
  end

  // 4: the beats that are stored; padding of the extras; bytes of constant planes.
  always_comb begin : stage_4
    logic [31:0] padding;
    logic [1:0] below;
    d4 = q3;
    d4.plan.stored_beats = q3.plan.bitmap ? q3.extras[63:0] : q3.beats_mask;
    d4.stored = 7'(q3.ones32[0]) + 7'(q3.ones32[1]);
    d4.partial_stored = q3.partial != '0
        && (!q3.plan.bitmap || q3.extras[8'(q3.full_beats[5:0])]);
    for (int i = 0; i < 32; i++) begin
      padding[i] = q3.extra_set[i] && 5'(i) >= q3.extras_bytes
          && (q3.extras_bytes > 5'd16 || (i < 16 && q3.extras_bytes != '0));
    end
    d4.claim.bad_extras = q3.coded && (padding != '0
        || (q3.plan.bitmap && (q3.extras[63:0] & ~q3.beats_mask) != '0));
    d4.claim.extras_words = {q3.extras_bytes > 5'd16,
        q3.extras_bytes != '0 && q3.extras_bytes <= 5'd16};
    for (int p = 0; p < 3; p++) begin
      below = 2'd0;
      for (int i = 0; i < p; i++) below += 2'(q3.plan.plane_flags[i]);
      d4.plan.plane_bytes[8*p+:8] =
          q3.plan.plane_flags[p] ? q3.bytes[8*below+:8] : 8'd0;
    end
  end

  // 5: stored beats that are full.
  always_comb begin : stage_5
    d5 = q4;
    d5.stored = !q4.plan.bitmap ? q4.full_beats
        : q4.partial_stored ? q4.stored - 7'd1 : q4.stored;
  end

  // 6: stored values. What symbols there are is a matter of the type and of them.
  always_comb begin : stage_6
    logic [12:0] full;
    d6 = q5;
    case (width_log2(q5.plan.element))
      2'd1: full = {1'b0, q5.stored, 5'd0};
      2'd2: full = {2'b0, q5.stored, 4'd0};
      default: full = {q5.stored, 6'd0};
    endcase
    d6.plan.stored_values = full | 13'(q5.partial_stored ? q5.partial : 6'd0);
    d6.base_bad = q5.plan.base == '0;
    for (int t = 0; t < 6; t++) begin
      if (q5.plan.element == element_type_e'(t)
          && (q5.plan.base >> LAYOUTS[t].exponent_bits) != '0) begin
        d6.base_bad = 1'b1;
      end
    end
    d6.no_symbols = q5.plan.base == '0 && q5.plan.path == '0 && q5.plan.zero_rank == '0
        && q5.plan.coder == CODER_R0 && q5.plan.unary_bytes == '0
        && q5.plan.escapes == '0;
  end

  // 7: carriers; words of low bits.
  always_comb begin : stage_7
    logic [13:0] carriers;
    d7 = q6;
    carriers = 14'(q6.plan.stored_values) - 14'(q6.plan.bare_zeros);
    d7.plan.carriers = carriers[12:0];
    if (carriers[13] && q6.coded) d7.claim.bad_extras = 1'b1;
    d7.ranked = q6.symbols && q6.plan.stored_values != '0;
    d7.escapes_max = 9'(q6.plan.stored_values[12:5])
        + 9'(q6.plan.stored_values[4:0] != '0);
    case (CODER_LOW_BITS[q6.plan.coder])
      1: d7.low_words = 8'(q6.plan.stored_values[12:7])
          + 8'(q6.plan.stored_values[6:0] != '0);
      2: d7.low_words = 8'(q6.plan.stored_values[12:6])
          + 8'(q6.plan.stored_values[5:0] != '0);
      default: d7.low_words = '0;
    endcase
  end

  // 8: terms of the sums that give the bytes of the remainders; records.
  always_comb begin : stage_8
    logic [15:0] c;
    logic [6:0] beats;
    logic [5:0] left;
    logic [6:0] per_beat;
    d8 = q7;
    c = 16'(q7.plan.carriers);
    // top bits times carriers as a sum of two terms: 2, 3 = 2 + 1, 4, 7 = 8 - 1
    d8.top_a = '0;
    if (q7.top == 3'd2 || q7.top == 3'd3) d8.top_a = c << 1;
    if (q7.top == 3'd4) d8.top_a = c << 2;
    if (q7.top == 3'd7) d8.top_a = c << 3;
    d8.top_b = (q7.top == 3'd3) ? c : (q7.top == 3'd7) ? -c : '0;
    d8.plane_a = q7.planes[1] ? 15'(c << 1) : '0;
    d8.plane_b = q7.planes[0] ? 15'(c) : '0;

    // Records have as many carriers as a beat has values.
    per_beat = 7'(BEAT_BYTES) >> width_log2(q7.plan.element);
    case (width_log2(q7.plan.element))
      2'd1: {beats, left} = {q7.plan.carriers[11:5], 1'b0, q7.plan.carriers[4:0]};
      2'd2: {beats, left} = {q7.plan.carriers[10:4], 2'b0, q7.plan.carriers[3:0]};
      default: {beats, left} = {q7.plan.carriers[12:6], q7.plan.carriers[5:0]};
    endcase
    d8.records = beats + 7'(left != '0);
    d8.last = (left != '0) ? {1'b0, left} : per_beat;
    d8.parts = q7.planes - 2'(q7.top == '0);
    d8.split = left != '0 && d8.parts != '0 && d8.parts != '1;
    d8.step = (q7.planes[0] ? per_beat : '0) + (q7.planes[1] ? per_beat << 1 : '0)
        + 7'({q7.top, 3'd0} >> width_log2(q7.plan.element));
    d8.claim.bad_escapes = 9'(q7.plan.escapes) > q7.escapes_max;
    d8.claim.bad_symbols = q7.ranked ? q7.base_bad : !q7.no_symbols;
    if (!q7.coded) begin
      d8.claim.bad_escapes = 1'b0;
      d8.claim.bad_symbols = 1'b0;
    end
    if (!q7.ranked) d8.low_words = '0;
    d8.ahead = 10'd1 + 10'(q7.claim.extras_words)
        + 10'(q7.ranked ? q7.low_words : 8'd0);
  end

  // 9: the sums; what a payload as it is needs.
  always_comb begin : stage_9
    d9 = q8;
    d9.top_sum = q8.top_a + q8.top_b;
    d9.plane_sum = q8.plane_a + q8.plane_b;
    d9.ahead_bytes = {q8.ahead, 4'd0} + 14'(q8.plan.unary_bytes);
    d9.other_bytes = 14'(q8.plan.unary_bytes) + 14'(q8.plan.escapes);
    if (!q8.coded) begin
      d9.records = 7'(q8.plan.block_bytes[12:6]) + 7'(q8.plan.block_bytes[5:0] != '0);
      d9.last = {q8.plan.block_bytes[5:0] == '0, q8.plan.block_bytes[5:0]};
      d9.step = 7'(BEAT_BYTES);
      d9.split = 1'b0;
    end
    if (q8.constant) d9.records = '0;
    d9.refuse = q8.cut || (q8.claim.frame && q8.claim.bad_version)
        || q8.claim.bad_fields || q8.claim.unsupported || q8.claim.bad_early
        || q8.claim.bad_extras || q8.claim.bad_symbols;
  end

  // 10: bytes of the remainders, without a last partial one.
  always_comb begin : stage_10
    d10 = q9;
    d10.used_bytes = 13'(q9.plane_sum) + q9.top_sum[15:3];
    d10.used_bits = q9.top_sum[2:0];
    d10.other_bytes = {q9.ahead, 4'd0} + q9.other_bytes;
  end

  // 11: words of the remainders.
  always_comb begin : stage_11
    d11 = q10;
    d11.remainder_words = 10'(q10.used_bytes[12:4])
        + 10'(q10.used_bytes[3:0] != '0 || q10.used_bits != '0);
  end

  // 12: where the sections lie.
  always_comb begin : stage_12
    d12 = q11;
    d12.claim.low_word = 10'd1 + 10'(q11.claim.extras_words) + q11.remainder_words;
    d12.claim.unary_word = q11.ahead + q11.remainder_words;
    d12.claim.escape_byte = q11.ahead_bytes + {q11.remainder_words, 4'd0};
    d12.claim.frame_bytes = q11.coded ? q11.other_bytes + {q11.remainder_words, 4'd0}
                                          : 14'(q11.fixed_bytes);
    d12.claim.block_bytes = q11.plan.block_bytes;
  end

  // 13: the last check.
  always_comb begin : stage_13
    d13 = q12;
    d13.claim.too_long = q12.claim.frame && q12.claim.frame_bytes > q12.limit;
    d13.refuse = q12.refuse || d13.claim.too_long || q12.claim.bad_escapes;
    d13.checked = q12.coded && !q12.refuse;
  end

  // The jobs.
  // Fields that only the stages need end here.
  // verilator lint_off UNUSEDSIGNAL
  stage_t last;
  // verilator lint_on UNUSEDSIGNAL
  logic unary, escapes, remainder_padded, low_padded;
  logic [6:0] low_used;
  logic [3:0] escape_shift;
  logic [8:0] escape_end;

  assign last = q13;
  assign m_valid = valid_q[LATENCY];
  assign unary = last.coded && last.ranked && !last.refuse;
  assign escapes = unary && last.plan.escapes != '0;

  always_comb begin
    m_plan = last.plan;
    if (!last.claim.long_header) m_plan.header[127:64] = '0;
    for (int i = 1; i < 4; i++) begin
      if (i >= 1 << width_log2(last.plan.element)) m_plan.pattern[8*i+:8] = '0;
    end
    // Only the intake needs these.
    m_plan.extras_bytes = '0;
    m_plan.remainder_bytes = '0;
    m_plan.low_bytes = '0;
    m_plan.frame_bytes = '0;
    if (last.refuse) begin
      m_plan.coded = 1'b0;
      m_plan.block_bytes = '0;
    end
  end

  always_comb begin
    m_claim = last.claim;
    m_record = '{
        place: last.place,
        records: last.refuse ? '0 : last.records,
        offset: !last.claim.frame ? 6'd0
            : last.coded ? {last.claim.extras_words + 2'd1, 4'd0} : 6'(SHORT_HEADER_BYTES),
        step: last.step,
        last: last.last,
        split: last.split,
        parts: last.parts,
        as_is: !last.coded,
        element: last.plan.element,
        sign_flag: last.plan.sign_flag,
        sign_value: last.plan.sign_value,
        plane_flags: last.plan.plane_flags,
        plane_bytes: last.plan.plane_bytes
    };
    m_unary = '{
        place: last.place,
        word: {last.place.start, 2'b00} + WORD_POINTER_W'(last.claim.unary_word),
        words: !unary ? '0
            : 8'(last.plan.unary_bytes[10:4]) + 8'(last.plan.unary_bytes[3:0] != '0),
        last_bytes: last.plan.unary_bytes[3:0]
    };
  end

  // Padding is looked at also where only what comes behind it is wrong: a decoder that reads from
  // front to back finds it first.
  assign remainder_padded = last.checked && {last.used_bytes[3:0], last.used_bits} != '0;
  assign low_used = (CODER_LOW_BITS[last.plan.coder] == 2)
      ? {last.plan.stored_values[5:0], 1'b0} : last.plan.stored_values[6:0];
  assign low_padded = last.checked && last.low_words != '0;

  always_comb begin
    m_low = '{
        place: last.place,
        word: {last.place.start, 2'b00} + WORD_POINTER_W'(last.claim.low_word)
            - WORD_POINTER_W'(remainder_padded),
        words: (low_padded ? last.low_words : 8'd0) + 8'(remainder_padded),
        remainder_used: remainder_padded ? {last.used_bytes[3:0], last.used_bits} : '0,
        low_used: low_padded ? low_used : '0,
        emit: !last.refuse
    };
    m_unpack = '{
        two_bits: CODER_LOW_BITS[last.plan.coder] == 2,
        group_log2: '0,
        values: last.plan.stored_values
    };
    case (width_log2(last.plan.element))
      2'd1: m_unpack.group_log2 = 2'((LANES_LOG2 < 5 ? LANES_LOG2 : 5) - 3);
      2'd2: m_unpack.group_log2 = 2'((LANES_LOG2 < 4 ? LANES_LOG2 : 4) - 3);
      default: m_unpack.group_log2 = 2'((LANES_LOG2 < 6 ? LANES_LOG2 : 6) - 3);
    endcase
    m_unpack_valid = m_valid && low_padded && !last.refuse;
    escape_shift = last.claim.escape_byte[3:0];
    escape_end = 9'(escape_shift) + 9'(last.plan.escapes);
    m_escape = '{
        place: last.place,
        word: {last.place.start, 2'b00} + WORD_POINTER_W'(last.claim.escape_byte[13:4]),
        words: !escapes ? '0 : escape_end[8:4] + 5'(escape_end[3:0] != '0),
        shift: escape_shift,
        escapes: escapes ? 9'(last.plan.escapes) : '0
    };
  end

endmodule
