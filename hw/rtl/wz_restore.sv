// SPDX-License-Identifier: Apache-2.0
//
// The decoder's second half: blocks from what wz_sections reads out of packets (docs/format.md,
// sections 2 to 8).
//
// Codes are found in the unary section and turned into ranks, ranks into symbols, escapes are put in
// their places, carriers dealt out to values, and the block is put together and checked. It checks
// what wz_sections does not: codes, ranks, escapes, bare zeros and the CRC. Every packet gives a
// block of the plan's length, marked at its last beat if it is wrong; a refused one gives one byte.
//
//   latency       18 clocks from the unary word with the code behind a group of LANES codes (19 if it has
//                 more than 2 * LANES) to the group's beat; 9 from the plan of a block without symbols;
//                 a clock less if FP32 is not built. The last beat of a block at least 10 after it came
//                 to wz_seal
//   throughput    1 beat a clock, or LANES values; 8 clocks a frame with symbols (16 with coder R2)
//   back-pressure no ready depends on m_axis_tready but through flops; queues of 16 frames
//
// A group that holds an escape waits for it, so s_unary must not keep s_escape from being offered.

module wz_restore
  import wz_format_pkg::*;
  import wz_pkg::*;
  import wz_restore_pkg::*;
#(
    parameter int unsigned LANES = 32,  // 8, 16, 32 or 64
    parameter logic [5:0] TYPES = 6'b111111
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input  plan_t s_plan_tdata,
    input  logic  s_plan_tvalid,
    output logic  s_plan_tready,

    input  logic [511:0] s_carrier_tdata,
    input  logic         s_carrier_tvalid,
    output logic         s_carrier_tready,

    input  logic [2*LANES-1:0] s_low_tdata,
    input  logic               s_low_tvalid,
    output logic               s_low_tready,

    input  logic [127:0] s_unary_tdata,
    input  logic         s_unary_tlast,
    input  logic         s_unary_tvalid,
    output logic         s_unary_tready,

    input  logic [511:0] s_escape_tdata,
    input  logic         s_escape_tvalid,
    output logic         s_escape_tready,

    input  error_e s_status_tdata,
    input  logic   s_status_late,
    input  logic   s_status_tvalid,
    output logic   s_status_tready,

    output logic [511:0] m_axis_tdata,
    output logic [63:0]  m_axis_tkeep,
    output logic         m_axis_tlast,
    output error_e       m_axis_tuser,  // at the last beat
    output logic         m_axis_tvalid,
    input  logic         m_axis_tready,

    // A packet has left.
    output logic   event_valid,
    output logic   event_coded,
    output mode_e  event_mode,
    output error_e event_error
);

  localparam int unsigned LANE_W = $clog2(LANES);
  localparam int unsigned JOBS = 16;
  localparam int unsigned LEVEL_W = $clog2(JOBS) + 1;

  // Jobs.
  table_job_t table_new, table_job;
  rank_job_t rank_new, rank_job;
  escape_job_t escape_new, escape_job;
  place_job_t place_new, place_job;
  align_job_t align_new, align_job;
  seal_job_t seal_new, seal_job;
  logic [5:0] job_valid, job_ready, new_ready, new_valid;
  logic [5:0][LEVEL_W-1:0] job_level;

  logic coded, constant, as_is, refused, symbols;
  logic [12:0] block_less_one, carriers_less_one;
  element_type_e element;

  assign refused = s_plan_tdata.block_bytes == '0;
  assign coded = s_plan_tdata.coded && s_plan_tdata.mode == MODE_CODED && !refused;
  assign constant = s_plan_tdata.coded && s_plan_tdata.mode == MODE_CONSTANT && !refused;
  assign as_is = !coded && !constant && !refused;
  assign element = built(TYPES, s_plan_tdata.element);
  assign symbols = coded && element != ELEMENT_TYPE_RAW && s_plan_tdata.stored_values != '0;
  assign block_less_one = refused ? '0 : s_plan_tdata.block_bytes - 13'd1;
  assign carriers_less_one = s_plan_tdata.carriers - 13'd1;

  always_comb begin
    table_new.element = element;
    table_new.coder = s_plan_tdata.coder;
    table_new.base = s_plan_tdata.base;
    table_new.path = s_plan_tdata.path;
    table_new.zero_rank = s_plan_tdata.zero_rank;

    rank_new.element = element;
    rank_new.coder = s_plan_tdata.coder;
    rank_new.values = s_plan_tdata.stored_values;
    rank_new.unary_bytes = s_plan_tdata.unary_bytes;
    rank_new.no_escapes = s_plan_tdata.escapes == '0;

    escape_new.element = element;
    escape_new.escapes = s_plan_tdata.escapes;

    place_new.element = element;
    place_new.symbols = symbols;
    place_new.bare = symbols && s_plan_tdata.bare_zeros != '0;
    place_new.no_carriers = coded ? s_plan_tdata.carriers == '0 : !as_is;
    place_new.last_beat = block_less_one[11:6];
    place_new.stored_beats = s_plan_tdata.stored_beats | {64{as_is}};
    unique case (width_log2(element))
      2'd0: begin
        place_new.value_beats = s_plan_tdata.values[12:6] + 7'(s_plan_tdata.values[5:0] != '0);
        {place_new.carrier_last_beat, place_new.carrier_last_value} = carriers_less_one[11:0];
        align_new.tail_at = s_plan_tdata.values[11:0];
      end
      2'd1: begin
        place_new.value_beats = s_plan_tdata.values[11:5] + 7'(s_plan_tdata.values[4:0] != '0);
        place_new.carrier_last_beat = carriers_less_one[10:5];
        place_new.carrier_last_value = {1'b0, carriers_less_one[4:0]};
        align_new.tail_at = {s_plan_tdata.values[10:0], 1'b0};
      end
      default: begin
        place_new.value_beats = s_plan_tdata.values[10:4] + 7'(s_plan_tdata.values[3:0] != '0);
        place_new.carrier_last_beat = carriers_less_one[9:4];
        place_new.carrier_last_value = {2'b0, carriers_less_one[3:0]};
        align_new.tail_at = {s_plan_tdata.values[9:0], 2'b0};
      end
    endcase
    if (!coded) begin
      place_new.value_beats = as_is ? 7'd64 : '0;
      place_new.carrier_last_beat = block_less_one[11:6];
    end

    align_new.element = element;
    align_new.constant = constant;
    align_new.last_beat = block_less_one[11:6];
    align_new.last_byte = block_less_one[5:0];
    align_new.head_bytes = coded ? s_plan_tdata.head_bytes : '0;
    align_new.head = s_plan_tdata.head;
    align_new.tail_bytes = coded ? s_plan_tdata.tail_bytes : '0;
    align_new.fill = constant ? s_plan_tdata.pattern : 32'(s_plan_tdata.tail);

    seal_new.header = s_plan_tdata.header;
    seal_new.mode = s_plan_tdata.mode;
    seal_new.coded = s_plan_tdata.coded && !refused;
  end

  assign s_plan_tready = &new_ready;
  assign new_valid = {6{s_plan_tvalid && s_plan_tready}} & {
    3'b111, symbols && s_plan_tdata.escapes != '0, symbols, symbols
  };

  wz_fifo #(
      .W($bits(table_job_t)),
      .DEPTH(JOBS)
  ) u_table_jobs (
      .clk,
      .rst,
      .s_tdata(table_new),
      .s_tvalid(new_valid[0]),
      .s_tready(new_ready[0]),
      .m_tdata(table_job),
      .m_tvalid(job_valid[0]),
      .m_tready(job_ready[0]),
      .level(job_level[0])
  );

  wz_fifo #(
      .W($bits(rank_job_t)),
      .DEPTH(JOBS)
  ) u_rank_jobs (
      .clk,
      .rst,
      .s_tdata(rank_new),
      .s_tvalid(new_valid[1]),
      .s_tready(new_ready[1]),
      .m_tdata(rank_job),
      .m_tvalid(job_valid[1]),
      .m_tready(job_ready[1]),
      .level(job_level[1])
  );

  wz_fifo #(
      .W($bits(escape_job_t)),
      .DEPTH(JOBS)
  ) u_escape_jobs (
      .clk,
      .rst,
      .s_tdata(escape_new),
      .s_tvalid(new_valid[2]),
      .s_tready(new_ready[2]),
      .m_tdata(escape_job),
      .m_tvalid(job_valid[2]),
      .m_tready(job_ready[2]),
      .level(job_level[2])
  );

  wz_fifo #(
      .W($bits(place_job_t)),
      .DEPTH(JOBS)
  ) u_place_jobs (
      .clk,
      .rst,
      .s_tdata(place_new),
      .s_tvalid(new_valid[3]),
      .s_tready(new_ready[3]),
      .m_tdata(place_job),
      .m_tvalid(job_valid[3]),
      .m_tready(job_ready[3]),
      .level(job_level[3])
  );

  wz_fifo #(
      .W($bits(align_job_t)),
      .DEPTH(JOBS)
  ) u_align_jobs (
      .clk,
      .rst,
      .s_tdata(align_new),
      .s_tvalid(new_valid[4]),
      .s_tready(new_ready[4]),
      .m_tdata(align_job),
      .m_tvalid(job_valid[4]),
      .m_tready(job_ready[4]),
      .level(job_level[4])
  );

  wz_fifo #(
      .W($bits(seal_job_t)),
      .DEPTH(JOBS)
  ) u_seal_jobs (
      .clk,
      .rst,
      .s_tdata(seal_new),
      .s_tvalid(new_valid[5]),
      .s_tready(new_ready[5]),
      .m_tdata(seal_job),
      .m_tvalid(job_valid[5]),
      .m_tready(job_ready[5]),
      .level(job_level[5])
  );

  // Codes.
  logic [LANES-1:0][3:0] code;
  logic [LANE_W:0] code_count;
  logic code_overflow, code_found, code_last, code_valid, code_ready;
  logic [6:0] code_position;

  wz_unary_scan #(
      .LANES(LANES)
  ) u_scan (
      .clk,
      .rst,
      .s_tdata(s_unary_tdata),
      .s_tlast(s_unary_tlast),
      .s_tvalid(s_unary_tvalid),
      .s_tready(s_unary_tready),
      .m_tdata(code),
      .m_tcount(code_count),
      .m_overflow(code_overflow),
      .m_found(code_found),
      .m_position(code_position),
      .m_tlast(code_last),
      .m_tvalid(code_valid),
      .m_tready(code_ready)
  );

  // Ranks.
  logic [LANES-1:0][4:0] rank;
  logic [LANES-1:0] value, escape;
  logic no_escapes, bad_codes, bad_rank, rank_last, rank_valid, rank_ready;

  wz_unrank #(
      .LANES(LANES),
      .TYPES(TYPES)
  ) u_unrank (
      .clk,
      .rst,
      .s_job_tdata(rank_job),
      .s_job_tvalid(job_valid[1]),
      .s_job_tready(job_ready[1]),
      .s_low_tdata(s_low_tdata),
      .s_low_tvalid,
      .s_low_tready,
      .s_code_tdata(code),
      .s_code_tcount(code_count),
      .s_code_overflow(code_overflow),
      .s_code_found(code_found),
      .s_code_position(code_position),
      .s_code_tlast(code_last),
      .s_code_tvalid(code_valid),
      .s_code_tready(code_ready),
      .m_rank(rank),
      .m_value(value),
      .m_escape(escape),
      .m_no_escapes(no_escapes),
      .m_bad_codes(bad_codes),
      .m_bad_rank(bad_rank),
      .m_tlast(rank_last),
      .m_tvalid(rank_valid),
      .m_tready(rank_ready)
  );

  // Symbols.
  logic [LANES-1:0][7:0] table_symbol, symbol;
  logic [LANES-1:0] table_nonzero, nonzero, known;
  logic table_ready, look_up, insert_ready;

  assign look_up = rank_valid && table_ready;
  assign rank_ready = insert_ready && table_ready;

  wz_symbol_table #(
      .LANES(LANES),
      .TYPES(TYPES)
  ) u_table (
      .clk,
      .rst,
      .s_job_tdata(table_job),
      .s_job_tvalid(job_valid[0]),
      .s_job_tready(job_ready[0]),
      .m_ready(table_ready),
      .done(look_up && insert_ready && rank_last),
      .rank,
      .symbol(table_symbol),
      .nonzero(table_nonzero),
      .known
  );

  for (genvar i = 0; i < LANES; i++) begin : g_symbol
    assign symbol[i]  = table_symbol[i] & {8{value[i]}};
    assign nonzero[i] = table_nonzero[i] && value[i];
  end

  // Escapes.
  logic [LANES-1:0][7:0] inserted;
  logic [LANES-1:0] inserted_nonzero;
  logic inserted_bad_codes, inserted_bad, inserted_last, inserted_valid, inserted_ready;
  logic [LANES-1:0] unknown;
  logic [LANES/8-1:0] bad_symbols;

  assign unknown = value & ~escape & ~known;
  for (genvar i = 0; i < LANES / 8; i++) begin : g_bad
    assign bad_symbols[i] = (i == 0 && bad_rank) || |unknown[8*i+:8];
  end

  wz_escape_insert #(
      .LANES(LANES),
      .TYPES(TYPES)
  ) u_insert (
      .clk,
      .rst,
      .s_job_tdata(escape_job),
      .s_job_tvalid(job_valid[2]),
      .s_job_tready(job_ready[2]),
      .s_escape_tdata,
      .s_escape_tvalid,
      .s_escape_tready,
      .s_symbol(symbol),
      .s_nonzero(nonzero),
      .s_escape(escape),
      .s_no_escapes(no_escapes),
      .s_bad_codes(bad_codes),
      .s_bad_symbols(bad_symbols),
      .s_tlast(rank_last),
      .s_tvalid(look_up),
      .s_tready(insert_ready),
      .m_symbol(inserted),
      .m_nonzero(inserted_nonzero),
      .m_bad_codes(inserted_bad_codes),
      .m_bad_symbol(inserted_bad),
      .m_tlast(inserted_last),
      .m_tvalid(inserted_valid),
      .m_tready(inserted_ready)
  );

  // Beats.
  logic [511:0] values;
  logic values_bad_codes, values_bad, values_last, values_valid, values_ready;

  wz_carrier_place #(
      .LANES(LANES),
      .TYPES(TYPES)
  ) u_place (
      .clk,
      .rst,
      .s_job_tdata(place_job),
      .s_job_tvalid(job_valid[3]),
      .s_job_tready(job_ready[3]),
      .s_symbol_tdata(inserted),
      .s_symbol_nonzero(inserted_nonzero),
      .s_symbol_bad_codes(inserted_bad_codes),
      .s_symbol_bad(inserted_bad),
      .s_symbol_tlast(inserted_last),
      .s_symbol_tvalid(inserted_valid),
      .s_symbol_tready(inserted_ready),
      .s_carrier_tdata,
      .s_carrier_tvalid,
      .s_carrier_tready,
      .m_tdata(values),
      .m_bad_codes(values_bad_codes),
      .m_bad(values_bad),
      .m_tlast(values_last),
      .m_tvalid(values_valid),
      .m_tready(values_ready)
  );

  logic [511:0] block;
  logic [5:0] block_last_byte;
  logic block_bad_codes, block_bad, block_last, block_valid, block_room;

  wz_unalign #(
      .TYPES(TYPES)
  ) u_unalign (
      .clk,
      .rst,
      .s_job_tdata(align_job),
      .s_job_tvalid(job_valid[4]),
      .s_job_tready(job_ready[4]),
      .s_tdata(values),
      .s_bad_codes(values_bad_codes),
      .s_bad(values_bad),
      .s_tvalid(values_valid),
      .s_tready(values_ready),
      .m_tdata(block),
      .m_last_byte(block_last_byte),
      .m_bad_codes(block_bad_codes),
      .m_bad(block_bad),
      .m_tlast(block_last),
      .m_tvalid(block_valid),
      .room(block_room)
  );

  wz_seal u_seal (
      .clk,
      .rst,
      .s_job_tdata(seal_job),
      .s_job_tvalid(job_valid[5]),
      .s_job_tready(job_ready[5]),
      .s_status_tdata,
      .s_status_late,
      .s_status_tvalid,
      .s_status_tready,
      .s_tdata(block),
      .s_last_byte(block_last_byte),
      .s_bad_codes(block_bad_codes),
      .s_bad(block_bad),
      .s_tlast(block_last),
      .s_tvalid(block_valid),
      .room(block_room),
      .m_axis_tdata,
      .m_axis_tkeep,
      .m_axis_tlast,
      .m_axis_tuser,
      .m_axis_tvalid,
      .m_axis_tready,
      .event_valid,
      .event_coded,
      .event_mode,
      .event_error
  );

  wire unused = &{1'b0, s_plan_tdata, block_less_one, carriers_less_one, job_level, values_last};

endmodule
