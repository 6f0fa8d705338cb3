// Experts that are read when they are needed: their bytes, which of them stay, and disks that fail.
#include "weights/expert_cache.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "weights/faulty_reads_fixture.hpp"

namespace kvasir::weights {
namespace expert_cache_test {

namespace fs = std::filesystem;
using testing::Fault;
using testing::FaultyReads;

constexpr int kExperts = 12, kLayers = 3;

class Caches : public ::testing::Test {
 protected:
  Caches() : path_((fs::temp_directory_path() / ("kvasir-experts-" + std::to_string(::getpid()))).string()) {
    for (int l = 0; l < kLayers; ++l) sizes_.insert(sizes_.end(), kExperts, kPieceBytes / 2 * (l + 1) + 100 * l);
    write_packed_file(path_, print_, sizes_, [&](int block, std::span<std::byte> to) {
      for (std::size_t i = 0; i < to.size(); ++i) to[i] = at(block, i);
    });
    file_ = std::make_unique<PackedFile>(path_, print_, sizes_);
  }
  ~Caches() override { fs::remove(path_); }
  static std::byte at(int block, std::size_t i) { return static_cast<std::byte>(41 * block + 3 + i % 253 + i / 4096); }
  std::unique_ptr<ExpertCache> cache(int places) {
    std::vector<ExpertCache::Layer> layers;
    for (int l = 0; l < kLayers; ++l) layers.push_back({l * kExperts, kExperts});
    return std::make_unique<ExpertCache>(
        *file_, layers, places,
        std::make_unique<FaultyReads>(open_reads(path_), [this](const ReadRequest&) { return fault_.load(); }));
  }
  void need(ExpertCache& cache, int layer, const std::vector<std::int32_t>& experts) {
    cache.layer(layer).need(experts);
    for (const std::int32_t e : experts) {
      const std::byte* const bytes = cache.places(layer)[e];
      ASSERT_NE(bytes, nullptr);
      const int block = layer * kExperts + e;
      for (std::int64_t k = 0; k < sizes_[static_cast<std::size_t>(block)]; k += 509)
        ASSERT_EQ(bytes[k], at(block, static_cast<std::size_t>(k))) << "layer " << layer << " expert " << e;
    }
  }

  const std::string path_;
  std::vector<std::int64_t> sizes_;
  const PackedFingerprint print_ = packed_fingerprint("a model");
  std::unique_ptr<PackedFile> file_;
  std::atomic<Fault::Kind> fault_{Fault::Kind::kNone};
};

std::vector<std::int32_t> some(std::mt19937& random, std::size_t count) {
  std::vector<std::int32_t> all(kExperts);
  for (int e = 0; e < kExperts; ++e) all[static_cast<std::size_t>(e)] = e;
  std::shuffle(all.begin(), all.end(), random);
  all.resize(count);
  std::sort(all.begin(), all.end());
  return all;
}

TEST_F(Caches, GiveTheBytesWhateverWasNeededAndExpected) {
  std::mt19937 random(1);
  for (const int places : {1, 2, 3, 5, 12}) {
    const auto c = cache(places);
    for (int step = 0; step < 40; ++step)
      for (int l = 0; l < kLayers; ++l) {
        need(*c, l, some(random, 1 + random() % static_cast<std::size_t>(places)));
        if (HasFatalFailure()) return;
        if (random() % 2) c->layer((l + 1) % kLayers).expect(some(random, random() % 5));
        if (random() % 4 == 0) c->layer(l).expect(some(random, 2));
      }
  }
}

TEST_F(Caches, ReadNothingThatIsThere) {
  const auto c = cache(4);
  for (int i = 0; i < 5; ++i) need(*c, 0, {1, 3, 7, 9});
  EXPECT_EQ(c->stats().experts, 20u);
  EXPECT_EQ(c->stats().experts_read, 4u);
  EXPECT_EQ(c->stats().bytes_read, 4u * static_cast<std::uint64_t>(padded(sizes_[0])));
}

TEST_F(Caches, KeepWhatIsUsedMost) {
  const auto c = cache(4);
  for (int i = 0; i < 20; ++i) need(*c, 0, {0, 1, i % 2 ? 2 + i % 10 : 11});
  const std::uint64_t before = c->stats().experts_read;
  need(*c, 0, {0, 1, 11});
  EXPECT_EQ(c->stats().experts_read, before);
}

TEST_F(Caches, WhatIsExpectedIsNotReadTwice) {
  const auto c = cache(4);
  c->layer(1).expect(std::vector<std::int32_t>{2, 5});
  need(*c, 1, {2, 5});
  EXPECT_EQ(c->stats().experts_read, 0u);
  EXPECT_EQ(c->stats().experts_ahead, 2u);
  EXPECT_EQ(c->stats().bytes_read, 2u * static_cast<std::uint64_t>(padded(sizes_[kExperts])));
}

TEST_F(Caches, FaultsAreErrorsUntilTheyGo) {
  std::mt19937 random(2);
  auto c = cache(3);
  need(*c, 0, {1, 2, 3});
  for (const Fault::Kind kind : {Fault::Kind::kError, Fault::Kind::kEnd, Fault::Kind::kFlip}) {
    fault_ = kind;
    for (int i = 0; i < 3; ++i) {
      c->layer(2).expect(some(random, 3));
      try {
        c->layer(1).need(some(random, 3));
        FAIL() << "fault " << static_cast<int>(kind);
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), Code::kIo);
        EXPECT_EQ(e.context(), path_);
      }
    }
    fault_ = Fault::Kind::kNone;
    for (int l = 0; l < kLayers; ++l)
      for (int i = 0; i < 4; ++i) need(*c, l, some(random, 3));
    if (HasFatalFailure()) return;
    c = cache(3);
  }
  fault_ = Fault::Kind::kShort;
  const auto d = cache(3);
  for (int l = 0; l < kLayers; ++l) need(*d, l, some(random, 3));
}

}  // namespace expert_cache_test
}  // namespace kvasir::weights
