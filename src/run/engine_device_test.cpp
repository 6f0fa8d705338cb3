// An engine whose cache has a device (kv/device.hpp): the answers of one without.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>

#include "base/error.hpp"
#include "device/driver.hpp"
#include "device/opencl.hpp"
#include "device/pages.hpp"
#include "device/products.hpp"
#include "kv/device_fixture.hpp"
#include "run/engine.hpp"

namespace kvasir::run {
namespace engine_device_test {

std::vector<float> run(std::shared_ptr<kv::PageDevice> device, const char* kv, const char* name = "",
                       kv::DeviceStats* stats = nullptr) {
  EngineOptions o;
  o.device = name;
  o.model = std::string(KVASIR_SOURCE_DIR) + "/models/kvasir-books-4m.gguf";
  o.ctx = 2048;
  o.kv = kv;
  o.threads = 2;
  if (*name) o.device_from = 0, o.device_weights = "0";
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

// Logits of every row of a prompt, and of tokens behind it, with a device that multiplies prompts.
struct Prompt {
  std::vector<float> logits;
  cpu::ProductDeviceStats products;
};
using MakeProducts = decltype(Engine::Needs::make_products);

Prompt prompt_with(MakeProducts make, const char* weights = "", const char* rounded = "q4_k") {
  EngineOptions o;
  o.model = std::string(KVASIR_SOURCE_DIR) + "/models/kvasir-books-4m.gguf";
  o.ctx = 1024;
  o.threads = 2;
  o.chunk = 200;  // tiles that are cut, and a last chunk of few rows
  o.weights = rounded;
  if (*weights) o.device = "opencl", o.device_from = 0, o.device_weights = weights;
  Engine engine(o, {.logits = 200, .make_products = std::move(make)});
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 417; ++i) ids.push_back((i * 37 + i / 11) % engine.model().spec().vocab);
  kv::Sequence* s = engine.cache().create();
  Prompt p;
  const auto add = [&](std::span<const float> logits) {
    p.logits.insert(p.logits.end(), logits.begin(), logits.end());
  };
  for (std::size_t at = 0; at < ids.size(); at += 200) {
    const std::size_t n = std::min<std::size_t>(200, ids.size() - at);
    const std::span<const std::int32_t> part = std::span(ids).subspan(at, n);
    add(engine.feed(s, part, static_cast<int>(n)));
  }
  for (int i = 0; i < 3; ++i) add(engine.decode(s, ids[static_cast<std::size_t>(i)]));
  p.products = engine.product_stats();
  return p;
}

bool same_bits(const Prompt& a, const Prompt& b) {
  return a.logits.size() == b.logits.size() &&
         std::memcmp(a.logits.data(), b.logits.data(), a.logits.size() * sizeof(float)) == 0;
}

TEST(EngineDevice, PromptsAreThoseWithoutIt) {
  if (device::survey().devices.empty()) GTEST_SKIP() << "SKIPPED: no OpenCL device";
  for (const char* rounded : {"q8_0", "q4_0"}) {
    const Prompt of_host = prompt_with({}, "", rounded), with = prompt_with({}, "1GiB", rounded);
    EXPECT_TRUE(same_bits(with, of_host)) << rounded;
    EXPECT_GT(with.products.products, 0u) << rounded;
  }
  const Prompt without = prompt_with({});
  EXPECT_EQ("", without.products.name);
  for (const char* weights : {"1GiB", "1MiB"}) {
    const Prompt with = prompt_with({}, weights);
    EXPECT_TRUE(same_bits(with, without)) << weights;
    EXPECT_GT(with.products.products, 0u) << weights;
    EXPECT_EQ("", with.products.lost);
  }
  const Prompt never = prompt_with({}, "0");
  EXPECT_TRUE(same_bits(never, without));
  EXPECT_EQ("", never.products.name);
}

// Launches fail from the 12th product on, in the middle of a layer of the first chunk; or no answer comes any more.
std::atomic<int> product_launches{0};
std::atomic<int> answers{0};
device::cl_int (*real_event)(void*, device::cl_uint, std::size_t, void*, std::size_t*) = nullptr;

TEST(EngineDevice, ADeviceLostInTheMiddleOfAPromptChangesNothing) {
  const device::Survey all = device::survey();
  if (all.devices.empty() || !all.devices.front().refused.empty()) GTEST_SKIP() << "SKIPPED: no OpenCL device";
  const Prompt without = prompt_with({});
  for (const bool hangs : {false, true}) {
    device::Found failing = all.devices.front();
    failing.limits.deadline = 0.3;
    auto api = std::make_shared<device::Api>(*failing.api);
    real_launch = api->EnqueueNDRangeKernel;
    real_event = api->GetEventInfo;
    product_launches = 1 << 30;
    answers = 1 << 30;
    api->EnqueueNDRangeKernel = [](void* queue, void* kernel, device::cl_uint dimensions, const std::size_t* from,
                                   const std::size_t* items, const std::size_t* group, device::cl_uint n,
                                   void* const* waits, void** event) {
      return --product_launches >= 0 ? real_launch(queue, kernel, dimensions, from, items, group, n, waits, event)
                                     : device::kOutOfResources;
    };
    api->GetEventInfo = [](void* event, device::cl_uint what, std::size_t size, void* to, std::size_t* needed) {
      if (--answers >= 0) return real_event(event, what, size, to, needed);
      const device::cl_int queued = 3;
      std::memcpy(to, &queued, sizeof queued);
      return 0;
    };
    failing.api = api;
    const Prompt with = prompt_with([&](std::span<const cpu::Matrix* const> matrices) {
      auto products = std::make_unique<device::WeightProducts>(failing);
      Team team(2);
      products->open(matrices, {.memory = 1 << 30, .from_rows = 32}, team);
      (hangs ? answers : product_launches) = hangs ? 40 : 12;
      return std::unique_ptr<cpu::ProductDevice>(std::move(products));
    });
    EXPECT_TRUE(same_bits(with, without)) << hangs;
    EXPECT_GT(with.products.products, 0u) << hangs;
    EXPECT_NE(with.products.lost.find(hangs ? "no answer within 0.3 s" : "CL_OUT_OF_RESOURCES (-5)"), std::string::npos)
        << with.products.lost;
    if (!hangs) {
      EXPECT_EQ(-1, product_launches);  // it is not tried again
    }
  }
}

// The same with pages: the answer goes on with the processor.
TEST(EngineDevice, ADeviceThatHangsIsLostOnce) {
  const device::Survey all = device::survey();
  if (all.devices.empty() || !all.devices.front().refused.empty()) GTEST_SKIP() << "SKIPPED: no OpenCL device";
  device::Found failing = all.devices.front();
  failing.limits.deadline = 0.3;
  auto api = std::make_shared<device::Api>(*failing.api);
  real_event = api->GetEventInfo;
  answers = 1 << 30;
  api->GetEventInfo = [](void* event, device::cl_uint what, std::size_t size, void* to, std::size_t* needed) {
    if (--answers >= 0) return real_event(event, what, size, to, needed);
    const device::cl_int queued = 3;
    std::memcpy(to, &queued, sizeof queued);
    return 0;
  };
  failing.api = api;
  struct Hangs final : public device::Pages {
    using Pages::Pages;
    bool begin(int layer, float soft_cap, std::span<const kv::DeviceFold> folds) override {
      if (++begun == 20) answers = 0;
      return Pages::begin(layer, soft_cap, folds);
    }
    int begun = 0;
  };
  kv::DeviceStats stats;
  const auto pages = std::make_shared<Hangs>(failing, 0);
  const std::vector<float> with = run(pages, "balanced", "", &stats), without = run(nullptr, "balanced");
  ASSERT_EQ(with.size(), without.size());
  EXPECT_EQ(std::memcmp(with.data(), without.data(), with.size() * sizeof(float)), 0);
  EXPECT_GT(stats.folded_groups, 0u);
  EXPECT_EQ(20, pages->begun);
  EXPECT_NE(stats.lost.find("no answer within 0.3 s"), std::string::npos) << stats.lost;
}

// From which depth on it is used is measured, or told.
TEST(EngineDevice, ShortTextsStayWithTheProcessor) {
  const device::Survey all = device::survey();
  if (all.devices.empty() || !all.devices.front().refused.empty()) GTEST_SKIP() << "SKIPPED: no OpenCL device";
  const std::vector<float> without = run(nullptr, "balanced");
  for (const std::int64_t from : {1024, 1536, 2048}) {  // of 1,700 tokens 1,536 are sealed, and one group is whole
    kv::DeviceStats stats;
    const std::vector<float> with =
        run(std::make_shared<device::Pages>(all.devices.front(), 0, from), "balanced", "", &stats);
    EXPECT_EQ(std::memcmp(with.data(), without.data(), with.size() * sizeof(float)), 0);
    EXPECT_EQ(stats.folded_groups > 0, from <= 1536) << from;
    EXPECT_EQ(from, stats.from_tokens);
  }
  kv::DeviceStats stats;
  const std::vector<float> with =
      run(std::make_shared<device::Pages>(all.devices.front(), 0, -1, 2), "balanced", "", &stats);
  EXPECT_EQ(std::memcmp(with.data(), without.data(), with.size() * sizeof(float)), 0);
  EXPECT_NE(stats.note.find("measured: 8192 tokens of a layer take"), std::string::npos) << stats.note;
  EXPECT_TRUE(stats.from_tokens == kv::DeviceStats::kNever || stats.from_tokens % 1024 == 0) << stats.from_tokens;
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

}  // namespace engine_device_test
}  // namespace kvasir::run
