#include "kv/plan.hpp"

#include <algorithm>

namespace kvasir::kv {

Plan::Plan(const Layout& layout, int threads, int max_slices) : layout_(layout), threads_(threads) {
  const auto n = static_cast<std::size_t>(max_slices);
  done_.reserve(n);
  parts_.reserve(n);
  prepared_.reserve(n);
}

void Plan::start(int layer, std::span<const Slice> slices) {
  layer_ = &layout_.layers[static_cast<std::size_t>(layer)];
  slices_ = slices;
  done_.assign(slices.size(), 0);
}

bool Plan::next() {
  parts_.clear();
  prepared_.clear();
  asks_ = false;
  const bool shared = layout_.layers.data() + layer_->owner != layer_;
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    const Slice& s = slices_[i];
    if (done_[i] == s.count) continue;
    Part p{};
    p.sequence = s.sequence;
    p.position = s.sequence->length + done_[i];
    p.block = p.position / kPageTokens;
    p.row = s.row + done_[i];
    p.tokens = static_cast<int>(std::min<std::int64_t>(
        {s.count - done_[i], (p.block + 1) * kPageTokens - p.position, layout_.next_seal(p.position) - p.position}));
    for (BothWays b : s.both) {
      if (b.in_windows && layer_->shape.window == 0) continue;
      if (s.sequence->borrowed) {
        const Places& places = s.sequence->borrowed->places();
        b.begin = places.first_from(b.begin);
        b.end = places.first_from(b.end - 1) + 1;
      }
      const std::int64_t border = p.position < b.begin ? b.begin : b.end;
      if (border <= p.position) continue;
      if (border == b.end) p.both = b;
      p.tokens = static_cast<int>(std::min<std::int64_t>(p.tokens, border - p.position));
      break;
    }
    if (s.decode) p.tokens = std::min(p.tokens, drafted_together());
    const std::int64_t sealed = layout_.sealed_at(p.position);
    const PageSelector* const selector = p.sequence->selector.get();
    const bool asks = p.sequence->selects() && p.both.end == 0 && sealed > 0 && !s.sequence->borrowed &&
                      layer_->asked >= 0 && selector->asks(*layer_);
    if (asks && !s.decode) selector->cut_prompt(layout_, &p);
    done_[i] += p.tokens;
    p.seals = !shared && layer_->seals() && sealed > layout_.sealed_at(p.position - 1);
    p.few =
        p.both.end == 0 && layer_->shape.chooses == 0 && layer_->few(p.tokens) && (layer_->one_arithmetic || s.decode);
    p.counters = static_cast<int>(parts_.size()) * layer_->shape.kv_heads;
    p.borrowed_groups = s.sequence->borrowed ? static_cast<int>(s.sequence->borrowed->groups()) : 0;
    if (asks) selector->decide(layout_, s.decode, &p);
    asks_ = asks_ || p.chosen;
    if (!shared && (!p.few || p.seals || p.reads_keys || s.sequence->borrowed))
      prepared_.push_back(static_cast<int>(parts_.size()));
    parts_.push_back(p);
  }
  return !parts_.empty();
}

// Drafted tokens behind a generated one that are attended to in one stage. Each has the bits that it has alone: a
// selector is asked for every token, and what many rows would compute in floats is done by few.
int Plan::drafted_together() const {
  if (layout_.selects() && layer_->shape.window == 0) return 1;
  if (layer_->one_arithmetic) return kPageTokens;
  return std::max(1, kFewRows / layer_->group());
}

// count < 0: no selector chose.
PageList Plan::list(const Part& p, const PageRun* chosen, int count) const {
  const std::int64_t sealed = layout_.sealed_at(p.position);
  if (count < 0) {
    const std::int64_t first = layer_->first_page(p.position);
    return {first, p.block + 1, std::max(first, sealed)};
  }
  return {0, count + p.block + 1 - sealed, count, chosen, sealed};
}

void Plan::place_few(Part& p, int groups) {
  const int heads = layer_->shape.kv_heads;
  p.items_per_head = groups;
  p.states = states_;
  states_ += static_cast<std::int64_t>(heads) * (groups + 1) * static_cast<std::int64_t>(layout_.state_floats_one());
}

void Plan::place_many(Part& p) {
  const int heads = layer_->shape.kv_heads;
  const int group = layer_->group();
  const int rows = p.tokens * group;
  const int wanted = (4 * threads_ + heads - 1) / heads;  // a few items per thread, so that they end together
  const int pieces = std::max((rows + kItemRows - 1) / kItemRows, std::min(wanted, (rows + 47) / 48));
  p.tokens_per_item = std::max(1, (p.tokens + pieces - 1) / pieces);
  if (p.tokens_per_item * group > kItemRows) p.tokens_per_item = std::max(1, kItemRows / group);
  p.items_per_head = (p.tokens + p.tokens_per_item - 1) / p.tokens_per_item;
}

// Of generated tokens most items are shared out beforehand: neighbours read on where the one before ended, and asking
// for more takes time (team.hpp). Few are all shared out.
void Plan::share_out() {
  const bool all_few = std::all_of(parts_.begin(), parts_.end(), [](const Part& p) { return p.few; });
  const std::int64_t threads = threads_, fair = items_ / threads;
  first_ = !all_few ? 1 : fair < 8 ? (items_ + threads - 1) / threads : fair * 7 / 8;
}

}  // namespace kvasir::kv
