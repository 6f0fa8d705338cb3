#include "weights/safetensors/family.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>

#include "base/error.hpp"

namespace kvasir::weights {
namespace {

constexpr std::string_view kGelu = "gelu_pytorch_tanh";
constexpr Family kFamilies[] = {
    {.model_type = "gemma", .arch = "gemma", .one_more = true, .activation = kGelu},
    {.model_type = "gemma2", .arch = "gemma2", .one_more = true, .post_norms = true, .activation = kGelu},
    {.model_type = "gemma3", .arch = "gemma3", .one_more = true, .post_norms = true, .activation = kGelu},
    {.model_type = "gemma3_text", .arch = "gemma3", .one_more = true, .post_norms = true, .activation = kGelu},
    {.model_type = "granite", .arch = "granite", .pairs = true},
    {.model_type = "llama", .arch = "llama", .pairs = true},
    {.model_type = "mistral", .arch = "llama", .pairs = true},
    {.model_type = "olmo2", .arch = "olmo2", .post_norms = true},
    {.model_type = "olmo3", .arch = "olmo2", .post_norms = true},
    {.model_type = "phi3", .arch = "phi3"},
    {.model_type = "qwen2", .arch = "qwen2"},
    {.model_type = "qwen3", .arch = "qwen3"},
    {.model_type = "smollm3", .arch = "smollm3", .pairs = true},
};

struct Rename {
  std::string_view from, to;
};
constexpr Rename kOfModel[] = {{"embed_tokens.weight", "token_embd.weight"},
                               {"norm.weight", "output_norm.weight"},
                               {"lm_head.weight", "output.weight"}};
constexpr Rename kOfLayer[] = {{"input_layernorm", "attn_norm"},
                               {"self_attn.q_proj", "attn_q"},
                               {"self_attn.k_proj", "attn_k"},
                               {"self_attn.v_proj", "attn_v"},
                               {"self_attn.o_proj", "attn_output"},
                               {"self_attn.qkv_proj", "attn_qkv"},
                               {"self_attn.q_norm", "attn_q_norm"},
                               {"self_attn.k_norm", "attn_k_norm"},
                               {"pre_feedforward_layernorm", "ffn_norm"},
                               {"post_feedforward_layernorm", "post_ffw_norm"},
                               {"mlp.gate_proj", "ffn_gate"},
                               {"mlp.up_proj", "ffn_up"},
                               {"mlp.gate_up_proj", "ffn_up"},
                               {"mlp.down_proj", "ffn_down"}};

bool takes(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

const Rename* find(std::span<const Rename> names, std::string_view from) {
  const auto it = std::find_if(names.begin(), names.end(), [&](const Rename& r) { return r.from == from; });
  return it == names.end() ? nullptr : &*it;
}

// "0.mlp.up_proj.weight" -> "blk.0.ffn_up.weight"; empty: no such tensor.
std::string of_layer(const Family& family, std::string_view rest) {
  int layer = -1;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), layer);
  if (error != std::errc() || layer < 0) return {};
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  if (!takes(rest, ".")) return {};
  const std::size_t dot = rest.rfind('.');
  if (dot == rest.npos) return {};
  const std::string_view name = rest.substr(0, dot), kind = rest.substr(dot);
  if (kind != ".weight" && kind != ".bias") return {};
  if (name == "post_attention_layernorm")
    return fmt::format("blk.{}.{}{}", layer, family.post_norms ? "post_attention_norm" : "ffn_norm", kind);
  const Rename* r = find(kOfLayer, name);
  return r ? fmt::format("blk.{}.{}{}", layer, r->to, kind) : std::string();
}

}  // namespace

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

std::string gguf_name(const Family& family, std::string_view name, const std::string& path) {
  std::string_view rest = name;
  if (rest.ends_with(".rotary_emb.inv_freq") || rest.ends_with(".masked_bias")) return {};
  for (const std::string_view other :
       {"vision_tower.", "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_projector."})
    if (rest.starts_with(other)) return {};
  takes(rest, "model.language_model.") || takes(rest, "language_model.model.") || takes(rest, "language_model.") ||
      takes(rest, "model.");
  if (const Rename* r = find(kOfModel, rest)) return std::string(r->to);
  std::string_view layer = rest;
  if (takes(layer, "layers."))
    if (std::string out = of_layer(family, layer); !out.empty()) return out;
  throw Error(Code::kUnsupported,
              fmt::format("tensor {}: is none of a {} model's", name.substr(0, 200), family.model_type), path);
}

}  // namespace kvasir::weights
