// Sealed pages on an OpenCL device, and their folds there (kv/device.hpp): the join of the cache and this folder.
//
// A slot on the device is one page of all layers that it folds, head by head: keys, then values, each padded to 16
// bytes. Slots lie in at most kArenas buffers, which are made when they are needed. What is not there the host folds.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/driver.hpp"
#include "device/fold.hpp"
#include "device/programs.hpp"
#include "kv/device.hpp"

namespace kvasir::device {

class Pages : public kv::PageDevice {
 public:
  // memory: bytes for pages, at most; 0: the device's own less 512 MiB. from_tokens, threads: see open_pages. Throws
  // Error(kUnsupported) where it cannot be used.
  Pages(const Found& device, std::uint64_t memory, std::int64_t from_tokens = 0, int threads = 1);

  // Compiles, and checks on a few pages that the device has the processor's bits.
  void open(const kv::DevicePages& pages) override;
  void close() noexcept override;
  void on_seal(std::int32_t slot) noexcept override;
  void on_free(std::int32_t slot) noexcept override;
  bool holds(std::int32_t slot) const noexcept override { return where_[static_cast<std::size_t>(slot)] >= 0; }
  bool begin(int layer, float soft_cap, std::span<const kv::DeviceFold> folds) override;
  bool wait() noexcept override;
  std::int64_t from_tokens(int rows) const noexcept override {
    return rows < kManyRows ? stats_.from_tokens : stats_.from_prompts;
  }
  kv::DeviceStats stats() const override;

 private:
  struct Layer {
    Folder* folder = nullptr;  // null: the host's
    std::uint32_t at = 0;      // in a slot, in 16 bytes
    std::uint32_t turn_at = 0;
    int heads = 0;
    std::size_t k_bytes = 0;  // of a block, and padded
    std::size_t v_bytes = 0;
    std::size_t k_room() const { return (k_bytes + 15) / 16 * 16; }
    std::size_t v_room() const { return (v_bytes + 15) / 16 * 16; }
  };

  Folder& folder_for(const Shape& shape);
  bool grow();
  static constexpr int kManyRows = 64;  // of a head, as prompts have them
  void measure(const kv::DevicePages& pages);
  std::int64_t measure(Folder& folder, const kv::LayerShape& shape, int rows, const char* what);
  void lose(const std::string& why) noexcept;
  int arena(std::int64_t place) const { return static_cast<int>(place / arena_slots_); }
  std::uint64_t at(std::int64_t place) const { return static_cast<std::uint64_t>(place % arena_slots_) * slot_bytes_; }

  Context context_;
  Programs programs_;
  std::uint64_t memory_;
  std::int64_t from_tokens_;
  int threads_;
  kv::PageSource* source_ = nullptr;
  std::vector<std::unique_ptr<Folder>> folders_;
  std::vector<Layer> layers_;       // by DeviceLayer
  std::vector<int> layer_numbers_;  // ascending
  std::size_t slot_bytes_ = 0;
  std::int64_t arena_slots_ = 1;
  std::int64_t most_ = 0;  // slots
  std::array<Buffer, kArenas> arenas_;
  int arena_count_ = 0;
  std::vector<std::int32_t> where_;  // by slot of the cache: its place, -1: not held
  std::vector<std::int32_t> free_;   // places
  std::vector<std::byte> staged_;
  std::vector<PlacedPage> pages_;
  std::vector<Ask> asks_;
  Folder* busy_ = nullptr;
  kv::DeviceStats stats_;
};

}  // namespace kvasir::device
