// SPDX-License-Identifier: Apache-2.0
//
// Appends chunks of bytes: a chunk a clock goes to the byte lanes of a wz_rows where the one before
// ended.
//
// A rotator of three stages brings byte 0 of a chunk to the lane where the section stands, and
// lanes before it belong to the next row. Bytes of a chunk beyond its length may be anything: they
// land where the next chunk goes, or where nobody reads.
//
//   latency       4 clocks
//   throughput    1 chunk of 0 to 64 bytes a clock, whatever their lengths
//   back-pressure none: while `used` rows are taken, there must be room for one row more than the
//                 chunks under way fill

module wz_concat #(
    parameter int unsigned ROWS = 32,
    localparam int unsigned ROW_W = $clog2(ROWS)
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input logic [63:0][7:0] s_data,
    input logic [6:0]       s_bytes,
    input logic             s_first,  // of a section: it begins a row, at byte s_start
    input logic [5:0]       s_start,
    input logic             s_last,  // of a section
    input logic             s_valid,

    output logic             w_valid,  // to wz_rows
    output logic [63:0]      w_next,
    output logic [ROW_W-1:0] w_row,
    output logic [63:0][7:0] w_data,
    output logic [1:0]       w_done,
    input  logic [ROW_W-1:0] r_row,

    output logic [ROW_W-1:0] used  // complete rows not read, two clocks late
);

  // Clock 1: the place of the chunk.
  logic [5:0] place, place_q;
  logic [6:0] stop;

  assign place = s_first ? s_start : place_q;
  assign stop = {1'b0, place} + s_bytes;

  always_ff @(posedge clk) begin
    if (s_valid) place_q <= stop[5:0];
  end

  // Clock 2: its row.
  logic [ROW_W-1:0] row_q;
  logic [6:0] stop_q;
  logic last_q;
  logic [1:0] done;
  logic [3:0] valid_q;  // index: after clock i + 1

  assign done = {1'b0, stop_q[6]} + {1'b0, last_q && stop_q[5:0] != '0};

  always_ff @(posedge clk) begin
    stop_q <= stop;
    last_q <= s_last;
    used   <= row_q - r_row;
    if (valid_q[0]) row_q <= row_q + ROW_W'(done);
    if (rst) row_q <= '0;
  end

  // Clocks 1 to 4: hold, then rotate by each pair of bits of the place. Index: after clock i + 1.
  logic [63:0][7:0] data_q[4];
  logic [5:0] place_after_q[3];
  // Each pair in Gray code: in binary, halves of two multiplexers are alike, and Yosys takes a LUT
  // more to share them than it takes to have two.
  logic [5:0] gray, gray_q[3];
  for (genvar s = 0; s < 3; s++) begin : g_gray
    assign gray[2*s+:2] = {place[2*s+1], ^place[2*s+:2]};
  end
  logic [ROW_W-1:0] row_after_q[3];
  logic [1:0] done_q[3];

  always_ff @(posedge clk) begin
    data_q[0] <= s_data;
    place_after_q[0] <= place;
    gray_q[0] <= gray;
    row_after_q[0] <= row_q;
    done_q[0] <= done;
    for (int i = 1; i < 3; i++) begin
      row_after_q[i] <= row_after_q[i-1];
      done_q[i] <= done_q[i-1];
    end
    for (int i = 1; i < 3; i++) begin
      place_after_q[i] <= place_after_q[i-1];
      gray_q[i] <= gray_q[i-1];
    end
    valid_q <= {valid_q[2:0], s_valid};
    if (rst) valid_q <= '0;
  end

  for (genvar s = 0; s < 3; s++) begin : g_rotate
    localparam int unsigned STEP = 1 << (2 * s);
    logic [1:0] turn;
    assign turn = gray_q[s][2*s+:2];
    for (genvar i = 0; i < 64; i++) begin : g_lane
      logic [3:0][7:0] ways;
      for (genvar c = 0; c < 4; c++) begin : g_way
        assign ways[c^(c>>1)] = data_q[s][(i+64-c*STEP)%64];
      end
      always_ff @(posedge clk) data_q[s+1][i] <= ways[turn];
    end
  end

  // Lanes before the place: ~0 << place, inverted.
  always_ff @(posedge clk) w_next <= ~({64{1'b1}} << place_after_q[2]);

  assign w_valid = valid_q[3];
  assign w_row = row_after_q[2];
  assign w_data = data_q[3];
  assign w_done = done_q[2];

`ifndef SYNTHESIS
  a_bytes : assert property (@(posedge clk) disable iff (rst) s_valid |-> s_bytes <= 7'd64);
  a_latency : assert property (@(posedge clk) disable iff (rst)
      s_valid |-> ##4 w_valid && w_done == $past(done, 3));
`endif

endmodule
