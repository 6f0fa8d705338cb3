#include "kv/hot_pages.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/check.hpp"
#include "base/clock.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace kvasir::kv {
namespace {

// Frames that every layer has for each thread: what a thread pins at once, and as many again for what it reads next.
constexpr int kFramesPerThread = 2 * kGroupPages;

std::uint64_t sum_of(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

bool has_pages(const Layout& l, int layer) {
  const LayerLayout& x = l.layers[static_cast<std::size_t>(layer)];
  return x.owner == layer && x.attends() && !x.local();
}

}  // namespace

std::size_t frame_bytes(const LayerLayout& l) { return (l.sealed.k_bytes + l.sealed.v_bytes + 63) / 64 * 64; }

std::size_t least_frame_bytes(const Layout& l, int threads) {
  std::size_t bytes = 0;
  for (int i = 0; i < l.shape.count(); ++i)
    if (has_pages(l, i))
      bytes +=
          frame_bytes(l.layers[static_cast<std::size_t>(i)]) * static_cast<std::size_t>(threads * kFramesPerThread);
  return bytes;
}

std::size_t unit_index_bytes(const Layout& l) {
  std::size_t units = 0;
  for (int i = 0; i < l.shape.count(); ++i)
    if (has_pages(l, i)) units += static_cast<std::size_t>(l.shape.at(i).kv_heads);
  return units * (sizeof(std::int32_t) + 2 * sizeof(std::uint64_t));
}

HotPages::HotPages(const Layout& l, std::unique_ptr<PageFile> file)
    : pages_(l.memory.pages), page_bytes_(l.page_bytes), file_(std::move(file)) {
  std::size_t of_one = 0;  // a frame in every layer
  for (int i = 0; i < l.shape.count(); ++i)
    if (has_pages(l, i)) of_one += frame_bytes(l.layers[static_cast<std::size_t>(i)]);
  const std::size_t each = of_one > 0 ? l.disk_memory / of_one : 0;
  std::size_t at = 0;
  for (int i = 0; i < l.shape.count(); ++i) {
    const LayerLayout& x = l.layers[static_cast<std::size_t>(i)];
    Layer layer;
    if (has_pages(l, i)) {
      const auto units = static_cast<std::size_t>(pages_ * x.shape.kv_heads);
      layer.heads = x.shape.kv_heads;
      layer.offset = x.sealed.offset;
      layer.k_bytes = x.sealed.k_bytes;
      layer.v_bytes = x.sealed.v_bytes;
      layer.pitch = frame_bytes(x);
      layer.at = at;
      layer.frames.resize(each);
      layer.frame_of.assign(units, -1);
      for (auto& sums : layer.sums) sums.assign(units, 0);
      at += each * layer.pitch;
    }
    layers_.push_back(std::move(layer));
  }
  memory_ = tensor::Buffer(tensor::Tag::kCache, at + kReadSlack);
  pieces_.reserve(each);
  fetched_.reserve(each);
  stats_.how = file_->how();
}

// A frame that nobody uses, by the clock: those that were used since it came by last get another round. -1: all are
// pinned.
int HotPages::free_frame(Layer& l) {
  for (std::size_t tries = 0; tries < 2 * l.frames.size(); ++tries) {
    const std::size_t i = l.hand;
    l.hand = (l.hand + 1) % l.frames.size();
    Frame& f = l.frames[i];
    if (f.pins > 0 || f.loading) continue;
    if (std::exchange(f.recent, false)) continue;
    if (f.unit >= 0) l.frame_of[static_cast<std::size_t>(f.unit)] = -1;
    f.unit = -1;
    return static_cast<int>(i);
  }
  return -1;
}

// The unit is read into the frame from now on; pinned once.
void HotPages::begin(Layer& l, std::int64_t unit, int frame) {
  l.frames[static_cast<std::size_t>(frame)] = {unit, 1, true, true};
  l.frame_of[static_cast<std::size_t>(unit)] = frame;
}

void HotPages::drop(Layer& l, std::int64_t unit) {
  std::int32_t& at = l.frame_of[static_cast<std::size_t>(unit)];
  if (at < 0) return;
  KVASIR_CHECK(l.frames[static_cast<std::size_t>(at)].pins == 0);
  l.frames[static_cast<std::size_t>(at)] = {};
  at = -1;
}

void HotPages::fail(const Error& e) {
  if (!failure_) failure_ = e;
}

// Reads what frames have begun. REQUIRES: the mutex is not held
void HotPages::read(Layer& l, std::span<const int> frames) {
  if (frames.empty()) return;
  const auto frame = [&](std::size_t i) -> Frame& { return l.frames[static_cast<std::size_t>(frames[i])]; };
  const auto at = [&](std::size_t i) { return memory(l, static_cast<std::size_t>(frames[i])); };
  std::optional<Error> failure;
  const double start = steady_seconds();
  try {
    {
      const std::lock_guard lock(file_mutex_);
      pieces_.clear();
      for (std::size_t i = 0; i < frames.size(); ++i) pieces_.push_back({place(l, frame(i).unit), at(i), l.bytes()});
      file_->read(pieces_);
    }
    for (std::size_t i = 0; i < frames.size(); ++i) {
      const auto unit = static_cast<std::size_t>(frame(i).unit);
      if (sum_of({at(i), l.k_bytes}) != l.sums[0][unit] || sum_of({at(i) + l.k_bytes, l.v_bytes}) != l.sums[1][unit])
        throw Error(Code::kIo,
                    "the page at byte " + std::to_string(place(l, frame(i).unit)) + " is not what was written there",
                    "page file");
    }
  } catch (const Error& e) {
    failure = e;
    for (std::size_t i = 0; i < frames.size(); ++i) std::memset(at(i), 0, l.bytes());
  }
  const double seconds = steady_seconds() - start;
  const std::lock_guard lock(mutex_);
  stats_.reads += frames.size();
  stats_.read_bytes += frames.size() * l.bytes();
  stats_.stall_seconds += seconds;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    frame(i).loading = false;
    if (!failure) continue;
    l.frame_of[static_cast<std::size_t>(frame(i).unit)] = -1;  // not to be found again
    frame(i).unit = -1;
  }
  if (failure) fail(*failure);
  changed_.notify_all();
}

void HotPages::pin(int layer, int head, std::span<const std::int32_t> slots, int* held, std::byte** to) {
  Layer& l = layers_[static_cast<std::size_t>(layer)];
  KVASIR_CHECK(slots.size() <= static_cast<std::size_t>(kGroupPages));
  int mine[kGroupPages];
  std::size_t count = 0;
  std::unique_lock lock(mutex_);
  const auto read_mine = [&] {
    lock.unlock();
    read(l, {mine, count});
    count = 0;
    lock.lock();
  };
  for (std::size_t i = 0; i < slots.size(); ++i) {
    const std::int64_t unit = unit_of(head, slots[i]);
    for (;;) {
      if (const std::int32_t at = l.frame_of[static_cast<std::size_t>(unit)]; at >= 0) {
        Frame& f = l.frames[static_cast<std::size_t>(at)];
        ++f.pins;
        f.recent = true;
        held[i] = at;
        ++stats_.hits;
        break;
      }
      if (const int free = free_frame(l); free >= 0) {
        begin(l, unit, free);
        mine[count++] = held[i] = free;
        ++stats_.misses;
        break;
      }
      // Others hold all frames, each for as long as it computes with a few, or waits for what is read here.
      if (count > 0)
        read_mine();
      else
        changed_.wait(lock);
    }
    to[i] = memory(l, static_cast<std::size_t>(held[i]));
  }
  if (count > 0) read_mine();
  changed_.wait(lock, [&] {
    return std::none_of(held, held + slots.size(),
                        [&](int f) { return l.frames[static_cast<std::size_t>(f)].loading; });
  });
}

void HotPages::release(int layer, std::span<const int> frames) {
  Layer& l = layers_[static_cast<std::size_t>(layer)];
  const std::lock_guard lock(mutex_);
  for (const int f : frames) --l.frames[static_cast<std::size_t>(f)].pins;
  changed_.notify_all();
}

void HotPages::fetch(int layer, std::span<const Unit> units) {
  Layer& l = layers_[static_cast<std::size_t>(layer)];
  fetched_.clear();
  {
    const std::lock_guard lock(mutex_);
    std::size_t here = 0;
    for (const Unit& u : units)
      if (const std::int32_t at = l.frame_of[static_cast<std::size_t>(unit_of(u.head, u.slot))]; at >= 0) {
        here += !std::exchange(l.frames[static_cast<std::size_t>(at)].recent, true);
      }
    // What does not fit is read when it is needed.
    const std::size_t room = l.frames.size() - l.frames.size() / 8;
    for (const Unit& u : units) {
      const std::int64_t unit = unit_of(u.head, u.slot);
      if (l.frame_of[static_cast<std::size_t>(unit)] >= 0) continue;
      const int free = here + fetched_.size() < room ? free_frame(l) : -1;
      if (free < 0) break;
      begin(l, unit, free);
      fetched_.push_back(free);
      ++stats_.misses;
    }
  }
  read(l, fetched_);
  release(layer, fetched_);
}

void HotPages::store(int layer, int head, std::int32_t slot, Side side, std::span<const std::byte> bytes) {
  Layer& l = layers_[static_cast<std::size_t>(layer)];
  const std::int64_t unit = unit_of(head, slot);
  {
    const std::lock_guard lock(mutex_);
    drop(l, unit);
    l.sums[side == Side::kValues][static_cast<std::size_t>(unit)] = sum_of(bytes);
    if (l.v_bytes == 0) l.sums[1][static_cast<std::size_t>(unit)] = sum_of({});
  }
  try {
    const std::lock_guard lock(file_mutex_);
    file_->write(place(l, unit) + (side == Side::kValues ? l.k_bytes : 0), bytes);
  } catch (const Error& e) {
    const std::lock_guard lock(mutex_);
    fail(e);
    return;
  }
  const std::lock_guard lock(mutex_);
  stats_.written_bytes += bytes.size();
}

void HotPages::store_page(std::int32_t slot, std::span<const std::byte> page) {
  KVASIR_CHECK(page.size() == page_bytes_);
  {
    const std::lock_guard lock(mutex_);
    for (Layer& l : layers_)
      for (int head = 0; head < l.heads; ++head) {
        const std::int64_t unit = unit_of(head, slot);
        drop(l, unit);
        const auto bytes = page.subspan(l.offset + static_cast<std::size_t>(head) * l.bytes(), l.bytes());
        l.sums[0][static_cast<std::size_t>(unit)] = sum_of(bytes.first(l.k_bytes));
        l.sums[1][static_cast<std::size_t>(unit)] = sum_of(bytes.subspan(l.k_bytes));
      }
    stats_.written_bytes += page.size();
  }
  const std::lock_guard lock(file_mutex_);
  file_->write(static_cast<std::uint64_t>(slot) * page_bytes_, page);
}

void HotPages::load_page(std::int32_t slot, std::span<std::byte> page) {
  KVASIR_CHECK(page.size() == page_bytes_);
  const FilePiece piece{static_cast<std::uint64_t>(slot) * page_bytes_, page.data(), page.size()};
  {
    const std::lock_guard lock(file_mutex_);
    file_->read({&piece, 1});
  }
  const std::lock_guard lock(mutex_);
  stats_.reads += 1;
  stats_.read_bytes += page.size();
  for (const Layer& l : layers_)
    for (int head = 0; head < l.heads; ++head) {
      const auto unit = static_cast<std::size_t>(unit_of(head, slot));
      const auto bytes = page.subspan(l.offset + static_cast<std::size_t>(head) * l.bytes(), l.bytes());
      if (sum_of(bytes.first(l.k_bytes)) != l.sums[0][unit] || sum_of(bytes.subspan(l.k_bytes)) != l.sums[1][unit])
        throw Error(Code::kIo, "page " + std::to_string(slot) + " is not what was written there", "page file");
    }
}

void HotPages::check() {
  const std::lock_guard lock(mutex_);
  if (!failure_) return;
  const Error e = *std::exchange(failure_, std::nullopt);
  throw e;
}

DiskStats HotPages::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace kvasir::kv
