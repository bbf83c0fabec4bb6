// SPDX-License-Identifier: Apache-2.0
//
// From a plan: the first bytes of the frame (header, extras) and where its sections lie
// (docs/format.md, section 4).
//
// The first bytes are the header and the extras of a coded frame, the header and the element of a
// constant one, header and head of a raw one, and the head of a block that leaves as it is; zero
// beyond. They fit the frame's first 64-byte word.
//
//   latency       6 clocks
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

  // Clock 1: the plan.
  plan_t plan_q;
  logic plan_valid_q;
  always_ff @(posedge clk) begin
    plan_q <= s_plan;
    plan_valid_q <= s_valid;
    if (rst) plan_valid_q <= 1'b0;
  end
  wire unused = &{1'b0, plan_q};

  form_e form;
  always_comb begin
    if (!plan_q.coded) form = BARE;
    else begin
      unique case (plan_q.mode)
        MODE_RAW: form = RAW;
        MODE_CONSTANT: form = CONSTANT;
        default: form = CODED;
      endcase
    end
  end

  // The first bytes. Clock 2: head and tail, constant planes.
  form_e form_q[3];
  logic [127:0] header_q[3];
  logic [63:0] bitmap_q[2];
  logic [1:0] bitmap_flag_q;
  logic [31:0] pattern_q[3];
  logic [23:0] head_q[3];
  logic [47:0] ends_q;
  logic [2:0] ends_bytes_q;
  logic [23:0] planes_q;
  logic [3:0] valid_q;

  logic [47:0] ends;
  logic [23:0] planes;
  always_comb begin
    unique case (plan_q.head_bytes)
      2'd0: ends = {24'b0, plan_q.tail};
      2'd1: ends = {16'b0, plan_q.tail, plan_q.head[7:0]};
      2'd2: ends = {8'b0, plan_q.tail, plan_q.head[15:0]};
      default: ends = {plan_q.tail, plan_q.head};
    endcase
    // Planes that are not flagged are zero and take no byte.
    planes = plan_q.plane_bytes;
    if (!plan_q.plane_flags[1]) planes = {8'b0, planes[23:16], planes[7:0]};
    if (!plan_q.plane_flags[0]) planes = {8'b0, planes[23:8]};
  end

  // Clock 3: one behind the other, at most 3 + 3 + 3 bytes. Clock 4: behind the bitmap.
  logic [71:0] rest_q;
  logic [135:0] extras_q;
  logic [263:0] head_word_q;
  always_ff @(posedge clk) begin
    form_q[0] <= form;
    header_q[0] <= plan_q.header;
    bitmap_q[0] <= plan_q.stored_beats;
    bitmap_flag_q <= {bitmap_flag_q[0], plan_q.bitmap};
    pattern_q[0] <= plan_q.pattern;
    head_q[0] <= plan_q.head;
    for (int i = 1; i < 3; i++) begin
      form_q[i] <= form_q[i-1];
      header_q[i] <= header_q[i-1];
      pattern_q[i] <= pattern_q[i-1];
      head_q[i] <= head_q[i-1];
    end
    bitmap_q[1] <= bitmap_q[0];

    ends_q <= ends;
    ends_bytes_q <= {1'b0, plan_q.head_bytes} + {1'b0, plan_q.tail_bytes};
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

    // Clocks 5 and 6.
    head_word_q <= '0;
    unique case (form_q[2])
      BARE: head_word_q[23:0] <= head_q[2];
      RAW: head_word_q[87:0] <= {head_q[2], header_q[2][63:0]};
      CONSTANT: head_word_q[95:0] <= {pattern_q[2], header_q[2][63:0]};
      default: head_word_q <= {extras_q, header_q[2]};
    endcase
    m_head <= $bits(m_head)'(head_word_q);

    valid_q <= {valid_q[2:0], plan_valid_q};
    m_valid <= valid_q[3];
    if (rst) begin
      valid_q <= '0;
      m_valid <= 1'b0;
    end
  end

  // Where the sections lie, as bytes of the frame. Clock 2: sizes, in bytes less one and in units of 16.
  function automatic logic [8:0] sixteens(input logic [12:0] bytes);
    return bytes[12:4] + 9'(bytes[3:0] != '0);
  endfunction

  function automatic section_t section(input logic any, input logic [12:0] start,
                                       input logic [12:0] stop);
    section_t s;
    s.any = any;
    {s.first, s.start} = start;
    {s.last, s.stop} = stop;
    return s;
  endfunction

  typedef struct packed {
    logic coded;
    mode_e mode;
    logic [12:0] less_one;  // bytes of the frame
    logic [UNARY_BYTES_BITS-1:0] unary_bytes;
    logic [ESCAPES_BITS-1:0] escapes;
  } sizes_t;

  sizes_t sizes, sizes_q[4];  // index: after clock i + 2
  always_comb begin
    sizes.coded = plan_q.coded;
    sizes.mode = plan_q.coded ? plan_q.mode : MODE_RAW;
    sizes.less_one = plan_q.frame_bytes - 13'd1;
    sizes.unary_bytes = (form == CODED) ? plan_q.unary_bytes : '0;
    sizes.escapes = (form == CODED) ? plan_q.escapes : '0;
  end

  logic [12:0] start_q[4];  // of the remainders
  logic [12:0] bytes_q;
  logic [8:0] units_q;
  logic [10:0] low_bytes_q;
  logic [6:0] low_units_q[2];
  // Clock 3.
  logic [12:0] bytes_less_one_q;
  logic [10:0] low_less_one_q;
  logic [2:0] any_q;
  logic [8:0] low_start_q;  // in 16 bytes
  logic low_any_q;
  // Clock 4.
  logic [12:0] stop_q, low_stop_q;
  logic [8:0] low_start2_q, unary_start_q;
  logic low_any2_q;
  // Clock 5.
  logic [12:0] stop2_q, low_stop2_q, escapes_start_q;
  logic [8:0] low_start3_q, unary_start2_q;
  logic low_any3_q;

  always_ff @(posedge clk) begin
    unique case (form)
      BARE: start_q[0] <= 13'(plan_q.head_bytes);
      RAW: start_q[0] <= 13'(SHORT_HEADER_BYTES) + 13'(plan_q.head_bytes);
      CONSTANT: start_q[0] <= '0;
      default: start_q[0] <= {6'b0, 3'(sixteens(13'(plan_q.extras_bytes))) + 3'd1, 4'b0};
    endcase
    unique case (form)
      BARE, RAW: bytes_q <= plan_q.block_bytes - 13'(plan_q.head_bytes);
      CONSTANT: bytes_q <= '0;
      default: bytes_q <= plan_q.remainder_bytes;
    endcase
    units_q <= sixteens(plan_q.remainder_bytes);
    low_bytes_q <= (form == CODED) ? plan_q.low_bytes : '0;
    low_units_q[0] <= 7'(sixteens(13'(plan_q.low_bytes)));
    sizes_q[0] <= sizes;
    for (int i = 1; i < 4; i++) begin
      sizes_q[i] <= sizes_q[i-1];
      start_q[i] <= start_q[i-1];
    end

    bytes_less_one_q <= bytes_q - 13'd1;
    any_q <= {any_q[1:0], bytes_q != '0};
    low_start_q <= start_q[0][12:4] + units_q;
    low_less_one_q <= low_bytes_q - 11'd1;
    low_any_q <= low_bytes_q != '0;
    low_units_q[1] <= low_units_q[0];

    stop_q <= start_q[1] + bytes_less_one_q;
    low_stop_q <= {low_start_q, 4'b0} + 13'(low_less_one_q);
    low_start2_q <= low_start_q;
    low_any2_q <= low_any_q;
    unary_start_q <= low_start_q + 9'(low_units_q[1]);

    stop2_q <= stop_q;
    low_stop2_q <= low_stop_q;
    low_start3_q <= low_start2_q;
    low_any3_q <= low_any2_q;
    unary_start2_q <= unary_start_q;
    escapes_start_q <= {unary_start_q, 4'b0} + 13'(sizes_q[2].unary_bytes);

    // Clock 6. The frame ends with the escapes, and the unary section where they begin.
    m_layout.remainders <= section(any_q[2], start_q[3], stop2_q);
    m_layout.low <= section(low_any3_q, {low_start3_q, 4'b0}, low_stop2_q);
    m_layout.unary <= section(sizes_q[3].unary_bytes != '0, {unary_start2_q, 4'b0},
                              escapes_start_q - 13'd1);
    m_layout.escapes <= section(sizes_q[3].escapes != '0, escapes_start_q, sizes_q[3].less_one);
    m_layout.coded <= sizes_q[3].coded;
    m_layout.mode <= sizes_q[3].mode;
    m_layout.single <= sizes_q[3].less_one[12:6] == '0;
    m_layout.last <= sizes_q[3].less_one[12:6];
    m_layout.stop <= sizes_q[3].less_one[5:0];
  end

`ifndef SYNTHESIS
  a_latency : assert property (@(posedge clk) disable iff (rst) s_valid |-> ##6 m_valid);
  a_frame_bytes : assert property (@(posedge clk) disable iff (rst)
      valid_q[3] && sizes_q[3].escapes != '0
      |-> escapes_start_q + 13'(sizes_q[3].escapes) == sizes_q[3].less_one + 13'd1);
`endif

endmodule
