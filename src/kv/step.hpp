// One layer of a step: what the model hands over, how it is cut, and where threads compute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/team.hpp"
#include "kernel/attention.hpp"
#include "kv/chosen.hpp"
#include "kv/fold.hpp"
#include "kv/plan.hpp"

namespace kvasir::kv {

struct Tensors {
  int layer;
  const float* q;
  const float* k;
  const float* v;
  float* out;
  Scoring scoring;
  Chosen chosen = {};  // of row 0 of the batch
};

struct LayerStep {
  const Arena& arena;
  const Plan& plan;
  const Tensors& x;
  float* workers;  // scratch of all threads
  std::size_t worker_floats;

  const LayerLayout& layer() const { return plan.layer(); }
  // That owns the keys and values that the layer reads.
  const LayerLayout& owner() const { return arena.layer_at(layer().owner); }
  float* scratch(int worker) const { return workers + static_cast<std::size_t>(worker) * worker_floats; }

  // Queries of tokens [token, token + tokens) of a part in one KV head, scaled, to q (tokens * group, d).
  Rows load_queries(const Part& p, int head, int token, int tokens, float* q) const {
    const LayerShape& s = layer().shape;
    const int d = s.head_dim;
    const int group = s.group();
    const std::int64_t row_floats = static_cast<std::int64_t>(s.query_heads) * d;
    for (int t = 0; t < tokens; ++t)
      kernel::attention().scale_rows(
          x.q + (p.row + token + t) * row_floats + static_cast<std::int64_t>(head) * group * d, d, group, d,
          x.scoring.scale, q + static_cast<std::int64_t>(t) * group * d);
    return {q,
            tokens * group,
            group,
            p.position + token,
            s.window,
            s.chunked,
            p.sequence->borrowed ? &p.sequence->borrowed->places() : nullptr};
  }

  // Keys or values from `row` of the batch on, of one head.
  TokenRows tokens_of(Side side, std::int64_t row, int head) const {
    const LayerShape& s = layer().shape;
    if (side == Side::kValues && s.latent) return {};
    const std::int64_t d = side == Side::kKeys ? s.head_dim : s.head_dim_v;
    return {(side == Side::kKeys ? x.k : x.v) + (row * s.kv_heads + head) * d, s.kv_heads * d};
  }
  // f(part, head, worker) for all heads of the stage's parts.
  template <class F>
  void each_head(Team& team, F&& f) const {
    const std::span<const Part> parts = plan.parts();
    const int heads = layer().shape.kv_heads;
    team.parallel_for(static_cast<std::int64_t>(parts.size()) * heads, 1,
                      [&](std::int64_t begin, std::int64_t end, int worker) {
                        for (auto i = begin; i < end; ++i)
                          f(parts[static_cast<std::size_t>(i / heads)], static_cast<int>(i % heads), worker);
                      });
  }
  // Of tokens of a part, from `token` on.
  Chosen chosen(const Part& p, int token) const { return x.chosen.from(p.row + token); }
  // Of a KV head's query heads; null: there are none.
  const float* slopes(int head) const { return of_group(x.scoring.slopes, head); }
  // Of token `token` of a part and a KV head's query heads; those of the token behind it are sink_pitch() further.
  // Null: there are none.
  const float* sink_logits(const Part& p, int token, int head) const {
    const float* const rows = x.scoring.row_sinks;
    return of_group(rows ? rows + (p.row + token) * std::int64_t{layer().shape.query_heads} : x.scoring.sink_logits,
                    head);
  }
  std::int64_t sink_pitch() const { return x.scoring.row_sinks ? layer().shape.query_heads : 0; }
  DistanceBias distances(const Part& p, int token, int head) const {
    DistanceBias d = x.scoring.distances;
    if (d) d.rows += (p.row + token) * distance_floats() + std::int64_t{head} * layer().group() * d.width;
    return d;
  }
  std::int64_t distance_floats() const { return std::int64_t{layer().shape.query_heads} * x.scoring.distances.width; }

 private:
  const float* of_group(const float* all, int head) const {
    return all ? all + static_cast<std::ptrdiff_t>(head) * layer().group() : nullptr;
  }
};

}  // namespace kvasir::kv
