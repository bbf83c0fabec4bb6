// SPDX-License-Identifier: Apache-2.0
//
// The decoder's intake: takes packets apart into plan, carriers, low bits, unary codes and escapes,
// and checks everything about headers, lengths and padding (docs/format.md, sections 4 to 8 and 11).
//
// Beats are written, as they come, into three rings; the header is read on the side; and each reader
// goes straight to the place of its section, waiting for beats that have not come. So nothing waits
// for the end of a packet, several packets are in flight, and a beat of the unary section is out as
// soon as its memory has been read. What a packet that ended early does not have counts as zeros;
// what it has too much is passed over.
//
//   m_plan     one a packet. A refused packet has coded = 0 and block_bytes = 0, and nothing in the
//              other streams but its status
//   m_carrier  ceil(carriers / V) beats of elements with the symbol's bits zero; of a payload that
//              travels as it is, and in raw mode, the ceil(block_bytes / 64) beats of the block
//   m_low      2 bits a lane of each group of min(V, LANES) values; none with coder R0
//   m_unary    16 bytes a word, zero beyond the last, none if there are none
//   m_escape   the first escape at byte 0, undefined beyond the last, none if there are none
//   m_status   one a packet. m_status_late: the packet ends in the escapes, so it is corrupt rather
//              than truncated if the codes are
//
// Memory: three rings of RING_BEATS beats. No deadlock: the streams of a packet depend on its own
// beats alone, which all find room, since a ring holds more than three packets as far as they are
// kept, and no reader holds more than the packet before the oldest unfinished one. A reader moves on
// as soon as its stream of the packet has been taken, whatever the others do; the queues before the
// readers are filled in the same clock, and the input stops while one of them is LEVEL_MAX full.
//
//   latency       a beat to the unary word in it: 3 clocks, once the plan is known. The first beat
//                 to the plan: 19 clocks, to the first unary word: 23
//   throughput    1 beat a clock; a packet without sections a clock
//   back-pressure s_axis_tready is a flop

module wz_sections
  import wz_format_pkg::*;
  import wz_pkg::*;
  import wz_sections_pkg::*;
#(
    parameter logic [5:0] TYPES = 6'b111111,
    parameter int unsigned LANES = 32
) (
    input logic clk,
    input logic rst,  // synchronous, active high
    input logic bare,  // static: frames must be shorter than their blocks and not raw

    input  logic [8*BEAT_BYTES-1:0] s_axis_tdata,
    input  logic [BEAT_BYTES-1:0]   s_axis_tkeep,
    input  logic                    s_axis_tlast,
    input  packet_user_t            s_axis_tuser,  // at the first beat
    input  logic                    s_axis_tvalid,
    output logic                    s_axis_tready,

    output plan_t m_plan_tdata,
    output logic  m_plan_tvalid,
    input  logic  m_plan_tready,

    output logic [8*BEAT_BYTES-1:0] m_carrier_tdata,
    output logic                    m_carrier_tvalid,
    input  logic                    m_carrier_tready,

    output logic [2*LANES-1:0] m_low_tdata,
    output logic               m_low_tvalid,
    input  logic               m_low_tready,

    output logic [8*WORD_BYTES-1:0] m_unary_tdata,
    output logic                    m_unary_tlast,
    output logic                    m_unary_tvalid,
    input  logic                    m_unary_tready,

    output logic [8*BEAT_BYTES-1:0] m_escape_tdata,
    output logic                    m_escape_tvalid,
    input  logic                    m_escape_tready,

    output error_e m_status_tdata,
    output logic   m_status_late,
    output logic   m_status_tvalid,
    input  logic   m_status_tready
);

  // A queue has room for what the parser holds after the input has stopped.
  localparam int unsigned LEVEL_W = $clog2(JOBS) + 1;
  localparam int unsigned LEVEL_MAX = 8;
  localparam int unsigned CARRIERS = 32;
  localparam int unsigned CARRIERS_MAX = 16;
  localparam int unsigned LOW_WORDS = 16;
  // Claims wait for the padding to be looked at. An end may come while the header is still being
  // read: there are no more of them than claims and packets in the parser.
  localparam int unsigned CLAIMS = 64;
  localparam int unsigned CLAIMS_MAX = 32;
  // Verdicts may be wanted much later than plans, at the end of a block.
  localparam int unsigned VERDICTS = 64;

  // Input.
  progress_t progress;
  first_t first;
  logic first_valid, end_valid, write, stall_q;
  logic [PACKET_BYTES_W-1:0] end_bytes;
  logic [ADDRESS_W-1:0] write_address;
  logic [READERS-1:0][POINTER_W-1:0] held;

  wz_intake u_intake (
      .clk,
      .rst,
      .s_axis_tdata(s_axis_tdata[8*FIRST_BYTES-1:0]),
      .s_axis_tkeep,
      .s_axis_tlast,
      .s_axis_tuser,
      .s_axis_tvalid,
      .s_axis_tready,
      .stall(stall_q),
      .held,
      .write,
      .write_address,
      .progress,
      .m_first(first),
      .m_first_valid(first_valid),
      .m_end_bytes(end_bytes),
      .m_end_valid(end_valid)
  );

  // Header.
  logic [127:0] header, header_job;
  plan_extras_t extras, extras_job;
  plan_counts_t counts, counts_job;
  record_job_t record;
  unary_job_t unary;
  low_job_t low;
  escape_job_t escape;
  claim_t claim;
  logic header_valid, extras_valid, parsed;

  wz_parse #(
      .TYPES(TYPES),
      .LANES(LANES)
  ) u_parse (
      .clk,
      .rst,
      .bare,
      .s_first(first),
      .s_valid(first_valid),
      .s_packet_bytes(end_bytes),
      .m_header(header),
      .m_header_valid(header_valid),
      .m_extras(extras),
      .m_extras_valid(extras_valid),
      .m_counts(counts),
      .m_record(record),
      .m_unary(unary),
      .m_low(low),
      .m_escape(escape),
      .m_claim(claim),
      .m_valid(parsed)
  );

  // Queues. The parts of a plan come one after the other: the last tells that all are there.
  localparam int unsigned QUEUES = 7;
  record_job_t record_job;
  unary_job_t unary_job;
  low_job_t low_job;
  escape_job_t escape_job;
  claim_t claim_job;
  logic header_job_valid, extras_job_valid, record_valid, record_ready, unary_valid, unary_ready;
  logic low_valid, low_ready, escape_valid, escape_ready;
  logic claim_valid, claim_ready, ended_valid, ended_ready;
  logic [PACKET_BYTES_W-1:0] ended_bytes;
  logic [QUEUES+1:0] room;
  logic [QUEUES-1:0][LEVEL_W-1:0] level;
  logic [$clog2(CLAIMS):0] claim_level, end_level;

  always_ff @(posedge clk) begin
    stall_q <= claim_level >= ($clog2(CLAIMS) + 1)'(CLAIMS_MAX);
    // Headers and extras are counted with the packets that are in the parser.
    for (int i = 2; i < int'(QUEUES); i++) begin
      if (level[i] >= LEVEL_W'(LEVEL_MAX)) stall_q <= 1'b1;
    end
  end

  assign m_plan_tdata = whole_plan(header_job, extras_job, counts_job);

  wz_fifo #(
      .W(128),
      .DEPTH(JOBS)
  ) u_headers (
      .clk,
      .rst,
      .s_tdata(header),
      .s_tvalid(header_valid),
      .s_tready(room[0]),
      .m_tdata(header_job),
      .m_tvalid(header_job_valid),
      .m_tready(m_plan_tvalid && m_plan_tready),
      .level(level[0])
  );

  wz_fifo #(
      .W($bits(plan_extras_t)),
      .DEPTH(JOBS)
  ) u_extras (
      .clk,
      .rst,
      .s_tdata(extras),
      .s_tvalid(extras_valid),
      .s_tready(room[1]),
      .m_tdata(extras_job),
      .m_tvalid(extras_job_valid),
      .m_tready(m_plan_tvalid && m_plan_tready),
      .level(level[1])
  );

  wz_fifo #(
      .W($bits(plan_counts_t)),
      .DEPTH(JOBS)
  ) u_counts (
      .clk,
      .rst,
      .s_tdata(counts),
      .s_tvalid(parsed),
      .s_tready(room[2]),
      .m_tdata(counts_job),
      .m_tvalid(m_plan_tvalid),
      .m_tready(m_plan_tready),
      .level(level[2])
  );

  wz_fifo #(
      .W($bits(record_job_t)),
      .DEPTH(JOBS)
  ) u_records (
      .clk,
      .rst,
      .s_tdata(record),
      .s_tvalid(parsed),
      .s_tready(room[3]),
      .m_tdata(record_job),
      .m_tvalid(record_valid),
      .m_tready(record_ready),
      .level(level[3])
  );

  wz_fifo #(
      .W($bits(unary_job_t)),
      .DEPTH(JOBS)
  ) u_unaries (
      .clk,
      .rst,
      .s_tdata(unary),
      .s_tvalid(parsed),
      .s_tready(room[4]),
      .m_tdata(unary_job),
      .m_tvalid(unary_valid),
      .m_tready(unary_ready),
      .level(level[4])
  );

  wz_fifo #(
      .W($bits(low_job_t)),
      .DEPTH(JOBS)
  ) u_lows (
      .clk,
      .rst,
      .s_tdata(low),
      .s_tvalid(parsed),
      .s_tready(room[5]),
      .m_tdata(low_job),
      .m_tvalid(low_valid),
      .m_tready(low_ready),
      .level(level[5])
  );

  wz_fifo #(
      .W($bits(escape_job_t)),
      .DEPTH(JOBS)
  ) u_escapes (
      .clk,
      .rst,
      .s_tdata(escape),
      .s_tvalid(parsed),
      .s_tready(room[6]),
      .m_tdata(escape_job),
      .m_tvalid(escape_valid),
      .m_tready(escape_ready),
      .level(level[6])
  );

  wz_fifo #(
      .W($bits(claim_t)),
      .DEPTH(CLAIMS)
  ) u_claims (
      .clk,
      .rst,
      .s_tdata(claim),
      .s_tvalid(parsed),
      .s_tready(room[7]),
      .m_tdata(claim_job),
      .m_tvalid(claim_valid),
      .m_tready(claim_ready),
      .level(claim_level)
  );

  wz_fifo #(
      .W(PACKET_BYTES_W),
      .DEPTH(CLAIMS)
  ) u_ends (
      .clk,
      .rst,
      .s_tdata(end_bytes),
      .s_tvalid(end_valid),
      .s_tready(room[8]),
      .m_tdata(ended_bytes),
      .m_tvalid(ended_valid),
      .m_tready(ended_ready),
      .level(end_level)
  );

  // Remainders.
  localparam int unsigned RECORD_BANKS = 8;
  logic record_read;
  logic [RECORD_BANKS-1:0][ADDRESS_W-1:0] record_address;
  logic [RECORD_BANKS-1:0][8*BEAT_BYTES/RECORD_BANKS-1:0] record_data;
  logic [8*BEAT_BYTES-1:0] window, carrier;
  window_t window_info;
  logic window_valid, carrier_valid, carrier_space, carrier_room_q;
  logic [$clog2(CARRIERS):0] carrier_level;

  // Windows are on their way while this is computed.
  always_ff @(posedge clk) begin
    carrier_room_q <= carrier_level < ($clog2(CARRIERS) + 1)'(CARRIERS_MAX);
  end

  wz_ring #(
      .BANKS(RECORD_BANKS)
  ) u_record_ring (
      .clk,
      .write,
      .write_address,
      .write_data(s_axis_tdata),
      .read({RECORD_BANKS{record_read}}),
      .read_address(record_address),
      .read_data(record_data)
  );

  wz_slice #(
      .TYPES(TYPES)
  ) u_slice (
      .clk,
      .rst,
      .progress,
      .s_job(record_job),
      .s_valid(record_valid),
      .s_ready(record_ready),
      .held(held[0]),
      .read(record_read),
      .read_address(record_address),
      .read_data(record_data),
      .room(carrier_room_q),
      .m_data(window),
      .m_info(window_info),
      .m_valid(window_valid)
  );

  wz_unrecord #(
      .TYPES(TYPES)
  ) u_unrecord (
      .clk,
      .rst,
      .s_data(window),
      .s_info(window_info),
      .s_valid(window_valid),
      .m_data(carrier),
      .m_valid(carrier_valid)
  );

  wz_fifo #(
      .W(8 * BEAT_BYTES),
      .DEPTH(CARRIERS)
  ) u_carriers (
      .clk,
      .rst,
      .s_tdata(carrier),
      .s_tvalid(carrier_valid),
      .s_tready(carrier_space),
      .m_tdata(m_carrier_tdata),
      .m_tvalid(m_carrier_tvalid),
      .m_tready(m_carrier_tready),
      .level(carrier_level)
  );

  // Unary codes.
  logic [WORDS-1:0] unary_read;
  logic [WORDS-1:0][ADDRESS_W-1:0] unary_address;
  logic [WORDS-1:0][8*WORD_BYTES-1:0] unary_data;

  wz_ring #(
      .BANKS(WORDS)
  ) u_unary_ring (
      .clk,
      .write,
      .write_address,
      .write_data(s_axis_tdata),
      .read(unary_read),
      .read_address(unary_address),
      .read_data(unary_data)
  );

  wz_unary_words u_unary_words (
      .clk,
      .rst,
      .progress,
      .s_job(unary_job),
      .s_valid(unary_valid),
      .s_ready(unary_ready),
      .held(held[1]),
      .read(unary_read),
      .read_address(unary_address),
      .read_data(unary_data),
      .m_tdata(m_unary_tdata),
      .m_tlast(m_unary_tlast),
      .m_tvalid(m_unary_tvalid),
      .m_tready(m_unary_tready)
  );

  // Low bits and escapes.
  logic [WORDS-1:0] side_read;
  logic [WORDS-1:0][ADDRESS_W-1:0] side_address;
  logic [WORDS-1:0][8*WORD_BYTES-1:0] side_data;
  logic [8*WORD_BYTES-1:0] low_data, low_word, escape_data;
  unpack_t low_unpack, word_unpack;
  logic [3:0] escape_shift;
  logic escape_first, escape_last, escape_flush;
  logic [6:0] low_used;
  logic low_remainder, low_emit, low_last, low_read_valid, low_word_valid, low_word_ready;
  logic escape_data_valid, escape_data_ready, low_room_q, low_space;
  logic [$clog2(LOW_WORDS):0] low_level;

  wz_ring #(
      .BANKS(WORDS)
  ) u_side_ring (
      .clk,
      .write,
      .write_address,
      .write_data(s_axis_tdata),
      .read(side_read),
      .read_address(side_address),
      .read_data(side_data)
  );

  wz_side_words u_side_words (
      .clk,
      .rst,
      .progress,
      .s_low(low_job),
      .s_low_valid(low_valid),
      .s_low_ready(low_ready),
      .s_low_room(low_room_q),
      .s_escape(escape_job),
      .s_escape_valid(escape_valid),
      .s_escape_ready(escape_ready),
      .held(held[3:2]),
      .read(side_read),
      .read_address(side_address),
      .read_data(side_data),
      .m_low_tdata(low_data),
      .m_low_used(low_used),
      .m_low_remainder(low_remainder),
      .m_low_emit(low_emit),
      .m_low_last(low_last),
      .m_low_unpack(low_unpack),
      .m_low_tvalid(low_read_valid),
      .m_escape_tdata(escape_data),
      .m_escape_shift(escape_shift),
      .m_escape_first(escape_first),
      .m_escape_last(escape_last),
      .m_escape_flush(escape_flush),
      .m_escape_tvalid(escape_data_valid),
      .m_escape_tready(escape_data_ready)
  );

  // Three words may be on their way, and one is asked for while this is computed.
  always_ff @(posedge clk) low_room_q <= low_level < ($clog2(LOW_WORDS) + 1)'(LOW_WORDS - 4);

  wz_fifo #(
      .W(8 * WORD_BYTES + $bits(unpack_t)),
      .DEPTH(LOW_WORDS)
  ) u_low_words (
      .clk,
      .rst,
      .s_tdata({low_data, low_unpack}),
      .s_tvalid(low_read_valid && low_emit),
      .s_tready(low_space),
      .m_tdata({low_word, word_unpack}),
      .m_tvalid(low_word_valid),
      .m_tready(low_word_ready),
      .level(low_level)
  );

  wz_low_unpack #(
      .LANES(LANES)
  ) u_low_unpack (
      .clk,
      .rst,
      .s_tdata(low_word),
      .s_unpack(word_unpack),
      .s_tvalid(low_word_valid),
      .s_tready(low_word_ready),
      .m_tdata(m_low_tdata),
      .m_tvalid(m_low_tvalid),
      .m_tready(m_low_tready)
  );

  wz_escape_words u_escape_words (
      .clk,
      .rst,
      .s_tdata(escape_data),
      .s_shift(escape_shift),
      .s_first(escape_first),
      .s_last(escape_last),
      .s_flush(escape_flush),
      .s_tvalid(escape_data_valid),
      .s_tready(escape_data_ready),
      .m_tdata(m_escape_tdata),
      .m_tvalid(m_escape_tvalid),
      .m_tready(m_escape_tready)
  );

  // Verdict.
  logic remainder_bad, low_bad, padding_valid;
  logic finding_remainder, finding_low, finding_valid, finding_ready, finding_room;
  logic [$clog2(CLAIMS):0] finding_level;
  error_e error;
  logic late, verdict_valid, verdict_ready;
  logic [$bits(error_e)-1:0] status_bits;
  logic [$clog2(VERDICTS):0] verdict_level;

  wz_padding u_padding (
      .clk,
      .rst,
      .s_data(low_data),
      .s_used(low_used),
      .s_remainder(low_remainder),
      .s_last(low_last),
      .s_valid(low_read_valid),
      .m_remainder_bad(remainder_bad),
      .m_low_bad(low_bad),
      .m_valid(padding_valid)
  );

  // Never fuller than the queue of claims, which are there before.
  wz_fifo #(
      .W(2),
      .DEPTH(CLAIMS)
  ) u_findings (
      .clk,
      .rst,
      .s_tdata({low_bad, remainder_bad}),
      .s_tvalid(padding_valid),
      .s_tready(finding_room),
      .m_tdata({finding_low, finding_remainder}),
      .m_tvalid(finding_valid),
      .m_tready(finding_ready),
      .level(finding_level)
  );

  wz_verdict u_verdict (
      .clk,
      .rst,
      .s_claim(claim_job),
      .s_claim_valid(claim_valid),
      .s_claim_ready(claim_ready),
      .s_end_bytes(ended_bytes),
      .s_end_valid(ended_valid),
      .s_end_ready(ended_ready),
      .s_padding_remainder(finding_remainder),
      .s_padding_low(finding_low),
      .s_padding_valid(finding_valid),
      .s_padding_ready(finding_ready),
      .m_error(error),
      .m_late(late),
      .m_tvalid(verdict_valid),
      .m_tready(verdict_ready)
  );

  wz_fifo #(
      .W($bits(error_e) + 1),
      .DEPTH(VERDICTS)
  ) u_verdicts (
      .clk,
      .rst,
      .s_tdata({error, late}),
      .s_tvalid(verdict_valid),
      .s_tready(verdict_ready),
      .m_tdata({status_bits, m_status_late}),
      .m_tvalid(m_status_tvalid),
      .m_tready(m_status_tready),
      .level(verdict_level)
  );

  assign m_status_tdata = error_e'(status_bits);

  wire unused = &{1'b0, room, header_job_valid, extras_job_valid, carrier_space, low_space,
      finding_room, finding_level, verdict_level, end_level, level[1:0]};

`ifndef SYNTHESIS
  a_room : assert property (@(posedge clk) disable iff (rst) parsed |-> &room[7:2]);
  a_plan_room : assert property (@(posedge clk) disable iff (rst)
      (header_valid |-> room[0]) and (extras_valid |-> room[1]));
  a_plan_whole : assert property (@(posedge clk) disable iff (rst)
      m_plan_tvalid |-> header_job_valid && extras_job_valid);
  a_end_room : assert property (@(posedge clk) disable iff (rst) end_valid |-> room[8]);
  a_carrier_space : assert property (@(posedge clk) disable iff (rst)
      carrier_valid |-> carrier_space);
  a_low_space : assert property (@(posedge clk) disable iff (rst)
      low_read_valid && low_emit |-> low_space);
  a_finding_room : assert property (@(posedge clk) disable iff (rst)
      padding_valid |-> finding_room);
`endif

endmodule
