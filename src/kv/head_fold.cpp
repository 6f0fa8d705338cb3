#include "kv/head_fold.hpp"

#include <algorithm>

#include "kv/shared_groups.hpp"

namespace kvasir::kv {
namespace {

// The position is the first part's: every row sees all of what is folded together.
Rows load_together(const LayerStep& step, std::span<const int> parts, int head, float* q) {
  const auto part = [&](int i) -> const Part& { return step.plan.parts()[static_cast<std::size_t>(i)]; };
  Rows all{q, 0, step.layer().group(), part(parts[0]).position};
  for (const int i : parts) {
    float* const to = q + static_cast<std::ptrdiff_t>(all.count) * step.layer().shape.head_dim;
    all.count += step.load_queries(part(i), head, 0, part(i).tokens, to).count;
  }
  return all;
}

}  // namespace

HeadFold::HeadFold(const LayerStep& step, const Part& part, int head, const PageList& list, int token, int tokens,
                   bool many, int worker)
    : step_(step),
      part_(part),
      sequence_(*part.sequence),
      layer_(step.layer().owner),
      head_(head),
      few_(part.few),
      list_(list),
      size_(fold_size(step.layer(), many ? kItemRows : step.plan.few_rows(), many)),
      scratch_(),
      rows_((scratch_.place(step.scratch(worker), size_), step.load_queries(part, head, token, tokens, scratch_.q))),
      raw_{
          step.owner().raw_k, step.owner().raw_v, {size_.d, {}, nullptr}, {step.owner().shape.head_dim_v, {}, nullptr}},
      sealed_{step.owner().k, step.owner().v, step.arena.head_k(layer_, head), step.arena.head_v(layer_, head)},
      fold_(rows_, size_, scratch_, step.x.scoring.soft_cap, step.x.scoring.rotation, step.slopes(head),
            step.chosen(part, token), step.distances(part, token, head), step.distance_floats()) {}

HeadFold::HeadFold(const LayerStep& step, std::span<const int> parts, int head, const PageList& list, int worker)
    : step_(step),
      part_(step.plan.parts()[static_cast<std::size_t>(parts[0])]),
      sequence_(*part_.sequence),
      layer_(step.layer().owner),
      head_(head),
      few_(true),
      list_(list),
      size_(fold_size(step.layer(), kSharedRows, false)),
      scratch_(),
      rows_((scratch_.place(step.scratch(worker), size_), load_together(step, parts, head, scratch_.q))),
      raw_{
          step.owner().raw_k, step.owner().raw_v, {size_.d, {}, nullptr}, {step.owner().shape.head_dim_v, {}, nullptr}},
      sealed_{step.owner().k, step.owner().v, step.arena.head_k(layer_, head), step.arena.head_v(layer_, head)},
      fold_(rows_, size_, scratch_, step.x.scoring.soft_cap, step.x.scoring.rotation) {}

// Sinks are a segment of one short page.
FoldPage HeadFold::sink_page() const {
  const Layout& l = step_.arena.layout;
  const Blocks b = step_.arena.sinks(layer_, head_, sequence_);
  const int end = static_cast<int>(std::min<std::int64_t>(l.sinks, part_.seen_to(rows_.last())));
  return {{b.k, 0, end, l.sink_capacity}, {b.v, 0, end, l.sink_capacity}, 0};
}

void HeadFold::sinks(const kernel::States& into) {
  const FoldPage page = sink_page();
  fold_.add(raw_, {&page, 1}, true, into);
}

int HeadFold::load(std::int64_t begin, std::int64_t end, PinnedPages* here, FoldPage* pages) const {
  if (begin >= end) return 0;  // a group behind the head's last one
  const Arena& arena = step_.arena;
  const std::int64_t sealed = std::clamp(list_.sealed, begin, end);
  const bool pooled = !arena.layer_at(layer_).local();
  std::int32_t slots[kGroupPages];
  for (std::int64_t place = begin; pooled && place < sealed; ++place)
    slots[place - begin] = sequence_.pages[static_cast<std::size_t>(list_.page(place))];
  if (pooled) here->load({slots, static_cast<std::size_t>(sealed - begin)});
  for (std::int64_t place = begin; place < end; ++place) {
    const auto i = static_cast<std::size_t>(place - begin);
    const std::int64_t index = list_.page(place);
    pages[i] = page_at(place, place >= sealed ? arena.raw(layer_, head_, sequence_, index)
                              : pooled        ? (*here)[i]
                                              : arena.sealed(layer_, head_, sequence_, index));
  }
  return static_cast<int>(sealed - begin);
}

FoldPage HeadFold::page_at(std::int64_t place, const Blocks& b) const {
  const std::int64_t index = list_.page(place);
  const int first = std::max(step_.arena.first_row(index), list_.first_token(place));
  const auto seen = static_cast<int>(
      std::min<std::int64_t>(list_.end_token(place), part_.seen_to(rows_.last()) - index * kPageTokens));
  const int last = std::max(first, seen);
  return {{b.k, first, last, kPageTokens}, {b.v, first, last, kPageTokens}, index * kPageTokens, list_.hidden(place)};
}

// With few rows blocks are fetched ahead, in the order in which they are read.
void HeadFold::group(std::int64_t group, const Ahead& after, const kernel::States& into) {
  const std::int64_t begin = std::max(group * kGroupPages, list_.begin);
  const std::int64_t end = std::min((group + 1) * kGroupPages, list_.end);
  FoldPage pages[kGroupPages];
  PinnedPages here(step_.arena, layer_, head_);
  const int sealed = load(begin, end, &here, pages);
  const auto count = static_cast<int>(std::max<std::int64_t>(0, end - begin));
  if (few_) {
    const int runs[] = {0, sealed, count};  // keys, then values of the sealed pages; then of the raw ones
    const auto block = [&](int i) -> const std::byte* {
      if (i >= 2 * count) return after[static_cast<std::size_t>(i - 2 * count)];
      const int run = i < 2 * sealed ? 0 : 1;
      const int n = runs[run + 1] - runs[run];
      const int at = i - 2 * runs[run];
      return at < n ? pages[runs[run] + at].k.block : pages[runs[run] + at - n].v.block;
    };
    for (int run = 0, i = 0; run < 2; ++run) {
      for (int at = runs[run]; at < runs[run + 1]; ++at) pages[at].k.next = block(i++ + kFetchAhead);
      for (int at = runs[run]; at < runs[run + 1]; ++at) pages[at].v.next = block(i++ + kFetchAhead);
    }
  }
  clear(into);
  const std::span<const FoldPage> all(pages, static_cast<std::size_t>(count));
  fold_.add(sealed_, all.first(static_cast<std::size_t>(sealed)), true, into);
  fold_.add(raw_, all.subspan(static_cast<std::size_t>(sealed)), sealed == 0, into);
}

// Pages of one shift that follow each other are taken together.
void HeadFold::borrowed(std::int64_t group, const kernel::States& into) {
  const Borrowed& b = *sequence_.borrowed;
  const Rotation* const rotation = step_.x.scoring.rotation;
  // Of a window, pages are passed over that no row reaches back to.
  const std::int64_t last = rows_.place(rows_.last());
  const std::int64_t from = rows_.window > 0 ? rows_.seen_from(rows_.place(rows_.first)) : 0;
  const auto n = static_cast<std::int64_t>(b.pages().size());
  const std::int64_t end = std::min<std::int64_t>((group + 1) * kGroupPages, n);
  clear(into);
  FoldPage pages[kGroupPages];
  std::int32_t slots[kGroupPages];
  PinnedPages here(step_.arena, layer_, head_);
  bool first = true;
  for (std::int64_t i = group * kGroupPages; i < end;) {
    const BorrowedPage& run = b.pages()[static_cast<std::size_t>(i)];
    std::size_t count = 0;
    for (; i < end && b.pages()[static_cast<std::size_t>(i)].shift == run.shift; ++i) {
      const BorrowedPage& page = b.pages()[static_cast<std::size_t>(i)];
      if (page.position + page.begin > last || (rows_.window > 0 && page.position + page.end <= from)) continue;
      slots[count] = page.slot;
      pages[count++] = {{nullptr, page.begin, page.end, kPageTokens},
                        {nullptr, page.begin, page.end, kPageTokens},
                        page.position,
                        page.hides ? page.hidden : nullptr,
                        true};
    }
    if (count == 0) continue;
    here.load({slots, count});
    for (std::size_t k = 0; k < count; ++k) pages[k].k.block = here[k].k, pages[k].v.block = here[k].v;
    Segment segment = sealed_;
    segment.shift = rotation ? b.shift(run) : 0;
    segment.angles = rotation ? b.angles(*rotation, run) : nullptr;
    fold_.add(segment, {pages, count}, first, into);
    first = false;
  }
}

// They are read as they will lie in the cache, which has only some of them yet.
void HeadFold::both(const kernel::States& into) {
  const LayerLayout& layer = step_.layer();
  const std::int64_t begin = part_.both.begin, end = part_.both.end;
  auto* const k = reinterpret_cast<std::byte*>(scratch_.k_rows);
  auto* const v = reinterpret_cast<std::byte*>(scratch_.v_rows);
  clear(into);
  for (std::int64_t at = begin; at < end; at += kPageTokens) {
    const int n = static_cast<int>(std::min<std::int64_t>(end - at, kPageTokens));
    const std::int64_t row = part_.row + (at - part_.position);
    const TokenRows keys = step_.tokens_of(Side::kKeys, row, head_),
                    values = step_.tokens_of(Side::kValues, row, head_);
    layer.raw_k->write_k(k, kPageTokens, 0, n, keys.data, keys.stride, layer.shape.head_dim);
    layer.raw_v->write_v(v, kPageTokens, 0, n, values.data, values.stride, layer.shape.head_dim_v);
    const FoldPage page{{k, 0, n, kPageTokens}, {v, 0, n, kPageTokens}, at, nullptr, false, true};
    fold_.add(raw_, {&page, 1}, at == begin, into);
  }
}

void HeadFold::sink_logits() {
  const float* const logits = step_.sink_logits(part_, static_cast<int>(rows_.first - part_.position), head_);
  if (!logits) return;
  clear(scratch_.run);
  for (int r = 0; r < rows_.count; ++r) {
    scratch_.run.max[r] = logits[r / rows_.group * step_.sink_pitch() + r % rows_.group] * kernel::kLog2E;
    scratch_.run.sum[r] = 1.0f;
  }
  merge(scratch_.run, scratch_.total);
}

}  // namespace kvasir::kv
