// Attention over packed arrays, by the fold of the live cache, so that the bits are those of a cache of the same
// codecs.
#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>

#include "api/packed.hpp"
#include "kernel/attention.hpp"
#include "kv/fold.hpp"

namespace kvasir {
namespace {

// One KV head of the batch: its pages and the raw tokens behind them are two segments of the fold.
class Head {
 public:
  Head(const PackedKv::Impl& k, const PackedKv::Impl& v, int item, int rows, const kv::FoldSize& size,
       const kv::FoldScratch& s)
      : k_(k),
        v_(v),
        item_(item),
        rows_{s.q, rows, rows, k.tokens - 1},
        size_(size),
        s_(s),
        sealed_{k.format().spec.codec, v.format().spec.codec, k.head(item), v.head(item)},
        raw_{k.format().raw, v.format().raw, k.raw_head(), v.raw_head()} {}

  // out (rows, dv), lse (rows) or null; q (rows, d)
  void attend(const float* q, float scale, float* out, float* lse) const {
    const auto& kernels = kernel::attention();
    kernels.scale_rows(q, size_.d, rows_.count, size_.d, scale, s_.q);
    kernels.clear(rows_.count, size_.dv, s_.total);
    kv::Fold fold(rows_, size_, s_);
    const std::int64_t blocks = k_.pages() + (k_.tail() > 0 ? 1 : 0);
    for (std::int64_t first = 0; first < blocks; first += kv::kGroupPages) {
      fold_group(fold, first, std::min<std::int64_t>(first + kv::kGroupPages, blocks));
      kernels.fold(rows_.count, size_.dv, s_.group, s_.total);
    }
    for (int r = 0; lse && r < rows_.count; ++r)
      lse[r] = (s_.total.max[r] + std::log2(s_.total.sum[r])) / kernel::kLog2E;
    kernels.finish(rows_.count, size_.dv, s_.total, out, size_.dv);
  }

 private:
  // Blocks [first, last), of which the one behind the last page is raw, into s_.group.
  void fold_group(kv::Fold& fold, std::int64_t first, std::int64_t last) const {
    kv::FoldPage pages[kv::kGroupPages];
    const auto count = static_cast<std::size_t>(last - first);
    const auto sealed = static_cast<std::size_t>(std::min(last, k_.pages()) - first);
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t page = first + static_cast<std::int64_t>(i);
      pages[i] = {i < sealed ? sealed_ref(k_, page) : k_.tail_ref(item_),
                  i < sealed ? sealed_ref(v_, page) : v_.tail_ref(item_), page * kv::kPageTokens};
    }
    for (std::size_t i = 0; i + 1 < count; ++i) {
      pages[i].k.next = pages[i + 1].k.block;
      pages[i].v.next = pages[i + 1].v.block;
    }
    pages[count - 1].k.next = pages[0].v.block;
    kernel::attention().clear(rows_.count, size_.dv, s_.group);
    const std::span<const kv::FoldPage> all(pages, count);
    fold.add(sealed_, all.first(sealed), true, s_.group);
    fold.add(raw_, all.subspan(sealed), sealed == 0, s_.group);
  }

  kv::PageRef sealed_ref(const PackedKv::Impl& p, std::int64_t page) const {
    return {p.page(item_, page), 0, kv::kPageTokens, kv::kPageTokens};
  }

  const PackedKv::Impl& k_;
  const PackedKv::Impl& v_;
  int item_;
  kv::Rows rows_;
  kv::FoldSize size_;
  const kv::FoldScratch& s_;
  kv::Segment sealed_;
  kv::Segment raw_;
};

void check(const float* q, int query_heads, const PackedKv& k, const PackedKv& v, const float* out,
           const AttendOptions& o) {
  const auto require = [](bool fine, const std::string& text) { api::require(fine, "attend", text); };
  const auto shape = [](const PackedKv& x) {
    return "[" + std::to_string(x.batch()) + "][" + std::to_string(x.heads()) + "][" + std::to_string(x.tokens()) + "]";
  };
  require(q, "q is null, expected [batch][query_heads][head_dim] floats");
  require(out, "out is null, expected room for [batch][query_heads][head_dim of v] floats");
  require(k.codec().side() == KvSide::kKeys, "k was packed by a codec for values");
  require(v.codec().side() == KvSide::kValues, "v was packed by a codec for keys");
  require(k.batch() == v.batch() && k.heads() == v.heads() && k.tokens() == v.tokens(),
          "k is " + shape(k) + " and v is " + shape(v) + ", expected the same batch, heads and tokens");
  require(query_heads > 0 && query_heads % k.heads() == 0, "query_heads is " + std::to_string(query_heads) +
                                                               ", expected a multiple of the " +
                                                               std::to_string(k.heads()) + " KV heads");
  require(std::isfinite(o.scale), "scale is not finite");
  const int items = k.batch() * k.heads();
  require(o.begin >= 0 && o.begin <= items && (o.end == -1 || (o.end >= o.begin && o.end <= items)),
          "heads [" + std::to_string(o.begin) + ", " + std::to_string(o.end) + ") are not within the " +
              std::to_string(items) + " KV heads of the batch");
}

}  // namespace

void attend(const float* q, int query_heads, const PackedKv& k, const PackedKv& v, float* out,
            const AttendOptions& options) {
  check(q, query_heads, k, v, out, options);
  const int group = query_heads / k.heads();
  const int d = k.codec().head_dim();
  const int dv = v.codec().head_dim();
  const float scale = options.scale != 0 ? options.scale : 1 / std::sqrt(static_cast<float>(d));
  const kv::FoldSize size{group, d, dv, kv::kGroupPages, false};
  const std::size_t each = kv::FoldScratch{}.place(nullptr, size);
  const tensor::Buffer scratch(
      tensor::Tag::kScratch, (static_cast<std::size_t>(api::threads_of(options.workers)) * each + 16) * sizeof(float));
  const int end = options.end == -1 ? k.batch() * k.heads() : options.end;
  api::for_items(options.workers, options.begin, end, [&](int item, int worker) {
    kv::FoldScratch s;
    s.place(scratch.as<float>() + static_cast<std::size_t>(worker) * each, size);
    const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(item) * group;
    Head(k.impl(), v.impl(), item, group, size, s)
        .attend(q + row * d, scale, out + row * dv, options.lse ? options.lse + row : nullptr);
  });
}

}  // namespace kvasir
