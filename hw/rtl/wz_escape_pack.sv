// SPDX-License-Identifier: Apache-2.0
//
// Collects the symbols that escape, a byte each in value order (docs/format.md, section 8).
//
// There is at most one escape for 32 values, but they may all be in one group. Groups that have some
// wait in a FIFO, and a byte a clock is taken from them and written to its lane of a wz_rows. A
// frame's bytes are counted, so that the last completes its row.
//
//   latency       1 clock into the FIFO, from there to the write 5 clocks for the first byte
//   throughput    1 group a clock into the FIFO, 1 byte a clock out of it
//   back-pressure none into the FIFO: groups under way must find room beside `level`. Bytes wait while
//                 the rows are full

module wz_escape_pack #(
    parameter int unsigned LANES = 32,
    parameter int unsigned DEPTH = 32,  // groups
    parameter int unsigned ROWS = 16,
    localparam int unsigned ROW_W = $clog2(ROWS),
    localparam int unsigned LEVEL_W = $clog2(DEPTH) + 1
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input logic [LANES-1:0]      s_escape,
    input logic [LANES-1:0][7:0] s_symbol,
    input wz_pack_pkg::codes_t   s_codes,
    input logic                  s_valid,

    output logic             w_valid,  // to wz_rows
    output logic [63:0]      w_lanes,
    output logic [ROW_W-1:0] w_row,
    output logic [7:0]       w_data,  // for each lane
    output logic [1:0]       w_done,
    input  logic [ROW_W-1:0] r_row,

    output logic [LEVEL_W-1:0] level  // groups in the FIFO
);

  import wz_format_pkg::*;
  import wz_pack_pkg::*;

  localparam int unsigned COUNT_W = $clog2(LANES) + 1;

  typedef struct packed {
    logic [LANES-1:0] mask;
    logic [LANES-1:0][7:0] symbol;
    logic [COUNT_W-1:0] count;  // of the mask
    logic [5:0] start;
    logic [ESCAPES_BITS-1:0] escapes;  // of the frame
  } entry_t;

  entry_t in_q, head;
  logic in_valid_q, head_valid, load, in_ready;

  always_ff @(posedge clk) begin
    in_q.mask <= s_escape;
    in_q.symbol <= s_symbol;
    in_q.count <= COUNT_W'($countones(s_escape));
    in_q.start <= s_codes.escape_start;
    in_q.escapes <= s_codes.escapes;
    in_valid_q <= s_valid && s_escape != '0;
    if (rst) in_valid_q <= 1'b0;
  end

  wz_fifo #(
      .W($bits(entry_t)),
      .DEPTH(DEPTH)
  ) u_fifo (
      .clk,
      .rst,
      .s_tdata(in_q),
      .s_tvalid(in_valid_q),
      .s_tready(in_ready),
      .m_tdata(head),
      .m_tvalid(head_valid),
      .m_tready(load),
      .level
  );

  // The group that bytes are taken from. `left_q` bytes of it are still to be taken.
  entry_t now_q;
  logic [LANES-1:0] lowest, pick_q;
  logic [COUNT_W-1:0] left_q;
  logic room_q, take, pick_valid_q;

  assign lowest = now_q.mask & (~now_q.mask + 1'b1);
  assign take = room_q && left_q != '0;
  assign load = left_q == '0 || (room_q && left_q == COUNT_W'(1));

  always_ff @(posedge clk) begin
    if (load) begin
      now_q  <= head;
      left_q <= head_valid ? head.count : '0;
    end else if (take) begin
      now_q.mask <= now_q.mask & ~lowest;
      left_q <= left_q - 1'b1;
    end
    if (rst) left_q <= '0;
  end

  wire unused_codes = &{1'b0, s_codes, now_q};

  // Then: the lane, the byte, its place.
  logic [LANES-1:0][7:0] symbol_q;
  logic [5:0] start_q, start2_q;
  logic [ESCAPES_BITS-1:0] escapes_q, escapes2_q;
  logic [7:0] byte_d, byte_q;
  logic byte_valid_q;

  always_comb begin
    byte_d = '0;
    for (int i = 0; i < int'(LANES); i++) byte_d |= symbol_q[i] & {8{pick_q[i]}};
  end

  // Bytes left of the frame, after the one in byte_q; none: the next byte begins a frame.
  logic [ESCAPES_BITS-1:0] rest, rest_q;
  logic [5:0] place, place_q;
  logic [ROW_W-1:0] row_q, taken_rows;
  logic done;
  assign rest = (rest_q == '0) ? escapes2_q - 1'b1 : rest_q - 1'b1;
  assign place = (rest_q == '0) ? start2_q : place_q;
  assign done = rest == '0 || place == '1;
  assign taken_rows = row_q - r_row;

  always_ff @(posedge clk) begin
    pick_q <= lowest;
    symbol_q <= now_q.symbol;
    start_q <= now_q.start;
    escapes_q <= now_q.escapes;
    pick_valid_q <= take;

    byte_q <= byte_d;
    start2_q <= start_q;
    escapes2_q <= escapes_q;
    byte_valid_q <= pick_valid_q;

    if (byte_valid_q) begin
      rest_q  <= rest;
      place_q <= place + 1'b1;
      row_q   <= row_q + ROW_W'(done);
    end
    for (int i = 0; i < 64; i++) w_lanes[i] <= place == 6'(i);
    w_row   <= row_q;
    w_data  <= byte_q;
    w_done  <= {1'b0, done};
    w_valid <= byte_valid_q;

    // Room for what the three bytes under way may begin, each a row in the shortest frames.
    room_q <= taken_rows < ROW_W'(ROWS - 6);

    if (rst) begin
      pick_valid_q <= 1'b0;
      byte_valid_q <= 1'b0;
      rest_q <= '0;
      row_q <= '0;
      w_valid <= 1'b0;
      room_q <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  a_room : assert property (@(posedge clk) disable iff (rst) in_valid_q |-> in_ready);
  // A frame's bytes come from groups of one frame.
  a_count : assert property (@(posedge clk) disable iff (rst)
      byte_valid_q && rest_q != '0 |-> rest_q < escapes2_q);
`else
  wire unused = &{1'b0, in_ready};
`endif

endmodule
