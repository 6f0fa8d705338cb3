#include "select/voter.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace kvasir::select {

void NoVotes::vote(const kv::LayerStep&, const kv::Part& p, int, int, float* votes) const {
  std::fill(votes + p.cut.initial, votes + p.cut.local, 0.0f);
}

void KeyVotes::vote(const kv::LayerStep& step, const kv::Part& p, int head, int worker, float* votes) const {
  const SelectSpec& spec = spec_of(p);
  double always = 0;
  meter_.measure(step, p, head, worker, mass_unit(spec), &always);
  const float* const units = scratch_.question(worker).units;
  const std::int64_t per_block = spec.block / mass_unit(spec);
  for (std::int64_t i = p.cut.initial; i < p.cut.local; ++i)
    votes[i] = std::accumulate(units + i * per_block, units + (i + 1) * per_block, 0.0f);
}

std::size_t KeyVotes::bytes_read(const kv::LayerLayout& owner, const kv::Part& p) const {
  const std::int64_t pages = p.cut.sealed / spec_of(p).blocks_per_page();
  return static_cast<std::size_t>(pages * owner.shape.kv_heads) * owner.sealed.k_bytes;
}

// For every block that is to be chosen so many are scored again: among them is what representatives would choose
// (outline_test).
constexpr std::int64_t kAgain = 2;
// An outline has half of a representative's bytes, so outlines and one in so many representatives are three quarters of
// all representatives. With fewer blocks their frames and questions cost more than is saved.
constexpr std::int64_t kOutlinesPay = 4;

// Blocks that are scored by what is stored after outlines were, at most; 0: all, and outlines are not asked.
static std::int64_t scored_again(const kv::Part& p) {
  const std::int64_t some = kAgain * p.cut.chosen;
  return kOutlinesPay * some <= p.cut.local - p.cut.initial ? some : 0;
}

// Scores of whole pages around [initial, local), by their representatives.
void RepresentativeVotes::score(const kv::LayerStep& step, const kv::Part& p, int head, const Question& q,
                                int rows) const {
  const SelectSpec& spec = spec_of(p);
  const kv::LayerLayout& layer = step.owner();
  const std::int64_t per_page = spec.blocks_per_page();
  const std::int64_t first = p.cut.initial / per_page;
  const std::int64_t last = std::min((p.cut.local + per_page - 1) / per_page, p.cut.sealed / per_page);
  for (std::int64_t i = first; i < last; ++i)
    q.summaries[i - first] = arena_.summary(layer, head, p.sequence->pages[static_cast<std::size_t>(i)]);
  summaries().scores(q.summaries, last - first, static_cast<int>(per_page),
                     summary_pitch(*spec.selector, layer.shape.head_dim), q.asked, rows, q.scores + first * per_page,
                     score_stride(memory_.layout()));
}

// The same by their outlines: run by run of pages in consecutive slots that share a frame.
void RepresentativeVotes::score_outlines(const kv::LayerStep& step, const kv::Part& p, int head, const Question& q,
                                         int rows) const {
  const SelectSpec& spec = spec_of(p);
  const Selector& selector = *spec.selector;
  const kv::LayerLayout& layer = step.owner();
  const std::vector<std::int32_t>& slots = p.sequence->pages;
  const int d = layer.shape.head_dim;
  const int pitch = summary_pitch(selector, d);
  const auto blocks = static_cast<int>(spec.blocks_per_page());
  const std::int64_t stride = score_stride(memory_.layout());
  const std::int64_t last = std::min((p.cut.local + blocks - 1) / blocks, p.cut.sealed / blocks);
  const auto slot = [&](std::int64_t page) { return slots[static_cast<std::size_t>(page)]; };
  for (std::int64_t page = p.cut.initial / blocks; page < last;) {
    const FramePages pages = frame_of(page);
    const std::int64_t end = std::min(last, pages.end);
    const std::byte* from[FramePages::kMost];
    for (int i = 0; i < pages.count; ++i) from[i] = arena_.summary(layer, head, slot(pages.from[i]));
    select::outlines().frame(from, pages.count, blocks, selector.width(d), pitch, q.frame);
    // The next frame's, which lie far apart.
    if (const FramePages next = frame_of(pages.end); pages.end < last)
      for (const std::int64_t i : next.from)
        for (int line = 0; line < 2 * blocks * pitch; line += 64)
          __builtin_prefetch(arena_.summary(layer, head, slot(i)) + line);
    select::outlines().ask(q.asked, rows, pitch, q.frame, q.outlined);
    while (page < end) {
      const std::int64_t first = page;
      do ++page;
      while (page < end && slot(page) == slot(page - 1) + 1);
      select::outlines().scores(memory_.outline_tile(layer, head, slot(first)),
                                static_cast<int>(slot(first) % slots_per_tile(blocks)) * blocks,
                                (page - first) * blocks, pitch, q.outlined, rows, q.scores + first * blocks, stride);
    }
  }
}

// The best blocks so far get the scores of their representatives, and votes by these.
void RepresentativeVotes::score_again(const kv::LayerStep& step, const kv::Part& p, int head, const Question& q,
                                      int rows, float* votes) const {
  const SelectSpec& spec = spec_of(p);
  const kv::LayerLayout& layer = step.owner();
  const int pitch = summary_pitch(*spec.selector, layer.shape.head_dim);
  const std::int64_t stride = score_stride(memory_.layout());
  const std::int64_t count = best(votes, p.cut.initial, p.cut.local, scored_again(p), q.spent, q.again);
  for (std::int64_t first = 0; first < count; first += kv::kPageTokens) {
    const std::int64_t n = std::min<std::int64_t>(count - first, kv::kPageTokens);
    const std::int32_t* const some = q.again + first;
    const std::byte* blocks[kv::kPageTokens];
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t page = some[i] / spec.blocks_per_page();
      blocks[i] = arena_.summary(layer, head, p.sequence->pages[static_cast<std::size_t>(page)]) +
                  some[i] % spec.blocks_per_page() * pitch * 2;
      for (int line = 0; line < 2 * pitch; line += 64) __builtin_prefetch(blocks[i] + line);  // they lie anywhere
    }
    summaries().scores(blocks, n, 1, pitch, q.asked, rows, q.fresh, kv::kPageTokens);
    for (int r = 0; r < rows; ++r)
      for (std::int64_t i = 0; i < n; ++i) q.scores[r * stride + some[i]] = q.fresh[r * kv::kPageTokens + i];
    vote_again(spec.vote, q.fresh, kv::kPageTokens, rows, n, q.counts, q.fresh_votes);
    for (std::int64_t i = 0; i < n; ++i) votes[some[i]] = q.fresh_votes[i];
  }
}

void RepresentativeVotes::vote(const kv::LayerStep& step, const kv::Part& p, int head, int worker, float* votes) const {
  const SelectSpec& spec = spec_of(p);
  const Question q = scratch_.question(worker);
  const int rows = load_question(step, p, head, q, worker);
  const std::int64_t again = scored_again(p);
  again > 0 ? score_outlines(step, p, head, q, rows) : score(step, p, head, q, rows);
  select::vote(spec.vote, q.scores, score_stride(memory_.layout()), rows, p.cut.initial, p.cut.local, q.spent, q.counts,
               votes);
  if (again > 0) score_again(step, p, head, q, rows, votes);
  if (Unread::wanted(step, p)) unread_.estimate_all(p, head, rows, q);
}

std::size_t RepresentativeVotes::bytes_read(const kv::LayerLayout& owner, const kv::Part& p) const {
  const SelectSpec& spec = spec_of(p);
  const auto heads = static_cast<std::size_t>(owner.shape.kv_heads);
  const auto sealed = static_cast<std::size_t>(p.cut.sealed);
  const auto pitch = static_cast<std::size_t>(summary_pitch(*spec.selector, owner.shape.head_dim));
  const std::int64_t again = scored_again(p);
  if (again == 0)
    return sealed / static_cast<std::size_t>(spec.blocks_per_page()) * heads * memory_.layout().of(owner).means_offset;
  return heads * (sealed * (pitch + sizeof(float)) + static_cast<std::size_t>(again) * 2 * pitch);
}

}  // namespace kvasir::select
