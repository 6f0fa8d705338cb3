// Folds on every OpenCL device at hand against the processor: states are compared as bytes. CI has PoCL
// (pocl-opencl-icd ocl-icd-libopencl1).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "base/error.hpp"
#include "device/check.hpp"
#include "device/fold.hpp"
#include "device/opened_fixture.hpp"
#include "kv/spec.hpp"

namespace kvasir::device {
namespace {

#define NEEDS_DEVICE() \
  std::string why_not; \
  if (!opened(&why_not)) GTEST_SKIP() << "SKIPPED: " << why_not

Shape shape_of(const std::string& k, const std::string& v, int d) {
  const kv::CodecSpec keys = kv::parse_codec(k, d, kv::Side::kKeys, "test");
  const kv::CodecSpec values = kv::parse_codec(v, d, kv::Side::kValues, "test");
  return {keys.codec, values.codec, keys.params, values.params, d, d};
}

// Pages 1, 7, 8, 9 with odd ends; rows 1 to 16; with and without a start.
void expect_bits(const std::string& k, const std::string& v, int d) {
  Programs programs("");
  Folder folder(*opened(), programs, shape_of(k, v, d));
  int rows = 1;
  for (const int pages : {1, 7, 8, 9})
    for (int i = 0; i < 4; ++i, ++rows) {
      const Trial trial{pages,
                        rows,
                        i == 1 ? 4 : i == 2 ? 17 : 0,
                        i == 3 ? 65 : i == 2 ? 128 - pages : 128,
                        static_cast<unsigned>(rows),
                        i % 2 == 1};
      ASSERT_EQ("", check(*opened(), folder, trial))
          << k << "/" << v << " d " << d << " pages " << pages << " rows " << rows;
    }
}

constexpr int kHeadSizes[] = {128, 64, 256, 80, 96};

class FoldOfCodecs : public ::testing::TestWithParam<int> {};

TEST_P(FoldOfCodecs, HasTheProcessorsBits) {
  NEEDS_DEVICE();
  const std::pair<const char*, const char*> pairs[] = {{"rq4", "rq4"},
                                                       {"rq5", "rq4"},
                                                       {"rq3", "rq2"},
                                                       {"rq8", "rq8"},
                                                       {"rq2", "rq5"},
                                                       {"rq4", "rq3"},
                                                       {"f16", "f16"},
                                                       {"bf16", "bf16"},
                                                       {"f32", "f32"},
                                                       {"int2_channel", "int2_token"},
                                                       {"int4_channel", "int4_token"},
                                                       {"int4_channel:64", "int4_token:64"},
                                                       {"int2_channel:128", "int2_token:128"},
                                                       {"int4_token:64", "int8_token"},
                                                       {"int2_token", "f16"},
                                                       {"int8_token:128", "rq4"},
                                                       {"hqq2", "hqq3"},
                                                       {"hqq3", "hqq4"},
                                                       {"hqq4", "hqq2"},
                                                       {"hqq8", "hqq8"},
                                                       {"uniform2", "uniform4"},
                                                       {"uniform4", "uniform2"}};
  // Compilers take seconds for each: every pair at one head size, unless all are wanted.
  const bool all = std::getenv("KVASIR_DEVICE_ALL") != nullptr;
  for (std::size_t i = 0; i < std::size(pairs); ++i) {
    if (!all && i % std::size(kHeadSizes) != static_cast<std::size_t>(GetParam())) continue;
    expect_bits(pairs[i].first, pairs[i].second, kHeadSizes[GetParam()]);
    if (HasFatalFailure()) return;
  }
}
INSTANTIATE_TEST_SUITE_P(HeadSizes, FoldOfCodecs, ::testing::Range(0, static_cast<int>(std::size(kHeadSizes))));

// Small enough for tests/oclgrind_test.sh.
TEST(Fold, ALittleOfEachLayout) {
  NEEDS_DEVICE();
  for (const auto& [k, v] : {std::pair("rq3", "rq5"), {"int2_channel", "int4_token"}, {"int8_token", "bf16"}}) {
    Programs programs("");
    Folder folder(*opened(), programs, shape_of(k, v, 48));
    const Trial trial{.pages = 2, .rows = 3, .first = 4, .last = 100, .start = true};
    EXPECT_EQ("", check(*opened(), folder, trial)) << k << "/" << v;
  }
}

TEST(Fold, GroupsStatesOfSeveralAsksInOneRun) {
  NEEDS_DEVICE();
  // Two heads, one of them with more rows than a block: the states of groups, merged here, are the totals.
  Programs programs("");
  Folder folder(*opened(), programs, shape_of("f16", "f16", 64));
  const std::size_t page = 128 * 64 * 2;
  std::vector<std::uint16_t> bytes(11 * page);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::uint16_t>(0x3000 + i * 2654435761u % 2048);
  const Buffer arena = opened()->make(bytes.size() * 2);
  opened()->write(arena, 0, bytes.data(), bytes.size() * 2);
  std::vector<PlacedPage> pages;
  for (int i = 0; i < 11; ++i) pages.push_back(PlacedPage::of(static_cast<std::size_t>(i) * 2 * page, 0, 0, 128));
  std::vector<float> q(12 * 64);
  for (std::size_t i = 0; i < q.size(); ++i) q[i] = static_cast<float>(i % 13) * 0.1f - 0.6f;
  std::array<const Buffer*, kArenas> arenas{};
  arenas[0] = &arena;
  const auto state = [](std::vector<float>& room, int rows) {
    room.assign(static_cast<std::size_t>(rows * (2 + 64)), 0);
    return kernel::States{room.data(), room.data() + rows, room.data() + 2 * rows};
  };
  std::vector<float> a, b, c[2], d[2];
  Ask asks[2] = {{pages, 0, page / 16, 0, q.data(), 12},
                 {std::span(pages).first(3), 0, page / 16, 0, q.data() + 64, 3}};
  asks[0].total = state(a, 12);
  asks[1].total = state(b, 3);
  folder.run(asks, arenas, 0, 0);
  kernel::States groups0[2] = {state(c[0], 12), state(c[1], 12)};
  kernel::States groups1[1] = {state(d[0], 3)};
  asks[0].groups = groups0;
  asks[1].groups = groups1;
  folder.run(asks, arenas, 0, 0);
  std::vector<float> merged;
  const kernel::States total = state(merged, 12);
  alignas(64) float room[12 * 66 + 64] = {};
  const kernel::States sum{room, room + 16, room + 32};
  (void)total;
  kernel::attention().clear(12, 64, sum);
  kernel::attention().fold(12, 64, groups0[0], sum);
  kernel::attention().fold(12, 64, groups0[1], sum);
  for (int r = 0; r < 12; ++r) {
    EXPECT_EQ(sum.max[r], a[static_cast<std::size_t>(r)]);
    EXPECT_EQ(sum.sum[r], a[static_cast<std::size_t>(12 + r)]);
    for (int i = 0; i < 64; ++i) EXPECT_EQ(sum.out[r * 64 + i], a[static_cast<std::size_t>(24 + r * 64 + i)]);
  }
  EXPECT_EQ(b, d[0]);
  EXPECT_GT(a[12], 1.0f);
}

// Rows whose groups' states do not fit at once come in waves, of a block or of several.
TEST(Fold, TotalsInWaves) {
  NEEDS_DEVICE();
  for (const std::size_t bytes : {1, 9 * 8 * 52 * 4, 1 << 20}) {
    Programs programs("");
    Folder folder(*opened(), programs, shape_of("f16", "rq4", 48), kOptions, bytes);
    for (const int pages : {3, 20})
      EXPECT_EQ("", check(*opened(), folder, {.pages = pages, .rows = 37, .first = 4, .last = 99, .start = true}))
          << bytes;
  }
}

// Small enough for tests/oclgrind_test.sh: a wave a block.
TEST(Fold, ALittleInWaves) {
  NEEDS_DEVICE();
  Programs programs("");
  Folder folder(*opened(), programs, shape_of("f16", "f16", 48), kOptions, 1);
  EXPECT_EQ("", check(*opened(), folder, {.pages = 2, .rows = 19, .first = 4, .last = 99, .start = true}));
}

TEST(Check, RefusesADeviceWhoseOptionsChangeBits) {
  NEEDS_DEVICE();
  Programs programs("");
  Folder folder(*opened(), programs, shape_of("rq4", "rq4", 128), "-cl-std=CL1.2 -cl-fast-relaxed-math");
  try {
    require(*opened(), folder);
    FAIL() << "fast math passed the check";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("rq4, heads of 128"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("on the device"), std::string::npos) << e.what();
  }
  Folder right(*opened(), programs, shape_of("rq4", "rq4", 128));
  EXPECT_NO_THROW(require(*opened(), right));
}

TEST(Forms, SayWhyAShapeIsTheProcessors) {
  const Shape odd{kv::parse_codec("f16", 8, kv::Side::kKeys, "t").codec,
                  kv::parse_codec("f16", 8, kv::Side::kValues, "t").codec,
                  {},
                  {},
                  8,
                  8};
  EXPECT_NE(refuse(odd).find("heads of 8"), std::string::npos);
  EXPECT_EQ("", refuse(shape_of("rq5", "int4_token", 128)));
}

}  // namespace
}  // namespace kvasir::device
