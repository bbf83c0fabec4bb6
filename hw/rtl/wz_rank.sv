// SPDX-License-Identifier: Apache-2.0
//
// Ranks of the symbols of a group of LANES values (docs/format.md, sections 7 and 8).
//
// The ranked symbols but 0 are an interval of at most 31, so their lowest five bits address a table
// of steps in the order in which the interval grew; every lane has its own copy, in banks, so
// that one block is ranked while the next ones' tables are written. Symbol 0 has its rank from the
// header and moves the later ones up. What is not ranked gets E, the escape.
//
//   latency       4 clocks
//   throughput    1 group a clock
//   back-pressure none

module wz_rank #(
    parameter int unsigned LANES = 32,  // 8, 16, 32 or 64
    parameter logic [5:0] TYPES = 6'b111111,
    localparam int unsigned COUNT_W = $clog2(LANES) + 1
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input logic       table_we,
    input wz_pkg::table_bank_t table_bank,
    input logic [4:0] table_symbol,
    input logic [4:0] table_step,

    input logic [511:0]        s_data,  // the beat
    input logic [2:0]          s_group,  // which LANES values of it
    input logic [COUNT_W-1:0]  s_count,  // values in the group
    input logic                s_first,  // of the frame
    input logic                s_last,
    input wz_pack_pkg::codes_t s_codes,
    input logic                s_valid,

    output logic [LANES-1:0][4:0] m_rank,
    output logic [LANES-1:0]      m_present,
    output logic [LANES-1:0]      m_escape,
    output logic [LANES-1:0][7:0] m_symbol,
    output logic                  m_first,
    output logic                  m_last,
    output wz_pack_pkg::codes_t   m_codes,
    output logic                  m_valid
);

  import wz_format_pkg::*;
  import wz_pack_pkg::*;

  logic [5:0] kind;
  for (genvar t = 0; t < 6; t++) begin : g_kind
    assign kind[t] = is_type(TYPES, s_codes.element, element_type_e'(t));
  end

  wire unused = &{1'b0, kind, s_group};

  // Beside the lanes. Index: after clock i + 1.
  codes_t codes_q[4];
  logic [3:0] first_q, last_q, valid_q;
  logic [LANES-1:0] present_q[4];

  always_ff @(posedge clk) begin
    codes_q[0] <= s_codes;
    for (int i = 0; i < int'(LANES); i++) present_q[0][i] <= COUNT_W'(i) < s_count;
    for (int i = 1; i < 4; i++) begin
      codes_q[i]   <= codes_q[i-1];
      present_q[i] <= present_q[i-1];
    end
    first_q <= {first_q[2:0], s_first};
    last_q  <= {last_q[2:0], s_last};
    valid_q <= {valid_q[2:0], s_valid};
    if (rst) valid_q <= '0;
  end

  // The interval spans at most 31 symbols, so the three highest bits of a symbol in it are those of
  // one end, and five bits are left to be compared with either.
  logic one_block_q;  // the ends have the same high bits; after clock 2
  always_ff @(posedge clk) one_block_q <= codes_q[0].order_lo[7:5] == codes_q[0].order_hi[7:5];

  // In LUTs: a carry chain takes one for every bit.
  function automatic logic at_least(input logic [4:0] a, input logic [4:0] b);
    logic more, same;
    more = (a[4] && !b[4]) || (a[4] == b[4]
           && ((a[3] && !b[3]) || (a[3] == b[3] && a[2] && !b[2])));
    same = a[4:2] == b[4:2];
    return more || (same && ((a[1] && !b[1]) || (a[1] == b[1] && (a[0] || !b[0]))));
  endfunction

  // The escape's rank: 31 for R2, else 15.
  logic wide;  // R2
  assign wide = codes_q[2].coder == CODER_R2;

  for (genvar i = 0; i < LANES; i++) begin : g_lane
    // Clock 1: the symbol. Groups of a beat follow each other where it has more values than LANES.
    logic [7:0] symbol;
    localparam int unsigned GROUPS2 = (LANES < 32) ? 32 / LANES : 1;
    localparam int unsigned GROUPS4 = (LANES < 16) ? 16 / LANES : 1;
    localparam int unsigned GROUPS1 = 64 / LANES;
    logic [GROUPS1-1:0][7:0] byte_way;
    logic [GROUPS2-1:0][15:0] half_way;
    logic [GROUPS4-1:0][31:0] word_way;
    logic [7:0] byte_value;
    logic [14:7] half_high;
    logic [14:10] half_value;
    logic [30:23] word_value;

    for (genvar g = 0; g < GROUPS1; g++) begin : g_byte
      assign byte_way[g] = s_data[8*(g*LANES+i)+:8];
    end
    for (genvar g = 0; g < GROUPS2; g++) begin : g_half
      if (i < 32) begin : g_in
        assign half_way[g] = s_data[16*(g*LANES+i)+:16];
      end else begin : g_out
        assign half_way[g] = '0;
      end
    end
    for (genvar g = 0; g < GROUPS4; g++) begin : g_word
      if (i < 16) begin : g_in
        assign word_way[g] = s_data[32*(g*LANES+i)+:32];
      end else begin : g_out
        assign word_way[g] = '0;
      end
    end
    if (GROUPS1 > 1) begin : g_byte_many
      assign byte_value = byte_way[s_group[$clog2(GROUPS1)-1:0]];
    end else begin : g_byte_one
      assign byte_value = byte_way[0];
    end
    if (GROUPS2 > 1) begin : g_half_many
      logic [15:0] chosen;
      assign chosen = half_way[s_group[$clog2(GROUPS2)-1:0]];
      assign half_high = chosen[14:7];
      assign half_value = chosen[14:10];
      wire unused_chosen = &{1'b0, chosen};
    end else begin : g_half_one
      assign half_high = half_way[0][14:7];
      assign half_value = half_way[0][14:10];
      wire unused_way = &{1'b0, half_way[0]};
    end
    if (GROUPS4 > 1) begin : g_word_many
      logic [31:0] chosen;
      assign chosen = word_way[s_group[$clog2(GROUPS4)-1:0]];
      assign word_value = chosen[30:23];
      wire unused_chosen = &{1'b0, chosen};
    end else begin : g_word_one
      assign word_value = word_way[0][30:23];
      wire unused_way = &{1'b0, word_way[0]};
    end
    wire unused_byte = &{1'b0, byte_value};

    always_comb begin
      unique case (1'b1)
        kind[ELEMENT_TYPE_BF16]: symbol = half_high;
        kind[ELEMENT_TYPE_FP16]: symbol = {3'b0, half_value};
        kind[ELEMENT_TYPE_FP32]: symbol = word_value;
        kind[ELEMENT_TYPE_E4M3]: symbol = {4'b0, byte_value[6:3]};
        kind[ELEMENT_TYPE_E5M2]: symbol = {3'b0, byte_value[6:2]};
        default: symbol = '0;
      endcase
    end

    logic [7:0] symbol_q[4];
    always_ff @(posedge clk) begin
      symbol_q[0] <= symbol;
      for (int k = 1; k < 4; k++) symbol_q[k] <= symbol_q[k-1];
    end

    // Clock 2: look the step up; compare with the ends of the interval and with 0.
    logic [4:0] steps[32*wz_pkg::TABLE_BANKS];
    logic [4:0] step_q;
    logic low_block_q, high_block_q, above_q, below_q, zero_q;
    always_ff @(posedge clk) begin
      if (table_we) steps[{table_bank, table_symbol}] <= table_step;
    end
    always_ff @(posedge clk) begin
      step_q  <= steps[{codes_q[0].bank, symbol_q[0][4:0]}];
      low_block_q <= symbol_q[0][7:5] == codes_q[0].order_lo[7:5];
      high_block_q <= symbol_q[0][7:5] == codes_q[0].order_hi[7:5];
      above_q <= at_least(symbol_q[0][4:0], codes_q[0].order_lo[4:0]);
      below_q <= at_least(codes_q[0].order_hi[4:0], symbol_q[0][4:0]);
      zero_q  <= symbol_q[0] == '0;
    end

    // Clock 3: make room for symbol 0.
    logic [4:0] moved_q;
    logic inside_q, zero2_q;
    always_ff @(posedge clk) begin
      moved_q <= step_q + 5'(codes_q[1].zero_rank != ZERO_RANK_BITS'(ZERO_RANK_NONE)
                             && step_q >= {1'b0, codes_q[1].zero_rank});
      inside_q <= !zero_q && ((low_block_q && above_q && (below_q || !one_block_q))
                              || (high_block_q && below_q && !one_block_q));
      zero2_q <= zero_q;
    end

    // Clock 4: the rank. Ranks of E and more are escapes, and so are 0 where it has no rank.
    logic [4:0] rank;
    logic ranked;
    always_comb begin
      rank   = zero2_q ? {1'b0, codes_q[2].zero_rank} : moved_q;
      ranked = zero2_q ? codes_q[2].zero_rank != ZERO_RANK_BITS'(ZERO_RANK_NONE)
                       : inside_q && (wide || !moved_q[4]);
    end
    always_ff @(posedge clk) begin
      m_rank[i] <= ranked ? rank : {wide, 4'd15};
      m_escape[i] <= present_q[2][i] && (!ranked || rank == {wide, 4'd15});
    end
    assign m_symbol[i] = symbol_q[3];
  end

  assign m_present = present_q[3];
  assign m_codes = codes_q[3];
  assign m_first = first_q[3];
  assign m_last = last_q[3];
  assign m_valid = valid_q[3];

`ifndef SYNTHESIS
  initial assert (LANES == 8 || LANES == 16 || LANES == 32 || LANES == 64);
  a_interval : assert property (@(posedge clk) disable iff (rst)
      s_valid && s_codes.order_hi != '0
      |-> s_codes.order_lo <= s_codes.order_hi && s_codes.order_hi - s_codes.order_lo <= 8'd30);
  a_latency : assert property (@(posedge clk) disable iff (rst)
      s_valid |-> ##4 m_valid && m_first == $past(s_first, 4) && m_last == $past(s_last, 4));
`endif

endmodule
