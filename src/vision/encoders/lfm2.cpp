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

// What the processor does, by default as the published ones; the file beside a text model says nothing of it.
struct Lfm2Tiling {
  int least_rows, most_rows;  // of a picture that is not cut, and of the small copy
  int side, fewest, most;     // of a tile; tiles
  double tolerance;           // a picture is cut from so many times the pixels of most_rows
  bool cuts;

  Lfm2Tiling(const weights::Metadata& m, const EncoderOptions& o) {
    const auto count = [&](const char* key, int otherwise, int high) {
      return static_cast<int>(m.get_int(std::string("clip.vision.image_") + key, 1, high).value_or(otherwise));
    };
    least_rows = count("min_tokens", 64, 1 << 20);
    most_rows = count("max_tokens", 256, 1 << 20);
    side = count("tile", 512, 1 << 14);
    fewest = count("min_tiles", 2, 64);
    most = count("max_tiles", 10, 64);
    tolerance = m.get_float("clip.vision.image_tolerance").value_or(2.0);
    cuts = o.most_rows == 0 && m.get_bool("clip.vision.image_splits").value_or(true);
    if (o.most_rows > 0) most_rows = std::min(o.most_rows, most_rows);
  }

  std::string text() const {
    std::string out = cuts ? "in tiles" : "in one piece";
    if (least_rows != 64) out += fmt::format(", {} rows at least", least_rows);
    if (cuts && (side != 512 || fewest != 2 || most != 10 || tolerance != 2))
      out += fmt::format(", {} to {} of {}, from {}", fewest, most, side, tolerance);
    return out;
  }
};
constexpr float kProjectorEps = 1e-5f;  // torch's

// How many tiles side by side and one over the other: the shape nearest to the picture's. Of equally near ones the
// larger number of tiles, if the picture fills more than half of them.
Size tiles_for(Size p, const Lfm2Tiling& t) {
  const double shape = static_cast<double>(p.width) / p.height, area = static_cast<double>(p.width) * p.height;
  Size best{1, 1};
  double least = std::numeric_limits<double>::infinity();
  for (int count = t.fewest; count <= t.most; ++count)
    for (int w = 1; w <= count; ++w) {
      if (count % w != 0) continue;
      const double away = std::abs(shape - static_cast<double>(w) / (count / w));
      if (away < least || (away == least && area > 0.5 * t.side * t.side * count)) best = {w, count / w};
      least = std::min(least, away);
    }
  return best;
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
      : tiling_(r.metadata(), o),
        side_(static_cast<int>(r.metadata().require_int("clip.vision.patch_size", 1, tiling_.side))),
        merge_(static_cast<int>(r.metadata().get_int("clip.vision.projector.scale_factor", 1, 16).value_or(2))),
        normal_(Normal::read(r)),
        eps_(static_cast<float>(r.metadata().require_float("clip.vision.attention.layer_norm_epsilon"))),
        tower_(r, {kernel::Activation::kGeluTanh, eps_}),
        patches_(read_patches(r, tower_.dim(), side_)),
        last_(r.layer_norm("v.post_ln", tower_.dim(), eps_)) {
    if (tiling_.side % (side_ * merge_) != 0)
      r.fail("clip.vision.patch_size", fmt::format("does not divide tiles of {}", tiling_.side));
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
    const double most = static_cast<double>(tiling_.most_rows) * unit * unit;
    const double least = static_cast<double>(std::min(tiling_.least_rows, tiling_.most_rows)) * unit * unit;
    const double area = static_cast<double>(p.width) * p.height;
    const double rounded = near(p.width, unit) * near(p.height, unit);
    const double shrink = std::sqrt(area / most), grow = std::sqrt(least / area);
    const auto side = [&](int length) {
      if (rounded > most) return std::max<double>(unit, std::floor(length / shrink / unit) * unit);
      return rounded < least ? std::ceil(length * grow / unit) * unit : near(length, unit);
    };
    const Size to{static_cast<int>(side(p.width)), static_cast<int>(side(p.height))};
    if (double{1} * to.width * to.height > 2 * most)
      throw Error(Code::kBadInput,
                  fmt::format("is {} x {}, too long for {} rows", p.width, p.height, tiling_.most_rows), "picture");
    return to;
  }

  Prepared prepare(const Picture& p) const override {
    Prepared out{p.size, {}};
    const Size whole = size_for(p.size);
    const int unit = side_ * merge_;
    const double most = tiling_.tolerance * tiling_.most_rows * unit * unit;
    if (tiling_.cuts && near(p.size.width, unit) * near(p.size.height, unit) > most) {
      const int side = tiling_.side;
      const Size tiles = tiles_for(p.size, tiling_);
      const Picture large =
          resize(p, {tiles.width * side, tiles.height * side}, Filter::kBilinear, Rounding::kTorchvision);
      for (int row = 0; row < tiles.height; ++row)
        for (int column = 0; column < tiles.width; ++column) {
          out.parts.push_back(cut_square(large, row, column, side));
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

  Encoding encode(const Prepared& prepared, Team& team, Watch watch) override {
    RowWork work(team);
    Encoding e;
    e.width = width();
    e.runs = runs(prepared);
    const auto all = static_cast<std::int64_t>(prepared.parts.size() * tower_.blocks());
    std::int64_t done = 0;
    const auto block_begins = [&] { watch(done++, all); };
    for (std::size_t i = 0; i < prepared.parts.size(); ++i)
      add(prepared.parts[i], e.runs[i].grid, work, e.rows, block_begins);
    return e;
  }

  std::string description() const override {
    return fmt::format("{} rows of {} x {} patches of {}, {}, bilinear as torchvision, {}", tiling_.most_rows, merge_,
                       merge_, side_, tiling_.text(), normal_.text());
  }

 private:
  // The nearest multiple, halves to the even one; not 0.
  static double near(int length, int unit) {
    return std::max(std::nearbyint(static_cast<double>(length) / unit), 1.0) * unit;
  }

  void add(const Picture& p, const Grid& grid, RowWork& work, std::vector<float>& rows,
           FunctionRef<void()> block_begins) {
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
    for (std::size_t i = 0; i < tower_.blocks(); ++i) {
      block_begins();
      tower_.run(i, work, x, {});
    }
    work.norm(last_, x.data(), x.data(), n);
    if (!merged_norm_.weight.empty()) work.norm(merged_norm_, x.data(), x.data(), n / in_row);
    std::vector<float> hidden(static_cast<std::size_t>(n / in_row * first_.matrix.rows));
    work.multiply(first_, x.data(), n / in_row, hidden.data());
    work.activate(kernel::Activation::kGeluErf, hidden.data(), n / in_row, first_.matrix.rows);
    rows.resize(rows.size() + static_cast<std::size_t>(n / in_row * width()));
    work.multiply(second_, hidden.data(), n / in_row,
                  rows.data() + rows.size() - static_cast<std::size_t>(n / in_row * width()));
  }

  const Lfm2Tiling tiling_;
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
