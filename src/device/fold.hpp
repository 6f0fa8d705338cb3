// Folds sealed pages on a device into the states that kv/fold.hpp makes of them on the processor, bit for bit.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "device/driver.hpp"
#include "device/forms.hpp"
#include "device/programs.hpp"
#include "kernel/attention.hpp"

namespace kvasir::device {

inline constexpr int kArenas = 8;     // buffers that pages lie in, at most
inline constexpr int kBlockRows = 8;  // query rows of a work group
// Of groups' states at once: 8,192 rows over 131,072 tokens, which a stage of a prompt may ask for, would have 550 MB.
inline constexpr std::size_t kStateBytes = std::size_t{128} << 20;

// A page as kernels see it: where its slot begins, and its tokens [begin, end).
struct PlacedPage {
  std::uint32_t at;  // in 16 bytes, of its buffer
  std::uint32_t where;
  static PlacedPage of(std::uint64_t bytes, int arena, int begin, int end) {
    return {static_cast<std::uint32_t>(bytes / 16), static_cast<std::uint32_t>(arena) |
                                                        static_cast<std::uint32_t>(begin) << 8 |
                                                        static_cast<std::uint32_t>(end) << 16};
  }
};

// Rows of one KV head against a list of pages. Every eight of them, from the first, are a group.
struct Ask {
  std::span<const PlacedPage> pages;
  std::uint32_t k_at = 0;  // of the head's keys and values behind the layer's place in a slot, in 16 bytes
  std::uint32_t v_at = 0;
  int head = 0;              // of the rotations
  const float* q = nullptr;  // (rows, d), scaled, in the basis of the keys
  int rows = 0;
  const kernel::States* start = nullptr;   // what the groups are merged into; null: the empty state
  kernel::States total{};                  // start + group 0 + group 1 + ...
  const kernel::States* groups = nullptr;  // not null: the groups' states, and no total is made
};

// A block of up to 8 rows (rows, d) of queries as kernels take them (kernels/common.cl); absent rows are 0.
inline std::size_t block_bytes(const Constants& c, int d) {
  return static_cast<std::size_t>(40 * d + 96 * c.query_groups);
}
void pack_rows(const Constants& constants, int d, const float* q, int rows, std::byte* block);

class Folder {
 public:
  // Throws Error(kUnsupported) when the device has no room for a kernel or a program cannot be built.
  // Totals are made in waves of at most state_bytes of groups' states, at least a block of rows each.
  Folder(const Context& context, Programs& programs, const Shape& shape, const std::string& options = kOptions,
         std::size_t state_bytes = kStateBytes);

  // Rotations of values, (n, turn_floats()): signs, then the Hartley matrix of sizes that are no power of two.
  int turn_floats() const { return constants_.turn_floats; }
  void set_turns(std::span<const float> turns);

  // layer_at: the layer's place in a slot, in 16 bytes; turn_at: its first rotation, in floats. Returns when the device
  // has been told; `asks` and what they point to stay as they are until finish() has written the states. Throw Error.
  void start(std::span<const Ask> asks, const std::array<const Buffer*, kArenas>& arenas, std::uint32_t layer_at,
             std::uint32_t turn_at, bool timed = false);
  void finish();
  void run(std::span<const Ask> asks, const std::array<const Buffer*, kArenas>& arenas, std::uint32_t layer_at,
           std::uint32_t turn_at, bool timed = false) {
    start(asks, arenas, layer_at, turn_at, timed);
    finish();
  }

  const Shape& shape() const { return shape_; }
  bool matrix_units() const { return constants_.matrix_units; }
  // Seconds by the device's clock of the last run that was timed: folding, merging.
  std::span<const double> seconds() const { return seconds_; }

  std::size_t block_bytes() const { return device::block_bytes(constants_, shape_.d); }
  int pitch() const { return shape_.dv + 4; }  // floats of a row's state

 private:
  // What a kernel reads, written again only when it has changed.
  struct Table {
    std::vector<std::uint32_t> words;
    std::vector<std::uint32_t> there;
    Buffer buffer;
  };
  // Jobs and sums that are launched together.
  struct Wave {
    std::uint32_t first_job, jobs;
    std::uint32_t first_sum, sums;
    std::uint32_t states;
    Event done;
  };
  void upload(Table& table);
  void room(Buffer& buffer, std::size_t bytes);
  void add(const Ask& ask);
  void take(bool totals, const float* from);
  std::size_t state_floats() const { return static_cast<std::size_t>(kBlockRows * pitch()); }

  const Context& context_;
  Shape shape_;
  std::size_t state_bytes_;
  Constants constants_;
  Kernel fold_;
  Kernel total_;
  Table pages_;
  Table jobs_;
  Table sums_;
  Buffer turns_;
  Buffer queries_;  // blocks, then starts
  Buffer states_;
  Buffer totals_;
  std::vector<std::byte> staged_;
  std::vector<float> starts_;
  std::vector<float> answer_;
  std::span<const Ask> asks_;  // between start and finish
  bool timed_ = false;
  std::uint32_t blocks_ = 0;
  std::uint32_t kept_states_ = 0;  // of asks that want those of groups: the first ones
  std::vector<Wave> waves_;
  std::uint32_t starts_count_ = 0;
  std::uint32_t totals_count_ = 0;
  std::vector<double> seconds_;
};

}  // namespace kvasir::device
