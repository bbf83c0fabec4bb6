// SPDX-License-Identifier: Apache-2.0
//
// A record of remainders becomes the elements that it is about, with the symbol's bits zero: byte
// planes and top bits go to their places, a dropped sign and constant planes are filled in
// (docs/format.md, section 6). A payload that travels as it is passes. Bytes beyond the last element
// are zero.
//
//   latency       1 clock from the last part of a record
//   throughput    1 window a clock
//   back-pressure none

module wz_unrecord
  import wz_format_pkg::*;
  import wz_sections_pkg::*;
#(
    parameter logic [5:0] TYPES = 6'b111111
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input logic [8*BEAT_BYTES-1:0] s_data,
    input window_t                 s_info,
    input logic                    s_valid,

    output logic [8*BEAT_BYTES-1:0] m_data,
    output logic                    m_valid
);

  localparam int unsigned BEAT_W = 8 * BEAT_BYTES;
  localparam logic PARTS = TYPES[ELEMENT_TYPE_FP16] || TYPES[ELEMENT_TYPE_FP32];

  logic [BEAT_W-1:0] out_q, record;
  logic [5:0][BEAT_W-1:0] expanded;  // by type
  logic out_valid_q;
  // Places of plane (or top bits) 1 and 2 among the stored ones; a build for types of one plane has
  // no use for them.
  // verilator lint_off UNUSEDSIGNAL
  logic second;
  logic [1:0] third;
  // verilator lint_on UNUSEDSIGNAL
  logic [3:0] set;  // by byte of an element of 4: the window has it
  element_type_e element;

  // A part lies at the start of its window.
  assign second = !s_info.split && !s_info.plane_flags[0];
  assign third = s_info.split ? 2'd0
      : {!s_info.plane_flags[0] && !s_info.plane_flags[1],
         s_info.plane_flags[0] ^ s_info.plane_flags[1]};
  assign element = built_element(TYPES, s_info.element);

  for (genvar t = 0; t < 6; t++) begin : g_type
    if (TYPES[t]) begin : g_built
      localparam int unsigned WIDTH = 8 * LAYOUTS[t].width_bytes;
      localparam int unsigned VALUES = BEAT_W / WIDTH;
      localparam int unsigned MANTISSA = LAYOUTS[t].mantissa_bits;
      localparam int unsigned BITS = LAYOUTS[t].remainder_bits;
      localparam logic ONE_OR_NONE = BITS / 8 == 1 && (BITS - 1) / 8 == 0;
      logic dropped;
      // verilator lint_off UNUSEDSIGNAL
      logic [2:0] flags;  // of as many planes as there are
      // verilator lint_on UNUSEDSIGNAL

      assign dropped = ONE_OR_NONE ? s_info.choice == 2'd1 : s_info.sign_flag;
      assign flags = ONE_OR_NONE ? {2'd0, s_info.choice == 2'd2} : s_info.plane_flags;

      // Bit i of the remainder of value e, without (0) and with (1) its sign dropped.
      for (genvar e = 0; e < int'(VALUES); e++) begin : g_value
        logic [BITS-1:0] remainder;
        for (genvar i = 0; i < int'(BITS); i++) begin : g_bit
          logic [1:0] bits;
          for (genvar s = 0; s < 2; s++) begin : g_dropped
            localparam int unsigned PLANES = (BITS - s) / 8;
            localparam int unsigned TOP = (BITS - s) % 8;
            localparam int unsigned PLANE = (i < 8 * PLANES) ? i / 8 : PLANES;
            localparam int unsigned AT = (i < 8 * PLANES) ? 8 * e + i % 8
                                                          : TOP * e + i - 8 * PLANES;
            localparam int unsigned STRIDE = 8 * VALUES;
            logic stored;
            if (i >= int'(BITS) - s) begin : g_none
              assign stored = s_info.sign_value;
            end else if (PLANE == 0) begin : g_first
              assign stored = s_data[AT];
            end else if (PLANE == 1) begin : g_second
              assign stored = second ? s_data[STRIDE+AT] : s_data[AT];
            end else begin : g_third
              assign stored = third[1] ? s_data[2*STRIDE+AT]
                  : third[0] ? s_data[STRIDE+AT] : s_data[AT];
            end
            if (i < 8 * PLANES) begin : g_plane
              assign bits[s] = flags[PLANE] ? s_info.plane_bytes[i] : stored;
            end else begin : g_top
              assign bits[s] = stored;
            end
          end
          assign remainder[i] = dropped ? bits[1] : bits[0];
        end
        if (BITS == WIDTH) begin : g_whole
          assign expanded[t][WIDTH*e+:WIDTH] = remainder;
        end else begin : g_split
          assign expanded[t][WIDTH*e+:WIDTH] = {
              remainder[MANTISSA], {(WIDTH - MANTISSA - 1) {1'b0}}, remainder[MANTISSA-1:0]};
        end
      end
    end else begin : g_none
      assign expanded[t] = '0;
    end
  end

  always_comb begin
    record = s_data;
    for (int t = 0; t < 6; t++) begin
      if (TYPES[t] && s_info.choice != 2'd0 && element == element_type_e'(t)) record = expanded[t];
    end

    // Of a part, only the bytes that it is about.
    set = '1;
    if (PARTS && s_info.split && s_info.part != '0) begin
      if (element == ELEMENT_TYPE_FP16) set = 4'b1010;
      else begin
        // The plane whose place among the stored ones is the number of the part.
        set[0] = 1'b0;
        set[1] = !s_info.plane_flags[0] && !s_info.plane_flags[1] && s_info.part == 2'd1;
        set[3:2] = {2{s_info.part == 2'(!s_info.plane_flags[0]) + 2'(!s_info.plane_flags[1])}};
      end
    end
    if (PARTS && !s_valid) set = '0;
  end

  assign m_data = out_q;
  assign m_valid = out_valid_q;

  always_ff @(posedge clk) begin
    out_valid_q <= s_valid && s_info.last_part;
    for (int i = 0; i < int'(BEAT_BYTES); i++) begin
      if (7'(i) >= s_info.bytes && (!PARTS || s_valid)) out_q[8*i+:8] <= '0;
      else if (set[i%4]) out_q[8*i+:8] <= record[8*i+:8];
    end
    if (rst) out_valid_q <= 1'b0;
  end

`ifndef SYNTHESIS
  a_latency : assert property (@(posedge clk) disable iff (rst)
      s_valid && s_info.last_part |=> m_valid);
`endif

endmodule
