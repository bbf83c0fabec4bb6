// SPDX-License-Identifier: Apache-2.0
//
// wz_escape_insert with the register that its outputs need.

module escape_registered
  import wz_restore_pkg::*;
#(
    parameter int unsigned LANES = 32
) (
    input logic clk,
    input logic rst,

    input  escape_job_t s_job_tdata,
    input  logic        s_job_tvalid,
    output logic        s_job_tready,

    input  logic [511:0] s_escape_tdata,
    input  logic         s_escape_tvalid,
    output logic         s_escape_tready,

    input  logic [LANES-1:0][7:0] s_symbol,
    input  logic [LANES-1:0]      s_nonzero,
    input  logic [LANES-1:0]      s_escape,
    input  logic                  s_no_escapes,
    input  logic                  s_bad_codes,
    input  logic [LANES/8-1:0]    s_bad_symbols,
    input  logic                  s_tlast,
    input  logic                  s_tvalid,
    output logic                  s_tready,

    output logic [LANES-1:0][7:0] m_symbol,
    output logic [LANES-1:0]      m_nonzero,
    output logic                  m_bad_codes,
    output logic                  m_bad_symbol,
    output logic                  m_tlast,
    output logic                  m_tvalid,
    input  logic                  m_tready
);

  logic [LANES-1:0][7:0] symbol;
  logic [LANES-1:0] nonzero;
  logic bad_codes, bad_symbol, last, valid, ready;

  wz_escape_insert #(
      .LANES(LANES)
  ) u_insert (
      .clk,
      .rst,
      .s_job_tdata,
      .s_job_tvalid,
      .s_job_tready,
      .s_escape_tdata,
      .s_escape_tvalid,
      .s_escape_tready,
      .s_symbol,
      .s_nonzero,
      .s_escape,
      .s_no_escapes,
      .s_bad_codes,
      .s_bad_symbols,
      .s_tlast,
      .s_tvalid,
      .s_tready,
      .m_symbol(symbol),
      .m_nonzero(nonzero),
      .m_bad_codes(bad_codes),
      .m_bad_symbol(bad_symbol),
      .m_tlast(last),
      .m_tvalid(valid),
      .m_tready(ready)
  );

  wz_skid #(
      .W(9 * LANES + 3)
  ) u_out (
      .clk,
      .rst,
      .s_tdata({symbol, nonzero, bad_codes, bad_symbol, last}),
      .s_tvalid(valid),
      .s_tready(ready),
      .m_tdata({m_symbol, m_nonzero, m_bad_codes, m_bad_symbol, m_tlast}),
      .m_tvalid,
      .m_tready
  );

endmodule
