// A device for tests: a second thread that keeps copies of pages and folds them with the reference's fold.
#pragma once

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/check.hpp"
#include "base/error.hpp"
#include "kv/device.hpp"
#include "kv/fold.hpp"
#include "tensor/buffer.hpp"

namespace kvasir::kv::fixture {

// What it cannot do.
struct DeviceLimits {
  std::int64_t pages = std::numeric_limits<std::int64_t>::max();  // room for so many
  int skip = 0;                                                   // every so manyth slot is never kept; 0: all are
  int refuse = 0;                                                 // every so manyth fold is refused; 0: none
  int lost_at = 0;  // the so manyth fold that it begins is lost, with garbage for states; 0: none is
};

class ThreadDevice final : public PageDevice {
 public:
  explicit ThreadDevice(DeviceLimits limits = {}) : limits_(limits), thread_([this] { work(); }) {}
  ~ThreadDevice() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void open(const DevicePages& pages) override {
    pages_ = pages;
    copies_.clear();
    stats_ = {};
    stats_.name = "thread";
  }
  void close() noexcept override { copies_.clear(); }

  void on_seal(std::int32_t slot) noexcept override {
    EXPECT_EQ(copies_.count(slot), 0u);
    if (lost_ || (limits_.skip > 0 && slot % limits_.skip == 0) ||
        static_cast<std::int64_t>(copies_.size()) == limits_.pages)
      return;
    try {
      std::vector<tensor::Buffer> blocks;
      for (const auto piece : pages_.source->fetch(slot)) {
        blocks.emplace_back(tensor::Tag::kScratch, piece.size() + kReadSlack);
        std::memcpy(blocks.back().data(), piece.data(), piece.size());
        stats_.uploaded_bytes += piece.size();
      }
      copies_.emplace(slot, std::move(blocks));
    } catch (const Error&) {
      return;  // the disk's fault is the next step's
    }
  }
  void on_free(std::int32_t slot) noexcept override { copies_.erase(slot); }
  bool holds(std::int32_t slot) const noexcept override { return copies_.count(slot) > 0; }

  bool begin(int layer, float soft_cap, std::span<const DeviceFold> folds) override {
    KVASIR_CHECK(!folds.empty() && !lost_);
    if (limits_.refuse > 0 && ++asked_ % limits_.refuse == 0) {
      ++stats_.refused_folds;
      return false;
    }
    const std::lock_guard lock(mutex_);
    layer_ = layer, soft_cap_ = soft_cap, folds_ = folds;
    lost_ = ++begun_ == limits_.lost_at;
    busy_ = true;
    changed_.notify_all();
    return true;
  }
  bool wait() noexcept override {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !busy_; });
    if (lost_) {
      copies_.clear();
      stats_.lost = "told to be";
    }
    return !lost_;
  }

  DeviceStats stats() const override {
    DeviceStats s = stats_;
    s.held_pages = static_cast<std::int64_t>(copies_.size());
    s.most_pages = limits_.pages;
    return s;
  }
  std::uint64_t totals() const { return totals_; }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return busy_ || ends_; });
      if (ends_) return;
      for (const DeviceFold& f : folds_) fold(f);
      busy_ = false;
      changed_.notify_all();
    }
  }

  void fold(const DeviceFold& f) {
    std::size_t piece = 0;  // of the layer's first block in a page
    const DeviceLayer* layer = nullptr;
    for (const DeviceLayer& l : pages_.layers) {
      layer = &l;
      if (l.layer == layer_) break;
      piece += static_cast<std::size_t>(l.shape.kv_heads) * (l.v_bytes > 0 ? 2 : 1);
    }
    KVASIR_CHECK(layer && layer->layer == layer_);
    const bool latent = layer->shape.latent;
    piece += static_cast<std::size_t>(f.head) * (latent ? 1 : 2);
    const auto head = static_cast<std::size_t>(f.head);
    Codec keys = *layer->k;
    keys.k.to_basis = nullptr;  // queries come rotated
    const Segment segment{&keys, latent ? &keys : layer->v, layer->heads_k[head], layer->heads_v[head]};
    const Rows rows{f.q, f.rows, f.rows, std::int64_t{1} << 40};
    const FoldSize size{f.rows, layer->shape.head_dim, layer->shape.sum_dim(), latent ? 1 : kGroupPages, latent,
                        latent};
    FoldScratch scratch;
    tensor::Buffer buffer(tensor::Tag::kScratch, scratch.place(nullptr, size) * sizeof(float));
    scratch.place(buffer.as<float>(), size);
    Fold fold(rows, size, scratch, soft_cap_);
    const auto& kernels = kernel::attention();
    KVASIR_CHECK(!f.pages.empty() && f.pages.size() % kGroupPages == 0 && (f.start || !f.groups.empty()));
    const auto copy = [&](const kernel::States& from, const kernel::States& to) {
      const float spoil = lost_ ? 3.0f : 0.0f;
      for (int r = 0; r < f.rows; ++r) to.max[r] = from.max[r] + spoil, to.sum[r] = from.sum[r] + spoil;
      std::copy_n(from.out, f.rows * kernel::out_pitch(size.dv), to.out);
    };
    if (f.start) copy(*f.start, scratch.total);
    totals_ += f.start != nullptr;
    for (std::size_t g = 0; g < f.pages.size() / kGroupPages; ++g) {
      std::vector<FoldPage> pages;
      for (const DevicePage& p : f.pages.subspan(g * kGroupPages, kGroupPages)) {
        KVASIR_CHECK(p.begin < p.end && copies_.count(p.slot));
        const auto& blocks = copies_.at(p.slot);
        pages.push_back({{blocks[piece].data(), p.begin, p.end, kPageTokens},
                         {latent ? nullptr : blocks[piece + 1].data(), p.begin, p.end, kPageTokens},
                         0});
      }
      kernels.clear(f.rows, size.dv, scratch.group);
      fold.add(segment, pages, true, scratch.group);
      f.start ? kernels.fold(f.rows, size.dv, scratch.group, scratch.total) : copy(scratch.group, f.groups[g]);
      stats_.folded_groups += static_cast<std::uint64_t>(f.rows);
    }
    if (f.start) copy(scratch.total, f.total);
  }

  const DeviceLimits limits_;
  DevicePages pages_;
  std::map<std::int32_t, std::vector<tensor::Buffer>> copies_;
  DeviceStats stats_;
  int asked_ = 0;
  int begun_ = 0;
  bool lost_ = false;
  std::uint64_t totals_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  int layer_ = 0;
  float soft_cap_ = 0;
  std::span<const DeviceFold> folds_;
  bool busy_ = false;
  bool ends_ = false;
  std::thread thread_;
};

// One for a cache where the environment variable KVASIR_SUITE has the word "device" (cmake/tests.cmake), else none.
inline std::shared_ptr<PageDevice> suite_device() {
  const char* const suite = std::getenv("KVASIR_SUITE");
  if (!suite || ("," + std::string(suite) + ",").find(",device,") == std::string::npos) return nullptr;
  return std::make_shared<ThreadDevice>();
}

}  // namespace kvasir::kv::fixture
