// SPDX-License-Identifier: Apache-2.0
//
// What a block's frame needs to know about its values beside how often each symbol occurs
// (docs/format.md, sections 4 and 6): its sizes, which beats are zero and whether the bitmap is used,
// whether the sign and the low byte planes are the same in all carriers, and whether all values of
// symbol 0 are zero.
//
// Takes beats of wz_align as they leave it (s_tvalid for one clock each). Carriers are all stored
// values, or those of a symbol other than 0: which of the two is known only at the end, so both are
// followed. The period of the block comes from wz_period; it is sampled 2 clocks after the last beat.
//
// m_traits.code is 0 where it is known already that the block leaves as it is: it has fewer than
// min_bytes bytes, or with `bare` at most 32 or no symbols and no zero beat, without being constant.
//
//   latency       4 clocks from a block's last beat to m_valid
//   throughput    1 beat a clock
//   back-pressure none

module wz_traits
  import wz_format_pkg::*;
  import wz_pkg::*;
  import wz_analyze_pkg::*;
#(
    parameter logic [5:0] TYPES = 6'b111111
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input logic        bare,
    input logic [12:0] min_bytes,

    input logic          [511:0] s_tdata,
    input logic          [ 63:0] s_tkeep,
    input logic                  s_tfirst,
    input logic                  s_tlast,
    input logic                  s_code,
    input logic                  s_walk,
    input element_type_e         s_element,
    input format_t               s_format,  // of s_element
    input logic          [  1:0] s_phase,
    input logic          [ 11:0] s_length_less_one,
    input logic          [ 23:0] s_head,
    input logic          [ 23:0] s_tail,
    input logic                  s_tvalid,

    input logic [ 2:0] s_periods,
    input logic [31:0] s_pattern,

    output traits_t m_traits,
    output shape_t  m_shape,
    output logic    m_valid
);

  // Planes that can be constant while they are stored: of FP16 and RAW the low byte, of FP32 the two
  // low bytes. All others hold the sign or belong to types without planes.
  localparam bit HAS_PLANES = (TYPES & 6'b001101) != 0;

  element_type_e element;
  assign element = folded_element(TYPES, s_element);
  format_t format;
  assign format = folded_format(TYPES, s_format);

  // Clock 1: each value's sign and symbol, at the place of its last byte. `is_value` there alone.
  logic [63:0] symbol_d, symbol_q;  // the symbol is not 0
  logic [63:0] sign_d, sign_q;
  logic [63:0] is_value_d, is_value_q;
  logic [63:0] stray_d, stray_q;  // a value of symbol 0 that is not zero
  logic [15:0] nonzero_d, nonzero_q;  // by word
  logic fp16, e4m3, e5m2;
  assign fp16 = format.five && format.width[1];
  assign e4m3 = format.four;
  assign e5m2 = format.five && format.width[0];

  always_comb begin
    for (int word = 0; word < 16; word++) begin
      nonzero_d[word] = |s_tdata[32*word+:32];
      for (int i = 0; i < 4; i++) begin
        logic [7:0] top, below;
        logic symbol, rest;
        int at;
        at = 4 * word + i;
        top = s_tdata[8*at+:8];
        below = i == 0 ? '0 : s_tdata[8*(at-(i==0?0 : 1))+:8];
        is_value_d[at] = s_tkeep[at] &&
            (format.width[0] || (format.width[1] && i % 2 == 1) || (format.width[2] && i == 3));
        if (fp16 || e5m2) begin
          symbol = |top[6:2];
          rest = top[7] || |top[1:0] || (fp16 && |below);
        end else if (e4m3) begin
          symbol = |top[6:3];
          rest = top[7] || |top[2:0];
        end else begin
          symbol = |{top[6:0], below[7]};
          rest = top[7] || |below[6:0] || (format.width[2] && |s_tdata[32*word+:16]);
        end
        sign_d[at] = top[7];
        symbol_d[at] = symbol && is_value_d[at];
        stray_d[at] = is_value_d[at] && !symbol && rest;
      end
    end
  end

  logic first_q, last_q, valid_q, code_q, walk_q, any_q, whole_q;
  element_type_e element_q;
  logic [1:0] phase_q;
  logic [11:0] length_q;
  logic [23:0] head_q, tail_q;

  always_ff @(posedge clk) begin
    valid_q <= s_tvalid;
    symbol_q <= symbol_d;
    sign_q <= sign_d;
    is_value_q <= is_value_d;
    stray_q <= stray_d;
    nonzero_q <= nonzero_d;
    first_q <= s_tfirst;
    last_q <= s_tlast;
    code_q <= s_code;
    walk_q <= s_walk;
    element_q <= element;
    phase_q <= s_phase;
    length_q <= s_length_less_one;
    head_q <= s_head;
    tail_q <= s_tail;
    any_q <= s_tkeep[0];
    whole_q <= s_tkeep[63];
    if (rst) valid_q <= 1'b0;
  end

  element_type_e element1;
  assign element1 = folded_element(TYPES, element_q);

  // Clock 2: over the beat. `ranked` folds take values of a symbol other than 0, `stored` all.
  logic [1:0] ranked_ones_q, ranked_zeros_q, stored_ones_q, stored_zeros_q;  // halves of the beat
  logic stray2_q, nonzero2_q;
  logic first2_q, last2_q, valid2_q, code2_q, walk2_q, any2_q, whole2_q;
  element_type_e element2_q, element2;
  logic [1:0] phase2_q, head_bytes_d, head_bytes2_q;
  logic [12:0] bytes2_q, length2_q;
  logic [23:0] head2_q, tail2_q;
  logic [12:0] block_bytes;
  assign block_bytes = 13'(length_q) + 1'b1;
  assign head_bytes_d = 13'(phase_q) > block_bytes ? block_bytes[1:0] : phase_q;
  assign element2 = folded_element(TYPES, element2_q);

  always_ff @(posedge clk) begin
    valid2_q <= valid_q;
    for (int i = 0; i < 2; i++) begin
      ranked_ones_q[i]  <= |(symbol_q[32*i+:32] & sign_q[32*i+:32]);
      ranked_zeros_q[i] <= |(symbol_q[32*i+:32] & ~sign_q[32*i+:32]);
      stored_ones_q[i]  <= |(is_value_q[32*i+:32] & sign_q[32*i+:32]);
      stored_zeros_q[i] <= |(is_value_q[32*i+:32] & ~sign_q[32*i+:32]);
    end
    stray2_q <= |stray_q;
    nonzero2_q <= |nonzero_q;
    first2_q <= first_q;
    last2_q <= last_q;
    code2_q <= code_q;
    walk2_q <= walk_q;
    any2_q <= any_q;
    whole2_q <= whole_q;
    element2_q <= element1;
    phase2_q <= phase_q;
    head_bytes2_q <= head_bytes_d;
    length2_q <= block_bytes;
    // With a phase that the block does not reach, no byte is left.
    bytes2_q <= 13'(phase_q) > block_bytes ? '0 : block_bytes - 13'(phase_q);
    head2_q <= head_q;
    tail2_q <= tail_q;
    if (rst) valid2_q <= 1'b0;
  end

  // Clock 3: over the block.
  logic ranked_one_q, ranked_zero_q, stored_one_q, stored_zero_q, stray3_q;
  logic [63:0] stored3_q;  // beats that are not zero; a partial beat even if it is
  logic [6:0] left_out_q, kept_q;  // complete beats that are zero, and that are not
  logic bitmap_q;
  logic partial_zero_q;  // the last beat is partial, and zero
  logic [5:0] index_q, last_index_q;  // of the beat in clock 2, and of the last with values
  logic last3_q;
  logic code3_q, walk3_q;
  logic at_most_bare_q;  // the block has no more than bare_bytes bytes
  element_type_e element3_q, element3;
  logic [1:0] phase3_q, head_bytes3_q;
  logic [12:0] length3_q, bytes3_q;
  logic [23:0] head3_q, tail3_q;
  logic [ 2:0] periods3_q;
  logic [31:0] pattern3_q;
  logic beat_zero, beat_stored;
  assign beat_zero = any2_q && !nonzero2_q;
  assign beat_stored = any2_q && (nonzero2_q || !whole2_q);
  assign element3 = folded_element(TYPES, element3_q);

  always_ff @(posedge clk) begin
    last3_q <= valid2_q && last2_q;
    if (valid2_q) begin
      ranked_one_q <= |ranked_ones_q || (ranked_one_q && !first2_q);
      ranked_zero_q <= |ranked_zeros_q || (ranked_zero_q && !first2_q);
      // Signs of zero beats, should they be stored after all, are added at the end.
      stored_one_q <= |stored_ones_q || (stored_one_q && !first2_q);
      stored_zero_q <= (nonzero2_q && |stored_zeros_q) || (stored_zero_q && !first2_q);
      stray3_q <= stray2_q || (stray3_q && !first2_q);
      for (int i = 0; i < 64; i++) begin
        if (index_q == 6'(i)) stored3_q[i] <= beat_stored;
        else if (first2_q) stored3_q[i] <= 1'b0;
      end
      left_out_q <= (first2_q ? '0 : left_out_q) + 7'(beat_zero && whole2_q);
      kept_q <= (first2_q ? '0 : kept_q) + 7'(nonzero2_q && whole2_q);
      bitmap_q <= (beat_zero && whole2_q) || (bitmap_q && !first2_q);
      // A beat without values may follow the last one with some.
      if (any2_q || first2_q) partial_zero_q <= beat_zero && !whole2_q;
      index_q <= last2_q ? '0 : index_q + 1'b1;
      if (any2_q) last_index_q <= index_q;
      code3_q <= code2_q && length2_q >= min_bytes;
      walk3_q <= walk2_q;
      at_most_bare_q <= length2_q <= 13'(bare_bytes());
      element3_q <= element2;
      phase3_q <= phase2_q;
      head_bytes3_q <= head_bytes2_q;
      length3_q <= length2_q;
      bytes3_q <= bytes2_q;
      head3_q <= head2_q;
      tail3_q <= tail2_q;
    end
    periods3_q <= s_periods;
    pattern3_q <= s_pattern;
    if (rst) begin
      last3_q <= 1'b0;
      index_q <= '0;
    end
  end

  // Clock 4: all together.
  logic [12:0] values, last_values, left_out, stored_values;
  logic [1:0] width3_q, width3, tail_bytes;
  logic symbols3_q, longer3_q;  // the latter: than an element
  logic bitmap, drop_last, all_carry, symbols, is_constant;
  logic ones, zeros;
  // Constant in a build for one type.
  assign width3 = (TYPES & (TYPES - 6'd1)) == '0 ? width_log2(element3) : width3_q;
  assign bitmap = bitmap_q;
  assign drop_last = bitmap && partial_zero_q;
  assign symbols = symbols3_q;
  always_ff @(posedge clk) begin
    if (valid2_q) begin
      width3_q <= width_log2(element2);
      unique case (width_log2(element2))
        2'd0: longer3_q <= length2_q[12:1] != '0;
        2'd1: longer3_q <= length2_q[12:2] != '0 || &length2_q[1:0];
        default: longer3_q <= length2_q[12:3] != '0 || (length2_q[2] && length2_q[1:0] != '0);
      endcase
      symbols3_q <= element2 != ELEMENT_TYPE_RAW;
    end
  end
  assign all_carry = stray3_q || !symbols;

  always_comb begin
    unique case (width3)
      2'd0: begin
        values = bytes3_q;
        tail_bytes = 2'd0;
        last_values = 13'(bytes3_q[5:0]);
        left_out = {left_out_q, 6'd0};
        stored_values = {kept_q, 6'd0};
        is_constant = periods3_q[0] && longer3_q;
      end
      2'd1: begin
        values = 13'(bytes3_q[12:1]);
        tail_bytes = {1'b0, bytes3_q[0]};
        last_values = 13'(bytes3_q[5:1]);
        left_out = 13'({left_out_q, 5'd0});
        stored_values = 13'({kept_q, 5'd0});
        is_constant = periods3_q[1] && longer3_q;
      end
      default: begin
        values = 13'(bytes3_q[12:2]);
        tail_bytes = bytes3_q[1:0];
        last_values = 13'(bytes3_q[5:2]);
        left_out = 13'({left_out_q, 4'd0});
        stored_values = 13'({kept_q, 4'd0});
        is_constant = periods3_q[2] && longer3_q;
      end
    endcase
    // The low bits are zero: whole beats. So these are no additions.
    left_out |= last_values & {13{drop_last}};
    stored_values |= last_values & {13{!drop_last}};
    if (!symbols) begin
      ones  = 1'b0;  // RAW has no sign
      zeros = 1'b0;
    end else if (all_carry) begin
      ones  = stored_one_q;
      zeros = stored_zero_q || (partial_zero_q && !bitmap);
    end else begin
      ones  = ranked_one_q;
      zeros = ranked_zero_q;
    end
  end

  logic [1:0] plane_flags;
  logic [15:0] plane_bytes;

  always_ff @(posedge clk) begin
    m_valid <= last3_q;
    m_traits.code <= code3_q &&
        (!bare || is_constant || !(at_most_bare_q || (!symbols && !bitmap)));
    m_traits.walked <= walk3_q;
    m_traits.element <= element3;
    m_traits.phase <= phase3_q;
    m_traits.block_bytes <= length3_q;
    m_traits.head_bytes <= head_bytes3_q;
    m_traits.tail_bytes <= tail_bytes;
    m_traits.head <= head3_q;
    m_traits.tail <= tail3_q;
    m_traits.values <= values;
    m_traits.bitmap <= bitmap;
    for (int i = 0; i < 64; i++) begin
      m_traits.stored_beats[i] <= stored3_q[i] && !(drop_last && last_index_q == 6'(i));
    end
    m_traits.stored_values <= stored_values;
    m_traits.bare <= !all_carry;
    m_traits.sign_flag <= ones != zeros;
    m_traits.sign_value <= ones && !zeros;
    m_traits.plane_flags <= plane_flags;
    m_traits.plane_bytes <= plane_bytes;
    m_traits.constant <= is_constant;
    unique case (width3)
      2'd0: m_traits.pattern <= 32'(pattern3_q[7:0]);
      2'd1: m_traits.pattern <= 32'(pattern3_q[15:0]);
      default: m_traits.pattern <= pattern3_q;
    endcase
    m_shape.ranked <= code3_q && (kept_q != '0 || (last_values != '0 && !drop_last));
    m_shape.element <= element3;
    m_shape.values <= values;
    m_shape.left_out <= left_out;
    if (rst) m_valid <= 1'b0;
  end

  if (HAS_PLANES) begin : g_planes
    // AND and OR of each of the four bytes of a word, over carriers of either kind. Byte 3 is a
    // plane of RAW alone, which has no symbols.
    logic [511:0] data_q;
    logic [63:0] keep_q, ranked;
    logic [3:0][3:0][7:0] ranked_and_q, ranked_or_q, stored_and_q, stored_or_q;  // by quarter
    logic [3:0][7:0] ranked_and3_q, ranked_or3_q, stored_and3_q, stored_or3_q;
    always_ff @(posedge clk) begin
      data_q <= s_tdata;
      keep_q <= s_tkeep;
    end
    for (genvar word = 0; word < 16; word++) begin : g_word
      logic fp32;
      assign fp32 = element1 == ELEMENT_TYPE_FP32;
      assign ranked[4*word] = fp32 ? symbol_q[4*word+3] : symbol_q[4*word+1];
      assign ranked[4*word+1] = symbol_q[4*word+3];
      assign ranked[4*word+2] = symbol_q[4*word+3];
      assign ranked[4*word+3] = 1'b0;
    end
    always_ff @(posedge clk) begin
      for (int quarter = 0; quarter < 4; quarter++) begin
        for (int i = 0; i < 4; i++) begin
          logic [7:0] ranked_and, ranked_or, stored_and, stored_or;
          ranked_and = '1;
          ranked_or  = '0;
          stored_and = '1;
          stored_or  = '0;
          for (int j = 0; j < 4; j++) begin
            int at;
            at = 16 * quarter + 4 * j + i;
            if (i < 3) begin
              ranked_and &= data_q[8*at+:8] | {8{!ranked[at]}};
              ranked_or  |= data_q[8*at+:8] & {8{ranked[at]}};
            end
            stored_and &= data_q[8*at+:8] | {8{!keep_q[at]}};
            stored_or  |= data_q[8*at+:8];
          end
          ranked_and_q[quarter][i] <= ranked_and;
          ranked_or_q[quarter][i]  <= ranked_or;
          stored_and_q[quarter][i] <= stored_and;
          stored_or_q[quarter][i]  <= stored_or;
        end
      end
      if (valid2_q) begin
        for (int i = 0; i < 4; i++) begin
          ranked_and3_q[i] <= ranked_and_q[0][i] & ranked_and_q[1][i] & ranked_and_q[2][i] &
              ranked_and_q[3][i] & (ranked_and3_q[i] | {8{first2_q}});
          ranked_or3_q[i] <= ranked_or_q[0][i] | ranked_or_q[1][i] | ranked_or_q[2][i] |
              ranked_or_q[3][i] | (ranked_or3_q[i] & {8{!first2_q}});
          stored_and3_q[i] <= ((stored_and_q[0][i] & stored_and_q[1][i] & stored_and_q[2][i] &
              stored_and_q[3][i]) | {8{!nonzero2_q}}) & (stored_and3_q[i] | {8{first2_q}});
          stored_or3_q[i] <= stored_or_q[0][i] | stored_or_q[1][i] | stored_or_q[2][i] |
              stored_or_q[3][i] | (stored_or3_q[i] & {8{!first2_q}});
        end
      end
    end
    // Of either kind of carriers, then the one that it is.
    logic [1:0][1:0][7:0] plane_and, plane_or;  // stored, ranked
    logic [1:0][1:0] same;
    logic [3:0][7:0] stored_and3;
    logic low_plane_q, high_plane_q;
    always_ff @(posedge clk) begin
      if (valid2_q) begin
        low_plane_q <= element2 == ELEMENT_TYPE_RAW || element2 == ELEMENT_TYPE_FP16 ||
            element2 == ELEMENT_TYPE_FP32;
        high_plane_q <= element2 == ELEMENT_TYPE_FP32;
      end
    end
    always_comb begin
      for (int i = 0; i < 4; i++) begin
        stored_and3[i] = stored_and3_q[i] & {8{!partial_zero_q || bitmap}};
      end
      plane_and = {stored_and3[1], stored_and3[0], ranked_and3_q[1], ranked_and3_q[0]};
      plane_or  = {stored_or3_q[1], stored_or3_q[0], ranked_or3_q[1], ranked_or3_q[0]};
      if (width3 == 2'd1) begin
        plane_and[1][0] = stored_and3[0] & stored_and3[2];
        plane_or[1][0]  = stored_or3_q[0] | stored_or3_q[2];
        plane_and[0][0] = ranked_and3_q[0] & ranked_and3_q[2];
        plane_or[0][0]  = ranked_or3_q[0] | ranked_or3_q[2];
      end else if (width3 == 2'd0) begin
        plane_and[1][0] = stored_and3[0] & stored_and3[1] & stored_and3[2] & stored_and3[3];
        plane_or[1][0]  = stored_or3_q[0] | stored_or3_q[1] | stored_or3_q[2] | stored_or3_q[3];
      end
      for (int i = 0; i < 2; i++) begin
        same[i] = {plane_and[i][1] == plane_or[i][1], plane_and[i][0] == plane_or[i][0]};
      end
      plane_flags = (all_carry ? same[1] : same[0]) & {high_plane_q, low_plane_q};
      plane_bytes = all_carry ? plane_or[1] : plane_or[0];
    end
  end else begin : g_no_planes
    assign plane_flags = '0;
    assign plane_bytes = '0;
  end

`ifndef SYNTHESIS
  a_latency : assert property (@(posedge clk) disable iff (rst)
      s_tvalid && s_tlast |=> ##3 m_valid);
`endif

endmodule
