// SPDX-License-Identifier: Apache-2.0
//
// Puts escaped symbols in their places (docs/format.md, section 8).
//
// m_bad_codes is m_bad_codes of the ranks, or that there are more or fewer escapes than the job says;
// m_bad_symbol that of the ranks, or that one exceeds the largest symbol. The latter, and escapes
// that are left over, show at the frame's last group.
//
//   latency       2 clocks from the ranks; from an escape's word to the group that it completes,
//                 1 clock, and 1 more for each LANES bytes before it in the word
//   throughput    1 group a clock, with up to LANES escapes
//   back-pressure m_tready reaches s_tready combinationally
//
// Outputs are combinational from flops: give them a register.

module wz_escape_insert
  import wz_format_pkg::*;
  import wz_restore_pkg::*;
#(
    parameter int unsigned LANES = 32,
    parameter logic [5:0] TYPES = 6'b111111
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input  escape_job_t s_job_tdata,  // of each frame with escapes
    input  logic        s_job_tvalid,
    output logic        s_job_tready,

    input  logic [511:0] s_escape_tdata,  // undefined behind the last escape
    input  logic         s_escape_tvalid,
    output logic         s_escape_tready,

    input  logic [LANES-1:0][7:0] s_symbol,
    input  logic [LANES-1:0]      s_nonzero,
    input  logic [LANES-1:0]      s_escape,
    input  logic                  s_no_escapes,
    input  logic                  s_bad_codes,
    input  logic [LANES/8-1:0]    s_bad_symbols,  // of eight lanes each
    input  logic                  s_tlast,
    input  logic                  s_tvalid,
    output logic                  s_tready,

    output logic [LANES-1:0][7:0] m_symbol,
    output logic [LANES-1:0]      m_nonzero,
    output logic                  m_bad_codes,
    output logic                  m_bad_symbol,
    output logic                  m_tlast,
    output logic                  m_tvalid,
    input  logic                  m_tready
);

  localparam int unsigned PARTS = 64 / LANES;
  localparam int unsigned PART_W = (PARTS == 1) ? 1 : $clog2(PARTS);
  localparam int unsigned COUNT_W = $clog2(LANES) + 1;

  // The section in vectors of LANES bytes, each byte with a mark of being nonzero.
  logic [PARTS-1:0][LANES-1:0][7:0] parts;
  logic [LANES-1:0][7:0] part;
  logic [PART_W-1:0] part_q;
  logic [ESCAPES_BITS-1:0] left, left_q;
  logic fresh_q, part_go, part_last, section_last;
  logic [LANES-1:0][8:0] item_q;
  logic [LANES-1:0] bad_q;
  logic [COUNT_W-1:0] count_q;
  logic item_last_q, item_valid_q, item_ready, bad_before_q, bad;
  element_type_e element;

  assign element = built(TYPES, s_job_tdata.element);
  assign parts = s_escape_tdata;
  assign part = (PARTS == 1) ? parts[0] : parts[part_q];
  assign left = fresh_q ? s_job_tdata.escapes : left_q;
  assign section_last = 9'(left) <= 9'(LANES);
  assign part_last = section_last || part_q == PART_W'(PARTS - 1);
  assign part_go = s_job_tvalid && s_escape_tvalid && (!item_valid_q || item_ready);
  assign s_escape_tready = s_job_tvalid && part_last && (!item_valid_q || item_ready);
  assign s_job_tready = part_go && section_last;

  always_ff @(posedge clk) begin
    if (!item_valid_q || item_ready) begin
      for (int i = 0; i < int'(LANES); i++) begin
        item_q[i] <= {part[i] != '0, part[i]};
        bad_q[i] <= 9'(i) < 9'(left) && exceeds(part[i][7:4], element);
      end
      count_q <= section_last ? COUNT_W'(left) : COUNT_W'(LANES);
      item_last_q <= section_last;
      item_valid_q <= part_go;
    end
    if (item_valid_q && item_ready) bad_before_q <= bad && !item_last_q;
    if (part_go) begin
      part_q  <= part_last ? '0 : part_q + 1'b1;
      left_q  <= left - ESCAPES_BITS'(LANES);
      fresh_q <= section_last;
    end
    if (rst) begin
      item_valid_q <= 1'b0;
      bad_before_q <= 1'b0;
      part_q <= '0;
      fresh_q <= 1'b1;
    end
  end

  assign bad = bad_before_q || (|bad_q);

  // Whether a byte, by its upper half, exceeds the largest symbol.
  function automatic logic exceeds(input logic [7:4] upper, input element_type_e tag);
    return (tag == ELEMENT_TYPE_E4M3) ? upper != '0
         : (tag == ELEMENT_TYPE_E5M2 || tag == ELEMENT_TYPE_FP16) && upper[7:5] != '0;
  endfunction

  // Escapes to lanes.
  localparam int unsigned USER_W = 9 * LANES + 2 + LANES / 8;
  logic [LANES-1:0][8:0] ranked, symbol, inserted;
  logic [LANES-1:0] keep;
  logic no_escapes, bad_codes, bad_escape, count_error;
  logic [LANES/8-1:0] bad_symbols;

  for (genvar i = 0; i < LANES; i++) begin : g_lane
    assign ranked[i] = {s_nonzero[i], s_symbol[i]};
    assign {m_nonzero[i], m_symbol[i]} = keep[i] ? inserted[i] : symbol[i];
  end

  wz_deal #(
      .LANES(LANES),
      .W(9),
      .USER_W(USER_W)
  ) u_deal (
      .clk,
      .rst,
      .s_mask_tdata(s_escape),
      .s_mask_none(s_no_escapes),
      .s_mask_tuser({ranked, s_no_escapes, s_bad_codes, s_bad_symbols}),
      .s_mask_tlast(s_tlast),
      .s_mask_tvalid(s_tvalid),
      .s_mask_tready(s_tready),
      .s_item_tdata(item_q),
      .s_item_tcount(count_q),
      .s_item_tuser(bad),
      .s_item_tlast(item_last_q),
      .s_item_tvalid(item_valid_q),
      .s_item_tready(item_ready),
      .m_tdata(inserted),
      .m_tkeep(keep),
      .m_tuser({symbol, no_escapes, bad_codes, bad_symbols}),
      .m_titem(bad_escape),
      .m_terror(count_error),
      .m_tlast,
      .m_tvalid,
      .m_tready
  );

  assign m_bad_codes  = bad_codes || count_error;
  assign m_bad_symbol = (|bad_symbols) || (m_tlast && !no_escapes && bad_escape);

endmodule
