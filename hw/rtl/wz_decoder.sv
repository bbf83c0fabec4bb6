// SPDX-License-Identifier: Apache-2.0
//
// Decoder: blocks from packets (docs/format.md, sections 4 to 8 and 11).
//
// Every packet gives one block, in order; one that is not valid is marked in m_axis_tuser at its
// last beat, has the length that its header says and otherwise undefined bytes, or is one byte if the
// header is refused. It never stalls on its own account and never gives more than a block.
//
//   latency       first beat in to first beat out, DATA_W = 512, LANES = 32, coded blocks of 4 KiB:
//                 at most 62 clocks for BF16, 74 for FP16, 76 for FP32, 90 for FP8. More where
//                 values of the first groups escape, since escapes come last in a frame, behind up to
//                 52 beats: BF16 with coder R0 up to 66, R1 70, R2 and F2 74
//   throughput    a beat of DATA_W bits a clock in or out, whichever is more, with LANES = DATA_W / 16
//                 (DATA_W / 8 for FP8); at least 8 clocks a coded frame, 16 with coder R2
//   back-pressure s_axis_tready falls while a beat waits in wz_width_up: it follows a flop of
//                 wz_sections by one gate. m_axis_* but tuser are flops with DATA_W = 128
//                 and 256, m_axis_tdata with 512

module wz_decoder
  import wz_format_pkg::*;
  import wz_pkg::*;
  import wz_sections_pkg::*;
#(
    parameter int unsigned DATA_W = 512,  // 128, 256 or 512
    parameter int unsigned LANES = DATA_W / 16,  // values a clock in the symbol path: 8 to 64
    parameter logic [5:0] TYPES = 6'b111111,  // element types that are built, bit = tag
    localparam int unsigned KEEP_W = DATA_W / 8
) (
    input logic clk,
    input logic rst,  // synchronous, active high
    input logic bare,  // static: frames must be shorter than their blocks and not raw

    input  logic         [DATA_W-1:0] s_axis_tdata,
    input  logic         [KEEP_W-1:0] s_axis_tkeep,
    input  logic                      s_axis_tlast,
    input  packet_user_t              s_axis_tuser,  // at the first beat
    input  logic                      s_axis_tvalid,
    output logic                      s_axis_tready,

    output logic   [DATA_W-1:0] m_axis_tdata,
    output logic   [KEEP_W-1:0] m_axis_tkeep,
    output logic                m_axis_tlast,
    output error_e              m_axis_tuser,  // at the last beat
    output logic                m_axis_tvalid,
    input  logic                m_axis_tready,

    // A packet has left.
    output logic   event_valid,
    output logic   event_coded,
    output mode_e  event_mode,
    output error_e event_error
);

  logic [511:0] in_data;
  logic [63:0] in_keep;
  logic in_last, in_valid, in_ready;
  packet_user_t in_user;

  wz_width_up #(
      .DATA_W(DATA_W),
      .USER_W($bits(packet_user_t))
  ) u_up (
      .clk,
      .rst,
      .s_axis_tdata,
      .s_axis_tkeep,
      .s_axis_tlast,
      .s_axis_tuser,
      .s_axis_tvalid,
      .s_axis_tready,
      .m_axis_tdata(in_data),
      .m_axis_tkeep(in_keep),
      .m_axis_tlast(in_last),
      .m_axis_tuser(in_user),
      .m_axis_tvalid(in_valid),
      .m_axis_tready(in_ready)
  );

  plan_t plan;
  logic plan_valid, plan_ready;
  logic [511:0] carrier, escape;
  logic carrier_valid, carrier_ready, escape_valid, escape_ready;
  logic [2*LANES-1:0] low;
  logic low_valid, low_ready;
  logic [127:0] unary;
  logic unary_last, unary_valid, unary_ready;
  error_e status;
  logic status_late, status_valid, status_ready;

  wz_sections #(
      .TYPES(TYPES),
      .LANES(LANES)
  ) u_sections (
      .clk,
      .rst,
      .bare,
      .s_axis_tdata(in_data),
      .s_axis_tkeep(in_keep),
      .s_axis_tlast(in_last),
      .s_axis_tuser(in_user),
      .s_axis_tvalid(in_valid),
      .s_axis_tready(in_ready),
      .m_plan_tdata(plan),
      .m_plan_tvalid(plan_valid),
      .m_plan_tready(plan_ready),
      .m_carrier_tdata(carrier),
      .m_carrier_tvalid(carrier_valid),
      .m_carrier_tready(carrier_ready),
      .m_low_tdata(low),
      .m_low_tvalid(low_valid),
      .m_low_tready(low_ready),
      .m_unary_tdata(unary),
      .m_unary_tlast(unary_last),
      .m_unary_tvalid(unary_valid),
      .m_unary_tready(unary_ready),
      .m_escape_tdata(escape),
      .m_escape_tvalid(escape_valid),
      .m_escape_tready(escape_ready),
      .m_status_tdata(status),
      .m_status_late(status_late),
      .m_status_tvalid(status_valid),
      .m_status_tready(status_ready)
  );

  logic [511:0] out_data;
  logic [63:0] out_keep;
  logic out_last, out_valid, out_ready;
  error_e out_user;

  wz_restore #(
      .LANES(LANES),
      .TYPES(TYPES)
  ) u_restore (
      .clk,
      .rst,
      .s_plan_tdata(plan),
      .s_plan_tvalid(plan_valid),
      .s_plan_tready(plan_ready),
      .s_carrier_tdata(carrier),
      .s_carrier_tvalid(carrier_valid),
      .s_carrier_tready(carrier_ready),
      .s_low_tdata(low),
      .s_low_tvalid(low_valid),
      .s_low_tready(low_ready),
      .s_unary_tdata(unary),
      .s_unary_tlast(unary_last),
      .s_unary_tvalid(unary_valid),
      .s_unary_tready(unary_ready),
      .s_escape_tdata(escape),
      .s_escape_tvalid(escape_valid),
      .s_escape_tready(escape_ready),
      .s_status_tdata(status),
      .s_status_late(status_late),
      .s_status_tvalid(status_valid),
      .s_status_tready(status_ready),
      .m_axis_tdata(out_data),
      .m_axis_tkeep(out_keep),
      .m_axis_tlast(out_last),
      .m_axis_tuser(out_user),
      .m_axis_tvalid(out_valid),
      .m_axis_tready(out_ready),
      .event_valid,
      .event_coded,
      .event_mode,
      .event_error
  );

  if (DATA_W == 512) begin : g_same
    // The data at wz_restore's output is a flop as it is: a clock less.
    assign {m_axis_tdata, m_axis_tkeep, m_axis_tlast} = {out_data, out_keep, out_last};
    assign m_axis_tuser  = out_user;
    assign m_axis_tvalid = out_valid;
    assign out_ready     = m_axis_tready;
  end else begin : g_down
    logic [1:0] user;
    wz_width_down #(
        .DATA_W(DATA_W),
        .USER_W(2)
    ) u_down (
        .clk,
        .rst,
        .s_axis_tdata(out_data),
        .s_axis_tkeep(out_keep),
        .s_axis_tlast(out_last),
        .s_axis_tuser(out_user),
        .s_axis_tvalid(out_valid),
        .s_axis_tready(out_ready),
        .m_axis_tdata,
        .m_axis_tkeep,
        .m_axis_tlast,
        .m_axis_tuser(user),
        .m_axis_tvalid,
        .m_axis_tready
    );
    assign m_axis_tuser = m_axis_tlast ? error_e'(user) : ERROR_NONE;
  end

endmodule
