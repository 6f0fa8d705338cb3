#include "kv/reader.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "kv/cache_state.hpp"
#include "kv/head_fold.hpp"

namespace kvasir::kv {
namespace {

Layout layout_of_reader(const Layout& cache, std::span<const ReaderLayer> readers) {
  Layout all = cache;
  all.layers.clear();
  for (const ReaderLayer& r : readers) {
    KVASIR_CHECK(r.of >= 0 && r.of < cache.model_layers);
    LayerLayout l = cache.layers[static_cast<std::size_t>(r.of)];
    KVASIR_CHECK(l.attends() && l.owner == r.of && !l.shape.latent && r.query_heads % l.shape.kv_heads == 0);
    KVASIR_CHECK(l.shape.window == 0 || (r.window > 0 && r.window <= l.shape.window));
    l.shape.query_heads = r.query_heads;
    l.shape.window = r.window;
    all.layers.push_back(l);
  }
  return all;
}

}  // namespace

Reader::Sizes Reader::Sizes::of(std::span<const LayerLayout> layers, std::int64_t tokens) {
  Sizes s{.rows = kFewRows, .state = 0, .head = 0, .worker = 0, .heads = 0};
  for (const LayerLayout& l : layers) s.rows = std::max(s.rows, l.group());
  for (const LayerLayout& l : layers) {
    const auto pitch = static_cast<std::size_t>(kernel::out_pitch(l.shape.sum_dim()));
    const auto rows = static_cast<std::size_t>(s.rows);
    s.state = std::max(s.state, 2 * round_up(rows) + round_up(rows * pitch));
    FoldScratch scratch;
    s.worker = std::max(s.worker, round_up(scratch.place(nullptr, fold_size(l, s.rows, false))));
    s.heads = std::max(s.heads, l.shape.kv_heads);
  }
  const std::int64_t groups = (tokens / kPageTokens + 1) / kGroupPages + 2;  // the first and the last are cut
  s.head = static_cast<std::size_t>(groups + 1) * s.state;
  return s;
}

std::int64_t Reader::planned_bytes(std::span<const LayerShape> shapes, std::int64_t tokens, int sequences,
                                   int threads) {
  std::vector<LayerLayout> layers;
  for (const LayerShape& s : shapes) layers.emplace_back().shape = s;
  const Sizes s = Sizes::of(layers, tokens);
  return static_cast<std::int64_t>(sizeof(float) *
                                   (s.worker * static_cast<std::size_t>(threads) +
                                    s.head * static_cast<std::size_t>(s.heads) * static_cast<std::size_t>(sequences)));
}

Reader::Reader(Team& team, const CacheState& cache, std::span<const ReaderLayer> layers, int sequences)
    : team_(team),
      cache_(cache),
      layout_(layout_of_reader(cache.arena.layout, layers)),
      plan_(layout_, team.size(), sequences),
      sizes_(Sizes::of(layout_.layers, cache.memory.tokens)),
      workers_(tensor::Tag::kScratch, static_cast<std::size_t>(team.size()) * sizes_.worker * sizeof(float)),
      states_(tensor::Tag::kScratch, static_cast<std::size_t>(sequences) * static_cast<std::size_t>(sizes_.heads) *
                                         sizes_.head * sizeof(float)) {
  pieces_.reserve(static_cast<std::size_t>(sequences));
}

kernel::States Reader::state(std::size_t slice, int head, int index) const {
  float* const at = states_.as<float>() +
                    (slice * static_cast<std::size_t>(sizes_.heads) + static_cast<std::size_t>(head)) * sizes_.head +
                    static_cast<std::size_t>(index) * sizes_.state;
  const std::size_t rows = round_up(static_cast<std::size_t>(sizes_.rows));
  return {at, at + rows, at + 2 * rows};
}

void Reader::attend(int layer, std::span<const Slice> slices, const float* q, float* out, const Scoring& scoring) {
  const Arena& arena = cache_.arena;
  KVASIR_CHECK(!cache_.open && slices.size() <= pieces_.capacity());
  plan_.start(layer, slices);
  const LayerLayout& l = plan_.layer();
  const LayerStep step{arena, plan_, {layer, q, nullptr, nullptr, out, scoring}, workers_.as<float>(), sizes_.worker};
  const int heads = l.shape.kv_heads, sinks = arena.layout.sinks > 0 ? 1 : 0;
  pieces_.clear();
  std::int64_t items = 0;
  for (const Slice& s : slices) {
    const std::int64_t n = s.sequence->length;
    KVASIR_CHECK(s.count == 1 && n > 0 && !s.sequence->borrowed);
    Piece p{};
    p.part.sequence = s.sequence;
    p.part.position = n;
    p.part.row = s.row;
    p.part.tokens = 1;
    p.part.few = true;
    p.part.both = {n, n + 1, false};  // the query's own token is no part of the sequence: what is seen ends before it
    const std::int64_t end = (n - 1) / kPageTokens + 1, first = std::min(l.first_page(n), end - 1);
    p.list = {first, end, std::max(first, arena.layout.sealed_at(n - 1))};
    p.first_item = items;
    p.groups = static_cast<int>((end - 1) / kGroupPages - first / kGroupPages) + 1;
    items += std::int64_t{heads} * (p.groups + sinks);
    pieces_.push_back(p);
  }
  team_.parallel_for(items, 1, [&](std::int64_t begin, std::int64_t end, int worker) {
    std::size_t at = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      while (at + 1 < pieces_.size() && pieces_[at + 1].first_item <= i) ++at;
      const Piece& p = pieces_[at];
      const auto head = static_cast<int>((i - p.first_item) / (p.groups + sinks));
      const auto index = static_cast<int>((i - p.first_item) % (p.groups + sinks));
      HeadFold fold(step, p.part, head, p.list, 0, 1, false, worker);
      const kernel::States into = state(at, head, index);
      if (index < sinks) {
        fold.clear(into);
        fold.sinks(into);
      } else {
        fold.group(p.list.begin / kGroupPages + index - sinks, {}, into);
      }
    }
  });
  cache_.arena.pages.check();
  const int group = l.group(), dv = l.shape.head_dim_v;
  const std::int64_t queries = static_cast<std::int64_t>(pieces_.size()) * heads;
  team_.parallel_for(queries, 1, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t i = begin; i < end; ++i) {
      const auto at = static_cast<std::size_t>(i / heads);
      const auto head = static_cast<int>(i % heads);
      const kernel::States total = state(at, head, 0);
      for (int index = 1; index < pieces_[at].groups + sinks; ++index)
        kernel::attention().fold(group, l.shape.sum_dim(), state(at, head, index), total);
      kernel::attention().finish(
          group, dv, total,
          out + (static_cast<std::int64_t>(pieces_[at].part.row) * l.shape.query_heads + head * group) * dv, dv);
    }
  });
}

}  // namespace kvasir::kv
