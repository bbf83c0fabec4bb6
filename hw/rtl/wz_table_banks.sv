// SPDX-License-Identifier: Apache-2.0
//
// Which of the two rank tables is free.
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
    output logic m_bank,
    input  logic s_take,

    input  logic s_plan_valid,
    input  logic s_plan_takes,
    input  logic s_plan_uses,
    input  logic s_plan_bank,
    output logic m_plan_room,

    input logic s_release
);

  localparam int unsigned LEVEL_W = $clog2(PLANS) + 1;

  logic [1:0] busy_q;
  logic [LEVEL_W-1:0] level, releases_q;
  logic plan_uses, plan_bank, plan_valid, pop, ready;

  assign m_free = !(&busy_q);
  assign m_bank = busy_q[0];

  wz_fifo #(
      .W(2),
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
    for (int bank = 0; bank < 2; bank++) begin
      if (pop && plan_uses && plan_bank == 1'(bank)) busy_q[bank] <= 1'b0;
      if (s_plan_valid && s_plan_takes && !s_plan_uses && s_plan_bank == 1'(bank)) begin
        busy_q[bank] <= 1'b0;
      end
      if (s_take && m_bank == 1'(bank)) busy_q[bank] <= 1'b1;
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
