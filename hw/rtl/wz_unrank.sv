// SPDX-License-Identifier: Apache-2.0
//
// Ranks from codes and low bits (docs/format.md, section 8), a group of min(V, LANES) values a clock.
//
// With F2 only the lanes whose low bits are 3 have a code, so codes are dealt out to lanes. Says
// which lanes are escapes and marks what is wrong with ranks and with the unary section: codes missing
// or left over, a run of more than 15 zeros, 8 bits of padding or more, more than 3 bits a value.
//
//   latency       6 clocks from low bits, 2 from the codes
//   throughput    1 group a clock
//   back-pressure s_code_tready depends on flops alone, s_low_tready on those and s_code_tvalid

module wz_unrank
  import wz_format_pkg::*;
  import wz_pkg::*;
  import wz_restore_pkg::*;
#(
    parameter int unsigned LANES = 32,  // 8, 16, 32 or 64
    parameter logic [5:0] TYPES = 6'b111111,
    localparam int unsigned LANE_W = $clog2(LANES)
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input  rank_job_t s_job_tdata,
    input  logic      s_job_tvalid,
    output logic      s_job_tready,

    input  logic [LANES-1:0][1:0] s_low_tdata,  // none with coder R0
    input  logic                  s_low_tvalid,
    output logic                  s_low_tready,

    input  logic [LANES-1:0][3:0] s_code_tdata,  // of wz_unary_scan; none if unary_bytes is 0
    input  logic [LANE_W:0]       s_code_tcount,
    input  logic                  s_code_overflow,
    input  logic                  s_code_found,
    input  logic [6:0]            s_code_position,
    input  logic                  s_code_tlast,
    input  logic                  s_code_tvalid,
    output logic                  s_code_tready,

    output logic [LANES-1:0][4:0] m_rank,
    output logic [LANES-1:0]      m_value,   // the lane holds a value
    output logic [LANES-1:0]      m_escape,  // one that is escaped; implies m_value
    output logic                  m_no_escapes,  // the frame's header says so
    output logic                  m_bad_codes,  // the unary section is not valid
    output logic                  m_bad_rank,
    output logic                  m_tlast,   // of the frame
    output logic                  m_tvalid,
    input  logic                  m_tready
);

  // How a frame's codes are to be checked, and how many values it has. `room`: bits that the last
  // byte of the unary section may have used, 3 a value in all; 8 if any.
  typedef struct packed {
    coder_e coder;
    logic [2:0] group_log2;
    logic [12:0] values;
    logic none;
    logic no_escapes;
    logic [3:0] last_byte;  // of the section, modulo a word
    logic [3:0] room;
  } job_t;

  // Jobs, in two clocks: they come long before the codes.
  logic [14:0] bits_max_q;
  logic [UNARY_BYTES_BITS-1:0] bytes_before_q;
  job_t job1_q, job2_new, job2_q;
  logic job1_valid_q, job2_valid_q, job1_ready, job2_ready, job_done;
  element_type_e element;

  assign element = built(TYPES, s_job_tdata.element);
  assign s_job_tready = job1_ready;
  assign job1_ready = !job1_valid_q || job2_ready;

  always_ff @(posedge clk) begin
    if (job1_ready) begin
      job1_q.coder <= s_job_tdata.coder;
      job1_q.group_log2 <= (values_log2(element) < 3'(LANE_W)) ? values_log2(element) : 3'(LANE_W);
      job1_q.values <= s_job_tdata.values;
      job1_q.none <= s_job_tdata.unary_bytes == '0;
      job1_q.no_escapes <= s_job_tdata.no_escapes;
      job1_q.last_byte <= s_job_tdata.unary_bytes[3:0] - 1'b1;
      job1_q.room <= '0;  // made of the next two
      bits_max_q <= 15'(s_job_tdata.values) + {1'b0, s_job_tdata.values, 1'b0};
      bytes_before_q <= s_job_tdata.unary_bytes - 1'b1;
      job1_valid_q <= s_job_tvalid;
    end
    if (rst) job1_valid_q <= 1'b0;
  end

  always_comb begin
    job2_new = job1_q;
    job2_new.room = (bits_max_q[14:3] > 12'(bytes_before_q)) ? 4'd8
                  : (bits_max_q[14:3] == 12'(bytes_before_q)) ? {1'b0, bits_max_q[2:0]} : 4'd0;
  end

  wz_skid #(
      .W($bits(job_t))
  ) u_job2 (
      .clk,
      .rst,
      .s_tdata(job2_new),
      .s_tvalid(job1_valid_q),
      .s_tready(job2_ready),
      .m_tdata(job2_q),
      .m_tvalid(job2_valid_q),
      .m_tready(job_done)
  );

  // Groups, once their low bits are there.
  typedef struct packed {
    coder_e coder;
    logic none;
    logic no_escapes;
    logic [3:0] last_byte;
    logic [3:0] room;
    logic [LANES-1:0] value;
    logic [LANES-1:0][1:0] low;
  } group_t;

  logic fresh_q, has_low, group_go;
  logic [12:0] left, left_q, rest;
  logic [LANE_W:0] group_size;
  logic group_last;
  logic [LANES-1:0] group_value;
  group_t group_q, group, dealt;
  logic group_last_q, group_valid_q, group_ready, mask_last, mask_valid, mask_ready;
  logic [LANES-1:0] group_mask, mask;

  assign has_low = job2_q.coder != CODER_R0;
  assign left = fresh_q ? job2_q.values : left_q;
  assign group_size = (LANE_W + 1)'(1) << job2_q.group_log2;
  assign rest = left - 13'(group_size);
  assign group_last = left <= 13'(group_size);
  for (genvar i = 0; i < LANES; i++) begin : g_value
    assign group_value[i] = 13'(i) < left && (LANE_W + 1)'(i) < group_size;
  end

  assign group_go = job2_valid_q && (!has_low || s_low_tvalid) && (!group_valid_q || group_ready);
  assign s_low_tready = job2_valid_q && has_low && (!group_valid_q || group_ready);
  assign job_done = group_go && group_last;

  always_ff @(posedge clk) begin
    if (!group_valid_q || group_ready) begin
      group_q.coder <= job2_q.coder;
      group_q.no_escapes <= job2_q.no_escapes;
      group_q.last_byte <= job2_q.last_byte;
      group_q.room <= job2_q.room;
      group_q.value <= group_value;
      group_q.low <= s_low_tdata;
      group_q.none <= job2_q.none;
      group_last_q <= group_last;
      group_valid_q <= group_go;
    end
    if (group_go) begin
      left_q  <= rest;
      fresh_q <= group_last;
    end
    if (rst) begin
      group_valid_q <= 1'b0;
      fresh_q <= 1'b1;
    end
  end

  for (genvar i = 0; i < LANES; i++) begin : g_mask
    assign group_mask[i] = group_q.value[i] &&
                           (group_q.coder != CODER_F2 || group_q.low[i] == 2'd3);
  end

  assign group_ready = !mask_valid || mask_ready;
  always_ff @(posedge clk) begin
    if (group_ready) begin
      group <= group_q;
      mask <= group_mask;
      mask_last <= group_last_q;
      mask_valid <= group_valid_q;
    end
    if (rst) mask_valid <= 1'b0;
  end

  // Codes to lanes.
  logic [LANES-1:0][3:0] quotient;
  logic [LANES-1:0] quotient_keep;
  logic overflow, found, short_or_over, dealt_last, dealt_valid, dealt_ready;
  logic [6:0] position;

  wz_deal #(
      .LANES(LANES),
      .W(4),
      .USER_W($bits(group_t)),
      .ITEM_USER_W(9)
  ) u_deal (
      .clk,
      .rst,
      .s_mask_tdata(mask),
      .s_mask_none(group.none),
      .s_mask_tuser(group),
      .s_mask_tlast(mask_last),
      .s_mask_tvalid(mask_valid),
      .s_mask_tready(mask_ready),
      .s_item_tdata(s_code_tdata),
      .s_item_tcount(s_code_tcount),
      .s_item_tuser({s_code_overflow, s_code_found, s_code_position}),
      .s_item_tlast(s_code_tlast),
      .s_item_tvalid(s_code_tvalid),
      .s_item_tready(s_code_tready),
      .m_tdata(quotient),
      .m_tkeep(quotient_keep),
      .m_tuser(dealt),
      .m_titem({overflow, found, position}),
      .m_terror(short_or_over),
      .m_tlast(dealt_last),
      .m_tvalid(dealt_valid),
      .m_tready(dealt_ready)
  );

  // The dealt group, in a register: 4 LUT levels lie before it.
  logic [LANES-1:0][3:0] quotient_q;
  group_t dealt_q;
  logic overflow_q, found_q, short_or_over_q, last_q, valid_q, rank_ready;
  logic [6:0] position_q;

  assign dealt_ready = !valid_q || rank_ready;
  always_ff @(posedge clk) begin
    if (dealt_ready) begin
      quotient_q <= quotient;
      dealt_q <= dealt;
      {overflow_q, found_q, position_q} <= {overflow, found, position};
      short_or_over_q <= short_or_over;
      last_q <= dealt_last;
      valid_q <= dealt_valid;
    end
    if (rst) valid_q <= 1'b0;
  end

  // Ranks.
  logic [LANES-1:0][4:0] rank;
  logic [LANES-1:0] escape, bad;
  logic bad_section;

  for (genvar i = 0; i < LANES; i++) begin : g_rank
    logic [3:0] q;
    logic [1:0] low;
    assign q = quotient_q[i];
    assign low = dealt_q.low[i];
    always_comb begin
      unique case (dealt_q.coder)
        CODER_R0: begin
          rank[i] = {1'b0, q};
          escape[i] = q == 4'd15;
          bad[i] = 1'b0;
        end
        CODER_R1: begin
          rank[i] = {q, low[0]};
          escape[i] = q == 4'd7 && low[0];
          bad[i] = q[3];
        end
        CODER_R2: begin
          rank[i] = {q[2:0], low};
          escape[i] = q == 4'd7 && low == 2'd3;
          bad[i] = q[3];
        end
        default: begin
          rank[i] = (low == 2'd3) ? 5'(q) + 5'd3 : 5'(low);
          escape[i] = low == 2'd3 && q == 4'd12;
          bad[i] = low == 2'd3 && q > 4'd12;
        end
      endcase
    end
  end

  // The last one must lie in the section's last byte.
  assign bad_section = overflow_q || !found_q || position_q[6:3] != dealt_q.last_byte ||
                       {1'b0, position_q[2:0]} >= dealt_q.room;

  // The register behind it is that of a skid buffer.
  logic bad_codes, bad_rank;
  assign bad_codes = short_or_over_q || (last_q && !dealt_q.none && bad_section);
  assign bad_rank  = |(bad & dealt_q.value);

  wz_skid #(
      .W(7 * LANES + 4)
  ) u_ranks (
      .clk,
      .rst,
      .s_tdata({
        rank, dealt_q.value, escape & dealt_q.value, dealt_q.no_escapes, bad_codes, bad_rank, last_q
      }),
      .s_tvalid(valid_q),
      .s_tready(rank_ready),
      .m_tdata({m_rank, m_value, m_escape, m_no_escapes, m_bad_codes, m_bad_rank, m_tlast}),
      .m_tvalid,
      .m_tready
  );

  wire unused = &{1'b0, quotient_keep};

endmodule
