// SPDX-License-Identifier: Apache-2.0
//
// AXI4-Stream width converter, from 512-bit beats to DATA_W bits.
//
// tkeep must be all ones but at tlast, and there a run of ones from bit 0; narrow beats without a
// byte are not sent. Every narrow beat carries the tuser of its wide one.
//
//   latency       1 clock (DATA_W = 512), else 2 clocks to the first narrow beat
//   throughput    1 narrow beat a clock, also across packets
//   back-pressure s_axis_tready falls while narrow beats of the wide beat before are left

module wz_width_down #(
    parameter int unsigned DATA_W = 512,  // 128, 256 or 512
    parameter int unsigned USER_W = 1
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input  logic [     511:0] s_axis_tdata,
    input  logic [      63:0] s_axis_tkeep,
    input  logic              s_axis_tlast,
    input  logic [USER_W-1:0] s_axis_tuser,
    input  logic              s_axis_tvalid,
    output logic              s_axis_tready,

    output logic [  DATA_W-1:0] m_axis_tdata,
    output logic [DATA_W/8-1:0] m_axis_tkeep,
    output logic                m_axis_tlast,
    output logic [  USER_W-1:0] m_axis_tuser,
    output logic                m_axis_tvalid,
    input  logic                m_axis_tready
);

  localparam int unsigned KEEP_W = DATA_W / 8;
  localparam int unsigned PARTS = 512 / DATA_W;

  logic [DATA_W-1:0] part_data;
  logic [KEEP_W-1:0] part_keep;
  logic [USER_W-1:0] part_user;
  logic part_last, part_valid, part_ready;

  if (PARTS == 1) begin : g_same
    assign {part_data, part_keep, part_user} = {s_axis_tdata, s_axis_tkeep, s_axis_tuser};
    assign part_last = s_axis_tlast;
    assign part_valid = s_axis_tvalid;
    assign s_axis_tready = part_ready;
  end else begin : g_shift
    logic [PARTS-1:0][DATA_W-1:0] data_q;
    logic [PARTS-1:0][KEEP_W-1:0] keep_q;
    logic [PARTS-1:0] more_q;  // bit i: after the part in place i comes another
    logic [USER_W-1:0] user_q;
    logic last_q, valid_q;

    assign part_data = data_q[0];
    assign part_keep = keep_q[0];
    assign part_user = user_q;
    assign part_last = last_q && !more_q[0];
    assign part_valid = valid_q;
    assign s_axis_tready = !valid_q || (part_ready && !more_q[0]);

    always_ff @(posedge clk) begin
      if (s_axis_tready) begin
        data_q <= s_axis_tdata;
        keep_q <= s_axis_tkeep;
        for (int i = 0; i < int'(PARTS); i++) begin
          more_q[i] <= i + 1 < int'(PARTS) && s_axis_tkeep[(i+1)%int'(PARTS)*int'(KEEP_W)];
        end
        user_q  <= s_axis_tuser;
        last_q  <= s_axis_tlast;
        valid_q <= s_axis_tvalid;
      end else if (part_ready) begin
        data_q <= data_q >> DATA_W;
        keep_q <= keep_q >> KEEP_W;
        more_q <= more_q >> 1;
      end

      if (rst) valid_q <= 1'b0;
    end
  end

  wz_skid #(
      .W(DATA_W + KEEP_W + USER_W + 1)
  ) u_skid (
      .clk,
      .rst,
      .s_tdata ({part_data, part_keep, part_user, part_last}),
      .s_tvalid(part_valid),
      .s_tready(part_ready),
      .m_tdata ({m_axis_tdata, m_axis_tkeep, m_axis_tuser, m_axis_tlast}),
      .m_tvalid(m_axis_tvalid),
      .m_tready(m_axis_tready)
  );

`ifndef SYNTHESIS
  initial assert (DATA_W == 128 || DATA_W == 256 || DATA_W == 512);

  localparam int unsigned LATENCY = (PARTS == 1) ? 1 : 2;
  logic taken, taken_q;
  assign taken = s_axis_tvalid && s_axis_tready;
  always_ff @(posedge clk) taken_q <= taken && !rst;
  a_latency : assert property (@(posedge clk) disable iff (rst)
      (LATENCY == 1 ? taken : taken_q) |=> m_axis_tvalid);
  a_keep : assert property (@(posedge clk) disable iff (rst) s_axis_tvalid |->
      (s_axis_tkeep & (s_axis_tkeep + 1'b1)) == '0 && s_axis_tkeep[0] &&
      (s_axis_tlast || &s_axis_tkeep));
  a_stable : assert property (@(posedge clk) disable iff (rst) m_axis_tvalid && !m_axis_tready |=>
      m_axis_tvalid && $stable({m_axis_tdata, m_axis_tkeep, m_axis_tuser, m_axis_tlast}));
`endif

endmodule
