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

int head_size(const Hparams& h, std::string_view key, int fallback, const std::string& path) {
  const auto d = static_cast<int>(h.integer_or(key, 1, kMostNumber, fallback));
  if (d % 8 != 0 || d > 1024)
    throw Error(Code::kUnsupported, "head size " + std::to_string(d) + ": expected a multiple of 8, at most 1024",
                path);
  return d;
}

// Files may have either; each is the other where it is missing.
float epsilon(const Hparams& h, std::string_view key, std::string_view other) {
  if (!h.has(key) && h.has(other)) key = other;
  const double x = h.number(key);
  if (!(x >= 0.0 && x < 1.0)) h.bad(key, "is " + std::to_string(x) + ", expected 0..1");
  return static_cast<float>(x);
}

constexpr std::string_view kRmsEps = "attention.layer_norm_rms_epsilon", kLayerEps = "attention.layer_norm_epsilon";

}  // namespace

Hparams::Hparams(const weights::ModelFile& file, std::int64_t tokens) : ArchMetadata(file.metadata()), file_(file) {
  check_is_model(metadata(), arch());
  entry_ = find(archs(), arch());
  if (!entry_)
    throw Error(Code::kUnsupported, "general.architecture is '" + arch() + "', supported are " + names(archs()),
                metadata().path());
  blocks_ = static_cast<int>(integer("block_count", 1, kMostNumber));
  if (blocks_ > 4096) bad("block_count", "is " + std::to_string(blocks_) + ", expected at most 4096");
  // The last ones predict further tokens; the next one is computed without them.
  // The assistants are nothing but such layers.
  layers_ = blocks_ -
            (entry_->drafts_for.empty() ? static_cast<int>(integer_or("nextn_predict_layers", 0, blocks_ - 1, 0)) : 0);
  dim_ = static_cast<int>(integer("embedding_length", 1, kMostNumber));
  context_ = integer_or("context_length", 1, std::int64_t{1} << 40, 2048);
  tokens_ = tokens > 0 ? tokens : context_;
  const weights::TensorInfo* embd = file.find("token_embd.weight");
  if (!embd) throw Error(Code::kBadInput, "tensor token_embd.weight is missing", metadata().path());
  vocab_ = embd->rows();
}

bool Hparams::attends(int layer) const {
  return in_layer("attention.head_count_kv", layer, 1, 0) > 0 && in_layer("attention.head_count", layer, 1, 0) > 0;
}

int Hparams::kv_heads(int layer) const {
  const int all = heads(layer), n = in_layer("attention.head_count_kv", layer, all);
  if (all % n != 0)
    bad("attention.head_count",
        "(" + std::to_string(all) + ") is not a multiple of head_count_kv (" + std::to_string(n) + ")");
  return n;
}

int Hparams::head_dim(int layer) const {
  const int n = heads(layer);
  if (!has("attention.key_length") && dim_ % n != 0)
    bad("embedding_length", "(" + std::to_string(dim_) + ") is not a multiple of attention.head_count (" +
                                std::to_string(n) + ") and there is no attention.key_length");
  return head_size(*this, "attention.key_length", dim_ / n, metadata().path());
}

int Hparams::head_dim_v(int layer) const {
  return head_size(*this, "attention.value_length", head_dim(layer), metadata().path());
}

std::int64_t Hparams::window(int layer, int period, std::int64_t fallback, Period order) const {
  const std::int64_t window = integer_or("attention.sliding_window", 0, std::int64_t{1} << 40, fallback);
  constexpr const char* kPattern = "attention.sliding_window_pattern";
  const weights::Value* pattern = metadata().find(full(kPattern));
  if (const auto* of_layers = pattern ? std::get_if<std::vector<bool>>(pattern) : nullptr) {
    check_count(full(kPattern), of_layers->size());
    return (*of_layers)[static_cast<std::size_t>(layer)] ? window : 0;
  }
  if (pattern) period = static_cast<int>(integer(kPattern, 0, 4096));
  const int place = order == Period::kFirstSeesAll ? layer : layer + 1;
  return period == 0 || place % period != 0 ? window : 0;
}

float Hparams::rms_eps() const { return epsilon(*this, kRmsEps, kLayerEps); }
float Hparams::layer_eps() const { return epsilon(*this, kLayerEps, kRmsEps); }

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
  if (!h.entry().drafts_for.empty())
    throw Error(Code::kUnsupported,
                "is a model that drafts for others (general.architecture '" + h.arch() +
                    "'); expected the model itself, for which --draft assistant:FILE takes this file",
                file.metadata().path());
  check_has_layers(file, h.layers());
  ModelSpec spec = h.entry().describe(h);
  read_pooling(h, spec);
  spec.orders = orders_at_once(spec, file);
  return spec;
}

}  // namespace kvasir::model
