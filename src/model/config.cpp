#include "model/config.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "weights/quant.hpp"

namespace kvasir::model {
namespace {

constexpr std::int64_t kMost = 1 << 24;  // no width, head count or layer count of a real model comes near it

// head_count and feed_forward_length may be arrays with one value per layer; only uniform ones are supported.
std::int64_t uniform_int(const weights::Metadata& m, const std::string& key, std::int64_t fallback) {
  const weights::Value* value = m.find(key);
  if (value == nullptr) {
    if (fallback > 0) return fallback;
    return m.require_int(key, 1, kMost);  // throws: absent
  }
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(value)) {
    if (list->empty() || std::any_of(list->begin(), list->end(), [&](std::int64_t v) { return v != list->front(); }))
      throw Error(Code::kUnsupported, key + " differs between layers, which is not supported for this architecture",
                  m.path());
    if (list->front() < 1 || list->front() > kMost)
      throw Error(Code::kBadInput,
                  key + " is " + std::to_string(list->front()) + ", expected 1.." + std::to_string(kMost), m.path());
    return list->front();
  }
  return m.require_int(key, 1, kMost);
}

// YaRN (arXiv:2309.00071): low frequencies are interpolated by `factor`, high ones kept, with a ramp between the pairs
// whose wavelength fits beta_slow and beta_fast times into the original context.
void scale_yarn(Config& c, double base, double factor, double original, double beta_fast, double beta_slow) {
  const double n = c.rope_dims;
  const auto pair_with = [&](double turns) {
    return n * std::log(original / (turns * 2 * M_PI)) / (2 * std::log(base));
  };
  const double low = std::max(0.0, std::floor(pair_with(beta_fast)));
  const double high = std::min(n - 1, std::ceil(pair_with(beta_slow)));
  for (std::size_t i = 0; i < c.rope_frequency.size(); ++i) {
    const double ramp = (static_cast<double>(i) - low) / std::max(0.001, high - low);
    const double keep = 1.0 - std::clamp(ramp, 0.0, 1.0);
    c.rope_frequency[i] *= keep + (1.0 - keep) / factor;
  }
  c.rope_magnitude = static_cast<float>(1.0 + 0.1 * std::log(factor));
}

void read_rope(Config& c, const weights::ModelFile& file) {
  const weights::Metadata& m = file.metadata();
  const std::string a = c.arch_name + ".rope.";
  const double base = m.get_float(a + "freq_base").value_or(10000.0);
  if (!(base > 1.0))
    throw Error(Code::kBadInput, a + "freq_base is " + std::to_string(base) + ", expected more than 1", m.path());
  const std::size_t pairs = static_cast<std::size_t>(c.rope_dims / 2);
  for (std::size_t i = 0; i < pairs; ++i)
    c.rope_frequency.push_back(std::pow(base, -2.0 * static_cast<double>(i) / c.rope_dims));

  const std::string type = m.get_string(a + "scaling.type").value_or("none");
  double factor = m.get_float(a + "scaling.factor").value_or(0.0);
  const bool old_linear = factor == 0.0 && m.has(a + "scale_linear");  // files from before scaling.type
  if (old_linear) factor = m.get_float(a + "scale_linear").value_or(1.0);
  if (factor == 0.0) factor = 1.0;
  if (!(factor > 0.0))
    throw Error(Code::kBadInput, a + "scaling.factor is " + std::to_string(factor) + ", expected more than 0",
                m.path());
  if (type == "linear" || (type == "none" && old_linear)) {
    for (double& f : c.rope_frequency) f /= factor;
  } else if (type == "yarn") {
    const double original =
        static_cast<double>(m.get_int(a + "scaling.original_context_length", 1, kMost * 64).value_or(c.context));
    scale_yarn(c, base, factor, original, m.get_float(a + "scaling.yarn_beta_fast").value_or(32.0),
               m.get_float(a + "scaling.yarn_beta_slow").value_or(1.0));
    c.rope_magnitude *= static_cast<float>(m.get_float(a + "scaling.attn_factor").value_or(1.0));
  } else if (type != "none") {
    throw Error(Code::kUnsupported, a + "scaling.type is '" + type + "', expected none, linear or yarn", m.path());
  }

  // Llama 3.x: one divisor per frequency.
  if (const weights::TensorInfo* t = file.find("rope_freqs.weight")) {
    const weights::Quant* quant = find(weights::quants(), t->quant);
    if (t->rows() != 1 || t->columns() != c.rope_dims / 2 || t->columns() % quant->block != 0)
      throw Error(Code::kBadInput,
                  "rope_freqs.weight is " + std::to_string(t->rows()) + "x" + std::to_string(t->columns()) +
                      ", expected " + std::to_string(c.rope_dims / 2),
                  m.path());
    std::vector<float> divisors(pairs);
    quant->dequantise(t->bytes.data(), divisors.data(), t->columns());
    for (std::size_t i = 0; i < pairs; ++i) {
      if (!(divisors[i] > 0.0f))
        throw Error(Code::kBadInput, "rope_freqs.weight[" + std::to_string(i) + "] is not a positive number", m.path());
      c.rope_frequency[i] /= static_cast<double>(divisors[i]);
    }
  }
}

}  // namespace

std::int64_t Config::size(Dim name) const {
  switch (name) {
    case Dim::kOne:
      return 1;
    case Dim::kModel:
      return dim;
    case Dim::kVocab:
      return vocab;
    case Dim::kQuery:
      return static_cast<std::int64_t>(heads) * head_dim;
    case Dim::kKey:
      return static_cast<std::int64_t>(kv_heads) * head_dim;
    case Dim::kValue:
      return static_cast<std::int64_t>(kv_heads) * head_dim_v;
    case Dim::kOut:
      return static_cast<std::int64_t>(heads) * head_dim_v;
    case Dim::kHead:
      return head_dim;
    case Dim::kFfn:
      return ffn;
    case Dim::kPairs:
      return rope_dims / 2;
  }
  return 0;
}

Config read_config(const weights::ModelFile& file) {
  const weights::Metadata& m = file.metadata();
  Config c;
  c.arch_name = m.require_string("general.architecture");
  c.arch = find(archs(), c.arch_name);
  if (!c.arch)
    throw Error(Code::kUnsupported, "general.architecture is '" + c.arch_name + "', supported are " + names(archs()),
                m.path());
  const std::string a = c.arch_name + ".";
  const auto whole = [&](const std::string& key) { return static_cast<int>(m.require_int(a + key, 1, kMost)); };
  c.layers = whole("block_count");
  if (c.layers > 4096)
    throw Error(Code::kBadInput, a + "block_count is " + std::to_string(c.layers) + ", expected at most 4096",
                m.path());
  c.dim = whole("embedding_length");
  c.ffn = static_cast<int>(uniform_int(m, a + "feed_forward_length", 0));
  c.heads = static_cast<int>(uniform_int(m, a + "attention.head_count", 0));
  c.kv_heads = static_cast<int>(uniform_int(m, a + "attention.head_count_kv", c.heads));
  c.context = m.get_int(a + "context_length", 1, std::int64_t{1} << 40).value_or(2048);
  if (c.heads % c.kv_heads != 0)
    throw Error(Code::kBadInput,
                a + "attention.head_count (" + std::to_string(c.heads) + ") is not a multiple of head_count_kv (" +
                    std::to_string(c.kv_heads) + ")",
                m.path());
  if (!m.has(a + "attention.key_length") && c.dim % c.heads != 0)
    throw Error(Code::kBadInput,
                a + "embedding_length (" + std::to_string(c.dim) + ") is not a multiple of attention.head_count (" +
                    std::to_string(c.heads) + ") and there is no attention.key_length",
                m.path());
  c.head_dim = static_cast<int>(m.get_int(a + "attention.key_length", 1, kMost).value_or(c.dim / c.heads));
  c.head_dim_v = static_cast<int>(m.get_int(a + "attention.value_length", 1, kMost).value_or(c.head_dim));
  for (int d : {c.head_dim, c.head_dim_v})
    if (d % 8 != 0 || d > 1024)
      throw Error(Code::kUnsupported, "head size " + std::to_string(d) + ": expected a multiple of 8, at most 1024",
                  m.path());
  c.rope_dims = static_cast<int>(m.get_int(a + "rope.dimension_count", 0, kMost).value_or(c.head_dim));
  if (c.rope_dims % 2 != 0 || c.rope_dims > c.head_dim)
    throw Error(Code::kBadInput,
                a + "rope.dimension_count is " + std::to_string(c.rope_dims) + ", expected an even number of at most " +
                    std::to_string(c.head_dim),
                m.path());
  const double eps = m.require_float(a + "attention.layer_norm_rms_epsilon");
  if (!(eps >= 0.0 && eps < 1.0))
    throw Error(Code::kBadInput, a + "attention.layer_norm_rms_epsilon is " + std::to_string(eps) + ", expected 0..1",
                m.path());
  c.norm_eps = static_cast<float>(eps);
  const weights::TensorInfo* embd = file.find("token_embd.weight");
  if (!embd) throw Error(Code::kBadInput, "tensor token_embd.weight is missing", m.path());
  c.vocab = embd->rows();
  read_rope(c, file);
  return c;
}

}  // namespace kvasir::model
