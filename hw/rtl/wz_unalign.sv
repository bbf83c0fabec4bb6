// SPDX-License-Identifier: Apache-2.0
//
// Blocks from value beats (docs/format.md, section 2): the head in front, the tail behind, and the
// pattern of a constant block everywhere.
//
// Values begin at byte 0 of their beats; behind a head they move up by its 1 to 3 bytes. Without
// FP32, a head and a tail have one byte, which is the block's first and its last: then all is one
// multiplexer.
//
//   latency       2 clocks, 1 if FP32 is not built
//   throughput    1 beat a clock, one for each beat of the block
//   back-pressure none but `room`: s_tready is a flop and that; what has been taken comes out

module wz_unalign
  import wz_format_pkg::*;
  import wz_pkg::*;
  import wz_restore_pkg::*;
#(
    parameter logic [5:0] TYPES = 6'b111111
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input  align_job_t s_job_tdata,
    input  logic       s_job_tvalid,
    output logic       s_job_tready,

    input  logic [511:0] s_tdata,  // zero behind the last value
    input  logic         s_bad_codes,
    input  logic         s_bad,
    input  logic         s_tvalid,
    output logic         s_tready,

    output logic [511:0] m_tdata,  // zero behind the last byte
    output logic [5:0]   m_last_byte,  // in the last beat
    output logic         m_bad_codes,
    output logic         m_bad,
    output logic         m_tlast,
    output logic         m_tvalid,
    input  logic         room  // for 3 more beats
);

  logic job_ready, job_valid_q, job_done;
  element_type_e element;

  assign element = built(TYPES, s_job_tdata.element);
  assign s_job_tready = job_ready;

  // The current block.
  logic [5:0] beat_q, last_beat_q, last_byte_q;
  logic constant_q, last, take;

  assign last = beat_q == last_beat_q;
  assign s_tready = job_valid_q && room;
  assign take = s_tvalid && s_tready;
  assign job_done = take && last;
  assign job_ready = !job_valid_q || job_done;

  always_ff @(posedge clk) begin
    if (job_ready) begin
      last_beat_q <= s_job_tdata.last_beat;
      last_byte_q <= s_job_tdata.last_byte;
      constant_q  <= s_job_tdata.constant;
      job_valid_q <= s_job_tvalid;
    end
    if (take) beat_q <= last ? '0 : beat_q + 1'b1;
    if (rst) begin
      job_valid_q <= 1'b0;
      beat_q <= '0;
    end
  end

  localparam int unsigned LATENCY = TYPES[ELEMENT_TYPE_FP32] ? 2 : 1;
  if (LATENCY == 1) begin : g_byte
    // `fill_q` goes to the bytes `there_q` of the last beat and, if constant, to all others.
    logic [15:0] fill_q;
    logic [63:0] there, there_q, filled;
    logic [7:0] head_q, before_q;
    logic [519:0] window;
    logic up_q;

    always_comb begin
      for (int j = 0; j < 64; j++) begin
        there[j] = s_job_tdata.constant ? 6'(j) <= s_job_tdata.last_byte
                                : s_job_tdata.tail_bytes != '0 && 6'(j) == s_job_tdata.last_byte;
      end
    end

    always_ff @(posedge clk) begin
      if (job_ready) begin
        fill_q <= (s_job_tdata.constant && width_log2(element) != 2'd0) ? s_job_tdata.fill[15:0]
                                                               : {2{s_job_tdata.fill[7:0]}};
        there_q <= there;
        head_q <= s_job_tdata.head[7:0];
        up_q <= s_job_tdata.head_bytes != '0;
      end
    end

    assign filled = last ? there_q : {64{constant_q}};
    assign window = {s_tdata, (beat_q == '0) ? head_q : before_q};

    always_ff @(posedge clk) begin
      for (int j = 0; j < 64; j++) begin
        m_tdata[8*j+:8] <= (up_q ? window[8*j+:8] : window[8*(j+1)+:8]) |
                           (fill_q[j%2*8+:8] & {8{filled[j]}});
      end
      if (take) before_q <= s_tdata[511:504];
      m_last_byte <= last_byte_q;
      m_bad_codes <= s_bad_codes;
      m_bad <= s_bad;
      m_tlast <= last;
      m_tvalid <= take;
      if (rst) m_tvalid <= 1'b0;
    end

    wire unused = &{1'b0, s_job_tdata.head, s_job_tdata.tail_at, s_job_tdata.fill};
  end else begin : g_bytes
    // `fill_q` goes to the bytes `there_q` in beat `special_q`, and in the others of a constant one.
    logic [31:0] fill, fill_q;
    logic [63:0] there, there_q, filled;
    logic [5:0] special_q;
    logic [1:0] head_bytes_q;
    logic [23:0] head_q;

    always_comb begin
      unique case (width_log2(element))
        2'd0: fill = {4{s_job_tdata.fill[7:0]}};
        2'd1: fill = {2{s_job_tdata.fill[15:0]}};
        default: fill = s_job_tdata.fill;
      endcase
    end

    always_comb begin
      for (int j = 0; j < 64; j++) begin
        if (s_job_tdata.constant) there[j] = 6'(j) <= s_job_tdata.last_byte;
        else if (s_job_tdata.tail_bytes == '0) there[j] = 1'b0;
        else if (width_log2(element) == 2'd1) there[j] = 5'(j / 2) == s_job_tdata.tail_at[5:1];
        else there[j] = 4'(j / 4) == s_job_tdata.tail_at[5:2];
      end
    end

    always_ff @(posedge clk) begin
      if (job_ready) begin
        fill_q <= fill;
        there_q <= there;
        special_q <= s_job_tdata.constant ? s_job_tdata.last_beat : s_job_tdata.tail_at[11:6];
        head_bytes_q <= s_job_tdata.head_bytes;
        // In front of byte 0: the head's last byte lies next to it.
        unique case (s_job_tdata.head_bytes)
          2'd1: head_q <= {s_job_tdata.head[7:0], 16'd0};
          2'd2: head_q <= {s_job_tdata.head[15:0], 8'd0};
          default: head_q <= s_job_tdata.head;
        endcase
      end
    end

    // Clock 1: fill.
    logic [511:0] data_q;
    logic [23:0] head_q2;
    logic [1:0] head_bytes_q2;
    logic [5:0] last_byte_q2;
    logic first_q, bad_codes_q, bad_q, last_q, valid_q;

    assign filled = (beat_q == special_q) ? there_q : {64{constant_q}};

    always_ff @(posedge clk) begin
      for (int j = 0; j < 64; j++) begin
        data_q[8*j+:8] <= s_tdata[8*j+:8] | (fill_q[j%4*8+:8] & {8{filled[j]}});
      end
      first_q <= beat_q == '0;
      bad_codes_q <= s_bad_codes;
      bad_q <= s_bad;
      last_q <= last;
      last_byte_q2 <= last_byte_q;
      head_q2 <= head_q;
      head_bytes_q2 <= head_bytes_q;
      valid_q <= take;
      if (rst) valid_q <= 1'b0;
    end

    // Clock 2: move up.
    logic [23:0] before_q;
    logic [535:0] window;

    assign window = {data_q, first_q ? head_q2 : before_q};

    always_ff @(posedge clk) begin
      for (int j = 0; j < 64; j++) begin
        unique case (head_bytes_q2)
          2'd0: m_tdata[8*j+:8] <= window[8*(j+3)+:8];
          2'd1: m_tdata[8*j+:8] <= window[8*(j+2)+:8];
          2'd2: m_tdata[8*j+:8] <= window[8*(j+1)+:8];
          default: m_tdata[8*j+:8] <= window[8*j+:8];
        endcase
      end
      if (valid_q) before_q <= data_q[511:488];
      m_last_byte <= last_byte_q2;
      m_bad_codes <= bad_codes_q;
      m_bad <= bad_q;
      m_tlast <= last_q;
      m_tvalid <= valid_q;
      if (rst) m_tvalid <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  logic [2:1] latency_q;
  always_ff @(posedge clk) begin
    latency_q <= {latency_q[1], take};
    if (rst) latency_q <= '0;
  end
  a_latency : assert property (@(posedge clk) disable iff (rst) latency_q[LATENCY] == m_tvalid);
`endif

endmodule
