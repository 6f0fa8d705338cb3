#include "weights/safetensors/family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.hpp"
#include "weights/safetensors/config_reader.hpp"
#include "weights/safetensors/encoder_names.hpp"
#include "weights/safetensors/family_names.hpp"

namespace kvasir::weights {
namespace {

constexpr std::string_view kGelu = "gelu_pytorch_tanh";
constexpr Family kFamilies[] = {
    {.model_type = "afmoe", .arch = "afmoe", .post_norms = true, .names = kAfmoe, .read = read_afmoe},
    {.model_type = "apertus", .arch = "apertus", .activation = "xielu", .names = kApertus},
    {.model_type = "arcee", .arch = "arcee", .pairs = true, .activation = "relu2"},
    {.model_type = "bamba", .arch = "granitehybrid", .pairs = true, .names = kFalconH1, .read = read_bamba},
    {.model_type = "bert", .arch = "bert", .encoder = true, .names = kBert, .read_all = read_bert},
    {.model_type = "bloom", .arch = "bloom", .names = kByKvHead, .read_all = read_bloom},
    {.model_type = "camembert",
     .arch = "bert",
     .encoder = true,
     .behind_two = true,
     .names = kBert,
     .read_all = read_bert},
    {.model_type = "codegen", .arch = "gptj", .names = kGptJ, .read_all = read_gptj},
    {.model_type = "cohere", .arch = "command-r", .read = read_cohere},
    {.model_type = "cohere2", .arch = "cohere2", .read = read_cohere},
    {.model_type = "cohere2_moe", .arch = "cohere2moe", .read = read_cohere2_moe},
    {.model_type = "cwm", .arch = "llama", .pairs = true},
    {.model_type = "deepseek_v2", .arch = "deepseek2", .read = read_latent},
    {.model_type = "deepseek_v3", .arch = "deepseek2", .read = read_latent},
    {.model_type = "distilbert", .arch = "bert", .encoder = true, .names = kDistilBert, .read_all = read_bert},
    {.model_type = "dots1", .arch = "dots1", .read = read_experts},
    {.model_type = "ernie4_5", .arch = "ernie4_5"},
    {.model_type = "ernie4_5_moe", .arch = "ernie4_5-moe", .read = read_ernie},
    {.model_type = "eurobert", .arch = "eurobert", .encoder = true, .read = read_eurobert},
    {.model_type = "exaone", .arch = "exaone", .names = kExaone},
    {.model_type = "exaone4", .arch = "exaone4", .post_norms = true},
    {.model_type = "exaone_moe", .arch = "exaone-moe", .read = read_experts},
    {.model_type = "falcon", .arch = "falcon", .names = kByKvHead, .read_all = read_falcon},
    {.model_type = "falcon_h1", .arch = "falcon-h1", .names = kFalconH1, .read = read_falcon_h1},
    {.model_type = "flex_olmo", .arch = "flex_olmo", .post_norms = true, .read = read_experts},
    {.model_type = "gemma", .arch = "gemma", .one_more = true, .activation = kGelu},
    {.model_type = "gemma2", .arch = "gemma2", .one_more = true, .post_norms = true, .activation = kGelu},
    {.model_type = "gemma3", .arch = "gemma3", .one_more = true, .post_norms = true, .activation = kGelu},
    {.model_type = "gemma3_text", .arch = "gemma3", .one_more = true, .post_norms = true, .activation = kGelu},
    {.model_type = "gemma4",
     .arch = "gemma4",
     .post_norms = true,
     .activation = kGelu,
     .names = kGemma4,
     .read = read_gemma4},
    {.model_type = "gemma4_text",
     .arch = "gemma4",
     .post_norms = true,
     .activation = kGelu,
     .names = kGemma4,
     .read = read_gemma4},
    {.model_type = "gemma4_unified",
     .arch = "gemma4",
     .post_norms = true,
     .activation = kGelu,
     .names = kGemma4,
     .read = read_gemma4},
    {.model_type = "gemma4_unified_text",
     .arch = "gemma4",
     .post_norms = true,
     .activation = kGelu,
     .names = kGemma4,
     .read = read_gemma4},
    {.model_type = "glm", .arch = "chatglm"},
    {.model_type = "glm4", .arch = "glm4", .names = kGlm4},
    {.model_type = "glm4v_text", .arch = "glm4", .names = kGlm4},
    {.model_type = "glm4_moe", .arch = "glm4moe", .post_norms = true, .read = read_experts},
    {.model_type = "glm4_moe_lite", .arch = "deepseek2", .read = read_latent},
    {.model_type = "gpt2", .arch = "gpt2", .names = kOfGpt2, .read_all = read_gpt2},
    {.model_type = "gpt_bigcode", .arch = "starcoder", .names = kGptBigCode, .read_all = read_gpt2},
    {.model_type = "gpt_neox", .arch = "gptneox", .activation = "", .names = kByKvHead, .read = read_gpt_neox},
    {.model_type = "gpt_oss", .arch = "gpt-oss", .post_norms = true, .names = kGptOss, .read = read_gpt_oss},
    {.model_type = "gptj", .arch = "gptj", .names = kGptJ, .read_all = read_gptj},
    {.model_type = "granite", .arch = "granite", .pairs = true},
    {.model_type = "granite_swa", .arch = "granite_swa", .pairs = true, .read = read_granite_swa},
    {.model_type = "granitemoe", .arch = "granitemoe", .pairs = true, .names = kGranite, .read = read_experts},
    {.model_type = "granitemoe_swa", .arch = "granite_swa", .pairs = true, .names = kGranite, .read = read_granite_swa},
    {.model_type = "granitemoehybrid",
     .arch = "granitehybrid",
     .pairs = true,
     .names = kGranite,
     .read = read_granite_hybrid},
    {.model_type = "granitemoeshared", .arch = "granitemoe", .pairs = true, .names = kGranite, .read = read_experts},
    {.model_type = "gte", .arch = "gte", .encoder = true, .names = kGte, .read_all = read_gte},
    {.model_type = "helium", .arch = "llama"},
    {.model_type = "hunyuan_v1_dense", .arch = "hunyuan-dense", .names = kHunyuan},
    {.model_type = "hunyuan_v1_moe", .arch = "hunyuan-moe", .names = kHunyuan, .read = read_experts},
    {.model_type = "hy_v3", .arch = "hy_v3", .names = kAfmoe, .read = read_experts},
    {.model_type = "hyperclovax", .arch = "granite", .pairs = true, .names = kHyperClova, .read = read_hyperclova},
    {.model_type = "internlm2", .arch = "internlm2", .pairs = true, .names = kInternLm2},
    {.model_type = "internlm3", .arch = "llama", .pairs = true},
    {.model_type = "iquestcoder", .arch = "llama", .pairs = true, .read = read_iquest},
    {.model_type = "jais2", .arch = "jais2", .activation = "relu2"},
    {.model_type = "jina_embeddings_v3",
     .arch = "jina-bert-v3",
     .encoder = true,
     .names = kWqkv,
     .read_all = read_jina_v3},
    {.model_type = "kimi_k2", .arch = "deepseek2", .read = read_latent},
    {.model_type = "laguna", .arch = "laguna", .names = kLaguna, .read = read_laguna},
    {.model_type = "lfm2", .arch = "lfm2", .names = kLfm2, .read = read_lfm2},
    {.model_type = "lfm2_moe", .arch = "lfm2moe", .names = kLfm2, .read = read_lfm2},
    {.model_type = "lfm3", .arch = "lfm3", .names = kLfm2, .read = read_lfm3},
    {.model_type = "llama", .arch = "llama", .pairs = true},
    {.model_type = "llama4", .arch = "llama4", .names = kLlama4, .read = read_llama4},
    {.model_type = "llama4_text", .arch = "llama4", .names = kLlama4, .read = read_llama4},
    {.model_type = "mamba2", .arch = "mamba2", .names = kMixer, .read_all = read_mamba2},
    {.model_type = "mellum", .arch = "mellum", .read = read_mellum},
    {.model_type = "minicpm", .arch = "minicpm", .pairs = true, .read = read_minicpm},
    {.model_type = "minicpm3", .arch = "minicpm3", .read = read_minicpm3},
    {.model_type = "minimax_m2", .arch = "minimax-m2", .read = read_experts},
    {.model_type = "ministral", .arch = "llama", .pairs = true},
    {.model_type = "ministral3", .arch = "mistral3", .pairs = true, .read = read_ministral},
    {.model_type = "mistral", .arch = "llama", .pairs = true},
    {.model_type = "mistral3", .arch = "mistral3", .pairs = true, .read = read_ministral},
    {.model_type = "mixtral", .arch = "llama", .pairs = true, .read = read_experts},
    {.model_type = "modernbert",
     .arch = "modern-bert",
     .encoder = true,
     .names = kModernBert,
     .read_all = read_modern_bert},
    {.model_type = "mpt", .arch = "mpt", .names = kMpt, .read_all = read_mpt},
    {.model_type = "nanochat", .arch = "nanochat", .activation = "relu2", .names = kPhi},
    {.model_type = "nemotron", .arch = "nemotron", .one_more = true, .activation = "relu2", .read = read_nemotron},
    {.model_type = "nemotron_h", .arch = "nemotron_h", .names = kMixer, .read = read_nemotron_h},
    {.model_type = "neobert", .arch = "neo-bert", .encoder = true, .names = kNeoBert, .read_all = read_neobert},
    {.model_type = "new", .arch = "gte", .encoder = true, .names = kGte, .read_all = read_gte},
    {.model_type = "nomic_bert", .arch = "nomic-bert", .encoder = true, .names = kWqkv, .read_all = read_nomic_bert},
    {.model_type = "olmo", .arch = "olmo", .pairs = true, .read = read_olmo},
    {.model_type = "olmo2", .arch = "olmo2", .post_norms = true},
    {.model_type = "olmo3", .arch = "olmo2", .post_norms = true},
    {.model_type = "olmo_hybrid",
     .arch = "olmo_hybrid",
     .post_norms = true,
     .names = kOlmoHybrid,
     .read = read_olmo_hybrid},
    {.model_type = "olmoe", .arch = "olmoe", .read = read_experts},
    {.model_type = "opt", .arch = "opt", .names = kOpt, .read_all = read_opt},
    {.model_type = "phi", .arch = "phi2", .activation = "gelu_new", .names = kPhi},
    {.model_type = "phi3", .arch = "phi3"},
    {.model_type = "phimoe", .arch = "phimoe", .read = read_phimoe},
    {.model_type = "qwen", .arch = "qwen", .names = kQwen, .read = read_qwen},
    {.model_type = "qwen2", .arch = "qwen2"},
    {.model_type = "qwen2_5_vl", .arch = "qwen2"},
    {.model_type = "qwen2_5_vl_text", .arch = "qwen2"},
    {.model_type = "qwen2_moe", .arch = "qwen2moe", .read = read_experts},
    {.model_type = "qwen2_vl", .arch = "qwen2"},
    {.model_type = "qwen2_vl_text", .arch = "qwen2"},
    {.model_type = "qwen3", .arch = "qwen3"},
    {.model_type = "qwen3_5", .arch = "qwen35", .one_more = true, .post_norms = true, .read = read_delta},
    {.model_type = "qwen3_5_moe", .arch = "qwen35moe", .one_more = true, .post_norms = true, .read = read_delta},
    {.model_type = "qwen3_5_moe_text", .arch = "qwen35moe", .one_more = true, .post_norms = true, .read = read_delta},
    {.model_type = "qwen3_5_text", .arch = "qwen35", .one_more = true, .post_norms = true, .read = read_delta},
    {.model_type = "qwen3_moe", .arch = "qwen3moe", .read = read_experts},
    {.model_type = "qwen3_next", .arch = "qwen3next", .one_more = true, .post_norms = true, .read = read_delta},
    {.model_type = "qwen3_vl_moe_text", .arch = "qwen3moe", .names = kQwen3VlMoe, .read = read_experts},
    {.model_type = "qwen3_vl_text", .arch = "qwen3"},
    {.model_type = "roberta",
     .arch = "bert",
     .encoder = true,
     .behind_two = true,
     .names = kBert,
     .read_all = read_bert},
    {.model_type = "sarvam_moe", .arch = "bailingmoe2", .names = kBailing, .read = read_experts},
    {.model_type = "seed_oss", .arch = "seed_oss", .post_norms = true},
    {.model_type = "smollm3", .arch = "smollm3", .pairs = true},
    {.model_type = "solar_open", .arch = "glm4moe", .post_norms = true, .read = read_experts},
    {.model_type = "stablelm", .arch = "stablelm"},
    {.model_type = "starcoder2", .arch = "starcoder2", .activation = kGelu, .names = kStarcoder2},
    {.model_type = "vaultgemma", .arch = "vaultgemma", .one_more = true, .post_norms = true, .activation = kGelu},
    {.model_type = "xlm-roberta",
     .arch = "bert",
     .encoder = true,
     .behind_two = true,
     .names = kBert,
     .read_all = read_bert},
    {.model_type = "xverse", .arch = "xverse", .pairs = true},
    {.model_type = "youtu", .arch = "deepseek2", .read = read_latent},
};

bool takes(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

// The tensor `name` of a table: as it stands there, or with ".weight" or ".bias" behind it.
std::optional<Place> find(std::span<const Rename> names, std::string_view name) {
  const std::size_t dot = name.rfind('.');
  const std::string_view stem = name.substr(0, dot == name.npos ? 0 : dot);
  const std::string_view kind = dot == name.npos ? std::string_view() : name.substr(dot);
  for (const Rename& r : names) {
    if (r.from == name) return Place{.name = std::string(r.to), .make = r.make};
    if (r.from == stem && (kind == ".weight" || kind == ".bias"))
      return Place{.name = fmt::format("{}{}", r.to, kind), .make = r.make};
  }
  return std::nullopt;
}

// The number that `text` begins with, which is taken off; -1: none.
std::int64_t take_number(std::string_view& text) {
  std::int64_t n = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || n < 0 || n > (1 << 24)) return -1;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return n;
}

// "0.mlp.up_proj.weight" -> blk.0.ffn_up.weight.
std::optional<Place> of_layer(const Family& family, std::string_view rest) {
  const std::int64_t layer = take_number(rest);
  if (layer < 0 || !takes(rest, ".")) return std::nullopt;
  std::string name(rest);
  std::int64_t expert = -1;
  constexpr std::string_view kExperts = "experts.";
  if (const std::size_t at = rest.find(kExperts); at != rest.npos) {
    std::string_view behind = rest.substr(at + kExperts.size());
    expert = take_number(behind);
    if (expert >= 0) name = fmt::format("{}*{}", rest.substr(0, at + kExperts.size()), behind);
  }
  std::optional<Place> place = find(family.names, name);
  if (!place && takes(rest, "post_attention_layernorm."))
    place = Place{.name = fmt::format("{}.{}", family.post_norms ? "post_attention_norm" : "ffn_norm", rest)};
  if (!place) place = find(kOfLayer, name);
  if (!place) return std::nullopt;
  if (place->make != Make::kNumber) place->name = fmt::format("blk.{}.{}", layer, place->name);
  place->expert = expert;
  place->layer = static_cast<int>(layer);
  return place;
}

// Tensors of encoders, whose names begin with the model's own where there is a head beside it.
std::optional<Place> of_encoder(const Family& family, std::string_view rest) {
  takes(rest, "bert.") || takes(rest, "roberta.") || takes(rest, "distilbert.") || takes(rest, "nomic_bert.") ||
      takes(rest, "gte.") || takes(rest, "new.") || takes(rest, "model.");
  for (const std::string_view unused : kUnusedOfEncoder)
    if (rest.starts_with(unused)) return Place{};
  if (auto place = find(kOfEncoder, rest)) {
    if (family.behind_two && place->name == "position_embd.weight") place->make = Make::kBehindTwo;
    return place;
  }
  if (takes(rest, "encoder.layer.") || takes(rest, "encoder.layers.") || takes(rest, "transformer_encoder.") ||
      takes(rest, "transformer.layer.") || takes(rest, "layers."))
    return of_layer(family, rest);
  return std::nullopt;
}

}  // namespace

std::span<const Rename> granite_without_experts() { return kGraniteDense; }

const Family& family_of(std::string_view model_type, const std::string& path) {
  const auto it = std::find_if(std::begin(kFamilies), std::end(kFamilies),
                               [&](const Family& f) { return f.model_type == model_type; });
  if (it != std::end(kFamilies)) return *it;
  std::string known;
  for (const Family& f : kFamilies) known += fmt::format("{}{}", known.empty() ? "" : ", ", f.model_type);
  throw Error(Code::kUnsupported,
              fmt::format("'model_type' is '{}', expected one of {}; other models run from GGUF files",
                          model_type.substr(0, 80), known),
              path);
}

const Family& family_of_arch(std::string_view arch, const std::string& path) {
  const auto it =
      std::find_if(std::begin(kFamilies), std::end(kFamilies), [&](const Family& f) { return f.arch == arch; });
  if (it != std::end(kFamilies)) return *it;
  throw Error(Code::kUnsupported, fmt::format("the names of {} models in folders are not known", arch), path);
}

Place place_of(const Family& family, std::string_view name, const std::string& path) {
  std::string_view rest = name;
  if (family.encoder)
    if (auto place = of_encoder(family, rest)) return *place;
  for (const char* buffer : {".rotary_emb.inv_freq", ".masked_bias", ".attn.bias", ".attention.bias"})
    if (rest.ends_with(buffer)) return {};
  for (const std::string_view model : {"", "model."})
    for (const std::string_view other : {"vision_tower.", "multi_modal_projector.", "visual.", "audio_tower.",
                                         "embed_vision.", "embed_audio.", "vision_model.", "connector.", "mtp."})
      if (rest.starts_with(model) && rest.substr(model.size()).starts_with(other)) return {};
  takes(rest, "model.language_model.") || takes(rest, "model.text_model.") || takes(rest, "language_model.model.") ||
      takes(rest, "language_model.") || takes(rest, "model.decoder.") || takes(rest, "model.") ||
      takes(rest, "backbone.") || takes(rest, "gpt_neox.") || takes(rest, "transformer.") || takes(rest, "decoder.");
  if (auto place = find(kOfModel, rest)) return *place;
  std::string_view layer = rest;
  if (takes(layer, "layers.") || takes(layer, "h.") || takes(layer, "blocks."))
    if (auto place = of_layer(family, layer)) return *place;
  throw Error(Code::kUnsupported,
              fmt::format("tensor {}: is none of a {} model's", name.substr(0, 200), family.model_type), path);
}

}  // namespace kvasir::weights
