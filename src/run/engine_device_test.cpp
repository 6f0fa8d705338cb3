// An engine whose cache has a device (kv/device.hpp): the answers of one without.
#include <gtest/gtest.h>

#include "kv/device_fixture.hpp"
#include "run/engine.hpp"

namespace kvasir::run {
namespace {

std::vector<float> run(std::shared_ptr<kv::PageDevice> device, const char* kv) {
  EngineOptions o;
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

}  // namespace
}  // namespace kvasir::run
