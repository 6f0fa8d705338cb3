// What a forward pass keeps beside the model: scratch, and the rows and angles of the step.
#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "kernel/bidirectional.hpp"
#include "kernel/streaming.hpp"
#include "model/adapters.hpp"
#include "model/cache_shape.hpp"
#include "model/forward.hpp"
#include "model/spec_fields.hpp"

namespace kvasir::model {
namespace {

// Experts beside the mixer, which read what it has not been added to.
bool waits_for_experts(const LayerSpec& layer) { return layer.parallel && std::holds_alternative<Experts>(layer.feed); }

}  // namespace

Forward::Scratch Forward::place(const ModelSpec& spec, int max_tokens, int max_logits, int threads, cpu::Placer& p) {
  std::int64_t q = 0, k = 0, v = 0, gate = 0, heads = 0, pairs = 0;
  std::int64_t inputs = spec.embedding.layers.projection.rows, branch = 0, narrow = 0;
  std::int64_t low = 0, own = 0, values = 0, latent_heads = 0, head_width = 0;
  cpu::Widths widths{
      .dim = spec.dim, .input = spec.dim, .orders = spec.orders, .rank = spec.adapters ? spec.adapters->rank() : 0};
  for_each<Attention>(spec, [&](const Attention& a) {
    q = std::max(q, a.q.rows);
    k = std::max(k, a.k.rows);
    v = std::max(v, a.v_of_k ? a.k.rows : a.v.rows);
    gate = std::max(gate, a.gate.rows);
    heads = std::max(heads, a.o.columns);
    if (!a.latent) return;
    q = std::max(q, std::int64_t{a.heads} * a.d);
    heads = std::max(heads, std::int64_t{a.heads} * a.dv);
    low = std::max(low, a.latent.down.rows);
    own = std::max(own, a.q.rows);
    values = std::max(values, a.o.columns);
    latent_heads = std::max<std::int64_t>(latent_heads, a.heads);
    head_width = std::max<std::int64_t>({head_width, a.latent.nope, a.latent.rank});
  });
  for_each<DenseAndExperts>(spec, [&](const DenseAndExperts&) { branch = spec.dim; });
  for_each<LayerInput>(spec, [&](const LayerInput& i) { gate = std::max(gate, i.gate.rows); });
  widths.dim = std::max(widths.dim, low);  // what is normed
  std::int64_t channels = 0, steps = 0, mixed = 0, z = 0, states = 0, beside = 0;
  for (const LayerSpec& layer : spec.layers) {
    const kv::RecurrentShape shape = recurrent_shape(layer);
    if (!shape) continue;
    channels = std::max<std::int64_t>(channels, shape.channels);
    steps = std::max<std::int64_t>(steps, 2 * shape.heads);
    states = std::max<std::int64_t>(states, shape.outputs());
    z = std::max<std::int64_t>(z, shape.outputs());
    if (layer.beside) beside = spec.dim;
    mixed = std::max<std::int64_t>(mixed, shape.heads > 0 ? 2 * shape.heads : shape.channels);
    if (const auto* d = std::get_if<Delta>(&layer.mixer)) mixed = std::max(mixed, d->qkvz.rows + 2 * d->value_heads);
  }
  widths.input = std::max({widths.input, heads, low, states, spec.embedding.join.both.columns});
  for (const Projection& projection : spec.projections)
    widths.input = std::max(widths.input, projection.linear.columns);
  for_each<Dense>(spec, [&](const Dense& d) { widths.hidden = std::max(widths.hidden, d.down.columns); });
  cpu::ExpertScratch::Widths experts{.dim = spec.dim};
  for_each<Experts>(spec, [&](const Experts& e) {
    experts.hidden = std::max(experts.hidden, e.down.columns);
    experts.experts = std::max(experts.experts, e.routing.count);
    experts.used = std::max(experts.used, e.routing.used);
    experts.dim = std::max(experts.dim, e.into.rows);
    narrow = std::max(narrow, e.into.rows);
  });
  for (const Rope& r : spec.ropes) pairs += static_cast<std::int64_t>(r.frequencies.size());
  if (narrow > 0 || std::any_of(spec.layers.begin(), spec.layers.end(), waits_for_experts)) branch = spec.dim;
  widths.input = std::max(widths.input, narrow);
  const std::int64_t n = max_tokens;
  Scratch s{};
  s.x = p.take<float>(n * spec.dim);
  s.q = p.take<float>(n * q);
  s.k = p.take<float>(n * k);
  s.v = p.take<float>(n * v);
  s.gate = p.take<float>(n * gate);
  s.gate_width = gate;
  s.heads = p.take<float>(n * heads);
  s.inputs = p.take<float>(n * inputs);
  s.input_width = inputs;
  s.token_inputs = p.take<float>(threads * inputs);
  s.joined = p.take<float>(n * spec.embedding.join.both.columns);
  s.branch = p.take<float>(n * branch);
  s.narrow = p.take<float>(n * narrow);
  s.narrow_y = p.take<float>(n * narrow);
  s.low = p.take<float>(n * low);
  s.own = p.take<float>(n * own);
  s.values = p.take<float>(n * values);
  s.channels = p.take<float>(n * channels);
  s.steps = p.take<float>(n * steps);
  s.mixed = p.take<float>(n * mixed);
  s.z = p.take<float>(n * z);
  s.z_width = z;
  s.states = p.take<float>(n * states);
  s.beside = p.take<float>(n * beside);
  s.cos = p.take<float>(n * pairs);
  s.sin = p.take<float>(n * pairs);
  s.logits = p.take<float>(spec.head.output ? std::max(1, max_logits) * spec.vocab : 0);
  if (!spec.causal) {
    int d = 0, dv = 0;
    for_each<Attention>(spec, [&](const Attention& a) { d = std::max(d, a.d), dv = std::max(dv, a.dv); });
    s.whole_stride = kernel::whole_head_scratch(max_tokens, d, dv);
    s.whole = p.take<float>(threads * s.whole_stride);
  }
  s.rows = cpu::RowScratch::place(widths, max_tokens, threads, p);
  s.experts = cpu::ExpertScratch::place(experts, max_tokens, p);
  s.head_inputs = cpu::HeadScratch::place(latent_heads, head_width, max_tokens, p);
  return s;
}

std::int64_t Forward::planned_scratch(const ModelSpec& spec, int max_tokens, int max_logits, int threads) {
  cpu::Placer count(nullptr);
  place(spec, max_tokens, max_logits, threads, count);
  return count.used();
}

// Rows of experts are gathered from the whole step, and heads of latent layers multiplied by the whole team.
static bool tiles_pay(const ModelSpec& spec) {
  bool whole = false;
  for_each<Experts>(spec, [&](const Experts&) { whole = true; });
  for_each<Latent>(spec, [&](const Latent&) { whole = true; });
  if (whole) return false;
  cpu::TileRule rule;
  for (const LayerSpec& layer : spec.layers) {
    rule.next_layer();
    for_each<Linear>(layer, [&](const Linear& l) { rule.add(l.bound); });
  }
  return rule.pays();
}

Forward::Forward(Team& team, const Model& model, kv::Cache& cache, int max_tokens, int max_logits)
    : Forward(team, model, &cache, max_tokens, max_logits) {
  KVASIR_CHECK(model.spec().causal);
}

Forward::Forward(Team& team, const Model& model, int max_tokens) : Forward(team, model, nullptr, max_tokens, 0) {
  KVASIR_CHECK(!model.spec().causal);
}

Forward::Forward(Team& team, const Model& model, kv::Cache* cache, int max_tokens, int max_logits)
    : team_(team),
      spec_(model.spec()),
      weights_(model.layers()),
      cache_(cache),
      max_tokens_(max_tokens),
      max_logits_(max_logits),
      memory_(tensor::Tag::kScratch,
              static_cast<std::size_t>(planned_scratch(model.spec(), max_tokens, max_logits, team.size()))),
      products_(team, s_.rows),
      experts_(team, s_.rows, s_.experts),
      head_products_(team, s_.head_inputs),
      shared_bytes_(model.shared_bytes()),
      tiles_(!model.layers().streams() && tiles_pay(model.spec())) {
  KVASIR_CHECK(max_tokens >= 1 && max_logits >= 0);
  for (const LayerSpec& layer : spec_.layers)
    KVASIR_CHECK(!layer.parallel || std::holds_alternative<Dense>(layer.feed) ||
                 (waits_for_experts(layer) && !std::get<Experts>(layer.feed).into));
  kernel::streaming();  // what KVASIR_STREAMING has that is wrong is an error here, not within a step
  cpu::Placer p(memory_.data());
  s_ = place(spec_, max_tokens, max_logits, team.size(), p);
  for (const Rope& r : spec_.ropes)
    turns_.push_back({r.frequencies.data(), static_cast<std::int64_t>(r.frequencies.size()), r.pairs});
  positions_.reserve(static_cast<std::size_t>(max_tokens));
  places_.reserve(static_cast<std::size_t>(spec_.has_places() ? max_tokens : 0));
  deep_.reserve(static_cast<std::size_t>(spec_.deep > 0 ? max_tokens : 0));
  slices_.reserve(static_cast<std::size_t>(max_tokens));
  both_.reserve(static_cast<std::size_t>(max_tokens));
  ids_.reserve(static_cast<std::size_t>(max_tokens));
}

// The rows of a step; how many of them want logits.
int Forward::take(std::span<const Input> inputs) {
  slices_.clear();
  both_.clear();
  positions_.clear();
  places_.clear();
  deep_.clear();
  rows_ = 0;
  int wanted = 0;
  for (const Input& in : inputs) {
    const int count = static_cast<int>(in.tokens.size());
    KVASIR_CHECK(count >= 1 && in.logits >= 0 && in.logits <= count);
    slices_.push_back({in.sequence, rows_, count, in.decode});
    KVASIR_CHECK((in.sequence != nullptr) == (cache_ != nullptr));
    for (int i = 0; i < count; ++i) {
      positions_.push_back(in.sequence ? kv::Cache::position(*in.sequence, i) : i);
      KVASIR_CHECK(in.runs.empty() || positions_.back() == in.at + i);
      if (spec_.has_places()) places_.push_back(position_of(in.runs, positions_.back()));
    }
    rows_ += count;
    wanted += in.logits;
    const std::size_t first = both_.size();  // it never moves: there are no more runs than rows
    for (const RowRun& run : in.runs)
      if (run.block->both_ways() && run.begin < in.at + count && run.end() > in.at) {
        KVASIR_CHECK(run.begin >= in.at && run.end() <= in.at + count);
        both_.push_back({run.begin, run.end(), run.block->sight() == Sight::kAllInWindows});
      }
    slices_.back().both = std::span(both_).subspan(first);
  }
  KVASIR_CHECK(rows_ >= 1 && rows_ <= max_tokens_ && wanted <= max_logits_);
  return wanted;
}

// Where the cos and sin of a RoPE begin.
std::int64_t Forward::angles_at(int rope) const {
  std::int64_t at = 0;
  for (int i = 0; i < rope; ++i)
    at += max_tokens_ * static_cast<std::int64_t>(spec_.ropes[static_cast<std::size_t>(i)].frequencies.size());
  return at;
}

// cos and sin of every row's angles: position * frequency in double, because a float angle loses digits at long
// contexts.
void Forward::angles() {
  team_.parallel_for(rows_, cpu::kRowGrain, [&](std::int64_t begin, std::int64_t end, int) {
    for (int rope = 0; rope < static_cast<int>(spec_.ropes.size()); ++rope) {
      const Rope& r = spec_.ropes[static_cast<std::size_t>(rope)];
      const auto pairs = static_cast<std::int64_t>(r.frequencies.size());
      float *const cos = s_.cos + angles_at(rope), *const sin = s_.sin + angles_at(rope);
      for (std::int64_t row = begin; row < end; ++row)
        for (std::int64_t i = 0; i < pairs; ++i) {
          const auto at = static_cast<std::size_t>(row), pair = static_cast<std::size_t>(i);
          const std::int64_t position =
              r.axes.empty() ? positions_[at] : places_[at][static_cast<std::size_t>(r.axes[pair])];
          const double angle = static_cast<double>(position) * r.frequencies[pair];
          cos[row * pairs + i] = static_cast<float>(std::cos(angle)) * r.magnitude;
          sin[row * pairs + i] = static_cast<float>(std::sin(angle)) * r.magnitude;
        }
    }
  });
}

}  // namespace kvasir::model
