// Attention over packed arrays: what kv/attend.cpp does for one decoding step, with the same order of additions, so
// that the bits are those of a cache of the same codecs.
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "api/packed.hpp"
#include "kernel/attention.hpp"

namespace kvasir {
namespace {

constexpr int kStride = kv::kGroupPages * kv::kPageTokens;  // of a row of scores

std::size_t round_up(std::size_t floats) { return (floats + 15) / 16 * 16; }

// A thread's floats, for g query rows; none grows with the tokens.
struct Scratch {
  float* q;        // (g, d), scaled
  float* basis_q;  // the same in the basis of the keys
  float* scores;   // (g, kStride)
  float* maxima;   // (kGroupPages, g)
  float* sums;
  float* outs;  // (kGroupPages, g, pitch)
  kernel::States group;
  kernel::States total;
  int* ends;  // (g)

  // Lays the pieces out from p on (null: only counts) and returns how many floats they take.
  std::size_t place(float* p, std::size_t g, std::size_t d, std::size_t pitch) {
    std::size_t at = 0;
    const auto take = [&](std::size_t n) {
      float* piece = p ? p + at : nullptr;
      at += round_up(n);
      return piece;
    };
    q = take(g * d);
    basis_q = take(g * d);
    scores = take(g * kStride);
    maxima = take(g * kv::kGroupPages);
    sums = take(g * kv::kGroupPages);
    outs = take(g * pitch * kv::kGroupPages);
    for (kernel::States* s : {&group, &total}) {
      s->max = take(g);
      s->sum = take(g);
      s->out = take(g * pitch);
    }
    ends = reinterpret_cast<int*>(take(g));
    return at;
  }
};

class Head {
 public:
  Head(const PackedKv::Impl& k, const PackedKv::Impl& v, int item, int rows, const Scratch& s)
      : k_(k), v_(v), item_(item), g_(rows), s_(s), dv_(v.format().d), pitch_(kernel::out_pitch(dv_)) {}

  // out (g, dv), lse (g) or null; q (g, d)
  void attend(const float* q, float scale, float* out, float* lse) const {
    const auto& kernels = kernel::attention();
    const int d = k_.format().d;
    kernels.scale_rows(q, d, g_, d, scale, s_.q);
    const kv::CodecSide& keys = k_.format().spec.codec->k;
    const float* turned = s_.q;
    if (keys.to_basis && k_.pages() > 0) {
      std::copy_n(s_.q, static_cast<std::size_t>(g_) * static_cast<std::size_t>(d), s_.basis_q);
      keys.to_basis(k_.head(item_), g_, s_.basis_q, d);
      turned = s_.basis_q;
    }
    kernels.clear(g_, dv_, s_.total);
    const std::int64_t blocks = k_.pages() + (k_.tail() > 0 ? 1 : 0);
    for (std::int64_t first = 0; first < blocks; first += kv::kGroupPages) {
      fold_group(first, std::min<std::int64_t>(first + kv::kGroupPages, blocks), turned);
      kernels.fold(g_, dv_, s_.group, s_.total);
    }
    for (int r = 0; lse && r < g_; ++r) lse[r] = (s_.total.max[r] + std::log2(s_.total.sum[r])) / kernel::kLog2E;
    kernels.finish(g_, dv_, s_.total, out, dv_);
  }

 private:
  // Blocks [first, last), of which the one behind the last page is raw, into s_.group.
  void fold_group(std::int64_t first, std::int64_t last, const float* turned) const {
    const auto& kernels = kernel::attention();
    const KvCodec::Impl& fk = k_.format();
    const KvCodec::Impl& fv = v_.format();
    kv::PageRef ks[kv::kGroupPages];
    kv::PageRef vs[kv::kGroupPages];
    const auto count = static_cast<int>(last - first);
    const auto sealed = static_cast<int>(std::min(last, k_.pages()) - first);
    for (int i = 0; i < count; ++i) {
      ks[i] = i < sealed ? sealed_ref(k_, first + i) : k_.tail_ref(item_);
      vs[i] = i < sealed ? sealed_ref(v_, first + i) : v_.tail_ref(item_);
    }
    for (int i = 0; i + 1 < count; ++i) {
      ks[i].next = ks[i + 1].block;
      vs[i].next = vs[i + 1].block;
    }
    ks[count - 1].next = vs[0].block;

    float* raw_scores = s_.scores + sealed * kv::kPageTokens;
    if (sealed > 0) fk.spec.codec->dots(k_.head(item_), ks, sealed, turned, g_, s_.scores, kStride);
    if (sealed < count) fk.raw->dots(k_.raw_head(), ks + sealed, 1, s_.q, g_, raw_scores, kStride);
    const auto g = static_cast<std::size_t>(g_);
    for (int i = 0; i < count; ++i) {
      std::fill_n(s_.ends, g_, ks[i].end);
      kernels.weigh(s_.scores + i * kv::kPageTokens, kStride, g_, 0, s_.ends,
                    s_.maxima + static_cast<std::size_t>(i) * g, s_.sums + static_cast<std::size_t>(i) * g);
    }
    const std::size_t page_floats = g * static_cast<std::size_t>(pitch_);
    float* raw_out = s_.outs + static_cast<std::size_t>(sealed) * page_floats;
    if (sealed > 0) fv.spec.codec->accumulate(v_.head(item_), vs, sealed, s_.scores, kStride, g_, s_.outs, pitch_);
    if (sealed < count) fv.raw->accumulate(v_.raw_head(), vs + sealed, 1, raw_scores, kStride, g_, raw_out, pitch_);
    kernels.clear(g_, dv_, s_.group);
    for (int i = 0; i < count; ++i) {
      const auto page = static_cast<std::size_t>(i);
      kernels.fold(g_, dv_, {s_.maxima + page * g, s_.sums + page * g, s_.outs + page * page_floats}, s_.group);
      if (i + 1 == sealed && fv.spec.codec->v.from_basis)
        fv.spec.codec->v.from_basis(v_.head(item_), g_, s_.group.out, pitch_);
    }
  }

  kv::PageRef sealed_ref(const PackedKv::Impl& p, std::int64_t page) const {
    return {p.page(item_, page), 0, kv::kPageTokens, kv::kPageTokens};
  }

  const PackedKv::Impl& k_;
  const PackedKv::Impl& v_;
  int item_;
  int g_;
  const Scratch& s_;
  int dv_;
  int pitch_;
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
  const auto g = static_cast<std::size_t>(group);
  const auto pitch = static_cast<std::size_t>(kernel::out_pitch(dv));
  const std::size_t each = Scratch{}.place(nullptr, g, static_cast<std::size_t>(d), pitch);
  const tensor::Buffer scratch(
      tensor::Tag::kScratch, (static_cast<std::size_t>(api::threads_of(options.workers)) * each + 16) * sizeof(float));
  const int end = options.end == -1 ? k.batch() * k.heads() : options.end;
  api::for_items(options.workers, options.begin, end, [&](int item, int worker) {
    Scratch s;
    s.place(scratch.as<float>() + static_cast<std::size_t>(worker) * each, g, static_cast<std::size_t>(d), pitch);
    const std::ptrdiff_t row = static_cast<std::ptrdiff_t>(item) * group;
    Head(k.impl(), v.impl(), item, group, s)
        .attend(q + row * d, scale, out + row * dv, options.lse ? options.lse + row : nullptr);
  });
}

}  // namespace kvasir
