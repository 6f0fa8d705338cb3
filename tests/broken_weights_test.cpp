// Weights that are no numbers: found at load or at the first step, on every instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "model/synth.hpp"
#include "robustness_fixture.hpp"
#include "simd/isa.hpp"

namespace kvasir {
namespace {

using namespace testing;

TEST(BrokenWeights, WeightsThatAreNoNumbers) {
  const TemporaryPath path("nan.gguf");
  const simd::Isa before = simd::active();
  for (const float bad :
       {std::nanf(""), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()})
    for (const char* tensor :
         {"blk.0.attn_q.weight", "blk.1.ffn_down.weight", "blk.0.attn_v.weight", "token_embd.weight"})
      for (const char* quant : {"f32", "f16", "bf16"})
        for (int isa = 0; isa < simd::kIsaCount; ++isa) {
          if (!simd::supported(static_cast<simd::Isa>(isa))) continue;
          simd::force(static_cast<simd::Isa>(isa));
          SCOPED_TRACE(fmt::format("{} {} {} {}", bad, tensor, quant, isa));
          TinyModel m(quant);
          for (float& v : m.tensor(tensor).values) v = bad;
          m.write(path.path);
          const Result o = run_captured({"run", "-m", path.path, "-p", "abc", "-n", "4", "--no-figures"});
          EXPECT_EQ(o.status, 1);
          EXPECT_NE(o.err.find("not a number"), std::string::npos) << o.err;
          EXPECT_NE(o.err.find(path.path), std::string::npos) << o.err;
        }
  simd::force(before);
  for (const char* tensor : {"blk.1.ffn_norm.weight", "output_norm.weight"}) {
    TinyModel m;
    m.tensor(tensor).values[3] = std::nanf("");
    m.write(path.path);
    expect_error({"run", "-m", path.path, "-p", "x"}, 2, {path.path, std::string(tensor) + "[3]", "finite"});
  }
}

// Scales of quantised weights that are NaN: the first block of every kind of matrix in turn, all bits set. One row of a
// matrix is enough, wherever its output goes: through the cache and a softmax, a gate, or 8-bit activations.
TEST(BrokenWeights, QuantisedWeightsThatAreNoNumbers) {
  const TemporaryPath path("nan-quant.gguf");
  const simd::Isa before = simd::active();
  model::SynthShape shape = model::find_synth_shape("tiny");
  shape.layers = 1;
  Team team(1);
  for (const auto& quant : weights::quants()) {
    if (!weights::find_block_type(quant.name)) continue;  // not a type of GGUF
    model::write_synthetic_model(path.path, shape, quant.name, 3, team, [](std::uint64_t, std::uint64_t) {});
    const std::string bytes = read_text_file(path.path);
    for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}) {
      std::size_t at = 0;
      {
        const auto file = weights::open_model_file(path.path);
        const auto* tensor = file->find(fmt::format("blk.0.{}.weight", name));
        ASSERT_NE(tensor, nullptr);
        at = bytes.find(std::string_view(reinterpret_cast<const char*>(tensor->bytes.data()), 64));
      }
      const auto block = static_cast<std::size_t>(quant.value->block_bytes);
      std::vector<std::byte> ones(block, std::byte{0xff});
      std::vector<float> floats(static_cast<std::size_t>(quant.value->block));
      quant.value->dequantise(ones.data(), floats.data(), quant.value->block);
      if (std::all_of(floats.begin(), floats.end(), [](float v) { return std::isfinite(v); })) continue;  // has no NaN
      for (std::size_t i = at; i < at + block; ++i) patch(path.path, i, '\xff');
      for (int isa = 0; isa <= simd::kIsaCount; ++isa) {
        const bool exact = isa == simd::kIsaCount;  // on the instruction set in use
        if (!exact && !simd::supported(static_cast<simd::Isa>(isa))) continue;
        simd::force(exact ? before : static_cast<simd::Isa>(isa));
        SCOPED_TRACE(fmt::format("{} {} {} {}", quant.name, name, isa, exact ? "exact" : ""));
        std::vector<std::string> arguments{"run", "-m", path.path,      "-p",    "abcdefg",
                                           "-n",  "2",  "--no-figures", "--ctx", "64"};
        if (exact) arguments.push_back("--exact");
        const Result o = run_captured(arguments);
        EXPECT_EQ(o.status, 1) << o.out;
        EXPECT_NE(o.err.find("not a number"), std::string::npos) << o.err;
      }
      for (std::size_t i = at; i < at + block; ++i) patch(path.path, i, bytes[i]);
    }
    const Result whole =
        run_captured({"run", "-m", path.path, "-p", "abcdefg", "-n", "2", "--no-figures", "--ctx", "64"});
    EXPECT_EQ(whole.status, 0) << whole.err;  // the file is as it was
  }
  simd::force(before);
}

}  // namespace
}  // namespace kvasir
