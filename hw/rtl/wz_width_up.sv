// SPDX-License-Identifier: Apache-2.0
//
// AXI4-Stream width converter, from DATA_W bits to 512-bit beats.
//
// Bytes that tkeep leaves out come out as zeros, at DATA_W = 512 too, so that no later stage needs
// a mask. tkeep must be all ones but at tlast, and there a run of ones from bit 0. m_axis_tuser is
// the tuser of the first of the narrow beats that make a wide one.
//
//   latency       1 clock (DATA_W = 512); else 2 clocks after the narrow beat that completes a beat
//   throughput    1 narrow beat a clock, also across packets
//   back-pressure s_axis_tready falls only while two wide beats (at 512: one and a half) wait

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

  logic [DATA_W-1:0] masked;
  for (genvar i = 0; i < KEEP_W; i++) begin : g_mask
    assign masked[8*i+:8] = s_axis_tdata[8*i+:8] & {8{s_axis_tkeep[i]}};
  end

  logic [511:0] wide_data;
  logic [63:0] wide_keep;
  logic [USER_W-1:0] wide_user;
  logic wide_last, wide_valid, wide_ready;

  if (PARTS == 1) begin : g_same
    assign {wide_data, wide_keep, wide_user} = {masked, s_axis_tkeep, s_axis_tuser};
    assign wide_last = s_axis_tlast;
    assign wide_valid = s_axis_tvalid;
    assign s_axis_tready = wide_ready;
  end else begin : g_gather
    logic [PARTS-1:0][DATA_W-1:0] data_q;
    logic [PARTS-1:0][KEEP_W-1:0] keep_q;
    logic [USER_W-1:0] user_q;
    logic last_q, full_q;
    logic [PARTS-1:0] place_q;  // one-hot: where the next narrow beat goes

    assign {wide_data, wide_keep, wide_user} = {data_q, keep_q, user_q};
    assign wide_last = last_q;
    assign wide_valid = full_q;
    assign s_axis_tready = !full_q || wide_ready;

    always_ff @(posedge clk) begin
      if (wide_ready) full_q <= 1'b0;
      if (s_axis_tvalid && s_axis_tready) begin
        for (int i = 0; i < int'(PARTS); i++) begin
          if (place_q[i]) begin
            data_q[i] <= masked;
            keep_q[i] <= s_axis_tkeep;
          end else if (place_q[0]) begin
            data_q[i] <= '0;
            keep_q[i] <= '0;
          end
        end
        if (place_q[0]) user_q <= s_axis_tuser;
        last_q  <= s_axis_tlast;
        full_q  <= s_axis_tlast || place_q[PARTS-1];
        place_q <= s_axis_tlast ? PARTS'(1) : {place_q[PARTS-2:0], place_q[PARTS-1]};
      end

      if (rst) begin
        full_q  <= 1'b0;
        place_q <= PARTS'(1);
      end
    end
  end

  wz_skid #(
      .W(512 + 64 + USER_W + 1)
  ) u_skid (
      .clk,
      .rst,
      .s_tdata ({wide_data, wide_keep, wide_user, wide_last}),
      .s_tvalid(wide_valid),
      .s_tready(wide_ready),
      .m_tdata ({m_axis_tdata, m_axis_tkeep, m_axis_tuser, m_axis_tlast}),
      .m_tvalid(m_axis_tvalid),
      .m_tready(m_axis_tready)
  );

`ifndef SYNTHESIS
  initial assert (DATA_W == 128 || DATA_W == 256 || DATA_W == 512);

  localparam int unsigned LATENCY = (PARTS == 1) ? 1 : 2;
  logic complete, complete_q;
  if (PARTS == 1) begin : g_complete_same
    assign complete = s_axis_tvalid && s_axis_tready;
  end else begin : g_complete
    assign complete =
        s_axis_tvalid && s_axis_tready && (s_axis_tlast || g_gather.place_q[PARTS-1]);
  end
  always_ff @(posedge clk) complete_q <= complete && !rst;
  a_latency : assert property (@(posedge clk) disable iff (rst)
      (LATENCY == 1 ? complete : complete_q) |=> m_axis_tvalid);
  a_full_rate : assert property (@(posedge clk) disable iff (rst) m_axis_tready |=> s_axis_tready);
  a_keep : assert property (@(posedge clk) disable iff (rst) s_axis_tvalid |->
      (s_axis_tkeep & (s_axis_tkeep + 1'b1)) == '0 && s_axis_tkeep[0] &&
      (s_axis_tlast || &s_axis_tkeep));
`endif

endmodule
