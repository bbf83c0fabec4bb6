// SPDX-License-Identifier: Apache-2.0
//
// Cuts the remainders, or a payload that travels as it is, into records: 64-byte windows of the
// packet that begin where a record begins (docs/format.md, section 6).
//
// The ring is read in banks of 8 bytes, each at the address of the beat in which the window covers
// it, so that every clock reads a whole window wherever it lies; what is left is a rotation. The
// last record, if it is partial and has several parts, comes as a window a part.
//
// Rotation is by as little as the built types ask for: full records of BF16 take 28 or 32 bytes, of
// FP16 and FP32 an even number; parts may begin anywhere and have at most 15 bytes. Coded records
// have at most 48 bytes, and those of RAW and payloads as they are begin at multiples of 8.
//
//   latency       6 clocks from s_job to the first window, 5 if FP16 and FP32 are not built
//   throughput    1 window a clock; a packet without records a clock
//   back-pressure m_tready enables a chain of registers

module wz_slice
  import wz_format_pkg::*;
  import wz_pkg::*;
  import wz_sections_pkg::*;
#(
    parameter logic [5:0] TYPES = 6'b111111,
    localparam int unsigned BANKS = 8,
    localparam int unsigned BANK_W = 8 * BEAT_BYTES / BANKS
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input progress_t progress,

    input  record_job_t s_job,
    input  logic        s_valid,
    output logic        s_ready,

    output logic [POINTER_W-1:0] held,

    output logic [BANKS-1:0]                read,
    output logic [BANKS-1:0][ADDRESS_W-1:0] read_address,
    input  logic [BANKS-1:0][BANK_W-1:0]    read_data,

    output logic [8*BEAT_BYTES-1:0] m_tdata,
    output window_t                 m_info,
    output logic                    m_tvalid,
    input  logic                    m_tready
);

  localparam logic FINE = TYPES[ELEMENT_TYPE_FP16] || TYPES[ELEMENT_TYPE_FP32];
  // Bytes at the start of a window that may have to be rotated by any multiple of 4.
  localparam int unsigned BY_FOUR = FINE ? 48 : TYPES[ELEMENT_TYPE_BF16] ? 32 : 0;
  localparam int unsigned PART_BYTES = 16;

  // 1: the place of each window.
  record_job_t job_q;
  wire unused_job = &{1'b0, job_q.records, job_q.offset};
  logic [POINTER_W+5:0] at_q;  // byte in the ring
  logic [6:0] left_q;
  logic [1:0] part_q;
  logic busy_q, last_q;
  logic move, split, last_part;

  assign split = FINE && last_q && job_q.split;
  assign last_part = !split || part_q == job_q.parts;
  assign s_ready = !busy_q || (move && last_q && last_part);

  always_ff @(posedge clk) begin
    if (s_ready) begin
      busy_q <= s_valid;
      job_q  <= s_job;
      job_q.element <= built_element(TYPES, s_job.element);
      at_q   <= {s_job.place.start, s_job.offset};
      left_q <= s_job.records;
      last_q <= s_job.records <= 7'd1;
      part_q <= '0;
    end else if (move) begin
      at_q <= at_q + (POINTER_W + 6)'(split ? job_q.last : job_q.step);
      if (split) part_q <= part_q + 2'd1;
      else begin
        left_q <= left_q - 7'd1;
        last_q <= left_q == 7'd2;
      end
    end
    if (rst) busy_q <= 1'b0;
  end

  // 2: wait until it has been written.
  logic [POINTER_W-1:0] beat_q, next_q, limit, behind, next_behind, held_q;
  logic [5:0] offset_q;
  logic crosses_q, nothing_q, empty_q, wait_valid_q, ended, there, issue, read_ready;
  window_t wait_q;
  logic [POINTER_W-1:0] at_beat;
  logic [6:0] element_bytes;

  assign at_beat = at_q[6+:POINTER_W];
  assign move = busy_q && (!wait_valid_q || issue);
  assign element_bytes = job_q.as_is ? job_q.last : job_q.last << width_log2(job_q.element);

  wz_reach u_reach (
      .clk,
      .rst,
      .progress,
      .load(move),
      .next_packet(job_q.place.packet),
      .limit,
      .ended
  );

  // The sign of a difference tells which of two pointers is ahead.
  assign behind = beat_q - limit;
  assign next_behind = next_q - limit;
  assign there = ended || nothing_q
      || (behind[POINTER_W-1] && (next_behind[POINTER_W-1] || !crosses_q));
  assign issue = wait_valid_q && (empty_q || (there && read_ready));
  assign held = held_q;

  always_ff @(posedge clk) begin
    if (move) begin
      held_q <= job_q.place.start;
      beat_q <= at_beat;
      next_q <= at_beat + 1'b1;
      offset_q <= at_q[5:0];
      // A partial record may need less: that is only a matter of waiting a little longer.
      crosses_q <= 8'(at_q[5:0]) + 8'(job_q.step) > 8'(BEAT_BYTES);
      nothing_q <= job_q.step == '0;
      empty_q <= left_q == '0;
      wait_q <= '{
          bytes: last_q ? element_bytes : 7'(BEAT_BYTES),
          split: split,
          part: part_q,
          last_part: last_part,
          as_is: job_q.as_is,
          element: job_q.element,
          sign_flag: job_q.sign_flag,
          sign_value: job_q.sign_value,
          plane_flags: job_q.plane_flags,
          plane_bytes: job_q.plane_bytes
      };
    end
    wait_valid_q <= move || (wait_valid_q && !issue);
    if (rst) begin
      wait_valid_q <= 1'b0;
      held_q <= '0;
    end
  end

  // 3: read.
  logic [BANKS-1:0] missing_q;
  logic [5:0] read_offset_q;
  logic read_valid_q, turn_ready;
  window_t read_q;

  logic [BANKS-1:0] missing;
  logic take;

  assign take = issue && !empty_q;
  for (genvar b = 0; b < int'(BANKS); b++) begin : g_bank
    logic in_beat;
    assign in_beat = 4'(b) >= {1'b0, offset_q[5:3]};
    assign missing[b] = in_beat ? !behind[POINTER_W-1] : !next_behind[POINTER_W-1];
    assign read[b] = take && !missing[b];
    assign read_address[b] = in_beat ? beat_q[ADDRESS_W-1:0] : next_q[ADDRESS_W-1:0];
  end
  assign read_ready = !read_valid_q || turn_ready;

  always_ff @(posedge clk) begin
    if (read_ready) begin
      read_valid_q <= take;
      missing_q <= missing;
      read_q <= wait_q;
      read_offset_q <= offset_q;
    end
    if (rst) read_valid_q <= 1'b0;
  end

  // 4: rotate by multiples of 16 bytes.
  logic [BANKS-1:0][BANK_W-1:0] turn_data_q;
  logic [3:0] turn_offset_q;
  logic turn_valid_q, four_ready;
  window_t turn_q;

  assign turn_ready = !turn_valid_q || four_ready;

  always_ff @(posedge clk) begin
    if (turn_ready) begin
      turn_valid_q <= read_valid_q;
      turn_q <= read_q;
      turn_offset_q <= read_offset_q[3:0];
      for (int b = 0; b < int'(BANKS); b++) begin
        if (missing_q[3'(b)+{read_offset_q[5:4], 1'b0}]) turn_data_q[b] <= '0;
        else turn_data_q[b] <= read_data[3'(b)+{read_offset_q[5:4], 1'b0}];
      end
    end
    if (rst) turn_valid_q <= 1'b0;
  end

  // 5: by multiples of 4 bytes.
  logic [BEAT_BYTES-1:0][7:0] turn_bytes, four_q;
  logic [1:0] four_offset_q;
  logic four_valid_q, fine_ready;
  window_t four_info_q;

  assign turn_bytes = turn_data_q;
  assign four_ready = !four_valid_q || fine_ready;

  always_ff @(posedge clk) begin
    if (four_ready) begin
      four_valid_q <= turn_valid_q;
      four_info_q <= turn_q;
      four_offset_q <= turn_offset_q[1:0];
      for (int i = 0; i < int'(BEAT_BYTES); i++) begin
        if (i < int'(BY_FOUR)) four_q[i] <= turn_bytes[6'(i)+6'({turn_offset_q[3:2], 2'b00})];
        else four_q[i] <= turn_bytes[6'(i)+6'({turn_offset_q[3], 3'b000})];
      end
    end
    if (rst) four_valid_q <= 1'b0;
  end

  // 6: by 2 bytes, parts by 1.
  if (FINE) begin : g_fine
    logic [BEAT_BYTES-1:0][7:0] fine_q;
    logic fine_valid_q;
    window_t fine_info_q;

    assign fine_ready = !fine_valid_q || m_tready;
    assign m_tdata = fine_q;
    assign m_info = fine_info_q;
    assign m_tvalid = fine_valid_q;

    always_ff @(posedge clk) begin
      if (fine_ready) begin
        fine_valid_q <= four_valid_q;
        fine_info_q <= four_info_q;
        for (int i = 0; i < int'(BEAT_BYTES); i++) begin
          if (i < int'(PART_BYTES)) fine_q[i] <= four_q[6'(i)+6'(four_offset_q)];
          else if (i < int'(BY_FOUR)) fine_q[i] <= four_q[6'(i)+6'({four_offset_q[1], 1'b0})];
          else fine_q[i] <= four_q[i];
        end
      end
      if (rst) fine_valid_q <= 1'b0;
    end
  end else begin : g_coarse
    wire unused = &{1'b0, four_offset_q};
    assign fine_ready = m_tready;
    assign m_tdata = four_q;
    assign m_info = four_info_q;
    assign m_tvalid = four_valid_q;
  end

`ifndef SYNTHESIS
  localparam int unsigned LATENCY = FINE ? 6 : 5;

  a_latency : assert property (@(posedge clk) disable iff (rst)
      take && turn_ready && four_ready && fine_ready |=> ##(LATENCY - 3) m_tvalid
      || !$past(m_tready));
  a_stable : assert property (@(posedge clk) disable iff (rst)
      m_tvalid && !m_tready |=> m_tvalid && $stable(m_tdata) && $stable(m_info));
`endif

endmodule
