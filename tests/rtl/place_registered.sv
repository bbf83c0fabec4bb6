// SPDX-License-Identifier: Apache-2.0
//
// wz_carrier_place with the register that its outputs need.

module place_registered
  import wz_restore_pkg::*;
#(
    parameter int unsigned LANES = 32,
    parameter logic [5:0] TYPES = 6'b111111
) (
    input logic clk,
    input logic rst,

    input  place_job_t s_job_tdata,
    input  logic       s_job_tvalid,
    output logic       s_job_tready,

    input  logic [LANES-1:0][7:0] s_symbol_tdata,
    input  logic [LANES-1:0]      s_symbol_nonzero,
    input  logic                  s_symbol_bad_codes,
    input  logic                  s_symbol_bad,
    input  logic                  s_symbol_tlast,
    input  logic                  s_symbol_tvalid,
    output logic                  s_symbol_tready,

    input  logic [511:0] s_carrier_tdata,
    input  logic         s_carrier_tvalid,
    output logic         s_carrier_tready,

    output logic [511:0] m_tdata,
    output logic         m_bad_codes,
    output logic         m_bad,
    output logic         m_tlast,
    output logic         m_tvalid,
    input  logic         m_tready
);

  logic [511:0] data;
  logic bad_codes, bad, last, valid, ready;

  wz_carrier_place #(
      .LANES(LANES),
      .TYPES(TYPES)
  ) u_place (
      .clk,
      .rst,
      .s_job_tdata,
      .s_job_tvalid,
      .s_job_tready,
      .s_symbol_tdata,
      .s_symbol_nonzero,
      .s_symbol_bad_codes,
      .s_symbol_bad,
      .s_symbol_tlast,
      .s_symbol_tvalid,
      .s_symbol_tready,
      .s_carrier_tdata,
      .s_carrier_tvalid,
      .s_carrier_tready,
      .m_tdata(data),
      .m_bad_codes(bad_codes),
      .m_bad(bad),
      .m_tlast(last),
      .m_tvalid(valid),
      .m_tready(ready)
  );

  wz_skid #(
      .W(515)
  ) u_out (
      .clk,
      .rst,
      .s_tdata({data, bad_codes, bad, last}),
      .s_tvalid(valid),
      .s_tready(ready),
      .m_tdata({m_tdata, m_bad_codes, m_bad, m_tlast}),
      .m_tvalid,
      .m_tready
  );

endmodule
