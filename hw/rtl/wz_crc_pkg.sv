// SPDX-License-Identifier: Apache-2.0
//
// CRC-32C (docs/format.md, section 5) as matrices.
//
// A CRC over a fixed number of bits is linear: bit j of the next state is the parity of some of the
// bits of state and data. The functions that make the matrices are evaluated at elaboration; what is
// left is one reduction XOR a bit, which a mapper balances (a chain of shifts it does not).
//
// States are without the final XOR. A CRC starts from CRC_INIT and its value is ~state.

package wz_crc_pkg;

  import wz_format_pkg::*;

  localparam int unsigned STEP_BITS = 64;

  // Row j: which of the 64 data bits count towards bit j of the state.
  typedef logic [CRC_BITS-1:0][STEP_BITS-1:0] matrix_t;

  // What 64 bits of data add to the state `zeros` bits later. The state before them counts like
  // data: it is added to their first 32 bits.
  function automatic matrix_t matrix(input int unsigned zeros);
    logic [CRC_BITS-1:0] column;
    column = CRC_POLYNOMIAL;  // of a data bit, once it has been shifted in
    for (int i = 0; i < int'(zeros); i++) column = advance(column);
    for (int i = int'(STEP_BITS) - 1; i >= 0; i--) begin
      for (int j = 0; j < int'(CRC_BITS); j++) matrix[j][i] = column[j];
      column = advance(column);
    end
  endfunction

  // One bit of zero.
  function automatic logic [CRC_BITS-1:0] advance(input logic [CRC_BITS-1:0] state);
    return {1'b0, state[CRC_BITS-1:1]} ^ (state[0] ? CRC_POLYNOMIAL : '0);
  endfunction

  function automatic logic [CRC_BITS-1:0] apply(input matrix_t rows,
                                                input logic [STEP_BITS-1:0] data);
    for (int j = 0; j < int'(CRC_BITS); j++) apply[j] = ^(rows[j] & data);
  endfunction

  localparam matrix_t STEP = matrix(0);

  // The state after 8 more bytes, the first in bits 0 to 7: 3 LUT6 levels.
  function automatic logic [CRC_BITS-1:0] step64(input logic [CRC_BITS-1:0] state,
                                                 input logic [STEP_BITS-1:0] data);
    return apply(STEP, data ^ STEP_BITS'(state));
  endfunction

endpackage
