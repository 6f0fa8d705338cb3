// Gemma 4 with a tower: norms before and behind mixer and feed, heads whose halves rotate by column and row, values cut
// at bounds that the file has, rows averaged in squares.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernel/bidirectional.hpp"
#include "vision/encoder.hpp"
#include "vision/gemma4.hpp"
#include "vision/resize.hpp"
#include "vision/tower.hpp"

namespace kvasir::vision::encoders_gemma4v {
namespace {

constexpr int kPool = 3;  // patches on a side of a square, unless the file says otherwise
constexpr float kTheta = 100;
// (byte / 255 - 1/2) * 2: the model's own; the file has that of the processor, which leaves pixels as they are.
constexpr Normal kNormal{{0.5f, 0.5f, 0.5f}, {0.5f, 0.5f, 0.5f}};

// A matrix whose inputs and outputs are cut at bounds, where the file has them.
struct Cut {
  Linear linear;
  std::vector<float> in, out;  // lowest and highest; empty: none

  Cut(const Reader& r, const std::string& name, std::int64_t rows, std::int64_t columns)
      : linear(r.linear(name, rows, columns, Bias::kNone)),
        in(bounds(r, name + ".input_")),
        out(bounds(r, name + ".output_")) {}

  static std::vector<float> bounds(const Reader& r, const std::string& name) {
    if (!r.file().find(name + "min")) return {};
    return {r.floats(name + "min", 1)[0], r.floats(name + "max", 1)[0]};
  }
  static void clamp(const std::vector<float>& b, float* x, std::int64_t n) {
    if (!b.empty())
      for (std::int64_t i = 0; i < n; ++i) x[i] = std::min(std::max(x[i], b[0]), b[1]);
  }
  // x (n, columns) to y (n, rows); `room` holds what is cut.
  void run(RowWork& work, const std::vector<float>& x, std::int64_t n, std::vector<float>& y,
           std::vector<float>& room) const {
    const std::int64_t k = linear.matrix.k, rows = linear.matrix.rows;
    const float* from = x.data();
    if (!in.empty()) {
      room.assign(x.begin(), x.begin() + n * k);
      work.each(n, [&](std::int64_t r) { clamp(in, room.data() + r * k, k); });
      from = room.data();
    }
    y.resize(static_cast<std::size_t>(n * rows));
    work.multiply(linear, from, n, y.data());
    if (!out.empty()) work.each(n, [&](std::int64_t r) { clamp(out, y.data() + r * rows, rows); });
  }
};

struct Layer {
  std::vector<float> before_mixer, after_mixer, before_feed, after_feed, q_norm, k_norm;
  Cut q, k, v, o, gate, up, down;

  Layer(const Reader& r, const std::string& at, std::int64_t dim, std::int64_t inner, std::int64_t head,
        std::int64_t feed)
      : before_mixer(r.floats(at + "ln1.weight", dim)),
        after_mixer(r.floats(at + "attn_post_norm.weight", dim)),
        before_feed(r.floats(at + "ln2.weight", dim)),
        after_feed(r.floats(at + "ffn_post_norm.weight", dim)),
        q_norm(r.floats(at + "attn_q_norm.weight", head)),
        k_norm(r.floats(at + "attn_k_norm.weight", head)),
        q(r, at + "attn_q", inner, dim),
        k(r, at + "attn_k", inner, dim),
        v(r, at + "attn_v", inner, dim),
        o(r, at + "attn_out", dim, inner),
        gate(r, at + "ffn_gate", feed, dim),
        up(r, at + "ffn_up", feed, dim),
        down(r, at + "ffn_down", dim, feed) {}
};

class Gemma4Tower final : public Encoder {
 public:
  Gemma4Tower(const Reader& r, const EncoderOptions& o)
      : most_(most_gemma4_rows(r, o)),
        side_(static_cast<int>(r.metadata().require_int("clip.vision.patch_size", 1, 256))),
        pool_(static_cast<int>(r.metadata().get_int("clip.vision.projector.scale_factor", 1, 16).value_or(kPool))),
        dim_(r.metadata().require_int("clip.vision.embedding_length", 1, 1 << 16)),
        heads_(r.metadata().require_int("clip.vision.attention.head_count", 1, 1 << 10)),
        head_(r.tensor("v.blk.0.attn_q_norm.weight").columns()),
        eps_(static_cast<float>(r.metadata().require_float("clip.vision.attention.layer_norm_epsilon"))),
        attention_(r.attention()),
        patches_(read_patches(r, dim_, side_)) {
    if (head_ % 4 != 0) r.fail("v.blk.0.attn_q_norm.weight", "has a length that four does not divide");
    const weights::TensorInfo& positions = r.tensor("v.position_embd.weight");
    places_ = positions.shape[1];
    positions_ = r.floats(positions.name, dim_ * places_ * 2);
    const std::int64_t feed = r.metadata().require_int("clip.vision.feed_forward_length", 1, 1 << 18);
    const std::int64_t blocks = r.metadata().require_int("clip.vision.block_count", 1, 1024);
    for (std::int64_t i = 0; i < blocks; ++i)
      layers_.emplace_back(r, fmt::format("v.blk.{}.", i), dim_, heads_ * head_, head_, feed);
    if (r.file().find("v.std_bias")) {
      shift_ = r.floats("v.std_bias", dim_);
      scale_ = r.floats("v.std_scale", dim_);
    }
    ones_.assign(static_cast<std::size_t>(std::max(dim_, head_)), 1.0f);
    out_ = r.linear("mm.input_projection", r.tensor("mm.input_projection.weight").rows(), dim_, Bias::kNone);
  }

  std::int64_t width() const override { return out_.matrix.rows; }

  Size size_for(Size p) const override {
    const Size to = largest_in(p, side_ * pool_, most_);
    check_places(to, side_, places_);
    return to;
  }

  Prepared prepare(const Picture& p) const override {
    return {p.size, {resize(p, size_for(p.size), Filter::kBicubic, Rounding::kTorchvision)}, {}};
  }

  std::vector<Run> runs(const Prepared& prepared) const override {
    const Size size = prepared.parts.at(0).size;
    return {{"<|image>", "<image|>", 0, {1, size.height / side_ / pool_, size.width / side_ / pool_}, sight()}};
  }

  Encoding encode(const Prepared& prepared, Team& team, Watch watch) override {
    const Picture& p = prepared.parts.at(0);
    const int columns = p.size.width / side_, lines = p.size.height / side_;
    const std::int64_t n = std::int64_t{columns} * lines, inputs = patches_.matrix.k;
    RowWork work(team);
    std::vector<float> pixels(static_cast<std::size_t>(n * inputs)), x(static_cast<std::size_t>(n * dim_));
    work.each(n, [&](std::int64_t i) {
      cut_patch(p, static_cast<int>(i % columns) * side_, static_cast<int>(i / columns) * side_, side_, kNormal,
                pixels.data() + i * inputs);
    });
    work.multiply(patches_, pixels.data(), n, x.data());
    work.each(n, [&](std::int64_t i) {
      kernel::ops().add(x.data() + i * dim_, positions_.data() + i % columns * dim_, dim_);
      kernel::ops().add(x.data() + i * dim_, positions_.data() + (places_ + i / columns) * dim_, dim_);
    });
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      watch(static_cast<std::int64_t>(i), std::ssize(layers_));
      run(layers_[i], work, x, n, columns);
    }
    Encoding e;
    const Grid grid{1, lines / pool_, columns / pool_};
    const std::vector<float> y = pooled(work, x, grid, columns);
    e.width = width();
    e.rows.resize(static_cast<std::size_t>(grid.count() * width()));
    work.multiply(out_, y.data(), grid.count(), e.rows.data());
    e.runs = runs(prepared);
    return e;
  }

  std::string description() const override {
    return fmt::format("at most {} rows of {} x {} patches of {}, bicubic as torchvision, {}", most_, pool_, pool_,
                       side_, kNormal.text());
  }

 private:
  void norm(RowWork& work, const std::vector<float>& w, const float* x, float* out, std::int64_t n) const {
    const auto width = static_cast<std::int64_t>(w.size());
    work.each(n,
              [&](std::int64_t r) { kernel::ops().rms_norm(x + r * width, w.data(), out + r * width, width, eps_); });
  }

  void run(const Layer& l, RowWork& work, std::vector<float>& x, std::int64_t n, int columns) const {
    std::vector<float> normed(x.size()), q, k, v, y, room;
    norm(work, l.before_mixer, x.data(), normed.data(), n);
    l.q.run(work, normed, n, q, room);
    l.k.run(work, normed, n, k, room);
    l.v.run(work, normed, n, v, room);
    work.each(n, [&](std::int64_t r) {
      for (std::int64_t h = 0; h < heads_; ++h) {
        const std::int64_t at = (r * heads_ + h) * head_;
        rotate(q.data() + at, l.q_norm, r, columns);
        rotate(k.data() + at, l.k_norm, r, columns);
        kernel::ops().rms_norm(v.data() + at, ones_.data(), v.data() + at, head_, eps_);
      }
    });
    const int d = static_cast<int>(head_);
    const std::int64_t inner = heads_ * head_, scratch = kernel::whole_head_scratch(n, d, d);
    std::vector<float> seen(q.size()), attention(static_cast<std::size_t>(work.team().size() * scratch));
    work.team().parallel_for(heads_, 1, [&](std::int64_t begin, std::int64_t end, int worker) {
      for (std::int64_t h = begin * head_; h < end * head_; h += head_)
        attention_(
            {n, d, d, q.data() + h, k.data() + h, v.data() + h, inner, inner, inner, 1.0f, 0, seen.data() + h, inner},
            attention.data() + worker * scratch);
    });
    l.o.run(work, seen, n, y, room);
    norm(work, l.after_mixer, y.data(), y.data(), n);
    work.add(x.data(), y.data(), n, dim_);
    norm(work, l.before_feed, x.data(), normed.data(), n);
    l.gate.run(work, normed, n, q, room);
    l.up.run(work, normed, n, k, room);
    const std::int64_t feed = l.gate.linear.matrix.rows;
    work.each(n, [&](std::int64_t r) {
      kernel::ops().gate[static_cast<std::size_t>(kernel::Activation::kGeluTanh)](
          q.data() + r * feed, k.data() + r * feed, q.data() + r * feed, feed);
    });
    l.down.run(work, q, n, y, room);
    norm(work, l.after_feed, y.data(), y.data(), n);
    work.add(x.data(), y.data(), n, dim_);
  }

  // A head's norm; then its first half is rotated by the column, the other by the row.
  void rotate(float* head, const std::vector<float>& weight, std::int64_t patch, int columns) const {
    kernel::ops().rms_norm(head, weight.data(), head, head_, eps_);
    const std::int64_t half = head_ / 2, pairs = head_ / 4;
    for (int axis = 0; axis < 2; ++axis)
      for (std::int64_t i = 0; i < pairs; ++i) {
        const auto place = static_cast<float>(axis == 0 ? patch % columns : patch / columns);
        const float angle = place / std::pow(kTheta, static_cast<float>(i) / static_cast<float>(pairs));
        float &a = head[axis * half + i], &b = head[axis * half + pairs + i];
        const float c = std::cos(angle), s = std::sin(angle), first = a;
        a = first * c - b * s;
        b = b * c + first * s;
      }
  }

  // E2B and E4B are told by the width of their text model alone: no file says it.
  Sight sight() const { return width() == 1536 || width() == 2560 ? Sight::kEarlier : Sight::kBothWaysInWindows; }

  std::vector<float> pooled(RowWork& work, const std::vector<float>& x, const Grid& grid, int columns) const {
    std::vector<float> y(static_cast<std::size_t>(grid.count() * dim_));
    work.each(grid.count(), [&](std::int64_t i) {
      float* const row = y.data() + i * dim_;
      for (std::int64_t at = 0; at < std::int64_t{pool_} * pool_; ++at)
        kernel::ops().add(
            row, x.data() + ((i / grid.w * pool_ + at / pool_) * columns + i % grid.w * pool_ + at % pool_) * dim_,
            dim_);
      kernel::ops().scale(row, std::sqrt(static_cast<float>(dim_)) / static_cast<float>(pool_ * pool_), dim_);
      for (std::size_t c = 0; c < shift_.size(); ++c) row[c] = (row[c] - shift_[c]) * scale_[c];
      kernel::ops().rms_norm(row, ones_.data(), row, dim_, eps_);
    });
    return y;
  }

  int most_, side_, pool_;
  std::int64_t dim_, heads_, head_, places_ = 0;
  float eps_;
  void (*attention_)(const kernel::WholeHead& head, float* scratch);
  Linear patches_, out_;
  std::vector<float> positions_, ones_;  // positions: (2, places, dim), of columns and of rows
  std::vector<float> shift_, scale_;     // of averaged rows; empty: none
  std::vector<Layer> layers_;
};

std::unique_ptr<Encoder> open(const Reader& r, const EncoderOptions& o) { return std::make_unique<Gemma4Tower>(r, o); }

}  // namespace

const EncoderKind entry{"Gemma 4: a tower with two tables of positions, averaged in squares", open};

}  // namespace kvasir::vision::encoders_gemma4v
