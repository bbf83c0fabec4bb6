// SPDX-License-Identifier: Apache-2.0
//
// wz_order behind words that can wait, and with rank tables that are always free and take turns.

module order_fed
  import wz_analyze_pkg::*;
#(
    parameter logic [5:0] TYPES = 6'b111111,
    localparam int unsigned COUNT_W = count_bits(TYPES)
) (
    input logic clk,
    input logic rst,

    input  logic                    s_first,
    input  logic                    s_last,
    input  logic [5:0]              s_word,
    input  logic [7:0]              s_groups,
    input  logic [3:0][COUNT_W-1:0] s_counts,
    input  logic                    s_tvalid,
    output logic                    s_tready,

    input  shape_t s_shape_tdata,
    input  logic   s_shape_tvalid,
    output logic   s_shape_tready,

    output order_t m_order_tdata,
    output logic   m_order_tvalid,
    input  logic   m_order_tready,

    output range_t m_range_tdata,
    output logic   m_range_tvalid,
    input  logic   m_range_tready,

    output logic       table_we,
    output wz_pkg::table_bank_t table_bank,
    output logic [4:0] table_symbol,
    output logic [4:0] table_step
);

  logic room, bank_take;
  wz_pkg::table_bank_t bank_q;
  assign s_tready = room || !s_first;

  always_ff @(posedge clk) begin
    if (bank_take) bank_q <= bank_q + 1'b1;
    if (rst) bank_q <= '0;
  end

  wz_order #(
      .TYPES(TYPES)
  ) u_order (
      .clk,
      .rst,
      .s_room(room),
      .s_start(s_tvalid && s_tready && s_first),
      .s_valid(s_tvalid && s_tready),
      .s_first,
      .s_last,
      .s_word,
      .s_groups,
      .s_counts,
      .s_shape_tdata,
      .s_shape_tvalid,
      .s_shape_tready,
      .m_order_tdata,
      .m_order_tvalid,
      .m_order_tready,
      .m_range_tdata,
      .m_range_tvalid,
      .m_range_tready,
      .table_we,
      .table_bank,
      .table_symbol,
      .table_step,
      .s_bank_free(1'b1),
      .s_bank(bank_q),
      .s_bank_take(bank_take)
  );

endmodule
