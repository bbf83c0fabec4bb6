// SPDX-License-Identifier: Apache-2.0
//
// Checks the rules of AXI4-Stream on one stream, in simulation. For synthesis it is empty.
//
// Instantiate it beside a stream or bind it. The rules: once valid, a beat stays as it is until it
// is taken; tkeep is all ones but at tlast, and there a run of at least one from bit 0.

module wz_axis_check #(
    parameter int unsigned DATA_W = 512,
    parameter int unsigned USER_W = 1,
    parameter bit CHECK_KEEP = 1'b1
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input logic [  DATA_W-1:0] tdata,
    input logic [DATA_W/8-1:0] tkeep,
    input logic                tlast,
    input logic [  USER_W-1:0] tuser,
    input logic                tvalid,
    input logic                tready
);

`ifdef SYNTHESIS
  wire unused = &{1'b0, clk, rst, tdata, tkeep, tlast, tuser, tvalid, tready, CHECK_KEEP};
`else
  a_valid_stays : assert property (@(posedge clk) disable iff (rst) tvalid && !tready |=> tvalid);
  a_beat_stays : assert property (@(posedge clk) disable iff (rst) tvalid && !tready |=>
      $stable({tdata, tkeep, tlast, tuser}));
  if (CHECK_KEEP) begin : g_keep
    a_keep_run : assert property (@(posedge clk) disable iff (rst) tvalid |->
        tkeep[0] && (tkeep & (tkeep + 1'b1)) == '0);
    a_keep_full : assert property (@(posedge clk) disable iff (rst) tvalid && !tlast |-> &tkeep);
  end
`endif

endmodule
