// LFM2-VL: SigLIP 2, whose positions are stretched over the picture; four neighbours become one row. Large pictures are
// cut into tiles and come with a small copy of the whole.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "vision/encoder.hpp"
#include "vision/resize.hpp"
#include "vision/tower.hpp"

namespace kvasir::vision::encoders_lfm2 {
namespace {

// Of the published processors; none of it is in the files.
constexpr int kLeastRows = 64, kMostRows = 256;  // of a picture that is not cut, and of the small copy
constexpr int kTile = 512, kLeastTiles = 2, kMostTiles = 10;
constexpr double kTolerance = 2;        // a picture is cut from so many times the pixels of kMostRows
constexpr float kProjectorEps = 1e-5f;  // torch's

// How many tiles side by side and one over the other: the shape nearest to the picture's. Of equally near ones the
// larger number of tiles, if the picture fills more than half of them.
Size tiles_for(Size p) {
  const double shape = static_cast<double>(p.width) / p.height, area = static_cast<double>(p.width) * p.height;
  Size best{1, 1};
  double least = std::numeric_limits<double>::infinity();
  for (int count = kLeastTiles; count <= kMostTiles; ++count)
    for (int w = 1; w <= count; ++w) {
      if (count % w != 0) continue;
      const double away = std::abs(shape - static_cast<double>(w) / (count / w));
      if (away < least || (away == least && area > 0.5 * kTile * kTile * count)) best = {w, count / w};
      least = std::min(least, away);
    }
  return best;
}

Picture tile_of(const Picture& p, int column, int row) {
  Picture tile{{kTile, kTile}, {}};
  for (int y = 0; y < kTile; ++y) {
    const auto from = p.rgb.begin() + (std::int64_t{row * kTile + y} * p.size.width + column * kTile) * 3;
    tile.rgb.insert(tile.rgb.end(), from, from + kTile * 3);
  }
  return tile;
}

// Weights of a table's places for each of `count` places stretched over it: triangles, wider where places are left out.
std::vector<float> stretch(int table, int count) {
  const float scale = static_cast<float>(table) / static_cast<float>(count), reach = std::max(scale, 1.0f);
  std::vector<float> weights;
  for (int i = 0; i < count; ++i) {
    const float center = (static_cast<float>(i) + 0.5f) * scale - 0.5f;
    float sum = 0;
    for (int k = 0; k < table; ++k) {
      weights.push_back(std::max(0.0f, 1 - std::abs(static_cast<float>(k) - center) / reach));
      sum += weights.back();
    }
    for (int k = 0; k < table; ++k) weights[weights.size() - 1 - static_cast<std::size_t>(k)] /= sum;
  }
  return weights;
}

class Lfm2 final : public Encoder {
 public:
  Lfm2(const Reader& r, const EncoderOptions& o)
      : most_(o.most_rows > 0 ? std::min(o.most_rows, kMostRows) : kMostRows),
        cuts_(o.most_rows == 0),
        side_(static_cast<int>(r.metadata().require_int("clip.vision.patch_size", 1, kTile))),
        merge_(static_cast<int>(r.metadata().get_int("clip.vision.projector.scale_factor", 1, 16).value_or(2))),
        normal_(Normal::read(r)),
        eps_(static_cast<float>(r.metadata().require_float("clip.vision.attention.layer_norm_epsilon"))),
        tower_(r, {kernel::Activation::kGeluTanh, eps_}),
        patches_(read_patches(r, tower_.dim(), side_)),
        last_(r.layer_norm("v.post_ln", tower_.dim(), eps_)) {
    if (kTile % (side_ * merge_) != 0) r.fail("clip.vision.patch_size", "does not divide tiles of 512");
    const std::int64_t places = r.tensor("v.position_embd.weight").rows(), inputs = tower_.dim() * merge_ * merge_;
    table_ = static_cast<int>(std::lround(std::sqrt(static_cast<double>(places))));
    if (std::int64_t{table_} * table_ != places) r.fail("v.position_embd.weight", "has rows that are no square");
    positions_ = r.floats("v.position_embd.weight", places * tower_.dim());
    if (r.file().find("mm.input_norm.weight")) merged_norm_ = r.layer_norm("mm.input_norm", inputs, kProjectorEps);
    const std::int64_t hidden = r.tensor("mm.1.weight").rows();
    first_ = r.linear("mm.1", hidden, inputs, Bias::kHas);
    second_ = r.linear("mm.2", r.tensor("mm.2.weight").rows(), hidden, Bias::kHas);
  }

  std::int64_t width() const override { return second_.matrix.rows; }

  // Of the whole, or of its small copy.
  Size size_for(Size p) const override {
    const int unit = side_ * merge_;
    const double most = static_cast<double>(most_) * unit * unit;
    const double least = static_cast<double>(std::min(kLeastRows, most_)) * unit * unit;
    const double area = static_cast<double>(p.width) * p.height;
    const double rounded = near(p.width, unit) * near(p.height, unit);
    const double shrink = std::sqrt(area / most), grow = std::sqrt(least / area);
    const auto side = [&](int length) {
      if (rounded > most) return std::max<double>(unit, std::floor(length / shrink / unit) * unit);
      return rounded < least ? std::ceil(length * grow / unit) * unit : near(length, unit);
    };
    const Size to{static_cast<int>(side(p.width)), static_cast<int>(side(p.height))};
    if (double{1} * to.width * to.height > 2 * most)
      throw Error(Code::kBadInput, fmt::format("is {} x {}, too long for {} rows", p.width, p.height, most_),
                  "picture");
    return to;
  }

  Prepared prepare(const Picture& p) const override {
    Prepared out{p.size, {}};
    const Size whole = size_for(p.size);
    const int unit = side_ * merge_;
    if (cuts_ && near(p.size.width, unit) * near(p.size.height, unit) > kTolerance * most_ * unit * unit) {
      const Size tiles = tiles_for(p.size);
      const Picture large =
          resize(p, {tiles.width * kTile, tiles.height * kTile}, Filter::kBilinear, Rounding::kTorchvision);
      for (int row = 0; row < tiles.height; ++row)
        for (int column = 0; column < tiles.width; ++column) {
          out.parts.push_back(tile_of(large, column, row));
          out.marks.push_back(fmt::format("<|img_row_{}_col_{}|>", row + 1, column + 1));
        }
      out.marks.emplace_back("<|img_thumbnail|>");
    } else {
      out.marks.emplace_back();
    }
    out.parts.push_back(resize(p, whole, Filter::kBilinear, Rounding::kTorchvision));
    return out;
  }

  std::vector<Run> runs(const Prepared& prepared) const override {
    std::vector<Run> all;
    std::int64_t first = 0;
    for (std::size_t i = 0; i < prepared.parts.size(); ++i) {
      const Size size = prepared.parts[i].size;
      const Grid grid{1, size.height / side_ / merge_, size.width / side_ / merge_};
      all.push_back({prepared.marks[i], "", first, grid, Sight::kEarlier});
      first += grid.count();
    }
    all.front().before = "<|image_start|>" + all.front().before;
    all.back().after = "<|image_end|>";
    return all;
  }

  Encoding encode(const Prepared& prepared, Team& team) override {
    RowWork work(team);
    Encoding e;
    e.width = width();
    e.runs = runs(prepared);
    for (std::size_t i = 0; i < prepared.parts.size(); ++i) add(prepared.parts[i], e.runs[i].grid, work, e.rows);
    return e;
  }

  std::string description() const override {
    return fmt::format("{} rows of {} x {} patches of {}, {}, bilinear as torchvision, {}", most_, merge_, merge_,
                       side_, cuts_ ? "in tiles" : "in one piece", normal_.text());
  }

 private:
  // The nearest multiple, halves to the even one; not 0.
  static double near(int length, int unit) {
    return std::max(std::nearbyint(static_cast<double>(length) / unit), 1.0) * unit;
  }

  void add(const Picture& p, const Grid& grid, RowWork& work, std::vector<float>& rows) {
    const int columns = grid.w * merge_, lines = grid.h * merge_, in_row = merge_ * merge_;
    const std::int64_t n = std::int64_t{columns} * lines, inputs = patches_.matrix.k, dim = tower_.dim();
    const std::vector<float> across = stretch(table_, columns), down = stretch(table_, lines);
    std::vector<float> pixels(static_cast<std::size_t>(n * inputs)), x(static_cast<std::size_t>(n * dim));
    // Patches of one row stand together.
    const auto place = [&](std::int64_t i) -> std::pair<int, int> {
      const int row = static_cast<int>(i / in_row), within = static_cast<int>(i % in_row);
      return {row % grid.w * merge_ + within % merge_, row / grid.w * merge_ + within / merge_};
    };
    work.each(n, [&](std::int64_t i) {
      const auto [column, line] = place(i);
      cut_patch(p, column * side_, line * side_, side_, normal_, pixels.data() + i * inputs);
    });
    work.multiply(patches_, pixels.data(), n, x.data());
    work.each(n, [&](std::int64_t i) {
      const auto [column, line] = place(i);
      for (int at = 0; at < table_ * table_; ++at) {
        const float weight = down[static_cast<std::size_t>(line * table_ + at / table_)] *
                             across[static_cast<std::size_t>(column * table_ + at % table_)];
        if (weight == 0) continue;
        for (std::int64_t c = 0; c < dim; ++c)
          x[static_cast<std::size_t>(i * dim + c)] += weight * positions_[static_cast<std::size_t>(at * dim + c)];
      }
    });
    for (std::size_t i = 0; i < tower_.blocks(); ++i) tower_.run(i, work, x, {});
    work.norm(last_, x.data(), x.data(), n);
    if (!merged_norm_.weight.empty()) work.norm(merged_norm_, x.data(), x.data(), n / in_row);
    std::vector<float> hidden(static_cast<std::size_t>(n / in_row * first_.matrix.rows));
    work.multiply(first_, x.data(), n / in_row, hidden.data());
    work.activate(kernel::Activation::kGeluErf, hidden.data(), n / in_row, first_.matrix.rows);
    rows.resize(rows.size() + static_cast<std::size_t>(n / in_row * width()));
    work.multiply(second_, hidden.data(), n / in_row,
                  rows.data() + rows.size() - static_cast<std::size_t>(n / in_row * width()));
  }

  int most_;
  bool cuts_;
  int side_, merge_, table_ = 0;
  Normal normal_;
  float eps_;
  Tower tower_;
  Linear patches_;
  std::vector<float> positions_;  // (table, table, dim)
  Norm last_, merged_norm_;       // merged_norm_: of four patches; may be absent
  Linear first_, second_;
};

std::unique_ptr<Encoder> open(const Reader& r, const EncoderOptions& o) { return std::make_unique<Lfm2>(r, o); }

}  // namespace

const EncoderKind entry{"LFM2-VL: SigLIP 2, tiles and a small copy of large pictures", open};

}  // namespace kvasir::vision::encoders_lfm2
