// SPDX-License-Identifier: Apache-2.0
//
// wz_slice behind the memory that it reads.

module slice_bench
  import wz_format_pkg::*;
  import wz_pkg::*;
  import wz_sections_pkg::*;
#(
    parameter logic [5:0] TYPES = 6'b111111
) (
    input logic clk,
    input logic rst,

    input  logic [511:0] s_axis_tdata,
    input  logic [63:0]  s_axis_tkeep,
    input  logic         s_axis_tlast,
    input  logic         s_axis_tvalid,
    output logic         s_axis_tready,

    input  record_job_t s_job,
    input  logic        s_job_valid,
    output logic        s_job_ready,

    input  logic         room,
    output logic [511:0] m_data,
    output window_t      m_info,
    output logic         m_valid
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

  logic read;
  logic [7:0][ADDRESS_W-1:0] address;
  logic [7:0][63:0] data;
  logic [POINTER_W-1:0] holds;

  assign held = {READERS{holds}};

  wz_ring #(
      .BANKS(8)
  ) u_ring (
      .clk,
      .write,
      .write_address,
      .write_data(s_axis_tdata),
      .read({8{read}}),
      .read_address(address),
      .read_data(data)
  );

  wz_slice #(
      .TYPES(TYPES)
  ) u_slice (
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
      .room,
      .m_data,
      .m_info,
      .m_valid
  );

endmodule
