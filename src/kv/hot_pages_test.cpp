#include "kv/hot_pages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "kv/page.hpp"

namespace kvasir::kv {
namespace {

// A file in memory that may fail.
class MemoryFile : public PageFile {
 public:
  MemoryFile(std::size_t bytes, std::atomic<int>* fail_after) : bytes_(bytes), fail_after_(fail_after) {}
  void read(std::span<const FilePiece> pieces) override {
    for (const FilePiece& p : pieces) {
      if (--*fail_after_ < 0) throw Error(Code::kIo, "worn out", "page file");
      std::memcpy(p.to, bytes_.data() + p.at, p.bytes);
    }
  }
  void write(std::uint64_t at, std::span<const std::byte> bytes) override {
    std::memcpy(bytes_.data() + at, bytes.data(), bytes.size());
  }
  const char* how() const override { return "memory"; }

 private:
  std::vector<std::byte> bytes_;
  std::atomic<int>* fail_after_;
};

constexpr int kThreads = 4, kPages = 40, kHeads = 2;

Layout some_layout() {
  CacheOptions o;
  o.k_codec = o.v_codec = "rq4";
  o.max_tokens = (kPages + 2) * kPageTokens;
  o.disk = "unused";
  o.disk_memory = 1 << 20;
  CacheShape shape = CacheShape::uniform(3, {kHeads, 4, 32, 64});
  shape.layers[1].window = 64;  // has no pages of the pool
  Layout l = make_layout(shape, o, 1);
  l.disk_memory = least_frame_bytes(l, kThreads);
  return l;
}

std::byte content(int layer, int head, std::int32_t slot, std::size_t i) {
  return static_cast<std::byte>((layer * 31 + head * 17 + slot * 7 + static_cast<int>(i)) & 255);
}

void fill(HotPages& hot, const Layout& l) {
  std::vector<std::byte> block;
  for (std::int32_t slot = 0; slot < kPages; ++slot)
    for (const int layer : {0, 2})
      for (int head = 0; head < kHeads; ++head) {
        const BlockLayout& b = l.layers[static_cast<std::size_t>(layer)].sealed;
        block.resize(b.k_bytes + b.v_bytes);
        for (std::size_t i = 0; i < block.size(); ++i) block[i] = content(layer, head, slot, i);
        const auto all = std::span<const std::byte>(block);
        hot.store(layer, head, slot, Side::kKeys, all.first(b.k_bytes));
        hot.store(layer, head, slot, Side::kValues, all.subspan(b.k_bytes));
      }
}

// Every thread reads groups of pages, and finds in them what was written, or nothing where the file failed.
std::int64_t read_from_threads(HotPages& hot, const Layout& l, bool may_fail) {
  std::atomic<std::int64_t> wrong = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&, thread] {
      std::uint64_t x = 88172645463325252u + static_cast<std::uint64_t>(thread);
      const auto random = [&](int n) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        return static_cast<int>(x % static_cast<std::uint64_t>(n));
      };
      for (int round = 0; round < 1500; ++round) {
        const int layer = 2 * random(2), head = random(kHeads);
        const auto n = static_cast<std::size_t>(1 + random(kGroupPages));
        std::int32_t slots[kGroupPages];
        for (std::size_t i = 0; i < n; ++i) slots[i] = (random(kPages) + 7 * static_cast<int>(i)) % kPages;
        std::sort(slots, slots + n);
        int frames[kGroupPages];
        std::byte* units[kGroupPages];
        hot.pin(layer, head, {slots, n}, frames, units);
        const std::size_t bytes = l.layers[static_cast<std::size_t>(layer)].sealed.k_bytes +
                                  l.layers[static_cast<std::size_t>(layer)].sealed.v_bytes;
        for (std::size_t i = 0; i < n; ++i) {
          bool same = true, nothing = true;
          for (std::size_t j = 0; j < bytes; j += 13) {
            same = same && units[i][j] == content(layer, head, slots[i], j);
            nothing = nothing && units[i][j] == std::byte{0};
          }
          wrong += !same && !(may_fail && nothing);
        }
        hot.release(layer, {frames, n});
      }
    });
  for (std::thread& t : threads) t.join();
  return wrong;
}

TEST(HotPages, ThreadsReadWhatWasWritten) {
  const Layout l = some_layout();
  std::atomic<int> left = 1 << 30;
  HotPages hot(l, std::make_unique<MemoryFile>(l.memory.disk_bytes, &left));
  EXPECT_EQ(hot.frames(0), static_cast<std::size_t>(kThreads * 2 * kGroupPages));
  EXPECT_EQ(hot.frames(1), 0u);
  fill(hot, l);
  std::vector<HotPages::Unit> some;
  for (std::int32_t slot = 0; slot < kPages; ++slot) some.push_back({slot % kHeads, slot});
  hot.fetch(2, some);
  const DiskStats fetched = hot.stats();
  EXPECT_EQ(fetched.reads, some.size());
  hot.fetch(2, some);  // all there
  EXPECT_EQ(hot.stats().reads, fetched.reads);
  EXPECT_EQ(read_from_threads(hot, l, false), 0);
  hot.check();
  const DiskStats f = hot.stats();
  EXPECT_EQ(f.reads, f.misses);
  EXPECT_GT(f.hits, 1000u);
  EXPECT_GT(f.misses, 1000u);
}

TEST(HotPages, AFailureIsKeptAndReadsAsNothing) {
  const Layout l = some_layout();
  std::atomic<int> left = 1 << 30;
  HotPages hot(l, std::make_unique<MemoryFile>(l.memory.disk_bytes, &left));
  fill(hot, l);
  left = 500;
  EXPECT_EQ(read_from_threads(hot, l, true), 0);
  EXPECT_THROW(hot.check(), Error);
  hot.check();  // was said
  left = 1 << 30;
  EXPECT_EQ(read_from_threads(hot, l, false), 0);
  hot.check();
  // Whole pages go through the same checks.
  std::vector<std::byte> page(l.page_bytes);
  hot.load_page(3, page);
  hot.store_page(5, page);
  std::byte* unit = nullptr;
  int frame = 0;
  const std::int32_t slot = 5;
  hot.pin(2, 1, {&slot, 1}, &frame, &unit);
  EXPECT_EQ(unit[20], content(2, 1, 3, 20));
  hot.release(2, {&frame, 1});
  left = 0;
  EXPECT_THROW(hot.load_page(3, page), Error);
}

}  // namespace
}  // namespace kvasir::kv
