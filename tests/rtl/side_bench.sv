// SPDX-License-Identifier: Apache-2.0
//
// wz_side_words behind the memory that it reads.

module side_bench
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

    input  low_job_t s_low,
    input  logic     s_low_valid,
    output logic     s_low_ready,
    input  logic     room,

    input  escape_job_t s_escape,
    input  logic        s_escape_valid,
    output logic        s_escape_ready,

    output logic [127:0] m_low_tdata,
    output logic [6:0]   m_low_used,
    output logic         m_low_remainder,
    output logic         m_low_emit,
    output logic         m_low_last,
    output logic         m_low_tvalid,

    output logic [127:0] m_escape_tdata,
    output logic [3:0]   m_escape_shift,
    output logic         m_escape_first,
    output logic         m_escape_last,
    output logic         m_escape_flush,
    output logic         m_escape_tvalid,
    input  logic         m_escape_tready
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

  logic [1:0][POINTER_W-1:0] holds;
  unpack_t unpack;

  assign held = {holds, holds};

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

  wz_side_words u_words (
      .clk,
      .rst,
      .progress,
      .s_low,
      .s_low_valid,
      .s_low_ready,
      .s_low_room(room),
      .s_escape,
      .s_escape_valid,
      .s_escape_ready,
      .held(holds),
      .read,
      .read_address(address),
      .read_data(data),
      .m_low_tdata,
      .m_low_used,
      .m_low_remainder,
      .m_low_emit,
      .m_low_last,
      .m_low_unpack(unpack),
      .m_low_tvalid,
      .m_escape_tdata,
      .m_escape_shift,
      .m_escape_first,
      .m_escape_last,
      .m_escape_flush,
      .m_escape_tvalid,
      .m_escape_tready
  );

endmodule
