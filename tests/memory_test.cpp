// What a loaded model occupies: weights once, the cache as planned, and little else.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "base/rss.hpp"
#include "model/synth.hpp"
#include "run/engine.hpp"
#include "tensor/buffer.hpp"
#include "tiny_model_fixture.hpp"

namespace kvasir::run {
namespace memory_test {

constexpr std::uint64_t kMb = 1000000;
constexpr std::uint64_t kAllowance = 150 * kMb;

struct Case {
  const char* quant;
  bool tied;
  double most_growth;  // packed bytes of the matrices over those in the file
};

class Resident : public ::testing::TestWithParam<Case> {};

std::uint64_t tensor_bytes(const weights::ModelFile& file) {
  std::uint64_t sum = 0;
  for (const auto& t : file.tensors()) sum += t.bytes.size();
  return sum;
}

std::uint64_t largest_tensor(const weights::ModelFile& file) {
  std::uint64_t most = 0;
  for (const auto& t : file.tensors()) most = std::max<std::uint64_t>(most, t.bytes.size());
  return most;
}

TEST_P(Resident, IsWeightsAndCacheAndLittleElse) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's shadow memory counts as resident";
#endif
  const Case c = GetParam();
  const kvasir::testing::TemporaryPath file(std::string("resident-") + c.quant + ".gguf");
  model::SynthShape shape = model::find_synth_shape("smollm2-135m");
  shape.tied = c.tied;
  {
    Team team(2);
    model::write_synthetic_model(file.path, shape, c.quant, 1, team, [](std::uint64_t, std::uint64_t) {});
  }
  reset_peak_rss();
  EngineOptions o;
  o.model = file.path;
  o.threads = 2;
  o.ctx = 2048;
  Engine engine(o, {});
  const Rss loaded = process_rss();
  kv::Sequence* s = engine.cache().create();
  engine.feed(s, std::vector<std::int32_t>(1500, 300));
  const Rss used = process_rss();

  const auto weights = static_cast<std::uint64_t>(engine.model().weight_bytes());
  const std::uint64_t in_file = tensor_bytes(engine.model().file());
  const std::uint64_t embedding = engine.model().file().find("token_embd.weight")->bytes.size();
  const std::uint64_t cache = engine.cache().memory().total();
  const std::uint64_t scratch = tensor::allocated_bytes(tensor::Tag::kScratch);
  std::printf(
      "%s%s: file %llu MB, weights %llu, cache %llu, scratch %llu; loaded %llu (anonymous %llu, file %llu), peak %llu, "
      "used %llu\n",
      c.quant, c.tied ? "" : " untied", in_file / 1ull / kMb, weights / 1ull / kMb, cache / 1ull / kMb,
      scratch / 1ull / kMb, loaded.current / 1ull / kMb, loaded.anonymous / 1ull / kMb, loaded.file / 1ull / kMb,
      loaded.peak / 1ull / kMb, used.current / 1ull / kMb);

  // The packed matrices take what they take in the file, but for the vectors and an embedding that is read from the
  // file.
  const std::uint64_t matrices = c.tied ? in_file : in_file - embedding;
  EXPECT_GE(static_cast<double>(weights), 0.99 * static_cast<double>(matrices));
  EXPECT_LE(static_cast<double>(weights), c.most_growth * static_cast<double>(matrices));

  EXPECT_LE(loaded.current, weights + cache + scratch + kAllowance);
  EXPECT_LE(used.current, weights + cache + scratch + kAllowance);
  // No second copy: neither on the heap nor as pages of the file.
  EXPECT_LE(used.anonymous, weights + cache + scratch + kAllowance / 2);
  EXPECT_LE(loaded.file, kAllowance / 2);
  EXPECT_LE(used.file, kAllowance / 2);
  EXPECT_GE(used.anonymous, weights);  // the measure sees the weights at all
  // While loading, the tensor being packed may be there twice.
  EXPECT_LE(loaded.peak, weights + largest_tensor(engine.model().file()) + cache + scratch + kAllowance);
}
INSTANTIATE_TEST_SUITE_P(All, Resident,
                         ::testing::Values(Case{"q8_0", true, 1.07}, Case{"f16", true, 1.01}, Case{"q4_0", false, 1.15},
                                           Case{"q4_k", true, 1.15}),
                         [](const auto& p) { return std::string(p.param.quant) + (p.param.tied ? "" : "_untied"); });

// Gemma 3 at 32K: three layers of a window and one that sees everything. What the cache takes is what was planned, from
// the first token on; what a step reads grows by the one layer alone; where the prompt was cut does not show.
TEST(Windows, AreBoundedAt32K) {
  constexpr std::int64_t kContext = 32768;
  EngineOptions o;
  o.model = std::string(KVASIR_SOURCE_DIR) + "/tests/golden/gemma3.gguf";
  o.threads = 2;
  o.ctx = kContext;
  o.chunk = 4096;
  o.kv = "f16";
  const std::uint64_t before = tensor::allocated_bytes(tensor::Tag::kCache);
  Engine engine(o, {.sequences = 1});
  kv::Cache& cache = engine.cache();
  const kv::MemoryPlan plan = cache.memory();
  const std::uint64_t taken = tensor::allocated_bytes(tensor::Tag::kCache) - before;
  EXPECT_EQ(taken, plan.total() - plan.scratch_bytes);

  constexpr std::size_t kTokenBytes = 2 * 16 * 2;  // of a layer: one head of 16, keys and values, two bytes each
  EXPECT_EQ(plan.bytes_per_token, static_cast<double>(kTokenBytes));
  EXPECT_LE(plan.local_bytes, 3 * kv::kPageTokens * kTokenBytes + 4096);  // the page before that of the window's tokens

  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < kContext; ++i) ids.push_back(static_cast<std::int32_t>(i * 2654435761 >> 7 & 127));
  const auto feed = [&](std::int64_t chunk) {
    kv::Sequence* s = cache.create();
    std::vector<float> last;
    for (std::int64_t at = 0; at < kContext - 1; at += chunk) {
      const std::int64_t n = std::min(chunk, kContext - 1 - at);
      const auto row =
          engine.feed(s, std::span(ids).subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(n)));
      last.assign(row.begin(), row.end());
      const auto whole = static_cast<std::size_t>(at + n) * kTokenBytes;
      EXPECT_GE(cache.stats(*s).kv_bytes_read, whole);
      EXPECT_LE(cache.stats(*s).kv_bytes_read, whole + 3 * 2 * kv::kPageTokens * kTokenBytes) << at + n;
    }
    EXPECT_EQ(tensor::allocated_bytes(tensor::Tag::kCache) - before, taken);
    cache.check_integrity();
    cache.release(s);
    return last;
  };
  EXPECT_EQ(feed(4096), feed(1000));
}

}  // namespace memory_test
}  // namespace kvasir::run
