// A model file of 100 kB whose every field a test can break.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "base/check.hpp"
#include "text/vocabularies_fixture.hpp"
#include "weights/gguf_writer.hpp"
#include "weights/quant.hpp"

namespace kvasir::testing {

// A path of its own in the temporary folder; whatever is there at the end goes.
struct TemporaryPath {
  explicit TemporaryPath(const std::string& name)
      : path((std::filesystem::temp_directory_path() / fmt::format("kvasir-{}-{}", ::getpid(), name)).string()) {}
  ~TemporaryPath() { std::filesystem::remove_all(path); }
  TemporaryPath(const TemporaryPath&) = delete;
  TemporaryPath& operator=(const TemporaryPath&) = delete;
  std::string path;
};

inline void write_bytes(const std::string& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  KVASIR_CHECK(out.good());
}

struct TinyTensor {
  std::string name;
  std::string quant;
  std::vector<std::int64_t> shape;  // columns, rows
  std::vector<float> values;
};

// A Llama of 2 layers, width 32, 4 query and 2 KV heads of size 8, over the 256 bytes, merges of "a" up to 64 of them,
// <s> and </s>. Weights are fixed pseudo-random numbers.
class TinyModel {
 public:
  using Number = std::variant<std::uint32_t, std::uint64_t, std::int64_t, float>;
  static constexpr std::int64_t kDim = 32, kFfn = 64, kKv = 16, kVocab = 264;
  static constexpr int kMerges = 6;

  explicit TinyModel(const std::string& quant = "f32") {
    const auto number = [&](const char* key, std::uint32_t v) { numbers["llama." + std::string(key)] = v; };
    number("block_count", 2);
    number("context_length", 8192);
    number("embedding_length", kDim);
    number("feed_forward_length", kFfn);
    number("attention.head_count", 4);
    number("attention.head_count_kv", 2);
    number("rope.dimension_count", 8);
    numbers["llama.attention.layer_norm_rms_epsilon"] = 1e-5f;
    add("token_embd.weight", quant, {kDim, kVocab});
    for (int l = 0; l < 2; ++l) {
      const std::string block = fmt::format("blk.{}.", l);
      add(block + "attn_norm.weight", "f32", {kDim});
      add(block + "attn_q.weight", quant, {kDim, kDim});
      add(block + "attn_k.weight", quant, {kDim, kKv});
      add(block + "attn_v.weight", quant, {kDim, kKv});
      add(block + "attn_output.weight", quant, {kDim, kDim});
      add(block + "ffn_norm.weight", "f32", {kDim});
      add(block + "ffn_gate.weight", quant, {kDim, kFfn});
      add(block + "ffn_up.weight", quant, {kDim, kFfn});
      add(block + "ffn_down.weight", quant, {kFfn, kDim});
    }
    add("output_norm.weight", "f32", {kDim});
  }

  std::map<std::string, Number> numbers;  // metadata; erase or replace
  std::map<std::string, std::vector<std::int32_t>> arrays;
  std::map<std::string, std::string> strings{
      {"general.architecture", "llama"}, {"tokenizer.ggml.model", "gpt2"}, {"tokenizer.ggml.pre", "gpt-2"}};
  std::vector<TinyTensor> tensors;

  // The same as a text model of Qwen's whose positions have three parts: qwen2vl, or qwen3vl with deepstack.
  TinyModel& see(const std::string& arch) {
    std::map<std::string, Number> renamed;
    for (const auto& [key, value] : numbers) renamed[key.starts_with("llama.") ? arch + key.substr(5) : key] = value;
    numbers = renamed;
    strings["general.architecture"] = arch;
    arrays[arch + ".rope.dimension_sections"] = {2, 1, 1, 0};
    if (arch == "qwen3vl") numbers[arch + ".n_deepstack_layers"] = 2u;
    for (int l = 0; l < 2; ++l)
      for (const auto& [name, width] : {std::pair<const char*, std::int64_t>{"q", kDim}, {"k", kKv}, {"v", kKv}}) {
        const std::string at = fmt::format("blk.{}.attn_{}", l, name);
        if (arch == "qwen2vl") add(at + ".bias", "f32", {width});
        if (arch == "qwen3vl" && *name != 'v') add(at + "_norm.weight", "f32", {8});
      }
    return *this;
  }

  TinyTensor& tensor(const std::string& name) {
    for (auto& t : tensors)
      if (t.name == name) return t;
    throw std::logic_error("no tensor " + name);
  }
  void remove(const std::string& name) {
    std::erase_if(tensors, [&](const TinyTensor& t) { return t.name == name; });
  }
  void add(const std::string& name, const std::string& quant, std::vector<std::int64_t> shape) {
    TinyTensor t{name, quant, std::move(shape), {}};
    std::int64_t n = 1;
    for (const auto d : t.shape) n *= d;
    std::uint32_t state = 12345 + 77 * static_cast<std::uint32_t>(tensors.size());
    for (std::int64_t i = 0; i < n; ++i) {
      state = state * 1664525u + 1013904223u;
      const float random = static_cast<float>(state >> 8) / static_cast<float>(1 << 24) - 0.5f;
      t.values.push_back(t.shape.size() == 1 ? 1.0f + 0.1f * random : 0.5f * random);
    }
    tensors.push_back(std::move(t));
  }

  weights::GgufHeader header() const {
    weights::GgufHeader h;
    for (const auto& [key, value] : strings) h.set_string(key, value);
    for (const auto& [key, value] : numbers) std::visit([&, k = key](auto v) { h.set(k, v); }, value);
    for (const auto& [key, values] : arrays) h.set_array<std::int32_t>(key, values);
    std::vector<std::string> tokens, merges;
    for (int b = 0; b < 256; ++b) tokens.push_back(text::byte_level(std::string(1, static_cast<char>(b))));
    for (int i = 0; i < kMerges; ++i) {
      const std::string half(std::size_t{1} << i, 'a');
      merges.push_back(half + " " + half);
      tokens.push_back(half + half);
    }
    tokens.insert(tokens.end(), {"<s>", "</s>"});
    std::vector<std::int32_t> types(tokens.size(), 1);
    types[types.size() - 2] = types[types.size() - 1] = 3;
    h.set_strings("tokenizer.ggml.tokens", tokens);
    h.set_array<std::int32_t>("tokenizer.ggml.token_type", types);
    h.set_strings("tokenizer.ggml.merges", merges);
    h.set("tokenizer.ggml.bos_token_id", static_cast<std::uint32_t>(tokens.size() - 2));
    h.set("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(tokens.size() - 1));
    h.set("tokenizer.ggml.add_bos_token", false);
    for (const auto& t : tensors) h.add_tensor(t.name, t.quant, t.shape);
    return h;
  }

  void write(const std::string& path) const {
    weights::GgufWriter out(path, header());
    for (const auto& t : tensors) {
      const weights::Quant* quant = find(weights::quants(), t.quant);
      KVASIR_CHECK(quant != nullptr);
      const auto n = static_cast<std::int64_t>(t.values.size());
      std::vector<std::byte> bytes(static_cast<std::size_t>(n / quant->block * quant->block_bytes));
      quant->quantise(t.values.data(), bytes.data(), n);
      out.write(bytes);
    }
    out.finish();
  }
};

}  // namespace kvasir::testing
