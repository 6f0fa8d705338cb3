// Caches with a device: the bits of those without one, whatever the device holds, refuses or loses.
#include "kv/device_folds.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "kv/device_fixture.hpp"
#include "kv/life_fixture.hpp"
#include "kv/rotation.hpp"
#include "select/spec.hpp"

namespace kvasir::kv {
namespace device_folds_test {

using fixture::decode;
using fixture::DeviceLimits;
using fixture::expect_same_bits;
using fixture::Outputs;
using fixture::ThreadDevice;
using fixture::Tokens;

constexpr int kPrompt = 3300;  // three groups and more of sealed pages

CacheShape shape() {
  CacheShape s = CacheShape::uniform(4, {2, 6, 32, 48});
  s.layers[1].window = 200;
  s.layers[3].kv_of = 2;
  return s;
}

CacheOptions options(const std::string& codec, const std::string& selector = "all") {
  CacheOptions o;
  o.k_codec = o.v_codec = codec;
  o.selector = select::read_selector(selector, "test");
  o.max_tokens = 4 * fixture::life_tokens(kPrompt);
  o.max_sequences = 4;
  return o;
}

// The same life with a device as without.
DeviceStats compare(const CacheShape& s, CacheOptions o, DeviceLimits limits = {}, float soft_cap = 0) {
  Team one(1), two(2);
  Cache host(one, s, o);
  const auto device = std::make_shared<ThreadDevice>(limits);
  o.device = device;
  Cache with(two, s, o);
  expect_same_bits(fixture::live(with, kPrompt, 350, soft_cap), fixture::live(host, kPrompt, 500, soft_cap),
                   o.k_codec + " " + std::string(o.selector->text()));
  EXPECT_EQ(host.stats().device.name, "");
  return with.stats().device;
}

TEST(DeviceFolds, GiveTheBitsOfTheHost) {
  for (const auto& [k, v] : {std::pair("rq4", "rq4"), {"f16", "f16"}, {"int4_channel", "int4_token"}}) {
    CacheOptions o = options(k);
    o.v_codec = v;
    const DeviceStats stats = compare(shape(), o);
    EXPECT_GT(stats.folded_groups, 5000u) << k;
    EXPECT_GT(stats.held_pages, 20);
    EXPECT_EQ(stats.lost, "");
  }
  EXPECT_GT(compare(shape(), options("bf16"), {}, 20.0f).folded_groups, 0u);
}

TEST(DeviceFolds, FoldWhatSelectorsChose) {
  for (const char* spec : {"quest:budget=2048", "spread:budget=1536:block=16:prompt=16:tail=mean",
                           "quest:budget=2048:heads=shared:meter=4:floor=0.8", "keys:budget=2048:block=16:meter=8"})
    EXPECT_GT(compare(shape(), options("rq4", spec)).folded_groups, 0u) << spec;
}

TEST(DeviceFolds, LatentRowsAndNoSinks) {
  CacheShape s = CacheShape::uniform(2, {1, 6, 48, 32});
  for (LayerShape& l : s.layers) l.latent = true;
  EXPECT_GT(compare(s, options("rq4")).folded_groups, 0u);
  for (const int sinks : {0, 128}) {
    CacheOptions o = options("rq4");
    o.sinks = sinks;
    EXPECT_GT(compare(shape(), o).folded_groups, 0u) << sinks;
  }
}

// Groups with a page that the device has no room for are the host's; what lies between them comes as states.
TEST(DeviceFolds, HoldSomePages) {
  const std::uint64_t all = compare(shape(), options("rq4")).folded_groups;
  for (const DeviceLimits limits : {DeviceLimits{.pages = 20}, DeviceLimits{.skip = 19}}) {
    const std::uint64_t some = compare(shape(), options("rq4"), limits).folded_groups;
    EXPECT_GT(some, 0u);
    EXPECT_LT(some, all);
  }
}

TEST(DeviceFolds, AreRefused) {
  const DeviceStats stats = compare(shape(), options("rq4"), {.refuse = 3});
  EXPECT_GT(stats.refused_folds, 100u);
  EXPECT_GT(stats.folded_groups, 0u);
}

TEST(DeviceFolds, AreLostInTheMiddle) {
  for (const int at : {1, 2, 100})
    for (const char* spec : {"all", "spread:budget=2048:tail=mean"}) {
      const DeviceStats stats = compare(shape(), options("rq4", spec), {.lost_at = at});
      EXPECT_NE(stats.lost, "") << at;
      EXPECT_EQ(stats.held_pages, 0);
    }
}

TEST(DeviceFolds, ReadPagesFromADisk) {
  const std::string folder = testing::TempDir() + "/device-pages-" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  CacheOptions o = options("rq4");
  o.disk = folder;
  o.disk_memory = 8 << 20;
  EXPECT_GT(compare(shape(), o).folded_groups, 0u);
  std::filesystem::remove_all(folder);
}

// Several drafted tokens of a step, whose rows are folded together, and cut back.
TEST(DeviceFolds, DraftedTokens) {
  Team team(2);
  CacheOptions o = options("rq4");
  const Tokens t = fixture::random_tokens(shape(), fixture::life_tokens(kPrompt), 5);
  const auto run = [&](std::shared_ptr<PageDevice> device) {
    o.device = std::move(device);
    Cache cache(team, shape(), o);
    Sequence* s = cache.create();
    Outputs outs = fixture::feed(cache, s, t, 0, kPrompt, 512);
    for (int i = kPrompt; i < kPrompt + 60; i += 2) {
      const auto more = fixture::step(cache, {{s, &t, i, 4, true}});
      fixture::append(&outs, more[0]);
      if (cache.rules().can_truncate(*s, i + 2)) cache.truncate(s, i + 2);
    }
    return outs;
  };
  const auto device = std::make_shared<ThreadDevice>();
  expect_same_bits(run(device), run(nullptr), "drafted");
  EXPECT_GT(device->totals(), 0u);
}

// Borrowed pages are the host's, with rotated queries; own ones behind them come as states of groups.
TEST(DeviceFolds, BesideBorrowedPages) {
  Team team(2);
  const CacheShape s = CacheShape::uniform(2, {2, 6, 32, 32});
  std::vector<double> frequencies;
  for (int i = 0; i < 16; ++i) frequencies.push_back(std::pow(10000.0, -2.0 * i / 32));
  const Rotation rotation{frequencies.data(), 16, kernel::RopePairs::kSplitHalf};
  const Tokens t = fixture::random_tokens(s, 3000, 6);
  CacheOptions o = options("rq4");
  std::uint64_t prompts = 0;
  const auto run = [&](std::shared_ptr<PageDevice> cache_device) {
    o.device = cache_device;
    Cache cache(team, s, o);
    Sequence* lender = cache.create();
    fixture::feed(cache, lender, t, 0, 1000, 512);
    BorrowedRun borrowed{.begin = 1500, .end = 2012, .made_at = 128};
    for (std::int64_t page = 1; page < 5; ++page) {
      std::vector<std::byte> bytes;
      for (const auto piece : cache.bytes().sealed_page(*lender, page))
        bytes.insert(bytes.end(), piece.begin(), piece.end());
      borrowed.slots.push_back(cache.borrowing().adopt_page(bytes));
    }
    Sequence* reader = cache.create();
    fixture::feed(cache, reader, t, 0, 1500, 512);
    const std::int64_t fresh[] = {2012};
    cache.borrowing().borrow(reader, {&borrowed, 1}, fresh);
    // A prompt behind them, in parts of many rows, and generated tokens.
    Outputs outs(2);
    for (int i = 1500; i < 1760; i += 130) {
      fixture::append(&outs, fixture::step(cache, {{reader, &t, i, 130}}, 0, &rotation)[0]);
      if (auto* const d = static_cast<ThreadDevice*>(cache_device.get())) prompts = d->totals();
    }
    for (int i = 1760; i < 1900; ++i)
      fixture::append(&outs, fixture::step(cache, {{reader, &t, i, 1, true}}, 0, &rotation)[0]);
    cache.check_integrity();
    return outs;
  };
  const auto device = std::make_shared<ThreadDevice>();
  expect_same_bits(run(device), run(nullptr), "borrowed");
  EXPECT_GT(device->stats().folded_groups, 2 * 260u);
  EXPECT_GT(prompts, 0u);
  EXPECT_EQ(device->totals(), prompts);  // a prompt's total begins with borrowed pages, a generated token's does not
}

// Parts of two prompts and a generated token in one step, in chunks that end anywhere; a run of tokens that see each
// other lies in one of them and begins before pages that are sealed. Of groups most are the device's.
TEST(DeviceFolds, PromptsOfABatch) {
  Team one(1), two(2);
  constexpr int kAll = 2 * kGroupPages * kPageTokens + 700;
  CacheOptions o = options("rq4");
  const CacheShape s = CacheShape::uniform(2, {2, 6, 32, 48});
  const Tokens t = fixture::random_tokens(s, kAll, 7), other = fixture::random_tokens(s, kAll, 8);
  const std::vector<BothWays> both{{2010, 2400}};
  const auto run = [&](Team& team, std::shared_ptr<PageDevice> device, int chunk) {
    o.device = std::move(device);
    Cache cache(team, s, o);
    Sequence *a = cache.create(), *b = cache.create(), *c = cache.create();
    fixture::feed(cache, c, other, 0, 1500, 512);
    Outputs outs[3] = {Outputs(2), Outputs(2), Outputs(2)};
    for (int i = 0, token = 0; i < kAll;) {
      int n = std::min(chunk, kAll - i);
      if (i < 2010) n = std::min(n, 2010 - i);
      if (i == 2010) n = 390;  // whole
      const auto three =
          fixture::step(cache, {{a, &t, i, n, false, both}, {b, &other, i, n}, {c, &t, 1500 + token % 100, 1, true}});
      for (int k = 0; k < 3; ++k) fixture::append(&outs[k], three[static_cast<std::size_t>(k)]);
      i += n, ++token;
    }
    fixture::append(&outs[0], outs[1]);
    cache.check_integrity();
    return outs[0];
  };
  const auto device = std::make_shared<ThreadDevice>();
  const Outputs expected = run(one, nullptr, 512);
  expect_same_bits(run(two, device, 300), expected, "batch");
  EXPECT_GT(device->stats().folded_groups, 10000u);
  EXPECT_GT(device->totals(), 20u);
  for (const DeviceLimits limits : {DeviceLimits{.skip = 13}, DeviceLimits{.refuse = 2}, DeviceLimits{.lost_at = 15}})
    expect_same_bits(run(two, std::make_shared<ThreadDevice>(limits), 300), expected, "limits");
}

// Slots that are used again have nothing of the sequence before.
TEST(DeviceFolds, FreedSlotsAreForgotten) {
  Team team(1);
  CacheOptions o = options("f16");
  const auto device = std::make_shared<ThreadDevice>();
  o.device = device;
  o.max_tokens = kPrompt + 100;
  {
    Cache cache(team, CacheShape::uniform(1, {2, 6, 32, 32}), o);
    std::vector<Outputs> outs;
    for (const int seed : {81, 82, 81}) {
      const Tokens t = fixture::random_tokens(cache.shape(), kPrompt + 10, static_cast<std::uint64_t>(seed));
      Sequence* s = cache.create();
      fixture::feed(cache, s, t, 0, kPrompt, 600);
      cache.truncate(s, 1000);  // pages become raw again
      fixture::feed(cache, s, t, 1000, kPrompt, 600);
      outs.push_back(decode(cache, s, t, kPrompt, kPrompt + 5));
      cache.release(s);
      EXPECT_EQ(cache.stats().device.held_pages, 0);
    }
    expect_same_bits(outs[0], outs[2], "the same tokens");
  }
  EXPECT_EQ(device->stats().held_pages, 0);  // closed
  EXPECT_GT(device->totals(), 0u);
}

}  // namespace device_folds_test
}  // namespace kvasir::kv
