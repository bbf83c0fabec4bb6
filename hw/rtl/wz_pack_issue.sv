// SPDX-License-Identifier: Apache-2.0
//
// Leads the second pass: takes a plan, fetches the block's beats and hands them to the remainder path
// and, in groups of LANES values, to the symbol path.
//
// Nothing behind it can stall, so it only hands out a beat while `go` says that everything has room.
// It also leaves the clocks free that the end of a frame needs: for the parts of a partial record and
// for the last bits of a unary section (wz_record, wz_unary_pack). Zero beats that a bitmap leaves
// out, and the beats of a constant block, are dropped here.
//
//   latency       3 clocks from the plan to its first beat at the outputs
//   throughput    1 beat a clock, or one in V / LANES where a beat has more values than LANES and
//                 symbols; the tail of a raw block and the free clocks take one more each
//   back-pressure `go` is a flop; two beats may follow after it falls

module wz_pack_issue #(
    parameter int unsigned LANES = 32,
    parameter logic [5:0] TYPES = 6'b111111,
    localparam int unsigned COUNT_W = $clog2(LANES) + 1
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input  wz_pkg::plan_t s_plan,
    input  logic [7:0]    s_order_lo,
    input  logic [7:0]    s_order_hi,
    input  logic          s_bank,
    input  logic          s_plan_valid,
    output logic          s_plan_ready,

    input  logic [511:0] s_beat,
    input  logic         s_beat_valid,
    output logic         s_beat_ready,

    input logic go,
    input logic network_idle,  // of wz_carrier

    output logic [511:0] m_data,  // stays while groups of it are handed out

    output logic                 m_beat_valid,  // to the remainder path
    output logic [6:0]           m_count,
    output logic                 m_beat_first,
    output logic                 m_beat_last,
    output wz_pack_pkg::record_t m_record,
    output logic                 m_network,
    output logic                 m_drop,

    output logic                m_group_valid,  // to the symbol path
    output logic [2:0]          m_group,
    output logic [COUNT_W-1:0]  m_group_count,
    output logic                m_group_first,
    output logic                m_group_last,
    output wz_pack_pkg::codes_t m_codes,

    output logic m_release  // a frame with symbols no longer needs its table
);

  import wz_format_pkg::*;
  import wz_pkg::*;
  import wz_pack_pkg::*;

  // What a frame needs here.
  typedef struct packed {
    logic raw;
    logic symbols;  // the symbol path takes it
    logic remainders;  // the remainder path takes it
    logic [5:0] beats;  // less one
    logic any_beats;
    logic [63:0] stored;
    logic [5:0] stored_beats;  // less one
    logic [5:0] rest;  // values of the last stored beat, less one
    logic [1:0] width_log2;
    logic [1:0] tail_bytes;  // to be appended to a raw block
    logic [23:0] tail;
    logic [1:0] pause;  // clocks to leave free at the end
    logic drop;
    record_t record;
    codes_t codes;
  } frame_t;

  // From the plan.
  logic coded, raw;
  logic [1:0] width;
  logic [12:0] values_less_one, stored_less_one, stored_values;
  logic [5:0] kind;
  logic record_partial;
  logic [1:0] parts_less_one;
  logic has_symbols;
  frame_t frame;

  assign coded = s_plan.coded && s_plan.mode == MODE_CODED;
  assign raw = !s_plan.coded || s_plan.mode == MODE_RAW;
  assign width = width_log2(s_plan.element);
  assign stored_values = raw ? s_plan.values : s_plan.stored_values;
  assign values_less_one = s_plan.values - 13'd1;
  assign stored_less_one = stored_values - 13'd1;
  for (genvar t = 0; t < 6; t++) begin : g_kind
    assign kind[t] = is_type(TYPES, s_plan.element, element_type_e'(t));
  end
  assign has_symbols = !kind[ELEMENT_TYPE_RAW];

  // Beat in which a value lies, and its place there.
  function automatic logic [5:0] beat_of(input logic [12:0] value, input logic [1:0] log2);
    unique case (log2)
      2'd0: return 6'(value >> 6);
      2'd1: return 6'(value >> 5);
      default: return 6'(value >> 4);
    endcase
  endfunction
  function automatic logic [5:0] place_of(input logic [5:0] value, input logic [1:0] log2);
    unique case (log2)
      2'd0: return value;
      2'd1: return value & 6'd31;
      default: return value & 6'd15;
    endcase
  endfunction
  function automatic logic [1:0] units(input logic [5:0] bytes);  // of 16 bytes, modulo 4
    return bytes[5:4] + 2'(bytes[3:0] != '0);
  endfunction

  // The chunks of a partial last record, less one (wz_record).
  always_comb begin
    record_partial = place_of(s_plan.carriers[5:0], width) != '0;
    parts_less_one = 2'd0;
    if (kind[ELEMENT_TYPE_FP16]) parts_less_one = {1'b0, !s_plan.plane_flags[0]};
    if (kind[ELEMENT_TYPE_FP32]) begin
      // Three parts, planes 0 and 1 and one more, less those that are flagged.
      unique case ({
        s_plan.plane_flags[0], s_plan.plane_flags[1],
        s_plan.plane_flags[2] && !s_plan.sign_flag
      })
        3'b000: parts_less_one = 2'd2;
        3'b001, 3'b010, 3'b100: parts_less_one = 2'd1;
        default: parts_less_one = 2'd0;
      endcase
    end
  end

  wire unused = &{1'b0, s_plan, kind, now_q};

  logic [1:0] section_unit;
  always_comb begin
    frame = '0;
    frame.raw = raw;
    frame.symbols = coded && has_symbols && s_plan.stored_values != '0;
    frame.remainders = raw || (coded && s_plan.remainder_bytes != '0);
    frame.beats = beat_of(values_less_one, width);
    frame.any_beats = s_plan.values != '0;
    frame.stored = (coded && s_plan.bitmap) ? s_plan.stored_beats : {64{coded || raw}};
    frame.stored_beats = beat_of(stored_less_one, width);
    frame.rest = place_of(stored_less_one[5:0], width);
    frame.width_log2 = width;
    frame.tail_bytes = raw ? s_plan.tail_bytes : 2'd0;
    frame.tail = s_plan.tail;
    // A frame of R0 may leave bits of its last group for a clock of their own; only with many
    // escapes if a group has 32 values.
    frame.pause = (coded && record_partial) ? parts_less_one : 2'd0;
    if (coded && frame.pause == '0 && s_plan.coder == CODER_R0
        && (LANES < 32 || s_plan.escapes >= 8'd16)) begin
      frame.pause = 2'd1;
    end
    frame.drop = coded && s_plan.bare_zeros != '0;
    frame.record.raw = raw;
    frame.record.element = s_plan.element;
    frame.record.sign_flag = s_plan.sign_flag;
    frame.record.plane_flags = s_plan.plane_flags;
    section_unit = 2'd1 + units(s_plan.extras_bytes);
    frame.record.start = coded ? {section_unit, 4'd0}
                       : (s_plan.coded ? 6'(SHORT_HEADER_BYTES) : 6'd0) + 6'(s_plan.head_bytes);
    section_unit = section_unit + units(s_plan.remainder_bytes[5:0]);
    frame.codes.low_start = section_unit;
    section_unit = section_unit + units(s_plan.low_bytes[5:0]);
    frame.codes.unary_start = section_unit;
    frame.codes.unary_any = s_plan.unary_bytes != '0;
    frame.codes.escape_start = {section_unit, 4'd0} + s_plan.unary_bytes[5:0];
    frame.codes.escapes = s_plan.escapes;
    frame.codes.element = s_plan.element;
    frame.codes.coder = s_plan.coder;
    frame.codes.bank = s_bank;
    frame.codes.order_lo = s_order_lo;
    frame.codes.order_hi = s_order_hi;
    frame.codes.zero_rank = s_plan.zero_rank;
  end

  // The next frame waits while the present one is handed out.
  frame_t next_q, now_q;
  logic next_valid_q, now_valid_q, finish, advance;

  assign advance = next_valid_q && (!now_valid_q || finish);
  assign s_plan_ready = !next_valid_q || advance;

  // Progress in the present frame.
  logic [6:0] beats_left_q;
  logic [5:0] stored_left_q;  // less one
  logic [63:0] stored_q;
  logic [1:0] pause_q;
  logic tail_q, first_q, first_group_q, routed_q, network_q;
  logic [2:0] group_q;  // groups handed out of the beat at the output; 0: a new beat
  logic [5:0] group_rest_q;  // values in the groups to come, less one
  logic group_stored_last_q;

  localparam int unsigned LANE_W = $clog2(LANES);

  logic can_route, route_network, take, take_stored, take_tail, take_group, take_pause;
  logic beat_more_groups, last_stored, beats_done, after_all;
  logic [5:0] beat_rest;  // values of the beat, less one
  logic [5:0] values_beat;  // less one

  // Beats of a frame with bare zeros must use the network. Others may, to stay behind; a raw block
  // must not.
  assign route_network = routed_q ? network_q : (now_q.drop || !network_idle_q);
  assign can_route = !now_q.remainders || routed_q || now_q.drop || network_idle_q
                     || (!now_q.raw && now_q.symbols);
  assign beats_done = beats_left_q == '0;
  assign take = now_valid_q && group_q == '0 && !beats_done && go && can_route && s_beat_valid;
  assign s_beat_ready = now_valid_q && group_q == '0 && !beats_done && go && can_route;
  assign take_stored = take && stored_q[0];
  assign take_tail = now_valid_q && group_q == '0 && beats_done && tail_q && go && can_route;
  assign take_group = now_valid_q && group_q != '0 && go;
  assign take_pause = now_valid_q && group_q == '0 && beats_done && !tail_q && pause_q != '0;

  always_comb begin
    unique case (now_q.width_log2)
      2'd0: values_beat = 6'd63;
      2'd1: values_beat = 6'd31;
      default: values_beat = 6'd15;
    endcase
  end
  assign last_stored = stored_left_q == '0;
  assign beat_rest = last_stored ? now_q.rest : values_beat;

  logic [5:0] groups_rest;  // values behind the group handed out, less one, and if there are any
  logic groups_more;
  always_comb begin
    groups_rest = take_group ? group_rest_q : beat_rest;
    groups_more = now_q.symbols && 7'(groups_rest) >= 7'(LANES);
  end
  assign beat_more_groups = groups_more;

  // Nothing is left after this clock.
  assign after_all = !tail_q && pause_q == '0;
  always_comb begin
    finish = 1'b0;
    if (now_valid_q) begin
      if (group_q != '0) finish = take_group && !groups_more && beats_done && after_all;
      else if (!beats_done) begin
        finish = take && beats_left_q == 7'd1 && after_all && !(stored_q[0] && beat_more_groups);
      end else if (tail_q) finish = take_tail && pause_q == '0;
      else finish = pause_q <= 2'd1;
    end
  end

  logic network_idle_q;
  logic [2:0] network_recent_q;  // a beat for the network was handed out in the clocks before
  assign network_idle_q = network_idle && network_recent_q == '0;

  always_ff @(posedge clk) begin
    if (s_plan_ready) begin
      next_q <= frame;
      next_valid_q <= s_plan_valid;
    end
    if (advance) begin
      now_q <= next_q;
      beats_left_q <= next_q.any_beats ? {1'b0, next_q.beats} + 7'd1 : '0;
      stored_left_q <= next_q.stored_beats;
      stored_q <= next_q.stored;
      pause_q <= next_q.pause;
      tail_q <= next_q.tail_bytes != '0;
      first_q <= 1'b1;
      first_group_q <= 1'b1;
      routed_q <= 1'b0;
    end else begin
      if (take) begin
        beats_left_q <= beats_left_q - 1'b1;
        stored_q <= stored_q >> 1;
      end
      if (take_stored) begin
        stored_left_q <= stored_left_q - 1'b1;
        first_q <= 1'b0;
        first_group_q <= 1'b0;
        routed_q <= 1'b1;
        network_q <= route_network;
      end
      if (take_tail) begin
        tail_q <= 1'b0;
        routed_q <= 1'b1;
      end
      if (take_pause) pause_q <= pause_q - 1'b1;
    end
    if (take_stored || take_group) begin
      group_q <= groups_more ? group_q + 1'b1 : '0;
      group_rest_q <= groups_rest - 6'(LANES);
    end
    if (take_stored) group_stored_last_q <= last_stored;
    if (advance || finish) now_valid_q <= next_valid_q;

    network_recent_q <= {network_recent_q[1:0], take_stored && now_q.remainders && route_network};

    if (rst) begin
      next_valid_q <= 1'b0;
      now_valid_q <= 1'b0;
      group_q <= '0;
      network_recent_q <= '0;
    end
  end

  // Outputs.
  logic [2:0] release_q;
  always_ff @(posedge clk) begin
    if (take_stored) m_data <= s_beat;
    else if (take_tail) m_data[23:0] <= now_q.tail;

    m_beat_valid <= (take_stored && now_q.remainders) || take_tail;
    if (take_tail) m_count <= {5'd0, now_q.tail_bytes};
    else if (now_q.raw) begin
      unique case (now_q.width_log2)
        2'd0: m_count <= {1'b0, beat_rest} + 7'd1;
        2'd1: m_count <= {beat_rest, 1'b0} + 7'd2;
        default: m_count <= {beat_rest[4:0], 2'b0} + 7'd4;
      endcase
    end else m_count <= {1'b0, beat_rest} + 7'd1;
    m_beat_first <= first_q;
    m_beat_last <= take_tail || (last_stored && !tail_q);
    if (take_stored || take_tail) begin
      m_record <= now_q.record;
      m_drop <= now_q.drop;
    end
    m_network <= take_stored && route_network && !now_q.raw;

    m_group_valid <= now_q.symbols && (take_stored || take_group);
    m_group <= group_q;
    m_group_count <= groups_more ? COUNT_W'(LANES) : COUNT_W'(groups_rest[LANE_W-1:0]) + 1'b1;
    m_group_first <= take_stored && first_group_q;
    m_group_last <= !groups_more && (take_group ? group_stored_last_q : last_stored);
    m_codes <= now_q.codes;

    release_q <= {release_q[1:0], finish && now_q.symbols};
    m_release <= release_q[2];
    if (rst) begin
      m_beat_valid <= 1'b0;
      m_group_valid <= 1'b0;
      release_q <= '0;
      m_release <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  a_latency : assert property (@(posedge clk) disable iff (rst)
      s_plan_valid && s_plan_ready && !now_valid_q && !next_valid_q && s_plan.values != '0
      && s_plan.mode != MODE_CONSTANT && !(s_plan.bitmap && !s_plan.stored_beats[0])
      |-> ##2 now_valid_q);
  a_routes : assert property (@(posedge clk) disable iff (rst)
      m_beat_valid && m_record.raw |-> !m_network);
`endif

endmodule
