// SPDX-License-Identifier: Apache-2.0
//
// Collects the symbols that escape, a byte each in value order (docs/format.md, section 8).
//
// There is at most one escape for 32 values, but they may all be in one group. Groups that have some
// wait in a FIFO, and a byte a clock is taken from them and written to its lane of a wz_rows. A
// frame's bytes are counted, so that the last completes its row.
//
//   latency       8 clocks for a group's first byte: 2, the FIFO, 4 from there to the write
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
    logic single;  // it is 1
    logic [5:0] start;
    logic [ESCAPES_BITS-1:0] escapes;  // of the frame
  } entry_t;

  // Count in two clocks: lanes in groups of eight, groups.
  entry_t first_q, in_q, head;
  logic [LANES/8-1:0][3:0] groups_q;
  logic first_valid_q, in_valid_q, head_valid, load, in_ready;
  logic [COUNT_W-1:0] count;

  always_comb begin
    count = '0;
    for (int g = 0; g < int'(LANES / 8); g++) count += COUNT_W'(groups_q[g]);
  end

  always_ff @(posedge clk) begin
    first_q.mask <= s_escape;
    first_q.symbol <= s_symbol;
    first_q.start <= s_codes.escape_start;
    first_q.escapes <= s_codes.escapes;
    first_q.count <= '0;  // known a clock later
    first_q.single <= 1'b0;
    for (int g = 0; g < int'(LANES / 8); g++) groups_q[g] <= 4'($countones(s_escape[8*g+:8]));
    first_valid_q <= s_valid;

    in_q <= first_q;
    in_q.count <= count;
    in_q.single <= count == COUNT_W'(1);
    in_valid_q <= first_valid_q && groups_q != '0;
    if (rst) begin
      first_valid_q <= 1'b0;
      in_valid_q <= 1'b0;
    end
  end
  wire unused_first = &{1'b0, first_q.count, first_q.single};

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

  // The group that bytes are taken from. Whether it is used up is known from flops alone.
  logic [LANES-1:0] mask_q, lowest, pick_q;
  logic [LANES-1:0][7:0] now_symbol_q, symbol_q;
  logic [COUNT_W-1:0] left_q;  // bytes that are still to be taken
  logic none_q, one_q;  // left_q is 0, is 1
  logic room_q, take, pick_valid_q;

  assign take = room_q && !none_q;
  assign load = none_q || (room_q && one_q);

  // The lowest lane of the lowest group of eight that has one.
  always_comb begin
    for (int g = 0; g < int'(LANES / 8); g++) begin
      logic earlier;
      earlier = 1'b0;
      for (int h = 0; h < g; h++) earlier |= mask_q[8*h+:8] != '0;
      for (int i = 0; i < 8; i++) begin
        lowest[8*g+i] = mask_q[8*g+i] && !earlier && (mask_q[8*g+:8] & 8'((1 << i) - 1)) == '0;
      end
    end
  end

  logic [5:0] now_start_q, start_q, start2_q;
  logic [ESCAPES_BITS-1:0] now_escapes_q, escapes_q, escapes2_q;

  always_ff @(posedge clk) begin
    if (load) begin
      mask_q <= head.mask;
      now_symbol_q <= head.symbol;
      now_start_q <= head.start;
      now_escapes_q <= head.escapes;
      left_q <= head.count;
      none_q <= !head_valid;
      one_q <= head_valid && head.single;
    end else if (take) begin
      mask_q <= mask_q & ~lowest;
      left_q <= left_q - 1'b1;
      one_q  <= left_q == COUNT_W'(2);
    end
    if (rst) begin
      none_q <= 1'b1;
      one_q  <= 1'b0;
    end
  end

  // Then: the lane, the byte, its place.
  logic [7:0] byte_d, byte_q;
  logic byte_valid_q;

  always_comb begin
    byte_d = '0;
    for (int i = 0; i < int'(LANES); i++) byte_d |= symbol_q[i] & {8{pick_q[i]}};
  end

  // Bytes left of the frame; none: the next byte begins a frame.
  logic [ESCAPES_BITS-1:0] rest_q;
  logic rest_none_q, rest_one_q, single2_q;  // rest_q is 0, is 1; the frame has one escape
  logic [5:0] place, place_q;
  logic [ROW_W-1:0] row_q, taken_rows;
  logic done, final_byte;
  assign place = rest_none_q ? start2_q : place_q;
  assign final_byte = rest_none_q ? single2_q : rest_one_q;
  assign done = final_byte || place == '1;
  assign taken_rows = row_q - r_row;

  always_ff @(posedge clk) begin
    pick_q <= lowest;
    symbol_q <= now_symbol_q;
    start_q <= now_start_q;
    escapes_q <= now_escapes_q;
    pick_valid_q <= take;

    byte_q <= byte_d;
    start2_q <= start_q;
    escapes2_q <= escapes_q;
    single2_q <= escapes_q == ESCAPES_BITS'(1);
    byte_valid_q <= pick_valid_q;

    if (byte_valid_q) begin
      rest_q <= (rest_none_q ? escapes2_q : rest_q) - 1'b1;
      rest_none_q <= final_byte;
      rest_one_q <= rest_none_q ? escapes2_q == ESCAPES_BITS'(2) : rest_q == ESCAPES_BITS'(2);
      place_q <= place + 1'b1;
      row_q   <= row_q + ROW_W'(done);
    end
    for (int i = 0; i < 64; i++) w_lanes[i] <= place == 6'(i);
    w_row   <= row_q;
    w_data  <= byte_q;
    w_done  <= {1'b0, done};
    w_valid <= byte_valid_q;

    // Room for what the bytes under way may begin, each a row in the shortest frames.
    room_q <= taken_rows < ROW_W'(ROWS - 6);

    if (rst) begin
      pick_valid_q <= 1'b0;
      byte_valid_q <= 1'b0;
      rest_none_q <= 1'b1;
      row_q <= '0;
      w_valid <= 1'b0;
      room_q <= 1'b0;
    end
  end
  wire unused_codes = &{1'b0, s_codes};

`ifndef SYNTHESIS
  a_room : assert property (@(posedge clk) disable iff (rst) in_valid_q |-> in_ready);
  // A frame's bytes come from groups of one frame.
  a_count : assert property (@(posedge clk) disable iff (rst)
      byte_valid_q && !rest_none_q |-> rest_q < escapes2_q);
`else
  wire unused = &{1'b0, in_ready};
`endif

endmodule
