// SPDX-License-Identifier: Apache-2.0
//
// wz_deal with its undefined outputs at zero, so that a stalled beat can be checked to stay.

module deal_masked #(
    parameter int unsigned LANES = 32,
    parameter int unsigned W = 8,
    parameter int unsigned USER_W = 1,
    parameter int unsigned ITEM_USER_W = 1,
    localparam int unsigned COUNT_W = $clog2(LANES) + 1
) (
    input logic clk,
    input logic rst,

    input  logic [LANES-1:0]  s_mask_tdata,
    input  logic              s_mask_none,
    input  logic [USER_W-1:0] s_mask_tuser,
    input  logic              s_mask_tlast,
    input  logic              s_mask_tvalid,
    output logic              s_mask_tready,

    input  logic [LANES-1:0][W-1:0] s_item_tdata,
    input  logic [COUNT_W-1:0]      s_item_tcount,
    input  logic [ITEM_USER_W-1:0]  s_item_tuser,
    input  logic                    s_item_tlast,
    input  logic                    s_item_tvalid,
    output logic                    s_item_tready,

    output logic [LANES-1:0][W-1:0] m_tdata,
    output logic [LANES-1:0]        m_tkeep,
    output logic [USER_W-1:0]       m_tuser,
    output logic [ITEM_USER_W-1:0]  m_titem,
    output logic                    m_terror,
    output logic                    m_tlast,
    output logic                    m_tvalid,
    input  logic                    m_tready
);

  logic [LANES-1:0][W-1:0] data;
  logic [ITEM_USER_W-1:0] item;

  wz_deal #(
      .LANES(LANES),
      .W(W),
      .USER_W(USER_W),
      .ITEM_USER_W(ITEM_USER_W)
  ) u_deal (
      .clk,
      .rst,
      .s_mask_tdata,
      .s_mask_none,
      .s_mask_tuser,
      .s_mask_tlast,
      .s_mask_tvalid,
      .s_mask_tready,
      .s_item_tdata,
      .s_item_tcount,
      .s_item_tuser,
      .s_item_tlast,
      .s_item_tvalid,
      .s_item_tready,
      .m_tdata(data),
      .m_tkeep,
      .m_tuser,
      .m_titem(item),
      .m_terror,
      .m_tlast,
      .m_tvalid,
      .m_tready
  );

  assign m_titem = m_tlast ? item : '0;
  for (genvar i = 0; i < LANES; i++) begin : g_lane
    assign m_tdata[i] = (m_tkeep[i] && !m_terror) ? data[i] : '0;
  end

endmodule
