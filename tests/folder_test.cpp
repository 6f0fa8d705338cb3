// Models in folders as Hugging Face publishes them: the same logits and cache as the GGUF file of the same weights, the
// same token ids, and clear words for what is damaged or cannot be computed.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/options.hpp"
#include "folder_fixture.hpp"
#include "model/hparams.hpp"
#include "run/engine.hpp"
#include "text/tokenizer.hpp"
#include "weights/mixes.hpp"
#include "weights/requantise.hpp"
#include "weights/safetensors/shard.hpp"

namespace kvasir::run {
namespace folder_test {

using testing::FolderStyle;
using testing::FolderTensor;
using testing::PlainJson;
using testing::TemporaryPath;
using testing::write_folder;

const std::string kShipped = std::string(KVASIR_SOURCE_DIR) + "/tests/golden/";
const std::string kDemo = std::string(KVASIR_SOURCE_DIR) + "/models/kvasir-books-4m.gguf";

struct Outcome {
  std::vector<float> logits;
  std::uint64_t cache = 0;
};

Outcome run(const std::string& model, bool exact) {
  EngineOptions o;
  o.model = model;
  o.exact = exact;
  o.threads = 2;
  o.ctx = 1024;
  const auto ids =
      parse_json(read_text_file(kShipped + "tokens.json"), "tokens.json")["tokens"].get<std::vector<std::int32_t>>();
  Engine engine(o, {.sequences = 1, .logits = static_cast<int>(ids.size())});
  kv::Sequence* s = engine.cache().create();
  const auto rows = engine.feed(s, ids, static_cast<int>(ids.size()));
  return {{rows.begin(), rows.end()}, engine.cache().bytes().digest(*s)};
}

struct Case {
  const char* file;
  FolderStyle style;
  const char* more;  // of config.json
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.file; }

const Case kCases[] = {
    {"llama", {"llama", true}, "{}"},
    {"llama", {"mistral", true}, R"({"sliding_window": null})"},
    {"qwen2", {"qwen2"}, R"({"use_sliding_window": false, "sliding_window": 64, "hidden_act": "silu"})"},
    {"qwen3",
     {"qwen3"},
     R"({"rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"}, "rope_theta": null})"},
    {"gemma", {"gemma", false, true}, R"({"hidden_act": "gelu"})"},
    {"gemma2",
     {"gemma2", false, true, true},
     R"({"attn_logit_softcapping": 4.0, "final_logit_softcapping": 6.0, "query_pre_attn_scalar": 16,
         "hidden_activation": "gelu_pytorch_tanh"})"},
    {"gemma3",
     {"gemma3_text", false, true, true},
     R"({"sliding_window_pattern": 3, "rope_scaling": {"rope_type": "linear", "factor": 8.0},
         "rope_local_base_freq": 10000.0})"},
    {"gemma3",
     {"gemma3_text", false, true, true},
     R"({"layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
         "rope_theta": null, "rope_parameters": {
           "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
           "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}})"},
    {"granite",
     {"granite", true},
     R"({"embedding_multiplier": 3.0, "residual_multiplier": 0.5, "attention_multiplier": 0.4000000059604645,
         "logits_scaling": 4.0})"},
    {"olmo3",
     {"olmo3", false, false, true},
     R"({"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}})"},
    {"smollm3", {"smollm3", true}, R"({"no_rope_layers": [1, 1, 1, 0]})"},
};

class Folders : public ::testing::TestWithParam<Case> {};

// Norms of the Gemma family are stored without their 1, which costs a bit in a float.
TEST_P(Folders, SameBitsAsGguf) {
  const Case& c = GetParam();
  const std::string gguf = kShipped + c.file + ".gguf";
  const auto model = weights::open_model_file(gguf);
  PlainJson config = testing::folder_config(*model, c.style);
  config.update(PlainJson::parse(c.more));
  for (const bool two : {false, true}) {
    TemporaryPath folder("folder");
    write_folder(folder.path, config, testing::folder_tensors(*model, c.style), two);
    for (const bool exact : {true, false}) {
      const Outcome want = run(gguf, exact), got = run(folder.path, exact);
      ASSERT_EQ(got.logits.size(), want.logits.size());
      if (!c.style.one_more) {
        EXPECT_EQ(got.logits, want.logits) << exact << two;
        EXPECT_EQ(got.cache, want.cache) << exact << two;
        continue;
      }
      double error = 0, norm = 0;
      for (std::size_t i = 0; i < want.logits.size(); ++i) {
        error += std::pow(static_cast<double>(got.logits[i]) - static_cast<double>(want.logits[i]), 2);
        norm += std::pow(static_cast<double>(want.logits[i]), 2);
      }
      EXPECT_LT(std::sqrt(error / norm), exact ? 1e-5 : 2e-2) << two;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, Folders, ::testing::ValuesIn(kCases),
                         [](const auto& i) { return fmt::format("{}_{}", i.param.style.model_type, i.index); });

// Written as GGUF the rows lie as GGUF has them, also in matrices that are copied as they are.
TEST(FolderModels, BecomeGgufFiles) {
  const FolderStyle style{"llama", true};
  const auto model = weights::open_model_file(kShipped + "llama.gguf");
  TemporaryPath folder("folder"), out("folder.gguf");
  write_folder(folder.path, testing::folder_config(*model, style), testing::folder_tensors(*model, style));
  Team team(2);
  for (const char* name : {"F16", "F32"}) {
    weights::requantise(folder.path, out.path, {.mix = &weights::find_mix(name), .again = true}, team,
                        [](const weights::Change&) {});
    EXPECT_EQ(run(out.path, true).logits, run(kShipped + "llama.gguf", true).logits) << name;
  }
}

// The text halves of models of pictures: which parts of a position pairs turn by, and how many layers get rows.
TEST(FolderModels, SayWherePicturesStand) {
  const auto spec_of = [](const char* file, const char* type, const PlainJson& sections, const PlainJson& around) {
    const auto model = weights::open_model_file(kShipped + file);
    const FolderStyle style{type};
    PlainJson config = testing::folder_config(*model, style);
    config["rope_scaling"] = {{"rope_type", "default"}, {"mrope_section", sections}};
    if (!around.empty()) {
      PlainJson whole = around;
      whole["text_config"] = config;
      config = whole;
    }
    TemporaryPath folder("folder");
    write_folder(folder.path, config, testing::folder_tensors(*model, style));
    return model::read_spec(*weights::open_model_file(folder.path));
  };
  const auto axes = [](const model::ModelSpec& spec) {
    std::string text;
    for (const int a : spec.ropes[0].axes) text += static_cast<char>('0' + a);
    return text;
  };
  const model::ModelSpec second = spec_of("qwen2.gguf", "qwen2_vl", {6, 5, 5}, {});
  EXPECT_EQ(axes(second), "0000001111122222");
  EXPECT_EQ(second.deep, 0);
  const PlainJson tower = {{"model_type", "qwen3_vl"},
                           {"vision_config", {{"deepstack_visual_indexes", PlainJson::array({7})}}}};
  const model::ModelSpec third = spec_of("qwen3.gguf", "qwen3_vl_text", {12, 10, 10}, tower);
  EXPECT_EQ(axes(third), "01201201201201201201201201201200");
  EXPECT_EQ(third.deep, 1);
  EXPECT_EQ(axes(spec_of("llama.gguf", "llama", {6, 5, 5}, {})), "");
}

std::vector<float> floats_in(const weights::ModelFile& model, const char* tensor) {
  const weights::TensorInfo* t = model.find(tensor);
  std::vector<float> x(t ? static_cast<std::size_t>(t->columns()) : 0);
  if (t) std::memcpy(x.data(), t->bytes.data(), 4 * x.size());
  return x;
}

// LongRoPE, whose factors GGUF has as tensors and config.json as lists; Phi 3's matrices are fused.
TEST(FolderModels, LongRopeHasTheSameBits) {
  const FolderStyle style{"phi3"};
  const std::string gguf = kShipped + "phi3.gguf";
  const auto model = weights::open_model_file(gguf);
  PlainJson config = testing::folder_config(*model, style);
  config["original_max_position_embeddings"] = 256;
  config["rope_scaling"] = {{"type", "longrope"},
                            {"short_factor", floats_in(*model, "rope_factors_short.weight")},
                            {"long_factor", floats_in(*model, "rope_factors_long.weight")}};
  TemporaryPath folder("folder");
  write_folder(folder.path, config, testing::folder_tensors(*model, style));
  ASSERT_FALSE(floats_in(*model, "rope_factors_long.weight").empty());
  for (const bool exact : {true, false}) {
    const Outcome want = run(gguf, exact), got = run(folder.path, exact);
    EXPECT_EQ(got.logits, want.logits) << exact;
    EXPECT_EQ(got.cache, want.cache) << exact;
  }
}

// Frequencies of Llama 3: those up to a quarter of the original context stay, those beyond it are divided by 8, and
// between lies the ramp of transformers' _compute_llama3_parameters.
TEST(FolderModels, FactorsOfLlama3) {
  const FolderStyle style{"llama", true};
  const auto model = weights::open_model_file(kShipped + "llama3.gguf");
  PlainJson config = testing::folder_config(*model, style);
  config["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 8.0},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 8192}};
  TemporaryPath folder("folder");
  write_folder(folder.path, config, testing::folder_tensors(*model, style));
  const std::vector<float> made = floats_in(*weights::open_model_file(folder.path), "rope_freqs.weight");
  ASSERT_EQ(made.size(), 32u);
  for (std::size_t i = 0; i < made.size(); ++i) {
    const double wave = 2 * M_PI * std::pow(500000.0, static_cast<double>(i) / 32), turns = 8192 / wave;
    const double share = std::min(1.0, std::max(0.0, (turns - 1.0) / 3.0));  // of the frequency that stays
    EXPECT_NEAR(made[i], 1.0 / (share + (1.0 - share) / 8.0), 1e-5) << i;
  }
  EXPECT_EQ(made.front(), 1.0f);
  EXPECT_EQ(made.back(), 8.0f);
}

// The language model of one with a tower for pictures has a type, and names, of its own.
TEST(FolderModels, TextModelsInsideOthers) {
  const FolderStyle style{"mistral", true};
  const auto model = weights::open_model_file(kShipped + "llama.gguf");
  std::vector<FolderTensor> tensors = testing::folder_tensors(*model, style);
  for (FolderTensor& t : tensors) t.name.insert(0, "language_model.");
  tensors.push_back({"vision_tower.conv.weight", "F32", {1}, std::string(4, '\0')});
  tensors.push_back({"model.vision_embedder.patch_dense.bias", "F32", {1}, std::string(4, '\0')});  // Gemma 4 Unified's
  PlainJson text = testing::folder_config(*model, style);
  text["sliding_window"] = nullptr;  // absent, it is the class's 4,096
  TemporaryPath folder("folder");
  write_folder(folder.path,
               {{"model_type", "mistral3"}, {"vision_config", {{"hidden_size", 8}}}, {"text_config", text}}, tensors);
  EXPECT_EQ(run(folder.path, true).logits, run(kShipped + "llama.gguf", true).logits);
}

// A configuration may tie the head to the embedding while the file holds a head of other numbers: that one counts.
TEST(FolderModels, AHeadOfOtherNumbersIsNotTied) {
  const FolderStyle style{"llama", true};
  const auto model = weights::open_model_file(kShipped + "llama.gguf");
  PlainJson config = testing::folder_config(*model, style);
  config["tie_word_embeddings"] = true;
  std::vector<FolderTensor> tensors = testing::folder_tensors(*model, style);
  const auto head =
      std::find_if(tensors.begin(), tensors.end(), [](const auto& t) { return t.name == "lm_head.weight"; });
  ASSERT_NE(head, tensors.end());
  const auto logits = [&] {
    TemporaryPath folder("folder");
    write_folder(folder.path, config, tensors);
    return run(folder.path, true).logits;
  };
  EXPECT_EQ(logits(), run(kShipped + "llama.gguf", true).logits);
  const auto embedding =
      std::find_if(tensors.begin(), tensors.end(), [](const auto& t) { return t.name == "model.embed_tokens.weight"; });
  ASSERT_NE(embedding, tensors.end());
  head->bytes = embedding->bytes;
  head->dtype = embedding->dtype;
  const auto twice = logits();
  tensors.erase(head);
  EXPECT_EQ(twice, logits());
}

// Within the length that the model was trained for it is plain RoPE. What was computed of a longer text would change
// with every token more, so there is none.
TEST(FolderModels, DynamicRopeEndsWhereItsBaseChanges) {
  const FolderStyle style{"llama", true};
  const auto model = weights::open_model_file(kShipped + "llama.gguf");
  PlainJson config = testing::folder_config(*model, style);
  config["max_position_embeddings"] = 1024;
  config["rope_scaling"] = {{"type", "dynamic"}, {"factor", 2.0}};
  TemporaryPath folder("folder");
  write_folder(folder.path, config, testing::folder_tensors(*model, style));
  const Outcome want = run(kShipped + "llama.gguf", true), got = run(folder.path, true);
  EXPECT_EQ(got.logits, want.logits);
  EXPECT_EQ(got.cache, want.cache);
  EngineOptions o;
  o.model = folder.path;
  o.ctx = 1025;
  try {
    Engine engine(o, {.sequences = 1});
    ADD_FAILURE() << "taken";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("--ctx: is 1025, expected at most the model's positions, 1024: texts of more "
                                         "than 1024 tokens turn all their keys otherwise"),
              std::string::npos)
        << e.what();
  }
  o.ctx = 0;
  EXPECT_EQ(Engine(o, {.sequences = 1}).context(), 1024);
}

// What is said of a folder, and what of it.
std::string refusal(
    const std::function<void(const std::string& path, PlainJson& config, std::vector<FolderTensor>&)>& change) {
  const FolderStyle style{"llama", true};
  const auto model = weights::open_model_file(kShipped + "llama.gguf");
  PlainJson config = testing::folder_config(*model, style);
  std::vector<FolderTensor> tensors = testing::folder_tensors(*model, style);
  TemporaryPath folder("folder");
  change(folder.path, config, tensors);
  write_folder(folder.path, config, tensors);
  try {
    run(folder.path, true);
  } catch (const Error& e) {
    std::string what = e.what();
    for (std::size_t at; (at = what.find(folder.path)) != what.npos;) what.replace(at, folder.path.size(), "F");
    return what;
  }
  return "taken";
}

TEST(FolderModels, WhatCannotBeComputedIsNamed) {
  const auto config = [](const char* field, const PlainJson& value) {
    return refusal([&](const std::string&, PlainJson& c, std::vector<FolderTensor>&) { c[field] = value; });
  };
  const auto says = [](const std::string& what, const char* words) {
    EXPECT_NE(what.find(words), std::string::npos) << what;
  };
  EXPECT_EQ(config("hidden_act", "silu"), "taken");
  says(config("model_type", "mamba3"), "F/config.json: 'model_type' is 'mamba3', expected one of afmoe");
  says(config("hidden_act", "relu"), "F/config.json: 'hidden_act' is 'relu', expected 'silu'");
  says(config("num_hidden_layers", 0), "F/config.json: 'num_hidden_layers' is 0, expected an integer from 1 to 4096");
  says(config("num_hidden_layers", "two"), "'num_hidden_layers' is \"two\"");
  says(config("num_hidden_layers", 3), "blk.2.attn_norm.weight is missing");
  says(config("rope_scaling", {{"rope_type", "cubic"}, {"factor", 2.0}}), "'rope_scaling.rope_type' is 'cubic'");
  says(config("rope_scaling", {{"rope_type", "linear"}}), "'rope_scaling.factor' is missing");
  says(config("quantization_config", {{"quant_method", "awq"}}), "'quantization_config.bits' is missing, expected 4");
  says(config("intermediate_size", 40), "ffn_gate.weight is 96x64, expected 40x64");
  const auto tensors = [](const auto& change) {
    return refusal([&](const std::string&, PlainJson&, std::vector<FolderTensor>& t) { change(t); });
  };
  says(tensors([](auto& t) { t[3].name = "model.layers.0.self_attn.w_proj.weight"; }),
       "F/model.safetensors: tensor model.layers.0.self_attn.w_proj.weight: is none of a llama model's");
  says(tensors([](auto& t) { t[4].dtype = "I16"; }), "is I16, expected F32, F16, BF16, F8_E4M3 or F8_E5M2");
  says(tensors([](auto& t) { t.push_back(t[4]), t.back().name = "language_model." + t[4].name.substr(6); }),
       "is there twice");
  says(refusal([](const std::string& path, PlainJson&, auto&) {
         std::filesystem::create_directories(path);
         testing::write_bytes(path + "/model.safetensors.index.json",
                              R"({"weight_map": {"model.norm.weight": "../x"}})");
       }),
       "has no name of a file in this folder");
  says(refusal([](const std::string& path, PlainJson&, auto&) {
         std::filesystem::create_directories(path);
         testing::write_bytes(path + "/model.safetensors.index.json",
                              R"({"weight_map": {"model.norm.weight": "part-2.safetensors"}})");
       }),
       "F/part-2.safetensors: is missing, model.safetensors.index.json names it");
  says(refusal([](const std::string& path, PlainJson&, auto&) {
         std::filesystem::create_directories(path);
         testing::write_bytes(path + "/tokenizer.json", "{\"model\": {\"type\": \"WordLevel\"}}");
       }),
       "F/tokenizer.json: 'model.type' is 'WordLevel', expected BPE, Unigram or WordPiece");
}

TEST(Safetensors, DamageIsNamed) {
  const std::vector<FolderTensor> good{{"a", "F32", {2, 3}, std::string(24, 'a')},
                                       {"b", "BF16", {4}, std::string(8, 'b')}};
  const auto parse = [](std::string bytes) -> std::string {
    try {
      weights::parse_safetensors(std::as_bytes(std::span(bytes)), "x.safetensors");
    } catch (const Error& e) {
      return e.what();
    }
    return "taken";
  };
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string bytes = testing::safetensors_bytes(good);
    const std::size_t at = bytes.find(from);
    EXPECT_NE(at, bytes.npos) << from;
    EXPECT_EQ(from.size(), to.size());
    return parse(bytes.replace(at, from.size(), to));
  };
  const auto says = [](const std::string& what, const char* words) {
    EXPECT_NE(what.find(words), std::string::npos) << what;
  };
  const std::string whole = testing::safetensors_bytes(good);
  EXPECT_EQ(parse(whole), "taken");
  for (std::size_t cut = 0; cut < whole.size(); ++cut) EXPECT_NE(parse(whole.substr(0, cut)), "taken") << cut;
  says(parse(whole + "x"), "has 33 bytes of data, but its tensors end at byte 32");
  says(with("[24,32]", "[24,31]"), "tensor b: has 7 bytes, expected 8 for 4 elements of BF16");
  says(with("[24,32]", "[23,31]"), "tensor b: begins at byte 23 of the data, inside the tensor before it");
  says(with("[24,32]", "[25,33]"), "ascending ones of at most 32");
  says(with("[24,32]", "[32,24]"), "ascending ones");
  says(with("[0,24]", "[8,32]"), "tensor a: begins at byte 8");
  says(with("BF16", "QF16"), "'dtype' is 'QF16'");
  says(with("[2,3]", "[2,4]"), "expected 32 for 8 elements of F32");
  says(with("[2,3]", "[-2,3"), "is no JSON");
  says(with("\"b\"", "\"a\""), "the key 'a' stands twice");
  std::string huge = whole;
  const std::uint64_t length = ~std::uint64_t{0};
  std::memcpy(huge.data(), &length, 8);
  says(parse(huge), "the header has 18446744073709551615 bytes");
  says(parse(std::string("\x08\0\0\0\0\0\0\0", 8) + "[1,2,3] "), "expected a JSON object");
}

// tokenizer.json of the bundled model's vocabulary: the same ids, special tokens and template.
TEST(FolderModels, TextsBecomeTheSameIds) {
  const auto model = weights::open_model_file(kDemo);
  const auto& m = model->metadata();
  const auto& tokens = *m.get_strings("tokenizer.ggml.tokens");
  const auto& merges = *m.get_strings("tokenizer.ggml.merges");
  const auto* types = m.get_ints("tokenizer.ggml.token_type");
  PlainJson vocab = PlainJson::object(), added = PlainJson::array();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (types && (*types)[i] == 3)
      added.push_back({{"id", i}, {"content", tokens[i]}, {"special", true}, {"lstrip", false}, {"rstrip", false}});
    else
      vocab[tokens[i]] = i;
  }
  ASSERT_GT(added.size(), 0u);
  const std::string pre = m.get_string("tokenizer.ggml.pre").value_or("");
  const PlainJson bytes{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  PlainJson tokenizer{{"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", merges}}}, {"added_tokens", added}};
  tokenizer["pre_tokenizer"] =
      pre == "smollm" ? PlainJson{{"type", "Sequence"},
                                  {"pretokenizers", {{{"type", "Digits"}, {"individual_digits", true}}, bytes}}}
                      : bytes;
  const FolderStyle style{"llama", true};
  const auto small = weights::open_model_file(kShipped + "llama.gguf");
  PlainJson config = testing::folder_config(*small, style);
  // The embedding decides how many tokens there are.
  config["vocab_size"] = tokens.size();
  auto tensors = testing::folder_tensors(*small, style);
  for (FolderTensor& t : tensors)
    if (t.name == "model.embed_tokens.weight" || t.name == "lm_head.weight") {
      t.shape[0] = static_cast<std::int64_t>(tokens.size()) + 2;
      t.bytes.resize(static_cast<std::size_t>(t.shape[0] * t.shape[1]) * 2);
    }
  TemporaryPath folder("folder");
  write_folder(folder.path, config, tensors);
  testing::write_bytes(folder.path + "/tokenizer.json", tokenizer.dump());
  testing::write_bytes(
      folder.path + "/tokenizer_config.json",
      PlainJson{{"bos_token", tokens[0]}, {"eos_token", {{"content", tokens[0]}}}, {"add_bos_token", true}}.dump());
  testing::write_bytes(folder.path + "/chat_template.jinja", "{{ messages[0].content }}");
  testing::write_bytes(folder.path + "/generation_config.json", PlainJson{{"temperature", 0.6},
                                                                          {"top_k", 20},
                                                                          {"top_p", nullptr},
                                                                          {"do_sample", true},
                                                                          {"repetition_penalty", 1.1},
                                                                          {"suppress_tokens", {3, 5}}}
                                                                    .dump());
  const auto made = weights::open_model_file(folder.path);
  const auto want = text::make_tokenizer(m), got = text::make_tokenizer(made->metadata());
  EXPECT_EQ(got->size(), want->size() + 2);
  for (const std::string text :
       {"", " ", "It was a dark and stormy night; 1234 waves\n\n  broke.", "naïve \xf0\x9f\x98\x80 \xff'll"})
    EXPECT_EQ(got->encode(text), want->encode(text)) << text;
  EXPECT_EQ(made->metadata().get_string("tokenizer.chat_template"), "{{ messages[0].content }}");
  EXPECT_EQ(made->metadata().get_int("tokenizer.ggml.bos_token_id", 0, 1 << 20), 0);
  EXPECT_EQ(made->metadata().get_bool("tokenizer.ggml.add_bos_token"), true);
  EXPECT_EQ(made->metadata().get_float("general.sampling.temp"), 0.6);
  EXPECT_EQ(made->metadata().get_int("general.sampling.top_k", 0, 100), 20);
  EXPECT_EQ(made->metadata().get_float("general.sampling.penalty_repeat"), 1.1);
  EXPECT_FALSE(made->metadata().has("general.sampling.top_p"));
  EXPECT_EQ(std::vector<std::int32_t>(got->suppressed().begin(), got->suppressed().end()),
            (std::vector<std::int32_t>{3, 5}));

  // An added token takes the white space beside it where tokenizer.json says so.
  added[0]["lstrip"] = added[0]["rstrip"] = true;
  tokenizer["added_tokens"] = added;
  testing::write_bytes(folder.path + "/tokenizer.json", tokenizer.dump());
  const auto strips = text::make_tokenizer(weights::open_model_file(folder.path)->metadata());
  const std::string name = added[0]["content"];
  std::vector<std::int32_t> ids = strips->encode("night");
  ids.push_back(added[0]["id"]);
  for (const std::int32_t id : strips->encode("dark")) ids.push_back(id);
  EXPECT_EQ(strips->encode("night \n" + name + "  dark", {.parse_special = true}), ids);
}

}  // namespace folder_test
}  // namespace kvasir::run
