#include "vision/tower.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
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
  kv_heads_ = m.get_int("clip.vision.attention.head_count_kv", 1, heads_).value_or(heads_);
  if (heads_ % kv_heads_ != 0)
    throw Error(Code::kBadInput, fmt::format("is {}, which does not divide {}", kv_heads_, heads_),
                m.path() + ": clip.vision.attention.head_count_kv");
  const std::int64_t blocks = count("block_count", 1024);
  for (std::int64_t i = 0; i < blocks; ++i) blocks_.push_back(read_block(r, fmt::format("v.blk.{}.", i), feed));
}

Block Tower::read_block(const Reader& r, const std::string& at, std::int64_t feed) const {
  const Bias bias = kind_.biases ? Bias::kHas : Bias::kNone;
  const auto norm = [&](const std::string& name) {
    return kind_.rms ? r.rms_norm(name, dim_, kind_.eps) : r.layer_norm(name, dim_, kind_.eps);
  };
  Block b;
  b.before_mixer = norm(at + "ln1");
  b.before_feed = norm(at + "ln2");
  if (r.file().find(at + "shortconv.conv.weight")) {
    b.qkv.push_back(r.linear(at + "shortconv.in_proj", 3 * dim_, dim_, bias));
    const std::vector<float> by_channel = r.floats(at + "shortconv.conv.weight", 9 * dim_);
    b.taps.resize(by_channel.size());
    for (std::int64_t i = 0; i < 9 * dim_; ++i)
      b.taps[static_cast<std::size_t>(i % 9 * dim_ + i / 9)] = by_channel[static_cast<std::size_t>(i)];
    b.out = r.linear(at + "shortconv.out_proj", dim_, dim_, bias);
  } else {
    if (r.file().find(at + "attn_qkv.weight")) {
      b.qkv.push_back(r.linear(at + "attn_qkv", 3 * dim_, dim_, bias));
    } else {
      b.qkv.push_back(r.linear(at + "attn_q", dim_, dim_, bias));
      for (const char* part : {"attn_k", "attn_v"})
        b.qkv.push_back(r.linear(at + part, kv_heads_ * head(), dim_, bias));
    }
    if (r.file().find(at + "attn_q_norm.weight")) {
      b.q_norm = r.rms_norm(at + "attn_q_norm", head(), kind_.eps);
      b.k_norm = r.rms_norm(at + "attn_k_norm", head(), kind_.eps);
    }
    b.out = r.linear(at + "attn_out", dim_, dim_, bias);
  }
  b.up = r.linear(at + "ffn_up", feed, dim_, bias, feed_, dim_);
  b.down = r.linear(at + "ffn_down", dim_, feed, bias, dim_, feed_);
  if (kind_.gated) b.gate = r.linear(at + "ffn_gate", feed, dim_, bias, feed_, dim_);
  return b;
}

void Tower::run(std::size_t i, RowWork& work, std::vector<float>& x, const Rotations& rotations,
                std::span<const std::int64_t> ends, const PatchGrid& grid) {
  const Block& b = blocks_[i];
  const auto n = static_cast<std::int64_t>(x.size()) / dim_;
  normed_.resize(x.size());
  qkv_.resize(3 * x.size());
  hidden_.resize(static_cast<std::size_t>(n * feed_));
  work.norm(b.before_mixer, x.data(), normed_.data(), n);
  float* to = qkv_.data();
  for (const Linear& part : b.qkv) {
    work.multiply(part, normed_.data(), n, to);
    to += n * part.matrix.rows;
  }
  b.taps.empty() ? attend(b, work, n, rotations, ends) : convolve(b, work, n, grid);  // to normed_
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

// LFM2's gated short convolution in two dimensions (LFM3-VL): gate * conv(input gate * values), zeros beyond the edges.
void Tower::convolve(const Block& b, RowWork& work, std::int64_t n, const PatchGrid& grid) {
  KVASIR_CHECK(grid.width > 0 && std::ssize(grid.rows) == n);
  const std::int64_t lines = n / grid.width;
  std::vector<float> gated(static_cast<std::size_t>(n * dim_));
  work.each(n, [&](std::int64_t r) {
    const float* const x = qkv_.data() + r * 3 * dim_;
    for (std::int64_t c = 0; c < dim_; ++c) gated[static_cast<std::size_t>(r * dim_ + c)] = x[c] * x[2 * dim_ + c];
  });
  work.each(n, [&](std::int64_t place) {
    const std::int64_t y = place / grid.width, x = place % grid.width;
    const auto row_at = [&](std::int64_t at) { return grid.rows[static_cast<std::size_t>(at)]; };
    float* const out = normed_.data() + row_at(place) * dim_;
    std::fill_n(out, dim_, 0.0f);
    for (std::int64_t tap = 0; tap < 9; ++tap) {
      const std::int64_t ny = y + tap / 3 - 1, nx = x + tap % 3 - 1;
      if (ny < 0 || ny >= lines || nx < 0 || nx >= grid.width) continue;
      const float* const from = gated.data() + row_at(ny * grid.width + nx) * dim_;
      const float* const taps = b.taps.data() + tap * dim_;
      for (std::int64_t c = 0; c < dim_; ++c) out[c] += taps[c] * from[c];
    }
    const float* const gate = qkv_.data() + row_at(place) * 3 * dim_ + dim_;
    for (std::int64_t c = 0; c < dim_; ++c) out[c] *= gate[c];
  });
}

void Tower::attend(const Block& b, RowWork& work, std::int64_t n, const Rotations& rotations,
                   std::span<const std::int64_t> ends) {
  const bool fused = b.qkv.size() == 1;
  const int d = head();
  // Queries, keys, values: where the first rows are, and how far the next ones.
  struct Heads {
    float* first;
    std::int64_t stride;
  };
  const std::int64_t kv = kv_heads_ * d;
  float* const all = qkv_.data();
  const Heads q{all, fused ? 3 * dim_ : dim_}, k{fused ? all + dim_ : all + n * dim_, fused ? 3 * dim_ : kv},
      v{fused ? all + 2 * dim_ : k.first + n * kv, fused ? 3 * dim_ : kv};
  if (!b.q_norm.weight.empty()) {  // matrices of their own, so heads lie behind each other
    work.norm(b.q_norm, q.first, q.first, n * heads_);
    work.norm(b.k_norm, k.first, k.first, n * kv_heads_);
  }
  if (!rotations.cos.empty())
    work.each(n, [&](std::int64_t r) {
      const auto rotate = [&](const Heads& x, std::int64_t count) {
        for (std::int64_t h = 0; h < count; ++h)
          kernel::ops().rope(x.first + r * x.stride + h * d, rotations.cos.data() + r * (d / 2),
                             rotations.sin.data() + r * (d / 2), d / 2, kernel::RopePairs::kSplitHalf);
      };
      rotate(q, heads_);
      rotate(k, kv_heads_);
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
      const std::int64_t from = h / (heads_ / kv_heads_) * d;
      attention_({parts[part] - first, d, d, q.first + first * q.stride + h * d, k.first + first * k.stride + from,
                  v.first + first * v.stride + from, q.stride, k.stride, v.stride, scale, 0,
                  normed_.data() + first * dim_ + h * d, dim_},
                 attention_scratch_.data() + worker * scratch);
    }
  });
}

}  // namespace kvasir::vision
