#include "kv/fold.hpp"

#include <cmath>
#include <limits>

namespace kvasir::kv {

std::size_t FoldScratch::place(float* p, const FoldSize& size) {
  std::size_t at = 0;
  const auto take = [&](std::size_t n) {
    float* piece = p ? p + at : nullptr;
    at += round_up(n);
    return piece;
  };
  const auto rows = static_cast<std::size_t>(size.rows);
  const auto d = static_cast<std::size_t>(size.d);
  const auto batch = static_cast<std::size_t>(size.batch);
  const auto pitch = static_cast<std::size_t>(kernel::out_pitch(size.dv));
  q = take(rows * d);
  rotated = take(rows * d);
  begins = reinterpret_cast<int*>(take(rows));
  ends = reinterpret_cast<int*>(take(rows));
  weights = take(rows * batch * kPageTokens);
  maxima = take(batch * rows);
  sums = take(batch * rows);
  outs = take(batch * rows * pitch);
  for (kernel::States* s : {&run, &group, &total}) {
    s->max = take(rows);
    s->sum = take(rows);
    s->out = take(rows * pitch);
  }
  cosines = take(d / 2);
  sines = take(d / 2);
  k_tile = size.tiles ? take(kPageTokens * d) : nullptr;
  v_tile = size.tiles ? take(kPageTokens * ((pitch + kPanel - 1) / kPanel * kPanel)) : nullptr;
  k_rows = size.tiles ? take(kPageTokens * d) : nullptr;
  v_rows = size.tiles ? take(kPageTokens * static_cast<std::size_t>(size.dv)) : nullptr;
  return at;
}

// The rows as the segment's keys want them: rotated back by its shift, in the basis of its codec.
const float* Fold::queries(const Segment& segment) {
  const CodecSide& keys = segment.k->k;
  if (!keys.to_basis && segment.shift == 0) return rows_.q;
  if (rotated_for_ == segment.k && rotated_by_ == segment.shift) return s_.rotated;
  rotated_for_ = segment.k;
  rotated_by_ = segment.shift;
  std::copy_n(rows_.q, static_cast<std::size_t>(rows_.count) * static_cast<std::size_t>(size_.d), s_.rotated);
  if (segment.shift != 0) {
    const float* const cosines = segment.angles ? segment.angles : s_.cosines;
    const float* const sines = segment.angles ? segment.angles + rotation_->pairs : s_.sines;
    for (std::int64_t i = 0; i < rotation_->pairs && !segment.angles; ++i) {
      const double angle = -static_cast<double>(segment.shift) * rotation_->frequencies[i];
      s_.cosines[i] = static_cast<float>(std::cos(angle));
      s_.sines[i] = static_cast<float>(std::sin(angle));
    }
    for (int r = 0; r < rows_.count; ++r)
      kernel::ops().rope(s_.rotated + static_cast<std::ptrdiff_t>(r) * size_.d, cosines, sines, rotation_->pairs,
                         rotation_->layout);
  }
  if (keys.to_basis) keys.to_basis(segment.head_k, rows_.count, s_.rotated, size_.d);
  return s_.rotated;
}

// Scores of page `index` of a batch become weights. REQUIRES: limit(page)
void Fold::weigh(const FoldPage& page, int index) {
  const int stride = size_.batch * kPageTokens;
  float* const scores = s_.weights + static_cast<std::ptrdiff_t>(index) * kPageTokens;
  const auto& kernels = kernel::attention();
  if (soft_cap_ > 0) kernels.cap(scores, stride, rows_.count, soft_cap_);
  if (slopes_) add_distances(page, scores, stride);
  if (distances_) add_learned(page, scores, stride);
  if (page.hidden)
    for (int t = 0; t < kPageTokens; ++t)
      if (page.hidden[t / 64] >> (t % 64) & 1)
        for (int r = 0; r < rows_.count; ++r) scores[r * stride + t] = -std::numeric_limits<float>::infinity();
  if (chosen_) hide_others(page, scores, stride);
  const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(index) * rows_.count;
  kernels.weigh(scores, stride, rows_.count, s_.begins, s_.ends, s_.maxima + at, s_.sums + at);
}

// ALiBi (Press, Smith and Lewis 2021, arXiv:2108.12409): a score falls by slope * distance. Compiled once for all
// instruction sets, so it has the same bits on all of them.
void Fold::add_distances(const FoldPage& page, float* scores, int stride) const {
  for (int r = 0; r < rows_.count; ++r) {
    const float slope = slopes_[r % rows_.group] * kernel::kLog2E;  // scores are in units of ln 2
    const auto ahead = static_cast<int>(page.position - (rows_.first + r / rows_.group));
    float* const row = scores + static_cast<std::ptrdiff_t>(r) * stride;
    for (int t = 0; t < s_.ends[r]; ++t) row[t] += slope * static_cast<float>(ahead + t);
  }
}

// DistanceBias. Compiled once, as add_distances is, and every score is summed by itself.
void Fold::add_learned(const FoldPage& page, float* scores, int stride) const {
  for (int r = 0; r < rows_.count; ++r) {
    const float* const own = distances_.rows + r / rows_.group * token_floats_ + r % rows_.group * distances_.width;
    const std::int64_t behind = rows_.first + r / rows_.group - page.position;  // of the row's token: token 0
    const auto begin = static_cast<int>(std::max<std::int64_t>(s_.begins[r], behind - distances_.extent + 1));
    const auto end = static_cast<int>(std::min<std::int64_t>(s_.ends[r], behind + 1));
    if (begin >= end) continue;
    float* const row = scores + static_cast<std::ptrdiff_t>(r) * stride + begin;
    for (int i = 0; i < distances_.width; ++i) {
      const float x = own[i] * kernel::kLog2E;  // scores are in units of ln 2
      const float* const profile = distances_.profiles + i * distances_.extent + (behind - begin);
      for (int t = 0; t < end - begin; ++t) row[t] += x * profile[-t];
    }
  }
}

// Scores of tokens that an index did not choose for the row.
void Fold::hide_others(const FoldPage& page, float* scores, int stride) const {
  for (int r = 0; r < rows_.count; ++r) {
    const int token = r / rows_.group;
    if (rows_.first + token < chosen_.all) continue;
    const std::uint64_t* const words = chosen_.page(token, page.position);
    float* const row = scores + static_cast<std::ptrdiff_t>(r) * stride;
    for (int t = s_.begins[r]; t < s_.ends[r]; ++t)
      if (!(words[t / 64] >> (t % 64) & 1)) row[t] = -std::numeric_limits<float>::infinity();
  }
}

// Whether some row sees some token of the page. One that none sees would change no state.
bool Fold::sees(const FoldPage& page) const {
  if (!chosen_) return true;
  for (int r = 0; r < rows_.count; r += rows_.group)
    if (s_.ends[r] > s_.begins[r] && chosen_.any(r / rows_.group, rows_.first + r / rows_.group, page.position))
      return true;
  return false;
}

void Fold::weigh_packed(const Segment& segment, std::span<const FoldPage> pages, const float* q) {
  const auto count = static_cast<int>(pages.size());
  PageRef ks[kGroupPages];
  for (int i = 0; i < count; ++i) ks[i] = pages[static_cast<std::size_t>(i)].k;
  segment.k->dots(segment.head_k, ks, count, q, rows_.count, s_.weights, size_.batch * kPageTokens);
  for (int i = 0; i < count; ++i) {
    limit(pages[static_cast<std::size_t>(i)]);
    weigh(pages[static_cast<std::size_t>(i)], i);
  }
}

// By the codec's products on packed bytes.
void Fold::add_packed(const Segment& segment, std::span<const FoldPage> pages, const float* q,
                      const kernel::States& into) {
  const int stride = size_.batch * kPageTokens;
  const int pitch = kernel::out_pitch(size_.dv);
  const auto count = static_cast<int>(pages.size());
  weigh_packed(segment, pages, q);
  PageRef vs[kGroupPages];
  for (int i = 0; i < count; ++i) vs[i] = pages[static_cast<std::size_t>(i)].v;
  segment.v->accumulate(segment.head_v, vs, count, s_.weights, stride, rows_.count, s_.outs, pitch);
  for (int i = 0; i < count; ++i) {
    const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(i) * rows_.count;
    kernel::attention().fold(rows_.count, size_.dv, {s_.maxima + at, s_.sums + at, s_.outs + at * pitch}, into);
  }
}

// Page by page, keys and values each by packed products or as a tile of floats.
void Fold::add_tile(const Segment& segment, const FoldPage& page, const float* q, const kernel::States& into) {
  const auto& kernels = kernel::attention();
  limit(page);
  if (segment.k->packed_prompts) {
    segment.k->dots(segment.head_k, &page.k, 1, q, rows_.count, s_.weights, kPageTokens);
  } else {
    segment.k->k.unseal(segment.head_k, page.k, s_.k_tile);
    kernels.scores(q, rows_.count, size_.d, s_.k_tile, s_.ends, s_.weights);
  }
  weigh(page, 0);
  if (segment.v->packed_prompts) {
    segment.v->accumulate(segment.head_v, &page.v, 1, s_.weights, kPageTokens, rows_.count, s_.outs,
                          kernel::out_pitch(size_.dv));
    kernels.fold(rows_.count, size_.dv, {s_.maxima, s_.sums, s_.outs}, into);
  } else {
    segment.v->v.unseal(segment.head_v, page.v, s_.v_tile);
    kernels.fold_tile(s_.weights, rows_.count, size_.dv, s_.v_tile, page.v.begin, s_.ends, s_.maxima, s_.sums, into);
  }
}

// A tile of keys, (2, d, 64) by tokens, as one of values, (ceil(d / 64), 128, 64) by channels.
static void keys_as_values(const float* keys, int d, float* values) {
  for (int c = 0; c < d; c += kPanel)
    for (int t = 0; t < kPageTokens; ++t) {
      const float* const from = keys + (static_cast<std::ptrdiff_t>(t / kPanel) * d + c) * kPanel + t % kPanel;
      float* const to = values + (static_cast<std::ptrdiff_t>(c / kPanel) * kPageTokens + t) * kPanel;
      const int channels = std::min(kPanel, d - c);
      for (int i = 0; i < channels; ++i) to[i] = from[i * kPanel];
      std::fill(to + channels, to + std::min(kPanel, kernel::out_pitch(d) - c), 0.0f);
    }
}

void Fold::add_latent(const Segment& segment, const FoldPage& page, const float* q, const kernel::States& into) {
  const auto& kernels = kernel::attention();
  limit(page);
  if (!sees(page)) return;
  segment.k->k.unseal(segment.head_k, page.k, s_.k_tile);
  kernels.scores(q, rows_.count, size_.d, s_.k_tile, s_.ends, s_.weights);
  weigh(page, 0);
  keys_as_values(s_.k_tile, size_.d, s_.v_tile);
  kernels.fold_tile(s_.weights, rows_.count, size_.dv, s_.v_tile, page.k.begin, s_.ends, s_.maxima, s_.sums, into);
}

void Fold::weigh(const Segment& segment, std::span<const FoldPage> pages) {
  if (pages.empty()) return;
  const float* const q = queries(segment);
  if (!size_.tiles) return weigh_packed(segment, pages, q);
  limit(pages.front());
  segment.k->k.unseal(segment.head_k, pages.front().k, s_.k_tile);
  kernel::attention().scores(q, rows_.count, size_.d, s_.k_tile, s_.ends, s_.weights);
  weigh(pages.front(), 0);
}

void Fold::add(const Segment& segment, std::span<const FoldPage> pages, bool first, const kernel::States& into) {
  if (pages.empty()) return;
  const auto& kernels = kernel::attention();
  const CodecSide& values = size_.latent ? segment.k->k : segment.v->v;
  const Head& head_v = size_.latent ? segment.head_k : segment.head_v;
  // What lies in another basis is merged by itself and rotated back; into an empty state it goes directly.
  const bool apart = values.from_basis && !first;
  const kernel::States& to = apart ? s_.run : into;
  if (apart) kernels.clear(rows_.count, size_.dv, to);
  const float* q = queries(segment);
  if (size_.tiles) {
    for (const FoldPage& page : pages) size_.latent ? add_latent(segment, page, q, to) : add_tile(segment, page, q, to);
  } else {
    add_packed(segment, pages, q, to);
  }
  if (values.from_basis) values.from_basis(head_v, rows_.count, to.out, kernel::out_pitch(size_.dv));
  if (apart) kernels.fold(rows_.count, size_.dv, to, into);
}

}  // namespace kvasir::kv
