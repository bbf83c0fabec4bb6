// SPDX-License-Identifier: Apache-2.0
//
// Decides how a block leaves, and makes the plan with its header (docs/format.md, sections 4 to 8).
//
// Waits for all that is known about a block: its traits, its order, the CRC state after its beats and
// the range of its rank table. With them it computes the sizes of all sections, drops the coders that
// break a limit, takes the smallest, compares with constant and raw, and seals the header. With `bare`
// a block whose frame would not be shorter leaves as it is. Fields that the mode does not have are 0.
// A block whose traits say that it leaves as it is needs no sizes; an order comes only for blocks that
// were walked, and a range where the order has symbols. A range may come some clocks after its order.
//
// plan_* tells wz_table_banks of each plan whether its block took a rank table and uses it.
//
//   latency       7 clocks from the order to m_plan_tvalid, 1 from traits without code
//   throughput    a block every 8 clocks, one without code a clock
//   back-pressure a plan that is not taken holds the next

module wz_choose
  import wz_format_pkg::*;
  import wz_pkg::*;
  import wz_crc_pkg::*;
  import wz_analyze_pkg::*;
#(
    parameter logic [5:0] TYPES = 6'b111111
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input logic bare,

    input  traits_t s_traits_tdata,
    input  logic    s_traits_tvalid,
    output logic    s_traits_tready,

    input  order_t s_order_tdata,
    input  logic   s_order_tvalid,
    output logic   s_order_tready,

    input  range_t s_range_tdata,
    input  logic   s_range_tvalid,
    output logic   s_range_tready,

    input  logic [CRC_BITS-1:0] s_crc_tdata,
    input  logic                s_crc_tvalid,
    output logic                s_crc_tready,

    output plan_t      m_plan_tdata,
    output logic [7:0] m_plan_order_lo,
    output logic [7:0] m_plan_order_hi,
    output table_bank_t m_plan_table_bank,
    output logic       m_plan_tvalid,
    input  logic       m_plan_tready,

    input  logic plan_room,
    output logic plan_valid,
    output logic plan_takes,
    output logic plan_uses,
    output table_bank_t plan_bank
);

  // The order is taken at once, the rest stays until the plan is out. Values follow from each other
  // clock by clock without valid bits; at_q says how far the block at hand is.
  localparam int unsigned STAGES = 6;
  logic [STAGES:1] at_q;
  logic take, give, pass, room, busy_q, traits_q;
  logic takes_q, range_valid_q;  // the block took a rank table; its range is here
  range_t range_q;
  span_t span;

  traits_t t;
  order_t o;
  element_type_e element;
  logic [1:0] width;
  assign t = s_traits_tdata;
  assign o = s_order_tdata;
  assign element = folded_element(TYPES, t.element);
  assign width = width_log2(element);

  // What follows from the traits alone, ready before the order is. Sizes with padding are in units of
  // 16 bytes.
  logic symbols_q;  // the frame has any
  logic [14:0] unary_limit_q;
  logic [12:0] raw_bytes_q, escapes_limit_q;
  logic [10:0] low_one_q, low_two_q;  // bytes of a bit and of two bits a value
  logic [6:0] pad_one_q, pad_two_q;
  logic [4:0] extras_q;
  logic [1:0] extras_units_q;  // with the long header
  logic [LENGTH_BITS-1:0] length_q;  // less one
  logic [12:0] base_room_q;  // of raw, left by header and extras

  always_ff @(posedge clk) begin
    traits_q <= s_traits_tvalid && !give && !pass;
    length_q <= LENGTH_BITS'(t.block_bytes - 1'b1);
    raw_bytes_q <= t.block_bytes + 13'(SHORT_HEADER_BYTES);
    symbols_q <= element != ELEMENT_TYPE_RAW && t.stored_values != '0;
    unary_limit_q <= 15'(t.stored_values) + {1'b0, t.stored_values, 1'b0};
    // At most 128, so the limit of 255 is never reached.
    escapes_limit_q <= 13'(t.stored_values[12:5]) + 13'(|t.stored_values[4:0]);
    low_one_q <= 11'(t.stored_values[12:3]) + 11'(|t.stored_values[2:0]);
    low_two_q <= t.stored_values[12:2] + 11'(|t.stored_values[1:0]);
    pad_one_q <= 7'(t.stored_values[12:7]) + 7'(|t.stored_values[6:0]);
    pad_two_q <= t.stored_values[12:6] + 7'(|t.stored_values[5:0]);
    extras_q <= {1'b0, t.bitmap, 3'd0} + 5'(t.head_bytes) + 5'(t.tail_bytes) +
        5'(t.plane_flags[0]) + 5'(t.plane_flags[1]);
    extras_units_q <= 2'(LONG_HEADER_BYTES / ALIGN_BYTES) + 2'(extras_q != '0);
    // Modulo 2**13; negative only in blocks that are shorter than what is taken.
    base_room_q <= raw_bytes_q - 13'({extras_units_q, 4'd0});
  end

  // Stage 1: the order; each coder's sizes and limits.
  table_bank_t bank_q;
  logic [BASE_BITS-1:0] base_q;
  logic [PATH_BITS-1:0] path_q;
  logic [ZERO_RANK_BITS-1:0] zero_rank_q;
  logic [12:0] bare_zeros_q, ranked_q;
  logic [3:0] too_many_q;
  logic [3:0][10:0] unary_bytes_q;
  logic [3:0][11:0] unary_low_q;
  logic [7:0] escapes_short_q, escapes_long_q;  // where there are not too many

  always_ff @(posedge clk) begin
    if (take) begin
      bank_q <= o.bank;
      base_q <= o.base;
      path_q <= o.path;
      zero_rank_q <= o.zero_rank;
      bare_zeros_q <= t.bare ? o.zeros : '0;
      ranked_q <= t.stored_values - o.zeros;
      for (int i = 0; i < 4; i++) begin
        too_many_q[i] <= o.unary_bits[i] > 17'(unary_limit_q) ||
            (i == int'(CODER_R2) ? o.escapes_long : o.escapes_short) > escapes_limit_q;
        unary_bytes_q[i] <= o.unary_bits[i][13:3] + 11'(|o.unary_bits[i][2:0]);
      end
      escapes_short_q <= o.escapes_short[7:0];
      escapes_long_q <= o.escapes_long[7:0];
      // Within the limits a sum is below 4096.
      unary_low_q[CODER_R0] <= o.escapes_short[11:0];
      unary_low_q[CODER_R1] <= o.escapes_short[11:0] + 12'({pad_one_q, 4'd0});
      unary_low_q[CODER_R2] <= o.escapes_long[11:0] + 12'({pad_two_q, 4'd0});
      unary_low_q[CODER_F2] <= o.escapes_short[11:0] + 12'({pad_two_q, 4'd0});
      if (!symbols_q) unary_low_q <= '0;
      if (!t.walked) begin
        bank_q <= '0;
        base_q <= '0;
        path_q <= '0;
        zero_rank_q <= '0;
        bare_zeros_q <= '0;
        too_many_q <= '0;
        unary_bytes_q <= '0;
        escapes_short_q <= '0;
        escapes_long_q <= '0;
        unary_low_q <= '0;
      end
    end
  end

  // Stage 2: sums, where those that do not fit are of coders that break a limit; and the carriers'
  // remainders as three terms, already added to two.
  logic [12:0] carriers, carriers_q;
  logic [16:0] term_high, term_byte, term_less, term_sum_q, term_carry_q;
  logic [1:0] bytes;
  logic quarter, half, less;
  assign carriers = t.bare ? ranked_q : t.stored_values;
  always_comb begin
    // Stored bits of a carrier's remainder: 8 times `bytes`, and 4 or 2, less 1.
    quarter = 1'b0;
    half = 1'b0;
    unique case (element)
      ELEMENT_TYPE_BF16: begin
        bytes = 2'd1;
        less  = t.sign_flag;
      end
      ELEMENT_TYPE_FP16: begin
        bytes = {1'b0, !t.plane_flags[0]};
        half = !t.sign_flag;
        quarter = t.sign_flag;
        less = !t.sign_flag;
      end
      ELEMENT_TYPE_FP32: begin
        bytes = 2'd3 - 2'(t.plane_flags[0]) - 2'(t.plane_flags[1]);
        less  = t.sign_flag;
      end
      ELEMENT_TYPE_E4M3: begin
        bytes = 2'd0;
        half  = 1'b1;
        less  = t.sign_flag;
      end
      ELEMENT_TYPE_E5M2: begin
        bytes = 2'd0;
        half = !t.sign_flag;
        quarter = t.sign_flag;
        less = !t.sign_flag;
      end
      default: begin
        bytes = {1'b0, !t.plane_flags[0]};
        less  = 1'b0;
      end
    endcase
    // No type has 16 bits and also 4 or 2.
    term_high = (17'({carriers, 4'd0}) & {17{bytes[1]}}) |
        (17'({carriers, 2'd0}) & {17{half}}) | (17'({carriers, 1'b0}) & {17{quarter}});
    term_byte = 17'({carriers, 3'd0}) & {17{bytes[0]}};
    term_less = ~17'(carriers) & {17{less}};
  end

  logic [3:0][11:0] sum_q;
  logic [3:0] dropped_q;
  always_ff @(posedge clk) begin
    for (int i = 0; i < 4; i++) sum_q[i] <= 12'(unary_bytes_q[i]) + unary_low_q[i];
    dropped_q <= too_many_q & {4{symbols_q}};
    carriers_q <= carriers;
    term_sum_q <= term_high ^ term_byte ^ term_less;
    term_carry_q <= {(term_high[15:0] & term_byte[15:0]) | (term_high[15:0] & term_less[15:0]) |
                     (term_byte[15:0] & term_less[15:0]), less};
  end

  // Stage 3: of two coders; the remainders.
  logic [1:0] pick_q, none_q;  // the higher of the two; neither
  logic [1:0][11:0] pair_q;
  logic [16:0] remainder_bits_q;
  always_ff @(posedge clk) begin
    for (int i = 0; i < 2; i++) begin
      logic higher;
      higher = dropped_q[2*i] || (!dropped_q[2*i+1] && sum_q[2*i+1] < sum_q[2*i]);
      pick_q[i] <= higher;
      pair_q[i] <= higher ? sum_q[2*i+1] : sum_q[2*i];
      none_q[i] <= dropped_q[2*i] && dropped_q[2*i+1];
    end
    remainder_bits_q <= term_sum_q + term_carry_q;
  end

  // Stage 4: of four; what they may take.
  coder_e coder_q;
  logic [11:0] best_q;
  logic none4_q;
  logic [9:0] fixed_q;  // what does not depend on the coder
  logic [14:0] room_q;  // left for the ranks in a frame as long as raw; negative if there is none
  logic [12:0] remainder_q;
  logic [10:0] room_units;
  logic round;
  assign round = |remainder_bits_q[6:0];
  // The lowest bit makes the carry: one unit less where the remainders end within one.
  assign room_units = 11'(({{2{base_room_q[12]}}, base_room_q[12:4], 1'b1} +
                           {1'b1, ~remainder_bits_q[16:7], !round}) >> 1);
  always_ff @(posedge clk) begin
    logic higher;
    higher = none_q[0] || (!none_q[1] && pair_q[1] < pair_q[0]);
    coder_q <= coder_e'({higher, higher ? pick_q[1] : pick_q[0]});
    best_q <= higher ? pair_q[1] : pair_q[0];
    none4_q <= &none_q;
    fixed_q <= remainder_bits_q[16:7] + 10'(extras_units_q) + 10'(round);
    room_q <= {room_units, base_room_q[3:0]};
    remainder_q <= remainder_bits_q[15:3] + 13'(|remainder_bits_q[2:0]);
  end

  // Stage 5: against raw and constant.
  mode_e mode_q;
  logic [12:0] frame_q;
  logic [10:0] unary5_q;
  logic [7:0] escapes5_q;
  logic [10:0] low5_q;
  coder_e coder5_q;
  always_ff @(posedge clk) begin
    if (t.constant) mode_q <= MODE_CONSTANT;
    else if (none4_q || room_q[14] || 15'(best_q) >= room_q) mode_q <= MODE_RAW;
    else mode_q <= MODE_CODED;
    frame_q  <= 13'(best_q) + 13'({fixed_q, 4'd0});
    coder5_q <= coder_q;
    unary5_q <= unary_bytes_q[coder_q];
    escapes5_q <= coder_q == CODER_R2 ? escapes_long_q : escapes_short_q;
    unique case (coder_q)
      CODER_R0: low5_q <= '0;
      CODER_R1: low5_q <= low_one_q;
      default:  low5_q <= low_two_q;
    endcase
  end

  // Stage 6: the header and its CRC, and whether the frame is worth it. The state and the first 8 bytes
  // count 8 bytes earlier in a long header.
  // Where there are no symbols or no order, all that is about them is 0 by itself.
  logic [31:0] short_header, short_header_q;
  logic [127:0] long_header, long_header_q;
  logic [12:0] frame6_q;
  logic coded_q;
  logic [12:0] constant_bytes;
  logic is_coded;  // the mode
  assign is_coded = mode_q == MODE_CODED;
  assign constant_bytes = 13'(SHORT_HEADER_BYTES) + (13'd1 << width);
  always_comb begin
    short_header = '0;
    short_header[VERSION_LSB+:VERSION_BITS] = VERSION_BITS'(FORMAT_VERSION);
    short_header[ELEMENT_LSB+:ELEMENT_BITS] = element;
    short_header[LENGTH_LSB+:LENGTH_BITS] = length_q;
    long_header = '0;
    long_header[31:0] = short_header;
    short_header[MODE_LSB+:MODE_BITS] = mode_q;
    long_header[MODE_LSB+:MODE_BITS] = MODE_CODED;
    long_header[BITMAP_LSB+:BITMAP_BITS] = t.bitmap;
    long_header[PLANE_FLAGS_LSB+:PLANE_FLAGS_BITS] = {1'b0, t.plane_flags};
    long_header[SIGN_FLAG_LSB+:SIGN_FLAG_BITS] = t.sign_flag;
    long_header[SIGN_VALUE_LSB+:SIGN_VALUE_BITS] = t.sign_value;
    long_header[PHASE_LSB+:PHASE_BITS] = t.phase;
    long_header[ZERO_RANK_LSB+:ZERO_RANK_BITS] = zero_rank_q;
    long_header[BASE_LSB+:BASE_BITS] = base_q;
    long_header[PATH_LSB+:PATH_BITS] = path_q;
    long_header[CODER_LSB+:CODER_BITS] = coder5_q;
    long_header[UNARY_BYTES_LSB+:UNARY_BYTES_BITS] = unary5_q;
    long_header[ESCAPES_LSB+:ESCAPES_BITS] = escapes5_q;
    long_header[BARE_ZEROS_LSB+:BARE_ZEROS_BITS] = bare_zeros_q;
  end
  always_ff @(posedge clk) begin
    short_header_q <= short_header;
    long_header_q <= long_header;
    unique case (mode_q)
      MODE_CODED: begin
        frame6_q <= frame_q;
        coded_q <= !bare || frame_q < t.block_bytes;
      end
      MODE_CONSTANT: begin
        frame6_q <= constant_bytes;
        coded_q <= !bare || constant_bytes < t.block_bytes;
      end
      default: begin
        frame6_q <= raw_bytes_q;
        coded_q <= !bare;
      end
    endcase
  end

  localparam matrix_t EARLIER = matrix(STEP_BITS);
  logic [CRC_BITS-1:0] long_q, short_q, early_q, rest_q, crc;
  // The fields that come last, and the second half of the header without them.
  logic [STEP_BITS-1:0] late, early;
  always_comb begin
    late = '0;
    late[CODER_LSB-64+:CODER_BITS] = coder5_q;
    late[UNARY_BYTES_LSB-64+:UNARY_BYTES_BITS] = unary5_q;
    late[ESCAPES_LSB-64+:ESCAPES_BITS] = escapes5_q;
    early = long_header[127:64];
    early[CODER_LSB-64+:CODER_BITS] = '0;
    early[UNARY_BYTES_LSB-64+:UNARY_BYTES_BITS] = '0;
    early[ESCAPES_LSB-64+:ESCAPES_BITS] = '0;
  end
  always_ff @(posedge clk) begin
    long_q <= apply(EARLIER, STEP_BITS'(long_header[31:0] ^ s_crc_tdata));
    short_q <= apply(STEP, STEP_BITS'(short_header ^ s_crc_tdata));
    early_q <= apply(STEP, early);
    rest_q <= early_q ^ apply(STEP, late);
  end
  assign crc = ~(is_coded ? long_q ^ rest_q : short_q);

  always_comb begin
    unique case ({coder5_q == CODER_R2, zero_rank_q == ZERO_RANK_BITS'(ZERO_RANK_NONE)})
      2'b00: span = range_q.short_less;
      2'b01: span = range_q.short_all;
      2'b10: span = range_q.long_less;
      default: span = range_q.long_all;
    endcase
  end

  // The plan.
  logic uses, coded;
  assign uses = coded_q && is_coded && symbols_q;
  assign coded = coded_q && !pass;
  assign room = plan_room && (!m_plan_tvalid || m_plan_tready);
  assign give = at_q[STAGES] && (range_valid_q || !takes_q) && room;
  assign pass = s_traits_tvalid && !t.code && s_crc_tvalid && !busy_q &&
      (!t.walked || s_order_tvalid) && room;
  assign take = s_traits_tvalid && t.code && traits_q && s_crc_tvalid && !busy_q &&
      (!t.walked || s_order_tvalid);
  assign s_traits_tready = give || pass;
  assign s_order_tready = (take || pass) && t.walked;
  assign s_range_tready = busy_q && takes_q && !range_valid_q;
  assign s_crc_tready = give || pass;

  always_ff @(posedge clk) begin
    at_q <= {at_q[STAGES-1:1], take};
    if (at_q[STAGES] && !give) at_q[STAGES] <= 1'b1;
    if (take) begin
      busy_q  <= 1'b1;
      takes_q <= t.walked && symbols_q;
    end
    if (give) busy_q <= 1'b0;
    if (!range_valid_q) range_q <= s_range_tdata;
    range_valid_q <= !give && (range_valid_q || (s_range_tvalid && s_range_tready));

    plan_valid <= give || pass;
    plan_takes <= give && takes_q;
    plan_uses <= give && uses;
    plan_bank <= bank_q;

    if (m_plan_tready) m_plan_tvalid <= 1'b0;
    if (give || pass) begin
      m_plan_tvalid <= 1'b1;
      m_plan_order_lo <= span.lo;
      m_plan_order_hi <= span.hi;
      m_plan_table_bank <= bank_q;

      m_plan_tdata <= '0;
      m_plan_tdata.mode <= coded ? mode_q : MODE_RAW;
      m_plan_tdata.element <= element;
      m_plan_tdata.coded <= coded;
      m_plan_tdata.block_bytes <= t.block_bytes;
      m_plan_tdata.head_bytes <= t.head_bytes;
      m_plan_tdata.tail_bytes <= t.tail_bytes;
      m_plan_tdata.head <= t.head;
      m_plan_tdata.tail <= t.tail;
      m_plan_tdata.values <= t.values;
      m_plan_tdata.frame_bytes <= coded ? frame6_q : t.block_bytes;
      if (coded) begin
        m_plan_tdata.header <= (is_coded ? long_header_q : 128'(short_header_q)) |
            (128'(crc) << CRC_LSB);
        if (mode_q == MODE_CONSTANT) m_plan_tdata.pattern <= t.pattern;
        if (is_coded) begin
          m_plan_tdata.bitmap <= t.bitmap;
          m_plan_tdata.stored_beats <= t.stored_beats;
          m_plan_tdata.stored_values <= t.stored_values;
          m_plan_tdata.bare_zeros <= bare_zeros_q;
          m_plan_tdata.carriers <= carriers_q;
          m_plan_tdata.sign_flag <= t.sign_flag;
          m_plan_tdata.sign_value <= t.sign_value;
          m_plan_tdata.plane_flags <= {1'b0, t.plane_flags};
          m_plan_tdata.plane_bytes <= 24'({t.plane_bytes[15:8] & {8{t.plane_flags[1]}},
                                          t.plane_bytes[7:0] & {8{t.plane_flags[0]}}});
          m_plan_tdata.extras_bytes <= 6'(extras_q);
          m_plan_tdata.remainder_bytes <= remainder_q;
          if (symbols_q) begin
            m_plan_tdata.base <= base_q;
            m_plan_tdata.path <= path_q;
            m_plan_tdata.zero_rank <= zero_rank_q;
            m_plan_tdata.coder <= coder5_q;
            m_plan_tdata.unary_bytes <= unary5_q;
            m_plan_tdata.escapes <= escapes5_q;
            m_plan_tdata.low_bytes <= low5_q;
          end
        end
      end
    end

    if (rst) begin
      at_q <= '0;
      busy_q <= 1'b0;
      range_valid_q <= 1'b0;
      plan_valid <= 1'b0;
      m_plan_tvalid <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  a_stable : assert property (@(posedge clk) disable iff (rst)
      m_plan_tvalid && !m_plan_tready |=> m_plan_tvalid && $stable(m_plan_tdata));
`endif

endmodule
