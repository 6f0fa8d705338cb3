#include "model/unused.hpp"

#include <algorithm>
#include <charconv>
#include <set>
#include <string_view>

#include "model/factors.hpp"
#include "model/spec_fields.hpp"
#include "weights/quant.hpp"

namespace kvasir::model {
namespace {

// The number of the layer that a tensor called "blk.N.…" belongs to; -1 for any other.
int layer_of(std::string_view name) {
  if (!name.starts_with("blk.")) return -1;
  const char* end = name.data() + name.size();
  int layer = -1;
  const auto [at, error] = std::from_chars(name.data() + 4, end, layer);
  return error == std::errc() && at < end && *at == '.' ? layer : -1;
}

// Whether every value is `value`; what is large is no vector of constants.
bool all_are(const weights::TensorInfo& t, float value) {
  constexpr std::int64_t kMost = 1 << 20;
  const weights::Quant* quant = find(weights::quants(), t.quant);
  if (!quant || t.rows() > kMost || t.columns() > kMost / t.rows()) return false;
  std::vector<float> row(static_cast<std::size_t>(t.columns()));
  std::vector<std::byte> room;
  for (std::int64_t r = 0; r < t.rows(); ++r) {
    quant->dequantise(t.row(r, room), row.data(), t.columns());
    if (!std::all_of(row.begin(), row.end(), [&](float x) { return x == value; })) return false;
  }
  return true;
}

const char* reason_of(const weights::TensorInfo& t, int layers, int predicting) {
  const std::string_view name = t.name;
  const int layer = layer_of(name);
  if (name.find(".nextn.") != name.npos || (layer >= layers && layer < layers + predicting))
    return "for predicting further tokens";
  for (const char* prefix : {"v.", "a.", "mm.", "resampler."})
    if (name.starts_with(prefix)) return "for images or sound";
  for (const char* prefix : {"cls.", "dense_2.", "dense_3.", "pooler."})
    if (name.starts_with(prefix)) return "for classes or embeddings of texts";
  if (name.ends_with(".attn_rot_embd.weight")) return "frequencies of positions, which are computed";
  if (name.ends_with(".input_scale")) return "what activations of 4 bits would be rounded with";
  if (name.ends_with(".bias") && all_are(t, 0.0f)) return "all zeros, which add nothing";
  if (name.starts_with("rope_freqs.") && all_are(t, 1.0f)) return "all ones, which divide nothing";
  return nullptr;
}

}  // namespace

std::vector<UnusedTensor> unused_tensors(const ModelSpec& spec, const weights::ModelFile& file) {
  std::set<std::string_view> known;
  const auto specified = tensors_of(spec);
  for (const auto& t : specified) {
    known.insert(t.name);
    const weights::TensorInfo* matrix = t.use == TensorSpec::Use::kMatrix ? file.find(t.name) : nullptr;
    if (const weights::TensorInfo* factors = matrix ? factors_of(file, *matrix) : nullptr) known.insert(factors->name);
  }
  const weights::Metadata& m = file.metadata();
  const std::string key = m.get_string("general.architecture").value_or("") + ".nextn_predict_layers";
  const auto predicting = static_cast<int>(m.get_int(key, 0, 4096).value_or(0));
  std::vector<UnusedTensor> unused;
  for (const weights::TensorInfo& t : file.tensors())
    if (!known.contains(t.name)) unused.push_back({&t, reason_of(t, spec.layer_count(), predicting)});
  return unused;
}

}  // namespace kvasir::model
