// SPDX-License-Identifier: Apache-2.0
//
// Takes packets into the rings: numbers them, counts their bytes, and catches their first beats.
//
// The beats of a packet are written one after the other, the next packet follows without a gap. Only
// the first BEATS_MAX beats of a packet are kept. The first beat goes to the parser at once; that of
// a packet which is its block, and whose length nobody told, when the packet has ended.
//
//   latency       1 clock to m_first, 2 clocks to m_first_bytes and m_end
//   throughput    1 beat a clock
//   back-pressure s_axis_tready is a flop: low when less than SPARE beats of a ring are free, or
//                 after `stall`

module wz_intake
  import wz_format_pkg::*;
  import wz_pkg::*;
  import wz_sections_pkg::*;
(
    input logic clk,
    input logic rst,  // synchronous, active high

    input  logic [8*FIRST_BYTES-1:0] s_axis_tdata,  // of the beat's first bytes
    input  logic [BEAT_BYTES-1:0]    s_axis_tkeep,  // contiguous from bit 0
    input  logic                     s_axis_tlast,
    input  packet_user_t             s_axis_tuser,  // at the first beat
    input  logic                     s_axis_tvalid,
    output logic                     s_axis_tready,

    input logic stall,
    input logic [READERS-1:0][POINTER_W-1:0] held,  // what each reader still needs begins here

    output logic                 write,
    output logic [ADDRESS_W-1:0] write_address,
    output progress_t            progress,

    output first_t m_first,
    output logic   m_first_valid,

    output logic [PACKET_BYTES_W-1:0] m_end_bytes,  // of the packet, saturating
    output logic                      m_end_valid
);

  // `held` and the flops of s_axis_tready lag.
  localparam int unsigned SPARE = 4;
  localparam logic [6:0] INDEX_MAX = 7'd126;

  logic [POINTER_W-1:0] pointer_q;
  logic [PACKET_W-1:0] packet_q;
  logic [6:0] index_q;  // of the beat in its packet, saturating
  logic first_q, keep_q, ready_q, fire;
  logic [READERS-1:0] full_q;

  assign fire = s_axis_tvalid && ready_q;
  assign s_axis_tready = ready_q;
  assign write = fire && keep_q;
  assign write_address = pointer_q[ADDRESS_W-1:0];
  assign progress.packet = packet_q;
  assign progress.reached = write ? pointer_q + 1'b1 : pointer_q;
  assign progress.ended = fire && s_axis_tlast;
  assign progress.wrote = write;

  always_ff @(posedge clk) begin
    pointer_q <= progress.reached;
    if (fire) begin
      first_q <= s_axis_tlast;
      if (s_axis_tlast) begin
        packet_q <= packet_q + 1'b1;
        index_q  <= '0;
        keep_q   <= 1'b1;
      end else begin
        if (index_q != INDEX_MAX) index_q <= index_q + 1'b1;
        if (index_q == 7'(BEATS_MAX - 1)) keep_q <= 1'b0;
      end
    end

    for (int r = 0; r < int'(READERS); r++) begin
      // The difference is at most RING_BEATS.
      full_q[r] <= (pointer_q - held[r]) >= POINTER_W'(RING_BEATS - SPARE);
    end
    ready_q <= full_q == '0 && !stall;

    if (rst) begin
      pointer_q <= '0;
      packet_q  <= '0;
      index_q   <= '0;
      first_q   <= 1'b1;
      keep_q    <= 1'b1;
      full_q    <= '0;
      ready_q   <= 1'b0;
    end
  end

  // First beat.
  first_t caught_q;
  logic caught_valid_q, waiting_q, at_once;

  assign at_once = s_axis_tuser.coded || s_axis_tuser.expect_block || s_axis_tlast;
  assign m_first = caught_q;
  assign m_first_valid = caught_valid_q;

  always_ff @(posedge clk) begin
    if (first_q) begin
      caught_q.bytes <= s_axis_tdata;
      caught_q.user <= s_axis_tuser;
      caught_q.has_short <= s_axis_tkeep[SHORT_HEADER_BYTES-1];
      caught_q.has_long <= s_axis_tkeep[LONG_HEADER_BYTES-1];
      caught_q.place <= '{packet: packet_q, start: pointer_q};
    end
    caught_valid_q <= fire && (first_q ? at_once : waiting_q && s_axis_tlast);
    if (fire) waiting_q <= (first_q ? !at_once : waiting_q) && !s_axis_tlast;
    if (rst) begin
      caught_valid_q <= 1'b0;
      waiting_q <= 1'b0;
    end
  end

  // Length. A thermometer code: bit k of the number of ones is set if they end in the upper half of
  // some stretch of 2^(k+1).
  logic [BEAT_BYTES-1:0] last_keep_q;
  logic [6:0] last_index_q;
  logic ended_q, end_valid_q;
  logic [PACKET_BYTES_W-1:0] end_bytes_q;
  logic [6:0] ones;

  always_comb begin
    ones = '0;
    ones[6] = last_keep_q[BEAT_BYTES-1];
    for (int k = 0; k < 6; k++) begin
      for (int i = (1 << k) - 1; i < int'(BEAT_BYTES) - 1; i += 2 << k) begin
        if (last_keep_q[i] && !last_keep_q[i+(1<<k)]) ones[k] = 1'b1;
      end
    end
  end

  assign m_end_bytes = end_bytes_q;
  assign m_end_valid = end_valid_q;

  always_ff @(posedge clk) begin
    last_keep_q <= s_axis_tkeep;
    last_index_q <= index_q;
    ended_q <= fire && s_axis_tlast;
    end_bytes_q <= {last_index_q, 6'd0} + PACKET_BYTES_W'(ones);
    end_valid_q <= ended_q;
    if (rst) begin
      ended_q <= 1'b0;
      end_valid_q <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  a_keep_contiguous : assert property (@(posedge clk) disable iff (rst)
      fire |-> (s_axis_tkeep & (s_axis_tkeep + 1'b1)) == '0);
  a_keep_full : assert property (@(posedge clk) disable iff (rst)
      fire && !s_axis_tlast |-> &s_axis_tkeep);
  for (genvar r = 0; r < int'(READERS); r++) begin : g_check
    a_no_overrun : assert property (@(posedge clk) disable iff (rst)
        (pointer_q - held[r]) <= POINTER_W'(RING_BEATS));
  end
  a_first : assert property (@(posedge clk) disable iff (rst)
      fire && first_q && at_once |=> m_first_valid);
  a_end : assert property (@(posedge clk) disable iff (rst)
      fire && s_axis_tlast |=> ##1 m_end_valid);
`endif

endmodule
