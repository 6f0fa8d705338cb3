// Attention's meter: what the choices of a step's rows hold of dense attention's mass, what follows from it (the floor,
// a share that moves), and the figures of what was read.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "kv/attend.hpp"

namespace kvasir::kv {

// Shares of the mass of dense attention, mean over the rows: question(worker).units, by `unit` tokens of the sealed
// pages, and *always of what no selector leaves out, sinks and raw tokens.
void Attention::measure(const Tensors& x, const Part& p, int head, int worker, int unit, double* always) const {
  const Question q = question(worker);
  const Item item(arena_.layer_at(plan_.layer().owner), arena_.layout.few_rows(), false, scratch(worker));
  const Rows rows = load_rows(x, p, head, 0, asking(p), item.scratch.q);
  const Segments s = segments(p, head, true);
  Fold fold(rows, item.size, item.scratch, x.scoring.soft_cap, nullptr, slopes(x, head));
  const int units = kPageTokens / unit;
  const auto pages = s.list.sealed;  // the list is of whole pages
  const int stride = item.size.batch * kPageTokens;
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
  const auto weigh = [&](const Segment& segment, std::span<const FoldPage> some, std::int64_t first, bool sealed) {
    fold.weigh(segment, some);
    for (std::size_t i = 0; i < some.size(); ++i)
      for (int r = 0; r < rows.count; ++r) {
        const auto at = i * static_cast<std::size_t>(rows.count) + static_cast<std::size_t>(r);
        const float max = item.scratch.maxima[at];
        if (!sealed) {
          add_kept(r, static_cast<double>(max), static_cast<double>(item.scratch.sums[at]));
          continue;
        }
        const std::int64_t page = r * pages + first + static_cast<std::int64_t>(i);
        q.maxima[page] = max;
        most[r] = std::max(most[r], static_cast<double>(max));
        const float* const w = item.scratch.weights + static_cast<std::ptrdiff_t>(r) * stride + i * kPageTokens;
        choices().unit_sums(w, units, unit, q.sums + page * units);
      }
  };
  if (arena_.layout.sinks > 0) {
    const FoldPage page = sink_page(s, rows);
    weigh(s.raw, {&page, 1}, 0, false);
  }
  FoldPage some[kGroupPages];
  PinnedPages loaded(arena_, s.layer, s.head);
  for (std::int64_t place = s.list.begin; place < s.list.end;) {
    const bool sealed = place < s.list.sealed;
    const std::int64_t end = std::min(place + item.size.batch, sealed ? s.list.sealed : s.list.end);
    load_pages(s, rows, place, end, &loaded, some);
    if (!arena_.pages.on_disk(plan_.layer()))
      for (std::int64_t i = place; i < std::min(end, s.list.sealed - kFetchAhead); ++i)
        some[i - place].k.next = arena_.sealed(s.layer, s.head, s.sequence, s.list.page(i + kFetchAhead)).k;
    weigh(sealed ? s.sealed : s.raw, {some, static_cast<std::size_t>(end - place)}, place, sealed);
    place = end;
  }
  if (x.scoring.sinks)
    for (int r = 0; r < rows.count; ++r) {
      const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(head) * rows.group + r % rows.group;
      add_kept(r, static_cast<double>(x.scoring.sinks[at] * kernel::kLog2E), 1.0);
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

// What the runs of a head hold, and what the best choice of as many blocks does.
void Attention::measure_choice(const Tensors& x, const Part& p, int head, int worker) const {
  double always = 0;
  measure(x, p, head, worker, kMassUnit, &always);
  const Question q = question(worker);
  const SelectSpec& spec = p.sequence->select;
  const int units = spec.block / kMassUnit;
  float* const blocks = q.scores;
  for (std::int64_t i = 0; i < p.cut.sealed; ++i) {
    float sum = 0;
    for (int u = 0; u < units; ++u) sum += q.units[i * units + u];
    blocks[i] = sum;
  }
  double held = always;
  std::int64_t chosen = 0;
  const PageRun* const runs = to_.runs_at(p.counters + head);
  for (int r = 0; r < chosen_count(p, head); ++r) {
    const std::int64_t page = std::int64_t{runs[r].page} * kPageTokens;
    for (std::int64_t i = (page + 16 * runs[r].begin) / spec.block; i < (page + 16 * runs[r].end) / spec.block; ++i) {
      held += static_cast<double>(blocks[i]);
      chosen += i >= p.cut.initial && i < p.cut.local;
    }
  }
  for (std::int64_t i = 0; i < p.cut.sealed; ++i)
    if (i < p.cut.initial || i >= p.cut.local) always += static_cast<double>(blocks[i]);
  float* const first = blocks + p.cut.initial;
  std::nth_element(first, first + std::min(chosen, p.cut.local - p.cut.initial), blocks + p.cut.local,
                   std::greater<>());
  for (std::int64_t i = 0; i < chosen; ++i) always += static_cast<double>(first[i]);
  to_.masses[p.counters + head] = std::min(held, 1.0);
  to_.bests[p.counters + head] = std::min(always, 1.0);
}

// Where choices hold too little the part reads everything.
void Attention::check_floor() {
  const int heads = plan_.layer().shape.kv_heads;
  for (const Part& p : plan_.parts()) {
    if (!p.chosen || to_.masses[p.counters] < 0) continue;
    double mass = 0, best = 0;
    for (int h = 0; h < heads; ++h) {
      mass += to_.masses[p.counters + h] / heads;
      best += to_.bests[p.counters + h] / heads;
    }
    SelectionFigures::Layer& f = figures_of(p);
    ++f.measured;
    f.mass += mass;
    f.best += best;
    f.choice += chosen_tokens(p);
    f.context += static_cast<double>(asking_at(p) + 1);
    f.least = std::min(f.least, mass);
    adapt(p, mass);
    if (mass >= p.sequence->select.floor) continue;
    ++f.dense;
    if (p.prompt && keeps_choice(p))  // so do the positions that share the choice, in whatever step
      for (int h = 0; h < heads; ++h) arena_.choice(*p.sequence, plan_.layer(), h).whole_at = p.first + 1;
    plan_.read_all(p);
  }
}

// SelectSpec::p, or what became of it in this layer by what was measured before. Prompts have it as it is.
double Attention::share_wanted(const Part& p) const {
  const SelectSpec& spec = p.sequence->select;
  if (!spec.adapts() || p.prompt) return spec.p;
  const int level = arena_.levels(*p.sequence, plan_.layer()).now();
  return level > 0 ? share_of(level) : spec.p;
}

void Attention::adapt(const Part& p, double mass) {
  const SelectSpec& spec = p.sequence->select;
  if (!spec.adapts() || p.prompt) return;
  Levels& levels = arena_.levels(*p.sequence, plan_.layer());
  const int level = levels.now() > 0 ? levels.now() : level_of(spec.p);
  levels.set(asking_at(p) / spec.meter, next_level(level, mass, spec.aim));
}

SelectionFigures::Layer& Attention::figures_of(const Part& p) {
  SelectionFigures& f = figures_[static_cast<std::size_t>(p.sequence->index)];
  return (p.prompt ? f.prompts : f.layers)[static_cast<std::size_t>(plan_.layer().asked)];
}

// Tokens that the query that asks reads by its choice, raw ones too, mean over the heads.
double Attention::chosen_tokens(const Part& p) const {
  const int heads = plan_.layer().shape.kv_heads;
  std::int64_t tokens = 0;
  for (int h = 0; h < heads; ++h)
    for (int i = 0; i < chosen_count(p, h); ++i) tokens += to_.runs_at(p.counters + h)[i].tokens();
  const std::int64_t raw = asking_at(p) + 1 - arena_.layout.sealed_at(p.position) * kPageTokens;
  return static_cast<double>(tokens) / heads + static_cast<double>(raw);
}

void Attention::count_selected(const Part& p) {
  if (p.sequence->select.dense() || plan_.layer().asked < 0) return;
  const LayerLayout& l = arena_.layer_at(plan_.layer().owner);
  const int heads = l.shape.kv_heads;
  const std::int64_t sealed = arena_.layout.sealed_at(p.position);
  std::size_t& bytes = selected_[static_cast<std::size_t>(p.sequence->index)];
  const std::size_t page_bytes = l.sealed.k_bytes + l.sealed.v_bytes;
  if (!p.chosen) {
    if (p.few) bytes += static_cast<std::size_t>(sealed * heads) * page_bytes;
    return;
  }
  const double read = chosen_tokens(p);
  const double seen = static_cast<double>(asking_at(p) + 1);
  if (read < seen) {
    std::int64_t& from = sparse_[static_cast<std::size_t>(p.sequence->index)];
    from = std::min(from, p.position);
  }
  SelectionFigures::Layer& f = figures_of(p);
  // The others of a prompt read one raw token more each.
  const double more = p.prompt ? p.tokens - 1 : 0;
  f.chosen += 1 + static_cast<std::int64_t>(more);
  f.read += (1 + more) * (read + more / 2);
  f.seen += (1 + more) * (seen + more / 2);
  if (p.prompt) return;
  const double raw = seen - static_cast<double>(sealed * kPageTokens);
  bytes += static_cast<std::size_t>((read - raw) * heads) * page_bytes / kPageTokens;
  if (p.sequence->select.selector->width) {
    const auto pitch = static_cast<std::size_t>(summary_pitch(*p.sequence->select.selector, l.shape.head_dim));
    const std::int64_t again = scored_again(p);
    bytes += again > 0
                 ? static_cast<std::size_t>(heads) * (static_cast<std::size_t>(p.cut.sealed) * (pitch + sizeof(float)) +
                                                      static_cast<std::size_t>(again) * 2 * pitch)
                 : static_cast<std::size_t>(sealed * heads) * l.means_offset;
  }
  if (p.sequence->select.selector->exact) bytes += static_cast<std::size_t>(sealed * heads) * l.sealed.k_bytes;
  if (p.sequence->select.tail)  // representatives again, and means
    bytes += static_cast<std::size_t>((read - raw) * heads) * l.summary_bytes / kPageTokens;
}

}  // namespace kvasir::kv
