#include "vision/qwen.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "vision/resize.hpp"

namespace kvasir::vision {
namespace {

constexpr std::int32_t kMostQwenRows = 16384;  // of the published processors, which have it in pixels
constexpr double kMostStretched = 200;         // longer side by shorter
constexpr float kMergerEps = 1e-6f;            // of LFM3-VL

// Merged patches through two matrices. The norm is over each, or over those of a row together.
struct QwenMerger {
  Norm norm;
  Linear first, second;

  // any: of any width between them, with biases or without.
  QwenMerger(const Reader& r, Norm before, const std::string& first_name, const std::string& second_name,
             std::int64_t dim, int merged, bool any = false)
      : norm(std::move(before)),
        first(linear(r, first_name, any ? r.tensor(first_name + ".weight").rows() : dim * merged, dim * merged, any)),
        second(linear(r, second_name, r.tensor(second_name + ".weight").rows(), first.matrix.rows, any)) {}

  // (n merged, dim) to (n, width)
  std::vector<float> run(RowWork& work, const std::vector<float>& x) const {
    const std::int64_t n = static_cast<std::int64_t>(x.size()) / first.matrix.k, wide = first.matrix.rows;
    std::vector<float> normed(x.size()), hidden(static_cast<std::size_t>(n * wide)),
        out(static_cast<std::size_t>(n * second.matrix.rows));
    work.norm(norm, x.data(), normed.data(), static_cast<std::int64_t>(x.size() / norm.weight.size()));
    work.multiply(first, normed.data(), n, hidden.data());
    work.activate(kernel::Activation::kGeluErf, hidden.data(), n, wide);
    work.multiply(second, hidden.data(), n, out.data());
    return out;
  }

 private:
  static Linear linear(const Reader& r, const std::string& name, std::int64_t rows, std::int64_t columns, bool any) {
    return r.linear(name, rows, columns, any && !r.file().find(name + ".bias") ? Bias::kNone : Bias::kHas);
  }
};

class Qwen final : public Encoder {
 public:
  Qwen(const Reader& r, const EncoderOptions& o, const QwenKind& form)
      : form_(form),
        side_(static_cast<int>(r.metadata().require_int("clip.vision.patch_size", 1, 256))),
        merge_(static_cast<int>(r.metadata().get_int("clip.vision.spatial_merge_size", 1, 16).value_or(2))),
        normal_(Normal::read(r)),
        tower_(r, form.tower),
        patches_(read_patches(r, tower_.dim(), side_)),
        merger_(r, form.lfm3 ? r.layer_norm("v.post_ln", tower_.dim(), kMergerEps) : norm(r, "v.post_ln", tower_.dim()),
                "mm.0", "mm.2", tower_.dim(), merge_ * merge_, form.lfm3) {
    if (form.lfm3) patches_norm_ = norm(r, "v.pre_ln", tower_.dim());
    // In rows; processors count pixels.
    const double of_row = static_cast<double>(side_ * merge_) * (side_ * merge_);
    least_ = r.metadata().get_float("clip.vision.image_min_pixels").value_or(form.least_rows * of_row) / of_row;
    most_ = r.metadata().get_float("clip.vision.image_max_pixels").value_or(kMostQwenRows * of_row) / of_row;
    if (o.most_rows > 0) most_ = o.most_rows;
    if (!(least_ >= 0) || !(most_ >= 1)) r.fail("clip.vision.image_max_pixels", "is less than a row's");
    if (tower_.head() % 4 != 0) r.fail("clip.vision.attention.head_count", "gives heads that four does not divide");
    if (form.window > 0) {
      window_ = form.window / side_ / merge_;
      whole_every_ = static_cast<std::size_t>(r.metadata().require_int("clip.vision.n_wa_pattern", 1, 1024));
      if (window_ == 0) r.fail("clip.vision.patch_size", "is larger than a window");
    }
    if (form.positions) {
      const std::int64_t places = r.tensor("v.position_embd.weight").rows();
      grid_ = static_cast<int>(std::lround(std::sqrt(static_cast<double>(places))));
      if (std::int64_t{grid_} * grid_ != places) r.fail("v.position_embd.weight", "has rows that are no square");
      positions_ = r.floats("v.position_embd.weight", places * tower_.dim());
    }
    for (std::size_t i = 0; i < tower_.blocks(); ++i) {
      const std::string at = fmt::format("v.deepstack.{}.", i);
      if (r.file().find(at + "norm.weight"))
        deep_.emplace_back(i, QwenMerger(r, norm(r, at + "norm", tower_.dim() * merge_ * merge_), at + "fc1",
                                         at + "fc2", tower_.dim(), merge_ * merge_));
    }
    for (const auto& [block, merger] : deep_)
      if (merger.second.matrix.rows != width())
        r.fail(fmt::format("v.deepstack.{}.fc2.weight", block), "has not the rows of mm.2.weight");
  }

  std::int64_t width() const override { return merger_.second.matrix.rows; }
  int deep() const override { return static_cast<int>(deep_.size()); }

  // Both sides to the nearest multiple of a merged patch (halves to the even one); where that is too many or too few
  // rows, the shape is kept and sides are cut or filled up.
  Size size_for(Size p) const override {
    const auto [narrow, wide] = std::minmax(p.width, p.height);
    if (static_cast<double>(wide) / narrow > kMostStretched)
      throw Error(
          Code::kBadInput,
          fmt::format("is {} x {}, expected sides of which none is more than 200 times the other", p.width, p.height),
          "picture");
    const int unit = side_ * merge_;
    const double most = most_ * unit * unit, least = std::min(least_, most_) * unit * unit;
    const auto near = [&](int length) { return std::nearbyint(static_cast<double>(length) / unit) * unit; };
    const double area = static_cast<double>(p.width) * p.height, rounded = near(p.width) * near(p.height);
    const double shrink = std::sqrt(area / most), grow = std::sqrt(least / area);
    const auto side = [&](int length) {
      if (rounded > most) return std::max<double>(unit, std::floor(length / shrink / unit) * unit);
      return rounded < least ? std::ceil(length * grow / unit) * unit : near(length);
    };
    return {static_cast<int>(side(p.width)), static_cast<int>(side(p.height))};
  }

  Prepared prepare(const Picture& p) const override {
    return {p.size, {resize(p, size_for(p.size), Filter::kBicubic, Rounding::kTorchvision)}};
  }

  std::vector<Run> runs(const Prepared& prepared) const override {
    const Size size = prepared.parts.at(0).size;
    const int unit = side_ * merge_;
    return {{"<|vision_start|>",
             "<|vision_end|>",
             0,
             {1, size.height / unit, size.width / unit},
             Sight::kEarlier,
             form_.placed}};
  }

  Encoding encode(const Prepared& prepared, Team& team, Watch watch) override {
    const Picture& p = prepared.parts.at(0);
    const int in_row = merge_ * merge_;
    Encoding e;
    e.runs = runs(prepared);
    const Grid grid = e.runs.front().grid;
    const std::int64_t n = grid.count() * in_row, inputs = patches_.matrix.k, dim = tower_.dim();
    const Order order = order_of(grid);
    // Patches of one row stand together. Where patch i lies:
    const auto place = [&](std::int64_t i) -> std::pair<int, int> {
      const int row = order.rows[static_cast<std::size_t>(i / in_row)], within = static_cast<int>(i % in_row);
      return {row % grid.w * merge_ + within % merge_, row / grid.w * merge_ + within / merge_};
    };
    RowWork work(team);
    std::vector<float> pixels(static_cast<std::size_t>(n * inputs)), x(static_cast<std::size_t>(n * dim));
    Rotations rotations{std::vector<float>(static_cast<std::size_t>(n * tower_.head() / 2)), {}};
    rotations.sin.resize(rotations.cos.size());
    work.each(n, [&](std::int64_t i) {
      const auto [column, row] = place(i);
      cut_patch(p, column * side_, row * side_, side_, normal_, pixels.data() + i * inputs);
      rotate(rotations, i, column, row);
    });
    work.multiply(patches_, pixels.data(), n, x.data());
    if (form_.lfm3) work.norm(patches_norm_, x.data(), x.data(), n);
    PatchGrid places{grid.w * merge_, std::vector<std::int64_t>(static_cast<std::size_t>(form_.lfm3 ? n : 0))};
    for (std::int64_t i = 0; i < std::ssize(places.rows); ++i) {
      const auto [column, row] = place(i);
      places.rows[static_cast<std::size_t>(row * places.width + column)] = i;
    }
    if (form_.positions)
      work.each(n, [&](std::int64_t i) {
        const auto [column, row] = place(i);
        add_position(x.data() + i * dim, column, grid.w * merge_, row, grid.h * merge_);
      });
    e.width = width();
    std::size_t next = 0;
    for (std::size_t block = 0; block < tower_.blocks(); ++block) {
      watch(static_cast<std::int64_t>(block), static_cast<std::int64_t>(tower_.blocks()));
      const bool whole = window_ == 0 || (block + 1) % whole_every_ == 0;
      tower_.run(block, work, x, rotations, whole ? std::span<const std::int64_t>() : order.ends, places);
      if (next < deep_.size() && deep_[next].first == block)
        e.deep.push_back(in_place(order, deep_[next++].second.run(work, x)));
    }
    e.rows = in_place(order, merger_.run(work, x));
    return e;
  }

  std::string description() const override {
    return fmt::format("{} to {} rows of {} x {} patches of {}, windows of {}, bicubic as torchvision, {}", least_,
                       most_, merge_, merge_, side_, window_, normal_.text());
  }

 private:
  // Rows of a picture, those of a window behind each other, and the first patch behind each window.
  struct Order {
    std::vector<int> rows;
    std::vector<std::int64_t> ends;
  };

  Norm norm(const Reader& r, const std::string& name, std::int64_t width) const {
    return form_.tower.rms ? r.rms_norm(name, width, form_.tower.eps) : r.layer_norm(name, width, form_.tower.eps);
  }

  Order order_of(const Grid& grid) const {
    Order order;
    const int high = window_ > 0 ? window_ : grid.h, wide = window_ > 0 ? window_ : grid.w;
    for (int top = 0; top < grid.h; top += high)
      for (int left = 0; left < grid.w; left += wide) {
        for (int y = top; y < std::min(top + high, grid.h); ++y)
          for (int x = left; x < std::min(left + wide, grid.w); ++x) order.rows.push_back(y * grid.w + x);
        order.ends.push_back(std::ssize(order.rows) * merge_ * merge_);
      }
    return order;
  }

  // Rows of `order` as they lie in the picture.
  std::vector<float> in_place(const Order& order, std::vector<float> rows) const {
    if (window_ == 0) return rows;
    std::vector<float> out(rows.size());
    for (std::size_t i = 0; i < order.rows.size(); ++i)
      std::copy_n(rows.data() + static_cast<std::int64_t>(i) * width(), width(), out.data() + order.rows[i] * width());
    return out;
  }

  // The first half of a head's pairs is rotated by the row, the other by the column, with the same frequencies.
  void rotate(Rotations& rotations, std::int64_t patch, int column, int row) const {
    const int quarter = tower_.head() / 4;
    for (int i = 0; i < 2 * quarter; ++i) {
      const float frequency =
          1.0f / std::pow(form_.theta, static_cast<float>(i % quarter) / static_cast<float>(quarter));
      const float angle = static_cast<float>(i < quarter ? row : column) * frequency;
      const auto at = static_cast<std::size_t>(patch * 2 * quarter + i);
      rotations.cos[at] = std::cos(angle);
      rotations.sin[at] = std::sin(angle);
    }
  }

  // Of the four places around it in the table, whose corners lie at the picture's.
  void add_position(float* x, int column, int columns, int row, int rows) const {
    const auto along = [&](int i, int count) {
      return static_cast<float>(i * (grid_ - 1)) / static_cast<float>(std::max(count - 1, 1));
    };
    const float px = along(column, columns), py = along(row, rows);
    const int left = static_cast<int>(px), top = static_cast<int>(py);
    for (int corner = 0; corner < 4; ++corner) {
      const int dx = corner % 2, dy = corner / 2;
      const float rest_x = px - static_cast<float>(left), rest_y = py - static_cast<float>(top);
      const float weight = (dx ? rest_x : 1 - rest_x) * (dy ? rest_y : 1 - rest_y);
      const std::int64_t at = std::int64_t{std::min(top + dy, grid_ - 1)} * grid_ + std::min(left + dx, grid_ - 1);
      const float* const from = positions_.data() + at * tower_.dim();
      for (std::int64_t c = 0; c < tower_.dim(); ++c) x[c] += weight * from[c];
    }
  }

  const QwenKind form_;
  int side_, merge_, grid_ = 0;
  double least_ = 0, most_ = 0;  // rows of a picture
  int window_ = 0;               // rows on its side
  std::size_t whole_every_ = 1;
  Normal normal_;
  Tower tower_;
  Linear patches_;
  Norm patches_norm_;  // with QwenKind::lfm3
  QwenMerger merger_;
  std::vector<float> positions_;  // (grid, grid, dim)
  std::vector<std::pair<std::size_t, QwenMerger>> deep_;
};

}  // namespace

std::unique_ptr<Encoder> open_qwen(const Reader& reader, const EncoderOptions& options, const QwenKind& kind) {
  return std::make_unique<Qwen>(reader, options, kind);
}

}  // namespace kvasir::vision
