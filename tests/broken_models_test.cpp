// Model files that are whole but whose dimensions and tensors make no model.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/host.hpp"
#include "base/rss.hpp"
#include "robustness_fixture.hpp"

namespace kvasir {
namespace {

using namespace testing;

TEST(BrokenModels, AbsurdDimensionsAreNamed) {
  const TemporaryPath path("absurd.gguf");
  const auto refuse = [&](const std::string& key, TinyModel::Number value, const std::vector<std::string>& parts) {
    SCOPED_TRACE(key);
    TinyModel m;
    m.numbers["llama." + key] = value;
    m.write(path.path);
    const std::uint64_t before = process_rss().current;
    within(1, key, [&] {
      const std::string error = try_step(small(path.path));
      EXPECT_NE(error, "");
      for (const auto& p : parts) EXPECT_NE(error.find(p), std::string::npos) << p << ": " << error;
    });
    if (!kSanitized) {
      EXPECT_LT(process_rss().current, before + (64u << 20));
    }
  };
  const auto u64 = [](int bits) { return TinyModel::Number(std::uint64_t{1} << bits); };
  const auto u32 = [](std::uint32_t n) { return TinyModel::Number(n); };
  refuse("block_count", u64(31), {"llama.block_count", "2147483648"});
  refuse("block_count", u32(0), {"llama.block_count", "is 0"});
  refuse("block_count", u32(4096), {"blk.2.attn_norm.weight is missing", "more"});
  refuse("block_count", u32(1), {"blk.1.attn_norm.weight is not a tensor of llama"});
  refuse("block_count", -1.0f, {"llama.block_count", "integer"});
  refuse("attention.head_count", u32(0), {"llama.attention.head_count", "is 0"});
  refuse("attention.head_count", u64(24), {"llama."});
  refuse("attention.head_count", u32(3), {"not a multiple"});
  refuse("attention.head_count_kv", u32(0), {"head_count_kv"});
  refuse("attention.head_count_kv", u32(3), {"not a multiple", "head_count_kv"});
  refuse("attention.head_count_kv", u32(4), {"blk.0.attn_k.weight is 16x32, expected 32x32"});
  refuse("embedding_length", u64(40), {"llama.embedding_length", "1099511627776"});
  refuse("embedding_length", u64(24), {"head size"});
  refuse("embedding_length", u64(63), {"llama.embedding_length", "9223372036854775808"});
  refuse("embedding_length", TinyModel::Number(std::int64_t{-32}), {"llama.embedding_length", "-32"});
  refuse("feed_forward_length", u64(24), {"blk.0.ffn_gate.weight is 64x32, expected 16777216x32"});
  refuse("context_length", u64(62), {"llama.context_length"});
  refuse("context_length", u32(0), {"llama.context_length"});
  refuse("rope.dimension_count", u32(7), {"llama.rope.dimension_count", "even"});
  refuse("rope.dimension_count", u32(64), {"llama.rope.dimension_count", "at most 8"});
  refuse("rope.freq_base", 0.0f, {"llama.rope.freq_base"});
  refuse("rope.freq_base", std::numeric_limits<float>::infinity(), {"llama.rope.freq_base", "finite"});
  refuse("rope.scaling.factor", -1.0f, {"llama.rope.scaling.factor"});
  refuse("attention.key_length", u32(12), {"head size 12"});
  refuse("attention.key_length", u32(1024), {"attn_q.weight"});
  refuse("attention.key_length", u64(40), {"llama.attention.key_length"});
  refuse("attention.layer_norm_rms_epsilon", std::nanf(""), {"layer_norm_rms_epsilon"});
  refuse("attention.layer_norm_rms_epsilon", -1.0f, {"layer_norm_rms_epsilon"});
}

// The widest that each limit alone allows, together: sizes must not wrap round to something small.
TEST(BrokenModels, DimensionsWhoseProductsOverflow) {
  const TemporaryPath path("wide.gguf");
  TinyModel m;
  m.numbers["llama.block_count"] = 4096u;
  m.numbers["llama.attention.head_count"] = 65536u;
  m.numbers["llama.attention.head_count_kv"] = 65536u;
  m.numbers["llama.attention.key_length"] = 1024u;
  m.numbers["llama.attention.value_length"] = 1024u;
  m.write(path.path);
  for (const int ctx : {0, 1, 64, 1 << 24})
    for (const int window : {0, 128, 1 << 24}) {
      run::EngineOptions o = small(path.path);
      o.ctx = ctx;
      o.window = window;
      within(1, std::to_string(ctx), [&] { EXPECT_NE(try_step(o), "") << ctx << " " << window; });
    }
  m.numbers["llama.attention.head_count_kv"] = 1u;
  m.write(path.path);
  EXPECT_NE(try_step(small(path.path)), "");
}

TEST(BrokenModels, TensorFaultsAreReportedTogether) {
  const TemporaryPath path("tensors.gguf");
  TinyModel m;
  m.remove("blk.0.attn_q.weight");
  m.remove("output_norm.weight");
  m.remove("blk.1.ffn_up.weight");
  m.add("blk.1.ffn_up.weight", "f32", {64, 32});
  m.remove("blk.1.attn_norm.weight");
  m.add("blk.1.attn_norm.weight", "f32", {16});
  m.add("blk.0.attn_qq.weight", "f32", {32, 32});
  m.add("blk.7.attn_norm.weight", "f32", {32});
  m.write(path.path);
  expect_error({"run", "-m", path.path, "-p", "x"}, 2,
               {path.path, "blk.0.attn_q.weight is missing", "output_norm.weight is missing",
                "blk.1.ffn_up.weight is 32x64, expected 64x32", "blk.1.attn_norm.weight is 16, expected 32",
                "blk.0.attn_qq.weight is not a tensor of llama", "blk.7.attn_norm.weight is not a tensor of llama"});
  TinyModel none;
  none.tensors.clear();
  none.write(path.path);
  expect_error({"run", "-m", path.path, "-p", "x"}, 2, {path.path, "token_embd.weight is missing"});
  TinyModel vocab;
  vocab.remove("token_embd.weight");
  vocab.add("token_embd.weight", "f32", {32, 100});
  vocab.write(path.path);
  expect_error({"run", "-m", path.path, "-p", "x"}, 2, {path.path, "264 tokens", "100 rows"});
  TinyModel arch;
  arch.strings["general.architecture"] = "gpt17";
  arch.write(path.path);
  expect_error({"run", "-m", path.path, "-p", "x"}, 1, {path.path, "general.architecture", "gpt17", "llama"});
}

// A context that no machine holds is refused, not reserved and later killed for.
TEST(BrokenModels, ContextBeyondTheMachine) {
  const TemporaryPath path("beyond.gguf");
  TinyModel m;
  m.numbers["llama.attention.key_length"] = 512u;  // 4 heads of 512 over 2 layers: 16 kB per token
  m.numbers["llama.attention.value_length"] = 512u;
  for (int l = 0; l < 2; ++l)
    for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"}) {
      const std::string full = fmt::format("blk.{}.{}.weight", l, name);
      m.remove(full);
      const std::int64_t wide = std::string_view(name) == "attn_k" || std::string_view(name) == "attn_v" ? 1024 : 2048;
      if (std::string_view(name) == "attn_output")
        m.add(full, "f32", {wide, 32});
      else
        m.add(full, "f32", {32, wide});
    }
  m.write(path.path);
  EXPECT_EQ(try_step(small(path.path)), "");
  const std::uint64_t machine = describe_host().memory_total;
  if (machine == 0 || machine > (std::uint64_t{1} << 16) * (1 << 20)) GTEST_SKIP() << "a machine of this size holds it";
  for (const char* window : {"128", "16777216"})
    expect_error({"run", "-m", path.path, "-p", "b", "--ctx", "16777216", "--window", window}, 1,
                 {path.path, "16777216 tokens", "--ctx"});
}

}  // namespace
}  // namespace kvasir
