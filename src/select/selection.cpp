#include "select/selection.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/clock.hpp"

namespace kvasir::kv {

// The layer whose choice this layer shares: itself, or an earlier one.
const LayerLayout& Selection::slot_layer(const LayerStep& step, const Part& p) const {
  const SelectSpec& spec = p.sequence->select;
  const LayerLayout& here = step.layer();
  if (p.prompt) return here;  // a step takes a layer through all its positions before the next layer asks
  const int slot = here.asked - (here.asked - spec.dense_layers) % spec.layer_step;
  const LayerLayout& layer = arena_.layer_at(arena_.layout.asked[static_cast<std::size_t>(slot)]);
  return layer.shape.kv_heads == here.shape.kv_heads ? layer : here;
}

Selection::Ask Selection::what_to_ask(const LayerStep& step, const Part& p, int head) const {
  const SelectSpec& spec = p.sequence->select;
  if (!p.keeps_choice()) return Ask::kChoose;
  if (spec.shared) head = 0;
  const LayerLayout& slot = slot_layer(step, p);
  const ChoiceState& kept = arena_.choice(*p.sequence, slot, head);
  const int positions = p.prompt ? spec.prompt : spec.token_step;
  if (kept.chosen_at > 0 && kept.prompt == (p.prompt ? positions : 0) &&
      (kept.chosen_at - 1) / positions == p.asking_at() / positions &&
      (slot.asked != step.layer().asked || positions > 1))
    return Ask::kReuse;
  if (p.prompt) return Ask::kChoose;
  if (spec.preselect != 0 && arena_.choice(*p.sequence, step.layer(), head).voted_at == 0) return Ask::kPreselect;
  return Ask::kChoose;
}

void Selection::run(const LayerStep& step, Plan& plan) {
  if (plan.asks()) {
    const double start = steady_seconds();
    choose(step, plan);
    seconds_ += steady_seconds() - start;
  }
  for (const Part& p : plan.parts()) meter_.count(step, p, scored_again(p));
  if (plan.asks() && arena_.pages.on_disk(step.layer())) fetch(step);
}

void Selection::choose(const LayerStep& step, Plan& plan) {
  const std::span<const Part> parts = plan.parts();
  for (const Part& p : parts)  // an earlier step measured that its positions need everything
    if (p.chosen && p.prompt && p.keeps_choice() && arena_.choice(*p.sequence, step.layer(), 0).whole_at == p.first + 1)
      plan.read_all(p);
  const int heads = step.layer().shape.kv_heads;
  bool shared = false;
  bool measured = false;
  for (const Part& p : parts) {
    if (!p.chosen) continue;
    const SelectSpec& spec = p.sequence->select;
    shared = shared || spec.shared;
    measured = measured || p.measured;
  }
  step.each_head(team_, [&](const Part& p, int head, int worker) {
    if (!p.chosen) return;
    ask(step, p, head, worker);
    if (!p.sequence->select.shared) answer(step, p, head, 1, worker);
  });
  if (shared)
    team_.parallel_for(
        static_cast<std::int64_t>(parts.size()), 1, [&](std::int64_t begin, std::int64_t end, int worker) {
          for (auto i = begin; i < end; ++i)
            if (const Part& p = parts[static_cast<std::size_t>(i)]; p.chosen && p.sequence->select.shared)
              answer(step, p, 0, heads, worker);
        });
  const bool corrected =
      std::any_of(parts.begin(), parts.end(), [&](const Part& p) { return Unread::wanted(step, p); });
  if (corrected)
    step.each_head(team_, [&](const Part& p, int head, int worker) {
      if (Unread::wanted(step, p)) unread_.estimate(step, p, head, worker);
    });
  if (!measured) {
    for (const Part& p : parts)
      if (p.chosen) std::fill_n(scratch_.answers().masses + p.counters, heads, -1.0);
    return;
  }
  step.each_head(team_, [&](const Part& p, int head, int worker) {
    scratch_.answers().masses[p.counters + head] = -1;
    if (p.measured) meter_.measure_choice(step, p, head, worker);
  });
  meter_.check_floor(step, plan);
}

// Votes of one head. Those outside [initial, local) are not written.
void Selection::ask(const LayerStep& step, const Part& p, int head, int worker) const {
  const Layout& l = arena_.layout;
  const SelectSpec& spec = p.sequence->select;
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
  const Selector& selector = *spec.selector;
  if (selector.exact) {
    double always = 0;
    meter_.measure(step, p, head, worker, mass_unit(spec), &always);
    const float* const units = scratch_.question(worker).units;
    const std::int64_t per_block = spec.block / mass_unit(spec);
    for (std::int64_t i = p.cut.initial; i < p.cut.local; ++i)
      votes[i] = std::accumulate(units + i * per_block, units + (i + 1) * per_block, 0.0f);
    return;
  }
  if (!selector.width) return std::fill(votes + p.cut.initial, votes + p.cut.local, 0.0f);
  const Question q = scratch_.question(worker);
  const int rows = load_question(step, p, head, q, worker);
  const std::int64_t again = scored_again(p);
  again > 0 ? score_outlines(step, p, head, q, rows) : score(step, p, head, q, rows);
  vote(spec.vote, q.scores, score_stride(l), rows, p.cut.initial, p.cut.local, q.spent, q.counts, votes);
  if (again > 0) score_again(step, p, head, q, rows, votes);
  if (Unread::wanted(step, p)) unread_.estimate_all(p, head, rows, q);
}

// The shares of mass, summed over the newest tokens of the prompt, in place of those of the token that asks. False: the
// sequence has no queries of them.
bool Selection::measure_window(const LayerStep& step, const Part& p, int head, int worker, int unit) const {
  const LayerLayout& layer = step.layer();
  const int window = p.sequence->select.window;
  if (window == 0 || layer.ring_bytes == 0) return false;
  const QueryRing ring = arena_.query_ring(*p.sequence, layer);
  const Question q = scratch_.question(worker);
  const auto units = static_cast<std::size_t>(p.cut.sealed * (p.sequence->select.block / unit));
  // Their keys are those of the pages as they are now, whatever was sealed since.
  const PageList all = step.plan.list(p, nullptr, -1);
  const Tensors theirs{step.x.layer, ring.rows, nullptr, nullptr, nullptr, step.x.scoring};
  const LayerStep there{step.arena, step.plan, theirs, step.workers, step.worker_floats};
  float* const sum = q.scores;
  int found = 0;
  for (std::int64_t at = std::max<std::int64_t>(0, p.asking_at() - window); at < p.asking_at(); ++at) {
    const auto slot = static_cast<int>(at % arena_.layout.select.window);
    if (ring.at[slot] != at + 1) continue;
    if (found++ == 0) std::fill_n(sum, units, 0.0f);
    Part row = p;
    row.position = at;
    row.block = at / kPageTokens;
    row.row = slot;
    row.tokens = 1;
    PageList seen = all;
    seen.end = std::min(all.end, row.block + 1);
    double always = 0;
    meter_.measure(there, row, seen, head, worker, unit, &always);
    for (std::size_t i = 0; i < units; ++i) sum[i] += q.units[i];
  }
  if (found > 0) std::copy_n(sum, units, q.units);
  return found > 0;
}

void Selection::remember(std::span<const Slice> slices, const Tensors& x) const {
  const LayerLayout& layer = arena_.layer_at(x.layer);
  if (layer.ring_bytes == 0) return;
  const std::int64_t room = arena_.layout.select.window;
  const std::ptrdiff_t floats = std::ptrdiff_t{layer.shape.query_heads} * layer.shape.head_dim;
  for (const Slice& s : slices) {
    if (s.decode || s.sequence->select.window == 0) continue;
    const QueryRing ring = arena_.query_ring(*s.sequence, layer);
    for (std::int64_t i = std::max<std::int64_t>(0, s.count - room); i < s.count; ++i) {
      const std::int64_t at = s.sequence->length + i;
      ring.at[at % room] = at + 1;
      std::copy_n(x.q + (s.row + i) * floats, floats, ring.rows + at % room * floats);
    }
    for (int h = 0; h < layer.shape.kv_heads; ++h) {  // a prompt is followed by another answer
      ChoiceState& kept = arena_.choice(*s.sequence, layer, h);
      kept.voted_at = 0;
      if (kept.prompt == 0) kept.chosen_at = 0;
    }
  }
}

// For every block that is to be chosen so many are scored again: among them is what representatives would choose
// (outline_test).
constexpr std::int64_t kAgain = 2;
// An outline has half of a representative's bytes, so outlines and one in so many representatives are three quarters of
// all representatives. With fewer blocks their frames and questions cost more than is saved.
constexpr std::int64_t kOutlinesPay = 4;

std::int64_t Selection::scored_again(const Part& p) {
  const std::int64_t some = kAgain * p.cut.chosen;
  return kOutlinesPay * some <= p.cut.local - p.cut.initial ? some : 0;
}

// Scores of whole pages around [initial, local), by their representatives.
void Selection::score(const LayerStep& step, const Part& p, int head, const Question& q, int rows) const {
  const SelectSpec& spec = p.sequence->select;
  const LayerLayout& layer = step.owner();
  const std::int64_t per_page = spec.blocks_per_page();
  const std::int64_t first = p.cut.initial / per_page;
  const std::int64_t last = std::min((p.cut.local + per_page - 1) / per_page, p.cut.sealed / per_page);
  for (std::int64_t i = first; i < last; ++i)
    q.summaries[i - first] = arena_.summary(layer, head, p.sequence->pages[static_cast<std::size_t>(i)]);
  summaries().scores(q.summaries, last - first, static_cast<int>(per_page),
                     summary_pitch(*spec.selector, layer.shape.head_dim), q.asked, rows, q.scores + first * per_page,
                     score_stride(arena_.layout));
}

// The same by their outlines: run by run of pages in consecutive slots that share a frame.
void Selection::score_outlines(const LayerStep& step, const Part& p, int head, const Question& q, int rows) const {
  const SelectSpec& spec = p.sequence->select;
  const Selector& selector = *spec.selector;
  const LayerLayout& layer = step.owner();
  const std::vector<std::int32_t>& slots = p.sequence->pages;
  const int d = layer.shape.head_dim;
  const int pitch = summary_pitch(selector, d);
  const auto blocks = static_cast<int>(spec.blocks_per_page());
  const std::int64_t stride = score_stride(arena_.layout);
  const std::int64_t last = std::min((p.cut.local + blocks - 1) / blocks, p.cut.sealed / blocks);
  const auto slot = [&](std::int64_t page) { return slots[static_cast<std::size_t>(page)]; };
  for (std::int64_t page = p.cut.initial / blocks; page < last;) {
    const FramePages pages = frame_of(page);
    const std::int64_t end = std::min(last, pages.end);
    const std::byte* from[FramePages::kMost];
    for (int i = 0; i < pages.count; ++i) from[i] = arena_.summary(layer, head, slot(pages.from[i]));
    outlines().frame(from, pages.count, blocks, selector.width(d), pitch, q.frame);
    // The next frame's, which lie far apart.
    if (const FramePages next = frame_of(pages.end); pages.end < last)
      for (const std::int64_t i : next.from)
        for (int line = 0; line < 2 * blocks * pitch; line += 64)
          __builtin_prefetch(arena_.summary(layer, head, slot(i)) + line);
    outlines().ask(q.asked, rows, pitch, q.frame, q.outlined);
    while (page < end) {
      const std::int64_t first = page;
      do ++page;
      while (page < end && slot(page) == slot(page - 1) + 1);
      outlines().scores(arena_.outline_tile(layer, head, slot(first)),
                        static_cast<int>(slot(first) % slots_per_tile(blocks)) * blocks, (page - first) * blocks, pitch,
                        q.outlined, rows, q.scores + first * blocks, stride);
    }
  }
}

// The best blocks so far get the scores of their representatives, and votes by these.
void Selection::score_again(const LayerStep& step, const Part& p, int head, const Question& q, int rows,
                            float* votes) const {
  const SelectSpec& spec = p.sequence->select;
  const LayerLayout& layer = step.owner();
  const int pitch = summary_pitch(*spec.selector, layer.shape.head_dim);
  const std::int64_t stride = score_stride(arena_.layout);
  const std::int64_t count = best(votes, p.cut.initial, p.cut.local, scored_again(p), q.spent, q.again);
  for (std::int64_t first = 0; first < count; first += kPageTokens) {
    const std::int64_t n = std::min<std::int64_t>(count - first, kPageTokens);
    const std::int32_t* const some = q.again + first;
    const std::byte* blocks[kPageTokens];
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t page = some[i] / spec.blocks_per_page();
      blocks[i] = arena_.summary(layer, head, p.sequence->pages[static_cast<std::size_t>(page)]) +
                  some[i] % spec.blocks_per_page() * pitch * 2;
      for (int line = 0; line < 2 * pitch; line += 64) __builtin_prefetch(blocks[i] + line);  // they lie anywhere
    }
    summaries().scores(blocks, n, 1, pitch, q.asked, rows, q.fresh, kPageTokens);
    for (int r = 0; r < rows; ++r)
      for (std::int64_t i = 0; i < n; ++i) q.scores[r * stride + some[i]] = q.fresh[r * kPageTokens + i];
    vote_again(spec.vote, q.fresh, kPageTokens, rows, n, q.counts, q.fresh_votes);
    for (std::int64_t i = 0; i < n; ++i) votes[some[i]] = q.fresh_votes[i];
  }
}

// Runs of heads [first, first + heads), which have one choice.
void Selection::answer(const LayerStep& step, const Part& p, int first, int heads, int worker) const {
  const SelectSpec& spec = p.sequence->select;
  const BlockCut& cut = p.cut;
  const Question q = scratch_.question(worker);
  const Ask what = what_to_ask(step, p, first);
  const std::int64_t position = p.asking_at();
  ChoiceState* const own = p.keeps_choice() ? &arena_.choice(*p.sequence, step.layer(), first) : nullptr;
  std::uint8_t* const picked = q.picked;
  std::fill_n(picked, cut.sealed, std::uint8_t{1});  // first and local blocks
  if (what == Ask::kReuse) {
    ChoiceState& kept = arena_.choice(*p.sequence, slot_layer(step, p), first);
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
      std::uint8_t* const kept = own->kept(arena_.layout.most_blocks());
      std::fill_n(kept, cut.sealed, std::uint8_t{1});
      const std::int64_t count = spec.preselect > 0 ? spec.preselect : cut.chosen;
      pick(votes, cut.initial, cut.local, count, 0, q.keys, kept);
      own->voted_at = position + 1;
      own->voted_to = cut.local;
      own->chosen_at = 0;
    } else {
      const std::uint8_t* const kept =
          own && !p.prompt && own->voted_at > 0 ? own->kept(arena_.layout.most_blocks()) : nullptr;
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
void Selection::fetch(const LayerStep& step) {
  wanted_.clear();
  for (const Part& p : step.plan.parts()) {
    if (!p.chosen) continue;
    for (int h = 0; h < step.layer().shape.kv_heads; ++h) {
      std::int32_t before = -1;
      for (const PageRun& run : scratch_.runs(p.counters + h))
        if (run.page != std::exchange(before, run.page))
          wanted_.push_back({h, p.sequence->pages[static_cast<std::size_t>(run.page)]});
    }
  }
  arena_.pages.hot().fetch(step.layer().owner, wanted_);
}

}  // namespace kvasir::kv
