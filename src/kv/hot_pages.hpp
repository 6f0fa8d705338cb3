// Sealed pages on a disk, and the bounded part of them that is in memory.
//
// A unit is a page of one layer and KV head: keys, then values. All units lie in the file, page by page, as they lie in
// a page of the pool. Of every layer some units are in frames in memory, the ones that were read last: steps go through
// the layers in turns, so one list for all layers would always have dropped what comes next. A frame is never newer
// than the file. What is read has to have the checksum of what was written.
//
// Where the disk fails, a unit reads as zeros and the failure is kept: whoever runs a step asks for it afterwards
// (`check`), because threads of a team cannot throw.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/error.hpp"
#include "kv/codec.hpp"
#include "kv/layout.hpp"
#include "kv/options.hpp"
#include "kv/page_file.hpp"
#include "tensor/buffer.hpp"

namespace kvasir::kv {

// Bytes of memory that a layer's units need one each, and the least that all layers together need for `threads`.
std::size_t frame_bytes(const LayerLayout& layer);
std::size_t least_frame_bytes(const Layout& layout, int threads);
// That are kept of every page of the pool besides, to know where its units are.
std::size_t unit_index_bytes(const Layout& layout);

class HotPages {
 public:
  // layout: of a cache with disk_memory > 0. REQUIRES: `file` has its pages, and disk_memory is enough.
  HotPages(const Layout& layout, std::unique_ptr<PageFile> file);

  // Units of one layer that owns its pages and one head, which stay where they are until their frames are released. At
  // most kGroupPages at a time by one thread. slots: pages of the pool; frames, to: as many, written.
  void pin(int layer, int head, std::span<const std::int32_t> slots, int* frames, std::byte** to);
  void release(int layer, std::span<const int> frames);

  struct Unit {
    int head;
    std::int32_t slot;
  };
  // Reads those units that are missing, as many as there is room for, all at once.
  void fetch(int layer, std::span<const Unit> units);

  // Writes keys or values of a unit, which nobody has pinned. Does not throw.
  void store(int layer, int head, std::int32_t slot, Side side, std::span<const std::byte> bytes);
  // A whole page as the file has it: layout.page_bytes. Throw Error(kIo).
  void store_page(std::int32_t slot, std::span<const std::byte> page);
  void load_page(std::int32_t slot, std::span<std::byte> page);

  // Throws what went wrong since the last call.
  void check();
  DiskStats stats() const;
  std::size_t frames(int layer) const { return layers_[static_cast<std::size_t>(layer)].frames.size(); }

 private:
  struct Frame {
    std::int64_t unit = -1;
    int pins = 0;
    bool recent = false;
    bool loading = false;
  };
  struct Layer {
    int heads = 0;
    std::uint64_t offset = 0;  // of head 0 in a page
    std::size_t k_bytes = 0;
    std::size_t v_bytes = 0;
    std::size_t at = 0;  // of frame 0 in memory
    std::size_t pitch = 0;
    std::size_t hand = 0;  // of the clock
    std::vector<Frame> frames;
    std::vector<std::int32_t> frame_of;  // by unit; -1: none
    std::vector<std::uint64_t> sums[2];  // by unit, of keys and of values
    std::size_t bytes() const { return k_bytes + v_bytes; }
  };
  std::int64_t unit_of(int head, std::int32_t slot) const { return head * pages_ + slot; }
  std::uint64_t place(const Layer& l, std::int64_t unit) const {
    return static_cast<std::uint64_t>(unit % pages_) * page_bytes_ + l.offset +
           static_cast<std::uint64_t>(unit / pages_) * l.bytes();
  }
  std::byte* memory(const Layer& l, std::size_t frame) const { return memory_.data() + l.at + frame * l.pitch; }
  int free_frame(Layer& l);
  void begin(Layer& l, std::int64_t unit, int frame);
  void read(Layer& l, std::span<const int> frames);
  void drop(Layer& l, std::int64_t unit);
  void fail(const Error& e);

  std::int64_t pages_;
  std::size_t page_bytes_;
  std::vector<Layer> layers_;  // by layer; those without pages of their own have no frames
  tensor::Buffer memory_;
  std::unique_ptr<PageFile> file_;
  mutable std::mutex mutex_;  // of everything but the file
  std::condition_variable changed_;
  std::mutex file_mutex_;
  std::vector<FilePiece> pieces_;  // under file_mutex_
  std::vector<int> fetched_;       // of fetch
  DiskStats stats_;
  std::optional<Error> failure_;
};

}  // namespace kvasir::kv
