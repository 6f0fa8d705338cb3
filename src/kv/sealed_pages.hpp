// The sealed pages of the pool, and where each of them is: in memory, or on a disk of which memory has a part; and a
// device may have copies. Everybody else knows pages by their slots.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/numa.hpp"
#include "kv/device.hpp"
#include "kv/hot_pages.hpp"
#include "kv/layout.hpp"
#include "kv/pool.hpp"
#include "tensor/buffer.hpp"

namespace kvasir::kv {

// A block of K and one of V.
struct Blocks {
  std::byte* k;
  std::byte* v;
};

class SealedPages final : public PageSource {
 public:
  // disk: as CacheOptions has it. `layout` and `pool` outlive this.
  SealedPages(const Layout& layout, const PagePool& pool, const std::string& disk);
  ~SealedPages() override { attach(nullptr, {}); }
  SealedPages(const SealedPages&) = delete;
  SealedPages& operator=(const SealedPages&) = delete;

  // Pages of this layer may be elsewhere than in memory.
  bool on_disk(const LayerLayout& l) const { return hot_ && !l.local(); }
  bool on_disk() const { return hot_ != nullptr; }

  // Slots [i * n, (i + 1) * n) of the pool make an extent of n pages. It is laid out as one page is, but every block is
  // n times as long and holds the blocks of the n pages one after the other. REQUIRES: not on_disk()
  Blocks at(const LayerLayout& l, int head, std::int32_t slot) const {
    const auto first = static_cast<std::int64_t>(slot) / layout_.extent_pages * layout_.extent_pages;
    const auto n = static_cast<std::size_t>(std::min<std::int64_t>(layout_.extent_pages, pool_.total() - first));
    const auto i = static_cast<std::size_t>(slot - first);
    std::byte* const extent = memory_.data() + static_cast<std::size_t>(first) * layout_.page_bytes;
    return {extent + n * l.sealed.k(head) + i * l.sealed.k_bytes, extent + n * l.sealed.v(head) + i * l.sealed.v_bytes};
  }
  // The same of a page that is read or written whole, which on a disk is the last one that was loaded.
  Blocks whole(const LayerLayout& l, int head, std::int32_t slot) const {
    return hot_ ? Blocks{staging_.data() + l.sealed.k(head), staging_.data() + l.sealed.v(head)} : at(l, head, slot);
  }
  // Around the use of `whole`. Throw Error(kIo).
  void load(std::int32_t slot) const {
    if (hot_) hot_->load_page(slot, {staging_.data(), layout_.page_bytes});
  }
  void store(std::int32_t slot) const {
    if (hot_) hot_->store_page(slot, {staging_.data(), layout_.page_bytes});
  }

  // The part of a disk's pages that is in memory. REQUIRES: on_disk()
  HotPages& hot() const { return *hot_; }
  // Throws what went wrong on the disk since the last call.
  void check() const {
    if (hot_) hot_->check();
  }
  DiskStats disk_stats() const { return hot_ ? hot_->stats() : DiskStats(); }

  // Null: none. `layers` are those that it may keep. Throws as PageDevice::open.
  void attach(std::shared_ptr<PageDevice> device, std::vector<DeviceLayer> layers);
  PageDevice* device() const { return device_.get(); }
  // The device was opened for pages of this layer.
  bool folds(int layer) const;
  void on_seal(std::int32_t slot) const {
    if (device_) device_->on_seal(slot);
  }
  void on_free(std::int32_t slot) const {
    if (device_) device_->on_free(slot);
  }
  std::span<const std::span<const std::byte>> fetch(std::int32_t slot) override;

  // Before any is written; without effect with a page file.
  void place(const Placement& placement) const { placement.interleave({memory_.data(), memory_.size()}); }

 private:
  const Layout& layout_;
  const PagePool& pool_;
  tensor::Buffer memory_;
  std::unique_ptr<HotPages> hot_;  // null: all pages are in memory
  tensor::Buffer staging_;         // of one page, with hot_
  std::shared_ptr<PageDevice> device_;
  std::vector<int> layers_;  // of the device
  std::vector<std::span<const std::byte>> pieces_;
};

}  // namespace kvasir::kv
