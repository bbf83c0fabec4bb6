// SPDX-License-Identifier: Apache-2.0
//
// wz_unary_words behind the memory that it reads.

module unary_bench
  import wz_format_pkg::*;
  import wz_pkg::*;
  import wz_sections_pkg::*;
(
    input logic clk,
    input logic rst,

    input  logic [511:0] s_axis_tdata,
    input  logic [63:0]  s_axis_tkeep,
    input  logic         s_axis_tlast,
    input  logic         s_axis_tvalid,
    output logic         s_axis_tready,

    input  unary_job_t s_job,
    input  logic       s_job_valid,
    output logic       s_job_ready,

    output logic [127:0] m_tdata,
    output logic         m_tlast,
    output logic         m_tvalid,
    input  logic         m_tready
);

  progress_t progress;
  logic write;
  logic [ADDRESS_W-1:0] write_address;
  logic [READERS-1:0][POINTER_W-1:0] held;
  first_t first;
  logic [PACKET_BYTES_W-1:0] end_bytes;
  logic first_valid, end_valid;

  wz_intake u_intake (
      .clk,
      .rst,
      .s_axis_tdata(s_axis_tdata[8*FIRST_BYTES-1:0]),
      .s_axis_tkeep,
      .s_axis_tlast,
      .s_axis_tuser('0),
      .s_axis_tvalid,
      .s_axis_tready,
      .stall(1'b0),
      .held,
      .write,
      .write_address,
      .progress,
      .m_first(first),
      .m_first_valid(first_valid),
      .m_end_bytes(end_bytes),
      .m_end_valid(end_valid)
  );

  logic [POINTER_W-1:0] holds;

  assign held = {READERS{holds}};

  logic [WORDS-1:0] read;
  logic [WORDS-1:0][ADDRESS_W-1:0] address;
  logic [WORDS-1:0][127:0] data;

  wz_ring #(
      .BANKS(WORDS)
  ) u_ring (
      .clk,
      .write,
      .write_address,
      .write_data(s_axis_tdata),
      .read,
      .read_address(address),
      .read_data(data)
  );

  wz_unary_words u_words (
      .clk,
      .rst,
      .progress,
      .s_job,
      .s_valid(s_job_valid),
      .s_ready(s_job_ready),
      .held(holds),
      .read,
      .read_address(address),
      .read_data(data),
      .m_tdata,
      .m_tlast,
      .m_tvalid,
      .m_tready
  );

endmodule
