// SPDX-License-Identifier: Apache-2.0
//
// Counts the kept lanes before each lane, for wz_compact: the place of lane i is m_start[i / 8] +
// m_prefix[i]; the addition is left to the user, who has room for it.
//
//   latency       LANES <= 8: 1 clock on which `en` is high; 16, 32: 2; 64: 3
//   throughput    1 vector a clock
//   back-pressure none; `en` low holds everything

module wz_prefix #(
    parameter int unsigned LANES = 32,  // 4, 8, 16, 32 or 64
    localparam int unsigned BASE_W = $clog2(LANES),
    localparam int unsigned GROUP = (LANES < 8) ? LANES : 8,
    localparam int unsigned GROUPS = LANES / GROUP
) (
    input logic clk,
    input logic en,

    input logic [LANES-1:0] s_keep,

    output logic [LANES-1:0]            m_keep,
    output logic [LANES-1:0][2:0]       m_prefix,  // kept lanes before, in the group of 8
    output logic [GROUPS-1:0][BASE_W:0] m_start    // kept lanes of the groups before
);

  localparam int unsigned START_W = BASE_W + 1;

  // Clock 1: count inside the groups.
  logic [LANES-1:0] keep_q;
  logic [LANES-1:0][2:0] prefix_q;
  logic [GROUPS-1:0][3:0] total_q;

  for (genvar i = 0; i < LANES; i++) begin : g_prefix
    localparam logic [GROUP-1:0] BEFORE = GROUP'((1 << (i % GROUP)) - 1);
    always_ff @(posedge clk) begin
      if (en) prefix_q[i] <= 3'($countones(s_keep[i/GROUP*GROUP+:GROUP] & BEFORE));
    end
  end

  always_ff @(posedge clk) begin
    if (en) begin
      keep_q <= s_keep;
      for (int g = 0; g < int'(GROUPS); g++) begin
        total_q[g] <= 4'($countones(s_keep[g*int'(GROUP)+:GROUP]));
      end
    end
  end

  if (GROUPS == 1) begin : g_one
    assign m_keep = keep_q;
    assign m_prefix = prefix_q;
    assign m_start = '0;
    wire unused = &{1'b0, total_q};
  end else begin : g_more
    // Clock 2: sums over up to four groups; those of the second half begin anew.
    localparam int unsigned HALF = (GROUPS < 4) ? GROUPS : 4;
    logic [LANES-1:0] keep2_q;
    logic [LANES-1:0][2:0] prefix2_q;
    logic [GROUPS-1:0][START_W-1:0] sum_d, sum_q;

    for (genvar g = 0; g < GROUPS; g++) begin : g_sum
      if (g % HALF == 0) begin : g_zero
        assign sum_d[g] = '0;
      end else begin : g_add
        assign sum_d[g] = sum_d[g-1] + START_W'(total_q[g-1]);
      end
    end

    always_ff @(posedge clk) begin
      if (en) begin
        keep2_q <= keep_q;
        prefix2_q <= prefix_q;
        sum_q <= sum_d;
      end
    end

    if (GROUPS == HALF) begin : g_two
      assign m_keep = keep2_q;
      assign m_prefix = prefix2_q;
      assign m_start = sum_q;
    end else begin : g_three
      // Clock 3: the second half begins where the first ends.
      logic [LANES-1:0] keep3_q;
      logic [LANES-1:0][2:0] prefix3_q;
      logic [GROUPS-1:0][START_W-1:0] start_q;
      logic [3:0] last_q;  // total of the last group of the first half
      logic [START_W-1:0] middle;
      assign middle = sum_q[HALF-1] + START_W'(last_q);

      always_ff @(posedge clk) begin
        if (en) begin
          keep3_q <= keep2_q;
          prefix3_q <= prefix2_q;
          last_q <= total_q[HALF-1];
          for (int g = 0; g < int'(GROUPS); g++) begin
            start_q[g] <= (g < int'(HALF)) ? sum_q[g] : sum_q[g] + middle;
          end
        end
      end

      assign m_keep = keep3_q;
      assign m_prefix = prefix3_q;
      assign m_start = start_q;
    end

    wire unused = &{1'b0, total_q[GROUPS-1]};
  end

endmodule
