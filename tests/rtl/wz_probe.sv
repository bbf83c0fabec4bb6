// SPDX-License-Identifier: Apache-2.0
//
// A register between two streams that breaks what is asked for: for tests of dut.py itself.

module wz_probe
  import wz_pkg::*;
#(
    parameter int unsigned W = 130,
    parameter MISTAKE = "none"
) (
    input logic clk,
    input logic rst,

    input  logic        [W-1:0] s_tdata,
    input  block_user_t         s_tuser,
    input  logic                s_tvalid,
    output logic                s_tready,

    output logic        [W-1:0] m_tdata,
    output block_user_t         m_tuser,
    output logic                m_tvalid,
    input  logic                m_tready,

    output logic [7:0] unset,
    output logic [7:0] passed
);

  logic [W-1:0] data_q;
  block_user_t user_q;
  logic [7:0] unset_q, passed_q;
  logic valid_q;

  assign s_tready = !m_tvalid || m_tready;
  assign m_tdata = data_q;
  assign m_tuser = user_q;
  assign m_tvalid = valid_q;
  assign unset = unset_q;
  assign passed = passed_q;

  always_ff @(posedge clk) begin
    if (s_tready) begin
      data_q  <= s_tdata;
      user_q  <= s_tuser;
      valid_q <= s_tvalid;
    end else if (MISTAKE == "payload") data_q <= ~data_q;
    else if (MISTAKE == "valid") valid_q <= 1'b0;
    if (m_tvalid && m_tready) passed_q <= passed_q + 8'd1;
    if (rst) begin
      valid_q  <= 1'b0;
      passed_q <= '0;
    end
  end

  a_no_77 :
  assert property (@(posedge clk) disable iff (rst)
      m_tvalid && MISTAKE == "assertion" |-> m_tdata[7:0] != 8'h77)
  else $error("0x77 went by");

endmodule
