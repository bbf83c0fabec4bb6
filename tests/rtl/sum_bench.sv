// SPDX-License-Identifier: Apache-2.0
//
// wz_sum as a part: Verilator leaves out what a top instantiates of itself.

module sum_bench #(
    parameter int unsigned COUNT = 32,
    parameter int unsigned W = 7,
    parameter int unsigned SUM_W = 12
) (
    input logic clk,

    input  logic [COUNT-1:0][    W-1:0] s_data,
    output logic            [SUM_W-1:0] m_sum
);

  wz_sum #(
      .COUNT(COUNT),
      .W(W),
      .SUM_W(SUM_W)
  ) u_sum (
      .clk,
      .s_data,
      .m_sum
  );

endmodule
