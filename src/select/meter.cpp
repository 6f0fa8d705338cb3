#include "select/meter.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

namespace kvasir::select {

Meter::Meter(const kv::Arena& arena, const SelectMemory& memory, const SelectScratch& scratch)
    : arena_(arena), memory_(memory), scratch_(scratch), counts_(arena.sequences.size()) {
  const std::size_t asked = arena.layout.asked.size();
  for (Counts& c : counts_) c.stats.layers.resize(asked), c.stats.prompts.resize(asked);
}

// choices().unit_sums takes units of 4 tokens at least.
static void sum_units(const float* x, int units, int unit, float* to) {
  if (unit >= 4) return choices().unit_sums(x, units, unit, to);
  for (int u = 0; u < units; ++u) to[u] = std::accumulate(x + u * unit, x + (u + 1) * unit, 0.0f);
}

void Meter::measure(const kv::LayerStep& step, const kv::Part& p, int head, int worker, int unit,
                    double* always) const {
  measure(step, p, step.plan.list(p, nullptr, -1), head, worker, unit, always);
}

void Meter::measure(const kv::LayerStep& step, const kv::Part& p, const kv::PageList& all_pages, int head, int worker,
                    int unit, double* always) const {
  const Question q = scratch_.question(worker);
  kv::HeadFold fold(step, p, head, all_pages, 0, p.asking(), false, worker);
  const kv::Rows& rows = fold.rows();
  const int units = kv::kPageTokens / unit;
  const auto pages = fold.list().sealed;  // the list is of whole pages
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  double* const most = q.totals;  // (rows): of sealed pages
  double* const kept = most + rows.count;
  double* const kept_most = kept + rows.count;
  std::fill_n(most, rows.count, kNone);
  std::fill_n(kept_most, rows.count, kNone);
  std::fill_n(kept, rows.count, 0.0);
  const auto add_kept = [&](int r, double max, double sum) {
    if (sum <= 0) return;
    const double m = std::max(max, kept_most[r]);
    kept[r] = kept[r] * std::exp2(kept_most[r] - m) + sum * std::exp2(max - m);
    kept_most[r] = m;
  };
  fold.weigh_all([&](int count, std::int64_t first, bool sealed) {
    const kv::FoldScratch& s = fold.scratch();
    for (int i = 0; i < count; ++i)
      for (int r = 0; r < rows.count; ++r) {
        const std::ptrdiff_t at = std::ptrdiff_t{i} * rows.count + r;
        if (!sealed) {
          add_kept(r, static_cast<double>(s.maxima[at]), static_cast<double>(s.sums[at]));
          continue;
        }
        const std::int64_t page = r * pages + first + i;
        q.maxima[page] = s.maxima[at];
        most[r] = std::max(most[r], static_cast<double>(s.maxima[at]));
        sum_units(fold.weights(r, i), units, unit, q.sums + page * units);
      }
  });
  if (const float* const logits = step.sink_logits(p, 0, head))
    for (int r = 0; r < rows.count; ++r) {
      const float logit = logits[r / rows.group * step.sink_pitch() + r % rows.group];
      add_kept(r, static_cast<double>(logit * kernel::kLog2E), 1.0);
    }
  std::fill_n(q.units, pages * units, 0.0f);
  *always = 0;
  for (int r = 0; r < rows.count; ++r) {
    const double m = std::max(most[r], kept_most[r]);
    const auto factor = [&](std::int64_t page) {
      const double max = static_cast<double>(q.maxima[r * pages + page]);
      return max == kNone ? 0.0 : std::exp2(max - m);
    };
    const double here = kept[r] * std::exp2(kept_most[r] - m);
    double all = here;
    for (std::int64_t page = 0; page < pages; ++page) {
      const float* const sums = q.sums + (r * pages + page) * units;
      all += factor(page) * static_cast<double>(std::accumulate(sums, sums + units, 0.0f));
    }
    const double share = 1 / (all * rows.count);
    *always += here * share;
    for (std::int64_t page = 0; page < pages; ++page) {
      const auto f = static_cast<float>(factor(page) * share);
      const float* const sums = q.sums + (r * pages + page) * units;
      float* const to = q.units + page * units;
      for (int u = 0; u < units; ++u) to[u] += f * sums[u];
    }
  }
}

void Meter::measure_choice(const kv::LayerStep& step, const kv::Part& p, int head, int worker) const {
  double always = 0;
  const SelectSpec& spec = spec_of(p);
  measure(step, p, head, worker, mass_unit(spec), &always);
  const Question q = scratch_.question(worker);
  const int units = spec.block / mass_unit(spec);
  float* const blocks = q.scores;
  for (std::int64_t i = 0; i < p.cut.sealed; ++i) {
    float sum = 0;
    for (int u = 0; u < units; ++u) sum += q.units[i * units + u];
    blocks[i] = sum;
  }
  double held = always;
  std::int64_t chosen = 0;
  each_block(scratch_.runs(p.counters + head), spec.block, [&](std::int64_t i) {
    held += static_cast<double>(blocks[i]);
    chosen += i >= p.cut.initial && i < p.cut.local;
  });
  for (std::int64_t i = 0; i < p.cut.sealed; ++i)
    if (i < p.cut.initial || i >= p.cut.local) always += static_cast<double>(blocks[i]);
  float* const first = blocks + p.cut.initial;
  std::nth_element(first, first + std::min(chosen, p.cut.local - p.cut.initial), blocks + p.cut.local,
                   std::greater<>());
  for (std::int64_t i = 0; i < chosen; ++i) always += static_cast<double>(first[i]);
  scratch_.answers().masses[p.counters + head] = std::min(held, 1.0);
  scratch_.answers().bests[p.counters + head] = std::min(always, 1.0);
}

void Meter::check_floor(const kv::LayerStep& step, kv::Plan& plan) {
  const int heads = step.layer().shape.kv_heads;
  const Answers& to = scratch_.answers();
  for (const kv::Part& p : plan.parts()) {
    if (!p.chosen || to.masses[p.counters] < 0) continue;
    double mass = 0, best = 0;
    for (int h = 0; h < heads; ++h) {
      mass += to.masses[p.counters + h] / heads;
      best += to.bests[p.counters + h] / heads;
    }
    kv::SelectionStats::Layer& f = stats_of(step, p);
    ++f.measured;
    f.mass += mass;
    f.best += best;
    f.choice += chosen_tokens(step, p);
    f.context += static_cast<double>(p.asking_at() + 1);
    f.least = std::min(f.least, mass);
    adapt(step, p, mass);
    if (mass >= spec_of(p).floor) continue;
    ++f.dense;
    if (p.prompt && keeps_choice(p))  // so do the positions that share the choice, in whatever step
      for (int h = 0; h < heads; ++h) memory_.choice(*p.sequence, step.layer(), h).whole_at = p.first + 1;
    plan.read_all(p);
  }
}

double Meter::share_wanted(const kv::LayerStep& step, const kv::Part& p) const {
  const SelectSpec& spec = spec_of(p);
  if (!spec.adapts() || p.prompt) return spec.p;
  const int level = memory_.levels(*p.sequence, step.layer()).now();
  return level > 0 ? share_of(level) : spec.p;
}

void Meter::adapt(const kv::LayerStep& step, const kv::Part& p, double mass) {
  const SelectSpec& spec = spec_of(p);
  if (!spec.adapts() || p.prompt) return;
  Levels& levels = memory_.levels(*p.sequence, step.layer());
  const int level = levels.now() > 0 ? levels.now() : level_of(spec.p);
  levels.set(p.asking_at() / spec.meter, next_level(level, mass, spec.aim));
}

kv::SelectionStats::Layer& Meter::stats_of(const kv::LayerStep& step, const kv::Part& p) {
  kv::SelectionStats& f = of(*p.sequence).stats;
  return (p.prompt ? f.prompts : f.layers)[static_cast<std::size_t>(step.layer().asked)];
}

// Tokens that the query that asks reads by its choice, raw ones too, mean over the heads.
double Meter::chosen_tokens(const kv::LayerStep& step, const kv::Part& p) const {
  const int heads = step.layer().shape.kv_heads;
  std::int64_t tokens = 0;
  for (int h = 0; h < heads; ++h)
    for (const kv::PageRun& run : scratch_.runs(p.counters + h)) tokens += run.tokens();
  const std::int64_t raw = p.asking_at() + 1 - arena_.layout.sealed_at(p.position) * kv::kPageTokens;
  return static_cast<double>(tokens) / heads + static_cast<double>(raw);
}

void Meter::count(const kv::LayerStep& step, const kv::Part& p, std::size_t voting) {
  if (!p.sequence->selects() || step.layer().asked < 0) return;
  const kv::LayerLayout& l = step.owner();
  const int heads = l.shape.kv_heads;
  const std::int64_t sealed = arena_.layout.sealed_at(p.position);
  std::size_t& bytes = of(*p.sequence).bytes;
  const std::size_t page_bytes = l.sealed.k_bytes + l.sealed.v_bytes;
  if (!p.chosen) {
    if (p.few) bytes += static_cast<std::size_t>(sealed * heads) * page_bytes;
    return;
  }
  const double read = chosen_tokens(step, p);
  const double seen = static_cast<double>(p.asking_at() + 1);
  if (read < seen) {
    std::int64_t& from = of(*p.sequence).sparse_from;
    from = std::min(from, p.position);
  }
  kv::SelectionStats::Layer& f = stats_of(step, p);
  // The others of a prompt read one raw token more each.
  const double more = p.prompt ? p.tokens - 1 : 0;
  f.chosen += 1 + static_cast<std::int64_t>(more);
  f.read += (1 + more) * (read + more / 2);
  f.seen += (1 + more) * (seen + more / 2);
  if (p.prompt) return;
  const double raw = seen - static_cast<double>(sealed * kv::kPageTokens);
  bytes += static_cast<std::size_t>((read - raw) * heads) * page_bytes / kv::kPageTokens;
  bytes += voting;
  if (spec_of(p).unread)  // representatives again, and means
    bytes += static_cast<std::size_t>((read - raw) * heads) * l.summary_bytes / kv::kPageTokens;
}

}  // namespace kvasir::select
