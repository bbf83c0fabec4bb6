// SPDX-License-Identifier: Apache-2.0
//
// Which of the rank tables is free.
//
// A walk takes the bank that m_bank names while m_free is high. When its block's plan leaves
// (s_plan_valid, every plan, one that took no bank too), s_plan_takes says whether the block took
// bank s_plan_bank, and s_plan_uses whether the plan uses it: if not it is free at once, else when the
// second pass has released the plan. Releases come once for every plan, in the order of the plans, at
// the earliest in the clock after s_plan_valid.
//
//   latency       a bank is free again one clock after an unused plan, at most 4 after a release
//   throughput    a plan and a release a clock
//   back-pressure m_plan_room falls while PLANS - 2 plans are not released

module wz_table_banks #(
    parameter int unsigned PLANS = 16
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    output logic m_free,
    output wz_pkg::table_bank_t m_bank,
    input  logic s_take,

    input  logic s_plan_valid,
    input  logic s_plan_takes,
    input  logic s_plan_uses,
    input  wz_pkg::table_bank_t s_plan_bank,
    output logic m_plan_room,

    input logic s_release
);

  localparam int unsigned LEVEL_W = $clog2(PLANS) + 1;

  import wz_pkg::*;

  logic [TABLE_BANKS-1:0] busy_q;
  logic [LEVEL_W-1:0] level, releases_q;
  logic plan_uses, plan_valid, pop, ready;
  table_bank_t plan_bank;

  assign m_free = !(&busy_q);
  always_comb begin
    m_bank = '0;
    for (int bank = TABLE_BANKS - 1; bank >= 0; bank--) begin
      if (!busy_q[bank]) m_bank = table_bank_t'(bank);
    end
  end

  wz_fifo #(
      .W(1 + $bits(table_bank_t)),
      .DEPTH(PLANS)
  ) u_plans (
      .clk,
      .rst,
      .s_tdata({s_plan_uses, s_plan_bank}),
      .s_tvalid(s_plan_valid),
      .s_tready(ready),
      .m_tdata({plan_uses, plan_bank}),
      .m_tvalid(plan_valid),
      .m_tready(pop),
      .level
  );
  assign pop = releases_q != '0 && plan_valid;

  always_ff @(posedge clk) begin
    m_plan_room <= level < LEVEL_W'(PLANS - 2);
    if (s_release != pop) releases_q <= s_release ? releases_q + 1'b1 : releases_q - 1'b1;
    for (int bank = 0; bank < int'(TABLE_BANKS); bank++) begin
      if (pop && plan_uses && plan_bank == table_bank_t'(bank)) busy_q[bank] <= 1'b0;
      if (s_plan_valid && s_plan_takes && !s_plan_uses && s_plan_bank == table_bank_t'(bank)) begin
        busy_q[bank] <= 1'b0;
      end
      if (s_take && m_bank == table_bank_t'(bank)) busy_q[bank] <= 1'b1;
    end
    if (rst) begin
      busy_q <= '0;
      releases_q <= '0;
      m_plan_room <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  a_take : assert property (@(posedge clk) disable iff (rst) s_take |-> m_free);
  a_room : assert property (@(posedge clk) disable iff (rst) s_plan_valid |-> ready);
`endif

endmodule
