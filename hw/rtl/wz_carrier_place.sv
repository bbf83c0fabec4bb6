// SPDX-License-Identifier: Apache-2.0
//
// Value beats from carriers and symbols (docs/format.md, section 6).
//
// One beat for each beat of the block: of a stored one the symbols' groups are put together, its
// carriers dealt out to the values that have one, and the two are merged. Other beats are zero;
// the tail, or a constant block, is filled in later. A block that travels as it is is all carriers.
//
//   latency       3 clocks from the group of symbols that completes a beat; 0 from a carrier beat
//                 that is waited for
//   throughput    1 beat a clock, or a group of symbols a clock
//   back-pressure m_tready reaches s_symbol_tready and s_carrier_tready combinationally
//
// Outputs are combinational from flops and s_carrier: give them a register.

module wz_carrier_place
  import wz_format_pkg::*;
  import wz_pkg::*;
  import wz_restore_pkg::*;
#(
    parameter int unsigned LANES = 32,
    parameter logic [5:0] TYPES = 6'b111111
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input  place_job_t s_job_tdata,
    input  logic       s_job_tvalid,
    output logic       s_job_tready,

    input  logic [LANES-1:0][7:0] s_symbol_tdata,  // 0 where there is no value
    input  logic [LANES-1:0]      s_symbol_nonzero,
    input  logic                  s_symbol_bad_codes,
    input  logic                  s_symbol_bad,
    input  logic                  s_symbol_tlast,
    input  logic                  s_symbol_tvalid,
    output logic                  s_symbol_tready,

    input  logic [511:0] s_carrier_tdata,
    input  logic         s_carrier_tvalid,
    output logic         s_carrier_tready,

    output logic [511:0] m_tdata,
    output logic         m_bad_codes,
    output logic         m_bad,
    output logic         m_tlast,  // the block's last beat
    output logic         m_tvalid,
    input  logic         m_tready
);

  // Places for carriers: as many as a beat has values of the narrowest type with symbols.
  localparam int unsigned PLACES = (TYPES[4] || TYPES[5]) ? 64 : (TYPES[1] || TYPES[2]) ? 32 : 16;
  localparam int unsigned PLACE_W = $clog2(PLACES);
  localparam int unsigned GROUPS = (PLACES > LANES) ? PLACES / LANES : 1;
  localparam int unsigned GROUP_W = (GROUPS == 1) ? 1 : $clog2(GROUPS);
  localparam int unsigned LANES_USED = (PLACES > LANES) ? LANES : PLACES;

  element_type_e element;
  assign element = built(TYPES, s_job_tdata.element);

  // A beat's symbols: those of the groups before, and the group at the input.
  logic [GROUP_W-1:0] group_q, group_last;
  logic [PLACES-1:0][7:0] symbol;
  logic [PLACES-1:0] nonzero;
  logic bad_codes_q, bad_q, complete, symbol_go;

  if (GROUPS == 1) begin : g_one
    assign group_last = '0;
  end else begin : g_more
    // Only types with more values than LANES take several.
    assign group_last = GROUP_W'((8'd1 << values_log2(element)) / 8'(LANES) - 8'd1) &
                        {GROUP_W{values_log2(element) > 3'($clog2(LANES))}};
  end

  assign complete = s_symbol_tlast || group_q == group_last;
  assign symbol_go = s_symbol_tvalid && s_symbol_tready;

  for (genvar g = 0; g < GROUPS; g++) begin : g_group
    for (genvar i = 0; i < LANES_USED; i++) begin : g_lane
      localparam int unsigned V = g * LANES + i;
      if (g == GROUPS - 1) begin : g_last
        assign {nonzero[V], symbol[V]} = (beat_symbols && group_q == GROUP_W'(g))
            ? {s_symbol_nonzero[i], s_symbol_tdata[i]} : '0;
      end else begin : g_before
        logic [8:0] earlier_q;
        always_ff @(posedge clk) begin
          if (symbol_go && group_q == GROUP_W'(g)) begin
            earlier_q <= {s_symbol_nonzero[i], s_symbol_tdata[i]};
          end
        end
        assign {nonzero[V], symbol[V]} = !beat_symbols ? '0
            : (group_q == GROUP_W'(g)) ? {s_symbol_nonzero[i], s_symbol_tdata[i]}
            : (group_q > GROUP_W'(g)) ? earlier_q : '0;
      end
    end
  end

  always_ff @(posedge clk) begin
    if (symbol_go) begin
      group_q <= complete ? '0 : group_q + 1'b1;
      bad_codes_q <= !complete && (bad_codes_q || s_symbol_bad_codes);
      bad_q <= !complete && (bad_q || s_symbol_bad);
    end
    if (rst) begin
      group_q <= '0;
      bad_codes_q <= 1'b0;
      bad_q <= 1'b0;
    end
  end

  // The block's beats.
  logic fresh_q, stored, beat_symbols, beat_last, beat_go, front_ready;
  logic [5:0] beat, beat_q;
  logic [63:0] stored_beats, stored_q;

  assign beat = fresh_q ? '0 : beat_q;
  assign stored_beats = fresh_q ? s_job_tdata.stored_beats : stored_q;
  assign stored = stored_beats[0] && {1'b0, beat} < s_job_tdata.value_beats;
  assign beat_symbols = stored && s_job_tdata.symbols;
  assign beat_last = beat == s_job_tdata.last_beat;
  assign beat_go = s_job_tvalid && front_ready && (!beat_symbols || (s_symbol_tvalid && complete));
  assign s_symbol_tready = s_job_tvalid && beat_symbols && (!complete || front_ready);
  assign s_job_tready = beat_go && beat_last;

  always_ff @(posedge clk) begin
    if (beat_go) begin
      beat_q   <= beat + 1'b1;
      stored_q <= stored_beats >> 1;
      fresh_q  <= beat_last;
    end
    if (rst) fresh_q <= 1'b1;
  end

  // Which places have a carrier.
  typedef struct packed {
    logic [PLACES-1:0][7:0] symbol;
    element_type_e element;
    logic bare;
    logic bad_codes;
    logic bad;
  } front_t;

  logic [PLACES-1:0] mask, mask_q;
  front_t front_q, dealt;
  logic front_none_q, front_last_q, front_valid_q, mask_ready;

  for (genvar p = 0; p < PLACES; p++) begin : g_mask
    // A value of 2 or 4 bytes may take several places.
    localparam int unsigned V2 = p * 32 / PLACES;
    localparam int unsigned V4 = p * 16 / PLACES;
    logic carried;
    always_comb begin
      unique case (width_log2(element))
        2'd1: carried = nonzero[(V2<PLACES)?V2 : 0];
        2'd2: carried = nonzero[V4];
        default: carried = nonzero[p];
      endcase
    end
    assign mask[p] = stored && (!s_job_tdata.bare || carried);
  end

  assign front_ready = !front_valid_q || mask_ready;
  always_ff @(posedge clk) begin
    if (front_ready) begin
      mask_q <= mask;
      front_q.symbol <= symbol;
      front_q.element <= element;
      front_q.bare <= s_job_tdata.bare;
      front_q.bad_codes <= beat_symbols && (s_symbol_bad_codes || bad_codes_q);
      front_q.bad <= beat_symbols && (s_symbol_bad || bad_q);
      front_none_q <= s_job_tdata.no_carriers;
      front_last_q <= beat_last;
      front_valid_q <= beat_go;
    end
    if (rst) front_valid_q <= 1'b0;
  end

  // The frame's carrier beats: how many there are, and in the last one how many places.
  typedef struct packed {
    logic [5:0] last_beat;
    logic [PLACE_W:0] last_count;
  } carriers_t;

  localparam int unsigned CARRIERS_DEPTH = 8;
  carriers_t carriers_new, carriers;
  logic carriers_ready, carriers_valid, carriers_take, item_last, item_valid, item_ready;
  logic [$clog2(CARRIERS_DEPTH):0] carriers_level;
  logic [5:0] item_q;
  logic [6:0] last_values;
  logic [PLACES-1:0][512/PLACES-1:0] placed;
  logic [PLACES-1:0] keep;
  logic item_user, count_error;

  assign last_values = 7'(s_job_tdata.carrier_last_value) + 7'd1;
  assign carriers_new.last_beat = s_job_tdata.carrier_last_beat;
  assign carriers_new.last_count =
      (PLACE_W + 1)'(last_values << ($clog2(PLACES) - 32'(values_log2(element))));

  wz_fifo #(
      .W($bits(carriers_t)),
      .DEPTH(CARRIERS_DEPTH)
  ) u_carriers (
      .clk,
      .rst,
      .s_tdata(carriers_new),
      .s_tvalid(beat_go && fresh_q && !s_job_tdata.no_carriers),
      .s_tready(carriers_ready),
      .m_tdata(carriers),
      .m_tvalid(carriers_valid),
      .m_tready(carriers_take),
      .level(carriers_level)
  );

  assign item_valid = carriers_valid && s_carrier_tvalid;
  assign item_last = item_q == carriers.last_beat;
  assign s_carrier_tready = carriers_valid && item_ready;
  assign carriers_take = s_carrier_tvalid && item_ready && item_last;

  always_ff @(posedge clk) begin
    if (item_valid && item_ready) item_q <= item_last ? '0 : item_q + 1'b1;
    if (rst) item_q <= '0;
  end

  wz_deal #(
      .LANES(PLACES),
      .W(512 / PLACES),
      .USER_W($bits(front_t))
  ) u_deal (
      .clk,
      .rst,
      .s_mask_tdata(mask_q),
      .s_mask_none(front_none_q),
      .s_mask_tuser(front_q),
      .s_mask_tlast(front_last_q),
      .s_mask_tvalid(front_valid_q),
      .s_mask_tready(mask_ready),
      .s_item_tdata(s_carrier_tdata),
      .s_item_tcount(item_last ? carriers.last_count : (PLACE_W + 1)'(PLACES)),
      .s_item_tuser(1'b0),
      .s_item_tlast(item_last),
      .s_item_tvalid(item_valid),
      .s_item_tready(item_ready),
      .m_tdata(placed),
      .m_tkeep(keep),
      .m_tuser(dealt),
      .m_titem(item_user),
      .m_terror(count_error),
      .m_tlast,
      .m_tvalid,
      .m_tready
  );

  // Merge: the symbol of value v in its place.
  logic [511:0] symbol_bits;
  for (genvar b = 0; b < 512; b++) begin : g_bit
    logic [5:1] of_type;
    for (genvar t = 1; t < 6; t++) begin : g_type
      localparam int unsigned WIDTH = 8 * LAYOUTS[t].width_bytes;
      localparam int unsigned V = b / WIDTH;
      localparam int unsigned BIT = b % WIDTH;
      localparam int unsigned LSB = LAYOUTS[t].mantissa_bits;
      if (TYPES[t] && V < PLACES && BIT >= LSB && BIT < LSB + LAYOUTS[t].exponent_bits) begin : g_in
        assign of_type[t] = dealt.symbol[V][BIT-LSB] && dealt.element == element_type_e'(3'(t));
      end else begin : g_out
        assign of_type[t] = 1'b0;
      end
    end
    assign symbol_bits[b] = |of_type;
    assign m_tdata[b] = (placed[b/(512/PLACES)][b%(512/PLACES)] && keep[b/(512/PLACES)]) ||
                        symbol_bits[b];
  end

  assign m_bad_codes = dealt.bad_codes;
  assign m_bad = dealt.bad || (dealt.bare && count_error);

`ifndef SYNTHESIS
  a_carriers : assert property (@(posedge clk) disable iff (rst)
      beat_go && fresh_q |-> carriers_ready);
`endif
  wire unused = &{1'b0, s_symbol_tdata, s_symbol_nonzero, carriers_level, carriers_ready, item_user};

endmodule
