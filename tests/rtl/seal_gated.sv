// SPDX-License-Identifier: Apache-2.0
//
// wz_seal with a beat coming only where there is room, as from wz_unalign.

module seal_gated
  import wz_pkg::*;
  import wz_format_pkg::*;
  import wz_restore_pkg::*;
(
    input logic clk,
    input logic rst,

    input  seal_job_t s_job_tdata,
    input  logic      s_job_tvalid,
    output logic      s_job_tready,

    input  error_e s_status_tdata,
    input  logic   s_status_late,
    input  logic   s_status_tvalid,
    output logic   s_status_tready,

    input  logic [511:0] s_tdata,
    input  logic [5:0]   s_last_byte,
    input  logic         s_bad_codes,
    input  logic         s_bad,
    input  logic         s_tlast,
    input  logic         s_tvalid,
    output logic         s_tready,

    output logic [511:0] m_axis_tdata,
    output logic [63:0]  m_axis_tkeep,
    output logic         m_axis_tlast,
    output error_e       m_axis_tuser,
    output logic         m_axis_tvalid,
    input  logic         m_axis_tready,

    output logic   event_valid,
    output logic   event_coded,
    output mode_e  event_mode,
    output error_e event_error
);

  wz_seal u_seal (
      .clk,
      .rst,
      .s_job_tdata,
      .s_job_tvalid,
      .s_job_tready,
      .s_status_tdata,
      .s_status_late,
      .s_status_tvalid,
      .s_status_tready,
      .s_tdata,
      .s_last_byte,
      .s_bad_codes,
      .s_bad,
      .s_tlast,
      .s_tvalid(s_tvalid && s_tready),
      .room(s_tready),
      .m_axis_tdata,
      .m_axis_tkeep,
      .m_axis_tlast,
      .m_axis_tuser,
      .m_axis_tvalid,
      .m_axis_tready,
      .event_valid,
      .event_coded,
      .event_mode,
      .event_error
  );

endmodule
