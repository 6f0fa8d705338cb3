#include "model/synth.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>
#include <variant>

#include "base/check.hpp"
#include "base/error.hpp"
#include "base/registry.hpp"
#include "model/hparams.hpp"
#include "model/mtp_head.hpp"
#include "model/spec_fields.hpp"
#include "weights/gguf_writer.hpp"
#include "weights/quant.hpp"

namespace kvasir::model {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{16} << 20;                 // of a tensor, made and written at a time
constexpr float kOriginalContext = 8192, kLowFactor = 1, kHighFactor = 4;  // of Llama 3's frequency scaling

struct Tensor {
  std::string name;
  std::string quant;
  std::vector<std::int64_t> shape;
  TensorSpec::Use use;
};

const weights::Quant& quant_entry(std::string_view name) {
  const auto all = weights::quants();
  const weights::Quant* q = find(all, name);
  if (!q) throw Error(Code::kBadInput, fmt::format("unknown weight type '{}'; expected one of {}", name, names(all)));
  return *q;
}

// SplitMix64's output function: any counter gives 64 well mixed bits (Steele, Lea, Flood 2014).
std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15u;

// n values of mean 0 and the given deviation: the sum of four uniform 16-bit numbers, near enough to a normal one.
void random_row(std::uint64_t key, float deviation, float* out, std::int64_t n) {
  const float scale = deviation / 37837.2f;  // sqrt(4 (2^32 - 1) / 12)
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint64_t r = mix(key + static_cast<std::uint64_t>(i) * kStep);
    const auto sum = static_cast<std::int32_t>((r & 0xffff) + ((r >> 16) & 0xffff) + ((r >> 32) & 0xffff) + (r >> 48));
    out[i] = static_cast<float>(sum - 131070) * scale;
  }
}

// Divisors of the rotary frequencies, as llama.cpp's converter writes them for Llama 3.1 and later.
std::vector<float> rope_factors(const SynthShape& s) {
  std::vector<float> out(static_cast<std::size_t>(s.head_dim / 2));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double wavelength = 2 * std::numbers::pi * std::pow(s.rope_base, 2.0 * static_cast<double>(i) / s.head_dim);
    const double smooth = (kOriginalContext / wavelength - kLowFactor) / (kHighFactor - kLowFactor);
    if (wavelength < kOriginalContext / kHighFactor) {
      out[i] = 1;
    } else if (wavelength > kOriginalContext / kLowFactor) {
      out[i] = s.rope_factor;
    } else {
      out[i] = static_cast<float>(1 / ((1 - smooth) / s.rope_factor + smooth));
    }
  }
  return out;
}

// Numbers of the hyper-parameters, under "ARCH.".
struct Number {
  const char* key;
  std::variant<std::uint32_t, float, std::string_view, std::vector<std::int32_t>> value;
};

std::vector<Number> numbers_of(const SynthShape& s) {
  const auto count = [](int n) { return static_cast<std::uint32_t>(n); };
  std::vector<Number> all = {{"block_count", count(s.layers + s.nextn)},
                             {"context_length", count(s.context)},
                             {"embedding_length", count(s.dim)},
                             {"feed_forward_length", count(s.ffn)},
                             {"vocab_size", count(s.vocab)},
                             {"attention.head_count", count(s.heads)},
                             {"attention.head_count_kv", count(s.kv_heads)},
                             {"attention.key_length", count(s.latent > 0 ? s.latent + s.rotated : s.head_dim)},
                             {"attention.value_length", count(s.latent > 0 ? s.latent : s.head_dim)},
                             {"rope.dimension_count", count(s.rotated > 0 ? s.rotated : s.head_dim)},
                             {"attention.layer_norm_rms_epsilon", s.norm_epsilon},
                             {"rope.freq_base", s.rope_base}};
  if (s.shared_layers > 0) {
    all.push_back({"attention.shared_kv_layers", count(s.shared_layers)});
    all.push_back({"attention.sliding_window_pattern", 2u});
    all.push_back({"attention.key_length_swa", count(s.head_dim)});
    all.push_back({"attention.value_length_swa", count(s.head_dim)});
    all.push_back({"rope.dimension_count_swa", count(s.head_dim)});
  }
  if (s.nextn > 0) all.push_back({"nextn_predict_layers", count(s.nextn)});
  if (s.loops > 0) all.push_back({"num_loops", count(s.loops)});
  if (s.window > 0) all.push_back({"attention.sliding_window", count(s.window)});
  if (s.experts > 0) {
    all.push_back({"expert_count", count(s.experts)});
    all.push_back({"expert_used_count", count(s.experts_used)});
    all.push_back({"expert_feed_forward_length", count(s.expert_ffn)});
  }
  if (s.experts_shared > 0) all.push_back({"expert_shared_count", count(s.experts_shared)});
  if (s.dense_layers > 0) all.push_back({"leading_dense_block_count", count(s.dense_layers)});
  if (s.latent > 0) {
    all.push_back({"attention.kv_lora_rank", count(s.latent)});
    all.push_back({"attention.key_length_mla", count(s.head_dim)});
    all.push_back({"attention.value_length_mla", count(s.latent_values)});
  }
  if (s.delta_heads > 0) {
    all.push_back({"ssm.conv_kernel", 4u});
    all.push_back({"ssm.state_size", count(s.delta_dim)});
    all.push_back({"ssm.group_count", count(s.delta_key_heads)});
    all.push_back({"ssm.time_step_rank", count(s.delta_heads)});
    all.push_back({"ssm.inner_size", count(s.delta_heads * s.delta_dim)});
    all.push_back({"full_attention_interval", count(s.attention_interval)});
    const int pairs = s.rotated / 2, third = pairs / 3;  // of images: no token of a text sees them
    all.push_back({"rope.dimension_sections", std::vector<std::int32_t>{pairs - 2 * third, third, third, 0}});
  }
  if (s.yarn > 0) {
    all.push_back({"rope.scaling.type", "yarn"});
    all.push_back({"rope.scaling.factor", s.yarn});
    all.push_back({"rope.scaling.original_context_length", count(s.original_context)});
  } else if (s.original_context > 0) {
    const double longer = static_cast<double>(s.context) / s.original_context;
    all.push_back({"rope.scaling.original_context_length", count(s.original_context)});
    all.push_back({"rope.scaling.attn_factor",
                   static_cast<float>(std::sqrt(1 + std::log(longer) / std::log(s.original_context)))});
  }
  return all;
}

// A file before it is written: the hyper-parameters, and of its tensors those that a specification depends on.
class Outline : public weights::ModelFile {
 public:
  explicit Outline(const SynthShape& s)
      : factors_(rope_factors(s)), ones_(static_cast<std::size_t>(s.rotated / 2), 1.0f) {
    metadata_.set("general.architecture", std::string(s.arch));
    for (const Number& n : numbers_of(s)) {
      const std::string key = fmt::format("{}.{}", s.arch, n.key);
      if (const auto* count = std::get_if<std::uint32_t>(&n.value))
        metadata_.set(key, std::int64_t{*count});
      else if (const auto* number = std::get_if<float>(&n.value))
        metadata_.set(key, static_cast<double>(*number));
      else if (const auto* list = std::get_if<std::vector<std::int32_t>>(&n.value))
        metadata_.set(key, std::vector<std::int64_t>(list->begin(), list->end()));
      else
        metadata_.set(key, std::string(std::get<std::string_view>(n.value)));
    }
    add("token_embd.weight", s.dim, s.vocab);
    if (!s.tied) add("output.weight", s.dim, s.vocab);
    if (s.rope_factor > 0) {
      add("rope_freqs.weight", s.head_dim / 2, 1);
      tensors_.back().bytes = std::as_bytes(std::span(factors_));
    }
    for (int l = 0; l < s.layers + s.nextn && s.latent > 0; ++l) add(fmt::format("blk.{}.attn_k_b.weight", l), 0, 0);
    for (int l = s.layers; l < s.layers + s.nextn; ++l)
      for (const char* name : {"eh_proj", "shared_head_norm"})
        add(fmt::format("blk.{}.nextn.{}.weight", l, name), 0, 0);
    for (const char* name : {"rope_factors_long.weight", "rope_factors_short.weight"}) {
      if (s.original_context == 0 || s.yarn > 0) continue;
      add(name, s.rotated / 2, 1);
      tensors_.back().bytes = std::as_bytes(std::span(ones_));
    }
  }
  const weights::Metadata& metadata() const override { return metadata_; }
  std::span<const weights::TensorInfo> tensors() const override { return tensors_; }
  const weights::TensorInfo* find(std::string_view name) const override {
    for (const weights::TensorInfo& t : tensors_)
      if (t.name == name) return &t;
    return nullptr;
  }
  void drop(std::span<const std::byte>) const override {}

 private:
  void add(const std::string& name, std::int64_t columns, std::int64_t rows) {
    tensors_.push_back({.name = name, .quant = "f32", .shape = {columns, rows, 1, 1}, .rank = 2});
  }

  weights::Metadata metadata_{"synthetic model"};
  std::vector<weights::TensorInfo> tensors_;
  std::vector<float> factors_, ones_;
};

// What the architecture reads, in the order of its specification.
std::vector<Tensor> tensors_of(const SynthShape& s, std::string_view quant) {
  std::vector<Tensor> all;
  const auto add = [&](const ModelSpec& spec) {
    for (const TensorSpec& t : model::tensors_of(spec)) {
      if (std::any_of(all.begin(), all.end(), [&](const Tensor& known) { return known.name == t.name; })) continue;
      const bool floats = t.use == TensorSpec::Use::kVector || t.in_floats;
      all.push_back({t.name, floats ? "f32" : synth_quant(quant, t.columns), t.shape(), t.use});
    }
  };
  const Outline outline(s);
  add(read_spec(outline));
  if (s.nextn > 0) add(read_mtp_head(outline));
  return all;
}

void set_vocabulary(weights::GgufHeader& h, const SynthShape& s) {
  constexpr std::int32_t kNormal = 1, kControl = 3;
  std::vector<std::int32_t> types(static_cast<std::size_t>(s.vocab), kNormal);
  for (const SpecialToken& t : s.tokens.special) types.at(static_cast<std::size_t>(t.id)) = kControl;
  h.set_string("tokenizer.ggml.model", "gpt2");
  h.set_string("tokenizer.ggml.pre", s.pretokenizer);
  h.set_strings("tokenizer.ggml.tokens", synth_tokens(s));
  h.set_array<std::int32_t>("tokenizer.ggml.token_type", types);
  h.set_strings("tokenizer.ggml.merges", synth_merges());
  h.set("tokenizer.ggml.bos_token_id", static_cast<std::uint32_t>(s.tokens.bos));
  h.set("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(s.tokens.eos));
  h.set("tokenizer.ggml.add_bos_token", s.tokens.add_bos);
}

void set_metadata(weights::GgufHeader& h, const SynthShape& s, std::string_view quant, std::uint64_t seed) {
  h.set_string("general.architecture", s.arch);
  h.set_string("general.type", "model");
  h.set_string("general.name", fmt::format("synthetic {} (random weights, seed {})", s.name, seed));
  if (const auto type = weights::gguf_file_type(quant)) h.set("general.file_type", *type);
  h.set("general.quantization_version", std::uint32_t{2});
  for (const Number& n : numbers_of(s)) {
    const std::string key = fmt::format("{}.{}", s.arch, n.key);
    if (const auto* text = std::get_if<std::string_view>(&n.value))
      h.set_string(key, *text);
    else if (const auto* number = std::get_if<float>(&n.value))
      h.set(key, *number);
    else if (const auto* list = std::get_if<std::vector<std::int32_t>>(&n.value))
      h.set_array<std::int32_t>(key, *list);
    else
      h.set(key, std::get<std::uint32_t>(n.value));
  }
  set_vocabulary(h, s);
}

class Generator {
 public:
  Generator(const SynthShape& shape, std::uint64_t seed, Team& team) : shape_(shape), seed_(seed), team_(team) {}

  // Makes the tensor a piece at a time; `written` is called after each with its bytes.
  void write(const Tensor& t, std::uint64_t index, std::uint64_t bytes, weights::GgufWriter& out,
             FunctionRef<void(std::uint64_t)> written) {
    const weights::Quant& quant = quant_entry(t.quant);
    const std::int64_t columns = t.shape[0];
    const std::int64_t rows = std::accumulate(t.shape.begin() + 1, t.shape.end(), std::int64_t{1}, std::multiplies<>());
    const auto row_bytes = static_cast<std::size_t>(columns / quant.block * quant.block_bytes);
    KVASIR_CHECK(row_bytes * static_cast<std::size_t>(rows) == bytes);
    const auto most = std::max<std::int64_t>(1, static_cast<std::int64_t>(kPieceBytes / row_bytes));
    piece_.resize(row_bytes * static_cast<std::size_t>(std::min(most, rows)));
    floats_.resize(static_cast<std::size_t>(columns * team_.size()));
    for (std::int64_t first = 0; first < rows; first += most) {
      const std::int64_t n = std::min(most, rows - first);
      team_.parallel_for(n, 16, [&](std::int64_t begin, std::int64_t end, int worker) {
        float* row = floats_.data() + worker * columns;
        for (std::int64_t r = begin; r < end; ++r) {
          fill(t, mix(mix(seed_ + kStep * index) + static_cast<std::uint64_t>(first + r)), first + r, row, columns);
          quant.quantise(row, piece_.data() + static_cast<std::size_t>(r) * row_bytes, columns);
        }
      });
      const auto made = std::span(piece_).first(static_cast<std::size_t>(n) * row_bytes);
      out.write(made);
      written(made.size());
    }
  }

 private:
  // Row `at` of the tensor.
  void fill(const Tensor& t, std::uint64_t key, std::int64_t at, float* row, std::int64_t n) const {
    if (shape_.drafts_right && t.name.ends_with("nextn.eh_proj.weight")) {
      std::fill(row, row + n, 0.f);
      row[at] = 1.f;
    } else if (shape_.drafts_right && t.name == "token_embd.weight") {  // which a norm leaves as they are
      random_row(key, 1.f, row, n);
      for (std::int64_t i = 0; i < n; ++i) row[i] = row[i] < 0.f ? -1.f : 1.f;
    } else if (t.name == "rope_freqs.weight") {
      const std::vector<float> factors = rope_factors(shape_);
      std::copy(factors.begin(), factors.end(), row);
    } else if (t.name.ends_with("ssm_a")) {  // heads that remember for a few tokens, and for hundreds
      for (std::int64_t i = 0; i < n; ++i) row[i] = -0.5f / static_cast<float>(1 + i * i % 97);
    } else if (t.name.ends_with("conv1d.weight")) {
      random_row(key, 0.5f, row, n);
    } else if (t.use == TensorSpec::Use::kVector) {
      std::fill(row, row + n, t.name.ends_with(".bias") ? 0.f : 1.f);
    } else {
      random_row(key, 1.f / std::sqrt(static_cast<float>(n)), row, n);
    }
  }

  const SynthShape& shape_;
  std::uint64_t seed_;
  Team& team_;
  std::vector<std::byte> piece_;
  std::vector<float> floats_;  // (threads, columns)
};

}  // namespace

// Tensors of one number have the same random weights.
static std::size_t seed_index(const SynthShape& shape, std::span<const Tensor> tensors, std::size_t i) {
  const std::string block = fmt::format("blk.{}.", shape.layers), last = fmt::format("blk.{}.", shape.layers - 1);
  if (!shape.drafts_right || !tensors[i].name.starts_with(block)) return i;
  const std::string twin = last + tensors[i].name.substr(block.size());
  const auto at = std::find_if(tensors.begin(), tensors.end(), [&](const Tensor& t) { return t.name == twin; });
  return at == tensors.end() ? i : static_cast<std::size_t>(at - tensors.begin());
}

std::string synth_quant(std::string_view quant, std::int64_t columns) {
  for (;;) {
    const weights::Quant& entry = quant_entry(quant);
    if (columns % entry.block == 0) return std::string(quant);
    quant = entry.fallback;
  }
}

std::uint64_t synth_parameters(const SynthShape& shape) {
  std::uint64_t sum = 0;
  for (const Tensor& t : tensors_of(shape, "f32")) {
    std::uint64_t elements = 1;
    for (const std::int64_t n : t.shape) elements *= static_cast<std::uint64_t>(n);
    sum += elements;
  }
  return sum;
}

SynthResult write_synthetic_model(const std::string& path, const SynthShape& shape, std::string_view quant,
                                  std::uint64_t seed, Team& team,
                                  FunctionRef<void(std::uint64_t, std::uint64_t)> progress) {
  const std::vector<Tensor> tensors = tensors_of(shape, quant);
  weights::GgufHeader header;
  set_metadata(header, shape, quant, seed);
  SynthResult result;
  std::uint64_t total = 0, done = 0;
  for (const Tensor& t : tensors) total += header.add_tensor(t.name, t.quant, t.shape);
  result.parameters = synth_parameters(shape);
  weights::GgufWriter out(path, header);
  Generator generator(shape, seed, team);
  for (std::size_t i = 0; i < tensors.size(); ++i)
    generator.write(tensors[i], seed_index(shape, tensors, i), header.sizes()[i], out, [&](std::uint64_t bytes) {
      done += bytes;
      progress(done, total);
    });
  out.finish();
  result.bytes = out.bytes_written();
  return result;
}

}  // namespace kvasir::model
