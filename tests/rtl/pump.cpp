// SPDX-License-Identifier: Apache-2.0
//
// Drives the streams of a Verilated module, a buffer a stream, and notes what comes out and when.
//
// Compiled into the library of every module under test (tests/rtl/dut.py). It knows no module:
// ports arrive as the addresses where Verilator keeps them, little-endian, of 1, 2, 4, 8 or 4n
// bytes.
//
// Each clock: inputs are set while the clock is low, the model is evaluated, handshakes are read,
// the clock rises. An idle or stalled input carries random payload. A valid output that is not
// taken must stay as it is.

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "verilated.h"
#if VM_COVERAGE
#include "verilated_cov.h"
#endif

// What PyVerilator's wrapper defines.
extern "C" {
int eval(void* top);
int add_to_vcd_trace(void* trace, int time);
}

namespace {

// The first assertion that failed; Verilator would abort.
std::string g_failure;

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 0x1234567u) {}

  uint64_t next() {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  bool chance(double probability) {
    return static_cast<double>(next() >> 11) * 0x1p-53 < probability;
  }

 private:
  uint64_t state_;
};

struct Field {
  uint8_t* port;
  uint32_t bytes;
  uint32_t bits;
  const uint8_t* data;            // input: what to send, `bytes` a beat
  std::vector<uint8_t> received;  // output: what came
  std::vector<uint8_t> held;      // output: what was offered and not taken
};

struct Stream {
  std::string name;
  bool input;
  uint8_t* valid;  // null: a beat every clock
  uint8_t* ready;  // null: the receiver cannot stall
  double stall;
  uint32_t burst;
  int64_t count;              // input: beats to send
  const int64_t* not_before;  // input: clock from which a beat may be offered, or null
  std::vector<Field> fields;
  std::vector<int64_t> clocks;
  int64_t position = 0;
  uint32_t stalled = 0;  // clocks that this side still waits
  bool offered = false;  // valid was high and not taken
};

enum Result { DONE = 0, CLOCKS = 1, STUCK = 2, FAILED = 3 };

class Pump {
 public:
  Pump(void* top, uint8_t* clk, uint64_t seed, int64_t clock, void* trace)
      : top_(top), clk_(clk), random_(seed), clock_(clock), trace_(trace) {}

  // Runs until `clocks` have passed (negative: no limit), or all input is taken and nothing moved
  // for `drain` clocks, or input is left and nothing moved for `patience` clocks.
  int run(int64_t clocks, int64_t drain, int64_t patience) {
    int64_t idle = 0;
    for (int64_t passed = 0; clocks < 0 || passed < clocks; ++passed) {
      for (Stream& stream : streams) drive(stream);
      eval_and_trace();
      bool moved = false;
      for (Stream& stream : streams) moved |= sample(stream);
      *clk_ = 1;
      eval_and_trace();
      *clk_ = 0;
      ++clock_;
      if (!g_failure.empty()) error = "clock " + std::to_string(clock_ - 1) + ": " + g_failure;
      if (!error.empty()) return finish(FAILED);
      idle = moved ? 0 : idle + 1;
      if (clocks >= 0) continue;
      bool left = false;
      for (const Stream& stream : streams) left |= stream.input && stream.position < stream.count;
      if (!left && idle >= drain) return finish(DONE);
      if (left && idle >= patience) return finish(STUCK);
    }
    return finish(CLOCKS);
  }

  int64_t clock() const { return clock_; }

  std::vector<Stream> streams;
  std::string error;

 private:
  int finish(Result result) {
    for (Stream& stream : streams) {
      if (stream.input && stream.valid) *stream.valid = 0;
      if (!stream.input && stream.ready) *stream.ready = 0;
    }
    eval_and_trace();
    return result;
  }

  bool stalls(Stream& stream) {
    if (stream.stalled == 0 && stream.stall > 0 && random_.chance(stream.stall)) {
      stream.stalled = 1 + static_cast<uint32_t>(random_.next() % stream.burst);
    }
    if (stream.stalled == 0) return false;
    --stream.stalled;
    return true;
  }

  void drive(Stream& stream) {
    if (!stream.input) {
      if (stream.ready) *stream.ready = !stalls(stream);
      return;
    }
    if (!stream.valid || stream.offered) {
      // Nothing to decide: a beat that was offered stays.
    } else {
      bool due = stream.position < stream.count &&
                 (!stream.not_before || stream.not_before[stream.position] <= clock_);
      *stream.valid = due && !stalls(stream);
    }
    bool live = stream.position < stream.count && (!stream.valid || *stream.valid);
    for (Field& field : stream.fields) {
      if (live) {
        memcpy(field.port, field.data + stream.position * field.bytes, field.bytes);
      } else {
        scramble(field);
      }
    }
  }

  void scramble(Field& field) {
    for (uint32_t i = 0; i < field.bytes; i += 8) {
      uint64_t noise = random_.next();
      memcpy(field.port + i, &noise, field.bytes - i < 8 ? field.bytes - i : 8);
    }
    // Bits beyond the width must be zero.
    for (uint32_t i = field.bits / 8; i < field.bytes; ++i) {
      uint32_t kept = field.bits > 8 * i ? field.bits - 8 * i : 0;
      field.port[i] &= kept >= 8 ? 0xff : (1u << kept) - 1;
    }
  }

  bool sample(Stream& stream) {
    bool valid = !stream.valid || *stream.valid;
    bool taken = valid && (!stream.ready || *stream.ready);
    if (stream.input) {
      stream.offered = stream.valid && valid && !taken;
      if (!taken || stream.position >= stream.count) return false;
      stream.clocks.push_back(clock_);
      ++stream.position;
      return true;
    }
    check(stream, valid);
    stream.offered = stream.ready && valid && !taken;
    for (Field& field : stream.fields) {
      if (taken) field.received.insert(field.received.end(), field.port, field.port + field.bytes);
      if (stream.offered) field.held.assign(field.port, field.port + field.bytes);
    }
    if (taken) stream.clocks.push_back(clock_);
    return taken && stream.valid;
  }

  void check(const Stream& stream, bool valid) {
    if (!stream.offered) return;
    const std::string where = "clock " + std::to_string(clock_) + ": " + stream.name + ": ";
    if (!valid) error = where + "valid fell before the beat was taken";
    for (const Field& field : stream.fields) {
      if (valid && memcmp(field.held.data(), field.port, field.bytes)) {
        error = where + "payload changed before the beat was taken";
      }
    }
  }

  void eval_and_trace() {
    eval(top_);
    if (trace_) add_to_vcd_trace(trace_, static_cast<int>(10 * clock_ + 5 * *clk_));
  }

  void* top_;
  uint8_t* clk_;
  Random random_;
  int64_t clock_;
  void* trace_;
};

Pump* cast(void* pump) { return static_cast<Pump*>(pump); }

}  // namespace

// A failing assertion ends the run instead of the process.
void vl_stop(const char* file, int line, const char* module) {
  if (g_failure.empty()) {
    g_failure = std::string(file) + ":" + std::to_string(line) + ": assertion failed";
    if (*module) g_failure += std::string(" in ") + module;
  }
}
void vl_fatal(const char* file, int line, const char* module, const char* message) {
  if (g_failure.empty()) {
    g_failure = std::string(file) + ":" + std::to_string(line) + ": " + message + " in " + module;
  }
}

extern "C" {

// Writes how often each line ran, in all instances that this library still has.
void pump_coverage(const char* file) {
#if VM_COVERAGE
  Verilated::threadContextp()->coveragep()->write(file);
#else
  (void)file;
#endif
}

const char* pump_failure() { return g_failure.c_str(); }
void pump_forget_failure() { g_failure.clear(); }

void* pump_new(void* top, uint8_t* clk, uint64_t seed, int64_t clock, void* trace) {
  return new Pump(top, clk, seed, clock, trace);
}
void pump_delete(void* pump) { delete cast(pump); }

void pump_stream(void* pump, const char* name, bool input, uint8_t* valid, uint8_t* ready,
                 double stall, uint32_t burst, int64_t count, const int64_t* not_before) {
  Stream stream{name, input, valid, ready, stall, burst, count, not_before, {}, {}};
  cast(pump)->streams.push_back(stream);
}
void pump_field(void* pump, uint8_t* port, uint32_t bytes, uint32_t bits, const uint8_t* data) {
  cast(pump)->streams.back().fields.push_back({port, bytes, bits, data, {}, {}});
}

int pump_run(void* pump, int64_t clocks, int64_t drain, int64_t patience) {
  return cast(pump)->run(clocks, drain, patience);
}
int64_t pump_clock(void* pump) { return cast(pump)->clock(); }
const char* pump_error(void* pump) { return cast(pump)->error.c_str(); }

int64_t pump_count(void* pump, int stream) {
  return static_cast<int64_t>(cast(pump)->streams[stream].clocks.size());
}
const int64_t* pump_clocks(void* pump, int stream) {
  return cast(pump)->streams[stream].clocks.data();
}
const uint8_t* pump_received(void* pump, int stream, int field) {
  return cast(pump)->streams[stream].fields[field].received.data();
}

}  // extern "C"
