// SPDX-License-Identifier: Apache-2.0
//
// AXI4-Stream width converter, from 512-bit beats to DATA_W bits.
//
// tkeep must be all ones but at tlast, and there a run of ones from bit 0; narrow beats without a
// byte are not sent. Every narrow beat carries the tuser of its wide one.
//
//   latency       0 (DATA_W = 512: wires), else 1 clock to the first narrow beat
//   throughput    1 narrow beat a clock, also across packets
//   back-pressure s_axis_tready falls while narrow beats of the wide beat before are left; it follows
//                 m_axis_tready in the same clock, by one gate. All other outputs are flops; with
//                 DATA_W = 512 there are none, and all are wires

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

  if (PARTS == 1) begin : g_same
    assign {m_axis_tdata, m_axis_tkeep, m_axis_tuser} = {s_axis_tdata, s_axis_tkeep, s_axis_tuser};
    assign m_axis_tlast  = s_axis_tlast;
    assign m_axis_tvalid = s_axis_tvalid;
    assign s_axis_tready = m_axis_tready;
    // For assertions alone.
    wire unused = &{1'b0, clk, rst};
  end else begin : g_shift
    logic [PARTS-1:0][DATA_W-1:0] data_q;
    logic [PARTS-1:0][KEEP_W-1:0] keep_q;
    logic [PARTS-1:0] more_q;  // bit i: after the part in place i comes another
    logic [USER_W-1:0] user_q;
    logic last_q;  // of the wide beat
    logic end_q;  // of the part in place 0
    logic valid_q;

    assign m_axis_tdata  = data_q[0];
    assign m_axis_tkeep  = keep_q[0];
    assign m_axis_tuser  = user_q;
    assign m_axis_tlast  = end_q;
    assign m_axis_tvalid = valid_q;
    assign s_axis_tready = !valid_q || (m_axis_tready && !more_q[0]);

    always_ff @(posedge clk) begin
      if (s_axis_tready) begin
        data_q <= s_axis_tdata;
        keep_q <= s_axis_tkeep;
        for (int i = 0; i < int'(PARTS); i++) begin
          more_q[i] <= i + 1 < int'(PARTS) && s_axis_tkeep[(i+1)%int'(PARTS)*int'(KEEP_W)];
        end
        user_q  <= s_axis_tuser;
        last_q  <= s_axis_tlast;
        end_q   <= s_axis_tlast && !s_axis_tkeep[KEEP_W];
        valid_q <= s_axis_tvalid;
      end else if (m_axis_tready) begin
        data_q <= data_q >> DATA_W;
        keep_q <= keep_q >> KEEP_W;
        more_q <= more_q >> 1;
        end_q  <= last_q && !more_q[1];
      end

      if (rst) valid_q <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  initial assert (DATA_W == 128 || DATA_W == 256 || DATA_W == 512);

  if (PARTS == 1) begin : g_latency_same
    a_latency : assert property (@(posedge clk) disable iff (rst) s_axis_tvalid |-> m_axis_tvalid);
  end else begin : g_latency
    a_latency : assert property (@(posedge clk) disable iff (rst)
        s_axis_tvalid && s_axis_tready |=> m_axis_tvalid);
  end
  a_keep : assert property (@(posedge clk) disable iff (rst) s_axis_tvalid |->
      (s_axis_tkeep & (s_axis_tkeep + 1'b1)) == '0 && s_axis_tkeep[0] &&
      (s_axis_tlast || &s_axis_tkeep));
  a_stable : assert property (@(posedge clk) disable iff (rst) m_axis_tvalid && !m_axis_tready |=>
      m_axis_tvalid && $stable({m_axis_tdata, m_axis_tkeep, m_axis_tuser, m_axis_tlast}));
`endif

endmodule
