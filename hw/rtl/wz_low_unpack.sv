// SPDX-License-Identifier: Apache-2.0
//
// Low bits as lanes: 1 or 2 bits a value from a packed section to 2 bits a lane, a group of values a
// clock (docs/format.md, section 8). Lanes above the group are zero.
//
//   latency       2 clocks
//   throughput    1 group a clock, across words and frames
//   back-pressure m_tready enables the output register and the shift

module wz_low_unpack
  import wz_sections_pkg::*;
#(
    parameter int unsigned LANES = 32
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input  logic [8*WORD_BYTES-1:0] s_tdata,
    input  unpack_t                 s_unpack,  // the same with every word of a frame
    input  logic                    s_tvalid,
    output logic                    s_tready,

    output logic [2*LANES-1:0] m_tdata,
    output logic               m_tvalid,
    input  logic               m_tready
);

  localparam int unsigned LANES_LOG2 = $clog2(LANES);
  localparam int unsigned WORD_W = 8 * WORD_BYTES;

  logic [WORD_W-1:0] word_q;
  logic [3:0] word_left_q;  // groups in it, but one
  logic [9:0] left_q;  // groups of the frame, but one
  logic word_valid_q, frame_last_q;  // the last group of the frame is next
  logic two_bits_q;
  logic [1:0] group_log2_q;
  logic [2*LANES-1:0] out_q;
  logic out_valid_q, advance, word_last, load;
  logic frame_q;  // the word goes on with a frame

  logic [3:0] word_groups;

  // Groups of a word, less one: 128 / (8 << group_log2 << two_bits).
  assign word_groups = 4'(15 >> (3'(s_unpack.group_log2) + 3'(s_unpack.two_bits)));

  assign advance = !out_valid_q || m_tready;
  assign word_last = word_left_q == '0 || frame_last_q;
  // A word is taken when the one before is used up.
  assign load = !word_valid_q || (advance && word_last);
  assign s_tready = load;
  assign m_tdata = out_q;
  assign m_tvalid = out_valid_q;

  always_ff @(posedge clk) begin
    if (load) begin
      word_q <= s_tdata;
      two_bits_q <= s_unpack.two_bits;
      group_log2_q <= s_unpack.group_log2;
      word_left_q <= word_groups;
      word_valid_q <= s_tvalid;
    end else if (advance) begin
      word_left_q <= word_left_q - 4'd1;
      case (3'(group_log2_q) + 3'(two_bits_q))
        3'd0: word_q <= word_q >> 8;
        3'd1: word_q <= word_q >> 16;
        3'd2: word_q <= word_q >> 32;
        default: word_q <= word_q >> 64;
      endcase
    end

    // Groups left, behind the one that moves on. A frame begins where the one before has ended.
    if (load && s_tvalid && (!frame_q || (word_valid_q && frame_last_q))) begin
      left_q <= s_unpack.groups;
      frame_last_q <= s_unpack.groups == '0;
      frame_q <= 1'b1;
    end else if (word_valid_q && advance) begin
      left_q <= left_q - 10'd1;
      frame_last_q <= left_q == 10'd1;
      if (frame_last_q) frame_q <= 1'b0;
    end

    if (advance) begin
      out_valid_q <= word_valid_q;
      for (int i = 0; i < int'(LANES); i++) begin
        out_q[2*i+:2] <= (i >= 8 << group_log2_q) ? 2'd0
            : two_bits_q ? word_q[2*i+:2] : {1'b0, word_q[i]};
      end
    end

    if (rst) begin
      word_valid_q <= 1'b0;
      frame_q <= 1'b0;
      out_valid_q <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  initial assert (LANES >= 8 && LANES <= 64 && LANES == 1 << LANES_LOG2);

  a_latency : assert property (@(posedge clk) disable iff (rst)
      s_tvalid && s_tready && !m_tvalid && !word_valid_q |=> ##1 m_tvalid);
  a_full_rate : assert property (@(posedge clk) disable iff (rst)
      s_tvalid && s_tready |=> ##1 m_tvalid);
  a_stable : assert property (@(posedge clk) disable iff (rst)
      m_tvalid && !m_tready |=> m_tvalid && $stable(m_tdata));
`endif

endmodule
