// SPDX-License-Identifier: Apache-2.0
//
// What the parts of wz_restore need to know of a plan: each gets a queue of its own share, so that
// several frames can be on their way.

package wz_restore_pkg;

  import wz_format_pkg::*;
  import wz_pkg::*;

  // wz_symbol_table: a frame with symbols.
  typedef struct packed {
    element_type_e element;
    coder_e coder;
    logic [BASE_BITS-1:0] base;
    logic [PATH_BITS-1:0] path;
    logic [ZERO_RANK_BITS-1:0] zero_rank;
  } table_job_t;

  // wz_unrank: a frame with symbols.
  typedef struct packed {
    element_type_e element;
    coder_e coder;
    logic [12:0] values;  // stored ones, at least 1
    logic [UNARY_BYTES_BITS-1:0] unary_bytes;
    logic no_escapes;
  } rank_job_t;

  // wz_escape_insert: a frame with escapes.
  typedef struct packed {
    element_type_e element;
    logic [ESCAPES_BITS-1:0] escapes;
  } escape_job_t;

  // wz_carrier_place: any frame.
  typedef struct packed {
    element_type_e element;
    logic symbols;  // its stored beats have symbols
    logic bare;  // values of symbol 0 have no carrier
    logic no_carriers;
    logic [5:0] carrier_last_beat;
    logic [5:0] carrier_last_value;  // in the last beat
    logic [63:0] stored_beats;
    logic [6:0] value_beats;  // stored_beats counts below this
    logic [5:0] last_beat;  // of the block
  } place_job_t;

  // wz_unalign: any frame.
  typedef struct packed {
    element_type_e element;
    logic constant;
    logic [5:0] last_beat;
    logic [5:0] last_byte;  // in the last beat
    logic [1:0] head_bytes;
    logic [23:0] head;
    logic [1:0] tail_bytes;
    logic [11:0] tail_at;  // its place among the bytes behind the head
    logic [31:0] fill;  // tail or pattern, zero above
  } align_job_t;

  // wz_seal: any frame.
  typedef struct packed {
    logic [127:0] header;
    mode_e mode;
    logic coded;  // a frame, with a CRC
  } seal_job_t;

  // A build for one type folds to it.
  function automatic element_type_e built(input logic [5:0] types, input element_type_e element);
    built = element;
    for (int tag = 0; tag < 6; tag++) begin
      if (types == 6'(1 << tag)) built = element_type_e'(3'(tag));
    end
  endfunction

  // Values of a beat, as a power of two.
  function automatic logic [2:0] values_log2(input element_type_e element);
    return 3'd6 - 3'(width_log2(element));
  endfunction

endpackage
