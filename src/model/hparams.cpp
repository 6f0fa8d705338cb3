#include "model/hparams.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "model/arch.hpp"
#include "model/blocks.hpp"
#include "model/factors.hpp"
#include "model/orders.hpp"
#include "model/spec_fields.hpp"

namespace kvasir::model {
namespace {

constexpr std::int64_t kMost = 1 << 24;  // no width, head count or layer count of a real model comes near it

// Files that belong to a model are named for what they are.
void check_is_model(const weights::Metadata& m, const std::string& arch) {
  const std::string type = m.get_string("general.type").value_or("");
  if (type == "adapter")
    throw Error(Code::kBadInput,
                "is an adapter (" + m.get_string("adapter.type").value_or("of no type") +
                    ") for a model of architecture '" + arch +
                    "', not a model; expected the model itself, to which --lora adds this file",
                m.path());
  if (type == "mmproj" || arch == "clip")
    throw Error(Code::kBadInput,
                "is the encoder of pictures or sound of another file (mmproj), not a model; expected the model itself. "
                "Pictures and sound are not read here",
                m.path());
  if (type == "imatrix" || arch == "imatrix")
    throw Error(Code::kBadInput, "is an importance matrix, not a model; kvasir quantize takes it", m.path());
}

// The converter's --mtp leaves all but the last layers out; run/drafters/mtp.cpp takes such a file.
void check_has_layers(const weights::ModelFile& file, int layers) {
  const std::string block = "blk." + std::to_string(layers) + ".";
  if (!file.find(block + "nextn.eh_proj.weight")) return;
  bool other = false;
  for (const weights::TensorInfo& t : file.tensors()) {
    if (t.name.starts_with("blk.0.")) return;
    other |= t.name.starts_with(block) && !t.name.starts_with(block + "nextn.");
  }
  if (!other) return;  // a specification that is written to a file later
  throw Error(
      Code::kUnsupported,
      "holds only the layers of a model that predict further tokens (a draft head, MTP), not the model; expected "
      "the model itself, for which --draft mtp:FILE takes this file",
      file.metadata().path());
}

}  // namespace

Hparams::Hparams(const weights::ModelFile& file, std::int64_t tokens) : file_(file), m_(file.metadata()) {
  arch_ = m_.require_string("general.architecture");
  check_is_model(m_, arch_);
  entry_ = find(archs(), arch_);
  if (!entry_)
    throw Error(Code::kUnsupported, "general.architecture is '" + arch_ + "', supported are " + names(archs()),
                m_.path());
  blocks_ = static_cast<int>(integer("block_count", 1, kMost));
  if (blocks_ > 4096)
    throw Error(Code::kBadInput, full("block_count") + " is " + std::to_string(blocks_) + ", expected at most 4096",
                m_.path());
  // The last ones predict further tokens; the next one is computed without them.
  layers_ = blocks_ - static_cast<int>(integer_or("nextn_predict_layers", 0, blocks_ - 1, 0));
  dim_ = static_cast<int>(integer("embedding_length", 1, kMost));
  context_ = integer_or("context_length", 1, std::int64_t{1} << 40, 2048);
  tokens_ = tokens > 0 ? tokens : context_;
  const weights::TensorInfo* embd = file.find("token_embd.weight");
  if (!embd) throw Error(Code::kBadInput, "tensor token_embd.weight is missing", m_.path());
  vocab_ = embd->rows();
}

bool Hparams::has(std::string_view key) const { return m_.has(full(key)); }

std::int64_t Hparams::integer(std::string_view key, std::int64_t low, std::int64_t high) const {
  return m_.require_int(full(key), low, high);
}

std::int64_t Hparams::integer_or(std::string_view key, std::int64_t low, std::int64_t high,
                                 std::int64_t fallback) const {
  return m_.get_int(full(key), low, high).value_or(fallback);
}

double Hparams::number(std::string_view key) const { return m_.require_float(full(key)); }
double Hparams::number_or(std::string_view key, double fallback) const {
  return m_.get_float(full(key)).value_or(fallback);
}
bool Hparams::flag_or(std::string_view key, bool fallback) const { return m_.get_bool(full(key)).value_or(fallback); }
std::string Hparams::text_or(std::string_view key, std::string_view fallback) const {
  return m_.get_string(full(key)).value_or(std::string(fallback));
}

int Hparams::in_layer(std::string_view key, int layer, std::optional<int> fallback, int least) const {
  const std::string name = full(key);
  const weights::Value* value = m_.find(name);
  if (value == nullptr && fallback) return *fallback;
  const auto* list = value ? std::get_if<std::vector<std::int64_t>>(value) : nullptr;
  if (!list) return static_cast<int>(m_.require_int(name, least, kMost));
  if (list->size() != static_cast<std::size_t>(blocks_))
    throw Error(Code::kBadInput,
                name + " has " + std::to_string(list->size()) + " elements, expected one for each of " +
                    std::to_string(blocks_) + " layers",
                m_.path());
  const std::int64_t x = (*list)[static_cast<std::size_t>(layer)];
  if (x < least || x > kMost)
    throw Error(Code::kBadInput,
                name + "[" + std::to_string(layer) + "] is " + std::to_string(x) + ", expected " +
                    std::to_string(least) + ".." + std::to_string(kMost),
                m_.path());
  return static_cast<int>(x);
}

bool Hparams::flag_in_layer(std::string_view key, int layer) const {
  const std::string name = full(key);
  const weights::Value* value = m_.find(name);
  const auto* flags = value ? std::get_if<std::vector<bool>>(value) : nullptr;
  const auto* numbers = value ? std::get_if<std::vector<std::int64_t>>(value) : nullptr;
  const std::size_t size = flags ? flags->size() : numbers ? numbers->size() : 0;
  // Some arrays have none for the blocks that predict further tokens.
  const bool without = size == static_cast<std::size_t>(layers_) && layer < layers_;
  if (size != static_cast<std::size_t>(blocks_) && !without)
    throw Error(Code::kBadInput,
                name + " has " + std::to_string(size) + " elements, expected one for each of " +
                    std::to_string(blocks_) + " layers",
                m_.path());
  const auto at = static_cast<std::size_t>(layer);
  return flags ? (*flags)[at] : (*numbers)[at] != 0;
}

double Hparams::number_in_layer(const std::string& key, int layer) const {
  const weights::Value* value = m_.find(key);
  const auto* list = value ? std::get_if<std::vector<double>>(value) : nullptr;
  if (!list) return m_.require_float(key);
  if (list->size() != static_cast<std::size_t>(blocks_))
    throw Error(Code::kBadInput,
                key + " has " + std::to_string(list->size()) + " elements, expected one for each of " +
                    std::to_string(blocks_) + " layers",
                m_.path());
  return (*list)[static_cast<std::size_t>(layer)];
}

bool Hparams::attends(int layer) const {
  return in_layer("attention.head_count_kv", layer, 1, 0) > 0 && in_layer("attention.head_count", layer, 1, 0) > 0;
}

int Hparams::kv_heads(int layer) const {
  const int all = heads(layer), n = in_layer("attention.head_count_kv", layer, all);
  if (all % n != 0)
    throw Error(Code::kBadInput,
                full("attention.head_count") + " (" + std::to_string(all) + ") is not a multiple of head_count_kv (" +
                    std::to_string(n) + ")",
                m_.path());
  return n;
}

int Hparams::head_size(std::string_view key, int fallback) const {
  const auto d = static_cast<int>(integer_or(key, 1, kMost, fallback));
  if (d % 8 != 0 || d > 1024)
    throw Error(Code::kUnsupported, "head size " + std::to_string(d) + ": expected a multiple of 8, at most 1024",
                m_.path());
  return d;
}

int Hparams::head_dim(int layer) const {
  const int n = heads(layer);
  if (!has("attention.key_length") && dim_ % n != 0)
    throw Error(Code::kBadInput,
                full("embedding_length") + " (" + std::to_string(dim_) +
                    ") is not a multiple of attention.head_count (" + std::to_string(n) +
                    ") and there is no attention.key_length",
                m_.path());
  return head_size("attention.key_length", dim_ / n);
}

int Hparams::head_dim_v(int layer) const { return head_size("attention.value_length", head_dim(layer)); }

std::int64_t Hparams::window(int layer, int period, std::int64_t fallback, Period order) const {
  const std::int64_t window = integer_or("attention.sliding_window", 0, std::int64_t{1} << 40, fallback);
  constexpr const char* kPattern = "attention.sliding_window_pattern";
  const weights::Value* pattern = m_.find(full(kPattern));
  if (const auto* of_layers = pattern ? std::get_if<std::vector<bool>>(pattern) : nullptr) {
    if (of_layers->size() != static_cast<std::size_t>(blocks_))
      throw Error(Code::kBadInput,
                  full(kPattern) + " has " + std::to_string(of_layers->size()) +
                      " elements, expected one for each of " + std::to_string(blocks_) + " layers",
                  m_.path());
    return (*of_layers)[static_cast<std::size_t>(layer)] ? window : 0;
  }
  if (pattern) period = static_cast<int>(integer(kPattern, 0, 4096));
  const int place = order == Period::kFirstSeesAll ? layer : layer + 1;
  return period == 0 || place % period != 0 ? window : 0;
}

float Hparams::eps(std::string_view key, std::string_view other) const {
  if (!has(key) && has(other)) key = other;
  const double x = number(key);
  if (!(x >= 0.0 && x < 1.0))
    throw Error(Code::kBadInput, full(key) + " is " + std::to_string(x) + ", expected 0..1", m_.path());
  return static_cast<float>(x);
}

void Hparams::unsupported(std::string_view key, const std::string& text) const {
  throw Error(Code::kUnsupported, full(key) + " " + text, m_.path());
}

namespace {

// What any architecture may be besides: an encoder, and a model that ranks (cls.weight, cls.output.weight).
void read_pooling(const Hparams& h, ModelSpec& spec) {
  spec.causal = h.flag_or("attention.causal", spec.causal);
  spec.pooling = static_cast<Pooling>(h.integer_or("pooling_type", 0, 4, 0));
  const Names names(h);
  if (h.has_tensor("cls.weight") && h.has_tensor("cls.output.weight"))
    spec.rank.dense = names.linear("cls", h.dim(), h.dim(), Bias::kIfPresent);
  if (h.has_tensor("cls.output.weight"))
    spec.rank.output = names.linear("cls.output", h.rows_of("cls.output.weight"), h.dim(), Bias::kIfPresent);
  const bool tanh = h.flag_or("dense_tanh", false);  // folders alone say it
  for (int i = 2; h.has_tensor("dense_" + std::to_string(i) + ".weight"); ++i) {
    const std::string name = "dense_" + std::to_string(i);
    const std::int64_t rows = h.rows_of(name + ".weight");
    spec.projections.push_back({names.linear(name, rows, spec.vector_width(), Bias::kIfPresent), tanh});
  }
  if (spec.causal) return;
  spec.head.output = {};
  for (const LayerSpec& layer : spec.layers)
    if (!std::holds_alternative<Attention>(layer.mixer) || layer.beside)
      h.unsupported("attention.causal", "is false in a model whose layers are not all attention");
  for_each<Attention>(spec, [&](const Attention& a) {
    if (a.chunked || a.sinks || a.kv_of >= 0 || a.latent || a.v_of_k)
      h.unsupported("attention.causal", "is false in a model with chunks, sinks, shared keys or latent layers");
  });
}

}  // namespace

bool Hparams::scales_matrices(std::string_view name) const {
  const weights::TensorInfo* const t = file_.find(name);
  return t && factors_of(file_, *t) != nullptr;
}

ModelSpec read_spec(const weights::ModelFile& file, std::int64_t tokens) {
  const Hparams h(file, tokens);
  check_has_layers(file, h.layers());
  ModelSpec spec = h.entry().describe(h);
  read_pooling(h, spec);
  spec.orders = orders_at_once(spec, file);
  return spec;
}

}  // namespace kvasir::model
