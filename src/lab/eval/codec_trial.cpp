#include "lab/eval/codec_trial.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.hpp"
#include "kernel/attention.hpp"
#include "kv/codec.hpp"
#include "kv/layout.hpp"
#include "kv/spec.hpp"
#include "lab/eval/subject.hpp"
#include "run/rng.hpp"
#include "tensor/buffer.hpp"

namespace kvasir::lab::eval {
namespace {

using kv::kPageTokens;
using kv::kPanel;
using kv::Side;
using tensor::Buffer;
using tensor::Tag;

constexpr int kRows = 8;  // queries per call

const kv::Codec& raw_codec(kv::RawType type) {
  return *find(kv::codecs(), type == kv::RawType::kF32 ? "f32" : type == kv::RawType::kF16 ? "f16" : "bf16");
}

// One head's keys or values, sealed.
class SealedHead {
 public:
  SealedHead(const kv::CodecSpec& spec, Side side, const KvArray& array, int h)
      : spec_(spec),
        side_(spec_side(*spec.codec, side)),
        keys_(side == Side::kKeys),
        d_(array.dim),
        tokens_(array.tokens),
        page_bytes_(side_.bytes(d_, spec.params)) {
    const kv::Codec& c = *spec.codec;
    if (c.state_bytes && c.state_bytes(d_) > 0) {
      state_ = Buffer(Tag::kScratch, c.state_bytes(d_));
      c.init_state(state_.data(), d_, side, array.layer, h);
    }
    stride_ = (page_bytes_ + 63) / 64 * 64;
    const int pages = (tokens_ + kPageTokens - 1) / kPageTokens;
    sealed_ = Buffer(Tag::kScratch, static_cast<std::size_t>(pages) * stride_ + kv::kReadSlack);
    seal(array.head(h), pages);
  }

  kv::Head head() const { return {d_, spec_.params, state_.data()}; }
  const kv::Codec& codec() const { return *spec_.codec; }
  std::span<const kv::PageRef> pages() const { return refs_; }
  int d() const { return d_; }
  double bits() const { return 8.0 * static_cast<double>(page_bytes_) / (kPageTokens * d_); }
  // Token number of row `row` of page i.
  int token(std::size_t i, int row) const { return static_cast<int>(i) * kPageTokens + row - refs_[i].begin; }

  // Queries into the codec's basis, and outputs out of it.
  void to_basis(int rows, float* x, std::ptrdiff_t stride) const {
    if (side_.to_basis) side_.to_basis(head(), rows, x, stride);
  }
  void from_basis(int rows, float* x, std::ptrdiff_t stride) const {
    if (side_.from_basis) side_.from_basis(head(), rows, x, stride);
  }

  // What comes back against `rows` (tokens, d).
  Distortion::Energy distortion(const float* rows) const {
    const int panels = (d_ + kPanel - 1) / kPanel;
    const Buffer tile(Tag::kScratch, static_cast<std::size_t>(kPageTokens * panels * kPanel) * sizeof(float));
    std::vector<float> back(static_cast<std::size_t>(kPageTokens * d_));
    Distortion sum(d_);
    for (std::size_t i = 0; i < refs_.size(); ++i) {
      side_.unseal(head(), refs_[i], tile.as<float>());
      for (int t = 0; t < kPageTokens; ++t)
        for (int c = 0; c < d_; ++c)
          back[static_cast<std::size_t>(t * d_ + c)] =
              tile.as<float>()[keys_ ? (t / kPanel * d_ + c) * kPanel + t % kPanel
                                     : (c / kPanel * kPageTokens + t) * kPanel + c % kPanel];
      from_basis(kPageTokens, back.data(), d_);
      for (int t = refs_[i].begin; t < refs_[i].end; ++t)
        sum.add(rows + static_cast<std::ptrdiff_t>(token(i, t)) * d_, &back[static_cast<std::size_t>(t * d_)]);
    }
    return sum.energy();
  }

 private:
  static const kv::CodecSide& spec_side(const kv::Codec& codec, Side side) {
    return side == Side::kKeys ? codec.k : codec.v;
  }

  void seal(const float* rows, int pages) {
    const kv::Codec& raw = raw_codec(spec_.codec->raw_type);
    const Buffer block(Tag::kScratch, static_cast<std::size_t>(kPageTokens * d_) * sizeof(float) + kv::kReadSlack);
    const Buffer scratch(Tag::kScratch, kv::seal_floats(d_) * sizeof(float));
    for (int i = 0; i < pages; ++i) {
      const int count = std::min(kPageTokens, tokens_ - i * kPageTokens), skip = kPageTokens - count;
      const float* from = rows + static_cast<std::ptrdiff_t>(i) * kPageTokens * d_;
      (keys_ ? raw.write_k : raw.write_v)(block.data(), kPageTokens, skip, count, from, d_, d_);
      std::byte* const page = sealed_.data() + static_cast<std::size_t>(i) * stride_;
      side_.seal(head(), block.data(), skip, scratch.as<float>(), page);
      refs_.push_back({page, skip, kPageTokens, kPageTokens});
    }
  }

  kv::CodecSpec spec_;
  const kv::CodecSide& side_;
  bool keys_;
  int d_, tokens_;
  std::size_t page_bytes_, stride_ = 0;
  Buffer state_, sealed_;
  std::vector<kv::PageRef> refs_;
};

// n numbers from N(0, 1) (Box-Muller).
std::vector<float> gaussian(run::Rng* rng, std::size_t n) {
  std::vector<float> x(n);
  for (float& v : x)
    v = static_cast<float>(std::sqrt(-2 * std::log1p(-rng->uniform())) *
                           std::cos(2 * std::numbers::pi * rng->uniform()));
  return x;
}

// Exact attention of `rows` queries in double: scores (rows, tokens) and, with values, outputs (rows, dv).
struct Exact {
  std::vector<double> scores, out;
};

Exact exact_attention(const KvArray& keys, const KvArray* values, int h, const float* q, int rows) {
  Exact e;
  const int n = keys.tokens, d = keys.dim;
  for (int r = 0; r < rows; ++r) {
    const std::size_t first = e.scores.size();
    for (int t = 0; t < n; ++t) {
      double s = 0;
      for (int c = 0; c < d; ++c) s += static_cast<double>(q[r * d + c]) * keys.head(h)[t * d + c];
      e.scores.push_back(s);
    }
    if (!values) continue;
    const double* s = &e.scores[first];
    const double scale = 1 / std::sqrt(static_cast<double>(d)), max = *std::max_element(s, s + n);
    std::vector<double> o(static_cast<std::size_t>(values->dim));
    double sum = 0;
    for (int t = 0; t < n; ++t) {
      const double w = std::exp(scale * (s[t] - max));
      sum += w;
      for (int c = 0; c < values->dim; ++c) o[static_cast<std::size_t>(c)] += w * values->head(h)[t * values->dim + c];
    }
    for (double& x : o) e.out.push_back(x / sum);
  }
  return e;
}

// Scores of queries in the keys' basis, from packed bytes: (rows, 128 pages), without the scale.
std::vector<float> packed_scores(const SealedHead& k, const float* q, int rows) {
  const auto pages = static_cast<int>(k.pages().size());
  std::vector<float> turned(q, q + rows * k.d());
  k.to_basis(rows, turned.data(), k.d());
  // Readers of a vector may want a little behind the last row.
  std::vector<float> scores(static_cast<std::size_t>(rows * pages * kPageTokens + 16));
  k.codec().dots(k.head(), k.pages().data(), pages, turned.data(), rows, scores.data(), pages * kPageTokens);
  return scores;
}

// softmax(scores / sqrt(d)) over all tokens times packed values, folded page by page as attention does: the weights of
// a page are relative to its own largest score.
std::vector<double> packed_outputs(const SealedHead& v, std::vector<float> scores, int rows, int d) {
  const int pages = static_cast<int>(v.pages().size()), stride = pages * kPageTokens, pitch = kernel::out_pitch(v.d());
  const double scale = 1 / std::sqrt(static_cast<double>(d));
  const auto at = [&](int i, int r) { return static_cast<std::size_t>(i * rows + r); };
  std::vector<double> max(at(pages, 0)), sum(at(pages, 0));
  for (int i = 0; i < pages; ++i)
    for (int r = 0; r < rows; ++r) {
      float* s = &scores[static_cast<std::size_t>(r * stride + i * kPageTokens)];
      const int begin = v.pages()[static_cast<std::size_t>(i)].begin;
      max[at(i, r)] = *std::max_element(s + begin, s + kPageTokens);
      for (int t = 0; t < kPageTokens; ++t) {
        s[t] = t < begin ? 0 : static_cast<float>(std::exp(scale * (s[t] - max[at(i, r)])));
        sum[at(i, r)] += s[t];
      }
    }
  std::vector<float> parts(at(pages, 0) * static_cast<std::size_t>(pitch));
  v.codec().accumulate(v.head(), v.pages().data(), pages, scores.data(), stride, rows, parts.data(), pitch);
  v.from_basis(pages * rows, parts.data(), pitch);
  std::vector<double> out;
  for (int r = 0; r < rows; ++r) {
    double top = max[at(0, r)], all = 0;
    for (int i = 0; i < pages; ++i) top = std::max(top, max[at(i, r)]);
    for (int i = 0; i < pages; ++i) all += sum[at(i, r)] * std::exp(scale * (max[at(i, r)] - top));
    for (int c = 0; c < v.d(); ++c) {
      double x = 0;
      for (int i = 0; i < pages; ++i)
        x += parts[at(i, r) * static_cast<std::size_t>(pitch) + static_cast<std::size_t>(c)] *
             std::exp(scale * (max[at(i, r)] - top));
      out.push_back(x / all);
    }
  }
  return out;
}

void try_queries(const SealedHead& k, const SealedHead* v, const KvPair& pair, int h, const TrialOptions& options,
                 CodecRow* row) {
  run::Rng rng(options.seed + static_cast<std::uint64_t>(pair.keys.layer) * 4096 + static_cast<std::uint64_t>(h));
  const int n = pair.keys.tokens;
  for (int done = 0; done < options.queries; done += kRows) {
    const int rows = std::min(kRows, options.queries - done);
    const std::vector<float> q = gaussian(&rng, static_cast<std::size_t>(rows * k.d()));
    const Exact exact = exact_attention(pair.keys, v ? &pair.values : nullptr, h, q.data(), rows);
    std::vector<float> scores = packed_scores(k, q.data(), rows);
    const int stride = static_cast<int>(k.pages().size()) * kPageTokens;
    for (int r = 0; r < rows; ++r)
      for (std::size_t i = 0; i < k.pages().size(); ++i)
        for (int t = k.pages()[i].begin; t < kPageTokens; ++t)
          row->scores.add(exact.scores[static_cast<std::size_t>(r * n + k.token(i, t))],
                          scores[static_cast<std::size_t>(r * stride) + i * kPageTokens + static_cast<std::size_t>(t)]);
    if (!v) continue;
    const std::vector<double> out = packed_outputs(*v, std::move(scores), rows, k.d());
    for (std::size_t i = 0; i < out.size(); ++i) {
      row->output_signal += exact.out[i] * exact.out[i];
      row->output_error += (exact.out[i] - out[i]) * (exact.out[i] - out[i]);
    }
  }
}

}  // namespace

double CodecRow::output_relative_error() const {
  return output_signal > 0 ? std::sqrt(output_error / output_signal) : 0;
}

CodecRow& CodecRow::operator+=(const CodecRow& o) {
  has_k = has_k || o.has_k;
  has_v = has_v || o.has_v;
  bits_k = o.bits_k;
  bits_v = o.bits_v;
  k += o.k;
  v += o.v;
  scores += o.scores;
  output_signal += o.output_signal;
  output_error += o.output_error;
  return *this;
}

Sides sides_of(const std::string& name, const KvPair& pair, bool strict) {
  const kv::CodecPair names = kv::parse_pair(name, "--kv");
  Sides sides;
  const auto take = [&](const std::string& codec, int d, Side side) {
    try {
      kv::parse_codec(codec, d, side, "--kv");
      return codec;
    } catch (const Error&) {
      if (strict) throw;
      return std::string();
    }
  };
  sides.k = take(names.k, pair.keys.dim, Side::kKeys);
  if (pair.values.heads > 0) sides.v = take(names.v, pair.values.dim, Side::kValues);
  return sides;
}

CodecRow try_codecs(const std::string& name, const Sides& sides, const KvPair& pair, const TrialOptions& options) {
  CodecRow row;
  row.kv = name;
  row.has_k = !sides.k.empty();
  row.has_v = !sides.v.empty();
  kv::CodecSpec ks, vs;
  if (row.has_k) ks = kv::parse_codec(sides.k, pair.keys.dim, Side::kKeys, "--kv");
  if (row.has_v) vs = kv::parse_codec(sides.v, pair.values.dim, Side::kValues, "--kv");
  for (int h = 0; h < pair.keys.heads; ++h) {
    std::unique_ptr<SealedHead> k, v;
    if (row.has_v) {
      v = std::make_unique<SealedHead>(vs, Side::kValues, pair.values, h);
      row.v += v->distortion(pair.values.head(h));
      row.bits_v = v->bits();
    }
    if (!row.has_k) continue;
    k = std::make_unique<SealedHead>(ks, Side::kKeys, pair.keys, h);
    row.k += k->distortion(pair.keys.head(h));
    row.bits_k = k->bits();
    try_queries(*k, v.get(), pair, h, options, &row);
  }
  return row;
}

}  // namespace kvasir::lab::eval
