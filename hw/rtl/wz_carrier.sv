// SPDX-License-Identifier: Apache-2.0
//
// Takes values without a remainder out of the beats (bare zeros; docs/format.md, section 6) and
// regroups the carriers that are left into beats of V.
//
// Two ways lead through it. Beats with s_network go through a compacting network behind which an
// accumulator fills up. The others go straight to the output register; that is right only while
// nothing is in the network, which `idle` says. With s_drop, values whose symbol is 0 are dropped.
//
// A beat of carriers leaves when the next one begins, at the end of a frame or when nothing comes
// in: so at most one leaves a clock, although a beat can complete one and a frame's end leave
// another. The last beat of a frame may hold no carrier at all. Carriers that are not there are zero,
// but for the symbols' bits, which mean nothing in what went through the network.
//
//   latency       1 clock past the network; through it NETWORK + 3 clocks, one less for a beat that
//                 completes more than a record (NETWORK: of wz_compact, 6, 5 or 4 clocks for
//                 elements from 1, 2 or 4 bytes up)
//   throughput    1 beat a clock
//   back-pressure none

module wz_carrier #(
    parameter logic [5:0] TYPES = 6'b111111
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input logic [511:0]         s_data,
    input logic [6:0]           s_count,  // values in the beat, or bytes of a raw one
    input logic                 s_first,  // of the frame
    input logic                 s_last,
    input wz_pack_pkg::record_t s_record,
    input logic                 s_network,
    input logic                 s_drop,
    input logic                 s_valid,

    output logic [511:0]         m_data,
    output logic [6:0]           m_count,
    output logic                 m_first,
    output logic                 m_last,
    output wz_pack_pkg::record_t m_record,
    output logic                 m_valid,

    output logic idle  // nothing in the network, as of the clock before
);

  import wz_format_pkg::*;
  import wz_pack_pkg::*;

  // The network moves elements of the narrowest type; wider ones are several lanes.
  localparam int unsigned NARROW = narrowest(TYPES);
  localparam int unsigned LANES = 64 >> NARROW;
  localparam int unsigned LANE_W = 8 << NARROW;
  localparam int unsigned BASE_W = $clog2(LANES);
  localparam int unsigned GROUPS = LANES / 8;
  localparam int unsigned DATA_CLOCKS = GROUPS > 4 ? 3 : 2;  // of the network before it moves data
  localparam int unsigned RECORD_W = $bits(record_t);

  // Bits of a lane that carry in some type; symbols, which the frame has elsewhere, do not move.
  function automatic logic [LANE_W-1:0] carried();
    carried = '0;
    for (int unsigned tag = 1; tag < 6; tag++) begin
      for (int unsigned i = 0; i < 8 * LAYOUTS[tag].width_bytes; i++) begin
        if (TYPES[tag] && (i < LAYOUTS[tag].mantissa_bits ||
            i >= LAYOUTS[tag].mantissa_bits + LAYOUTS[tag].exponent_bits)) begin
          carried[i%LANE_W] = 1'b1;
        end
      end
    end
  endfunction
  localparam logic [LANE_W-1:0] CARRIED = carried();
  localparam int unsigned MOVED_W = $countones(CARRIED);

  // Those bits together, and back where they were.
  function automatic logic [MOVED_W-1:0] together(input logic [LANE_W-1:0] lane);
    int unsigned at;
    at = 0;
    together = '0;
    for (int unsigned i = 0; i < LANE_W; i++) begin
      if (CARRIED[i]) begin
        together[at] = lane[i];
        at++;
      end
    end
  endfunction

  function automatic logic [LANE_W-1:0] apart(input logic [MOVED_W-1:0] moving);
    int unsigned at;
    at = 0;
    apart = '0;
    for (int unsigned i = 0; i < LANE_W; i++) begin
      if (CARRIED[i]) begin
        apart[i] = moving[at];
        at++;
      end
    end
  endfunction

  // Which values stay.
  logic [5:0] kind;
  assign kind = fold_kind(TYPES, s_record.kind);
  wire unused = &{1'b0, kind};

  logic [LANES-1:0] keep;
  for (genvar i = 0; i < LANES; i++) begin : g_keep
    localparam int unsigned BYTE = i << NARROW;
    // The first byte of the element of 1, 2 and 4 bytes that this lane is part of.
    localparam int unsigned AT2 = BYTE / 2 * 16;
    localparam int unsigned AT4 = BYTE / 4 * 32;
    logic exists, nonzero;
    assign exists = ((kind[ELEMENT_TYPE_BF16] || kind[ELEMENT_TYPE_FP16])
                     && 7'(BYTE / 2) < s_count)
                 || (kind[ELEMENT_TYPE_FP32] && 7'(BYTE / 4) < s_count)
                 || ((kind[ELEMENT_TYPE_E4M3] || kind[ELEMENT_TYPE_E5M2])
                     && 7'(BYTE) < s_count);
    assign nonzero = (kind[ELEMENT_TYPE_BF16] && s_data[AT2+7+:8] != '0)
                  || (kind[ELEMENT_TYPE_FP16] && s_data[AT2+10+:5] != '0)
                  || (kind[ELEMENT_TYPE_FP32] && s_data[AT4+23+:8] != '0)
                  || (kind[ELEMENT_TYPE_E4M3] && s_data[8*BYTE+3+:4] != '0)
                  || (kind[ELEMENT_TYPE_E5M2] && s_data[8*BYTE+2+:5] != '0);
    assign keep[i] = exists && (nonzero || !s_drop);
  end

  // Clock 1: keep. Clocks 2 and 3, inside the network's counting: what the beat comes to.
  logic [LANES-1:0][LANE_W-1:0] s_lanes;
  logic [LANES-1:0][MOVED_W-1:0] data_q;
  logic [LANES-1:0] keep_q;
  logic [RECORD_W-1:0] record_q;
  logic last_q;
  logic [DATA_CLOCKS:0] first_q, valid_q;  // index: after clock i + 1
  logic [GROUPS-1:0][3:0] group_q;
  logic [BASE_W:0] total, total_q, stop_total;  // lanes

  assign s_lanes = s_data;
  always_comb begin
    total = '0;
    for (int g = 0; g < int'(GROUPS); g++) total += (BASE_W + 1)'(group_q[g]);
  end

  always_ff @(posedge clk) begin
    for (int i = 0; i < int'(LANES); i++) data_q[i] <= together(s_lanes[i]);
    keep_q <= keep;
    record_q <= s_record;
    last_q <= s_last;
    for (int g = 0; g < int'(GROUPS); g++) group_q[g] <= 4'($countones(keep_q[8*g+:8]));
    total_q <= total;
    first_q <= {first_q[DATA_CLOCKS-1:0], s_first};
    valid_q <= {valid_q[DATA_CLOCKS-1:0], s_valid && s_network};
    if (rst) valid_q <= '0;
  end
  if (DATA_CLOCKS == 2) begin : g_total
    assign stop_total = total_q;
  end else begin : g_later
    logic [BASE_W:0] later_q;
    always_ff @(posedge clk) later_q <= total_q;
    assign stop_total = later_q;
  end

  // When the network begins: where the beat's carriers go, and what they complete.
  logic [BASE_W-1:0] base_q;
  logic [BASE_W:0] stop;
  logic over, full;
  assign stop = {1'b0, base_q} + stop_total;
  assign full = stop[BASE_W] && stop[BASE_W-1:0] == '0;  // a record, exactly
  assign over = stop[BASE_W] && stop[BASE_W-1:0] != '0;  // and more

  always_ff @(posedge clk) begin
    if (valid_q[DATA_CLOCKS]) base_q <= stop[BASE_W-1:0];
    if (valid_q[DATA_CLOCKS-1] && first_q[DATA_CLOCKS-1]) base_q <= '0;
  end

  localparam int unsigned STAGES = (BASE_W + 1) / 2;  // of the network
  logic [STAGES-1:0] full_pipe_q, over_pipe_q;
  logic [STAGES-1:0][BASE_W-1:0] stop_pipe_q;
  always_ff @(posedge clk) begin
    full_pipe_q <= {full_pipe_q[STAGES-2:0], full};
    over_pipe_q <= {over_pipe_q[STAGES-2:0], over};
    stop_pipe_q <= {stop_pipe_q[STAGES-2:0], stop[BASE_W-1:0]};
  end

  logic [LANES-1:0][MOVED_W-1:0] moved;
  logic [LANES-1:0] taken, wrapped;
  logic [RECORD_W-1:0] n_record;
  logic n_first, n_last, n_full, n_over, n_valid;
  logic [BASE_W-1:0] n_stop;
  assign n_full = full_pipe_q[STAGES-1];
  assign n_over = over_pipe_q[STAGES-1];
  assign n_stop = stop_pipe_q[STAGES-1];

  wz_compact #(
      .LANES(LANES),
      .W(MOVED_W),
      .USER_W(RECORD_W + 2)
  ) u_compact (
      .clk,
      .rst,
      .en(1'b1),
      .s_data(data_q),
      .s_keep(keep_q),
      .s_base(base_q),
      .s_user({record_q, first_q[0], last_q}),
      .s_valid(valid_q[0]),
      .m_data(moved),
      .m_taken(taken),
      .m_wrapped(wrapped),
      .m_user({n_record, n_first, n_last}),
      .m_valid(n_valid)
  );

  // Behind the network: the record that is being filled.
  logic [LANES-1:0][MOVED_W-1:0] sum_q;
  logic [RECORD_W-1:0] sum_record_q;
  logic sum_first_q;  // no record of the frame has left yet
  logic full_q;  // it is complete
  logic last_pending_q;  // it is the frame's last
  logic [BASE_W-1:0] stop_q;  // lanes in it, unless it is complete
  logic flush, leave;

  assign flush = full_q || last_pending_q;  // leaves now: alone, or pushed by the next
  assign leave = flush || (n_valid && n_over);

  always_ff @(posedge clk) begin
    if (n_valid) begin
      for (int i = 0; i < int'(LANES); i++) if (taken[i]) sum_q[i] <= moved[i];
      stop_q <= n_stop;
    end
    if (n_valid && n_first) sum_record_q <= n_record;
    if (n_valid && n_first) sum_first_q <= 1'b1;
    else if (leave) sum_first_q <= 1'b0;
    full_q <= n_valid && n_full;
    last_pending_q <= n_valid && n_last;
    if (rst) begin
      full_q <= 1'b0;
      last_pending_q <= 1'b0;
    end
  end

  // Lanes of an incomplete last record that hold nothing, a clock ahead of their use.
  logic [LANES-1:0] empty_q;
  always_ff @(posedge clk) begin
    for (int i = 0; i < int'(LANES); i++) begin
      empty_q[i] <= !n_full && BASE_W'(i) >= n_stop;
    end
  end

  // The output register.
  localparam logic [1:0] OLD = 2'd0, NEW = 2'd1, PAST = 2'd2, ZERO = 2'd3;
  logic [LANES-1:0][MOVED_W-1:0] moved_d;
  logic [LANES-1:0][LANE_W-1:0] data_d;
  logic [LANES-1:0][1:0] select;
  logic past;
  assign past = s_valid && !s_network;

  for (genvar i = 0; i < LANES; i++) begin : g_out
    always_comb begin
      if (past) select[i] = PAST;
      else if (flush) select[i] = empty_q[i] ? ZERO : OLD;
      else select[i] = (taken[i] && !wrapped[i]) ? NEW : OLD;
      unique case (select[i])
        NEW: moved_d[i] = moved[i];
        PAST: moved_d[i] = together(s_lanes[i]);
        ZERO: moved_d[i] = '0;
        default: moved_d[i] = sum_q[i];
      endcase
      // Symbols of carriers have no meaning.
      data_d[i] = apart(moved_d[i]) | (s_lanes[i] & ~CARRIED);
    end
  end

  // Values of a record of `lanes` lanes.
  logic [6:0] sum_count;
  record_t sum_record;
  logic [5:0] sum_kind;
  assign sum_record = sum_record_q;
  assign sum_kind = fold_kind(TYPES, sum_record.kind);
  always_comb begin
    logic [6:0] lanes;
    lanes = {!last_pending_q || full_q, (full_q || !last_pending_q) ? 6'd0 : 6'(stop_q) << NARROW};
    if (sum_kind[ELEMENT_TYPE_BF16] || sum_kind[ELEMENT_TYPE_FP16]) sum_count = lanes >> 1;
    else if (sum_kind[ELEMENT_TYPE_FP32]) sum_count = lanes >> 2;
    else sum_count = lanes;
  end
  wire unused_kind = &{1'b0, sum_kind};

  always_ff @(posedge clk) begin
    if (past || leave) begin
      m_data   <= data_d;
      m_count  <= past ? s_count : sum_count;
      m_first  <= past ? s_first : sum_first_q;
      m_last   <= past ? s_last : last_pending_q;
      m_record <= past ? s_record : sum_record;
    end
    m_valid <= past || leave;
    if (rst) m_valid <= 1'b0;
  end

  // How many beats are in the network. A flop that knows of every beat but the present one.
  localparam int unsigned NETWORK = (BASE_W < 3) ? 2 : BASE_W;
  logic [NETWORK:0] in_network_q;  // a one for each beat between clock 1 and the accumulator
  always_ff @(posedge clk) begin
    in_network_q <= {in_network_q[NETWORK-1:0], valid_q[0]};
    idle <= !((s_valid && s_network) || valid_q[0] || in_network_q != '0 || leave || n_valid);
    if (rst) in_network_q <= '0;
  end

`ifndef SYNTHESIS
  a_past : assert property (@(posedge clk) disable iff (rst) past |-> !leave);
  a_latency_past : assert property (@(posedge clk) disable iff (rst)
      past |=> m_valid && m_data == $past(s_data));
  a_latency : assert property (@(posedge clk) disable iff (rst)
      s_valid && s_network && s_last |-> ##(NETWORK + 3) m_valid && m_last);
  a_one : assert property (@(posedge clk) disable iff (rst) n_valid && n_over |-> !flush);
`endif

endmodule
