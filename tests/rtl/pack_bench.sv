// SPDX-License-Identifier: Apache-2.0
//
// wz_pack with the rank tables written for it: a plan brings the steps of the symbols, by their lowest
// five bits, and follows when they are in a free bank.

module pack_bench #(
    parameter int unsigned LANES = 32,
    parameter logic [5:0] TYPES = 6'b111111
) (
    input logic clk,
    input logic rst,

    input  logic [511:0] s_beat_tdata,
    input  logic         s_beat_tvalid,
    output logic         s_beat_tready,

    input  wz_pkg::plan_t    s_plan_tdata,
    input  logic [7:0]       s_plan_order_lo,
    input  logic [7:0]       s_plan_order_hi,
    input  logic [31:0][4:0] s_plan_steps,
    input  logic             s_plan_ranked,  // there are steps to write
    input  logic             s_plan_tvalid,
    output logic             s_plan_tready,

    output logic [511:0]         m_axis_tdata,
    output logic [63:0]          m_axis_tkeep,
    output logic                 m_axis_tlast,
    output logic                 m_axis_tuser,
    output wz_format_pkg::mode_e m_axis_mode,
    output logic                 m_axis_tvalid,
    input  logic                 m_axis_tready
);

  logic [5:0] written_q;  // entries of the present table
  logic [2:0] banks_q;  // in use
  logic [31:0] ranked_q;  // of the plans that are not released, the oldest lowest
  logic [4:0] plans_q;
  wz_pkg::table_bank_t bank_q;
  logic write, plan_valid, plan_ready, release_plan;

  assign write = s_plan_tvalid && s_plan_ranked && !written_q[5] && banks_q != 3'(wz_pkg::TABLE_BANKS);
  assign plan_valid = s_plan_tvalid && (written_q[5] || !s_plan_ranked);
  assign s_plan_tready = plan_valid && plan_ready;

  always_ff @(posedge clk) begin
    if (s_plan_tready) written_q <= '0;
    else if (write) written_q <= written_q + 1'b1;
    if (s_plan_tready && s_plan_ranked) bank_q <= bank_q + 1'b1;
    banks_q <= banks_q + 3'(s_plan_tready && s_plan_ranked) - 3'(release_plan && ranked_q[0]);
    if (release_plan) ranked_q <= ranked_q >> 1;
    if (s_plan_tready) ranked_q[plans_q-5'(release_plan)] <= s_plan_ranked;
    plans_q <= plans_q + 5'(s_plan_tready) - 5'(release_plan);
    if (rst) begin
      written_q <= '0;
      banks_q <= '0;
      plans_q <= '0;
      bank_q <= '0;
    end
  end

  wz_pack #(
      .LANES(LANES),
      .TYPES(TYPES)
  ) u_pack (
      .clk,
      .rst,
      .s_beat_tdata,
      .s_beat_tvalid,
      .s_beat_tready,
      .s_plan_tdata,
      .s_plan_order_lo,
      .s_plan_order_hi,
      .s_plan_bank(bank_q),
      .s_plan_tvalid(plan_valid),
      .s_plan_tready(plan_ready),
      .table_we(write),
      .table_bank(bank_q),
      .table_symbol(written_q[4:0]),
      .table_step(s_plan_steps[written_q[4:0]]),
      .table_release(release_plan),
      .m_axis_tdata,
      .m_axis_tkeep,
      .m_axis_tlast,
      .m_axis_tuser,
      .m_axis_mode,
      .m_axis_tvalid,
      .m_axis_tready
  );

endmodule
