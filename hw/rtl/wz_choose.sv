// SPDX-License-Identifier: Apache-2.0
//
// Decides how a block leaves, and makes the plan with its header (docs/format.md, sections 4 to 8).
//
// Waits for all that is known about a block: its traits, its order, the CRC state after its beats and
// the range of its rank table. With them it computes the sizes of all sections, drops the coders that
// break a limit, takes the smallest, compares with constant and raw, and seals the header. With `bare`
// a block whose frame would not be shorter leaves as it is. Fields that the mode does not have are 0.
//
// plan_* tells wz_table_banks of each plan whether its block took a rank table and uses it.
//
//   latency       9 clocks from the order to m_plan_tvalid
//   throughput    a block every 10 clocks
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
    output logic       m_plan_table_bank,
    output logic       m_plan_tvalid,
    input  logic       m_plan_tready,

    input  logic plan_room,
    output logic plan_valid,
    output logic plan_takes,
    output logic plan_uses,
    output logic plan_bank
);

  // All inputs stay until the plan is out, so values follow from each other clock by clock without
  // valid bits; at_q says how far they are.
  localparam int unsigned STAGES = 8;
  logic [STAGES:1] at_q;
  logic ready, give, seen_q;
  assign ready = s_traits_tvalid && s_order_tvalid && s_crc_tvalid;

  traits_t t;
  order_t o;
  element_type_e element;
  logic [1:0] width;
  assign t = s_traits_tdata;
  assign o = s_order_tdata;
  assign element = built_element(TYPES, t.element);
  assign width = width_log2(element);

  function automatic logic [12:0] pad16(input logic [12:0] size);
    return {size[12:4] + 9'(|size[3:0]), 4'd0};
  endfunction

  // Stage 1: what counts of values give.
  logic symbols;  // the frame has any
  logic [14:0] unary_limit_q;
  logic [12:0] bare_zeros_q, carriers_q, escapes_limit_q;
  logic [10:0] low_one_q, low_two_q;  // bytes of a bit and of two bits a value
  logic [4:0] extras_q;
  logic [3:0][16:0] unary_bits_q;
  logic [12:0] escapes_short_q, escapes_long_q;
  assign symbols = element != ELEMENT_TYPE_RAW && t.stored_values != '0;

  always_ff @(posedge clk) begin
    unary_limit_q <= 15'(t.stored_values) + {1'b0, t.stored_values, 1'b0};
    // At most 128, so the limit of 255 is never reached.
    escapes_limit_q <= (t.stored_values + 13'(VALUES_PER_ESCAPE - 1)) / 13'(VALUES_PER_ESCAPE);
    bare_zeros_q <= t.bare && symbols ? o.zeros : '0;
    carriers_q <= t.stored_values - (t.bare && symbols ? o.zeros : '0);
    low_one_q <= 11'((t.stored_values + 13'd7) >> 3);
    low_two_q <= 11'((t.stored_values + 13'd3) >> 2);
    extras_q <= {1'b0, t.bitmap, 3'd0} + 5'(t.head_bytes) + 5'(t.tail_bytes) +
        5'(t.plane_flags[0]) + 5'(t.plane_flags[1]);
    unary_bits_q <= o.unary_bits;
    escapes_short_q <= o.escapes_short;
    escapes_long_q <= o.escapes_long;
  end

  // Stage 2: sizes of sections.
  logic [3:0] too_many_q;
  logic [3:0][10:0] unary_bytes_q;
  logic [3:0][12:0] unary_low_q;
  logic [14:0] plane_part_q;
  logic [12:0] top_part_q;
  logic [1:0] planes;
  logic [2:0] top_bits;
  logic [15:0] top_sum;
  always_comb begin
    // Stored byte planes and top bits of a remainder.
    unique case (element)
      ELEMENT_TYPE_BF16: begin
        planes = {1'b0, !t.sign_flag};
        top_bits = t.sign_flag ? 3'd7 : 3'd0;
      end
      ELEMENT_TYPE_FP16: begin
        planes = {1'b0, !t.plane_flags[0]};
        top_bits = t.sign_flag ? 3'd2 : 3'd3;
      end
      ELEMENT_TYPE_FP32: begin
        planes = 2'd3 - 2'(t.sign_flag) - 2'(t.plane_flags[0]) - 2'(t.plane_flags[1]);
        top_bits = t.sign_flag ? 3'd7 : 3'd0;
      end
      ELEMENT_TYPE_E4M3: begin
        planes = 2'd0;
        top_bits = t.sign_flag ? 3'd3 : 3'd4;
      end
      ELEMENT_TYPE_E5M2: begin
        planes = 2'd0;
        top_bits = t.sign_flag ? 3'd2 : 3'd3;
      end
      default: begin
        planes = {1'b0, !t.plane_flags[0]};
        top_bits = 3'd0;
      end
    endcase
  end
  // Bytes that the carriers' top bits fill, times 8, rounded up by the part that is cut.
  always_comb begin
    unique case (top_bits)
      3'd2: top_sum = {2'd0, carriers_q, 1'b0} + 16'd7;
      3'd3: top_sum = {2'd0, carriers_q, 1'b0} + 16'(carriers_q) + 16'd7;
      3'd4: top_sum = {1'b0, carriers_q, 2'b00} + 16'd7;
      3'd7: top_sum = {carriers_q, 3'b111} - 16'(carriers_q);
      default: top_sum = 16'd0;
    endcase
  end
  always_ff @(posedge clk) begin
    for (int i = 0; i < 4; i++) begin
      too_many_q[i] <= unary_bits_q[i] > 17'(unary_limit_q) ||
          (i == int'(CODER_R2) ? escapes_long_q : escapes_short_q) > escapes_limit_q;
      unary_bytes_q[i] <= 11'((unary_bits_q[i] + 17'd7) >> 3);
    end
    unary_low_q[CODER_R0] <= escapes_short_q;
    unary_low_q[CODER_R1] <= escapes_short_q + pad16(13'(low_one_q));
    unary_low_q[CODER_R2] <= escapes_long_q + pad16(13'(low_two_q));
    unary_low_q[CODER_F2] <= escapes_short_q + pad16(13'(low_two_q));
    plane_part_q <= (15'(carriers_q) & {15{planes[0]}}) +
        ({1'b0, carriers_q, 1'b0} & {15{planes[1]}});
    top_part_q <= 13'(top_sum >> 3);
  end

  // Stage 3: sums. A coder that breaks a limit is above all others; sums that do not fit break one.
  logic [3:0][13:0] sum_q;
  logic [3:0] dropped3_q;
  logic [14:0] remainder_q;
  always_ff @(posedge clk) begin
    for (int i = 0; i < 4; i++) sum_q[i] <= 14'(unary_bytes_q[i]) + 14'(unary_low_q[i]);
    dropped3_q <= too_many_q & {4{symbols}};
    remainder_q <= plane_part_q + 15'(top_part_q);
  end

  // Stage 4: of two.
  logic [1:0] pick_q, none_q;  // the higher of the two; neither
  logic [1:0][13:0] best4_q;
  logic [14:0] fixed_q, remainder_padded;
  assign remainder_padded = {remainder_q[14:4] + 11'(|remainder_q[3:0]), 4'd0};
  always_ff @(posedge clk) begin
    for (int i = 0; i < 2; i++) begin
      logic higher;
      higher = dropped3_q[2*i] || (!dropped3_q[2*i+1] && sum_q[2*i+1] < sum_q[2*i]);
      pick_q[i] <= higher;
      best4_q[i] <= higher ? sum_q[2*i+1] : sum_q[2*i];
      none_q[i] <= dropped3_q[2*i] && dropped3_q[2*i+1];
    end
    fixed_q <= 15'(LONG_HEADER_BYTES) + 15'(pad16(13'(extras_q))) + remainder_padded;
  end

  // Stage 5: of four.
  coder_e coder_q;
  logic [13:0] best_q;
  logic none5_q;
  logic [15:0] room_q;  // what the ranks may take in a frame that is shorter than raw
  always_ff @(posedge clk) begin
    logic higher;
    higher = none_q[0] || (!none_q[1] && best4_q[1] < best4_q[0]);
    coder_q <= coder_e'({higher, higher ? pick_q[1] : pick_q[0]});
    best_q <= higher ? best4_q[1] : best4_q[0];
    none5_q <= &none_q;
    room_q <= 16'(t.block_bytes) + 16'(SHORT_HEADER_BYTES) - 16'(fixed_q);
  end

  // Stage 6: against raw and constant.
  mode_e mode_q;
  logic [12:0] frame_q;
  logic [10:0] unary6_q;
  logic [7:0] escapes6_q;
  logic [10:0] low6_q;
  coder_e coder6_q;
  logic fits;
  logic [13:0] rank_bytes;
  assign rank_bytes = symbols ? best_q : '0;
  assign fits = !(symbols && none5_q) && !room_q[15] && {2'b00, rank_bytes} < room_q;
  always_ff @(posedge clk) begin
    if (!t.code) mode_q <= MODE_RAW;
    else if (t.constant) mode_q <= MODE_CONSTANT;
    else mode_q <= fits ? MODE_CODED : MODE_RAW;
    frame_q <= 13'(fixed_q) + 13'(rank_bytes);
    coder6_q <= coder_q;
    unary6_q <= symbols ? unary_bytes_q[coder_q] : '0;
    escapes6_q <= !symbols ? '0 : coder_q == CODER_R2 ? escapes_long_q[7:0] : escapes_short_q[7:0];
    unique case (coder_q)
      CODER_R0: low6_q <= '0;
      CODER_R1: low6_q <= low_one_q;
      default:  low6_q <= low_two_q;
    endcase
  end

  // Stage 7: the header without its CRC, and whether the frame is worth it.
  logic [127:0] header, header_q;
  logic [12:0] frame7_q;
  logic coded_q;
  logic [12:0] raw_bytes, constant_bytes;
  logic is_coded;  // the mode
  assign is_coded = mode_q == MODE_CODED;
  assign raw_bytes = t.block_bytes + 13'(SHORT_HEADER_BYTES);
  assign constant_bytes = 13'(SHORT_HEADER_BYTES) + (13'd1 << width);
  always_comb begin
    header = '0;
    header[VERSION_LSB+:VERSION_BITS] = VERSION_BITS'(FORMAT_VERSION);
    header[MODE_LSB+:MODE_BITS] = mode_q;
    header[ELEMENT_LSB+:ELEMENT_BITS] = element;
    header[LENGTH_LSB+:LENGTH_BITS] = LENGTH_BITS'(t.block_bytes - 1'b1);
    if (is_coded) begin
      header[BITMAP_LSB+:BITMAP_BITS] = t.bitmap;
      header[PLANE_FLAGS_LSB+:PLANE_FLAGS_BITS] = {1'b0, t.plane_flags};
      header[SIGN_FLAG_LSB+:SIGN_FLAG_BITS] = t.sign_flag;
      header[SIGN_VALUE_LSB+:SIGN_VALUE_BITS] = t.sign_value;
      header[PHASE_LSB+:PHASE_BITS] = t.phase;
      header[BARE_ZEROS_LSB+:BARE_ZEROS_BITS] = bare_zeros_q;
      if (symbols) begin
        header[ZERO_RANK_LSB+:ZERO_RANK_BITS] = o.zero_rank;
        header[BASE_LSB+:BASE_BITS] = o.base;
        header[PATH_LSB+:PATH_BITS] = o.path;
        header[CODER_LSB+:CODER_BITS] = coder6_q;
        header[UNARY_BYTES_LSB+:UNARY_BYTES_BITS] = unary6_q;
        header[ESCAPES_LSB+:ESCAPES_BITS] = escapes6_q;
      end
    end
  end
  always_ff @(posedge clk) begin
    header_q <= header;
    unique case (mode_q)
      MODE_CODED: begin
        frame7_q <= frame_q;
        coded_q <= t.code && (!bare || frame_q < t.block_bytes);
      end
      MODE_CONSTANT: begin
        frame7_q <= constant_bytes;
        coded_q <= t.code && (!bare || constant_bytes < t.block_bytes);
      end
      default: begin
        frame7_q <= raw_bytes;
        coded_q <= t.code && !bare;
      end
    endcase
  end

  // Stage 8: its CRC. The state and the first 8 bytes count 8 bytes earlier in a long header.
  localparam matrix_t EARLIER = matrix(STEP_BITS);
  logic [CRC_BITS-1:0] crc_q;
  logic [STEP_BITS-1:0] first_step;
  assign first_step = {32'd0, header_q[31:0] ^ s_crc_tdata};
  always_ff @(posedge clk) begin
    crc_q <= ~((is_coded ? apply(EARLIER, first_step) : apply(matrix(0), first_step)) ^
               apply(matrix(0), header_q[127:64] & {64{is_coded}}));
  end

  // The plan.
  logic uses;
  assign uses = coded_q && is_coded && symbols;
  assign give = at_q[STAGES] && s_range_tvalid && plan_room && (!m_plan_tvalid || m_plan_tready);
  assign plan_valid = give;
  assign plan_takes = symbols && t.code;
  assign plan_uses = uses;
  assign plan_bank = o.bank;
  assign s_traits_tready = give;
  assign s_order_tready = give;
  assign s_range_tready = give;
  assign s_crc_tready = give;

  always_ff @(posedge clk) begin
    at_q <= {at_q[STAGES-1:1], ready && !seen_q};
    if (ready) seen_q <= 1'b1;
    if (at_q[STAGES] && !give) at_q[STAGES] <= 1'b1;
    if (give) seen_q <= 1'b0;

    if (m_plan_tready) m_plan_tvalid <= 1'b0;
    if (give) begin
      m_plan_tvalid <= 1'b1;
      m_plan_order_lo <= coder6_q == CODER_R2 ? s_range_tdata.long_lo : s_range_tdata.short_lo;
      m_plan_order_hi <= coder6_q == CODER_R2 ? s_range_tdata.long_hi : s_range_tdata.short_hi;
      m_plan_table_bank <= o.bank;

      m_plan_tdata <= '0;
      m_plan_tdata.mode <= coded_q ? mode_q : MODE_RAW;
      m_plan_tdata.element <= element;
      m_plan_tdata.coded <= coded_q;
      m_plan_tdata.block_bytes <= t.block_bytes;
      m_plan_tdata.head_bytes <= t.head_bytes;
      m_plan_tdata.tail_bytes <= t.tail_bytes;
      m_plan_tdata.head <= t.head;
      m_plan_tdata.tail <= t.tail;
      m_plan_tdata.values <= t.values;
      m_plan_tdata.frame_bytes <= coded_q ? frame7_q : t.block_bytes;
      if (coded_q) begin
        m_plan_tdata.header <= header_q | (128'(crc_q) << CRC_LSB);
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
          m_plan_tdata.plane_bytes <= {8'd0, t.plane_bytes};
          m_plan_tdata.extras_bytes <= 6'(extras_q);
          m_plan_tdata.remainder_bytes <= 13'(remainder_q);
          if (symbols) begin
            m_plan_tdata.base <= o.base;
            m_plan_tdata.path <= o.path;
            m_plan_tdata.zero_rank <= o.zero_rank;
            m_plan_tdata.coder <= coder6_q;
            m_plan_tdata.unary_bytes <= unary6_q;
            m_plan_tdata.escapes <= escapes6_q;
            m_plan_tdata.low_bytes <= low6_q;
          end
        end
      end
    end

    if (rst) begin
      at_q <= '0;
      seen_q <= 1'b0;
      m_plan_tvalid <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  a_stable : assert property (@(posedge clk) disable iff (rst)
      m_plan_tvalid && !m_plan_tready |=> m_plan_tvalid && $stable(m_plan_tdata));
`endif

endmodule
