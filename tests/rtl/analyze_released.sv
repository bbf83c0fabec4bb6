// SPDX-License-Identifier: Apache-2.0
//
// wz_analyze with a second pass that releases plans when told to: one for each s_release.

module analyze_released
  import wz_format_pkg::*;
  import wz_pkg::*;
#(
    parameter int unsigned LANES = 32,
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

    output logic [511:0] m_beat_tdata,
    output logic         m_beat_tvalid,
    input  logic         m_beat_tready,

    output plan_t      m_plan_tdata,
    output logic [7:0] m_plan_order_lo,
    output logic [7:0] m_plan_order_hi,
    output table_bank_t m_plan_table_bank,
    output logic       m_plan_tvalid,
    input  logic       m_plan_tready,

    output logic       table_we,
    output table_bank_t table_bank,
    output logic [4:0] table_symbol,
    output logic [4:0] table_step,

    input  logic s_release_token,
    input  logic s_release_tvalid,
    output logic s_release_tready
);

  logic [15:0] held_q;  // plans that are not released
  logic takes, released;
  assign takes = m_plan_tvalid && m_plan_tready;
  assign s_release_tready = held_q != '0;
  assign released = s_release_tvalid && s_release_tready;

  always_ff @(posedge clk) begin
    held_q <= held_q + 16'(takes) - 16'(released);
    if (rst) held_q <= '0;
  end

  wz_analyze #(
      .LANES(LANES),
      .TYPES(TYPES)
  ) u_analyze (
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
      .m_beat_tdata,
      .m_beat_tvalid,
      .m_beat_tready,
      .m_plan_tdata,
      .m_plan_order_lo,
      .m_plan_order_hi,
      .m_plan_table_bank,
      .m_plan_tvalid,
      .m_plan_tready,
      .table_we,
      .table_bank,
      .table_symbol,
      .table_step,
      .table_release(released)
  );

  logic unused;
  assign unused = s_release_token;

endmodule
