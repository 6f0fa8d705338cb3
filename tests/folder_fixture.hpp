// Folders as Hugging Face publishes models, made from GGUF files: names, places of rows and norms the other way round.
#pragma once

#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "tiny_model_fixture.hpp"
#include "weights/model_file.hpp"

namespace kvasir::testing {

using PlainJson = nlohmann::json;

struct FolderTensor {
  std::string name, dtype;
  std::vector<std::int64_t> shape;  // slowest first
  std::string bytes;
};

inline std::string safetensors_bytes(const std::vector<FolderTensor>& tensors) {
  PlainJson header{{"__metadata__", {{"format", "pt"}}}};
  std::string data;
  for (const FolderTensor& t : tensors) {
    header[t.name] = {
        {"dtype", t.dtype}, {"shape", t.shape}, {"data_offsets", {data.size(), data.size() + t.bytes.size()}}};
    data += t.bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  std::uint64_t length = text.size();
  std::string out(reinterpret_cast<const char*>(&length), 8);
  return out + text + data;
}

// How a model type differs from GGUF.
struct FolderStyle {
  std::string model_type;
  bool pairs = false, one_more = false, post_norms = false;
};

inline std::string folder_name(const FolderStyle& style, const std::string& gguf) {
  static const std::map<std::string, std::string> kNames{{"attn_norm", "input_layernorm"},
                                                         {"attn_q", "self_attn.q_proj"},
                                                         {"attn_k", "self_attn.k_proj"},
                                                         {"attn_v", "self_attn.v_proj"},
                                                         {"attn_output", "self_attn.o_proj"},
                                                         {"attn_qkv", "self_attn.qkv_proj"},
                                                         {"attn_q_norm", "self_attn.q_norm"},
                                                         {"attn_k_norm", "self_attn.k_norm"},
                                                         {"post_attention_norm", "post_attention_layernorm"},
                                                         {"post_ffw_norm", "post_feedforward_layernorm"},
                                                         {"ffn_gate", "mlp.gate_proj"},
                                                         {"ffn_up", "mlp.up_proj"},
                                                         {"ffn_down", "mlp.down_proj"}};
  if (gguf == "token_embd.weight") return "model.embed_tokens.weight";
  if (gguf == "output_norm.weight") return "model.norm.weight";
  if (gguf == "output.weight") return "lm_head.weight";
  if (!gguf.starts_with("blk.")) return {};
  const std::size_t dot = gguf.find('.', 4), kind = gguf.rfind('.');
  const std::string part = gguf.substr(dot + 1, kind - dot - 1);
  std::string name = part == "ffn_norm" ? (style.post_norms ? "pre_feedforward_layernorm" : "post_attention_layernorm")
                                        : kNames.at(part);
  if (style.model_type == "phi3" && part == "ffn_up") name = "mlp.gate_up_proj";
  return "model.layers." + gguf.substr(4, dot - 4) + "." + name + gguf.substr(kind);
}

// Rows of each head from pairs to halves.
inline std::string halves_first(const std::string& bytes, std::int64_t heads, std::int64_t rows) {
  const std::size_t row = bytes.size() / static_cast<std::size_t>(rows);
  const std::int64_t d = rows / heads;
  std::string out(bytes.size(), '\0');
  for (std::int64_t h = 0; h < heads; ++h)
    for (std::int64_t i = 0; i < d; ++i)
      std::memcpy(out.data() + static_cast<std::size_t>(h * d + i % 2 * (d / 2) + i / 2) * row,
                  bytes.data() + static_cast<std::size_t>(h * d + i) * row, row);
  return out;
}

inline std::vector<FolderTensor> folder_tensors(const weights::ModelFile& model, const FolderStyle& style) {
  const auto& m = model.metadata();
  const std::string arch = m.require_string("general.architecture") + ".attention.";
  const std::int64_t heads = m.require_int(arch + "head_count", 1, 1024);
  const std::int64_t kv = m.get_int(arch + "head_count_kv", 1, 1024).value_or(heads);
  std::vector<FolderTensor> out;
  for (const weights::TensorInfo& t : model.tensors()) {
    FolderTensor f{
        .name = folder_name(style, t.name), .dtype = t.quant == "f16" ? "F16" : "F32", .shape = {}, .bytes = {}};
    if (f.name.empty()) continue;
    KVASIR_CHECK(t.quant == "f16" || t.quant == "f32");
    for (int d = t.rank; d-- > 0;) f.shape.push_back(t.shape[static_cast<std::size_t>(d)]);
    f.bytes.assign(reinterpret_cast<const char*>(t.bytes.data()), t.bytes.size());
    const bool q = t.name.find(".attn_q.") != t.name.npos, k = t.name.find(".attn_k.") != t.name.npos;
    if (style.pairs && (q || k)) f.bytes = halves_first(f.bytes, q ? heads : kv, f.shape[0]);
    if (style.one_more && t.name.ends_with("norm.weight"))
      for (std::size_t i = 0; i < f.bytes.size(); i += 4) {
        float x;
        std::memcpy(&x, f.bytes.data() + i, 4);
        x -= 1.0f;
        std::memcpy(f.bytes.data() + i, &x, 4);
      }
    out.push_back(std::move(f));
  }
  return out;
}

// config.json of the model but for what only some model types have.
inline PlainJson folder_config(const weights::ModelFile& model, const FolderStyle& style) {
  const auto& m = model.metadata();
  const std::string arch = m.require_string("general.architecture") + ".";
  const auto integer = [&](const char* key) { return m.require_int(arch + key, 1, std::int64_t{1} << 40); };
  PlainJson c{{"model_type", style.model_type},
              {"num_hidden_layers", integer("block_count")},
              {"hidden_size", integer("embedding_length")},
              {"intermediate_size", integer("feed_forward_length")},
              {"num_attention_heads", integer("attention.head_count")},
              {"num_key_value_heads", integer("attention.head_count_kv")},
              {"head_dim", integer("attention.key_length")},
              {"max_position_embeddings", integer("context_length")},
              {"vocab_size", model.find("token_embd.weight")->rows()},
              {"rms_norm_eps", m.require_float(arch + "attention.layer_norm_rms_epsilon")},
              {"rope_theta", m.get_float(arch + "rope.freq_base").value_or(10000.0)},
              {"tie_word_embeddings", model.find("output.weight") == nullptr}};
  if (const auto window = m.get_int(arch + "attention.sliding_window", 1, std::int64_t{1} << 40))
    c["sliding_window"] = *window;
  return c;
}

// Writes the folder with the tensors in one file, or in two and an index.
inline void write_folder(const std::string& path, const PlainJson& config, const std::vector<FolderTensor>& tensors,
                         bool two = false) {
  std::filesystem::create_directories(path);
  write_bytes(path + "/config.json", config.dump(2));
  if (!two) return write_bytes(path + "/model.safetensors", safetensors_bytes(tensors));
  PlainJson index{{"metadata", {{"total_size", 0}}}, {"weight_map", PlainJson::object()}};
  std::vector<FolderTensor> part[2];
  for (std::size_t i = 0; i < tensors.size(); ++i) part[i % 2].push_back(tensors[i]);
  for (int p = 0; p < 2; ++p) {
    const std::string name = fmt::format("model-0000{}-of-00002.safetensors", p + 1);
    for (const FolderTensor& t : part[p]) index["weight_map"][t.name] = name;
    write_bytes(path + "/" + name, safetensors_bytes(part[p]));
  }
  write_bytes(path + "/model.safetensors.index.json", index.dump());
}

}  // namespace kvasir::testing
