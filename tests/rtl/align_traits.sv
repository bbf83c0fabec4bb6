// SPDX-License-Identifier: Apache-2.0
//
// wz_align, wz_period and wz_traits, as wz_analyze puts them together.

module align_traits
  import wz_format_pkg::*;
  import wz_pkg::*;
  import wz_analyze_pkg::*;
#(
    parameter logic [5:0] TYPES = 6'b111111
) (
    input logic clk,
    input logic rst,
    input logic bare,
    input logic [12:0] min_bytes,

    input  logic        [511:0] s_axis_tdata,
    input  logic        [ 63:0] s_axis_tkeep,
    input  logic                s_axis_tlast,
    input  block_user_t         s_axis_tuser,
    input  logic                s_axis_tvalid,
    output logic                s_axis_tready,

    // One a beat that wz_align may let go.
    input  logic go_token,
    input  logic go_tvalid,
    output logic go_tready,

    output traits_t m_traits,
    output shape_t  m_shape,
    output logic    m_valid
);

  logic [511:0] data, raw_data;
  logic [63:0] keep, raw_keep;
  logic first, last_beat, code, walk, valid, raw_first, raw_last, raw_valid;
  element_type_e element;
  format_t format;
  logic [1:0] phase;
  logic [11:0] length_less_one;
  logic [23:0] head, tail;
  logic [2:0] periods;
  logic [31:0] pattern;
  assign go_tready = valid;

  wz_align #(
      .TYPES(TYPES)
  ) u_align (
      .clk,
      .rst,
      .bare,
      .min_bytes,
      .s_axis_tdata,
      .s_axis_tkeep,
      .s_axis_tlast,
      .s_axis_tuser,
      .s_axis_tvalid,
      .s_axis_tready,
      .m_tdata(data),
      .m_tkeep(keep),
      .m_tfirst(first),
      .m_tlast(last_beat),
      .m_code(code),
      .m_walk(walk),
      .m_element(element),
      .m_format(format),
      .m_phase(phase),
      .m_length_less_one(length_less_one),
      .m_head(head),
      .m_tail(tail),
      .m_tvalid(valid),
      .m_tready(go_tvalid),
      .raw_tdata(raw_data),
      .raw_tkeep(raw_keep),
      .raw_first,
      .raw_last,
      .raw_valid
  );

  wz_period u_period (
      .clk,
      .s_tdata(raw_data),
      .s_tkeep(raw_keep),
      .s_first(raw_first),
      .s_valid(raw_valid),
      .m_periods(periods),
      .m_pattern(pattern)
  );

  wz_traits #(
      .TYPES(TYPES)
  ) u_traits (
      .clk,
      .rst,
      .bare,
      .min_bytes,
      .s_tdata(data),
      .s_tkeep(keep),
      .s_tfirst(first),
      .s_tlast(last_beat),
      .s_code(code),
      .s_walk(walk),
      .s_element(element),
      .s_format(format),
      .s_phase(phase),
      .s_length_less_one(length_less_one),
      .s_head(head),
      .s_tail(tail),
      .s_tvalid(valid && go_tvalid),
      .s_periods(periods),
      .s_pattern(pattern),
      .m_traits,
      .m_shape,
      .m_valid
  );

  logic unused;
  assign unused = &{go_token, raw_last};

endmodule
