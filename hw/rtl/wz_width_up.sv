// SPDX-License-Identifier: Apache-2.0
//
// AXI4-Stream width converter, from DATA_W bits to 512-bit beats.
//
// Bytes that tkeep leaves out come out as zeros, at DATA_W = 512 too, so that no later stage needs
// a mask. tkeep must be all ones but at tlast, and there a run of ones from bit 0. m_axis_tuser is
// the tuser of the first of the narrow beats that make a wide one.
//
//   latency       1 clock after the narrow beat that completes a beat
//   throughput    1 narrow beat a clock, also across packets
//   back-pressure s_axis_tready falls while a wide beat waits: it follows m_axis_tready in the same
//                 clock, by one gate. All other outputs are flops

module wz_width_up #(
    parameter int unsigned DATA_W = 512,  // 128, 256 or 512
    parameter int unsigned USER_W = 1
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input  logic [  DATA_W-1:0] s_axis_tdata,
    input  logic [DATA_W/8-1:0] s_axis_tkeep,
    input  logic                s_axis_tlast,
    input  logic [  USER_W-1:0] s_axis_tuser,
    input  logic                s_axis_tvalid,
    output logic                s_axis_tready,

    output logic [     511:0] m_axis_tdata,
    output logic [      63:0] m_axis_tkeep,
    output logic              m_axis_tlast,
    output logic [USER_W-1:0] m_axis_tuser,
    output logic              m_axis_tvalid,
    input  logic              m_axis_tready
);

  localparam int unsigned KEEP_W = DATA_W / 8;
  localparam int unsigned PARTS = 512 / DATA_W;

  logic [PARTS-1:0][DATA_W-1:0] data_q;
  logic [PARTS-1:0][KEEP_W-1:0] keep_q;
  logic [USER_W-1:0] user_q;
  logic last_q, full_q;
  logic [PARTS-1:0] place;  // one-hot: where the next narrow beat goes
  logic take;

  assign s_axis_tready = !full_q || m_axis_tready;
  assign take = s_axis_tvalid && s_axis_tready;

  always_ff @(posedge clk) begin
    // Without s_axis_tvalid: the first part is free, and nothing counts before `full_q`.
    for (int i = 0; i < int'(PARTS); i++) begin
      if (s_axis_tready && (place[i] || place[0])) begin
        keep_q[i] <= place[i] ? s_axis_tkeep : '0;
        data_q[i] <= s_axis_tdata;
        // One synchronous reset a byte: no logic in the way of the data.
        for (int j = 0; j < int'(KEEP_W); j++) begin
          if (!(place[i] && s_axis_tkeep[j])) data_q[i][8*j+:8] <= '0;
        end
      end
    end
    if (s_axis_tready) begin
      if (place[0]) user_q <= s_axis_tuser;
      last_q <= s_axis_tlast;
      full_q <= s_axis_tvalid && (s_axis_tlast || place[PARTS-1]);
    end
    if (rst) full_q <= 1'b0;
  end

  if (PARTS == 1) begin : g_same
    assign place = 1'b1;
    wire unused = &{1'b0, take};
  end else begin : g_gather
    logic [PARTS-1:0] place_q;
    assign place = place_q;
    always_ff @(posedge clk) begin
      if (take) place_q <= s_axis_tlast ? PARTS'(1) : {place_q[PARTS-2:0], place_q[PARTS-1]};
      if (rst) place_q <= PARTS'(1);
    end
  end

  assign {m_axis_tdata, m_axis_tkeep, m_axis_tuser} = {data_q, keep_q, user_q};
  assign m_axis_tlast  = last_q;
  assign m_axis_tvalid = full_q;

`ifndef SYNTHESIS
  initial assert (DATA_W == 128 || DATA_W == 256 || DATA_W == 512);

  a_latency : assert property (@(posedge clk) disable iff (rst)
      take && (s_axis_tlast || place[PARTS-1]) |=> m_axis_tvalid);
  a_full_rate : assert property (@(posedge clk) disable iff (rst) m_axis_tready |-> s_axis_tready);
  a_stable : assert property (@(posedge clk) disable iff (rst) m_axis_tvalid && !m_axis_tready |=>
      m_axis_tvalid && $stable({m_axis_tdata, m_axis_tkeep, m_axis_tuser, m_axis_tlast}));
  a_keep : assert property (@(posedge clk) disable iff (rst) s_axis_tvalid |->
      (s_axis_tkeep & (s_axis_tkeep + 1'b1)) == '0 && s_axis_tkeep[0] &&
      (s_axis_tlast || &s_axis_tkeep));
`endif

endmodule
