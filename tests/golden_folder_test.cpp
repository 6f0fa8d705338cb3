// Folders of every model type: logits beside those of transformers in float32, and the bits of the GGUF file that
// `kvasir quantize` makes of the folder.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <tuple>

#include "base/error.hpp"
#include "expert_choices_fixture.hpp"
#include "golden_folder_fixture.hpp"
#include "logits_fixture.hpp"
#include "model/hparams.hpp"
#include "model/model.hpp"
#include "model/spec_fields.hpp"
#include "run/engine.hpp"
#include "simd/half.hpp"
#include "weights/mixes.hpp"
#include "weights/requantise.hpp"

namespace kvasir::run {
namespace golden_folder_test {

using kvasir::testing::relative_error;

using testing::GoldenFolder;
using testing::TemporaryPath;

using testing::Choices;
using testing::Outcome;

class GoldenFolders : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenFolders, AgreesWithTransformers) {
  const GoldenFolder golden = testing::golden_folder(GetParam());
  TemporaryPath folder("golden-folder"), gguf("golden-folder.gguf");
  testing::write_folder(folder.path, golden.config, golden.tensors);
  const Outcome exact = testing::run_choosing(folder.path, golden.ids, true),
                fast = testing::run_choosing(folder.path, golden.ids, false);
  const double error = relative_error(exact.logits, golden.logits), used = relative_error(fast.logits, golden.logits);
  std::printf("%-24s exact %.2e, as used %.2e\n", GetParam().c_str(), error, used);
  EXPECT_LE(error, 1e-3);
  // Where operands are rounded a close choice of experts falls otherwise in models as small as these. With the same
  // experts the bar holds.
  if (used > 0.10) {
    Choices want, got;
    testing::run_choosing(folder.path, golden.ids, true, "", {.choices = &want});
    testing::run_choosing(folder.path, golden.ids, false, "", {.choices = &got});
    EXPECT_NE(want.experts, got.experts);
    EXPECT_LE(relative_error(testing::run_choosing(folder.path, golden.ids, false, "", {.forced = &want}).logits,
                             golden.logits),
              0.10);
  }
  // The same tensors in the same types; F32 where the folder's become floats.
  const bool floats = GetParam() == "opt+behind";
  Team team(2);
  weights::requantise(folder.path, gguf.path, {.mix = &weights::find_mix(floats ? "F32" : "F16"), .again = true}, team,
                      [](const weights::Change&) {});
  const Outcome want = testing::run_choosing(gguf.path, golden.ids, true);
  EXPECT_EQ(exact.logits, want.logits);
  EXPECT_EQ(exact.cache, want.cache);
  if (floats || GetParam().ends_with("mxfp4")) return;  // the file's type holds its values, but is multiplied otherwise
  const Outcome want_fast = testing::run_choosing(gguf.path, golden.ids, false);
  EXPECT_EQ(fast.logits, want_fast.logits);
  EXPECT_EQ(fast.cache, want_fast.cache);
}
INSTANTIATE_TEST_SUITE_P(All, GoldenFolders, ::testing::ValuesIn(testing::golden_folders()), [](const auto& i) {
  std::string name = i.param;
  std::replace(name.begin(), name.end(), '+', '_');
  return name;
});

std::vector<float> row_of(const std::vector<float>& logits, std::size_t row, std::size_t rows) {
  const auto width = static_cast<std::ptrdiff_t>(logits.size() / rows);
  const auto begin = logits.begin() + static_cast<std::ptrdiff_t>(row) * width;
  return {begin, begin + width};
}

// How far every row's logits move, in floats, when each number of the embedding moves by up to a 128th of itself: about
// what rounding to 8 bits does to a product's inputs, once.
std::vector<double> moved_rows(const GoldenFolder& golden, const std::vector<float>& want) {
  constexpr int kDraws = 4;
  std::vector<double> squares(golden.ids.size());
  for (int draw = 0; draw < kDraws; ++draw) {
    testing::NamedNumbers random("draw" + std::to_string(draw));
    std::vector<testing::FolderTensor> tensors = golden.tensors;
    for (testing::FolderTensor& t : tensors) {
      if (!t.name.ends_with("embed_tokens.weight")) continue;
      std::string wide;  // (F32)
      for (std::size_t i = 0; i < t.bytes.size(); i += 2) {
        std::uint16_t half;
        std::memcpy(&half, t.bytes.data() + i, 2);
        const float x = simd::f16_to_f32(half) * (1 + (static_cast<float>(random.next() >> 53) / 1024 - 1) / 128);
        wide.append(reinterpret_cast<const char*>(&x), 4);
      }
      t.bytes = wide;
      t.dtype = "F32";
    }
    TemporaryPath folder("moved-folder");
    testing::write_folder(folder.path, golden.config, tensors);
    const std::vector<float> got = testing::run_choosing(folder.path, golden.ids, true, "q8_0").logits;
    for (std::size_t r = 0; r < squares.size(); ++r)
      squares[r] +=
          std::pow(relative_error(row_of(got, r, squares.size()), row_of(want, r, squares.size())), 2) / kDraws;
  }
  for (double& x : squares) x = std::sqrt(x);
  return squares;
}

// Activations of 8 bits beside floats, on the same weights. Two things can make more than 0.10 of it, and both are
// checked for: a router's close choice falls otherwise, or a row is one that any small change moves far. Six of the 48
// rows of Qwen3-Next are such.
TEST_P(GoldenFolders, ActivationsOf8BitsChangeNoMoreThanChoicesDo) {
  const GoldenFolder golden = testing::golden_folder(GetParam());
  TemporaryPath folder("golden-folder");
  testing::write_folder(folder.path, golden.config, golden.tensors);
  Choices want, got;
  const Outcome exact = testing::run_choosing(folder.path, golden.ids, true, "q8_0", {.choices = &want});
  const Outcome used = testing::run_choosing(folder.path, golden.ids, false, "q8_0", {.choices = &got});
  const double free = relative_error(used.logits, exact.logits);
  std::size_t moved = 0, all = 0;
  for (std::size_t l = 0; l < want.experts.size(); ++l)
    for (std::size_t r = 0; r < want.experts[l].size(); ++r, ++all) moved += want.experts[l][r] != got.experts[l][r];
  const double forced =
      moved == 0
          ? free
          : relative_error(testing::run_choosing(folder.path, golden.ids, false, "q8_0", {.forced = &want}).logits,
                           exact.logits);
  std::printf("%-24s %.2e; %zu of %zu choices fall otherwise, without them %.2e\n", GetParam().c_str(), free, moved,
              all, forced);
  if (moved == 0) {
    EXPECT_EQ(free, forced);
  }
  if (forced <= 0.10) return;
  const std::vector<float> got_forced =
      testing::run_choosing(folder.path, golden.ids, false, "q8_0", {.forced = &want}).logits;
  const std::vector<double> shaken = moved_rows(golden, exact.logits);
  std::vector<float> steady_got, steady_want;
  const std::size_t rows = shaken.size();
  std::size_t steady = 0;
  for (std::size_t r = 0; r < rows; ++r) {
    const std::vector<float> a = row_of(got_forced, r, rows), b = row_of(exact.logits, r, rows);
    const double error = relative_error(a, b);
    EXPECT_LE(error, std::max(0.10, 2 * shaken[r])) << r;
    if (shaken[r] > 0.10) {  // floats move that far, too
      std::printf("%s row %zu: %.3f, in floats %.3f\n", GetParam().c_str(), r, error, shaken[r]);
      continue;
    }
    ++steady;
    steady_got.insert(steady_got.end(), a.begin(), a.end());
    steady_want.insert(steady_want.end(), b.begin(), b.end());
  }
  EXPECT_GE(steady, rows * 3 / 4);
  EXPECT_LE(relative_error(steady_got, steady_want), 0.10);
}

// As GPT-2, BLOOM and Pythia were published: names without the class's prefix, and masks among the tensors.
TEST(GoldenFolders, NamesMayLackThePrefixAndMasksAreLeftOut) {
  for (const auto& [name, prefix, mask] : {std::tuple{"gpt2", "transformer.", "h.0.attn.bias"},
                                           {"bloom", "transformer.", "h.0.self_attention.masked_bias"},
                                           {"gpt_neox", "gpt_neox.", "gpt_neox.layers.0.attention.bias"}}) {
    const GoldenFolder golden = testing::golden_folder(name);
    std::vector<testing::FolderTensor> tensors = golden.tensors;
    for (testing::FolderTensor& t : tensors)
      if (std::string(mask).starts_with("h.") && t.name.starts_with(prefix))
        t.name = t.name.substr(std::string(prefix).size());
    tensors.push_back({mask, "F16", {1, 1, 4, 4}, std::string(32, '\0')});
    TemporaryPath own("golden-folder"), published("golden-folder-published");
    testing::write_folder(own.path, golden.config, golden.tensors);
    testing::write_folder(published.path, golden.config, tensors);
    EXPECT_EQ(testing::run_choosing(published.path, golden.ids, true).logits,
              testing::run_choosing(own.path, golden.ids, true).logits)
        << name;
  }
}

// HRM-Text was published with the layers of a stack as the number of all, which transformers counts by passes.
TEST(GoldenFolders, LayersOfAStackMayBeTheNumberOfLayers) {
  const GoldenFolder golden = testing::golden_folder("hrm_text");
  auto config = golden.config;
  config["num_hidden_layers"] = config["num_layers_per_stack"];
  config.erase("num_layers_per_stack");
  TemporaryPath own("golden-folder"), published("golden-folder-published");
  testing::write_folder(own.path, golden.config, golden.tensors);
  testing::write_folder(published.path, config, golden.tensors);
  EXPECT_EQ(testing::run_choosing(published.path, golden.ids, true).logits,
            testing::run_choosing(own.path, golden.ids, true).logits);
}

// Published folders have the experts of a layer in one tensor, or in one for each.
TEST(GoldenFolders, ExpertsMayShareTensors) {
  const GoldenFolder golden = testing::golden_folder("qwen3_moe");
  std::vector<testing::FolderTensor> together;
  for (int layer = 0; layer < 2; ++layer) {
    const std::string stem = fmt::format("model.layers.{}.mlp.experts.", layer);
    testing::FolderTensor both{stem + "gate_up_proj", "F16", {6, 64, 64}, {}},
        down{stem + "down_proj", "F16", {6, 64, 32}, {}};
    for (int e = 0; e < 6; ++e)
      for (const char* part : {"gate_proj", "up_proj", "down_proj"})
        for (const testing::FolderTensor& t : golden.tensors)
          if (t.name == fmt::format("{}{}.{}.weight", stem, e, part)) (part[0] == 'd' ? down : both).bytes += t.bytes;
    together.push_back(both);
    together.push_back(down);
  }
  for (const testing::FolderTensor& t : golden.tensors)
    if (t.name.find(".experts.") == t.name.npos) together.push_back(t);
  TemporaryPath apart("golden-folder"), fused("golden-folder-fused");
  testing::write_folder(apart.path, golden.config, golden.tensors);
  testing::write_folder(fused.path, golden.config, together);
  for (const bool exact : {true, false})
    EXPECT_EQ(testing::run_choosing(fused.path, golden.ids, exact).logits,
              testing::run_choosing(apart.path, golden.ids, exact).logits)
        << exact;
}

// Published folders have matrices (inputs, outputs) in them, those that transformers 5 saved (outputs, inputs). Square
// ones would be the latter, so the experts here are narrower than the golden ones.
TEST(GoldenFolders, ExpertsOfQwen3VlMoeLieEitherWay) {
  constexpr std::size_t kExperts = 6, kWide = 64, kNarrow = 16, kStored = 32;
  GoldenFolder golden = testing::golden_folder("qwen3_moe");
  golden.config["moe_intermediate_size"] = kNarrow;
  for (testing::FolderTensor& t : golden.tensors) {
    if (t.name.find(".experts.") == t.name.npos) continue;
    const bool down = t.name.find("down_proj") != t.name.npos;
    std::string narrow;
    for (std::size_t r = 0; r < (down ? kWide : kNarrow); ++r)
      narrow += t.bytes.substr(2 * r * (down ? kStored : kWide), 2 * (down ? kNarrow : kWide));
    t.bytes = narrow;
    t.shape[down ? 1 : 0] = kNarrow;
  }
  TemporaryPath apart("golden-folder");
  testing::write_folder(apart.path, golden.config, golden.tensors);
  testing::PlainJson text = golden.config;
  text["model_type"] = "qwen3_vl_moe_text";
  const testing::PlainJson config = {{"model_type", "qwen3_vl_moe"}, {"text_config", text}};
  const auto in_tower = [](const std::string& name) {
    return name.starts_with("model.") ? "model.language_model." + name.substr(6) : name;
  };
  for (const bool published : {false, true}) {
    std::vector<testing::FolderTensor> tensors;
    for (int layer = 0; layer < 2; ++layer) {
      const std::string stem = fmt::format("model.layers.{}.mlp.experts.", layer);
      for (const auto& [name, parts] :
           {std::pair<const char*, std::vector<const char*>>{"gate_up_proj", {"gate", "up"}},
            {"down_proj", {"down"}}}) {
        const std::size_t rows = parts.size() == 2 ? 2 * kNarrow : kWide, columns = parts.size() == 2 ? kWide : kNarrow;
        testing::FolderTensor all{in_tower(stem + name), "F16", {}, {}};
        for (const std::size_t n : {kExperts, published ? columns : rows, published ? rows : columns})
          all.shape.push_back(static_cast<std::int64_t>(n));
        for (std::size_t e = 0; e < kExperts; ++e) {
          std::string one, other;
          for (const char* part : parts)
            for (const testing::FolderTensor& t : golden.tensors)
              if (t.name == fmt::format("{}{}.{}_proj.weight", stem, e, part)) one += t.bytes;
          for (std::size_t c = 0; c < columns; ++c)
            for (std::size_t r = 0; r < rows; ++r) other += one.substr(2 * (r * columns + c), 2);
          all.bytes += published ? other : one;
        }
        tensors.push_back(all);
      }
    }
    for (const testing::FolderTensor& t : golden.tensors)
      if (t.name.find(".experts.") == t.name.npos) tensors.push_back(t), tensors.back().name = in_tower(t.name);
    TemporaryPath folder("golden-folder-tower");
    testing::write_folder(folder.path, config, tensors);
    for (const bool exact : {true, false})
      EXPECT_EQ(testing::run_choosing(folder.path, golden.ids, exact).logits,
                testing::run_choosing(apart.path, golden.ids, exact).logits)
          << published << exact;
  }
}

// What is said of a folder of experts, and what of it.
std::string refusal(const std::string& name, const std::function<void(GoldenFolder&)>& change) {
  GoldenFolder golden = testing::golden_folder(name);
  change(golden);
  TemporaryPath folder("golden-folder");
  testing::write_folder(folder.path, golden.config, golden.tensors);
  try {
    testing::run_choosing(folder.path, golden.ids, true);
  } catch (const Error& e) {
    std::string what = e.what();
    for (std::size_t at; (at = what.find(folder.path)) != what.npos;) what.replace(at, folder.path.size(), "F");
    return what;
  }
  return "taken";
}

TEST(GoldenFolders, WhatIsWrongIsNamed) {
  const auto says = [](const std::string& what, const char* words) {
    EXPECT_NE(what.find(words), std::string::npos) << what;
  };
  const auto config = [](const char* name, const char* field, const testing::PlainJson& value) {
    return refusal(name, [&](GoldenFolder& g) { g.config[field] = value; });
  };
  const auto tensor = [](const char* name, const char* part, const auto& change) {
    return refusal(name, [&](GoldenFolder& g) {
      for (std::size_t i = 0; i < g.tensors.size(); ++i)
        if (g.tensors[i].name.find(part) != std::string::npos) return change(g, i);
    });
  };
  const auto gone = [](GoldenFolder& g, std::size_t i) {
    g.tensors.erase(g.tensors.begin() + static_cast<std::ptrdiff_t>(i));
  };
  says(tensor("qwen3_moe", "experts.3.up_proj", gone),
       "F: tensor blk.0.ffn_up_exps.weight: has no expert 3, expected 6");
  says(tensor("qwen3_moe", "experts.5.up_proj", gone), "has 5 experts, expected 6");
  says(config("qwen3_moe", "num_local_experts", 5), "experts.5.down_proj.weight: expected experts below 5");
  says(config("qwen3_moe", "mlp_only_layers", {0}), "'mlp_only_layers' is [0], expected []");
  says(config("qwen3_moe", "num_experts_per_tok", nullptr), "'num_experts_per_tok' is missing");
  says(tensor("gpt_oss+mxfp4", "gate_up_proj_scales", gone),
       "F: tensor model.layers.0.mlp.experts.gate_up_proj_scales: is missing");
  says(tensor("gpt_oss+mxfp4", "gate_up_proj_scales",
              [](GoldenFolder& g, std::size_t i) {
                g.tensors[i].shape = {4, 256, 1};
              }),
       "is no U8 with the shape of");
  says(config("gpt_oss", "swiglu_limit", 6.0), "'swiglu_limit' is 6.0, expected 7.0");
  says(config("deepseek_v3", "v_head_dim", 8), "kv_b_proj.weight: has 128 rows, expected 4 heads of 16 and 8");
  says(config("deepseek_v3", "kv_lora_rank", nullptr), "'kv_lora_rank' is missing");
  says(config("qwen3_5_text", "linear_num_value_heads", 5),
       "'linear_num_value_heads' is 5, expected a multiple of the key heads, 2");
  says(config("qwen3_5_text", "linear_num_value_heads", 2), "A_log: has 4 numbers, expected 2");
  says(config("qwen3_5_text", "layer_types", {"full_attention"}), "'layer_types' has 1 entries, expected 4");
  says(config("lfm2", "layer_types", {"conv", "conv", "conv"}), "blk.1.shortconv.in_proj.weight is missing");
  says(config("lfm2", "layer_types", {"conv", "conv", "sliding_attention"}),
       "'layer_types' holds 'sliding_attention', expected one of full_attention, conv");
  says(config("nemotron_h", "mlp_hidden_act", "relu"), "'mlp_hidden_act' is \"relu\", expected \"relu2\"");
  says(config("mamba2", "time_step_limit", {0.0, 0.5}), "'time_step_limit' cuts steps");
  says(config("falcon_h1", "mlp_multipliers", {1.0}), "'mlp_multipliers' has 1 numbers, expected 2");
  says(config("falcon_h1", "mamba_d_state", 8), "in_proj.weight: has 328 rows, expected 296");
  says(config("llama4_text", "no_rope_layers", {1, 1, 0, 1}), "'no_rope_layers' is not the pattern");
  says(config("llama4_text", "layer_types", {"chunked_attention"}), "'layer_types' has 1 entries, expected ");
  says(config("gemma4_text", "layer_types", nullptr), "'layer_types' is missing");
  says(config("lfm3", "conv_bias", true), "'conv_bias' is true, expected false");
  says(config("lfm3", "rope_parameters", nullptr), "'rope_parameters' has no 'full_attention'");
  says(config("lfm3", "sliding_window", nullptr), "'sliding_window' is missing");
  says(config("afmoe", "n_group", 2), "'n_group' is 2, expected 1");
  says(config("falcon", "alibi", true), "'alibi' is true, expected false");
  says(config("falcon", "num_kv_heads", 3), "'num_kv_heads' is 3, expected a divisor of 4");
  says(config("falcon", "num_kv_heads", 1), "query_key_value.weight: has 128 rows, expected");
  says(config("falcon+one", "parallel_attn", false), "'parallel_attn' is false, expected true");
  says(config("gpt2", "scale_attn_by_inverse_layer_idx", true), "'scale_attn_by_inverse_layer_idx' is true");
  says(config("gpt2", "activation_function", "tanh"), "'activation_function' is 'tanh'");
  says(config("mpt", "logit_scale", 2.0), "'logit_scale' is 2.0, expected null");
  says(config("mpt", "attn_config", {{"alibi_bias_max", 4}}), "'attn_config.alibi_bias_max' is 4, expected 8");
  says(config("granite_swa", "layer_rope_theta", {1e4, 1e5, 1e4, 0}), "'layer_rope_theta' holds more than one base");
  says(config("bamba", "attn_layer_indices", {7}), "'attn_layer_indices' holds 7, expected layers below 3");
  says(config("mellum", "rope_parameters", {{"full_attention", testing::PlainJson::object()}}),
       "'rope_parameters' has no 'sliding_attention'");
  says(config("minicpm3", "v_head_dim", nullptr), "'v_head_dim' is missing");
  says(config("nanbeige", "num_loops", 0), "'num_loops' is 0, expected an integer from 1");
  says(config("nanbeige", "num_loops", 4000), "is 4000, expected 1 to 2048");
  says(config("hrm_text", "H_cycles", nullptr), "'H_cycles' is missing");
  says(config("hrm_text", "L_cycles", 4096), "hrm_text.block_count is 16388, expected at most 4096");
  says(config("hrm_text", "num_layers_per_stack", 3), "blk.2.attn_output.weight is missing");
  says(config("inkling2_text", "mlp_gate_softcap", 5.0), "'mlp_gate_softcap' is 5.0, expected 4.0");
  says(config("inkling2_text", "layer_types", {"hybrid", "full_attention", "hybrid"}),
       "'layer_types' holds \"full_attention\", expected hybrid or hybrid_sliding");
  says(config("inkling2_loop_text", "loop_num_passes", nullptr), "'loop_num_passes' is missing");
  says(config("inkling2_loop_text", "loop_layer_index_end", 5), "inkling2.loop.end: is 5, expected 1 to 4");
  says(config("inkling2_loop_text", "n_layers_per_attn_res_block", 2), "are not borders of blocks");
  says(config("gemma4_text", "layer_types", {"full_attention"}), "'layer_types' has 1 entries, expected ");
  says(config("qwen4_exp_text", "indexer_kv_heads", 2), "'indexer_kv_heads' is 2, expected 1");
  says(config("qwen4_exp_text", "indexer_n_heads", nullptr), "'indexer_n_heads' is missing");
  says(config("qwen4_exp_text", "indexer_budget", 18), "top_k is no multiple of the compress ratio");
  says(config("qwen4_exp_text", "indexer_compress_ratio", 3), "compress_ratios holds 3, expected a power of two");
  says(config("qwen4_exp_text", "hc_count", 3), "blk.0.hc_attn_norm.weight is 128, expected 96");
  says(config("qwen4_exp_text", "output_gate_type", "tanh"), "ssm.output_gate is neither sigmoid nor silu");
  says(config("qwen4_exp_text", "ple_layer_ids", {1, 2}), "'ple_layer_ids' names 2 layers, expected at most one");
  says(config("qwen4_exp_text", "ple_layer_ids", {5}), "'ple_layer_ids' holds 5, expected layers from 1 to 4");
  says(config("qwen4_exp_text", "eos_token_id", nullptr), "'eos_token_id' is no token, which the n-grams");
  says(config("qwen4_exp_text", "heads_per_ngram", 3), "'ple_embed_dim' is 32, expected a multiple of the heads, 6");
  says(config("qwen4_exp_text", "ngram_size", 2), "ple.layer_multipliers has 3 elements, expected 2");
  says(tensor("qwen4_exp_text", "layer_multipliers", gone), "ple.layer_multipliers is missing");
  says(tensor("qwen4_exp_text", "shard_1.", gone), "per_layer_token_embd.weight: has no part 1, and has part 2");
  says(tensor("qwen4_exp_text", "shard_3.", gone), "ple.head_vocab_sizes reaches row");
  says(tensor("qwen4_exp_text", "ngram_heads_vocab_sizes",
              [](GoldenFolder& g, std::size_t i) { g.tensors[i].dtype = "F64"; }),
       "ngram_heads_vocab_sizes: is F64, expected a vector of I64");
}

// Older releases of transformers wrote what is no JSON.
TEST(GoldenFolders, PythonsInfinityIsRead) {
  const GoldenFolder golden = testing::golden_folder("mamba2");
  TemporaryPath folder("golden-folder");
  testing::write_folder(folder.path, golden.config, golden.tensors);
  const auto with = [&](const std::string& limits, const std::string& name) {
    testing::PlainJson config = golden.config;
    config["time_step_limit"] = "HERE";
    config["_name"] = name;
    std::string text = config.dump();
    text.replace(text.find("\"HERE\""), 6, limits);
    testing::write_bytes(folder.path + "/config.json", text);
    try {
      return testing::run_choosing(folder.path, golden.ids, true).logits;
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("'time_step_limit' cuts steps"), std::string::npos) << e.what();
      return std::vector<float>();
    }
  };
  EXPECT_EQ(with("[0.0, Infinity]", "an \"Infinity\" of NaN"), with("[0.0, 1e300]", "x"));
  EXPECT_EQ(with("[NaN, Infinity]", "x"), std::vector<float>());
}

// Every field of every configuration as something else: a model, or an Error that names the folder.
TEST(GoldenFolders, ConfigurationsOfAnyKindAreReadOrRefused) {
  const testing::PlainJson others[] = {nullptr,
                                       -1,
                                       0,
                                       1,
                                       3,
                                       1 << 24,
                                       1e300,
                                       0.5,
                                       true,
                                       "x",
                                       "full_attention",
                                       testing::PlainJson::array(),
                                       {1, "conv"},
                                       testing::PlainJson::object()};
  int taken = 0, refused = 0;
  for (const std::string& name : testing::golden_folders()) {
    const GoldenFolder golden = testing::golden_folder(name);
    TemporaryPath folder("golden-folder");
    testing::write_folder(folder.path, golden.config, golden.tensors);
    for (const auto& [field, value] : golden.config.items())
      for (const testing::PlainJson& other : others) {
        testing::PlainJson config = golden.config;
        config[field] = other;
        // A new file: one that is cut and written again is written to the disk at once, which takes ext4 a millisecond.
        std::filesystem::remove(folder.path + "/config.json");
        testing::write_bytes(folder.path + "/config.json", config.dump());
        try {
          const auto file = weights::open_model_file(folder.path);
          model::Model::planned_bytes(model::read_spec(*file), *file, true);
          ++taken;
        } catch (const Error& e) {
          ++refused;
          EXPECT_TRUE(e.context().starts_with(folder.path)) << name << " " << field << " " << other << ": " << e.what();
        }
      }
  }
  EXPECT_GT(taken, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace golden_folder_test
}  // namespace kvasir::run
