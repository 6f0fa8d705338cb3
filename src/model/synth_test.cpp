#include "model/synth.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "base/error.hpp"
#include "base/file.hpp"
#include "weights/gguf.hpp"
#include "weights/model_file.hpp"
#include "weights/quant.hpp"

namespace kvasir::model {
namespace {

namespace fs = std::filesystem;

struct TemporaryFile {
  std::string path = (fs::temp_directory_path() / fmt::format("synth{}.gguf", ::getpid())).string();
  ~TemporaryFile() { fs::remove(path); }
};

std::string write(const std::string& path, std::string_view quant, std::uint64_t seed, int threads) {
  Team team(threads);
  std::uint64_t last = 0, total = 1;
  const SynthResult r = write_synthetic_model(path, find_synth_shape("tiny"), quant, seed, team,
                                              [&](std::uint64_t done, std::uint64_t all) {
                                                EXPECT_GT(done, last);
                                                last = done;
                                                total = all;
                                              });
  EXPECT_EQ(last, total);
  EXPECT_EQ(r.bytes, fs::file_size(path));
  return read_text_file(path);
}

// The counts that the publishers give; Llama 3's file holds head_dim / 2 rope factors besides.
TEST(Synth, ParametersAreThoseOfTheRealModels) {
  EXPECT_EQ(synth_parameters(find_synth_shape("llama-3.2-1b")), 1235814400u + 32);
  EXPECT_EQ(synth_parameters(find_synth_shape("llama-3.2-3b")), 3212749824u + 64);
  EXPECT_EQ(synth_parameters(find_synth_shape("llama-3.1-8b")), 8030261248u + 64);
  EXPECT_EQ(synth_parameters(find_synth_shape("smollm2-135m")), 134515008u);
  EXPECT_EQ(synth_parameters(find_synth_shape("qwen3-0.6b")), 596049920u);
  EXPECT_EQ(synth_parameters(find_synth_shape("gemma3-1b")), 999885952u);
  EXPECT_EQ(synth_parameters(find_synth_shape("phi-4-mini")), 3836021760u + 2 * 48);  // factors of LongRoPE
  // Layers of Qwen3-30B-A3B: attention 37749248 with its norms, router 262144, experts 128 * 3 * 768 * 2048, two norms.
  EXPECT_EQ(synth_parameters(find_synth_shape("qwen3-30b-a3b-2layers")),
            2u * (2 * 2048 * 4096 + 2 * 512 * 2048 + 2 * 128 + 128 * 2048 + 128 * 3 * 768 * 2048 + 2 * 2048) +
                2 * 151936 * 2048 + 2048);
  EXPECT_EQ(synth_parameters(find_synth_shape("gpt-oss-20b-2layers")),
            2u * (2 * 2880 * 4096 + 2 * 512 * 2880 + 4096 + 2 * 512 + 2880 + 64 + 32 * 2881 + 32 * 3 * 2880 * 2881 +
                  2 * 2880) +
                2 * 201088 * 2880 + 2880);
  EXPECT_EQ(synth_parameters(find_synth_shape("deepseek-v2-lite-2layers")),
            15706484224u - 25 * (std::uint64_t{13767168} + 571080704));  // attention, and experts with their router
  EXPECT_THROW(find_synth_shape("gpt-5"), Error);
}

TEST(Synth, EveryWeightTypeOfEveryTensor) {
  const TemporaryFile file;
  for (const auto& quant : weights::quants()) {
    SCOPED_TRACE(quant.name);
    if (!weights::find_block_type(quant.name)) continue;  // not a type of GGUF
    write(file.path, quant.name, 1, 2);
    const auto model = weights::open_model_file(file.path);
    const auto file_type = weights::gguf_file_type(quant.name);
    EXPECT_EQ(model->metadata().has("general.file_type"), file_type.has_value());
    if (file_type) {
      EXPECT_EQ(model->metadata().require_int("general.file_type", 0, 100), *file_type);
    }
    EXPECT_EQ(model->metadata().require_int("llama.vocab_size", 1, 1 << 20), 1024);
    ASSERT_EQ(model->tensors().size(), 30u);
    for (const auto& t : model->tensors()) {
      SCOPED_TRACE(t.name);
      ASSERT_EQ(t.quant, t.rank == 1 ? "f32" : quant.name);
      const weights::Quant& q = *find(weights::quants(), t.quant);
      const std::int64_t n = t.columns();
      std::vector<float> row(static_cast<std::size_t>(n));
      double sum = 0, squares = 0;
      for (std::int64_t r = 0; r < t.rows(); ++r) {
        q.dequantise(t.bytes.data() + r * (n / q.block * q.block_bytes), row.data(), n);
        for (const float x : row) {
          ASSERT_TRUE(std::isfinite(x));
          sum += x;
          squares += double{x} * x;
        }
      }
      const auto count = static_cast<double>(n * t.rows());
      if (t.rank == 1) {
        EXPECT_EQ(sum, count);  // norms are 1
      } else {
        const double deviation = 1 / std::sqrt(static_cast<double>(n));
        EXPECT_NEAR(sum / count, 0, 0.05 * deviation);
        EXPECT_NEAR(std::sqrt(squares / count), deviation, 0.2 * deviation);
      }
    }
  }
}

TEST(Synth, ExpertsHaveThreeDimensionsAndRoutersAreFloats) {
  const TemporaryFile file;
  Team team(2);
  write_synthetic_model(file.path, find_synth_shape("tiny-experts"), "q4_0", 1, team, [](auto, auto) {});
  const auto model = weights::open_model_file(file.path);
  const weights::TensorInfo& up = *model->find("blk.0.ffn_up_exps.weight");
  EXPECT_EQ(up.rank, 3);
  EXPECT_EQ(up.shape, (std::array<std::int64_t, 4>{256, 256, 10, 1}));
  EXPECT_EQ(up.quant, "q4_0");
  EXPECT_EQ(model->find("blk.0.ffn_gate_inp.weight")->quant, "f32");
  EXPECT_EQ(model->metadata().require_int("qwen3moe.expert_used_count", 0, 100), 3);
}

TEST(Synth, TheSeedAloneDecides) {
  const TemporaryFile file;
  const std::string one = write(file.path, "q4_0", 7, 1);
  EXPECT_EQ(one, write(file.path, "q4_0", 7, 3));
  EXPECT_NE(one, write(file.path, "q4_0", 8, 3));
}

TEST(Synth, FallsBackWhereABlockDoesNotDivideARow) {
  EXPECT_EQ(synth_quant("q4_0", 576), "q4_0");
  EXPECT_EQ(synth_quant("q4_0", 40), "f16");
  EXPECT_EQ(synth_quant("q4_k", 512), "q4_k");
  EXPECT_EQ(synth_quant("f32", 7), "f32");
  EXPECT_THROW(synth_quant("q9", 256), Error);
  for (const auto& quant : weights::quants()) {
    if (quant.value->block != 256) continue;
    EXPECT_EQ(synth_quant(quant.name, 576), quant.value->fallback);
    EXPECT_EQ(synth_quant(quant.name, 40), "f16");
  }
}

TEST(Synth, VocabulariesAreWellFormed) {
  for (const SynthShape& s : synth_shapes()) {
    SCOPED_TRACE(s.name);
    const std::vector<std::string> tokens = synth_tokens(s);
    ASSERT_EQ(tokens.size(), static_cast<std::size_t>(s.vocab));
    const std::set<std::string> unique(tokens.begin(), tokens.end());
    EXPECT_EQ(unique.size(), tokens.size());
    EXPECT_FALSE(unique.contains(""));
    for (const SpecialToken& t : s.tokens.special) EXPECT_EQ(tokens[static_cast<std::size_t>(t.id)], t.text);
    for (const char* byte : {"!", "a", "~", "Ġ", "Ċ", "ÿ", "Ń"}) EXPECT_TRUE(unique.contains(byte)) << byte;
    for (const std::string& merge : synth_merges()) {
      const std::size_t space = merge.find(' ');
      for (const std::string& part :
           {merge.substr(0, space), merge.substr(space + 1), merge.substr(0, space) + merge.substr(space + 1)})
        EXPECT_TRUE(unique.contains(part)) << part;
    }
  }
}

TEST(Synth, AnUnknownTypeLeavesNoFile) {
  const TemporaryFile file;
  Team team(1);
  EXPECT_THROW(write_synthetic_model(file.path, find_synth_shape("tiny"), "q4_9", 0, team, [](auto, auto) {}), Error);
  EXPECT_FALSE(fs::exists(file.path));
}

TEST(Synth, ACancelledRunLeavesNoFile) {
  const TemporaryFile file;
  Team team(2);
  const auto stop = [](std::uint64_t, std::uint64_t) { throw Error(Code::kCancelled, "stopped"); };
  EXPECT_THROW(write_synthetic_model(file.path, find_synth_shape("tiny"), "q8_0", 0, team, stop), Error);
  EXPECT_FALSE(fs::exists(file.path));
  EXPECT_FALSE(fs::exists(fmt::format("{}.partial.{}", file.path, ::getpid())));
}

}  // namespace
}  // namespace kvasir::model
