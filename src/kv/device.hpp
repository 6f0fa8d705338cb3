// A device beside the processor that keeps copies of sealed pages and folds them (architecture: Residency).
//
// The host has every sealed page, in memory or on a disk, so a device may refuse, forget or be lost at any time: then
// the host folds, with the same bits. The device gets whole groups of sealed pages alone. Sinks, raw rows, borrowed
// pages, cut groups and pages that the device does not hold are folded by the host meanwhile.
//
// A step as the device sees it, layer by layer:
//   begin(layer, folds)            // starts and returns at once, or refuses
//   wait()                         // the states are there, or the device is lost
// and between steps on_seal and on_free. All calls come from the thread that runs steps, one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernel/attention.hpp"
#include "kv/codec.hpp"
#include "kv/options.hpp"

namespace kvasir::kv {

// A layer whose sealed pages a device may keep: it owns them, keeps them for ever and has no window.
struct DeviceLayer {
  int layer = 0;
  LayerShape shape;
  const Codec* k = nullptr;  // latent layers: values are read from the blocks of keys, and v is k
  const Codec* v = nullptr;
  CodecParams k_params;
  CodecParams v_params;
  std::size_t k_bytes = 0;    // of a sealed block, one page of one KV head
  std::size_t v_bytes = 0;    // latent: 0
  std::vector<Head> heads_k;  // by KV head; what they point to stays as it is as long as the cache
  std::vector<Head> heads_v;
};

// Where a device reads the host's copies.
class PageSource {
 public:
  virtual ~PageSource() = default;
  // Blocks of a sealed page: by DeviceLayer in their order, KV head by KV head, keys, then values where there are any.
  // Good until the next call. Throws Error(kIo) where pages are on a disk that fails. REQUIRES: the device was told of
  // `slot` by on_seal, and by no on_free since; only inside on_seal, on_free and begin.
  virtual std::span<const std::span<const std::byte>> fetch(std::int32_t slot) = 0;
};

// What a device is opened with.
struct DevicePages {
  std::int64_t slots = 0;           // slots are numbers in [0, slots)
  std::vector<DeviceLayer> layers;  // in ascending order; a layer that is not among them is never asked for
  PageSource* source = nullptr;     // lives as long as the cache
};

// Tokens [begin, end) of the page in a slot.
struct DevicePage {
  std::int32_t slot;
  int begin;
  int end;
};

// Query rows of one KV head against whole groups of sealed pages, every token of which every row sees; no page is
// empty. Every kGroupPages pages from the first on are a group, whose state is what kv/fold.hpp makes of them: pages
// merged from left to right into the first one's state in the codec's basis, then rotated back (CodecSide::from_basis).
// A page may come up more than once.
struct DeviceFold {
  int head = 0;
  int rows = 0;
  const float* q = nullptr;                // (rows, d): scaled by log2(e) besides, in the basis of the keys' codec
  std::span<const DevicePage> pages;       // a multiple of kGroupPages, at least one group; tokens may differ by head
  const kernel::States* start = nullptr;   // total = start + group 0 + group 1 + ..., as kernel::AttentionKernels::fold
                                           // merges; null: the groups' states are wanted
  kernel::States total{};                  // with `start`, whose place it may have
  std::span<const kernel::States> groups;  // else, one a group
};

class PageDevice {
 public:
  virtual ~PageDevice() = default;

  // Before anything else, by the cache that it was given to; whatever was known before is forgotten. Throws
  // Error(kUnsupported) when the device can do nothing for pages like these, Error(kMemory) when it has no room.
  virtual void open(const DevicePages& pages) = 0;
  // The cache is gone: no pointer of `open` is valid any longer.
  virtual void close() noexcept = 0;

  // A page has been sealed, or restored, in all layers: its bytes stay what they are until on_free. May keep it, now or
  // later, or not. A page that cannot be fetched or kept is one that the host folds.
  virtual void on_seal(std::int32_t slot) noexcept = 0;
  // The slot may soon have another page. Also of slots that were never sealed.
  virtual void on_free(std::int32_t slot) noexcept = 0;
  // So many query rows of a KV head over fewer sealed tokens are folded by the host: they are done sooner there.
  virtual std::int64_t from_tokens(int /*rows*/) const noexcept { return 0; }

  // begin may ask for it.
  virtual bool holds(std::int32_t slot) const noexcept = 0;

  // Starts all folds of a layer in a step. false: nothing was started, and the host folds. Arguments and what they
  // point to stay as they are until wait has returned. REQUIRES: holds() every slot.
  virtual bool begin(int layer, float soft_cap, std::span<const DeviceFold> folds) = 0;
  // Ends what begin started. true: every wanted state has been written, with the bits that the host gives them. false:
  // the device is lost for good, holds nothing any more, and the host folds.
  virtual bool wait() noexcept = 0;

  virtual DeviceStats stats() const = 0;
};

}  // namespace kvasir::kv
