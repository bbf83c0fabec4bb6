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
// FP16 and FP32 an even number; parts may begin anywhere. Coded records have at most 48 bytes, and
// those of RAW and payloads as they are begin at multiples of 8.
//
// A window leaves when some beats more of the packet have been written, or the packet has ended: that
// is known of it clocks ahead, so that nothing waits for a comparison.
//
//   latency       7 clocks from s_job to the first window, 6 if FP16 and FP32 are not built
//   throughput    1 window a clock; a packet without records a clock
//   back-pressure none on windows; while `room` is high, up to WINDOWS more may come after it fell

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

    output logic                            read,
    output logic [BANKS-1:0][ADDRESS_W-1:0] read_address,
    input  logic [BANKS-1:0][BANK_W-1:0]    read_data,

    input  logic                    room,
    output logic [8*BEAT_BYTES-1:0] m_data,
    output window_t                 m_info,
    output logic                    m_valid
);

  localparam logic FINE = TYPES[ELEMENT_TYPE_FP16] || TYPES[ELEMENT_TYPE_FP32];
  // Bytes at the start of a window that may have to be rotated by less than 4, and by multiples of 4.
  localparam int unsigned BY_ONE = FINE ? 48 : 0;
  localparam int unsigned BY_FOUR = FINE ? BY_ONE + 4 : TYPES[ELEMENT_TYPE_BF16] ? 32 : 0;

  // 1: the next job, and whether its first windows have been written.
  record_job_t next_q;
  logic next_valid_q, load, next_ended, next_ended_now, next_there;
  logic [POINTER_W-1:0] next_limit, next_limit_now, next_short;

  wz_reach u_reach (
      .clk,
      .rst,
      .progress,
      .load(s_valid && s_ready),
      .next_packet(s_job.place.packet),
      .limit(next_limit),
      .ended(next_ended),
      .limit_now(next_limit_now),
      .ended_now(next_ended_now)
  );

  assign s_ready = !next_valid_q || load;
  // The sign of a difference tells which of two pointers is ahead.
  assign next_short = next_q.ahead - next_limit;
  assign next_there = next_ended || next_short[POINTER_W-1];

  always_ff @(posedge clk) begin
    if (s_ready) begin
      next_q <= s_job;
      next_q.element <= built_element(TYPES, s_job.element);
      next_valid_q <= s_valid;
    end
    if (rst) next_valid_q <= 1'b0;
  end

  // 2: the place of each window.
  record_job_t job_q;
  logic [POINTER_W+5:0] at_q;  // byte in the ring
  logic [POINTER_W-1:0] at_beat, limit_q, limit_now, left_over_q, held_q;
  logic [6:0] left_q, stride_q, element_bytes;
  logic [1:0] part_q;
  logic valid_q, last_q, split_q, last_part_q, empty_q, nothing_q;
  logic there_q, known_q, ended_q, ended_now, move, next_split;

  wire unused = &{1'b0, job_q.records, job_q.offset, job_q.place, job_q.ahead, job_q.step};

  assign next_split = FINE && next_q.split && next_q.records == 7'd1;
  assign move = valid_q && (empty_q || (room && (there_q || nothing_q)));
  assign load = !valid_q || (move && last_part_q);
  assign limit_now = ended_q ? limit_q : progress.reached;
  assign ended_now = ended_q || progress.ended;
  assign at_beat = at_q[6+:POINTER_W];
  assign element_bytes = job_q.as_is ? job_q.last : job_q.last << width_log2(job_q.element);
  assign held = held_q;

  always_ff @(posedge clk) begin
    // How far the writer is ahead: at most two windows behind the one at_q points at.
    left_over_q <= limit_q - at_beat;

    if (load) begin
      valid_q <= next_valid_q;
      job_q <= next_q;
      at_q <= {next_q.place.start, next_q.offset};
      left_q <= next_q.records;
      last_q <= next_q.records <= 7'd1;
      split_q <= next_split;
      last_part_q <= next_q.records <= 7'd1 && !next_split;
      stride_q <= next_split ? next_q.last : next_q.step;
      empty_q <= next_q.records == '0;
      nothing_q <= next_q.step == '0;
      part_q <= '0;
      limit_q <= next_limit_now;
      ended_q <= next_ended_now;
      there_q <= next_there;
      known_q <= 1'b0;
      if (next_valid_q) held_q <= next_q.place.start;
    end else begin
      limit_q <= limit_now;
      ended_q <= ended_now;
      // left_over_q is of this job from the second clock on; three windows were looked at before.
      known_q <= 1'b1;
      if (known_q) begin
        there_q <= ended_q
            || (!left_over_q[POINTER_W-1] && left_over_q[POINTER_W-2:2] != '0);
      end
      if (move) begin
        at_q <= at_q + (POINTER_W + 6)'(stride_q);
        if (split_q) begin
          part_q <= part_q + 2'd1;
          last_part_q <= part_q + 2'd1 == job_q.parts;
        end else begin
          left_q <= left_q - 7'd1;
          last_q <= left_q == 7'd2;
          split_q <= FINE && left_q == 7'd2 && job_q.split;
          last_part_q <= left_q == 7'd2 && !(FINE && job_q.split);
          if (FINE && left_q == 7'd2 && job_q.split) stride_q <= job_q.last;
        end
      end
    end
    if (rst) begin
      valid_q <= 1'b0;
      held_q <= '0;
    end
  end

  // 3: ask for it. Planes have places of their own in the window: those that come first leave room
  // for the ones that are constant, or in windows before.
  logic [POINTER_W-1:0] beat_q, beat_next_q, ask_limit_q, short, next_beat_short;
  logic [5:0] ask_offset_q;
  logic [1:0] ask_turn_q, place, plane;
  logic ask_valid_q;
  window_t ask_q;

  always_comb begin
    // The plane with which the window begins.
    case ({job_q.plane_flags[1:0], split_q ? part_q : 2'd0})
      4'b00_00, 4'b10_00: plane = 2'd0;
      4'b00_01, 4'b01_00: plane = 2'd1;
      default: plane = 2'd2;
    endcase
    place = 2'd0;
    if (FINE && !job_q.as_is) begin
      // In 16 bytes: a plane of FP16 has 32.
      if (job_q.element == ELEMENT_TYPE_FP32) place = plane;
      if (job_q.element == ELEMENT_TYPE_FP16) place = {plane != 2'd0, 1'b0};
    end
  end

  assign read = ask_valid_q;
  assign short = beat_q - ask_limit_q;
  assign next_beat_short = beat_next_q - ask_limit_q;
  for (genvar b = 0; b < int'(BANKS); b++) begin : g_bank
    assign read_address[b] = (4'(b) >= {1'b0, ask_offset_q[5:3]}) ? beat_q[ADDRESS_W-1:0]
                                                                  : beat_next_q[ADDRESS_W-1:0];
  end

  always_ff @(posedge clk) begin
    ask_valid_q <= move && !empty_q;
    beat_q <= at_beat;
    beat_next_q <= at_beat + POINTER_W'(1);
    ask_limit_q <= limit_q;
    ask_offset_q <= at_q[5:0];
    ask_turn_q <= at_q[5:4] - place;
    ask_q <= '{
        bytes: last_q ? element_bytes : 7'(BEAT_BYTES),
        set: (!split_q || part_q == 2'd0) ? 4'b1111
            : (job_q.element == ELEMENT_TYPE_FP16) ? 4'b1010
            : (plane == 2'd1) ? 4'b0010 : 4'b1100,
        last_part: last_part_q || !split_q,
        choice: job_q.as_is ? 2'd0 : job_q.sign_flag ? 2'd1 : job_q.plane_flags[0] ? 2'd2 : 2'd3,
        low: !split_q && job_q.plane_flags[1:0] == 2'b10,
        element: job_q.element,
        sign_flag: job_q.sign_flag,
        sign_value: job_q.sign_value,
        plane_flags: job_q.plane_flags,
        plane_bytes: job_q.plane_bytes
    };
    if (rst) ask_valid_q <= 1'b0;
  end

  // 4: read.
  logic [BANKS-1:0] missing_q;
  logic [3:0] read_offset_q;
  logic [1:0] read_turn_q;
  logic read_valid_q;
  window_t read_q;

  always_ff @(posedge clk) begin
    read_valid_q <= ask_valid_q;
    read_q <= ask_q;
    read_offset_q <= ask_offset_q[3:0];
    read_turn_q <= ask_turn_q;
    for (int b = 0; b < int'(BANKS); b++) begin
      // What a packet that has ended does not have.
      missing_q[b] <= (4'(b) >= {1'b0, ask_offset_q[5:3]}) ? !short[POINTER_W-1]
                                                           : !next_beat_short[POINTER_W-1];
    end
    if (rst) read_valid_q <= 1'b0;
  end

  // 5: rotate by multiples of 16 bytes.
  logic [8*BEAT_BYTES-1:0] read_bits, turned, turn_data_q;
  logic [BANKS-1:0] turned_missing;
  logic [3:0] turn_offset_q;
  logic turn_valid_q;
  window_t turn_q;

  assign read_bits = read_data;

  always_comb begin
    case (read_turn_q)
      2'd0: {turned, turned_missing} = {read_bits, missing_q};
      2'd1: {turned, turned_missing} = {
          read_bits[127:0], read_bits[511:128], missing_q[1:0], missing_q[7:2]};
      2'd2: {turned, turned_missing} = {
          read_bits[255:0], read_bits[511:256], missing_q[3:0], missing_q[7:4]};
      default: {turned, turned_missing} = {
          read_bits[383:0], read_bits[511:384], missing_q[5:0], missing_q[7:6]};
    endcase
  end

  always_ff @(posedge clk) begin
    turn_valid_q <= read_valid_q;
    turn_q <= read_q;
    turn_offset_q <= read_offset_q;
    for (int i = 0; i < int'(BEAT_BYTES); i++) begin
      if (turned_missing[i/8]) turn_data_q[8*i+:8] <= 8'd0;
      // Far behind any record, and of a payload as it is, which begins in the first 16 bytes.
      else if (i >= int'(BY_FOUR + 12) && !TYPES[ELEMENT_TYPE_RAW]) begin
        turn_data_q[8*i+:8] <= read_bits[8*i+:8];
      end else turn_data_q[8*i+:8] <= turned[8*i+:8];
    end
    if (rst) turn_valid_q <= 1'b0;
  end

  // 6: by multiples of 4 bytes.
  logic [8*BEAT_BYTES-1:0] by_eight, by_four, four_data_q;
  logic [1:0] four_offset_q;
  logic four_valid_q;
  window_t four_q;

  assign by_eight = turn_offset_q[3] ? {turn_data_q[63:0], turn_data_q[511:64]} : turn_data_q;

  always_comb begin
    case (turn_offset_q[3:2])
      2'd0: by_four = turn_data_q;
      2'd1: by_four = {turn_data_q[31:0], turn_data_q[511:32]};
      2'd2: by_four = {turn_data_q[63:0], turn_data_q[511:64]};
      default: by_four = {turn_data_q[95:0], turn_data_q[511:96]};
    endcase
  end

  always_ff @(posedge clk) begin
    four_valid_q <= turn_valid_q;
    four_q <= turn_q;
    four_offset_q <= turn_offset_q[1:0];
    for (int i = 0; i < int'(BEAT_BYTES); i++) begin
      four_data_q[8*i+:8] <= (i < int'(BY_FOUR)) ? by_four[8*i+:8] : by_eight[8*i+:8];
    end
    if (rst) four_valid_q <= 1'b0;
  end

  // 7: by 2 bytes; parts, which begin anywhere, by 1.
  if (FINE) begin : g_fine
    logic [8*BEAT_BYTES-1:0] fine_data_q;
    logic [8*BY_ONE-1:0] by_one;
    logic fine_valid_q;
    window_t fine_q;

    assign m_data = fine_data_q;
    assign m_info = fine_q;
    assign m_valid = fine_valid_q;

    always_comb begin
      case (four_offset_q)
        2'd0: by_one = four_data_q[0+:8*BY_ONE];
        2'd1: by_one = four_data_q[8+:8*BY_ONE];
        2'd2: by_one = four_data_q[16+:8*BY_ONE];
        default: by_one = four_data_q[24+:8*BY_ONE];
      endcase
    end

    always_ff @(posedge clk) begin
      fine_valid_q <= four_valid_q;
      fine_q <= four_q;
      for (int i = 0; i < int'(BEAT_BYTES); i++) begin
        if (i < int'(BY_ONE)) fine_data_q[8*i+:8] <= by_one[8*i+:8];
        else fine_data_q[8*i+:8] <= four_data_q[8*i+:8];
      end
      if (rst) fine_valid_q <= 1'b0;
    end
  end else begin : g_coarse
    wire unused_offset = &{1'b0, four_offset_q};
    assign m_data = four_data_q;
    assign m_info = four_q;
    assign m_valid = four_valid_q;
  end

`ifndef SYNTHESIS
  localparam int unsigned LATENCY = FINE ? 7 : 6;
  // Windows on their way when `room` falls.
  localparam int unsigned WINDOWS = LATENCY - 1;

  a_latency : assert property (@(posedge clk) disable iff (rst)
      s_valid && s_ready && load && s_job.records != '0 ##1 load ##1 room && (there_q || nothing_q)
      |-> ##(LATENCY - 2) m_valid);
  a_windows : assert property (@(posedge clk) disable iff (rst)
      !room [*WINDOWS] |=> !m_valid);
`endif

endmodule
