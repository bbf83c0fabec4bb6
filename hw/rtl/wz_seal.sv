// SPDX-License-Identifier: Apache-2.0
//
// The decoder's last check: the CRC (docs/format.md, section 5), and what the packet is marked with.
//
// Beats leave as they come but for a block's last, which waits for the verdict. What the intake found
// comes first (m_status of wz_sections), then what was found on the way here, then the CRC. With
// `late`, the packet ends within the escapes: then it is corrupt if its codes are, else truncated.
//
//   latency       2 clocks; the last beat 9, or 2 after its status
//   throughput    1 beat a clock; the queue takes what comes while a last beat waits
//   back-pressure `room`, a flop: 4 more beats may come

module wz_seal
  import wz_format_pkg::*;
  import wz_pkg::*;
  import wz_crc_pkg::*;
  import wz_restore_pkg::*;
(
    input logic clk,
    input logic rst,  // synchronous, active high

    input  seal_job_t s_job_tdata,  // one a block, not after its last beat
    input  logic      s_job_tvalid,
    output logic      s_job_tready,

    input  error_e s_status_tdata,
    input  logic   s_status_late,
    input  logic   s_status_tvalid,
    output logic   s_status_tready,

    input  logic [511:0] s_tdata,  // zero behind the last byte
    input  logic [5:0]   s_last_byte,
    input  logic         s_bad_codes,
    input  logic         s_bad,
    input  logic         s_tlast,
    input  logic         s_tvalid,
    output logic         room,

    output logic [511:0] m_axis_tdata,
    output logic [63:0]  m_axis_tkeep,
    output logic         m_axis_tlast,
    output error_e       m_axis_tuser,  // at the last beat
    output logic         m_axis_tvalid,
    input  logic         m_axis_tready,

    // A packet has left, the clock before.
    output logic   event_valid,
    output logic   event_coded,
    output mode_e  event_mode,
    output error_e event_error
);

  localparam int unsigned DEPTH = 32;
  localparam int unsigned LEVEL_W = $clog2(DEPTH) + 1;

  // Beats, waiting.
  logic beats_ready, out_valid, out_ready, out_last;
  logic [5:0] out_last_byte;
  logic [LEVEL_W-1:0] beats_level;

  // One may have come on the clock before, and one comes now.
  always_ff @(posedge clk) begin
    room <= beats_level < LEVEL_W'(DEPTH - 6);
    if (rst) room <= 1'b0;
  end

  wz_fifo #(
      .W(512 + 7),
      .DEPTH(DEPTH)
  ) u_beats (
      .clk,
      .rst,
      .s_tdata({s_tdata, s_last_byte, s_tlast}),
      .s_tvalid,
      .s_tready(beats_ready),
      .m_tdata({m_axis_tdata, out_last_byte, out_last}),
      .m_tvalid(out_valid),
      .m_tready(out_ready),
      .level(beats_level)
  );

  // CRC of the block, and what else was found about it, in step.
  localparam int unsigned CRC_LATENCY = 3;
  logic [CRC_BITS-1:0] state;
  logic state_valid, first_q, bad_codes_q, bad_q;
  logic [CRC_LATENCY:1] last_q, bad_codes_after_q, bad_after_q;

  wz_crc32c u_crc (
      .clk,
      .rst,
      .en(1'b1),
      .s_tdata,
      .s_first(first_q),
      .s_valid(s_tvalid),
      .m_state(state),
      .m_valid(state_valid)
  );

  always_ff @(posedge clk) begin
    if (s_tvalid) begin
      first_q <= s_tlast;
      bad_codes_q <= !s_tlast && (bad_codes_q || s_bad_codes);
      bad_q <= !s_tlast && (bad_q || s_bad);
    end
    last_q <= {last_q[CRC_LATENCY-1:1], s_tvalid && s_tlast};
    bad_codes_after_q <= {bad_codes_after_q[CRC_LATENCY-1:1], bad_codes_q || s_bad_codes};
    bad_after_q <= {bad_after_q[CRC_LATENCY-1:1], bad_q || s_bad};
    if (rst) begin
      first_q <= 1'b1;
      bad_codes_q <= 1'b0;
      bad_q <= 1'b0;
      last_q <= '0;
    end
  end

  // The header's 8 or 16 bytes follow, with zero for the CRC itself.
  typedef struct packed {
    logic [CRC_BITS-1:0] expected;
    mode_e mode;
    logic coded;
    logic bad_codes;
    logic bad;
  } verdict_t;

  logic [CRC_BITS-1:0] low_state_q, high_state_q;
  logic [STEP_BITS-1:0] header_low, header_high_q;
  verdict_t low_q, high_q;
  logic low_valid_q, high_valid_q, wrong_q, wrong_codes_q, wrong_coded_q, wrong_valid_q;
  mode_e wrong_mode_q;

  always_comb begin
    header_low = s_job_tdata.header[STEP_BITS-1:0];
    header_low[CRC_LSB+:CRC_BITS] = '0;
  end
  assign s_job_tready = last_q[CRC_LATENCY];

  always_ff @(posedge clk) begin
    low_state_q <= step64(state, header_low);
    header_high_q <= s_job_tdata.header[127:STEP_BITS];
    low_q.expected <= s_job_tdata.header[CRC_LSB+:CRC_BITS];
    low_q.mode <= s_job_tdata.mode;
    low_q.coded <= s_job_tdata.coded;
    low_q.bad_codes <= bad_codes_after_q[CRC_LATENCY];
    low_q.bad <= bad_after_q[CRC_LATENCY];
    low_valid_q <= last_q[CRC_LATENCY];

    high_state_q <= (low_q.mode == MODE_CODED) ? step64(low_state_q, header_high_q) : low_state_q;
    high_q <= low_q;
    high_valid_q <= low_valid_q;

    wrong_codes_q <= high_q.bad_codes;
    wrong_coded_q <= high_q.coded;
    wrong_mode_q <= high_q.mode;
    wrong_q <= high_q.bad || (high_q.coded && ~high_state_q != high_q.expected);
    wrong_valid_q <= high_valid_q;

    if (rst) begin
      low_valid_q <= 1'b0;
      high_valid_q <= 1'b0;
      wrong_valid_q <= 1'b0;
    end
  end

  // Verdicts, waiting for the status and for their last beats.
  logic wrong, wrong_codes, wrong_coded, wrong_valid, wrong_ready;
  logic [1:0] wrong_mode;
  logic [LEVEL_W:0] wrong_level;
  logic verdict_ready, verdict_valid, verdict_coded, last_go;
  logic [1:0] verdict_mode, verdict;
  error_e verdict_new;

  wz_fifo #(
      .W(5),
      .DEPTH(2 * DEPTH)
  ) u_verdicts (
      .clk,
      .rst,
      .s_tdata({wrong_q, wrong_codes_q, wrong_coded_q, wrong_mode_q}),
      .s_tvalid(wrong_valid_q),
      .s_tready(wrong_ready),
      .m_tdata({wrong, wrong_codes, wrong_coded, wrong_mode}),
      .m_tvalid(wrong_valid),
      .m_tready(verdict_ready && s_status_tvalid),
      .level(wrong_level)
  );

  assign s_status_tready = verdict_ready && wrong_valid;

  always_comb begin
    if (s_status_late && wrong_codes) verdict_new = ERROR_CORRUPT;
    else if (s_status_tdata != ERROR_NONE) verdict_new = s_status_tdata;
    else verdict_new = (wrong || wrong_codes) ? ERROR_CORRUPT : ERROR_NONE;
  end

  wz_skid #(
      .W(5)
  ) u_verdict (
      .clk,
      .rst,
      .s_tdata({verdict_new, wrong_coded, wrong_mode}),
      .s_tvalid(wrong_valid && s_status_tvalid),
      .s_tready(verdict_ready),
      .m_tdata({verdict, verdict_coded, verdict_mode}),
      .m_tvalid(verdict_valid),
      .m_tready(last_go)
  );

  // Output.
  assign m_axis_tvalid = out_valid && (!out_last || verdict_valid);
  assign out_ready = m_axis_tready && (!out_last || verdict_valid);
  assign last_go = out_valid && out_last && m_axis_tready;
  assign m_axis_tlast = out_last;
  assign m_axis_tuser = out_last ? error_e'(verdict) : ERROR_NONE;

  always_comb begin
    for (int j = 0; j < 64; j++) m_axis_tkeep[j] = !out_last || 6'(j) <= out_last_byte;
  end

  always_ff @(posedge clk) begin
    event_valid <= last_go && verdict_valid;
    event_coded <= verdict_coded;
    event_mode  <= mode_e'(verdict_mode);
    event_error <= m_axis_tuser;
    if (rst) event_valid <= 1'b0;
  end

`ifndef SYNTHESIS
  a_job : assert property (@(posedge clk) disable iff (rst) s_job_tready |-> s_job_tvalid);
  a_verdict : assert property (@(posedge clk) disable iff (rst) wrong_valid_q |-> wrong_ready);
  a_room : assert property (@(posedge clk) disable iff (rst) s_tvalid |-> beats_ready);
  a_stable : assert property (@(posedge clk) disable iff (rst)
      m_axis_tvalid && !m_axis_tready |=> m_axis_tvalid && $stable({
        m_axis_tdata, m_axis_tkeep, m_axis_tlast, m_axis_tuser}));
`endif
  wire unused = &{1'b0, state_valid, s_job_tvalid, beats_ready, wrong_level, wrong_ready};

endmodule
