// SPDX-License-Identifier: Apache-2.0
//
// The Verilated engine as a C library: whole buffers of many blocks go in and come out.
//
// One model is one engine, which one caller at a time may use. It is never reset between calls: a
// call ends when the last packet has left the model, so the model is empty then.

#ifndef WZ_ABI_H_
#define WZ_ABI_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// What a call returns. WZ_TRUNCATED to WZ_UNSUPPORTED are error_e of hw/rtl/wz_pkg.sv.
enum {
  WZ_OK = 0,
  WZ_TRUNCATED = 1,
  WZ_CORRUPT = 2,
  WZ_UNSUPPORTED = 3,
  WZ_FAULT = 4,  // the model broke its contract (see wz_fault); destroy it
};

// Of one direction since wz_create. A stall is a clock in which valid is high and ready is low.
typedef struct {
  uint64_t clocks;  // from the first beat offered to the last beat taken, added up over calls
  uint64_t packets;
  uint64_t input_bytes;
  uint64_t output_bytes;
  uint64_t input_beats;
  uint64_t output_beats;
  uint64_t input_stalls;
  uint64_t output_stalls;
} wz_counters;

typedef struct wz_model wz_model;

// A model after reset, in coding mode. `seed` draws what flops without a reset start with, and when
// either side of a stream waits: for each beat, with probability `stall`, one to eight clocks.
wz_model* wz_create(uint64_t seed, double stall);
void wz_destroy(wz_model* model);

// The width of the streams in bits.
int wz_data_bits(void);

// Codes `bytes` bytes, cut into blocks of `block_bytes`; without `code` they pass as they are.
// `payload` has room for 8 bytes more a block; `lengths` and `coded` take an entry a block: coded
// is 0 where the payload is the block itself.
int wz_encode(wz_model* model, const uint8_t* data, int64_t bytes, int element, int block_bytes,
              int phase, int bare, int code, uint8_t* payload, int32_t* lengths, uint8_t* coded);

// Undoes wz_encode into `out`. On an error other than WZ_FAULT, `block` is the first bad one.
int wz_decode(wz_model* model, const uint8_t* payload, const int32_t* lengths, const uint8_t* coded,
              int element, int block_bytes, int phase, int bare, uint8_t* out, int64_t bytes,
              int64_t* block);

// Of encoding (0) or decoding (1).
wz_counters wz_count(const wz_model* model, int decoding);

// What WZ_FAULT was, with the clock.
const char* wz_fault(const wz_model* model);

// A register of the engine, by its byte address (docs/csr.md).
int wz_read(wz_model* model, uint32_t address, uint32_t* value);
int wz_write(wz_model* model, uint32_t address, uint32_t value);

#ifdef __cplusplus
}
#endif

#endif  // WZ_ABI_H_
