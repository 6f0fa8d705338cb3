#include "select/selection.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/clock.hpp"

namespace kvasir::select {

BlockSelection::BlockSelection(Team& team, const SelectSpec& spec, const kv::Arena& arena, int max_slices)
    : kv::Selection(arena.layout.asked.size()),
      team_(team),
      arena_(arena),
      memory_(spec, arena),
      scratch_(memory_.layout(), team.size(), max_slices),
      meter_(arena, memory_, scratch_),
      unread_(arena, memory_, scratch_),
      voters_(arena, memory_, scratch_, meter_, unread_) {
  if (!spec.selector->width) return;
  for (const kv::LayerLayout& l : arena.layout.layers)
    if (l.attends()) frame_.resize(std::max(frame_.size(), summary_floats(spec, l.shape.head_dim)));
}

// The layer whose choice this layer shares: itself, or an earlier one.
const kv::LayerLayout& BlockSelection::slot_layer(const kv::LayerStep& step, const kv::Part& p) const {
  const SelectSpec& spec = spec_of(p);
  const kv::LayerLayout& here = step.layer();
  if (p.prompt) return here;  // a step takes a layer through all its positions before the next layer asks
  const int slot = here.asked - (here.asked - spec.dense_layers) % spec.layer_step;
  const kv::LayerLayout& layer = arena_.layer_at(arena_.layout.asked[static_cast<std::size_t>(slot)]);
  return layer.shape.kv_heads == here.shape.kv_heads ? layer : here;
}

BlockSelection::Ask BlockSelection::what_to_ask(const kv::LayerStep& step, const kv::Part& p, int head) const {
  const SelectSpec& spec = spec_of(p);
  if (!keeps_choice(p)) return Ask::kChoose;
  if (spec.shared) head = 0;
  const kv::LayerLayout& slot = slot_layer(step, p);
  const ChoiceState& kept = memory_.choice(*p.sequence, slot, head);
  const int positions = p.prompt ? spec.prompt : spec.token_step;
  if (kept.chosen_at > 0 && kept.prompt == (p.prompt ? positions : 0) &&
      (kept.chosen_at - 1) / positions == p.asking_at() / positions &&
      (slot.asked != step.layer().asked || positions > 1))
    return Ask::kReuse;
  if (p.prompt) return Ask::kChoose;
  if (spec.preselect != 0 && memory_.choice(*p.sequence, step.layer(), head).voted_at == 0) return Ask::kPreselect;
  return Ask::kChoose;
}

void BlockSelection::run(const kv::LayerStep& step, kv::Plan& plan) {
  if (plan.asks()) {
    const double start = steady_seconds();
    choose(step, plan);
    seconds_ += steady_seconds() - start;
  }
  for (const kv::Part& p : plan.parts())
    meter_.count(step, p, p.chosen ? voters_.of(*spec_of(p).selector).bytes_read(step.owner(), p) : 0);
  if (plan.asks() && arena_.pages.on_disk(step.layer())) fetch(step);
}

void BlockSelection::choose(const kv::LayerStep& step, kv::Plan& plan) {
  const std::span<const kv::Part> parts = plan.parts();
  for (const kv::Part& p : parts)  // an earlier step measured that its positions need everything
    if (p.chosen && p.prompt && keeps_choice(p) && memory_.choice(*p.sequence, step.layer(), 0).whole_at == p.first + 1)
      plan.read_all(p);
  const int heads = step.layer().shape.kv_heads;
  bool shared = false;
  bool measured = false;
  for (const kv::Part& p : parts) {
    if (!p.chosen) continue;
    const SelectSpec& spec = spec_of(p);
    shared = shared || spec.shared;
    measured = measured || p.measured;
  }
  step.each_head(team_, [&](const kv::Part& p, int head, int worker) {
    if (!p.chosen) return;
    ask(step, p, head, worker);
    if (!spec_of(p).shared) answer(step, p, head, 1, worker);
  });
  if (shared)
    team_.parallel_for(static_cast<std::int64_t>(parts.size()), 1,
                       [&](std::int64_t begin, std::int64_t end, int worker) {
                         for (auto i = begin; i < end; ++i)
                           if (const kv::Part& p = parts[static_cast<std::size_t>(i)]; p.chosen && spec_of(p).shared)
                             answer(step, p, 0, heads, worker);
                       });
  const bool corrected =
      std::any_of(parts.begin(), parts.end(), [&](const kv::Part& p) { return Unread::wanted(step, p); });
  if (corrected)
    step.each_head(team_, [&](const kv::Part& p, int head, int worker) {
      if (Unread::wanted(step, p)) unread_.estimate(step, p, head, worker);
    });
  if (!measured) {
    for (const kv::Part& p : parts)
      if (p.chosen) std::fill_n(scratch_.answers().masses + p.counters, heads, -1.0);
    return;
  }
  step.each_head(team_, [&](const kv::Part& p, int head, int worker) {
    scratch_.answers().masses[p.counters + head] = -1;
    if (p.measured) meter_.measure_choice(step, p, head, worker);
  });
  meter_.check_floor(step, plan);
}

// Votes of one head. Those outside [initial, local) are not written.
void BlockSelection::ask(const kv::LayerStep& step, const kv::Part& p, int head, int worker) const {
  const SelectSpec& spec = spec_of(p);
  const Ask what = what_to_ask(step, p, head);
  float* const votes = scratch_.answers().votes_at(p.counters + head);
  if (what == Ask::kReuse) return;
  if (what == Ask::kPreselect) {
    const int unit = pooled_unit(spec);
    if (!measure_window(step, p, head, worker, unit)) {
      double always = 0;
      meter_.measure(step, p, head, worker, unit, &always);
    }
    const std::int64_t per_block = spec.block / unit;
    return pool_units({scratch_.question(worker).units, static_cast<std::size_t>(p.cut.sealed * per_block)}, per_block,
                      spec.pooled() / unit, votes);
  }
  voters_.of(*spec.selector).vote(step, p, head, worker, votes);
}

// The shares of mass, summed over the newest tokens of the prompt, in place of those of the token that asks. False: the
// sequence has no queries of them.
bool BlockSelection::measure_window(const kv::LayerStep& step, const kv::Part& p, int head, int worker,
                                    int unit) const {
  const kv::LayerLayout& layer = step.layer();
  const int window = spec_of(p).window;
  if (window == 0 || !memory_.has_ring(layer)) return false;
  const QueryRing ring = memory_.query_ring(*p.sequence, layer);
  const Question q = scratch_.question(worker);
  const auto units = static_cast<std::size_t>(p.cut.sealed * (spec_of(p).block / unit));
  // Their keys are those of the pages as they are now, whatever was sealed since.
  const kv::PageList all = step.plan.list(p, nullptr, -1);
  kv::Scoring scoring = step.x.scoring;
  scoring.distances = {}, scoring.row_sinks = nullptr;  // which are this step's rows', not those of the ring
  const kv::Tensors theirs{step.x.layer, ring.rows, nullptr, nullptr, nullptr, scoring};
  const kv::LayerStep there{step.arena, step.plan, theirs, step.workers, step.worker_floats};
  float* const sum = q.scores;
  int found = 0;
  for (std::int64_t at = std::max<std::int64_t>(0, p.asking_at() - window); at < p.asking_at(); ++at) {
    const auto slot = static_cast<int>(at % memory_.layout().select.window);
    if (ring.at[slot] != at + 1) continue;
    if (found++ == 0) std::fill_n(sum, units, 0.0f);
    kv::Part row = p;
    row.position = at;
    row.block = at / kv::kPageTokens;
    row.row = slot;
    row.tokens = 1;
    kv::PageList seen = all;
    seen.end = std::min(all.end, row.block + 1);
    double always = 0;
    meter_.measure(there, row, seen, head, worker, unit, &always);
    for (std::size_t i = 0; i < units; ++i) sum[i] += q.units[i];
  }
  if (found > 0) std::copy_n(sum, units, q.units);
  return found > 0;
}

void BlockSelection::remember(std::span<const kv::Slice> slices, const kv::Tensors& x) const {
  const kv::LayerLayout& layer = arena_.layer_at(x.layer);
  if (!memory_.has_ring(layer)) return;
  const std::int64_t room = memory_.layout().select.window;
  const std::ptrdiff_t floats = std::ptrdiff_t{layer.shape.query_heads} * layer.shape.head_dim;
  for (const kv::Slice& s : slices) {
    if (s.decode || (!s.sequence->selects() || spec_of(*s.sequence).window == 0)) continue;
    const QueryRing ring = memory_.query_ring(*s.sequence, layer);
    for (std::int64_t i = std::max<std::int64_t>(0, s.count - room); i < s.count; ++i) {
      const std::int64_t at = s.sequence->length + i;
      ring.at[at % room] = at + 1;
      std::copy_n(x.q + (s.row + i) * floats, floats, ring.rows + at % room * floats);
    }
    for (int h = 0; h < layer.shape.kv_heads; ++h) {  // a prompt is followed by another answer
      ChoiceState& kept = memory_.choice(*s.sequence, layer, h);
      kept.voted_at = 0;
      if (kept.prompt == 0) kept.chosen_at = 0;
    }
  }
}

// Runs of heads [first, first + heads), which have one choice.
void BlockSelection::answer(const kv::LayerStep& step, const kv::Part& p, int first, int heads, int worker) const {
  const SelectSpec& spec = spec_of(p);
  const kv::BlockCut& cut = p.cut;
  const Question q = scratch_.question(worker);
  const Ask what = what_to_ask(step, p, first);
  const std::int64_t position = p.asking_at();
  ChoiceState* const own = keeps_choice(p) ? &memory_.choice(*p.sequence, step.layer(), first) : nullptr;
  std::uint8_t* const picked = q.picked;
  std::fill_n(picked, cut.sealed, std::uint8_t{1});  // first and local blocks
  if (what == Ask::kReuse) {
    ChoiceState& kept = memory_.choice(*p.sequence, slot_layer(step, p), first);
    // Nothing that could be seen vanishes before the next choice: what was local then stays.
    const std::int64_t old = std::min(kept.local, cut.local);
    if (old > cut.initial) std::copy(kept.picked() + cut.initial, kept.picked() + old, picked + cut.initial);
  } else {
    float* const votes = scratch_.answers().votes_at(p.counters + first);
    for (int h = 1; h < heads; ++h) {
      const float* const other = scratch_.answers().votes_at(p.counters + first + h);
      if (spec.vote == Vote::kBest && what == Ask::kChoose)
        for (std::int64_t i = cut.initial; i < cut.local; ++i) votes[i] = std::max(votes[i], other[i]);
      else
        for (std::int64_t i = cut.initial; i < cut.local; ++i) votes[i] += other[i];
    }
    if (what == Ask::kPreselect) {
      // This step reads everything; the next one chooses among what it keeps.
      std::uint8_t* const kept = own->kept(memory_.layout().most_blocks());
      std::fill_n(kept, cut.sealed, std::uint8_t{1});
      const std::int64_t count = spec.preselect > 0 ? spec.preselect : cut.chosen;
      pick(votes, cut.initial, cut.local, count, 0, q.keys, kept);
      own->voted_at = position + 1;
      own->voted_to = cut.local;
      own->chosen_at = 0;
    } else {
      const std::uint8_t* const kept =
          own && !p.prompt && own->voted_at > 0 ? own->kept(memory_.layout().most_blocks()) : nullptr;
      const auto readable = [&](std::int64_t i) { return !kept || i >= own->voted_to || kept[i]; };
      if (spec.selector->dense) {
        for (std::int64_t i = cut.initial; i < cut.local; ++i) picked[i] = readable(i);
      } else {
        if (kept)
          for (std::int64_t i = cut.initial; i < cut.local; ++i)
            if (!readable(i)) votes[i] = -std::numeric_limits<float>::infinity();
        pick(votes, cut.initial, cut.local, cut.chosen, meter_.share_wanted(step, p), q.keys, picked);
        if (kept)
          for (std::int64_t i = cut.initial; i < cut.local; ++i) picked[i] = picked[i] && readable(i);
      }
      if (own) {
        std::copy_n(picked, cut.sealed, own->picked());
        own->chosen_at = position + 1;
        own->local = cut.local;
        own->prompt = p.prompt ? spec.prompt : 0;
      }
    }
  }
  for (int h = first; h < first + heads; ++h)
    scratch_.answers().counts[p.counters + h] =
        runs_of(picked, cut.sealed, spec.block, scratch_.answers().runs_at(p.counters + h));
}

// What choices read comes from the disk together, in as many reads at once as it takes.
void BlockSelection::fetch(const kv::LayerStep& step) {
  wanted_.clear();
  for (const kv::Part& p : step.plan.parts()) {
    if (!p.chosen) continue;
    for (int h = 0; h < step.layer().shape.kv_heads; ++h) {
      std::int32_t before = -1;
      for (const kv::PageRun& run : scratch_.runs(p.counters + h))
        if (run.page != std::exchange(before, run.page))
          wanted_.push_back({h, p.sequence->pages[static_cast<std::size_t>(run.page)]});
    }
  }
  arena_.pages.hot().fetch(step.layer().owner, wanted_);
}

}  // namespace kvasir::select
