#include "model/spec.hpp"

#include <fmt/format.h>

#include <map>

#include "base/check.hpp"
#include "model/spec_fields.hpp"

namespace kvasir::model {
namespace {

using Use = TensorSpec::Use;

// In the order of the specification. A tensor that is met again is the same one.
class Tensors {
 public:
  explicit Tensors(const ModelSpec& spec) { enter(spec); }
  std::vector<TensorSpec> take() { return std::move(all_); }

 private:
  template <class S>
  void enter(const S& part) {
    if constexpr (kIsVector<S>) {
      for (const auto& x : part) enter(x);
    } else if constexpr (kIsVariant<S>) {
      std::visit([&](const auto& x) { enter(x); }, part);
    } else if constexpr (std::is_class_v<S> && !std::is_same_v<S, std::string>) {
      if constexpr (std::is_same_v<S, Table>) add(part.name, part.rows, part.columns, Use::kTable);
      if constexpr (std::is_same_v<S, Linear>)
        add(part.name, part.cut.of > 0 ? part.cut.of : part.rows, part.columns, Use::kMatrix, 1, part.in_floats);
      if constexpr (std::is_same_v<S, Stack>) {
        const std::int64_t rows = part.transposed ? part.columns : part.rows;
        add(part.name, part.count * (part.cut.of > 0 ? part.cut.of : rows), part.transposed ? part.rows : part.columns,
            Use::kMatrix, part.flat ? 1 : part.count);
      }
      if constexpr (std::is_same_v<S, Vector>)
        add(part.name, part.rows, part.cut.of > 0 ? part.cut.of : part.columns, Use::kVector);
      each_field(part, [&](Unnamed, const auto& member) { enter(member); });
    }
  }

  void add(const std::string& name, std::int64_t rows, std::int64_t columns, Use use, std::int64_t count = 1,
           bool in_floats = false) {
    if (name.empty()) return;
    const auto [at, added] = index_.emplace(name, all_.size());
    if (added) return all_.push_back({name, rows, columns, use, count, in_floats});
    TensorSpec& t = all_[at->second];
    KVASIR_CHECK(t.rows == rows && t.columns == columns && t.count == count);
    if (use == Use::kMatrix) t.use = use;
  }

  std::vector<TensorSpec> all_;
  std::map<std::string, std::size_t> index_;
};

class Text {
 public:
  template <class S>
  void add(const std::string& name, const S& part) {
    if constexpr (kIsVector<S>) {
      line(name, fmt::format("{} of them", part.size()));
      for (std::size_t i = 0; i < part.size(); ++i) add(fmt::format("{}.{}", name, i), part[i]);
    } else if constexpr (kIsVariant<S>) {
      line(name, fmt::format("kind {}", part.index()));
      std::visit([&](const auto& x) { add(name, x); }, part);
    } else if constexpr (std::is_same_v<S, std::string>) {
      line(name, part);
    } else if constexpr (std::is_class_v<S>) {
      each_field(part, [&](const char* member, const auto& x) { add(name.empty() ? member : name + "." + member, x); });
    } else if constexpr (std::is_enum_v<S>) {
      line(name, std::to_string(static_cast<int>(part)));
    } else if constexpr (std::is_same_v<S, double>) {
      line(name, fmt::format("{:.17g}", part));
    } else if constexpr (std::is_same_v<S, float>) {
      line(name, fmt::format("{:.9g}", part));
    } else {
      line(name, fmt::format("{}", part));
    }
  }
  std::string take() { return std::move(text_); }

 private:
  void line(const std::string& name, std::string_view value) {
    text_.append(name).append(" ").append(value).append("\n");
  }
  std::string text_;
};

}  // namespace

void Table::row(std::int64_t i, float* out) const {
  if (bound.packed) return bound.packed->unpack_row(i, out);
  if (!bound.source) return bound.dequantise(bound.bytes + i * bound.row_bytes, out, columns);
  alignas(64) std::byte made[kMostMade];
  bound.source->read({&i, 1}, made);
  bound.dequantise(made, out, columns);
}

std::vector<TensorSpec> tensors_of(const ModelSpec& spec) { return Tensors(spec).take(); }

std::string to_text(const ModelSpec& spec) {
  Text text;
  text.add("", spec);
  return text.take();
}

namespace {

const char* name_of(NormKind kind) {
  return kind == NormKind::kNone   ? "no norm"
         : kind == NormKind::kRms  ? "RMS norm"
         : kind == NormKind::kClip ? "length clip"
                                   : "layer norm";
}

const char* name_of(Activation activation) {
  constexpr const char* kNames[] = {"SiLU",         "GELU (tanh)", "GELU (erf)", "squared ReLU", "sigmoid",
                                    "clamped SiLU", "ReLU",        "softplus",   "xIELU",        "capped SiLU"};
  return kNames[static_cast<int>(activation)];
}

std::string summary_of(const Attention& a, const ModelSpec& spec) {
  std::string text = a.latent ? fmt::format("latent attention of {} heads, {} wide, over rows of {} + {}", a.heads,
                                            a.latent.nope + a.latent.rope, a.latent.rank, a.latent.rope)
                              : fmt::format("attention of {} heads over {}, {} wide", a.heads, a.kv_heads, a.d);
  if (const int values = a.latent ? a.latent.values : a.dv; a.latent || values != a.d)
    text += fmt::format(" (values {})", values);
  if (a.q_norm)
    text += fmt::format(", {} of queries and keys{}", name_of(a.q_norm.kind), a.norm_after_rope ? " after RoPE" : "");
  if (a.rope < 0)
    text += a.distances        ? ", learned biases by distance"
            : a.slopes.empty() ? ", no RoPE"
                               : ", linear biases by distance (ALiBi)";
  else if (const auto dims = 2 * spec.ropes[static_cast<std::size_t>(a.rope)].frequencies.size();
           dims != static_cast<std::size_t>(a.d) && !a.latent)
    text += fmt::format(", RoPE on {}", dims);
  if (a.window > 0) text += fmt::format(", {} {}", a.chunked ? "chunks of" : "window", a.window);
  if (a.soft_cap > 0) text += fmt::format(", scores capped at {:g}", a.soft_cap);
  if (a.temperature) text += fmt::format(", temperature from {} tokens on", a.temperature.length);
  if (a.sinks) text += ", a sink per head";
  if (a.row_sinks) text += ", a sink per head and token";
  if (a.k_smoothing)
    text += fmt::format(", keys and values through convolutions over {} tokens", a.k_smoothing.convolution.taps);
  if (a.gate) text += fmt::format(", {} gate", name_of(a.gate_activation));
  if (a.indexer)
    text += fmt::format(", on {} tokens that an index of {} heads, {} wide, chooses{}", a.indexer.top, a.indexer.heads,
                        a.indexer.d, a.indexer.block > 1 ? fmt::format(" by {}", a.indexer.block) : "");
  else if (a.chosen_by >= 0)
    text += fmt::format(", on the tokens that layer {} chose", a.chosen_by);
  if (a.kv_of >= 0) text += fmt::format(", keys and values of layer {}", a.kv_of);
  return text;
}

std::string summary_of(const ShortConv& c, const ModelSpec&) {
  return fmt::format("convolution of {} channels over {} tokens", c.convolution.channels, c.convolution.taps);
}

std::string summary_of(const Delta& d, const ModelSpec&) {
  return fmt::format("gated DeltaNet of {} heads over {}, state {} x {}, convolution over {} tokens", d.value_heads,
                     d.key_heads, d.d, d.dv, d.convolution.taps);
}

std::string summary_of(const KeyedDelta& d, const ModelSpec&) {
  return fmt::format("Kimi Delta Attention of {} heads, state {} x {}, convolution over {} tokens", d.heads, d.d, d.dv,
                     d.q_convolution.taps);
}

std::string summary_of(const Mamba& m, const ModelSpec&) {
  return fmt::format("Mamba of {} channels, state {}, convolution over {} tokens", m.channels, m.state,
                     m.convolution.taps);
}

std::string summary_of(const Mamba2& m, const ModelSpec&) {
  return fmt::format("Mamba-2 of {} heads in {} groups, state {} x {}, convolution over {} tokens", m.heads, m.groups,
                     m.state, m.head_dim, m.convolution.taps);
}

std::string summary_of(const NoMixer&, const ModelSpec&) { return "no mixer"; }
std::string summary_of(const NoFeed&, const ModelSpec&) { return "no feed forward"; }

std::string summary_of(const Dense& f, const ModelSpec&) {
  return fmt::format("{}{} feed forward {} wide", f.gate ? "gated " : "", name_of(f.activation), f.down.columns);
}

std::string summary_of(const Experts& e, const ModelSpec& spec) {
  constexpr const char* kGatings[] = {"softmax", "sigmoid", "softmax of the chosen"};
  std::string text = fmt::format("{} of {} experts by {}, each a {}{} feed forward {} wide", e.routing.used,
                                 e.routing.count, kGatings[static_cast<int>(e.routing.gating)], e.gate ? "gated " : "",
                                 name_of(e.activation), e.down.columns);
  if (e.into) text += fmt::format(", of rows {} wide", e.into.rows);
  if (e.shared.up) text += fmt::format(", and for all a {}", summary_of(e.shared, spec));
  return text;
}

std::string summary_of(const DenseAndExperts& f, const ModelSpec& spec) {
  return fmt::format("{}; and {}", summary_of(f.dense, spec), summary_of(f.experts, spec));
}

}  // namespace

std::string summary_of(const LayerSpec& layer, const ModelSpec& spec) {
  const auto of = [&](const auto& x) { return summary_of(x, spec); };
  const bool mixes = !std::holds_alternative<NoMixer>(layer.mixer);
  std::string text;
  if (mixes) text = fmt::format("{}, {}", name_of(layer.norm.kind), std::visit(of, layer.mixer));
  if (layer.beside) text += fmt::format(", beside it {}", of(layer.beside));
  if (layer.post_mixer) text += fmt::format(", {}", name_of(layer.post_mixer.kind));
  if (std::holds_alternative<NoFeed>(layer.feed)) return text;
  text += !mixes ? "" : layer.parallel ? "; beside it " : "; ";
  text += fmt::format("{}, {}", name_of(layer.feed_norm.kind), std::visit(of, layer.feed));
  if (layer.post_feed) text += fmt::format(", {}", name_of(layer.post_feed.kind));
  if (layer.residuals) text += "; attention residuals by blocks";
  if (layer.residuals.hears) text += ", messages of the pass before";
  if (layer.mixer_streams) text += fmt::format("; {} residual streams", layer.mixer_streams.count);
  if (const Ngrams& g = layer.ngrams)
    text += fmt::format(", to which rows of the last 2 to {} tokens are added, {} of {}", g.longest,
                        (g.longest - 1) * g.heads, g.table.rows);
  if (layer.input) text += fmt::format("; an input of the layer, {} wide", layer.input.gate.rows);
  return text;
}

}  // namespace kvasir::model
