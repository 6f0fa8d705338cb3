#include "kv/attend.hpp"

#include <algorithm>

namespace kvasir::kv {

Attention::Attention(Team& team, const Arena& arena, int max_slices)
    : team_(team),
      arena_(arena),
      selection_(arena.layout.selects() ? arena.layout.selector->open(team, arena, max_slices)
                                        : std::make_unique<Selection>(arena.layout.asked.size())),
      sealer_(arena, *selection_),
      plan_(arena.layout, team.size(), max_slices),
      device_(arena, max_slices),
      chooser_(team, arena),
      worker_floats_(round_up(arena.layout.worker_floats())),
      workers_(tensor::Tag::kScratch, static_cast<std::size_t>(team.size()) * worker_floats_ * sizeof(float)),
      states_(tensor::Tag::kScratch, arena.layout.state_floats() * sizeof(float)),
      pending_(std::make_unique<std::atomic<int>[]>(static_cast<std::size_t>(max_slices) *
                                                    static_cast<std::size_t>(arena.layout.most_heads()))) {
  tables_.reserve(static_cast<std::size_t>(max_slices));
}

void Attention::reserve(std::span<const Slice> slices) {
  chooser_.reserve(slices);
  // Any slice may have a short part at a block boundary that is cut by groups.
  const std::size_t bytes = slices.size() * arena_.layout.state_floats() * sizeof(float);
  if (bytes > states_.size()) states_ = tensor::Buffer(tensor::Tag::kScratch, bytes);
  device_.reserve(slices);
  if (slices.size() > 1) shared_.reserve(slices.size(), static_cast<std::size_t>(arena_.layout.max_states()));
}

kernel::States Attention::state(const Part& p, int head, std::int64_t index) const {
  const Layout& l = arena_.layout;
  float* at = states_.as<float>() + p.states +
              (static_cast<std::int64_t>(head) * (p.items_per_head + 1) + index) *
                  static_cast<std::int64_t>(l.state_floats_one());
  const std::size_t rows = round_up(static_cast<std::size_t>(l.few_rows()));
  return {at, at + rows, at + 2 * rows};
}

PageList Attention::list(const Part& p, int head) const {
  if (!p.chosen) return plan_.list(p, nullptr, -1);
  const std::span<const PageRun> runs = selection_->runs(p, head);
  return plan_.list(p, runs.data(), static_cast<int>(runs.size()));
}

void Attention::run(std::span<const Slice> slices, const Tensors& x) {
  make_angles(slices, x);
  selection_->remember(slices, x);
  plan_.start(x.layer, slices);
  const LayerStep step{arena_, plan_, x, workers_.as<float>(), worker_floats_};
  while (plan_.next()) {
    prepare(step);
    selection_->run(step, plan_);
    plan_.share([&](const Part& p, int head) { return static_cast<int>(selection_->runs(p, head).size()); });
    begin_away(step);
    find_shared(step);
    attend(step);
    end_away(step);
  }
}

void Attention::choose(std::span<const Slice> slices, const Tensors& x, const float* weights) {
  plan_.start(x.layer, slices);
  const LayerStep step{arena_, plan_, x, workers_.as<float>(), worker_floats_};
  while (plan_.next()) {
    prepare(step);
    chooser_.run(step, weights);
  }
}

// So that no item has to compute angles of the pages that sequences borrow.
void Attention::make_angles(std::span<const Slice> slices, const Tensors& x) const {
  for (const Slice& s : slices)
    if (s.sequence->borrowed && x.scoring.rotation) s.sequence->borrowed->make_angles(*x.scoring.rotation);
}

void Attention::prepare(const LayerStep& step) {
  const std::span<const int> prepared = plan_.prepared();
  const int heads = plan_.layer().shape.kv_heads;
  team_.parallel_for(
      2 * static_cast<std::int64_t>(prepared.size()) * heads, 1, [&](std::int64_t begin, std::int64_t end, int worker) {
        for (auto i = begin; i < end; ++i) {
          const int at = prepared[static_cast<std::size_t>(i / (2 * heads))];
          sealer_.enter(step, plan_.parts()[static_cast<std::size_t>(at)], static_cast<int>(i / 2 % heads),
                        i % 2 == 0 ? Side::kKeys : Side::kValues, worker);
        }
      });
}

void Attention::attend(const LayerStep& step) {
  const std::span<const Part> parts = plan_.parts();
  for (const Part& p : parts)  // heads of which groups are away are finished when these are back
    for (int h = 0; p.few && h < plan_.layer().shape.kv_heads; ++h)
      pending(p, h).store(p.items_per_head + device_.any(p, h), std::memory_order_relaxed);
  each_item(plan_.first_piece(), [&](const Part& p, int head, int piece, int worker) {
    p.few ? attend_few(step, p, head, piece, worker) : attend_many(step, p, head, piece, worker);
  });
}

template <class F>
void Attention::each_item(std::int64_t first_piece, F&& f) {
  const std::span<const Part> parts = plan_.parts();
  team_.parallel_for(plan_.items(), 1, first_piece, [&](std::int64_t begin, std::int64_t end, int worker) {
    std::size_t at = 0;
    for (auto i = begin; i < end; ++i) {
      while (at + 1 < parts.size() && parts[at + 1].first_item <= i) ++at;
      const Part& p = parts[at];
      f(p, static_cast<int>((i - p.first_item) / p.items_per_head),
        static_cast<int>((i - p.first_item) % p.items_per_head), worker);
    }
  });
}

// What this worker will most likely read after a group: keys of the group behind, unless other workers have that and
// take what comes then, too. A hint.
HeadFold::Ahead Attention::after_group(const LayerStep& step, const Part& p, int head, std::int64_t group) const {
  HeadFold::Ahead ahead{};
  if (!p.few || arena_.pages.on_disk(step.layer())) return ahead;
  const std::int64_t first = plan_.first_piece();
  const std::int64_t done = p.first_item + std::int64_t{head} * p.items_per_head + (group - p.first_group) + 1;
  const std::int64_t shared = first * team_.size();
  const std::int64_t next = done >= shared ? done + team_.size() - 1 : done % first == 0 ? shared : done;
  const std::int64_t item = next - p.first_item;
  const auto next_head = static_cast<int>(item / p.items_per_head);
  if (next_head >= step.layer().shape.kv_heads) return ahead;
  const PageList pages = list(p, next_head);
  std::int64_t place = std::max((p.first_group + item % p.items_per_head) * kGroupPages, pages.begin);
  for (const std::byte*& block : ahead)
    if (place < pages.sealed) block = arena_.sealed(step.layer().owner, next_head, *p.sequence, pages.page(place++)).k;
  return ahead;
}

// Not where rows see pages each in a way of its own: by windows, distances, choices, or on a device.
void Attention::find_shared(const LayerStep& step) {
  shared_.clear();
  const LayerLayout& layer = step.layer();
  const std::span<const Part> parts = plan_.parts();
  if (parts.size() < 2 || layer.shape.window > 0 || layer.shape.latent || step.x.scoring.slopes ||
      step.x.scoring.distances || step.x.chosen || device_.any() || arena_.pages.on_disk(layer))
    return;
  tables_.clear();
  for (const Part& p : parts) {
    const bool alone = !p.few || p.chosen || p.sequence->borrowed;
    const std::int64_t sealed = alone ? 0 : plan_.list(p, nullptr, -1).sealed;
    tables_.push_back({p.sequence->pages.data(), static_cast<int>(sealed / kGroupPages), p.tokens * layer.group()});
  }
  shared_.find(tables_);
}

void Attention::attend_together(const LayerStep& step, std::span<const int> parts, int head, int piece,
                                int worker) const {
  const auto part = [&](int i) -> const Part& { return plan_.parts()[static_cast<std::size_t>(i)]; };
  const auto alone = [&](const Part& p, auto&& f) {
    HeadFold fold(step, p, head, list(p, head), 0, p.tokens, false, worker);
    f(fold);
  };
  for (const int i : parts)
    if (piece == 0 && arena_.layout.sinks > 0)
      alone(part(i), [&](HeadFold& fold) {
        const kernel::States to = state(part(i), head, 0);
        fold.clear(to);
        fold.sinks(to);
      });
  {
    HeadFold fold(step, parts, head, list(part(parts[0]), head), worker);
    const kernel::States& all = fold.scratch().group;
    fold.group(piece, {}, all);
    const std::ptrdiff_t pitch = kernel::out_pitch(fold.dv());
    std::ptrdiff_t row = 0;
    for (const int i : parts) {
      const std::ptrdiff_t rows = std::ptrdiff_t{part(i).tokens} * step.layer().group();
      const kernel::States own = group_state(part(i), head, piece);
      std::copy_n(all.max + row, rows, own.max);
      std::copy_n(all.sum + row, rows, own.sum);
      std::copy_n(all.out + row * pitch, rows * pitch, own.out);
      row += rows;
    }
  }
  for (const int i : parts)
    if (pending(part(i), head).fetch_sub(1, std::memory_order_acq_rel) == 1)
      alone(part(i), [&](HeadFold& fold) { finish_few(step, part(i), fold, head); });
}

void Attention::attend_few(const LayerStep& step, const Part& p, int head, int piece, int worker) const {
  const auto at = static_cast<std::size_t>(&p - plan_.parts().data());
  if (const std::span<const int> parts = shared_.with(at, piece); !parts.empty()) {
    if (parts[0] == static_cast<int>(at)) attend_together(step, parts, head, piece, worker);
    return;
  }
  HeadFold fold(step, p, head, list(p, head), 0, p.tokens, false, worker);
  // Tokens of this step lie in the head's last group or in the sinks, which the first group attends to. Both are this
  // item's own unless the step is past the sinks. Groups behind the last one are empty: heads may choose more or less.
  if (!p.seals && !p.sequence->borrowed && p.first_group + piece == (fold.list().end - 1) / kGroupPages &&
      step.layer().owner == step.x.layer)
    for (const Side side : {Side::kKeys, Side::kValues}) sealer_.append(step, p, head, side);
  if (piece == 0 && arena_.layout.sinks > 0 && !device_.any(p, head)) {
    const kernel::States to = state(p, head, 0);
    fold.clear(to);
    fold.sinks(to);
  }
  const std::int64_t group = p.first_group + piece - p.borrowed_groups;
  if (piece < p.borrowed_groups)
    fold.borrowed(piece, state(p, head, piece + 1));
  else if (!device_.has(p, head, group))
    fold.group(group, after_group(step, p, head, group), group_state(p, head, group));
  if (pending(p, head).fetch_sub(1, std::memory_order_acq_rel) == 1) finish_few(step, p, fold, head);
}

// Called by whoever ends the last group of a head.
void Attention::finish_few(const LayerStep& step, const Part& p, HeadFold& fold, int head) const {
  const kernel::States& total = fold.scratch().total;
  const int rows = fold.rows().count;
  std::int64_t i = arena_.layout.sinks > 0 ? 0 : 1;
  if (const std::int64_t groups = device_.in_total(p, head)) {
    fold.copy(group_state(p, head, 0), total);
    i = 1 + groups;
  } else {
    fold.clear(total);
  }
  for (; i <= p.items_per_head; ++i) fold.merge(state(p, head, i), total);
  if (p.chosen) selection_->add_unread(step, p, head, rows, fold.scratch());
  fold.sink_logits();
  write_out(step, p, head, 0, p.tokens, total);
}

void Attention::attend_many(const LayerStep& step, const Part& p, int head, int piece, int worker) const {
  const int token = first_token(p, piece);
  HeadFold fold(step, p, head, list(p, head), token, tokens_of(p, piece), true, worker);
  const std::int64_t first = fold.list().begin / kGroupPages;
  const DeviceFolds::Run* const away = device_.run(p, head);
  if (!away) {
    fold_before(p, fold, first);
    fold_from(step, p, fold, head, first);
  } else if (away->end * kGroupPages < fold.list().end) {
    fold.group(away->end, {}, fold.scratch().group);
    fold.copy(fold.scratch().group, fold.rows_from(token, device_.away(*away, p, step.layer().shape).next));
  }
}

void Attention::fold_before(const Part& p, HeadFold& fold, std::int64_t group) const {
  const kernel::States& total = fold.scratch().total;
  fold.clear(total);
  if (arena_.layout.sinks > 0) fold.sinks(total);
  for (std::int64_t g = 0; g < p.borrowed_groups; ++g) {
    fold.borrowed(g, fold.scratch().group);
    fold.merge(fold.scratch().group, total);
  }
  for (std::int64_t g = fold.list().begin / kGroupPages; g < group; ++g) {
    fold.group(g, {}, fold.scratch().group);
    fold.merge(fold.scratch().group, total);
  }
}

void Attention::fold_from(const LayerStep& step, const Part& p, HeadFold& fold, int head, std::int64_t group) const {
  const kernel::States& total = fold.scratch().total;
  const kernel::States& one = fold.scratch().group;
  for (std::int64_t g = group; g * kGroupPages < fold.list().end; ++g) {
    fold.group(g, {}, one);
    fold.merge(one, total);
  }
  if (p.both.end > 0) {
    fold.both(one);
    fold.merge(one, total);
  }
  fold.sink_logits();
  const int tokens = fold.rows().count / step.layer().group();
  write_out(step, p, head, static_cast<int>(fold.rows().first - p.position), tokens, total);
}

void Attention::begin_away(const LayerStep& step) {
  device_.clear();
  const LayerLayout& layer = step.layer();
  if (!arena_.pages.folds(layer.owner) || step.x.scoring.slopes || step.x.scoring.distances || step.x.chosen) return;
  const std::span<const Part> parts = plan_.parts();
  for (const Part& p : parts)
    for (int h = 0; (p.few || layer.one_arithmetic) && h < layer.shape.kv_heads; ++h)
      device_.add(p, h, list(p, h), layer.shape);
  if (!device_.any()) return;
  each_item(1, [&](const Part& p, int head, int piece, int worker) {
    if (!device_.any(p, head) || (p.few && piece > 0)) return;
    const int token = p.few ? 0 : first_token(p, piece);
    HeadFold fold(step, p, head, list(p, head), token, p.few ? p.tokens : tokens_of(p, piece), !p.few, worker);
    p.few ? make_start(fold, p, head) : make_start_of_many(fold, p, head);
  });
  device_.start(layer.owner, layer.shape, step.x.scoring.soft_cap, parts,
                [&](const Part& p, int head, std::int64_t group) { return group_state(p, head, group); });
}

// A head's queries for the device, the state of its sinks, and what a total begins with.
void Attention::make_start(HeadFold& fold, const Part& p, int head) const {
  const bool has_sinks = arena_.layout.sinks > 0;
  const kernel::States sinks = state(p, head, 0);
  if (has_sinks) {
    fold.clear(sinks);
    fold.sinks(sinks);
  }
  if (device_.of(p, head).front().total) {
    const kernel::States start = group_state(p, head, 1);
    fold.clear(start);
    if (has_sinks) fold.merge(sinks, start);
  }
  fold.queries_of_codec(device_.queries(p, head));
}

// The same of some rows of a prompt.
void Attention::make_start_of_many(HeadFold& fold, const Part& p, int head) const {
  const DeviceFolds::Run& run = *device_.run(p, head);
  const LayerShape& shape = plan_.layer().shape;
  const Away away = device_.away(run, p, shape);
  const auto token = static_cast<int>(fold.rows().first - p.position);
  fold_before(p, fold, run.first);
  fold.copy(fold.scratch().total, fold.rows_from(token, away.total));
  fold.queries_of_codec(away.queries + std::ptrdiff_t{token} * shape.group() * shape.head_dim);
}

void Attention::end_away(const LayerStep& step) {
  if (!device_.any()) return;
  const bool back = device_.wait();
  each_item(1, [&](const Part& p, int head, int piece, int worker) {
    if (!device_.any(p, head) || (p.few && piece > 0)) return;
    const int token = p.few ? 0 : first_token(p, piece);
    HeadFold fold(step, p, head, list(p, head), token, p.few ? p.tokens : tokens_of(p, piece), !p.few, worker);
    if (!p.few) return end_many(step, fold, p, head, back);
    if (!back)
      for (const DeviceFolds::Run& run : device_.of(p, head))
        for (auto g = run.first; g < run.end; ++g) fold.group(g, {}, group_state(p, head, g));
    finish_few(step, p, fold, head);
  });
}

void Attention::end_many(const LayerStep& step, HeadFold& fold, const Part& p, int head, bool back) const {
  const DeviceFolds::Run& run = *device_.run(p, head);
  std::int64_t group = run.end;
  if (back) {
    const Away away = device_.away(run, p, step.layer().shape);
    const auto token = static_cast<int>(fold.rows().first - p.position);
    fold.copy(fold.rows_from(token, away.total), fold.scratch().total);
    if (group * kGroupPages < fold.list().end) {
      fold.merge(fold.rows_from(token, away.next), fold.scratch().total);
      ++group;
    }
  } else {
    fold_before(p, fold, group);
  }
  fold_from(step, p, fold, head, group);
}

void Attention::write_out(const LayerStep& step, const Part& p, int head, int token, int tokens,
                          const kernel::States& total) {
  const LayerShape& s = step.layer().shape;
  const int dv = s.head_dim_v;
  const int group = s.group();
  const auto pitch = static_cast<std::size_t>(kernel::out_pitch(s.sum_dim()));
  const std::int64_t out_row = static_cast<std::int64_t>(s.query_heads) * dv;
  for (int t = 0; t < tokens; ++t) {
    float* const out = step.x.out + (p.row + token + t) * out_row + static_cast<std::int64_t>(head) * group * dv;
    for (int i = 0; i < group; ++i) {  // one by one, because sums may be longer than what is wanted of them
      const auto r = static_cast<std::size_t>(t * group + i);
      kernel::attention().finish(1, dv, {total.max + r, total.sum + r, total.out + r * pitch},
                                 out + static_cast<std::ptrdiff_t>(i) * dv, dv);
    }
  }
}

}  // namespace kvasir::kv
