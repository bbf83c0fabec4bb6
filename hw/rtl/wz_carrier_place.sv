// SPDX-License-Identifier: Apache-2.0
//
// Value beats from carriers and symbols (docs/format.md, section 6).
//
// One beat for each beat of the block: of a stored one the symbols' groups are put together, its
// carriers dealt out to the values that have one, and the two are merged. Other beats are zero;
// the tail, or a constant block, is filled in later. A block that travels as it is is all carriers.
//
// If BF16 alone is built, only what is beside the symbols is dealt out, half of the bits: those of a
// block as it is stay in their lanes.
//
//   latency       3 clocks from the group of symbols that completes a beat, 4 from the job; 0 from a
//                 carrier beat that is waited for
//   throughput    1 beat a clock, or a group of symbols a clock
//   back-pressure m_tready and s_carrier_tvalid reach s_symbol_tready and s_job_tready
//                 combinationally, m_tready s_carrier_tready
//
// Outputs are combinational from flops and s_carrier: give them a register. Symbols go straight into
// one.

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
  localparam int unsigned PLACE_BITS = 512 / PLACES;
  // What is dealt out of a place.
  localparam logic HALVES = TYPES == 6'b000010;
  localparam int unsigned DEALT_BITS = HALVES ? 8 : PLACE_BITS;

  // The block's beats, one ahead: they are known long before their symbols.
  typedef struct packed {
    element_type_e element;
    logic symbols;  // has any
    logic stored;
    logic bare;
    logic none;
    logic last;
  } beat_t;

  logic fresh_q, stored, beat_next, beat_ready;
  logic [5:0] number, number_q;
  logic [63:0] stored_beats, stored_q;
  beat_t beat_q;
  logic beat_valid_q, beat_go, front_ready;
  logic [GROUP_W-1:0] group_last, group_last_q;
  element_type_e element;

  assign element = built(TYPES, s_job_tdata.element);
  assign number = fresh_q ? '0 : number_q;
  assign stored_beats = fresh_q ? s_job_tdata.stored_beats : stored_q;
  assign stored = stored_beats[0] && {1'b0, number} < s_job_tdata.value_beats;
  assign beat_ready = !beat_valid_q || beat_go;
  assign beat_next = s_job_tvalid && beat_ready;
  assign s_job_tready = beat_ready && number == s_job_tdata.last_beat;

  if (GROUPS == 1) begin : g_one
    assign group_last = '0;
  end else begin : g_more
    // Only types with more values than LANES take several.
    assign group_last = GROUP_W'((8'd1 << values_log2(element)) / 8'(LANES) - 8'd1) &
                        {GROUP_W{values_log2(element) > 3'($clog2(LANES))}};
  end

  always_ff @(posedge clk) begin
    if (beat_ready) begin
      beat_q.element <= element;
      beat_q.symbols <= stored && s_job_tdata.symbols;
      beat_q.stored <= stored;
      beat_q.bare <= s_job_tdata.bare;
      beat_q.none <= s_job_tdata.no_carriers;
      beat_q.last <= number == s_job_tdata.last_beat;
      group_last_q <= group_last;
      beat_valid_q <= s_job_tvalid;
    end
    if (beat_next) begin
      number_q <= number + 1'b1;
      stored_q <= stored_beats >> 1;
      fresh_q  <= number == s_job_tdata.last_beat;
    end
    if (rst) begin
      beat_valid_q <= 1'b0;
      fresh_q <= 1'b1;
    end
  end

  // A beat's symbols: those of the groups before, and the group at the input.
  typedef struct packed {
    logic [PLACES-1:0][7:0] symbol;
    element_type_e element;
    logic whole;  // carriers are all there is
    logic bare;
    logic bad_codes;
    logic bad;
  } front_t;

  logic [GROUP_W-1:0] group_q;
  logic [PLACES-1:0][7:0] symbol;
  logic [PLACES-1:0] nonzero, carried;
  logic bad_codes_q, bad_q, complete, symbol_go;
  front_t front_new;

  assign complete = s_symbol_tlast || group_q == group_last_q;
  assign beat_go = beat_valid_q && front_ready &&
                   (!beat_q.symbols || (s_symbol_tvalid && complete));
  assign s_symbol_tready = beat_valid_q && beat_q.symbols && (!complete || front_ready);
  assign symbol_go = s_symbol_tvalid && s_symbol_tready;

  for (genvar g = 0; g < GROUPS; g++) begin : g_group
    for (genvar i = 0; i < LANES_USED; i++) begin : g_lane
      localparam int unsigned V = g * LANES + i;
      if (g == GROUPS - 1) begin : g_last
        assign {nonzero[V], symbol[V]} = (beat_q.symbols && group_q == GROUP_W'(g))
            ? {s_symbol_nonzero[i], s_symbol_tdata[i]} : '0;
      end else begin : g_before
        logic [8:0] earlier_q;
        always_ff @(posedge clk) begin
          if (symbol_go && group_q == GROUP_W'(g)) begin
            earlier_q <= {s_symbol_nonzero[i], s_symbol_tdata[i]};
          end
        end
        assign {nonzero[V], symbol[V]} = !beat_q.symbols ? '0
            : (group_q == GROUP_W'(g)) ? {s_symbol_nonzero[i], s_symbol_tdata[i]}
            : (group_q > GROUP_W'(g)) ? earlier_q : '0;
      end
    end
  end
  assign carried = {PLACES{beat_q.stored}} & ({PLACES{!beat_q.bare}} | nonzero);

  always_comb begin
    front_new.symbol = symbol;
    front_new.element = beat_q.element;
    front_new.whole = beat_q.stored && !beat_q.symbols;
    front_new.bare = beat_q.bare;
    front_new.bad_codes = beat_q.symbols && (s_symbol_bad_codes || bad_codes_q);
    front_new.bad = beat_q.symbols && (s_symbol_bad || bad_q);
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

  // The register behind the symbols.
  front_t front, dealt;
  logic [PLACES-1:0] front_carried, mask;
  logic front_none, front_last, front_valid, mask_ready;

  assign front_ready = !front_valid || mask_ready;
  always_ff @(posedge clk) begin
    if (front_ready) begin
      front <= front_new;
      front_carried <= carried;
      front_none <= beat_q.none;
      front_last <= beat_q.last;
      front_valid <= beat_go;
    end
    if (rst) front_valid <= 1'b0;
  end

  // Which places have a carrier: a value of 2 or 4 bytes may take several.
  for (genvar p = 0; p < PLACES; p++) begin : g_mask
    localparam int unsigned V2 = p * 32 / PLACES;
    localparam int unsigned V4 = p * 16 / PLACES;
    always_comb begin
      unique case (width_log2(built(TYPES, front.element)))
        2'd1: mask[p] = front_carried[(V2<PLACES)?V2 : 0];
        2'd2: mask[p] = front_carried[V4];
        default: mask[p] = front_carried[p];
      endcase
    end
  end

  // The frame's carrier beats: how many there are, and in the last one how many places.
  typedef struct packed {
    logic [5:0] last_beat;
    logic [1:0] value_places_log2;
    logic [6:0] last_values;
  } carriers_new_t;

  typedef struct packed {
    logic [5:0] last_beat;
    logic single;
    logic [PLACE_W:0] last_count;
  } carriers_t;

  localparam int unsigned CARRIERS_DEPTH = 8;
  carriers_new_t carriers_new_q, carriers_stored;
  carriers_t carriers_next, carriers;
  logic carriers_new_valid_q, carriers_ready, carriers_next_valid, carriers_next_ready;
  logic carriers_valid, carriers_take, item_last, item_valid, item_ready;
  logic [$clog2(CARRIERS_DEPTH):0] carriers_level;
  logic [5:0] item_next_q;  // the number of the item behind the one at the input
  logic item_first_q, item_end_q;
  logic [PLACES-1:0][PLACE_BITS-1:0] carrier;
  logic [PLACES-1:0][DEALT_BITS-1:0] item, placed;
  logic [PLACES-1:0] keep;
  logic item_user, count_error;

  always_ff @(posedge clk) begin
    carriers_new_q.last_beat <= s_job_tdata.carrier_last_beat;
    carriers_new_q.value_places_log2 <= 2'($clog2(PLACES) - 32'(values_log2(element)));
    carriers_new_q.last_values <= 7'(s_job_tdata.carrier_last_value) + 7'd1;
    carriers_new_valid_q <= beat_next && fresh_q && !s_job_tdata.no_carriers;
    if (rst) carriers_new_valid_q <= 1'b0;
  end

  wz_fifo #(
      .W($bits(carriers_new_t)),
      .DEPTH(CARRIERS_DEPTH)
  ) u_carriers (
      .clk,
      .rst,
      .s_tdata(carriers_new_q),
      .s_tvalid(carriers_new_valid_q),
      .s_tready(carriers_ready),
      .m_tdata(carriers_stored),
      .m_tvalid(carriers_next_valid),
      .m_tready(carriers_next_ready),
      .level(carriers_level)
  );

  always_comb begin
    carriers_next.last_beat = carriers_stored.last_beat;
    carriers_next.single = carriers_stored.last_beat == '0;
    carriers_next.last_count =
        (PLACE_W + 1)'(carriers_stored.last_values << carriers_stored.value_places_log2);
  end

  wz_skid #(
      .W($bits(carriers_t))
  ) u_carriers_now (
      .clk,
      .rst,
      .s_tdata(carriers_next),
      .s_tvalid(carriers_next_valid),
      .s_tready(carriers_next_ready),
      .m_tdata(carriers),
      .m_tvalid(carriers_valid),
      .m_tready(carriers_take)
  );

  assign item_valid = carriers_valid && s_carrier_tvalid;
  assign item_last = item_first_q ? carriers.single : item_end_q;
  assign s_carrier_tready = carriers_valid && item_ready;
  assign carriers_take = s_carrier_tvalid && item_ready && item_last;

  always_ff @(posedge clk) begin
    if (item_valid && item_ready) begin
      item_first_q <= item_last;
      item_next_q <= item_last ? 6'd1 : item_next_q + 1'b1;
      item_end_q <= item_next_q == carriers.last_beat;
    end
    if (rst) begin
      item_first_q <= 1'b1;
      item_next_q  <= 6'd1;
    end
  end

  assign carrier = s_carrier_tdata;
  for (genvar p = 0; p < PLACES; p++) begin : g_item
    if (HALVES) begin : g_half
      assign item[p] = {carrier[p][PLACE_BITS-1], carrier[p][DEALT_BITS-2:0]};
    end else begin : g_whole
      assign item[p] = carrier[p];
    end
  end

  wz_deal #(
      .LANES(PLACES),
      .W(DEALT_BITS),
      .USER_W($bits(front_t))
  ) u_deal (
      .clk,
      .rst,
      .s_mask_tdata(mask),
      .s_mask_none(front_none),
      .s_mask_tuser(front),
      .s_mask_tlast(front_last),
      .s_mask_tvalid(front_valid),
      .s_mask_tready(mask_ready),
      .s_item_tdata(item),
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
        assign of_type[t] = dealt.symbol[V][BIT-LSB] &&
                            built(TYPES, dealt.element) == element_type_e'(3'(t));
      end else begin : g_out
        assign of_type[t] = 1'b0;
      end
    end
    assign symbol_bits[b] = |of_type;
    localparam int unsigned P = b / PLACE_BITS;
    localparam int unsigned BIT_IN_PLACE = b % PLACE_BITS;
    if (!HALVES) begin : g_all
      assign m_tdata[b] = (placed[P][BIT_IN_PLACE] && keep[P]) || symbol_bits[b];
    end else if (BIT_IN_PLACE == PLACE_BITS - 1) begin : g_sign
      assign m_tdata[b] = placed[P][DEALT_BITS-1] && keep[P];
    end else if (BIT_IN_PLACE < DEALT_BITS - 1) begin : g_mantissa
      assign m_tdata[b] = placed[P][BIT_IN_PLACE] && keep[P];
    end else begin : g_symbol
      assign m_tdata[b] = (s_carrier_tdata[b] && dealt.whole) || symbol_bits[b];
    end
  end

  assign m_bad_codes = dealt.bad_codes;
  assign m_bad = dealt.bad || (dealt.bare && count_error);

`ifndef SYNTHESIS
  a_carriers : assert property (@(posedge clk) disable iff (rst)
      carriers_new_valid_q |-> carriers_ready);
`endif
  wire unused = &{1'b0, s_symbol_tdata, s_symbol_nonzero, carriers_level, carriers_ready, item_user,
                    dealt};

endmodule
