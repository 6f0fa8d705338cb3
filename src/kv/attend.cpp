#include "kv/attend.hpp"

#include <algorithm>

#include "kv/attend_item.hpp"

namespace kvasir::kv {
namespace {

constexpr int kStride = kGroupPages * kPageTokens;  // of a row of decode scores

}  // namespace

Attention::Attention(Team& team, const Store& store, int max_slices)
    : team_(team),
      store_(store),
      worker_floats_(round_up(store.layout.worker_floats())),
      workers_(tensor::Tag::kScratch, static_cast<std::size_t>(team.size()) * worker_floats_ * sizeof(float)),
      states_(tensor::Tag::kScratch, store.layout.decode_state_floats() * sizeof(float)) {
  const auto n = static_cast<std::size_t>(max_slices);
  done_.reserve(n);
  parts_.reserve(n);
  prepare_.reserve(n);
  pending_ = std::make_unique<std::atomic<int>[]>(n * static_cast<std::size_t>(store.layout.shape.kv_heads));
}

void Attention::reserve(std::span<const Slice> slices) {
  // Any slice may have a short part at a block boundary that decodes.
  const std::size_t bytes = slices.size() * store_.layout.decode_state_floats() * sizeof(float);
  if (bytes > states_.size()) states_ = tensor::Buffer(tensor::Tag::kScratch, bytes);
}

Attention::Scratch Attention::scratch(int worker) const {
  const Layout& l = store_.layout;
  const auto rows = static_cast<std::size_t>(std::max(kItemRows, l.decode_rows()));
  Pieces p(workers_.as<float>() + static_cast<std::size_t>(worker) * worker_floats_);
  Scratch s;
  s.q = p.take(rows * static_cast<std::size_t>(l.shape.head_dim));
  s.basis_q = l.has_basis ? p.take(rows * static_cast<std::size_t>(l.shape.head_dim)) : nullptr;
  s.ends = reinterpret_cast<int*>(p.take(rows));
  s.rest = p.take(0);
  return s;
}

kernel::States Attention::decode_state(const Part& part, int head, int index) const {
  const Layout& l = store_.layout;
  const std::int64_t states_per_head = part.items_per_head + 1;
  float* p = states_.as<float>() + part.states +
             (head * states_per_head + index) * static_cast<std::int64_t>(l.decode_state_floats_one());
  const std::size_t rows = round_up(static_cast<std::size_t>(l.decode_rows()));
  return {p, p + rows, p + 2 * rows};
}

Attention::Rows Attention::load_rows(const Tensors& x, const Part& part, int head, int token, int tokens,
                                     float* q) const {
  const Layout& l = store_.layout;
  const int d = l.shape.head_dim;
  const std::int64_t row_floats = static_cast<std::int64_t>(l.shape.query_heads) * d;
  const auto& kernels = kernel::attention();
  for (int t = 0; t < tokens; ++t)
    kernels.scale_rows(x.q + (part.row + token + t) * row_floats + static_cast<std::int64_t>(head) * l.group * d, d,
                       l.group, d, x.scale, q + static_cast<std::int64_t>(t) * l.group * d);
  const std::int64_t first = part.position + token;
  return {q, tokens * l.group, l.group, first, first + tokens - 1};
}

PageRef Attention::page_ref(const std::byte* block, std::int64_t page, std::int64_t last_position) const {
  const int begin = store_.first_row(page);
  const auto end = static_cast<int>(std::min<std::int64_t>(kPageTokens, last_position + 1 - page * kPageTokens));
  return {block, begin, std::max(begin, end), kPageTokens};
}

// Sealed pages of a group that these rows attend to.
int Attention::select(const Tensors& x, const Part& part, const Rows& rows, int head, std::int64_t group,
                      std::int32_t* pages) const {
  const std::int64_t first = group * kGroupPages;
  const std::int64_t last = std::min(first + kGroupPages, store_.layout.sealed_at(part.position));
  if (first >= last) return 0;
  return store_.layout.selector->select({x.layer, head, rows.q, rows.count, store_.layout.shape.head_dim,
                                         static_cast<std::int32_t>(first), static_cast<std::int32_t>(last)},
                                        pages);
}

// The rows' queries as the codec of the keys wants them; `to` is used only when its basis differs.
const float* Attention::to_basis(const CodecSide& codec, const Head& head, const Rows& rows, float* to) const {
  if (!codec.to_basis) return rows.q;
  std::copy_n(rows.q, static_cast<std::size_t>(rows.count) * static_cast<std::size_t>(head.d), to);
  codec.to_basis(head, rows.count, to, head.d);
  return to;
}

// Turns what `pages` sealed pages have added to `states` back from the basis of the values' codec.
void Attention::from_basis(const CodecSide& codec, const Head& head, int pages, int rows,
                           const kernel::States& states) const {
  if (pages > 0 && codec.from_basis) codec.from_basis(head, rows, states.out, kernel::out_pitch(head.d));
}

// Splits what is left of every slice at the next query block and lays the items out. False when nothing is left.
bool Attention::plan_stage(std::span<const Slice> slices) {
  const Layout& l = store_.layout;
  const int heads = l.shape.kv_heads;
  parts_.clear();
  prepare_.clear();
  std::int64_t items = 0;
  std::int64_t states = 0;
  for (std::size_t i = 0; i < slices.size(); ++i) {
    const Slice& s = slices[i];
    if (done_[i] == s.count) continue;
    Part p{};
    p.sequence = s.sequence;
    p.position = s.sequence->length + done_[i];
    p.block = p.position / kPageTokens;
    p.row = s.row + done_[i];
    p.tokens = static_cast<int>(std::min<std::int64_t>(s.count - done_[i], (p.block + 1) * kPageTokens - p.position));
    done_[i] += p.tokens;
    p.seals = p.position % kPageTokens == 0 && l.sealed_at(p.position) > 0;
    p.decode = l.is_decode(p.tokens) && (l.one_arithmetic || s.decode);
    p.append_in_item = p.decode && !p.seals;
    p.first_item = items;
    if (p.decode) {
      p.items_per_head = static_cast<int>(p.block / kGroupPages + 1);
      p.states = states;
      p.counters = static_cast<int>(parts_.size()) * heads;
      states += static_cast<std::int64_t>(heads) * (p.items_per_head + 1) *
                static_cast<std::int64_t>(l.decode_state_floats_one());
      for (int h = 0; h < heads; ++h)
        pending_[static_cast<std::size_t>(p.counters + h)].store(p.items_per_head, std::memory_order_relaxed);
    } else {
      const int rows = p.tokens * l.group;
      const int wanted = (4 * team_.size() + heads - 1) / heads;  // a few items per thread, so that they end together
      const int pieces = std::max((rows + kItemRows - 1) / kItemRows, std::min(wanted, (rows + 47) / 48));
      p.tokens_per_item = std::max(1, (p.tokens + pieces - 1) / pieces);
      if (p.tokens_per_item * l.group > kItemRows) p.tokens_per_item = std::max(1, kItemRows / l.group);
      p.items_per_head = (p.tokens + p.tokens_per_item - 1) / p.tokens_per_item;
    }
    items += static_cast<std::int64_t>(heads) * p.items_per_head;
    if (!p.append_in_item) prepare_.push_back(static_cast<int>(parts_.size()));
    parts_.push_back(p);
  }
  const bool decodes = std::all_of(parts_.begin(), parts_.end(), [](const Part& p) { return p.decode; });
  // Of generated tokens most items are shared out beforehand: neighbours read on where the one before ended, and asking
  // for more takes time (team.hpp). Few are all shared out.
  const std::int64_t threads = team_.size(), fair = items / threads;
  first_ = !decodes ? 1 : fair < 8 ? (items + threads - 1) / threads : fair * 7 / 8;
  return !parts_.empty();
}

void Attention::run(std::span<const Slice> slices, const Tensors& x) {
  const int heads = store_.layout.shape.kv_heads;
  done_.assign(slices.size(), 0);
  while (plan_stage(slices)) {
    team_.parallel_for(2 * static_cast<std::int64_t>(prepare_.size()) * heads, 1,
                       [&](std::int64_t begin, std::int64_t end, int worker) {
                         for (auto i = begin; i < end; ++i)
                           prepare(
                               x, parts_[static_cast<std::size_t>(prepare_[static_cast<std::size_t>(i / (2 * heads))])],
                               static_cast<int>(i / 2 % heads), i % 2 == 0 ? Side::kKeys : Side::kValues, worker);
                       });
    const Part& last = parts_.back();
    const std::int64_t items = last.first_item + static_cast<std::int64_t>(heads) * last.items_per_head;
    team_.parallel_for(items, 1, first_, [&](std::int64_t begin, std::int64_t end, int worker) {
      std::size_t at = 0;
      for (auto i = begin; i < end; ++i) {
        while (at + 1 < parts_.size() && parts_[at + 1].first_item <= i) ++at;
        const Part& p = parts_[at];
        const auto head = static_cast<int>((i - p.first_item) / p.items_per_head);
        const auto piece = static_cast<int>((i - p.first_item) % p.items_per_head);
        if (p.decode) {
          decode(x, p, head, piece, worker);
        } else {
          prefill(x, p, head, piece, worker);
        }
      }
    });
  }
}

// Entering a block seals the page that leaves the window, whose raw block the new page then takes.
void Attention::prepare(const Tensors& x, const Part& p, int head, Side side, int worker) const {
  const Layout& l = store_.layout;
  if (p.seals)
    store_.seal(x.layer, head, side, *p.sequence, l.sealed_at(p.position) - 1,
                workers_.as<float>() + static_cast<std::size_t>(worker) * worker_floats_);
  store_.append(x.layer, head, side, *p.sequence, p.position, p.tokens, tokens_of(x, side, p.row, head));
}

// Rows of k or v from `row` of the batch on, of one head.
TokenRows Attention::tokens_of(const Tensors& x, Side side, std::int64_t row, int head) const {
  const CacheShape& s = store_.layout.shape;
  const std::int64_t d = side == Side::kKeys ? s.head_dim : s.head_dim_v;
  return {(side == Side::kKeys ? x.k : x.v) + (row * s.kv_heads + head) * d, s.kv_heads * d};
}

void Attention::decode(const Tensors& x, const Part& p, int head, int group, int worker) const {
  const Scratch s = scratch(worker);
  const Rows rows = load_rows(x, p, head, 0, p.tokens, s.q);
  // Tokens of this step lie in the last group or in the sinks, which group 0 attends to. Both are this item's own
  // unless the step is past the sinks.
  if (p.append_in_item && group == p.items_per_head - 1)
    for (const Side side : {Side::kKeys, Side::kValues})
      store_.append(x.layer, head, side, *p.sequence, p.position, p.tokens, tokens_of(x, side, p.row, head));
  decode_group(x, p, rows, head, group, s, decode_state(p, head, group + 1));
  if (pending_[static_cast<std::size_t>(p.counters + head)].fetch_sub(1, std::memory_order_acq_rel) == 1)
    decode_finish(x, p, head, worker);
}

// Page `ahead` of the group whose keys this worker will most likely read next: the one behind, unless other workers
// have that and take what comes then, too. A hint; selectors may leave that page out.
const std::byte* Attention::next_group(int layer, const Part& p, int head, int group, int ahead) const {
  const std::int64_t done = p.first_item + std::int64_t{head} * p.items_per_head + group + 1;
  const std::int64_t shared = first_ * team_.size();
  const std::int64_t next = done >= shared ? done + team_.size() - 1 : done % first_ == 0 ? shared : done;
  const std::int64_t item = next - p.first_item;
  const std::int64_t page = item % p.items_per_head * kGroupPages + ahead;
  const auto next_head = static_cast<int>(item / p.items_per_head);
  if (next_head >= store_.layout.shape.kv_heads || page >= store_.layout.sealed_at(p.position)) return nullptr;
  return store_.sealed(layer, next_head, p.sequence->pages[static_cast<std::size_t>(page)]).k;
}

void Attention::decode_group(const Tensors& x, const Part& p, const Rows& rows, int head, int group, const Scratch& s,
                             const kernel::States& into) const {
  const Layout& l = store_.layout;
  const LayerLayout& layer = store_.layer_at(x.layer);
  const auto& kernels = kernel::attention();
  const int dv = l.shape.head_dim_v;
  const int pitch = kernel::out_pitch(dv);
  const auto n = static_cast<std::size_t>(rows.count);
  const Head raw_k = store_.raw_head_k();
  const Head raw_v = store_.raw_head_v();
  Pieces pieces(s.rest);
  float* scores = pieces.take(n * kStride);
  float* maxima = pieces.take(kGroupPages * n);
  float* sums = pieces.take(kGroupPages * n);
  float* outs = pieces.take(kGroupPages * n * static_cast<std::size_t>(pitch));

  if (group == 0 && l.sinks > 0) {
    const Blocks b = store_.sinks(x.layer, head, *p.sequence);
    const kernel::States to = decode_state(p, head, 0);
    const int end = rows.ends(0, l.sinks, s.ends);
    const PageRef k{b.k, 0, end, l.sink_capacity};
    const PageRef v{b.v, 0, end, l.sink_capacity};
    layer.raw_k->dots(raw_k, &k, 1, rows.q, rows.count, scores, kStride);
    kernels.weigh(scores, kStride, rows.count, 0, s.ends, to.max, to.sum);
    layer.raw_v->accumulate(raw_v, &v, 1, scores, kStride, rows.count, to.out, pitch);
  }

  std::int32_t chosen[kGroupPages];
  PageRef ks[kGroupPages];
  PageRef vs[kGroupPages];
  std::int64_t index[kGroupPages];
  const int sealed = select(x, p, rows, head, group, chosen);
  int count = 0;
  for (; count < sealed; ++count) {
    const Blocks b = store_.sealed(x.layer, head, p.sequence->pages[static_cast<std::size_t>(chosen[count])]);
    index[count] = chosen[count];
    ks[count] = page_ref(b.k, chosen[count], rows.last);
    vs[count] = page_ref(b.v, chosen[count], rows.last);
  }
  const std::int64_t first_raw = std::max<std::int64_t>(std::int64_t{group} * kGroupPages, l.sealed_at(p.position));
  for (auto i = first_raw; i <= p.block && i < (std::int64_t{group} + 1) * kGroupPages; ++i, ++count) {
    const Blocks b = store_.raw(x.layer, head, *p.sequence, i);
    index[count] = i;
    ks[count] = page_ref(b.k, i, rows.last);
    vs[count] = page_ref(b.v, i, rows.last);
  }
  // All blocks in the order in which they are read, first those of keys.
  const auto block = [&](int i) {
    if (i < count) return static_cast<const std::byte*>(ks[i].block);
    return i < 2 * count ? vs[i - count].block : next_group(x.layer, p, head, group, i - 2 * count);
  };
  for (int i = 0; i < count; ++i) {
    ks[i].next = block(i + kFetchAhead);
    vs[i].next = block(i + count + kFetchAhead);
  }
  const int raw = count - sealed;
  float* raw_scores = scores + sealed * kPageTokens;
  const Head head_k = store_.head_k(x.layer, head);
  const Head head_v = store_.head_v(x.layer, head);
  if (sealed > 0) {
    const float* q = to_basis(layer.k->k, head_k, rows, s.basis_q);
    layer.k->dots(head_k, ks, sealed, q, rows.count, scores, kStride);
  }
  if (raw > 0) layer.raw_k->dots(raw_k, ks + sealed, raw, rows.q, rows.count, raw_scores, kStride);
  for (int i = 0; i < count; ++i) {
    rows.ends(index[i] * kPageTokens, kPageTokens, s.ends);
    kernels.weigh(scores + i * kPageTokens, kStride, rows.count, ks[i].begin, s.ends,
                  maxima + static_cast<std::size_t>(i) * n, sums + static_cast<std::size_t>(i) * n);
  }
  const std::size_t page_floats = n * static_cast<std::size_t>(pitch);
  if (sealed > 0) layer.v->accumulate(head_v, vs, sealed, scores, kStride, rows.count, outs, pitch);
  if (raw > 0)
    layer.raw_v->accumulate(raw_v, vs + sealed, raw, raw_scores, kStride, rows.count,
                            outs + static_cast<std::size_t>(sealed) * page_floats, pitch);
  kernels.clear(rows.count, dv, into);
  for (int i = 0; i < count; ++i) {
    const auto page = static_cast<std::size_t>(i);
    kernels.fold(rows.count, dv, {maxima + page * n, sums + page * n, outs + page * page_floats}, into);
    if (i + 1 == sealed) from_basis(layer.v->v, head_v, sealed, rows.count, into);
  }
}

// Called by whoever ends the last group of a head.
void Attention::decode_finish(const Tensors& x, const Part& p, int head, int worker) const {
  const Layout& l = store_.layout;
  const auto& kernels = kernel::attention();
  const int dv = l.shape.head_dim_v;
  const int rows = p.tokens * l.group;
  const auto pitch = static_cast<std::size_t>(kernel::out_pitch(dv));
  Pieces pieces(scratch(worker).rest);
  const kernel::States total = pieces.states(static_cast<std::size_t>(rows), pitch);
  kernels.clear(rows, dv, total);
  for (int i = l.sinks > 0 ? 0 : 1; i <= p.items_per_head; ++i) kernels.fold(rows, dv, decode_state(p, head, i), total);
  const std::int64_t out_row = static_cast<std::int64_t>(l.shape.query_heads) * dv;
  for (int t = 0; t < p.tokens; ++t) {
    const std::size_t r = static_cast<std::size_t>(t * l.group);
    kernels.finish(l.group, dv, {total.max + r, total.sum + r, total.out + r * pitch},
                   x.out + (p.row + t) * out_row + static_cast<std::int64_t>(head) * l.group * dv, dv);
  }
}

}  // namespace kvasir::kv
