// What a layer computes. Its parts are in forward/; how a team shares the work is in cpu/.
#include "model/forward.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/error.hpp"
#include "kernel/ops.hpp"
#include "kernel/streaming.hpp"
#include "model/adapters.hpp"
#include "model/apply_norm.hpp"
#include "model/spec_fields.hpp"

namespace kvasir::model {
namespace {

using kernel::ops;

// Rows of experts are gathered from the whole step, and heads of latent layers multiplied by the whole team.
bool tiles_pay(const ModelSpec& spec) {
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

ScratchPlan plan_scratch(const ModelSpec& spec, int max_tokens, int max_logits, int threads, std::byte* memory) {
  return {spec,
          max_tokens,
          max_logits,
          threads,
          cpu::Placer(memory),
          cpu::Widths{.dim = spec.dim,
                      .input = spec.dim,
                      .orders = spec.orders,
                      .rank = spec.adapters ? spec.adapters->rank() : 0,
                      .rounded = spec.in_bf16}};
}

}  // namespace

Forward::Scratch Forward::Scratch::place(ScratchPlan& plan) {
  return {Embedder::Scratch::place(plan),       MixerRows::place(plan),
          ResidualStates::Scratch::place(plan), Streams::Scratch::place(plan),
          FeedForward::Scratch::place(plan),    OutputHead::place(plan),
          StepState::Scratch::place(plan)};
}

std::int64_t Forward::planned_scratch(const ModelSpec& spec, int max_tokens, int max_logits, int threads) {
  ScratchPlan plan = plan_scratch(spec, max_tokens, max_logits, threads, nullptr);
  Scratch::place(plan);
  return plan.placer.used();
}

Forward::Forward(Team& team, const Model& model, kv::Cache& cache, int max_tokens, int max_logits,
                 cpu::ProductDevice* device)
    : Forward(team, model, {.cache = &cache}, max_tokens, max_logits, device) {
  KVASIR_CHECK(model.spec().causal && !model.spec().embedding.given);
}

Forward::Forward(Team& team, const Model& model, kv::Reader& reader, int texts)
    : Forward(team, model, {.reader = &reader}, texts, texts) {
  KVASIR_CHECK(model.spec().embedding.given);
}

Forward::Forward(Team& team, const Model& model, int max_tokens) : Forward(team, model, {}, max_tokens, 0) {
  KVASIR_CHECK(!model.spec().causal);
}

Forward::Forward(Team& team, const Model& model, Attends attends, int max_tokens, int max_logits,
                 cpu::ProductDevice* device)
    : spec_(model.spec()),
      weights_(model.layers()),
      max_logits_(max_logits),
      shared_bytes_(model.shared_bytes()),
      memory_(tensor::Tag::kScratch,
              static_cast<std::size_t>(planned_scratch(spec_, max_tokens, max_logits, team.size()))),
      scratch_([&] {
        ScratchPlan plan = plan_scratch(spec_, max_tokens, max_logits, team.size(), memory_.data());
        return Scratch::place(plan);
      }()),
      // A device wants all rows of a step at once.
      step_(team, spec_, attends, max_tokens,
            !weights_.streams() && !(device && device->from_rows() > 0) && tiles_pay(spec_), scratch_.step, device),
      embed_(step_, scratch_.embed),
      residuals_(step_, scratch_.residuals),
      streams_(step_, scratch_.streams),
      feed_(step_, weights_, scratch_.feed),
      head_(step_, scratch_.logits) {
  KVASIR_CHECK(max_tokens >= 1 && max_logits >= 0);
  for (const LayerSpec& layer : spec_.layers) {
    const auto* const experts = std::get_if<Experts>(&layer.feed);
    KVASIR_CHECK(!layer.residuals || (experts && std::holds_alternative<Attention>(layer.mixer) && step_.cache));
    KVASIR_CHECK(static_cast<bool>(layer.mixer_streams) == static_cast<bool>(spec_.head.streams) &&
                 (!layer.mixer_streams || (experts && layer.feed_streams && step_.cache)));
    KVASIR_CHECK(!layer.parallel || std::holds_alternative<Dense>(layer.feed) || (experts && !experts->into));
  }
  kernel::streaming();  // what KVASIR_STREAMING has that is wrong is an error here, not within a step
}

// The rows of a step; how many of them want logits.
int Forward::begin(std::span<const Input> inputs) {
  const int wanted = step_.begin(inputs);
  KVASIR_CHECK(wanted <= max_logits_);
  return wanted;
}

std::span<const float> Forward::step(std::span<const Input> inputs) {
  begin(inputs);
  pass(inputs, spec_.layer_count(), true);
  if (step_.cache) step_.cache->commit();
  weight_bytes_ = shared_bytes_ + feed_.experts().take_bytes_read();
  return head_.logits(inputs);
}

void Forward::look(std::span<const Input> inputs, int layer, const Observer& observer) {
  KVASIR_CHECK(step_.cache && layer >= 0 && layer < spec_.layer_count() && begin(inputs) == 0);
  pass(inputs, layer, false);
  const MixerRows& m = scratch_.mixers;
  observer(layer, step_.slices, m.q, m.k, m.v);
  step_.cache->commit(layer);
  feed_.experts().take_bytes_read();
}

// Takes the rows through the first layers, and into what the layer behind them begins with unless it `ends` there. If a
// disk does not give the weights, the step is given up.
void Forward::pass(std::span<const Input> inputs, int layers, bool ends) {
  if (step_.cache) step_.cache->begin(step_.slices);
  try {
    spec_.embedding.given ? embed_.take_given(inputs) : embed_.embed(inputs);
    if (spec_.embedding.layers) embed_.make_inputs(inputs);
    if (spec_.embedding.join) embed_.join(inputs);
    if (spec_.head.streams) streams_.begin(inputs);
    step_.compute_angles();
    step_.in_rows([&](cpu::Rows& rows) { project(rows, 0); });
    for (int l = 0; l < layers; ++l) {
      mix(l);
      // The end of a layer and the beginning of the next have no meeting of all rows between them.
      step_.in_rows([&](cpu::Rows& rows) {
        feed(rows, l);
        if (l + 1 < layers || !ends) project(rows, l + 1);
      });
    }
    if (!ends) weights_.leave(layers);
  } catch (const Error&) {
    weights_.leave_all();
    feed_.experts().take_bytes_read();
    if (step_.cache) step_.cache->abort();
    throw;
  }
}

// The norm of a layer, and what its mixer reads: of attention queries, keys and values.
void Forward::project(cpu::Rows& rows, int layer) {
  weights_.enter(layer, BundleKind::kMixer);
  const LayerSpec& l = spec_.layers[static_cast<std::size_t>(layer)];
  if (l.second != Second::kNone) embed_.add_second(rows, l.second);
  if (l.ngrams) streams_.add_ngrams(rows, scratch_.mixers, l.ngrams);
  if (l.mixer_streams) streams_.read(rows, l.mixer_streams);
  if (const Residuals& r = l.residuals) {
    const auto [q, k, v] = residuals_.read(rows, r);
    return model::project(step_, scratch_.mixers, rows, {q, l.norm}, {k, r.k_norm ? r.k_norm : l.norm},
                          {v, r.v_norm ? r.v_norm : l.norm}, std::get<Attention>(l.mixer));
  }
  each_mixer(l, [&](const auto& mixer) { model::project(step_, scratch_.mixers, rows, l.norm, mixer); });
}

// What rows have to do with each other.
void Forward::mix(int layer) {
  const LayerSpec& l = spec_.layers[static_cast<std::size_t>(layer)];
  const MixerRows& m = scratch_.mixers;
  if (observer_) {
    const auto* const a = std::get_if<Attention>(&l.mixer);
    observer_(layer, step_.slices, a ? m.q : nullptr, a && a->k ? m.k : nullptr,
              a && (a->v || a->v_of_k) ? m.v : nullptr);
  }
  each_mixer(l, [&](const auto& mixer) { model::mix(step_, m, layer, mixer); });
}

// rows.y = what the mixers give, through their output matrices and without the bias that is returned; null: the layer
// has no mixer.
const Vector* Forward::output(cpu::Rows& rows, const LayerSpec& layer) {
  const std::int64_t dim = spec_.dim;
  float* const beside = scratch_.mixers.beside + rows.first * dim;
  const Vector* bias = nullptr;
  each_mixer(layer, [&](const auto& mixer) {
    step_.multiply(rows, model::finish(step_, scratch_.mixers, rows, mixer), {}, {{mixer.o, bias ? beside : rows.y}});
    if (!bias) bias = &mixer.o.bias;
  });
  if (layer.beside)
    step_.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
      ops().add(rows.y + begin * dim, beside + begin * dim, (end - begin) * dim);
    });
  return bias;
}

// From what the mixer gave to the end of a layer: output projection, feed forward, and the residual stream.
void Forward::feed(cpu::Rows& rows, int layer) {
  weights_.enter(layer, BundleKind::kFeed);
  const LayerSpec& l = spec_.layers[static_cast<std::size_t>(layer)];
  if (l.residuals) return feed_with_residuals(rows, layer);
  if (l.feed_streams) return feed_with_streams(rows, layer);
  const bool feeds = !std::holds_alternative<NoFeed>(l.feed);
  const auto add_output = [&](bool last) {
    if (const Vector* const bias = output(rows, l)) add(rows, l, l.post_mixer, bias, last && !l.input, l.post_sum);
  };
  const auto add_feed = [&](bool last) {
    if (feeds) add(rows, l, l.post_feed, &feed_.finish(rows, layer), last && !l.input);
  };
  if (!l.parallel) {
    add_output(!feeds);
    feed_.begin(rows, l);
    add_feed(true);
  } else if (std::holds_alternative<Experts>(l.feed)) {  // which read all rows before any are added to
    add_feed(false);
    add_output(true);
  } else {
    feed_.begin(rows, l);
    add_output(false);
    add_feed(true);
  }
  if (l.input) {
    embed_.multiply_input(rows, l.input, layer);
    add(rows, l, l.input.post, nullptr, true);
  }
  embed_.add_deep(rows, layer);
  if (l.end_norm)
    step_.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
      float* const x = step_.residual(rows);
      for (std::int64_t r = begin; r < end; ++r) apply(l.end_norm, x + r * spec_.dim, x + r * spec_.dim, spec_.dim);
    });
  weights_.leave(layer);
}

// The same with Residuals, of all rows of the step: experts are not computed in tiles.
void Forward::feed_with_residuals(cpu::Rows& rows, int layer) {
  const LayerSpec& l = spec_.layers[static_cast<std::size_t>(layer)];
  output(rows, l);
  if (l.mixer_smoothing) smooth(step_, scratch_.mixers, l.mixer_smoothing, rows.y);
  residuals_.take_mixed(rows, l.residuals);
  feed_.finish(rows, layer);
  if (l.feed_smoothing) smooth(step_, scratch_.mixers, l.feed_smoothing, rows.y);
  residuals_.take_fed(rows, l.residuals);
  weights_.leave(layer);
}

// The same with streams.
void Forward::feed_with_streams(cpu::Rows& rows, int layer) {
  const LayerSpec& l = spec_.layers[static_cast<std::size_t>(layer)];
  output(rows, l);
  streams_.add(rows, l.mixer_streams);
  streams_.read(rows, l.feed_streams);
  feed_.finish(rows, layer);
  streams_.add(rows, l.feed_streams);
  if (layer + 1 == spec_.layer_count()) streams_.read(rows, spec_.head.streams);
  weights_.leave(layer);
}

// x += residual_scale * post(y + bias), the last time of a layer x *= output_scale. With a `sum`, x = sum(x + post(x +
// y)).
void Forward::add(const cpu::Rows& rows, const LayerSpec& layer, const Norm& post, const Vector* bias, bool last,
                  const Norm& sum) {
  const std::int64_t dim = spec_.dim;
  const float* const b = bias && *bias ? bias->bound : nullptr;
  step_.products.row_wise(rows, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t n = (end - begin) * dim;
    float* const x = step_.residual(rows) + begin * dim;
    float* const y = rows.y + begin * dim;
    for (std::int64_t i = 0; i < n && (b || post); i += dim) {
      if (b) ops().add(y + i, b, dim);
      if (post && !layer.norm_of_sums) apply(post, y + i, y + i, dim);
    }
    if (layer.residual_scale != 1.0f) ops().scale(y, layer.residual_scale, n);
    for (std::int64_t i = 0; i < n && sum; i += dim) {
      ops().add(y + i, x + i, dim);
      apply(post, y + i, y + i, dim);
    }
    ops().add(x, y, n);
    for (std::int64_t i = 0; i < n && layer.norm_of_sums; i += dim) apply(sum ? sum : post, x + i, x + i, dim);
    if (last && layer.output_scale) ops().scale(x, *layer.output_scale.bound, n);
  });
}

std::span<const float> Forward::logits_of(int first, int count) {
  KVASIR_CHECK(first >= 0 && count >= 1 && first + count <= step_.rows && count <= max_logits_);
  return head_.logits(first, count);
}

std::vector<float> Forward::rows_of(std::span<const std::int32_t> tokens) const {
  const auto dim = static_cast<std::size_t>(spec_.dim);
  std::vector<float> rows(tokens.size() * dim);
  for (std::size_t i = 0; i < tokens.size(); ++i) embed_.row(tokens[i], rows.data() + i * dim);
  return rows;
}

}  // namespace kvasir::model
