// SPDX-License-Identifier: Apache-2.0
//
// From a plan: the first bytes of the frame (header, extras) and where its sections lie
// (docs/format.md, section 4).
//
// The first bytes are the header and the extras of a coded frame, the header and the element of a
// constant one, header and head of a raw one, and the head of a block that leaves as it is; zero
// beyond. They fit the frame's first 64-byte word.
//
//   latency       4 clocks
//   throughput    1 plan a clock
//   back-pressure none

module wz_frame_head (
    input logic clk,
    input logic rst,  // synchronous, active high

    input wz_pkg::plan_t s_plan,
    input logic          s_valid,

    output logic [8*wz_pack_pkg::HEAD_BYTES-1:0] m_head,
    output wz_pack_pkg::frame_layout_t                 m_layout,
    output logic                                 m_valid
);

  import wz_format_pkg::*;
  import wz_pkg::*;
  import wz_pack_pkg::*;

  typedef enum logic [1:0] {
    BARE,
    RAW,
    CONSTANT,
    CODED
  } form_e;

  wire unused = &{1'b0, s_plan};

  form_e form;
  always_comb begin
    if (!s_plan.coded) form = BARE;
    else begin
      unique case (s_plan.mode)
        MODE_RAW: form = RAW;
        MODE_CONSTANT: form = CONSTANT;
        default: form = CODED;
      endcase
    end
  end

  // The first bytes. Clock 1: head and tail, constant planes.
  form_e form_q[3];
  logic [127:0] header_q[3];
  logic [63:0] bitmap_q[2];
  logic [1:0] bitmap_flag_q;
  logic [31:0] pattern_q[3];
  logic [23:0] head_q[3];
  logic [47:0] ends_q;
  logic [2:0] ends_bytes_q;
  logic [23:0] planes_q;
  logic [2:0] valid_q;

  logic [47:0] ends;
  logic [23:0] planes;
  always_comb begin
    unique case (s_plan.head_bytes)
      2'd0: ends = {24'b0, s_plan.tail};
      2'd1: ends = {16'b0, s_plan.tail, s_plan.head[7:0]};
      2'd2: ends = {8'b0, s_plan.tail, s_plan.head[15:0]};
      default: ends = {s_plan.tail, s_plan.head};
    endcase
    // Planes that are not flagged are zero and take no byte.
    planes = s_plan.plane_bytes;
    if (!s_plan.plane_flags[1]) planes = {8'b0, planes[23:16], planes[7:0]};
    if (!s_plan.plane_flags[0]) planes = {8'b0, planes[23:8]};
  end

  // Clock 2: one behind the other, at most 3 + 3 + 3 bytes. Clock 3: behind the bitmap.
  logic [71:0] rest_q;
  logic [135:0] extras_q;
  always_ff @(posedge clk) begin
    form_q[0] <= form;
    header_q[0] <= s_plan.header;
    bitmap_q[0] <= s_plan.stored_beats;
    bitmap_flag_q <= {bitmap_flag_q[0], s_plan.bitmap};
    pattern_q[0] <= s_plan.pattern;
    head_q[0] <= s_plan.head;
    for (int i = 1; i < 3; i++) begin
      form_q[i] <= form_q[i-1];
      header_q[i] <= header_q[i-1];
      pattern_q[i] <= pattern_q[i-1];
      head_q[i] <= head_q[i-1];
    end
    bitmap_q[1] <= bitmap_q[0];

    ends_q <= ends;
    ends_bytes_q <= {1'b0, s_plan.head_bytes} + {1'b0, s_plan.tail_bytes};
    planes_q <= planes;

    unique case (ends_bytes_q)
      3'd0: rest_q <= {48'b0, planes_q};
      3'd1: rest_q <= {40'b0, planes_q, ends_q[7:0]};
      3'd2: rest_q <= {32'b0, planes_q, ends_q[15:0]};
      3'd3: rest_q <= {24'b0, planes_q, ends_q[23:0]};
      3'd4: rest_q <= {16'b0, planes_q, ends_q[31:0]};
      3'd5: rest_q <= {8'b0, planes_q, ends_q[39:0]};
      default: rest_q <= {planes_q, ends_q};
    endcase

    extras_q <= bitmap_flag_q[1] ? {rest_q, bitmap_q[1]} : {64'b0, rest_q};

    // Clock 4.
    m_head <= '0;
    unique case (form_q[2])
      BARE: m_head[23:0] <= head_q[2];
      RAW: m_head[87:0] <= {head_q[2], header_q[2][63:0]};
      CONSTANT: m_head[95:0] <= {pattern_q[2], header_q[2][63:0]};
      default: m_head[263:0] <= {extras_q, header_q[2]};
    endcase

    valid_q <= {valid_q[1:0], s_valid};
    m_valid <= valid_q[2];
    if (rst) begin
      valid_q <= '0;
      m_valid <= 1'b0;
    end
  end

  // Where the sections lie, as bytes of the frame. Clock 1: sizes.
  function automatic logic [8:0] units(input logic [12:0] bytes);  // of 16 bytes
    return bytes[12:4] + 9'(bytes[3:0] != '0);
  endfunction

  logic [12:0] remainders_start_q, remainders_bytes_q, low_bytes_q[2];
  logic [8:0] remainders_units_q, low_units_q[2];
  logic [UNARY_BYTES_BITS-1:0] unary_bytes_q[3];
  logic [ESCAPES_BITS-1:0] escapes_q[3];
  logic [12:0] frame_less_one_q[3];
  logic [2:0] coded_q;
  mode_e mode_q[3];

  // Clock 2: from where to where the remainders are; where the low bits begin. Then a section a clock.
  logic [12:0] remainders_start2_q, remainders_stop_q[2];
  logic [1:0] remainders_any_q;
  logic [12:0] remainders_start3_q;
  logic [8:0] low_start_q, low_start3_q, unary_start_q;  // in 16 bytes
  logic low_any_q;
  logic [12:0] low_stop_q;

  function automatic section_t section(input logic any, input logic [12:0] start,
                                       input logic [12:0] stop);
    section_t s;
    s.any = any;
    {s.first, s.start} = start;
    {s.last, s.stop} = stop;
    return s;
  endfunction

  always_ff @(posedge clk) begin
    unique case (form)
      BARE: begin
        remainders_start_q <= 13'(s_plan.head_bytes);
        remainders_bytes_q <= s_plan.block_bytes - 13'(s_plan.head_bytes);
      end
      RAW: begin
        remainders_start_q <= 13'(SHORT_HEADER_BYTES) + 13'(s_plan.head_bytes);
        remainders_bytes_q <= s_plan.block_bytes - 13'(s_plan.head_bytes);
      end
      CONSTANT: begin
        remainders_start_q <= '0;
        remainders_bytes_q <= '0;
      end
      default: begin
        remainders_start_q <= {units(13'(s_plan.extras_bytes)) + 9'd1, 4'b0};
        remainders_bytes_q <= s_plan.remainder_bytes;
      end
    endcase
    remainders_units_q <= (form == CODED) ? units(s_plan.remainder_bytes) : '0;
    low_bytes_q[0] <= (form == CODED) ? 13'(s_plan.low_bytes) : '0;
    low_units_q[0] <= (form == CODED) ? units(13'(s_plan.low_bytes)) : '0;
    unary_bytes_q[0] <= (form == CODED) ? s_plan.unary_bytes : '0;
    escapes_q[0] <= (form == CODED) ? s_plan.escapes : '0;
    frame_less_one_q[0] <= s_plan.frame_bytes - 13'd1;
    coded_q <= {coded_q[1:0], s_plan.coded};
    mode_q[0] <= s_plan.coded ? s_plan.mode : MODE_RAW;
    for (int i = 1; i < 3; i++) begin
      unary_bytes_q[i] <= unary_bytes_q[i-1];
      escapes_q[i] <= escapes_q[i-1];
      frame_less_one_q[i] <= frame_less_one_q[i-1];
      mode_q[i] <= mode_q[i-1];
    end
    low_bytes_q[1] <= low_bytes_q[0];
    low_units_q[1] <= low_units_q[0];

    remainders_start2_q <= remainders_start_q;
    remainders_stop_q[0] <= remainders_start_q + remainders_bytes_q - 13'd1;
    low_start_q <= remainders_start_q[12:4] + remainders_units_q;

    remainders_start3_q <= remainders_start2_q;
    remainders_stop_q[1] <= remainders_stop_q[0];
    remainders_any_q <= {remainders_any_q[0], remainders_bytes_q != '0};
    low_start3_q <= low_start_q;
    low_any_q <= low_bytes_q[1] != '0;
    low_stop_q <= {low_start_q, 4'b0} + low_bytes_q[1] - 13'd1;
    unary_start_q <= low_start_q + low_units_q[1];

    m_layout.remainders <= section(remainders_any_q[1], remainders_start3_q, remainders_stop_q[1]);
    m_layout.low <= section(low_any_q, {low_start3_q, 4'b0}, low_stop_q);
    m_layout.unary <= section(unary_bytes_q[2] != '0, {unary_start_q, 4'b0}, unary_stop - 13'd1);
    m_layout.escapes <= section(escapes_q[2] != '0, unary_stop, escapes_stop);
    m_layout.coded <= coded_q[2];
    m_layout.mode <= mode_q[2];
    m_layout.last <= frame_less_one_q[2][12:6];
    m_layout.stop <= frame_less_one_q[2][5:0];
  end

  // The frame ends with the escapes.
  logic [12:0] unary_stop, escapes_stop;
  assign unary_stop = {unary_start_q, 4'b0} + 13'(unary_bytes_q[2]);
  assign escapes_stop = frame_less_one_q[2];

`ifndef SYNTHESIS
  a_latency : assert property (@(posedge clk) disable iff (rst) s_valid |-> ##4 m_valid);
  a_frame_bytes : assert property (@(posedge clk) disable iff (rst)
      valid_q[2] && escapes_q[2] != '0
      |-> unary_stop + 13'(escapes_q[2]) == frame_less_one_q[2] + 13'd1);
`endif
endmodule
