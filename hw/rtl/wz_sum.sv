// SPDX-License-Identifier: Apache-2.0
//
// Sum of COUNT numbers, four to one a clock. SUM_W must be wide enough for the sum.
//
//   latency       one clock for every factor of 4 in COUNT, rounded up
//   throughput    1 sum a clock
//   back-pressure none

module wz_sum #(
    parameter int unsigned COUNT = 32,
    parameter int unsigned W = 7,
    parameter int unsigned SUM_W = 12
) (
    input logic clk,

    input  logic [COUNT-1:0][    W-1:0] s_data,
    output logic            [SUM_W-1:0] m_sum
);

  localparam int unsigned NEXT = (COUNT + 3) / 4;
  localparam int unsigned NEXT_W = W + 2 < SUM_W ? W + 2 : SUM_W;

  logic [4*NEXT-1:0][NEXT_W-1:0] padded;
  logic [NEXT-1:0][NEXT_W-1:0] sums_q;
  for (genvar i = 0; i < 4 * NEXT; i++) begin : g_pad
    if (i < COUNT) begin : g_number
      assign padded[i] = NEXT_W'(s_data[i]);
    end else begin : g_zero
      assign padded[i] = '0;
    end
  end

  // Three numbers to two without a carry, twice, and one addition.
  for (genvar i = 0; i < NEXT; i++) begin : g_four
    logic [NEXT_W-1:0] a, b, c, d, sum3, carry3, sum4, carry4;
    assign {d, c, b, a} = padded[4*i+:4];
    assign sum3 = a ^ b ^ c;
    assign carry3 = {(a[NEXT_W-2:0] & b[NEXT_W-2:0]) | (a[NEXT_W-2:0] & c[NEXT_W-2:0]) |
                     (b[NEXT_W-2:0] & c[NEXT_W-2:0]), 1'b0};
    assign sum4 = sum3 ^ carry3 ^ d;
    assign carry4 = {(sum3[NEXT_W-2:0] & carry3[NEXT_W-2:0]) | (sum3[NEXT_W-2:0] & d[NEXT_W-2:0]) |
                     (carry3[NEXT_W-2:0] & d[NEXT_W-2:0]), 1'b0};
    always_ff @(posedge clk) sums_q[i] <= sum4 + carry4;
  end

  if (NEXT == 1) begin : g_done
    assign m_sum = SUM_W'(sums_q[0]);
  end else begin : g_more
    wz_sum #(
        .COUNT(NEXT),
        .W(NEXT_W),
        .SUM_W(SUM_W)
    ) u_sum (
        .clk,
        .s_data(sums_q),
        .m_sum
    );
  end

endmodule
