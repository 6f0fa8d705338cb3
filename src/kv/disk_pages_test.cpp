// Caches whose sealed pages are on a disk: the bits of those in memory, whatever a sequence goes through, with few
// frames; and a disk that fails is an error, never a wrong answer.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/error.hpp"
#include "kv/life_fixture.hpp"
#include "kv/page.hpp"
#include "kv/page_file_fixture.hpp"
#include "select/spec.hpp"

namespace kvasir::kv {
namespace disk_pages_test {

using fixture::decode;
using fixture::expect_same_bits;
using fixture::Tokens;

constexpr int kPrompt = 1700;
const int kAll = fixture::life_tokens(kPrompt);

CacheShape shape() {
  CacheShape s = CacheShape::uniform(4, {2, 6, 32, 32});
  s.layers[1].window = 200;
  s.layers[3].kv_of = 2;
  return s;
}

class OnDisk : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/pages-" + std::to_string(getpid());
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  CacheOptions options(const std::string& selector, bool disk, const std::string& codec = "rq4",
                       int threads = 3) const {
    CacheOptions o;
    o.k_codec = o.v_codec = codec;
    o.selector = select::read_selector(selector, "test");
    o.max_tokens = 4 * kAll;
    o.max_sequences = 4;
    if (!disk) return o;
    o.disk = folder_;
    o.disk_memory = least(o, threads);
    return o;
  }
  // The least memory that so many threads can work with.
  static std::size_t least(CacheOptions o, int threads) {
    o.disk = "nowhere";
    o.disk_memory = 0;
    try {
      plan_memory(shape(), o, threads);
    } catch (const Error& e) {
      const std::string text = e.what();
      return std::stoull(text.substr(text.find("at least ") + 9));
    }
    return 0;
  }

  std::string folder_;
};

const std::vector<std::string> kSpecs{"all",
                                      "quest:budget=512",
                                      "spread:budget=512:block=16:prompt=16:tail=mean",
                                      "quest:budget=512:heads=shared:meter=4:floor=0.8",
                                      "mean:budget=640:preselect=12:block=32:token_step=3",
                                      "keys:budget=512:block=16:meter=8",
                                      "sink_recent:budget=256"};

TEST_F(OnDisk, PagesHaveTheBitsOfThoseInMemory) {
  for (const std::string& spec : kSpecs)
    for (const char* codec : {"rq4", "f16"}) {
      Team one(1), three(3);
      Cache memory(one, shape(), options(spec, false, codec)), disk(three, shape(), options(spec, true, codec));
      expect_same_bits(fixture::live(disk, kPrompt, 61), fixture::live(memory, kPrompt, 500), spec + " " + codec);
      const DiskStats f = disk.stats().disk;
      EXPECT_GT(f.misses, 100u) << spec;  // there were too few frames for all
      EXPECT_GT(f.hits, 100u) << spec;
      EXPECT_GT(f.read_bytes, 0u);
      EXPECT_GT(f.written_bytes, 0u);
      EXPECT_TRUE(f.how == std::string("io_uring") || f.how == std::string("pread"));
      EXPECT_STREQ(memory.stats().disk.how, "");
    }
}

// Slots that were another sequence's have nothing of it.
TEST_F(OnDisk, SlotsAreUsedAgain) {
  const CacheShape full = CacheShape::uniform(2, {2, 6, 32, 32});  // windows would not be cut so far
  Team team(2);
  CacheOptions o = options("all", true, "f16");
  o.max_tokens = kAll;
  Cache cache(team, full, o);
  std::vector<std::uint64_t> digests;
  for (const int seed : {81, 82, 81}) {
    const Tokens t = fixture::random_tokens(full, kAll, static_cast<std::uint64_t>(seed));
    Sequence* s = cache.create();
    fixture::feed(cache, s, t, 0, 1500, 400);
    decode(cache, s, t, 1500, 1503);
    digests.push_back(cache.bytes().digest(*s));
    cache.truncate(s, 1000);  // pages become raw again
    fixture::feed(cache, s, t, 1000, 1503, 400);
    EXPECT_EQ(cache.bytes().digest(*s), digests.back());
    cache.release(s);
    cache.check_integrity();
  }
  EXPECT_EQ(digests[0], digests[2]);
  EXPECT_NE(digests[0], digests[1]);
}

TEST_F(OnDisk, MemoryIsThatOfTheFrames) {
  const CacheOptions disk = options("quest", true), memory = options("quest", false);
  const MemoryPlan a = plan_memory(shape(), disk, 3), b = plan_memory(shape(), memory, 3);
  EXPECT_EQ(a.disk_bytes +
                static_cast<std::size_t>(a.pages) * (b.chunk_bytes - a.disk_bytes / static_cast<std::size_t>(a.pages)),
            static_cast<std::size_t>(b.pages) * b.chunk_bytes);
  CacheOptions longer = disk;
  longer.max_tokens = 1 << 20;
  const MemoryPlan c = plan_memory(shape(), longer, 3);
  EXPECT_EQ(c.disk_bytes / static_cast<std::size_t>(c.pages), a.disk_bytes / static_cast<std::size_t>(a.pages));
  EXPECT_LT(c.sealed_bytes, c.disk_bytes / 2);  // summaries
  CacheOptions none = disk;
  none.disk_memory = 1000;
  EXPECT_THROW(plan_memory(shape(), none, 3), Error);
}

// A step that cannot read its pages ends with an error and leaves its sequences empty, others as they were.
TEST_F(OnDisk, AFailingDiskIsAnErrorAndNeverAnAnswer) {
  for (const bool shorter : {false, true})
    for (const char* spec : {"all", "quest:budget=512"}) {
      Team team(1);
      Cache cache(team, shape(), options(spec, true, "rq4", 1));
      const Tokens t = fixture::random_tokens(shape(), kAll, 73);
      Sequence* s = cache.create();
      fixture::feed(cache, s, t, 0, kPrompt, 500);
      Sequence* young = cache.create();  // has no sealed pages
      fixture::feed(cache, young, t, 0, 100, 100);
      shorter ? fixture::cut_page_files(folder_, 1000) : fixture::spoil_page_files(folder_);
      try {
        decode(cache, s, t, kPrompt, kPrompt + 20);
        FAIL() << spec;
      } catch (const Error& e) {
        EXPECT_EQ(e.code(), Code::kIo);
        EXPECT_NE(std::string(e.what()).find("page file"), std::string::npos) << e.what();
      }
      EXPECT_EQ(Cache::length(*s), 0);
      EXPECT_EQ(Cache::length(*young), 100);
      cache.check_integrity();
      decode(cache, young, t, 100, 110);
      if (shorter) continue;
      // What is written anew can be read again.
      fixture::feed(cache, s, t, 0, 900, 500);
      decode(cache, s, t, 900, 910);
      EXPECT_EQ(Cache::length(*s), 910);
    }
}

TEST_F(OnDisk, BadPlacesAreRefused) {
  Team team(1);
  CacheOptions o = options("all", true);
  o.disk = folder_ + "/nothing";
  EXPECT_THROW(Cache(team, shape(), o), Error);
}

}  // namespace disk_pages_test
}  // namespace kvasir::kv
