#include "vision/tower.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "kernel/bidirectional.hpp"

namespace kvasir::vision {
namespace {

constexpr std::int64_t kMostWidth = 1 << 16;

std::array<float, 3> three(const weights::Metadata& m, const std::string& key) {
  const std::vector<double>* const v = m.get_floats(key);
  if (!v || v->size() != 3 || !std::all_of(v->begin(), v->end(), [](double x) { return std::isfinite(x); }))
    throw Error(Code::kBadInput, "expected three numbers", m.path() + ": " + key);
  return {static_cast<float>((*v)[0]), static_cast<float>((*v)[1]), static_cast<float>((*v)[2])};
}

}  // namespace

Normal Normal::read(const Reader& reader) {
  Normal n{three(reader.metadata(), "clip.vision.image_mean"), three(reader.metadata(), "clip.vision.image_std")};
  for (const float d : n.deviation)
    if (!(d > 0))
      throw Error(Code::kBadInput, "expected numbers above 0", reader.metadata().path() + ": clip.vision.image_std");
  return n;
}

std::string Normal::text() const {
  return fmt::format("mean {} {} {} deviation {} {} {}", mean[0], mean[1], mean[2], deviation[0], deviation[1],
                     deviation[2]);
}

void cut_patch(const Picture& p, int x, int y, int side, const Normal& normal, float* out) {
  for (std::size_t c = 0; c < 3; ++c) {
    const float scale = 1.0f / (255.0f * normal.deviation[c]), shift = -normal.mean[c] / normal.deviation[c];
    for (int dy = 0; dy < side; ++dy) {
      const std::uint8_t* const from =
          p.rgb.data() +
          (static_cast<std::size_t>(y + dy) * static_cast<std::size_t>(p.size.width) + static_cast<std::size_t>(x)) *
              3 +
          c;
      for (int dx = 0; dx < side; ++dx) *out++ = static_cast<float>(from[3 * dx]) * scale + shift;
    }
  }
}

Linear read_patches(const Reader& reader, std::int64_t dim, int side) {
  const std::int64_t inputs = std::int64_t{3} * side * side;
  std::vector<float> weights = reader.floats("v.patch_embd.weight", dim * inputs);
  if (reader.file().find("v.patch_embd.weight.1")) {
    const std::vector<float> second = reader.floats("v.patch_embd.weight.1", dim * inputs);
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] += second[i];
  }
  Linear out = reader.linear_of(weights, dim, inputs);
  if (reader.file().find("v.patch_embd.bias")) out.bias = reader.floats("v.patch_embd.bias", dim);
  return out;
}

std::vector<float> embed_patches(const Picture& p, int grid, int side, const Normal& normal, const Linear& patches,
                                 const std::vector<float>& positions, RowWork& work) {
  const std::int64_t n = std::int64_t{grid} * grid, inputs = patches.matrix.k, dim = patches.matrix.rows;
  std::vector<float> pixels(static_cast<std::size_t>(n * inputs)), rows(static_cast<std::size_t>(n * dim));
  work.each(n, [&](std::int64_t i) {
    const int column = static_cast<int>(i % grid), row = static_cast<int>(i / grid);
    cut_patch(p, column * side, row * side, side, normal, pixels.data() + i * inputs);
  });
  work.multiply(patches, pixels.data(), n, rows.data());
  work.add(rows.data(), positions.data(), n, dim);
  return rows;
}

Tower::Tower(const Reader& r, const TowerKind& kind) : kind_(kind) {
  const weights::Metadata& m = r.metadata();
  const auto count = [&](const char* key, std::int64_t most) {
    return m.require_int(std::string("clip.vision.") + key, 1, most);
  };
  dim_ = count("embedding_length", kMostWidth);
  const std::int64_t feed = r.tensor("v.blk.0.ffn_up.weight").rows();  // Qwen2-VL's feed_forward_length is another
  feed_ = r.filled(feed);                                              // activations of 0 are 0
  attention_ = r.attention();
  heads_ = count("attention.head_count", dim_);
  if (dim_ % heads_ != 0)
    throw Error(Code::kBadInput, fmt::format("is {}, which does not divide {}", heads_, dim_),
                m.path() + ": clip.vision.attention.head_count");
  const std::int64_t blocks = count("block_count", 1024);
  for (std::int64_t i = 0; i < blocks; ++i) {
    const std::string at = fmt::format("v.blk.{}.", i);
    Block b;
    const auto norm = [&](const std::string& name) {
      return kind.rms ? r.rms_norm(name, dim_, kind.eps) : r.layer_norm(name, dim_, kind.eps);
    };
    b.before_mixer = norm(at + "ln1");
    b.before_feed = norm(at + "ln2");
    if (r.file().find(at + "attn_qkv.weight"))
      b.qkv.push_back(r.linear(at + "attn_qkv", 3 * dim_, dim_, Bias::kHas));
    else
      for (const char* part : {"attn_q", "attn_k", "attn_v"})
        b.qkv.push_back(r.linear(at + part, dim_, dim_, Bias::kHas));
    b.out = r.linear(at + "attn_out", dim_, dim_, Bias::kHas);
    b.up = r.linear(at + "ffn_up", feed, dim_, Bias::kHas, feed_, dim_);
    b.down = r.linear(at + "ffn_down", dim_, feed, Bias::kHas, dim_, feed_);
    if (kind.gated) b.gate = r.linear(at + "ffn_gate", feed, dim_, Bias::kHas, feed_, dim_);
    blocks_.push_back(std::move(b));
  }
}

void Tower::run(std::size_t i, RowWork& work, std::vector<float>& x, const Rotations& rotations,
                std::span<const std::int64_t> ends) {
  const Block& b = blocks_[i];
  const auto n = static_cast<std::int64_t>(x.size()) / dim_;
  normed_.resize(x.size());
  qkv_.resize(3 * x.size());
  hidden_.resize(static_cast<std::size_t>(n * feed_));
  work.norm(b.before_mixer, x.data(), normed_.data(), n);
  for (std::size_t part = 0; part < b.qkv.size(); ++part)
    work.multiply(b.qkv[part], normed_.data(), n, qkv_.data() + part * x.size());
  attend(b, work, n, rotations, ends);  // to normed_
  work.multiply(b.out, normed_.data(), n, qkv_.data());
  work.add(x.data(), qkv_.data(), n, dim_);
  work.norm(b.before_feed, x.data(), normed_.data(), n);
  work.multiply(b.up, normed_.data(), n, hidden_.data());
  if (kind_.gated) {
    gate_.resize(hidden_.size());
    work.multiply(b.gate, normed_.data(), n, gate_.data());
  }
  const auto& ops = kernel::ops();
  const auto kind = static_cast<std::size_t>(kind_.activation);
  work.each(n, [&](std::int64_t r) {
    float* const hidden = hidden_.data() + r * feed_;
    if (kind_.gated) return ops.gate[kind](gate_.data() + r * feed_, hidden, hidden, feed_);
    if (kind_.sharp != 1) ops.scale(hidden, kind_.sharp, feed_);
    ops.activate[kind](hidden, feed_);
    if (kind_.sharp != 1) ops.scale(hidden, 1 / kind_.sharp, feed_);
  });
  work.multiply(b.down, hidden_.data(), n, normed_.data());
  work.add(x.data(), normed_.data(), n, dim_);
}

void Tower::attend(const Block& b, RowWork& work, std::int64_t n, const Rotations& rotations,
                   std::span<const std::int64_t> ends) {
  const bool fused = b.qkv.size() == 1;
  const std::int64_t stride = fused ? 3 * dim_ : dim_, next = fused ? dim_ : n * dim_;  // from queries to keys
  const int d = head();
  if (!rotations.cos.empty())
    work.each(n, [&](std::int64_t r) {
      for (std::int64_t h = 0; h < 2 * heads_; ++h)
        kernel::ops().rope(qkv_.data() + r * stride + h / heads_ * next + h % heads_ * d,
                           rotations.cos.data() + r * (d / 2), rotations.sin.data() + r * (d / 2), d / 2,
                           kernel::RopePairs::kSplitHalf);
    });
  const std::int64_t scratch = kernel::whole_head_scratch(n, d, d);
  attention_scratch_.resize(static_cast<std::size_t>(work.team().size() * scratch));
  const float scale = 1.0f / std::sqrt(static_cast<float>(d));
  const std::span<const std::int64_t> parts = ends.empty() ? std::span(&n, 1) : ends;
  const auto count = static_cast<std::int64_t>(parts.size());
  work.team().parallel_for(count * heads_, 1, [&](std::int64_t begin, std::int64_t end, int worker) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t h = i % heads_;
      const auto part = static_cast<std::size_t>(i / heads_);
      const std::int64_t first = part > 0 ? parts[part - 1] : 0;
      const float* const q = qkv_.data() + first * stride + h * d;
      attention_({parts[part] - first, d, d, q, q + next, q + 2 * next, stride, stride, stride, scale, 0,
                  normed_.data() + first * dim_ + h * d, dim_},
                 attention_scratch_.data() + worker * scratch);
    }
  });
}

}  // namespace kvasir::vision
