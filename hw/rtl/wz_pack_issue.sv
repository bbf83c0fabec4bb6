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
    input  wz_pkg::table_bank_t s_bank,
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

    output logic m_release  // once a frame: it no longer needs its table
);

  import wz_format_pkg::*;
  import wz_pkg::*;
  import wz_pack_pkg::*;

  // One-hot, to be read in a term of few inputs.
  typedef enum int unsigned {
    IDLE,
    WAIT,  // until nothing is in the network
    BEATS,  // fetch the next
    GROUPS,  // more of the beat at the output
    TAIL,
    PAUSE,  // leave clocks free; also for a frame without anything to hand out
    STATES
  } state_e;

  // What a frame needs here, as far as it is worked out in the clock in which the plan comes.
  typedef struct packed {
    logic coded;
    logic raw;
    logic symbols;  // the symbol path takes it
    logic remainders;  // the remainder path takes it
    logic any_route;  // it may use the network, or does not use the remainder path
    logic [5:0] beats;  // less one
    logic [5:0] stored_beats;  // less one
    logic [5:0] rest;  // values of the last stored beat, less one
    logic any_beats;
    logic [63:0] stored;
    logic [1:0] width_log2;
    logic [1:0] tail_bytes;  // to be appended to a raw block
    logic [23:0] tail;
    logic [1:0] pause;  // clocks to leave free at the end
    logic drop;
    record_t record;
    codes_t codes;
    logic [1:0] remainder_units, low_units;  // of 16 bytes, modulo 4
  } frame_t;

  logic coded, raw;
  logic [1:0] width;
  logic [12:0] last_value, last_stored;  // indices
  logic [5:0] kind;
  logic [1:0] parts_less_one;
  frame_t frame;

  assign coded = s_plan.coded && s_plan.mode == MODE_CODED;
  assign raw = !s_plan.coded || s_plan.mode == MODE_RAW;
  assign width = width_log2(s_plan.element);
  assign last_value = s_plan.values - 13'd1;
  assign last_stored = s_plan.stored_values - 13'd1;
  for (genvar t = 0; t < 6; t++) begin : g_kind
    assign kind[t] = is_type(TYPES, s_plan.element, element_type_e'(t));
  end

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
  function automatic logic [1:0] sixteens(input logic [5:0] bytes);
    return bytes[5:4] + 2'(bytes[3:0] != '0);
  endfunction

  // The chunks of a partial last record, less one (wz_record).
  always_comb begin
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

  always_comb begin
    frame = '0;
    frame.coded = coded;
    frame.raw = raw;
    frame.symbols = coded && !kind[ELEMENT_TYPE_RAW] && s_plan.stored_values != '0;
    frame.remainders = raw || (coded && s_plan.remainder_bytes != '0);
    frame.drop = coded && s_plan.bare_zeros != '0;
    frame.any_route = !raw && (!kind[ELEMENT_TYPE_RAW] || s_plan.remainder_bytes == '0);
    frame.beats = beat_of(last_value, width);
    frame.stored_beats = raw ? beat_of(last_value, width) : beat_of(last_stored, width);
    frame.rest = raw ? place_of(last_value[5:0], width) : place_of(last_stored[5:0], width);
    frame.any_beats = s_plan.values != '0;
    frame.stored = (coded && s_plan.bitmap) ? s_plan.stored_beats : {64{coded || raw}};
    frame.width_log2 = width;
    frame.tail_bytes = raw ? s_plan.tail_bytes : 2'd0;
    frame.tail = s_plan.tail;
    if (coded && place_of(s_plan.carriers[5:0], width) != '0) frame.pause = parts_less_one;
    // A frame of R0 may leave bits of its last group for a clock of their own; only with many
    // escapes if a group has 32 values.
    if (coded && s_plan.coder == CODER_R0 && (LANES < 32 || s_plan.escapes >= 8'd16)) begin
      frame.pause[0] = !frame.pause[1];
    end
    frame.record.raw = raw;
    frame.record.kind = kind;
    frame.record.sign_flag = s_plan.sign_flag;
    frame.record.plane_flags = s_plan.plane_flags;
    if (coded) frame.record.start = {sixteens(s_plan.extras_bytes) + 2'd1, 4'd0};
    else frame.record.start = {2'd0, s_plan.coded, 1'b0, s_plan.head_bytes};
    frame.remainder_units = sixteens(s_plan.remainder_bytes[5:0]);
    frame.low_units = sixteens(s_plan.low_bytes[5:0]);
    frame.codes.unary_any = s_plan.unary_bytes != '0;
    frame.codes.escape_start = s_plan.unary_bytes[5:0];  // behind the start of the unary section
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
  logic next_valid_q;
  logic [STATES-1:0] state_q, first_state;
  logic finish, advance;

  assign advance = next_valid_q && (state_q[IDLE] || finish);
  assign s_plan_ready = !next_valid_q || advance;

  // What is worked out in the clock after.
  logic quiet;  // nothing is in the network, and nothing can come into it in this clock
  logic [1:0] low_start, unary_start;
  logic [5:0] full_rest;  // values of a full beat, less one
  always_comb begin
    low_start = next_q.record.start[5:4] + next_q.remainder_units;
    unary_start = low_start + next_q.low_units;
    unique case (next_q.width_log2)
      2'd0: full_rest = 6'd63;
      2'd1: full_rest = 6'd31;
      default: full_rest = 6'd15;
    endcase
    first_state = '0;
    if (next_q.any_beats) first_state[BEATS] = next_q.any_route || quiet;
    else if (next_q.tail_bytes != '0) first_state[TAIL] = quiet;
    else first_state[PAUSE] = 1'b1;
    first_state[WAIT] = first_state == '0;
  end

  // Progress in the present frame. Counters go with flops that say where they are.
  logic [5:0] beats_left_q, stored_left_q;  // less one
  logic last_beat_q, last_stored_q;  // the counters are 0
  logic [63:0] stored_q;
  logic [1:0] pause_q;
  logic last_pause_q;  // this clock is the last, or none is needed
  logic ends_with_beats_q;  // neither tail nor pause
  logic first_q, first_group_q, routed_q, network_q;
  logic [5:0] rest_q, full_rest_q;  // values of the last stored beat and of any other, less one
  logic rest_more_q, full_more_q;  // they are more than a group
  logic more_q;  // so are those of the next beat, and it is stored
  logic [2:0] group_q;  // groups handed out of the beat at the output
  logic [5:0] group_rest_q;  // values in the groups to come, less one
  logic group_more_q;  // they are more than one group
  logic group_last_stored_q, group_last_beat_q;  // of the beat at the output

  localparam int unsigned LANE_W = $clog2(LANES);

  function automatic logic exceeds_group(input logic [5:0] values_less_one);
    return 7'(values_less_one) >= 7'(LANES);
  endfunction

  // Beats of a frame with bare zeros must use the network. Others may, to stay behind; a raw block
  // must not.
  logic empty, route_network;
  logic [3:0] recent_q;  // a beat for the network was handed out in the clocks before
  logic empty_q;
  assign empty = empty_q && !recent_q[0];
  assign route_network = routed_q ? network_q : (now_q.drop || !empty);
  assign quiet = empty && !now_q.drop && !(routed_q && network_q);

  logic take, take_stored, take_group, take_tail;
  logic [5:0] beat_rest;
  assign s_beat_ready = state_q[BEATS] && go;
  assign take = s_beat_ready && s_beat_valid;
  assign take_stored = take && stored_q[0];
  assign take_group = state_q[GROUPS] && go;
  assign take_tail = state_q[TAIL] && go;
  assign beat_rest = last_stored_q ? rest_q : full_rest_q;

  // Whether nothing is left after this clock. What comes late is a single term.
  logic last_of_beats, last_of_groups;
  assign last_of_beats = last_beat_q && ends_with_beats_q && !more_q;
  assign last_of_groups = group_last_beat_q && ends_with_beats_q && !group_more_q;
  assign finish = (take && last_of_beats) || (take_group && last_of_groups) || take_tail
               || (state_q[PAUSE] && last_pause_q);

  // The next state. Each bit is a sum of terms in which what comes late stands once.
  logic tail_next_q, beats_end, groups_end;
  logic [STATES-1:0] state_d;
  assign beats_end = last_beat_q && !more_q;
  assign groups_end = take_group && !group_more_q;
  always_comb begin
    state_d[IDLE] = state_q[IDLE] || finish;
    state_d[WAIT] = state_q[WAIT] && !empty;
    state_d[BEATS] = (state_q[WAIT] && empty && now_q.any_beats)
                  || (state_q[BEATS] && !(take && (last_beat_q || more_q)))
                     || (groups_end && !group_last_beat_q);
    state_d[GROUPS] = (take && more_q) || (state_q[GROUPS] && !groups_end);
    state_d[TAIL] = (state_q[WAIT] && empty && !now_q.any_beats)
                 || (take && beats_end && tail_next_q) || (state_q[TAIL] && !take_tail);
    state_d[PAUSE] = (take && beats_end && !tail_next_q && !ends_with_beats_q)
                     || (groups_end && group_last_beat_q && !ends_with_beats_q)
                     || (state_q[PAUSE] && !last_pause_q);
  end

  always_ff @(posedge clk) begin
    if (s_plan_ready) begin
      next_q <= frame;
      next_valid_q <= s_plan_valid;
    end

    state_q <= advance ? first_state : state_d;
    if (advance) begin
      now_q <= next_q;
      now_q.codes.low_start <= low_start;
      now_q.codes.unary_start <= unary_start;
      now_q.codes.escape_start <= {unary_start, 4'd0} + next_q.codes.escape_start;
      beats_left_q <= next_q.beats;
      last_beat_q <= next_q.beats == '0;
      stored_left_q <= next_q.stored_beats;
      last_stored_q <= next_q.stored_beats == '0;
      stored_q <= next_q.stored;
      rest_q <= next_q.rest;
      full_rest_q <= full_rest;
      rest_more_q <= next_q.symbols && exceeds_group(next_q.rest);
      full_more_q <= next_q.symbols && exceeds_group(full_rest);
      more_q <= next_q.symbols && next_q.stored[0]
             && exceeds_group((next_q.stored_beats == '0) ? next_q.rest : full_rest);
      pause_q <= next_q.pause;
      last_pause_q <= next_q.pause <= 2'd1;
      ends_with_beats_q <= next_q.tail_bytes == '0 && next_q.pause == '0;
      tail_next_q <= next_q.tail_bytes != '0;
      first_q <= 1'b1;
      first_group_q <= 1'b1;
      routed_q <= 1'b0;
    end else begin
      if (state_q[PAUSE]) begin
        pause_q <= pause_q - 1'b1;
        last_pause_q <= 1'b1;
      end
      if (take) begin
        beats_left_q <= beats_left_q - 1'b1;
        last_beat_q <= beats_left_q == 6'd1;
        stored_q <= stored_q >> 1;
        more_q <= stored_q[1] && ((stored_q[0] ? stored_left_q == 6'd1 : last_stored_q)
                                  ? rest_more_q : full_more_q);
      end
      if (take_stored) begin
        stored_left_q <= stored_left_q - 1'b1;
        last_stored_q <= stored_left_q == 6'd1;
        first_q <= 1'b0;
        first_group_q <= 1'b0;
        routed_q <= 1'b1;
        network_q <= route_network;
      end
    end

    if (take_stored) begin
      group_q <= 3'd1;
      group_rest_q <= beat_rest - 6'(LANES);
      group_more_q <= exceeds_group(beat_rest - 6'(LANES));
      group_last_stored_q <= last_stored_q;
      group_last_beat_q <= last_beat_q;
    end else if (take_group) begin
      group_q <= group_q + 1'b1;
      group_rest_q <= group_rest_q - 6'(LANES);
      group_more_q <= exceeds_group(group_rest_q - 6'(LANES));
    end

    recent_q <= {recent_q[2:0], take_stored && now_q.remainders && route_network};
    empty_q <= network_idle && recent_q == '0;

    if (rst) begin
      next_valid_q <= 1'b0;
      state_q <= STATES'(1 << IDLE);
      // No frame was before that a raw block would have to wait for.
      now_q.drop <= 1'b0;
      routed_q <= 1'b0;
      recent_q <= '0;
    end
  end
  wire unused = &{1'b0, s_plan, kind, next_q, now_q};

  // Outputs. Counts of values are one more than what is kept.
  logic [1:0] release_q;
  logic [LANE_W-1:0] group_rest;
  logic group_more;
  assign group_rest = LANE_W'((state_q[GROUPS]) ? group_rest_q : beat_rest);
  assign group_more = (state_q[GROUPS]) ? group_more_q : more_q;

  always_ff @(posedge clk) begin
    if (take_stored) m_data <= s_beat;
    else if (take_tail) m_data[23:0] <= now_q.tail;

    m_beat_valid <= (take_stored && now_q.remainders) || take_tail;
    if (state_q[TAIL]) m_count <= {5'd0, now_q.tail_bytes};
    else begin
      unique case (now_q.raw ? now_q.width_log2 : 2'd0)
        2'd0: m_count <= {1'b0, beat_rest} + 7'd1;
        2'd1: m_count <= {beat_rest, 1'b0} + 7'd2;
        default: m_count <= {beat_rest[4:0], 2'b0} + 7'd4;
      endcase
    end
    m_beat_first <= first_q;
    m_beat_last <= state_q[TAIL] || (last_stored_q && !tail_next_q);
    m_record <= now_q.record;
    m_drop <= now_q.drop;
    m_network <= take_stored && route_network && !now_q.raw;

    m_group_valid <= now_q.symbols && (take_stored || take_group);
    m_group <= (state_q[GROUPS]) ? group_q : 3'd0;
    m_group_count <= group_more ? COUNT_W'(LANES) : COUNT_W'(group_rest) + 1'b1;
    m_group_first <= take_stored && first_group_q;
    m_group_last <= !group_more && ((state_q[GROUPS]) ? group_last_stored_q : last_stored_q);
    m_codes <= now_q.codes;

    release_q <= {release_q[0], finish};
    m_release <= release_q[1];
    if (rst) begin
      m_beat_valid <= 1'b0;
      m_group_valid <= 1'b0;
      release_q <= '0;
      m_release <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  a_routes : assert property (@(posedge clk) disable iff (rst)
      m_beat_valid && m_record.raw |-> !m_network);
  a_groups : assert property (@(posedge clk) disable iff (rst)
      state_q[GROUPS] |-> LANES < 64 && now_q.symbols);
`endif

endmodule
