// SPDX-License-Identifier: Apache-2.0
//
// A ring of beats in block RAM, cut into banks that are read at an address each.
//
// A bank's output stays as it is while its `read` is low. What is read from an address in the clock
// in which it is written is undefined.
//
//   latency       1 clock
//   throughput    1 beat in and 1 word out of every bank a clock

module wz_ring
  import wz_format_pkg::*;
  import wz_sections_pkg::*;
#(
    parameter int unsigned BANKS = 4,
    localparam int unsigned BANK_W = 8 * BEAT_BYTES / BANKS
) (
    input logic clk,

    input logic                    write,
    input logic [ADDRESS_W-1:0]    write_address,
    input logic [8*BEAT_BYTES-1:0] write_data,

    input  logic [BANKS-1:0]                read,
    input  logic [BANKS-1:0][ADDRESS_W-1:0] read_address,
    output logic [BANKS-1:0][BANK_W-1:0]    read_data
);

  for (genvar b = 0; b < int'(BANKS); b++) begin : g_bank
    (* no_rw_check *)
    logic [BANK_W-1:0] memory[RING_BEATS];
    logic [BANK_W-1:0] data_q;

    assign read_data[b] = data_q;

    always_ff @(posedge clk) begin
      if (write) memory[write_address] <= write_data[b*BANK_W+:BANK_W];
      if (read[b]) begin
        data_q <= memory[read_address[b]];
`ifndef SYNTHESIS
        if (write && write_address == read_address[b]) data_q <= '1;
`endif
      end
    end
  end

endmodule
