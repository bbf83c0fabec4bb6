// SPDX-License-Identifier: Apache-2.0
//
// AXI4-Lite subordinate in front of the register block: one access at a time, every output a flop.
//
// An access is held in flops while the registers look at it, and so is their answer: the decoders
// have a clock of their own. Reads and writes take turns where both wait.
//
//   latency       from valid to response 3 clocks, and what the registers take to answer
//   throughput    an access in 4 clocks, and what the registers take to answer
//   back-pressure an address (and data) is taken only when the access before has been answered

module wz_axil #(
    parameter int unsigned ADDRESS_W = 12
) (
    input logic clk,
    input logic rst,  // synchronous, active high

    input  logic [ADDRESS_W-1:0] s_axil_awaddr,
    input  logic [          2:0] s_axil_awprot,
    input  logic                 s_axil_awvalid,
    output logic                 s_axil_awready,
    input  logic [         31:0] s_axil_wdata,
    input  logic [          3:0] s_axil_wstrb,
    input  logic                 s_axil_wvalid,
    output logic                 s_axil_wready,
    output logic [          1:0] s_axil_bresp,
    output logic                 s_axil_bvalid,
    input  logic                 s_axil_bready,
    input  logic [ADDRESS_W-1:0] s_axil_araddr,
    input  logic [          2:0] s_axil_arprot,
    input  logic                 s_axil_arvalid,
    output logic                 s_axil_arready,
    output logic [         31:0] s_axil_rdata,
    output logic [          1:0] s_axil_rresp,
    output logic                 s_axil_rvalid,
    input  logic                 s_axil_rready,

    // To the registers: a request for one clock; the answer in that clock or later.
    output logic                 request,
    output logic                 is_write,
    output logic [ADDRESS_W-1:0] address,
    output logic [         31:0] write_data,
    output logic [         31:0] write_bits,  // which bits to write
    input  logic                 ack,
    input  logic                 error,
    input  logic [         31:0] read_data
);

  typedef enum logic [2:0] {
    IDLE,
    ACCEPT,  // ready is high; what was valid still is
    REQUEST,
    WAIT,  // for the answer
    RESPOND
  } state_e;

  state_e state_q;
  logic write_q, error_q, bvalid_q, rvalid_q, request_q, write_ready_q, read_ready_q;
  logic [ADDRESS_W-1:0] address_q;
  logic [31:0] write_data_q, read_data_q;
  logic [3:0] strobe_q;
  logic write_waits;

  // After a write a waiting read comes first, and the reverse.
  assign write_waits = s_axil_awvalid && s_axil_wvalid;

  assign s_axil_awready = write_ready_q;
  assign s_axil_wready = write_ready_q;
  assign s_axil_arready = read_ready_q;
  assign s_axil_bvalid = bvalid_q;
  assign s_axil_rvalid = rvalid_q;
  assign s_axil_bresp = {error_q, 1'b0};
  assign s_axil_rresp = {error_q, 1'b0};
  assign s_axil_rdata = read_data_q;
  assign request = request_q;
  assign is_write = write_q;
  assign address = address_q;
  assign write_data = write_data_q;
  for (genvar i = 0; i < 32; i++) begin : g_bits
    assign write_bits[i] = strobe_q[i/8];
  end

  always_ff @(posedge clk) begin
    write_ready_q <= 1'b0;
    read_ready_q <= 1'b0;
    request_q <= 1'b0;
    unique case (state_q)
      IDLE: begin
        if (write_waits && !(s_axil_arvalid && write_q)) begin
          write_q <= 1'b1;
          write_ready_q <= 1'b1;
          state_q <= ACCEPT;
        end else if (s_axil_arvalid) begin
          write_q <= 1'b0;
          read_ready_q <= 1'b1;
          state_q <= ACCEPT;
        end
      end
      ACCEPT: begin
        address_q <= write_q ? s_axil_awaddr : s_axil_araddr;
        write_data_q <= s_axil_wdata;
        strobe_q <= s_axil_wstrb;
        request_q <= 1'b1;
        state_q <= REQUEST;
      end
      REQUEST, WAIT: begin
        error_q <= error;
        read_data_q <= read_data;
        bvalid_q <= ack && write_q;
        rvalid_q <= ack && !write_q;
        state_q <= ack ? RESPOND : WAIT;
      end
      default: begin
        if (write_q ? s_axil_bready : s_axil_rready) begin
          bvalid_q <= 1'b0;
          rvalid_q <= 1'b0;
          state_q  <= IDLE;
        end
      end
    endcase

    if (rst) begin
      state_q <= IDLE;
      write_q <= 1'b0;
      write_ready_q <= 1'b0;
      read_ready_q <= 1'b0;
      request_q <= 1'b0;
      bvalid_q <= 1'b0;
      rvalid_q <= 1'b0;
    end
  end

  // All accesses are served alike.
  wire unused = &{1'b0, s_axil_awprot, s_axil_arprot};

`ifndef SYNTHESIS
  a_bvalid : assert property (@(posedge clk) disable iff (rst)
      s_axil_bvalid && !s_axil_bready |=> s_axil_bvalid && $stable(s_axil_bresp));
  a_rvalid : assert property (@(posedge clk) disable iff (rst)
      s_axil_rvalid && !s_axil_rready |=>
      s_axil_rvalid && $stable({s_axil_rresp, s_axil_rdata}));
  // What is taken was still offered; a clock later it is requested; a clock after the answer, given.
  a_write_taken : assert property (@(posedge clk) disable iff (rst)
      s_axil_awready |-> s_axil_awvalid && s_axil_wvalid);
  a_read_taken : assert property (@(posedge clk) disable iff (rst)
      s_axil_arready |-> s_axil_arvalid);
  a_request : assert property (@(posedge clk) disable iff (rst)
      s_axil_awready || s_axil_arready |=> request);
  a_response : assert property (@(posedge clk) disable iff (rst)
      ack |=> s_axil_bvalid || s_axil_rvalid);
  a_answer : assert property (@(posedge clk) disable iff (rst)
      ack |-> state_q == REQUEST || state_q == WAIT);
`endif

endmodule
