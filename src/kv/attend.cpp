#include "kv/attend.hpp"

#include <algorithm>

namespace kvasir::kv {
Attention::Attention(Team& team, const Arena& arena, int max_slices)
    : team_(team),
      arena_(arena),
      plan_(arena.layout, team.size(), max_slices),
      device_(arena, max_slices),
      worker_floats_(round_up(arena.layout.worker_floats())),
      workers_(tensor::Tag::kScratch, static_cast<std::size_t>(team.size()) * worker_floats_ * sizeof(float)),
      states_(tensor::Tag::kScratch, arena.layout.state_floats() * sizeof(float)) {
  const Layout& l = arena.layout;
  selected_.resize(arena.sequences.size());
  sparse_.resize(arena.sequences.size());
  figures_.resize(arena.sequences.size());
  for (SelectionFigures& f : figures_) f.layers.resize(l.asked.size()), f.prompts.resize(l.asked.size());
  pending_ = std::make_unique<std::atomic<int>[]>(static_cast<std::size_t>(max_slices) *
                                                  static_cast<std::size_t>(l.most_heads()));
  answers_ = tensor::Buffer(tensor::Tag::kScratch, l.answer_bytes(max_slices));
  if (answers_.size() > 0)
    to_ = place_answers(answers_.data(), l,
                        static_cast<std::size_t>(max_slices) * static_cast<std::size_t>(l.most_heads()));
  questions_ = tensor::Buffer(tensor::Tag::kScratch, static_cast<std::size_t>(team.size()) * l.question_bytes());
}

void Attention::reserve(std::span<const Slice> slices) {
  // Any slice may have a short part at a block boundary that is cut by groups.
  const std::size_t bytes = slices.size() * arena_.layout.state_floats() * sizeof(float);
  if (bytes > states_.size()) states_ = tensor::Buffer(tensor::Tag::kScratch, bytes);
}

Attention::Segments Attention::segments(const Part& p, int head, bool whole) const {
  const int owner = plan_.layer().owner;
  const LayerLayout& l = arena_.layer_at(owner);
  const Head raw_k{l.shape.head_dim, {}, nullptr};
  const Head raw_v{l.shape.head_dim_v, {}, nullptr};
  return {owner,
          head,
          *p.sequence,
          whole ? plan_.list(p, nullptr, -1) : list(p, head),
          {l.raw_k, l.raw_v, raw_k, raw_v},
          {l.k, l.v, arena_.head_k(owner, head), arena_.head_v(owner, head)}};
}

PageList Attention::list(const Part& p, int head) const {
  if (!p.chosen) return plan_.list(p, nullptr, -1);
  return plan_.list(p, to_.runs_at(p.counters + head), chosen_count(p, head));
}

kernel::States Attention::state(const Part& p, int head, std::int64_t index) const {
  const Layout& l = arena_.layout;
  float* at = states_.as<float>() + p.states +
              (static_cast<std::int64_t>(head) * (p.items_per_head + 1) + index) *
                  static_cast<std::int64_t>(l.state_floats_one());
  const std::size_t rows = round_up(static_cast<std::size_t>(l.few_rows()));
  return {at, at + rows, at + 2 * rows};
}

Rows Attention::load_rows(const Tensors& x, const Part& p, int head, int token, int tokens, float* q) const {
  const LayerShape& s = plan_.layer().shape;
  const int d = s.head_dim;
  const int group = s.group();
  const std::int64_t row_floats = static_cast<std::int64_t>(s.query_heads) * d;
  for (int t = 0; t < tokens; ++t)
    kernel::attention().scale_rows(x.q + (p.row + token + t) * row_floats + static_cast<std::int64_t>(head) * group * d,
                                   d, group, d, x.scoring.scale, q + static_cast<std::int64_t>(t) * group * d);
  return {q,
          tokens * group,
          group,
          p.position + token,
          s.window,
          s.chunked,
          p.sequence->borrowed ? &p.sequence->borrowed->places() : nullptr};
}

// Rows of k or v from `row` of the batch on, of one head.
TokenRows Attention::tokens_of(const Tensors& x, Side side, std::int64_t row, int head) const {
  const LayerShape& s = plan_.layer().shape;
  if (side == Side::kValues && s.latent) return {};
  const std::int64_t d = side == Side::kKeys ? s.head_dim : s.head_dim_v;
  return {(side == Side::kKeys ? x.k : x.v) + (row * s.kv_heads + head) * d, s.kv_heads * d};
}

void Attention::run(std::span<const Slice> slices, const Tensors& x) {
  make_angles(slices, x);
  plan_.start(x.layer, slices);
  const int heads = plan_.layer().shape.kv_heads;
  while (plan_.next()) {
    const std::span<const Part> parts = plan_.parts();
    const std::span<const int> prepared = plan_.prepared();
    team_.parallel_for(2 * static_cast<std::int64_t>(prepared.size()) * heads, 1,
                       [&](std::int64_t begin, std::int64_t end, int worker) {
                         for (auto i = begin; i < end; ++i)
                           prepare(x,
                                   parts[static_cast<std::size_t>(prepared[static_cast<std::size_t>(i / (2 * heads))])],
                                   static_cast<int>(i / 2 % heads), i % 2 == 0 ? Side::kKeys : Side::kValues, worker);
                       });
    if (plan_.asks()) select(x);
    for (const Part& p : parts) count_selected(p);
    if (plan_.asks() && arena_.pages.on_disk(plan_.layer())) fetch_chosen();
    plan_.share([&](const Part& p, int head) { return chosen_count(p, head); });
    begin_away(x);
    for (const Part& p : parts)  // heads of which groups are away are finished when these are back
      for (int h = 0; p.few && h < heads; ++h)
        pending_[static_cast<std::size_t>(p.counters + h)].store(p.items_per_head + device_.any(p, h),
                                                                 std::memory_order_relaxed);
    team_.parallel_for(plan_.items(), 1, plan_.first_piece(), [&](std::int64_t begin, std::int64_t end, int worker) {
      std::size_t at = 0;
      for (auto i = begin; i < end; ++i) {
        while (at + 1 < parts.size() && parts[at + 1].first_item <= i) ++at;
        const Part& p = parts[at];
        const auto head = static_cast<int>((i - p.first_item) / p.items_per_head);
        const auto piece = static_cast<int>((i - p.first_item) % p.items_per_head);
        if (p.few) {
          attend_few(x, p, head, piece, worker);
        } else {
          attend_many(x, p, head, piece, worker);
        }
      }
    });
    end_away(x);
  }
}

void Attention::begin_away(const Tensors& x) {
  device_.clear();
  const LayerLayout& layer = plan_.layer();
  if (!arena_.pages.folds(layer.owner) || x.scoring.slopes) return;
  const int heads = layer.shape.kv_heads;
  const std::span<const Part> parts = plan_.parts();
  for (const Part& p : parts)
    for (int h = 0; p.few && h < heads; ++h) device_.add(p, h, list(p, h));
  if (!device_.any()) return;
  team_.parallel_for(static_cast<std::int64_t>(parts.size()) * heads, 1,
                     [&](std::int64_t begin, std::int64_t end, int worker) {
                       for (auto i = begin; i < end; ++i)
                         make_start(x, parts[static_cast<std::size_t>(i / heads)], static_cast<int>(i % heads), worker);
                     });
  device_.start(layer.owner, layer.shape, x.scoring.soft_cap, parts,
                [&](const Part& p, int head, std::int64_t group) { return group_state(p, head, group); });
}

// A head's queries for the device, the state of its sinks, and what a total begins with.
void Attention::make_start(const Tensors& x, const Part& p, int head, int worker) const {
  const auto runs = device_.of(p, head);
  if (runs.empty()) return;
  const Item item(plan_.layer(), arena_.layout.few_rows(), false, scratch(worker));
  float* const q = device_.queries(p, head);
  const Rows rows = load_rows(x, p, head, 0, p.tokens, q);
  const Segments s = segments(p, head);
  const auto& kernels = kernel::attention();
  const kernel::States sinks = state(p, head, 0);
  if (arena_.layout.sinks > 0) {
    Fold fold(rows, item.size, item.scratch, x.scoring.soft_cap, x.scoring.turn);
    kernels.clear(rows.count, item.size.dv, sinks);
    fold_sinks(s, rows, fold, sinks);
  }
  if (runs.front().total) {
    const kernel::States start = group_state(p, head, 1);
    kernels.clear(rows.count, item.size.dv, start);
    if (arena_.layout.sinks > 0) kernels.fold(rows.count, item.size.dv, sinks, start);
  }
  if (s.sealed.k->k.to_basis) s.sealed.k->k.to_basis(s.sealed.head_k, rows.count, q, item.size.d);
}

void Attention::end_away(const Tensors& x) {
  if (!device_.any()) return;
  const bool back = device_.wait();
  const int heads = plan_.layer().shape.kv_heads;
  const std::span<const Part> parts = plan_.parts();
  team_.parallel_for(static_cast<std::int64_t>(parts.size()) * heads, 1,
                     [&](std::int64_t begin, std::int64_t end, int worker) {
                       for (auto i = begin; i < end; ++i) {
                         const Part& p = parts[static_cast<std::size_t>(i / heads)];
                         const auto head = static_cast<int>(i % heads);
                         if (!device_.any(p, head)) continue;
                         if (!back) {
                           const Item item(plan_.layer(), arena_.layout.few_rows(), false, scratch(worker));
                           const Rows rows = load_rows(x, p, head, 0, p.tokens, item.scratch.q);
                           const Segments s = segments(p, head);
                           Fold fold(rows, item.size, item.scratch, x.scoring.soft_cap, x.scoring.turn);
                           for (const DeviceFolds::Run& run : device_.of(p, head))
                             for (auto g = run.first; g < run.end; ++g)
                               fold_group(s, p, rows, g, fold, group_state(p, head, g));
                         }
                         finish_few(x, p, head, worker);
                       }
                     });
}

// What choices read comes from the disk together, in as many reads at once as it takes.
void Attention::fetch_chosen() {
  wanted_.clear();
  for (const Part& p : plan_.parts()) {
    if (!p.chosen) continue;
    for (int h = 0; h < plan_.layer().shape.kv_heads; ++h) {
      const PageRun* const runs = to_.runs_at(p.counters + h);
      for (int i = 0; i < chosen_count(p, h); ++i)
        if (i == 0 || runs[i].page != runs[i - 1].page)
          wanted_.push_back({h, p.sequence->pages[static_cast<std::size_t>(runs[i].page)]});
    }
  }
  arena_.pages.hot().fetch(plan_.layer().owner, wanted_);
}

// So that no item has to compute angles of the pages that sequences borrow.
void Attention::make_angles(std::span<const Slice> slices, const Tensors& x) const {
  for (const Slice& s : slices)
    if (s.sequence->borrowed && x.scoring.turn) s.sequence->borrowed->make_angles(*x.scoring.turn);
}

// Entering a block seals the page that leaves the window, whose raw block the new page then takes.
void Attention::prepare(const Tensors& x, const Part& p, int head, Side side, int worker) const {
  if (p.seals) {
    float* const q = scratch(worker);
    float* rest = q;
    if (side == Side::kKeys && arena_.layout.select.selector->weighs) {
      load_rows(x, p, head, 0, 1, q);
      rest += query_floats(plan_.layer().shape);
    }
    arena_.seal(x.layer, head, side, *p.sequence, arena_.layout.sealed_at(p.position) - 1, q, rest);
  }
  arena_.append(x.layer, head, side, *p.sequence, p.position, p.tokens, tokens_of(x, side, p.row, head));
}

// Sinks are a segment of one short page.
FoldPage Attention::sink_page(const Segments& s, const Rows& rows) const {
  const Layout& l = arena_.layout;
  const Blocks b = arena_.sinks(s.layer, s.head, s.sequence);
  const int end = static_cast<int>(std::min<std::int64_t>(l.sinks, rows.last() + 1));
  return {{b.k, 0, end, l.sink_capacity}, {b.v, 0, end, l.sink_capacity}, 0};
}

void Attention::fold_sinks(const Segments& s, const Rows& rows, Fold& fold, const kernel::States& into) const {
  const FoldPage page = sink_page(s, rows);
  fold.add(s.raw, {&page, 1}, true, into);
}

int Attention::load_pages(const Segments& s, const Rows& rows, std::int64_t begin, std::int64_t end, PinnedPages* here,
                          FoldPage* pages) const {
  if (begin >= end) return 0;  // a group behind the head's last one
  const std::int64_t sealed = std::clamp(s.list.sealed, begin, end);
  const bool pooled = !arena_.layer_at(s.layer).local();
  std::int32_t slots[kGroupPages];
  for (std::int64_t place = begin; pooled && place < sealed; ++place)
    slots[place - begin] = s.sequence.pages[static_cast<std::size_t>(s.list.page(place))];
  if (pooled) here->load({slots, static_cast<std::size_t>(sealed - begin)});
  for (std::int64_t place = begin; place < end; ++place) {
    const auto i = static_cast<std::size_t>(place - begin);
    const std::int64_t index = s.list.page(place);
    pages[i] = page_at(s, rows, place,
                       place >= sealed ? arena_.raw(s.layer, s.head, s.sequence, index)
                       : pooled        ? (*here)[i]
                                       : arena_.sealed(s.layer, s.head, s.sequence, index));
  }
  return static_cast<int>(sealed - begin);
}

FoldPage Attention::page_at(const Segments& s, const Rows& rows, std::int64_t place, const Blocks& b) const {
  const std::int64_t index = s.list.page(place);
  const int first = std::max(arena_.first_row(index), s.list.first_token(place));
  const auto seen =
      static_cast<int>(std::min<std::int64_t>(s.list.end_token(place), rows.last() + 1 - index * kPageTokens));
  const int last = std::max(first, seen);
  return {{b.k, first, last, kPageTokens}, {b.v, first, last, kPageTokens}, index * kPageTokens};
}

// Pages of group `group` of the list, which become the state `into`. With few rows blocks are fetched ahead, in the
// order in which they are read.
void Attention::fold_group(const Segments& s, const Part& p, const Rows& rows, std::int64_t group, Fold& fold,
                           const kernel::States& into) const {
  const std::int64_t begin = std::max(group * kGroupPages, s.list.begin);
  const std::int64_t end = std::min((group + 1) * kGroupPages, s.list.end);
  FoldPage pages[kGroupPages];
  PinnedPages here(arena_, s.layer, s.head);
  const int sealed = load_pages(s, rows, begin, end, &here, pages);
  const auto count = static_cast<int>(std::max<std::int64_t>(0, end - begin));
  if (p.few) {
    const int runs[] = {0, sealed, count};  // keys, then values of the sealed pages; then of the raw ones
    const auto block = [&](int i) -> const std::byte* {
      if (i >= 2 * count) return after_group(p, s.head, group, i - 2 * count);
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
  kernel::attention().clear(rows.count, plan_.layer().shape.sum_dim(), into);
  const std::span<const FoldPage> all(pages, static_cast<std::size_t>(count));
  fold.add(s.sealed, all.first(static_cast<std::size_t>(sealed)), true, into);
  fold.add(s.raw, all.subspan(static_cast<std::size_t>(sealed)), sealed == 0, into);
}

// Group `group` of the pages that the sequence borrows, which becomes the state `into`. Pages of one shift that follow
// each other are taken together.
void Attention::fold_borrowed(const Segments& s, const Tensors& x, const Rows& rows, std::int64_t group, Fold& fold,
                              const kernel::States& into) const {
  const Borrowed& b = *s.sequence.borrowed;
  // Of a window, pages are passed over that no row reaches back to.
  const std::int64_t last = rows.place(rows.last());
  const std::int64_t from = rows.window > 0 ? rows.seen_from(rows.place(rows.first)) : 0;
  const auto n = static_cast<std::int64_t>(b.pages().size());
  const std::int64_t end = std::min<std::int64_t>((group + 1) * kGroupPages, n);
  kernel::attention().clear(rows.count, plan_.layer().shape.sum_dim(), into);
  FoldPage pages[kGroupPages];
  std::int32_t slots[kGroupPages];
  PinnedPages here(arena_, s.layer, s.head);
  bool first = true;
  for (std::int64_t i = group * kGroupPages; i < end;) {
    const BorrowedPage& run = b.pages()[static_cast<std::size_t>(i)];
    std::size_t count = 0;
    for (; i < end && b.pages()[static_cast<std::size_t>(i)].shift == run.shift; ++i) {
      const BorrowedPage& page = b.pages()[static_cast<std::size_t>(i)];
      if (page.position + page.begin > last || (rows.window > 0 && page.position + page.end <= from)) continue;
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
    Segment segment = s.sealed;
    segment.shift = x.scoring.turn ? b.shift(run) : 0;
    segment.angles = x.scoring.turn ? b.angles(*x.scoring.turn, run) : nullptr;
    fold.add(segment, {pages, count}, first, into);
    first = false;
  }
}

// Block `ahead` of what this worker will most likely read after a group: keys of the group behind, unless other workers
// have that and take what comes then, too. A hint.
const std::byte* Attention::after_group(const Part& p, int head, std::int64_t group, int ahead) const {
  const std::int64_t first = plan_.first_piece();
  const std::int64_t done = p.first_item + std::int64_t{head} * p.items_per_head + (group - p.first_group) + 1;
  const std::int64_t shared = first * team_.size();
  const std::int64_t next = done >= shared ? done + team_.size() - 1 : done % first == 0 ? shared : done;
  const std::int64_t item = next - p.first_item;
  const auto next_head = static_cast<int>(item / p.items_per_head);
  if (next_head >= plan_.layer().shape.kv_heads) return nullptr;
  const PageList pages = list(p, next_head);
  const std::int64_t place = std::max((p.first_group + item % p.items_per_head) * kGroupPages, pages.begin) + ahead;
  if (place >= pages.sealed || arena_.pages.on_disk(plan_.layer())) return nullptr;
  return arena_.sealed(plan_.layer().owner, next_head, *p.sequence, pages.page(place)).k;
}

void Attention::attend_few(const Tensors& x, const Part& p, int head, int piece, int worker) const {
  const Item item(plan_.layer(), arena_.layout.few_rows(), false, scratch(worker));
  const Rows rows = load_rows(x, p, head, 0, p.tokens, item.scratch.q);
  const Segments s = segments(p, head);
  // Tokens of this step lie in the head's last group or in the sinks, which the first group attends to. Both are this
  // item's own unless the step is past the sinks. Groups behind the last one are empty: heads may choose more or less.
  if (!p.seals && !p.sequence->borrowed && p.first_group + piece == (s.list.end - 1) / kGroupPages &&
      plan_.layer().owner == x.layer)
    for (const Side side : {Side::kKeys, Side::kValues})
      arena_.append(x.layer, head, side, *p.sequence, p.position, p.tokens, tokens_of(x, side, p.row, head));
  Fold fold(rows, item.size, item.scratch, x.scoring.soft_cap, x.scoring.turn, slopes(x, head));
  if (piece == 0 && arena_.layout.sinks > 0 && !device_.any(p, head)) {
    const kernel::States to = state(p, head, 0);
    kernel::attention().clear(rows.count, item.size.dv, to);
    fold_sinks(s, rows, fold, to);
  }
  const int own = piece - p.borrowed_groups;
  if (own < 0)
    fold_borrowed(s, x, rows, piece, fold, state(p, head, piece + 1));
  else if (!device_.has(p, head, p.first_group + own))
    fold_group(s, p, rows, p.first_group + own, fold, group_state(p, head, p.first_group + own));
  if (pending_[static_cast<std::size_t>(p.counters + head)].fetch_sub(1, std::memory_order_acq_rel) == 1)
    finish_few(x, p, head, worker);
}

// Called by whoever ends the last group of a head.
void Attention::finish_few(const Tensors& x, const Part& p, int head, int worker) const {
  const LayerShape& shape = plan_.layer().shape;
  const auto& kernels = kernel::attention();
  const Item item(plan_.layer(), arena_.layout.few_rows(), false, scratch(worker));
  const kernel::States& total = item.scratch.total;
  const int rows = p.tokens * shape.group();
  auto i = static_cast<std::int64_t>(arena_.layout.sinks > 0 ? 0 : 1);
  if (const std::int64_t groups = device_.in_total(p, head)) {
    const kernel::States there = group_state(p, head, 0);
    std::copy_n(there.max, rows, total.max);
    std::copy_n(there.sum, rows, total.sum);
    std::copy_n(there.out, std::ptrdiff_t{rows} * kernel::out_pitch(shape.sum_dim()), total.out);
    i = 1 + groups;
  } else {
    kernels.clear(rows, shape.sum_dim(), total);
  }
  for (; i <= p.items_per_head; ++i) kernels.fold(rows, shape.sum_dim(), state(p, head, i), total);
  if (corrects(x, p)) add_unread(p, head, rows, item.scratch);
  add_sinks(x, head, rows, item.scratch);
  write_out(x, p, head, 0, p.tokens, total);
}

void Attention::attend_many(const Tensors& x, const Part& p, int head, int piece, int worker) const {
  const Item item(plan_.layer(), arena_.layout.few_rows(), true, scratch(worker));
  const int token = piece * p.tokens_per_item;
  const int tokens = std::min(p.tokens_per_item, p.tokens - token);
  const Rows rows = load_rows(x, p, head, token, tokens, item.scratch.q);
  const Segments s = segments(p, head);
  Fold fold(rows, item.size, item.scratch, x.scoring.soft_cap, x.scoring.turn, slopes(x, head));
  const auto& kernels = kernel::attention();
  const kernel::States& total = item.scratch.total;
  const kernel::States& group = item.scratch.group;
  kernels.clear(rows.count, item.size.dv, total);
  if (arena_.layout.sinks > 0) fold_sinks(s, rows, fold, total);
  for (std::int64_t g = 0; g < p.borrowed_groups; ++g) {
    fold_borrowed(s, x, rows, g, fold, group);
    kernels.fold(rows.count, item.size.dv, group, total);
  }
  for (std::int64_t g = s.list.begin / kGroupPages; g * kGroupPages < s.list.end; ++g) {
    fold_group(s, p, rows, g, fold, group);
    kernels.fold(rows.count, item.size.dv, group, total);
  }
  add_sinks(x, head, rows.count, item.scratch);
  write_out(x, p, head, token, tokens, total);
}

// A sink is the state of a token with that score and a value of 0. It is merged last.
void Attention::add_sinks(const Tensors& x, int head, int rows, const FoldScratch& scratch) const {
  if (!x.scoring.sinks) return;
  const LayerShape& shape = plan_.layer().shape;
  const int group = shape.group();
  const float* const sinks = x.scoring.sinks + static_cast<std::ptrdiff_t>(head) * group;
  const auto& kernels = kernel::attention();
  kernels.clear(rows, shape.sum_dim(), scratch.run);
  for (int r = 0; r < rows; ++r) {
    scratch.run.max[r] = sinks[r % group] * kernel::kLog2E;
    scratch.run.sum[r] = 1.0f;
  }
  kernels.fold(rows, shape.sum_dim(), scratch.run, scratch.total);
}

void Attention::write_out(const Tensors& x, const Part& p, int head, int token, int tokens,
                          const kernel::States& total) const {
  const LayerShape& s = plan_.layer().shape;
  const int dv = s.head_dim_v;
  const int group = s.group();
  const auto pitch = static_cast<std::size_t>(kernel::out_pitch(s.sum_dim()));
  const std::int64_t out_row = static_cast<std::int64_t>(s.query_heads) * dv;
  for (int t = 0; t < tokens; ++t) {
    float* const out = x.out + (p.row + token + t) * out_row + static_cast<std::int64_t>(head) * group * dv;
    for (int i = 0; i < group; ++i) {  // one by one, because sums may be longer than what is wanted of them
      const auto r = static_cast<std::size_t>(t * group + i);
      kernel::attention().finish(1, dv, {total.max + r, total.sum + r, total.out + r * pitch},
                                 out + static_cast<std::ptrdiff_t>(i) * dv, dv);
    }
  }
}

}  // namespace kvasir::kv
