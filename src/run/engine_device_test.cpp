// An engine whose cache has a device (kv/device.hpp): the answers of one without.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

#include "base/error.hpp"
#include "device/driver.hpp"
#include "device/opencl.hpp"
#include "device/pages.hpp"
#include "kv/device_fixture.hpp"
#include "run/engine.hpp"

namespace kvasir::run {
namespace {

std::vector<float> run(std::shared_ptr<kv::PageDevice> device, const char* kv, const char* name = "",
                       kv::DeviceStats* stats = nullptr) {
  EngineOptions o;
  o.device = name;
  o.model = std::string(KVASIR_SOURCE_DIR) + "/models/kvasir-books-4m.gguf";
  o.ctx = 2048;
  o.kv = kv;
  o.threads = 2;
  Engine engine(o, {.device = std::move(device)});
  std::vector<std::int32_t> prompt;
  for (int i = 0; i < 1700; ++i) prompt.push_back((i * 37 + i / 11) % engine.model().spec().vocab);
  engine.choose_codecs(prompt);
  kv::Sequence* s = engine.cache().create();
  engine.feed(s, prompt, 1, [](std::int64_t) { return true; });
  std::vector<float> all;
  for (int i = 0; i < 20; ++i) {
    const std::span<const float> logits = engine.decode(s, prompt[static_cast<std::size_t>(i)]);
    all.insert(all.end(), logits.begin(), logits.end());
  }
  if (stats) *stats = engine.cache().stats().device;
  return all;
}

// With "auto" the cache is made twice.
TEST(EngineDevice, LogitsAreThoseWithoutIt) {
  for (const char* kv : {"balanced", "auto"}) {
    const auto device = std::make_shared<kv::fixture::ThreadDevice>();
    const std::vector<float> with = run(device, kv), without = run(nullptr, kv);
    ASSERT_EQ(with.size(), without.size());
    EXPECT_EQ(std::memcmp(with.data(), without.data(), with.size() * sizeof(float)), 0) << kv;
    EXPECT_GT(device->stats().folded_groups, 0u) << kv;
  }
}

// The option: an OpenCL device, where there is one.
TEST(EngineDevice, LogitsAreThoseWithoutTheNamedOne) {
  if (device::survey().devices.empty()) GTEST_SKIP() << "SKIPPED: no OpenCL device";
  for (const char* kv : {"balanced", "kivi2", "auto"}) {
    kv::DeviceStats stats;
    const std::vector<float> with = run(nullptr, kv, "opencl", &stats), without = run(nullptr, kv);
    ASSERT_EQ(with.size(), without.size());
    EXPECT_EQ(std::memcmp(with.data(), without.data(), with.size() * sizeof(float)), 0) << kv;
    EXPECT_GT(stats.folded_groups, 0u) << kv;
    EXPECT_EQ(stats.lost, "");
  }
}

// An OpenCL device whose launches fail from the 40th on: the answer goes on with the processor.
std::atomic<int> launches{0};
device::cl_int (*real_launch)(void*, void*, device::cl_uint, const std::size_t*, const std::size_t*, const std::size_t*,
                              device::cl_uint, void* const*, void**) = nullptr;

TEST(EngineDevice, ADeviceLostInTheMiddleChangesNothing) {
  const device::Survey all = device::survey();
  if (all.devices.empty() || !all.devices.front().refused.empty()) GTEST_SKIP() << "SKIPPED: no OpenCL device";
  device::Found failing = all.devices.front();
  auto api = std::make_shared<device::Api>(*failing.api);
  real_launch = api->EnqueueNDRangeKernel;
  launches = 0;
  api->EnqueueNDRangeKernel = [](void* queue, void* kernel, device::cl_uint dimensions, const std::size_t* from,
                                 const std::size_t* items, const std::size_t* group, device::cl_uint n,
                                 void* const* waits, void** event) {
    return ++launches < 40 ? real_launch(queue, kernel, dimensions, from, items, group, n, waits, event)
                           : device::kOutOfResources;
  };
  failing.api = api;
  kv::DeviceStats stats;
  const auto pages = std::make_shared<device::Pages>(failing, 0);
  const std::vector<float> with = run(pages, "balanced", "", &stats), without = run(nullptr, "balanced");
  ASSERT_EQ(with.size(), without.size());
  EXPECT_EQ(std::memcmp(with.data(), without.data(), with.size() * sizeof(float)), 0);
  EXPECT_GT(stats.folded_groups, 0u);
  EXPECT_EQ(launches, 40);  // it is not tried again
  EXPECT_NE(stats.lost.find("clEnqueueNDRangeKernel: CL_OUT_OF_RESOURCES (-5)"), std::string::npos) << stats.lost;
  EXPECT_EQ(stats.held_pages, 0);
}

TEST(EngineDevice, WrongOptionsAreNamed) {
  const auto said = [](const char* name, const char* memory) -> std::string {
    EngineOptions o;
    o.model = std::string(KVASIR_SOURCE_DIR) + "/models/kvasir-books-4m.gguf";
    o.device = name;
    o.device_memory = memory;
    try {
      Engine engine(o, {});
    } catch (const Error& e) {
      return e.what();
    }
    return "nothing";
  };
  EXPECT_NE(said("", "1GiB").find("--device-memory: needs --device"), std::string::npos) << said("", "1GiB");
  EXPECT_NE(said("opencl:99", "").find("opencl:99"), std::string::npos) << said("opencl:99", "");
  EXPECT_NE(said("abacus", "").find("abacus"), std::string::npos) << said("abacus", "");
}

}  // namespace
}  // namespace kvasir::run
