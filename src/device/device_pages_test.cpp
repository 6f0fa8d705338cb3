// Caches whose pages an OpenCL device folds: the bits of those without one. CI has PoCL.
#include <gtest/gtest.h>

#include <atomic>

#include "base/error.hpp"
#include "device/opencl.hpp"
#include "device/pages.hpp"
#include "kv/life_fixture.hpp"
#include "select/spec.hpp"

namespace kvasir::device {
namespace {

using kv::fixture::expect_same_bits;
using kv::fixture::life_tokens;
using kv::fixture::live;

constexpr int kPrompt = 2300;  // two groups and more of sealed pages

const Found* found() {
  static const Survey all = survey();
  return all.devices.empty() || !all.devices.front().refused.empty() ? nullptr : &all.devices.front();
}

#define NEEDS_DEVICE() \
  if (!found()) GTEST_SKIP() << "SKIPPED: no OpenCL device (pocl-opencl-icd ocl-icd-libopencl1)"

kv::CacheShape shape() {
  kv::CacheShape s = kv::CacheShape::uniform(4, {2, 6, 32, 48});
  s.layers[1].window = 200;
  s.layers[3].kv_of = 2;
  return s;
}

kv::CacheOptions options(const std::string& k, const std::string& v, const std::string& selector = "all") {
  kv::CacheOptions o;
  o.k_codec = k;
  o.v_codec = v;
  o.selector = select::read_selector(selector, "test");
  o.max_tokens = 4 * life_tokens(kPrompt);
  o.max_sequences = 4;
  return o;
}

// A life with a prompt, a batch, a fork, a cut and a sequence from bytes: the same with the device as without.
kv::DeviceStats compare(const kv::CacheShape& s, kv::CacheOptions o, const Found& device, std::uint64_t memory = 0,
                        float soft_cap = 0) {
  Team one(1), two(2);
  kv::Cache host(one, s, o);
  o.device = std::make_shared<Pages>(device, memory);
  kv::Cache with(two, s, o);
  expect_same_bits(live(with, kPrompt, 350, soft_cap), live(host, kPrompt, 500, soft_cap),
                   o.k_codec + " " + std::string(o.selector->text()));
  return with.stats().device;
}

TEST(DevicePages, GiveTheBitsOfTheHost) {
  NEEDS_DEVICE();
  for (const auto& [k, v] : {std::pair("rq4", "rq4"), {"int4_channel", "int4_token"}, {"hqq4", "hqq2"}}) {
    const kv::DeviceStats stats = compare(shape(), options(k, v), *found());
    EXPECT_GT(stats.folded_groups, 2000u) << k;
    EXPECT_GT(stats.held_pages, 20);
    EXPECT_EQ(stats.refused_folds, 0u);
    EXPECT_EQ(stats.lost, "");
  }
}

TEST(DevicePages, LayersOfOtherCodecsAreTheHosts) {
  NEEDS_DEVICE();
  kv::CacheOptions o = options("rq4", "rq4");
  o.layers = {{0, 0, "polar4", "rq4"}};
  const kv::DeviceStats stats = compare(shape(), o, *found());
  EXPECT_GT(stats.folded_groups, 500u);
  EXPECT_GT(stats.refused_folds, 20u);  // layer 0
  EXPECT_EQ(stats.lost, "");
}

TEST(DevicePages, FoldWhatSelectorsChoseAndNoSinks) {
  NEEDS_DEVICE();
  EXPECT_GT(compare(shape(), options("rq4", "rq4", "quest:budget=1536"), *found()).folded_groups, 0u);
  kv::CacheOptions o = options("f16", "f16");
  o.sinks = 0;
  EXPECT_GT(compare(shape(), o, *found()).folded_groups, 0u);
}

TEST(DevicePages, WhatDoesNotFitTheHostFolds) {
  NEEDS_DEVICE();
  const kv::DeviceStats all = compare(shape(), options("f16", "f16"), *found());
  const std::uint64_t page = all.uploaded_bytes / static_cast<std::uint64_t>(all.held_pages + 1);
  const kv::DeviceStats some = compare(shape(), options("f16", "f16"), *found(), 20 * page);
  EXPECT_LT(some.most_pages, all.held_pages);
  EXPECT_LE(some.held_pages, some.most_pages);
  EXPECT_GT(some.folded_groups, 0u);
  EXPECT_LT(some.folded_groups, all.folded_groups);
}

// Some steps of a life have one.
TEST(DevicePages, SoftCapsAreTheHosts) {
  NEEDS_DEVICE();
  const kv::DeviceStats stats = compare(shape(), options("f16", "f16"), *found(), 0, 20.0f);
  EXPECT_GT(stats.refused_folds, 50u);
  EXPECT_EQ(stats.lost, "");
}

// Reads of states fail from the 40th on.
std::atomic<int> reads{0};
cl_int (*real_read)(void*, void*, cl_uint, std::size_t, std::size_t, void*, cl_uint, void* const*, void**) = nullptr;

TEST(DevicePages, ALostDeviceChangesNothing) {
  NEEDS_DEVICE();
  Found failing = *found();
  auto api = std::make_shared<Api>(*failing.api);
  real_read = api->EnqueueReadBuffer;
  reads = 0;
  api->EnqueueReadBuffer = [](void* queue, void* buffer, cl_uint blocking, std::size_t at, std::size_t bytes, void* to,
                              cl_uint n, void* const* waits, void** event) {
    return ++reads < 40 ? real_read(queue, buffer, blocking, at, bytes, to, n, waits, event) : kOutOfResources;
  };
  failing.api = api;
  const kv::DeviceStats stats = compare(shape(), options("rq4", "rq4"), failing);
  EXPECT_NE(stats.lost.find("CL_OUT_OF_RESOURCES (-5)"), std::string::npos) << stats.lost;
  EXPECT_EQ(stats.held_pages, 0);
  EXPECT_GT(stats.folded_groups, 0u);
}

// Others have taken the memory: the driver says so when a buffer is made, or only when it is first written to. Buffers
// of a MiB and more are those of pages.
constexpr std::size_t kOfPages = 1 << 20;
void* (*real_create)(void*, cl_ulong, std::size_t, void*, cl_int*) = nullptr;
cl_int (*real_write)(void*, void*, cl_uint, std::size_t, std::size_t, const void*, cl_uint, void* const*,
                     void**) = nullptr;
std::atomic<int> refusals{0};

TEST(DevicePages, MemoryThatIsGoneIsTheHosts) {
  NEEDS_DEVICE();
  for (const bool at_once : {true, false}) {
    Found full = *found();
    auto api = std::make_shared<Api>(*full.api);
    refusals = 0;
    real_create = api->CreateBuffer;
    real_write = api->EnqueueWriteBuffer;
    if (at_once)
      api->CreateBuffer = [](void* context, cl_ulong flags, std::size_t bytes, void* host, cl_int* code) -> void* {
        if (bytes < kOfPages) return real_create(context, flags, bytes, host, code);
        ++refusals;
        *code = kAllocationFailure;
        return nullptr;
      };
    else
      api->EnqueueWriteBuffer = [](void* queue, void* buffer, cl_uint blocking, std::size_t at, std::size_t bytes,
                                   const void* from, cl_uint n, void* const* waits, void** event) {
        if (at + bytes < kOfPages) return real_write(queue, buffer, blocking, at, bytes, from, n, waits, event);
        ++refusals;
        return kAllocationFailure;
      };
    full.api = api;
    const kv::DeviceStats stats = compare(shape(), options("f16", "f16"), full);
    EXPECT_EQ(refusals, 1) << at_once;  // it is not asked for again at every page
    EXPECT_EQ(stats.lost, "") << at_once;
    EXPECT_EQ(stats.most_pages, 0) << at_once;
    EXPECT_EQ(stats.held_pages, 0) << at_once;
    EXPECT_EQ(stats.folded_groups, 0u) << at_once;
  }
}

TEST(DevicePages, WhatCannotBeFoldedIsSaid) {
  NEEDS_DEVICE();
  kv::CacheOptions o = options("polar4", "polar4");
  o.device = std::make_shared<Pages>(*found(), 0);
  Team team(1);
  try {
    kv::Cache cache(team, shape(), o);
    FAIL() << "it took a cache that it cannot fold";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("layer 0: no kernel for keys of codec polar4"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace kvasir::device
