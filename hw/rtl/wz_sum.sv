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

  // Two sums that are kept apart: as one sum of four the tools build it from compressors, which are
  // larger than three carry chains.
  for (genvar i = 0; i < NEXT; i++) begin : g_four
    logic [NEXT_W-1:0] a, b, c, d;
    (* keep *) logic [NEXT_W-1:0] low, high;
    assign {d, c, b, a} = padded[4*i+:4];
    assign low = a + b;
    assign high = c + d;
    always_ff @(posedge clk) sums_q[i] <= low + high;
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
