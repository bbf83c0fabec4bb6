// SPDX-License-Identifier: Apache-2.0
//
// wz_engine behind wz_abi.h: drives its streams and takes what comes out, clock by clock.
//
// A clock costs two evaluations: inputs are set and handshakes read while the clock is low, then it
// rises. Only what the hardware cannot see is checked here: that there is one packet out for each
// packet in, no longer than allowed, and that something moves.

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "Vwz_engine.h"
#include "verilated.h"
#include "wz_abi.h"

namespace {

constexpr int kBeatBytes = DATA_W / 8;
constexpr int kResetClocks = 4;
constexpr int kLongestStall = 8;
// Nothing moves for so many clocks: it never will. A block is 256 beats at most.
constexpr int kPatience = 4096;

// hw/csr/wz_csr.rdl: the encoder's registers, and how far behind the decoder's are.
constexpr uint32_t kControl = 0x010;
constexpr uint32_t kStatus = 0x014;
constexpr uint32_t kDecoder = 0x010;
constexpr uint32_t kEnable = 1u << 0;
constexpr uint32_t kBare = 1u << 1;

struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

 private:
  uint64_t state_;
};

// One side of a stream that waits at random.
class Stalls {
 public:
  Stalls(Random& random, double probability)
      : random_(random), limit_(static_cast<uint64_t>(probability * 0x1p32)) {}

  bool wait() {
    if (limit_ == 0) return false;
    if (left_ == 0 && (random_.next() & 0xffffffffu) < limit_) {
      left_ = 1 + static_cast<int>(random_.next() % kLongestStall);
    }
    if (left_ == 0) return false;
    --left_;
    return true;
  }

 private:
  Random& random_;
  uint64_t limit_;
  int left_ = 0;
};

// The ports of one direction, by where Verilator keeps them.
template <typename Keep>
struct Ports {
  uint8_t* in_data;
  Keep* in_keep;
  uint8_t* in_last;
  uint8_t* in_valid;
  const uint8_t* in_ready;
  const uint8_t* out_data;
  const Keep* out_keep;
  const uint8_t* out_last;
  const uint8_t* out_user;
  const uint8_t* out_valid;
  uint8_t* out_ready;
};

// Packets that go in, and where what comes out is put.
class Job {
 public:
  virtual ~Job() = default;
  virtual int64_t packets() const = 0;
  virtual const uint8_t* data(int64_t packet) = 0;
  virtual int64_t bytes(int64_t packet) const = 0;
  virtual uint32_t user(int64_t packet) const = 0;
  // At the first beat of a packet that comes out: where it goes, and how long it may be.
  virtual uint8_t* place(int64_t packet, int64_t* room) = 0;
  virtual void finished(int64_t packet, int64_t bytes, int user) = 0;
};

}  // namespace

// Verilator calls these; it would end the process.
void vl_stop(const char* file, int line, const char* module) {
  (void)module;
  throw Fault(std::string(file) + ":" + std::to_string(line) + ": assertion failed");
}
void vl_fatal(const char* file, int line, const char* module, const char* message) {
  throw Fault(std::string(file ? file : "") + ":" + std::to_string(line) + ": " + message + " in " +
              (module ? module : ""));
}

struct wz_model {
 public:
  using Keep = std::remove_reference_t<decltype(Vwz_engine::s_axis_enc_tkeep)>;

  wz_model(uint64_t seed, double stall)
      : random_(seed), probability_(stall), context_(new VerilatedContext) {
    context_->randSeed(static_cast<int>(seed % 0x7fffffff) + 1);
    context_->randReset(2);
    // Assertions hold from reset on; before, flops hold anything.
    context_->assertOn(false);
    top_.reset(new Vwz_engine(context_.get(), "wz_engine"));
    enc_ = {bytes_of(top_->s_axis_enc_tdata), &top_->s_axis_enc_tkeep,
            &top_->s_axis_enc_tlast,          &top_->s_axis_enc_tvalid,
            &top_->s_axis_enc_tready,         bytes_of(top_->m_axis_enc_tdata),
            &top_->m_axis_enc_tkeep,          &top_->m_axis_enc_tlast,
            &top_->m_axis_enc_tuser,          &top_->m_axis_enc_tvalid,
            &top_->m_axis_enc_tready};
    dec_ = {bytes_of(top_->s_axis_dec_tdata), &top_->s_axis_dec_tkeep,
            &top_->s_axis_dec_tlast,          &top_->s_axis_dec_tvalid,
            &top_->s_axis_dec_tready,         bytes_of(top_->m_axis_dec_tdata),
            &top_->m_axis_dec_tkeep,          &top_->m_axis_dec_tlast,
            &top_->m_axis_dec_tuser,          &top_->m_axis_dec_tvalid,
            &top_->m_axis_dec_tready};
    zero_inputs();
    top_->rst = 1;
    for (int i = 0; i < kResetClocks; ++i) tick();
    top_->rst = 0;
    context_->assertOn(true);
    tick();
  }

  void encode(Job& job, bool bare) {
    enable(0, bare);
    run(job, enc_, counters_[0],
        [this](uint32_t user) { top_->s_axis_enc_tuser = static_cast<uint8_t>(user); });
  }
  void decode(Job& job, bool bare) {
    enable(1, bare);
    run(job, dec_, counters_[1], [this](uint32_t user) { top_->s_axis_dec_tuser = user; });
  }

  uint32_t read(uint32_t address);
  void write(uint32_t address, uint32_t value);

  const wz_counters& counters(int decoding) const { return counters_[decoding]; }

  std::string fault;

 private:
  template <typename Port>
  static uint8_t* bytes_of(Port& port) {
    static_assert(sizeof(Port) == kBeatBytes, "a beat is stored without padding");
    return reinterpret_cast<uint8_t*>(&port);
  }

  void zero_inputs();
  void enable(int decoding, bool bare);

  void rise() {
    top_->clk = 1;
    top_->eval();
    ++clock_;
  }
  void tick() {
    top_->clk = 0;
    top_->eval();
    rise();
  }

  template <typename SetUser>
  void run(Job& job, Ports<Keep>& ports, wz_counters& counters, SetUser set_user);

  Random random_;
  double probability_;
  std::unique_ptr<VerilatedContext> context_;
  std::unique_ptr<Vwz_engine> top_;
  Ports<Keep> enc_;
  Ports<Keep> dec_;
  wz_counters counters_[2] = {};
  uint32_t control_[2] = {};  // as last written; after reset both directions are in bypass
  uint64_t clock_ = 0;
};

void wz_model::zero_inputs() {
  for (Ports<Keep>* ports : {&enc_, &dec_}) {
    memset(ports->in_data, 0, kBeatBytes);
    *ports->in_keep = 0;
    *ports->in_last = 0;
    *ports->in_valid = 0;
    *ports->out_ready = 0;
  }
  top_->s_axis_enc_tuser = 0;
  top_->s_axis_dec_tuser = 0;
  memset(bytes_of(top_->s_axis_ref_tdata), 0, kBeatBytes);
  top_->s_axis_ref_tkeep = 0;
  top_->s_axis_ref_tlast = 0;
  top_->s_axis_ref_tvalid = 0;
  top_->s_axil_awaddr = 0;
  top_->s_axil_awprot = 0;
  top_->s_axil_awvalid = 0;
  top_->s_axil_wdata = 0;
  top_->s_axil_wstrb = 0;
  top_->s_axil_wvalid = 0;
  top_->s_axil_bready = 0;
  top_->s_axil_araddr = 0;
  top_->s_axil_arprot = 0;
  top_->s_axil_arvalid = 0;
  top_->s_axil_rready = 0;
}

template <typename SetUser>
void wz_model::run(Job& job, Ports<Keep>& ports, wz_counters& counters, SetUser set_user) {
  const int64_t packets = job.packets();
  Stalls source(random_, probability_), sink(random_, probability_);
  const uint8_t* data = nullptr;
  int64_t sent = 0, left = 0;  // packets that are in, bytes of the next one that are not
  uint8_t* place = nullptr;
  int64_t received = 0, room = 0, length = 0;  // packets that are out, and the next one
  bool offered = false;
  int idle = 0;

  while (received < packets) {
    if (!offered) {
      const bool offer = sent < packets && !source.wait();
      *ports.in_valid = offer;
      if (offer) {
        if (left == 0) {
          data = job.data(sent);
          left = job.bytes(sent);
          set_user(job.user(sent));
        }
        const int size = left < kBeatBytes ? static_cast<int>(left) : kBeatBytes;
        memcpy(ports.in_data, data, size);
        memset(ports.in_data + size, 0, kBeatBytes - size);
        *ports.in_keep = static_cast<Keep>(~uint64_t{0} >> (64 - size));
        *ports.in_last = left == size;
        offered = true;
      }
    }
    *ports.out_ready = !sink.wait();
    top_->clk = 0;
    top_->eval();

    bool moved = false;
    if (offered) {
      if (*ports.in_ready) {
        const int size = left < kBeatBytes ? static_cast<int>(left) : kBeatBytes;
        data += size;
        left -= size;
        sent += left == 0;
        offered = false;
        moved = true;
        ++counters.input_beats;
        counters.input_bytes += size;
      } else {
        ++counters.input_stalls;
      }
    }
    if (*ports.out_valid) {
      if (*ports.out_ready) {
        if (length == 0) place = job.place(received, &room);
        const uint64_t keep = *ports.out_keep;
        const int size = __builtin_popcountll(keep);
        if (size == 0 || keep != ~uint64_t{0} >> (64 - size)) throw Fault("tkeep has gaps");
        if (!*ports.out_last && size != kBeatBytes) throw Fault("short beat inside a packet");
        if (length + size > room) {
          throw Fault("packet " + std::to_string(received) + " is longer than " +
                      std::to_string(room));
        }
        memcpy(place + length, ports.out_data, size);
        length += size;
        moved = true;
        ++counters.output_beats;
        counters.output_bytes += size;
        if (*ports.out_last) {
          job.finished(received, length, *ports.out_user);
          ++received;
          length = 0;
        }
        if (received > sent) throw Fault("a packet left before it had been taken in");
      } else {
        ++counters.output_stalls;
      }
    }
    rise();
    ++counters.clocks;
    idle = moved ? 0 : idle + 1;
    if (idle > kPatience) {
      throw Fault("nothing moved for " + std::to_string(kPatience) +
                  " clocks: " + std::to_string(sent) + " packets are in, " +
                  std::to_string(received) + " out, of " + std::to_string(packets));
    }
  }
  counters.packets += packets;
  *ports.in_valid = 0;
  *ports.out_ready = 0;
}

// Lets a direction code, and says which frames are allowed. The engine is empty between calls, so
// this takes effect before the next packet.
void wz_model::enable(int decoding, bool bare) {
  const uint32_t control = kEnable | (bare ? kBare : 0);
  if (control_[decoding] == control) return;
  const uint32_t offset = decoding ? kDecoder : 0;
  write(kControl + offset, control);
  for (int left = kPatience; left; --left) {
    if (read(kStatus + offset) & kEnable) {
      control_[decoding] = control;
      return;
    }
  }
  throw Fault("still in bypass");
}

void wz_model::write(uint32_t address, uint32_t value) {
  top_->s_axil_awaddr = address;
  top_->s_axil_wdata = value;
  top_->s_axil_wstrb = 0xf;
  top_->s_axil_awvalid = 1;
  top_->s_axil_wvalid = 1;
  top_->s_axil_bready = 1;
  for (int left = kPatience; left; --left) {
    top_->clk = 0;
    top_->eval();
    const bool address_taken = top_->s_axil_awvalid && top_->s_axil_awready;
    const bool data_taken = top_->s_axil_wvalid && top_->s_axil_wready;
    const bool done = top_->s_axil_bvalid;
    if (done && top_->s_axil_bresp) throw Fault("write to " + std::to_string(address) + " refused");
    rise();
    if (address_taken) top_->s_axil_awvalid = 0;
    if (data_taken) top_->s_axil_wvalid = 0;
    if (done) {
      top_->s_axil_bready = 0;
      return;
    }
  }
  throw Fault("write to " + std::to_string(address) + " got no answer");
}

uint32_t wz_model::read(uint32_t address) {
  top_->s_axil_araddr = address;
  top_->s_axil_arvalid = 1;
  top_->s_axil_rready = 1;
  for (int left = kPatience; left; --left) {
    top_->clk = 0;
    top_->eval();
    const bool taken = top_->s_axil_arvalid && top_->s_axil_arready;
    const bool done = top_->s_axil_rvalid;
    const uint32_t value = top_->s_axil_rdata;
    if (done && top_->s_axil_rresp) throw Fault("read of " + std::to_string(address) + " refused");
    rise();
    if (taken) top_->s_axil_arvalid = 0;
    if (done) {
      top_->s_axil_rready = 0;
      return value;
    }
  }
  throw Fault("read of " + std::to_string(address) + " got no answer");
}

namespace {

struct Blocks {
  int64_t bytes;
  int element;
  int block_bytes;
  int phase;

  int64_t count() const { return (bytes + block_bytes - 1) / block_bytes; }
  int64_t start(int64_t block) const { return block * block_bytes; }
  int64_t length(int64_t block) const {
    const int64_t left = bytes - start(block);
    return left < block_bytes ? left : block_bytes;
  }
  // Bytes of an element that begun before the block. Elements are 1, 2 or 4 bytes wide.
  uint32_t phase_of(int64_t block) const {
    static constexpr int kWidths[] = {1, 2, 2, 4, 1, 1};
    return static_cast<uint32_t>(phase - start(block)) & (kWidths[element] - 1);
  }
};

class Encoding : public Job {
 public:
  Encoding(const Blocks& blocks, bool code, const uint8_t* data, uint8_t* payload, int32_t* lengths,
           uint8_t* coded)
      : blocks_(blocks),
        code_(code),
        data_(data),
        payload_(payload),
        lengths_(lengths),
        coded_(coded) {}

  int64_t packets() const override { return blocks_.count(); }
  const uint8_t* data(int64_t packet) override { return data_ + blocks_.start(packet); }
  int64_t bytes(int64_t packet) const override { return blocks_.length(packet); }
  // block_user_t
  uint32_t user(int64_t packet) const override {
    return uint32_t{code_} << 5 | blocks_.phase_of(packet) << 3 |
           static_cast<uint32_t>(blocks_.element);
  }
  uint8_t* place(int64_t packet, int64_t* room) override {
    *room = blocks_.length(packet) + 8;
    return payload_;
  }
  void finished(int64_t packet, int64_t bytes, int user) override {
    payload_ += bytes;
    lengths_[packet] = static_cast<int32_t>(bytes);
    coded_[packet] = static_cast<uint8_t>(user);
  }

 private:
  const Blocks& blocks_;
  const bool code_;
  const uint8_t* data_;
  uint8_t* payload_;
  int32_t* lengths_;
  uint8_t* coded_;
};

class Decoding : public Job {
 public:
  Decoding(const Blocks& blocks, const uint8_t* payload, const int32_t* lengths,
           const uint8_t* coded, uint8_t* out)
      : blocks_(blocks), payload_(payload), lengths_(lengths), coded_(coded), out_(out) {
    // No packet of a stream is empty: such a payload, and what follows, is not sent.
    while (packets_ < blocks_.count() && lengths_[packets_] > 0) ++packets_;
    if (packets_ < blocks_.count()) {
      error = coded_[packets_] ? WZ_TRUNCATED : WZ_CORRUPT;
      block = packets_;
    }
  }

  int64_t packets() const override { return packets_; }
  const uint8_t* data(int64_t packet) override {
    const uint8_t* start = payload_;
    payload_ += lengths_[packet];
    return start;
  }
  int64_t bytes(int64_t packet) const override { return lengths_[packet]; }
  // packet_user_t
  uint32_t user(int64_t packet) const override {
    return static_cast<uint32_t>(blocks_.length(packet) - 1) << 7 | blocks_.phase_of(packet) << 5 |
           static_cast<uint32_t>(blocks_.element) << 2 | 1u << 1 | (coded_[packet] != 0);
  }
  uint8_t* place(int64_t, int64_t* room) override {
    // Not yet in `out`: a block with an error may be of any length.
    *room = sizeof block_;
    return block_;
  }
  void finished(int64_t packet, int64_t bytes, int user) override {
    if (user == WZ_OK && bytes != blocks_.length(packet)) {
      throw Fault("block " + std::to_string(packet) + " has " + std::to_string(bytes) +
                  " bytes and no error");
    }
    if (user == WZ_OK) {
      memcpy(out_ + blocks_.start(packet), block_, bytes);
    } else if (packet < block || error == WZ_OK) {
      error = user;
      block = packet;
    }
  }

  int error = WZ_OK;
  int64_t block = 0;

 private:
  const Blocks& blocks_;
  const uint8_t* payload_;
  const int32_t* lengths_;
  const uint8_t* coded_;
  uint8_t* out_;
  int64_t packets_ = 0;
  uint8_t block_[4096];
};

}  // namespace

// Runs one call; what goes wrong in it is kept for wz_fault.
template <typename Call>
static int guarded(wz_model* model, Call call) {
  try {
    return call();
  } catch (const std::exception& error) {
    model->fault = error.what();
    return WZ_FAULT;
  }
}

extern "C" {

wz_model* wz_create(uint64_t seed, double stall) {
  try {
    return new wz_model(seed, stall);
  } catch (const std::exception& error) {
    fprintf(stderr, "wz_create: %s\n", error.what());
    return nullptr;
  }
}

void wz_destroy(wz_model* model) { delete model; }

int wz_data_bits(void) { return DATA_W; }

int wz_encode(wz_model* model, const uint8_t* data, int64_t bytes, int element, int block_bytes,
              int phase, int bare, int code, uint8_t* payload, int32_t* lengths, uint8_t* coded) {
  const Blocks blocks{bytes, element, block_bytes, phase};
  Encoding job(blocks, code != 0, data, payload, lengths, coded);
  return guarded(model, [&] {
    model->encode(job, bare);
    return int{WZ_OK};
  });
}

int wz_decode(wz_model* model, const uint8_t* payload, const int32_t* lengths, const uint8_t* coded,
              int element, int block_bytes, int phase, int bare, uint8_t* out, int64_t bytes,
              int64_t* block) {
  const Blocks blocks{bytes, element, block_bytes, phase};
  Decoding job(blocks, payload, lengths, coded, out);
  return guarded(model, [&] {
    model->decode(job, bare);
    *block = job.block;
    return job.error;
  });
}

wz_counters wz_count(const wz_model* model, int decoding) { return model->counters(decoding); }

const char* wz_fault(const wz_model* model) { return model->fault.c_str(); }

int wz_read(wz_model* model, uint32_t address, uint32_t* value) {
  return guarded(model, [&] {
    *value = model->read(address);
    return int{WZ_OK};
  });
}

int wz_write(wz_model* model, uint32_t address, uint32_t value) {
  return guarded(model, [&] {
    model->write(address, value);
    return int{WZ_OK};
  });
}

}  // extern "C"
