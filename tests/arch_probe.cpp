// The architecture tests/skeletons/model/archs/skeleton.cpp against itself in float64: random weights are written, as a
// GGUF file and as a folder of Hugging Face, run by the engine, and computed here by name (tests/registry_test.sh).
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "model/cache_shape.hpp"
#include "run/engine.hpp"
#include "weights/gguf_writer.hpp"

namespace {

constexpr int kLayers = 4, kDim = 64, kFfn = 96, kHeads = 4, kKvHeads = 2, kHead = 16, kVocab = 80, kPositions = 64;
constexpr int kWindow = 9;
constexpr double kScoreCap = 2.0, kLogitCap = 3.0, kEps = 1e-2;
constexpr int kTokens = 40;

struct Tensor {
  std::vector<std::int64_t> shape;  // columns, rows
  std::vector<float> values;
};
std::map<std::string, Tensor> tensors;
std::vector<std::string> order;

void add(const std::string& name, std::vector<std::int64_t> shape) {
  static std::mt19937 random(7);
  std::normal_distribution<float> normal;
  const bool matrix = shape.size() > 1;
  Tensor t{shape, std::vector<float>(static_cast<std::size_t>(shape[0] * (matrix ? shape[1] : 1)))};
  const float size = matrix ? 2.0f / std::sqrt(static_cast<float>(shape[0])) : 0.4f;
  for (float& v : t.values) v = size * normal(random) + (!matrix && name.ends_with("weight") ? 1.0f : 0.0f);
  tensors[name] = t;
  order.push_back(name);
}

void with_bias(const std::string& name, int rows, int columns) {
  add(name + ".weight", {columns, rows});
  add(name + ".bias", {rows});
}
void norm_of(const std::string& name) {
  add(name + ".weight", {kDim});
  add(name + ".bias", {kDim});
}

void make() {
  add("token_embd.weight", {kDim, kVocab});
  add("position_embd.weight", {kDim, kPositions});
  for (int l = 0; l < kLayers; ++l) {
    const std::string block = "blk." + std::to_string(l) + ".";
    norm_of(block + "attn_norm");
    with_bias(block + "attn_qkv", (kHeads + 2 * kKvHeads) * kHead, kDim);
    with_bias(block + "attn_output", kDim, kHeads * kHead);
    norm_of(block + "ffn_norm");
    with_bias(block + "ffn_up", kFfn, kDim);
    with_bias(block + "ffn_down", kDim, kFfn);
  }
  norm_of("output_norm");
}

void write_gguf(const std::string& path) {
  kvasir::weights::GgufHeader h;
  h.set_string("general.architecture", "skeleton");
  for (const auto& [key, value] : {std::pair{"block_count", kLayers},
                                   {"embedding_length", kDim},
                                   {"feed_forward_length", kFfn},
                                   {"attention.head_count", kHeads},
                                   {"attention.head_count_kv", kKvHeads},
                                   {"context_length", kPositions},
                                   {"attention.sliding_window", kWindow}})
    h.set(std::string("skeleton.") + key, static_cast<std::uint32_t>(value));
  h.set("skeleton.attention.layer_norm_epsilon", static_cast<float>(kEps));
  h.set("skeleton.attn_logit_softcapping", static_cast<float>(kScoreCap));
  h.set("skeleton.final_logit_softcapping", static_cast<float>(kLogitCap));
  for (const std::string& name : order) h.add_tensor(name, "f32", tensors[name].shape);
  kvasir::weights::GgufWriter out(path, h);
  for (const std::string& name : order) out.write(std::as_bytes(std::span(tensors[name].values)));
  out.finish();
}

// blk.2.attn_qkv.bias -> model.layers.2.attn.qkv.bias
std::string name_in_folder(const std::string& name) {
  static const std::map<std::string, std::string> kNames = {
      {"token_embd", "embed_tokens"}, {"position_embd", "wpe"}, {"output_norm", "norm"},
      {"attn_norm", "attn.norm"},     {"attn_qkv", "attn.qkv"}, {"attn_output", "attn.out"},
      {"ffn_norm", "ffn.norm"},       {"ffn_up", "ffn.in"},     {"ffn_down", "ffn.out"}};
  const std::size_t dot = name.rfind('.');
  if (!name.starts_with("blk.")) return "model." + kNames.at(name.substr(0, dot)) + name.substr(dot);
  const std::size_t begin = name.find('.', 4);
  return "model.layers." + name.substr(4, begin - 4) + "." + kNames.at(name.substr(begin + 1, dot - begin - 1)) +
         name.substr(dot);
}

void write_folder(const std::string& path) {
  std::filesystem::create_directory(path);
  std::ofstream(path + "/config.json") << R"({"model_type": "skeleton_text", "hidden_act": "gelu_new")"
                                       << R"(, "tie_word_embeddings": true, "num_hidden_layers": )" << kLayers
                                       << R"(, "hidden_size": )" << kDim << R"(, "intermediate_size": )" << kFfn
                                       << R"(, "num_attention_heads": )" << kHeads << R"(, "num_key_value_heads": )"
                                       << kKvHeads << R"(, "vocab_size": )" << kVocab
                                       << R"(, "max_position_embeddings": )" << kPositions << R"(, "sliding_window": )"
                                       << kWindow << R"(, "layer_norm_eps": )" << kEps
                                       << R"(, "attn_logit_softcapping": )" << kScoreCap
                                       << R"(, "final_logit_softcapping": )" << kLogitCap << "}";
  std::string header, data;
  for (const std::string& name : order) {
    const Tensor& t = tensors[name];
    std::string shape = std::to_string(t.shape[0]);
    if (t.shape.size() > 1) shape = std::to_string(t.shape[1]) + ", " + shape;
    const std::size_t begin = data.size();
    data.append(reinterpret_cast<const char*>(t.values.data()), t.values.size() * sizeof(float));
    header += (header.empty() ? "{\"" : ", \"") + name_in_folder(name) + R"(": {"dtype": "F32", "shape": [)" + shape +
              R"(], "data_offsets": [)" + std::to_string(begin) + ", " + std::to_string(data.size()) + "]}";
  }
  header += "}";
  const std::uint64_t bytes = header.size();  // little endian, as the machines are that this runs on
  std::ofstream out(path + "/model.safetensors", std::ios::binary);
  out.write(reinterpret_cast<const char*>(&bytes), sizeof bytes) << header << data;
}

using Row = std::vector<double>;

double capped(double x, double cap) { return cap > 0 ? cap * std::tanh(x / cap) : x; }

Row norm(const std::string& name, const Row& x) {
  double mean = 0, square = 0;
  for (const double v : x) mean += v / kDim;
  for (const double v : x) square += (v - mean) * (v - mean) / kDim;
  Row out;
  for (std::size_t i = 0; i < x.size(); ++i)
    out.push_back((x[i] - mean) / std::sqrt(square + static_cast<double>(static_cast<float>(kEps))) *
                      static_cast<double>(tensors[name + ".weight"].values[i]) +
                  static_cast<double>(tensors[name + ".bias"].values[i]));
  return out;
}

Row product(const std::string& name, const Row& x) {
  const Tensor& w = tensors[name + ".weight"];
  const auto bias = tensors.find(name + ".bias");
  Row out;
  for (std::size_t r = 0; r < static_cast<std::size_t>(w.shape[1]); ++r) {
    double sum = bias == tensors.end() ? 0 : static_cast<double>(bias->second.values[r]);
    for (std::size_t i = 0; i < x.size(); ++i) sum += static_cast<double>(w.values[r * x.size() + i]) * x[i];
    out.push_back(sum);
  }
  return out;
}

// Of token `p`, whose queries, keys and values lie in one row each, as those of the tokens before.
Row attend(const std::vector<Row>& qkv, std::size_t p, int window) {
  Row out;
  for (int h = 0; h < kHeads; ++h) {
    const auto q = static_cast<std::size_t>(h * kHead);
    const auto k = static_cast<std::size_t>((kHeads + h / (kHeads / kKvHeads)) * kHead), v = k + kKvHeads * kHead;
    Row sum(kHead);
    double total = 0;
    for (std::size_t t = 0; t <= p; ++t) {
      if (window > 0 && p - t >= static_cast<std::size_t>(window)) continue;
      double score = 0;
      for (std::size_t i = 0; i < kHead; ++i) score += qkv[p][q + i] * qkv[t][k + i];
      const double weight = std::exp(capped(score / std::sqrt(kHead), kScoreCap));
      total += weight;
      for (std::size_t i = 0; i < kHead; ++i) sum[i] += weight * qkv[t][v + i];
    }
    for (const double s : sum) out.push_back(s / total);
  }
  return out;
}

void increase(Row& x, const Row& by) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += by[i];
}

std::vector<Row> reference(const std::vector<std::int32_t>& ids) {
  std::vector<Row> x(ids.size(), Row(kDim));
  for (std::size_t p = 0; p < ids.size(); ++p)
    for (std::size_t i = 0; i < kDim; ++i)
      x[p][i] = static_cast<double>(tensors["token_embd.weight"].values[static_cast<std::size_t>(ids[p]) * kDim + i]) +
                static_cast<double>(tensors["position_embd.weight"].values[p * kDim + i]);
  for (int l = 0; l < kLayers; ++l) {
    const std::string block = "blk." + std::to_string(l) + ".";
    std::vector<Row> qkv;
    for (const Row& row : x) qkv.push_back(product(block + "attn_qkv", norm(block + "attn_norm", row)));
    for (std::size_t p = 0; p < x.size(); ++p) {
      increase(x[p], product(block + "attn_output", attend(qkv, p, l % 2 == 0 ? kWindow : 0)));
      Row hidden = product(block + "ffn_up", norm(block + "ffn_norm", x[p]));
      for (double& v : hidden) v = v / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
      increase(x[p], product(block + "ffn_down", hidden));
    }
  }
  for (Row& row : x) {
    row = product("token_embd", norm("output_norm", row));
    for (double& v : row) v = capped(v, kLogitCap);
  }
  return x;
}

// Whether the logits of the model at `path` are those of the reference.
bool agrees(const std::string& path) {
  std::vector<std::int32_t> ids;
  for (int i = 0; i < kTokens; ++i) ids.push_back((i * 29 + 3) % kVocab);
  kvasir::run::EngineOptions o;
  o.model = path;
  o.exact = true;
  o.threads = 1;
  o.ctx = kPositions;
  o.chunk = 16;
  kvasir::run::Engine engine(o, {.logits = 16});
  kvasir::kv::Sequence* sequence = engine.cache().create();
  const std::vector<Row> want = reference(ids);
  double error = 0, size = 0;
  for (std::size_t at = 0; at < ids.size(); at += 8) {
    const auto rows = engine.feed(sequence, std::span(ids).subspan(at, 8), 8);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const double w = want[at + i / kVocab][i % kVocab];
      error += (static_cast<double>(rows[i]) - w) * (static_cast<double>(rows[i]) - w);
      size += w * w;
    }
  }
  std::printf("architecture skeleton, %s: relative error %.1e\n", path.c_str(), std::sqrt(error / size));
  return std::sqrt(error / size) <= 1e-4;
}

}  // namespace

int main(int, char** argv) {
  const std::string gguf = std::string(argv[1]) + "/skeleton.gguf", folder = std::string(argv[1]) + "/skeleton-folder";
  make();
  write_gguf(gguf);
  write_folder(folder);
  const bool both[] = {agrees(gguf), agrees(folder)};
  return both[0] && both[1] ? 0 : 1;
}
