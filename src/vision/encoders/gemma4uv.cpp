// Gemma 4 Unified: no tower. A patch of 48 x 48 pixels is one row; its place comes from two tables.
#include <fmt/format.h>

#include <cmath>

#include "vision/encoder.hpp"
#include "vision/gemma4.hpp"
#include "vision/linear.hpp"
#include "vision/resize.hpp"
#include "vision/tower.hpp"

namespace kvasir::vision::encoders_gemma4uv {
namespace {

constexpr float kLayerEps = 1e-5f;  // torch's; the file has the last norm's alone

class Gemma4 final : public Encoder {
 public:
  Gemma4(const Reader& r, const EncoderOptions& o) : most_(most_gemma4_rows(r, o)) {
    const weights::TensorInfo& patches = r.tensor("v.patch_embd.weight");
    const std::int64_t inputs = patches.columns();
    side_ = static_cast<int>(std::lround(std::sqrt(static_cast<double>(inputs) / 3)));
    if (std::int64_t{3} * side_ * side_ != inputs)
      r.fail(patches.name, "has " + std::to_string(inputs) + " columns, expected three times a square");
    dim_ = patches.rows();
    patch_norm_ = r.layer_norm("v.patch_norm.1", inputs, kLayerEps);
    patch_ = r.linear("v.patch_embd", dim_, inputs, Bias::kHas);
    after_ = r.layer_norm("v.patch_norm.2", dim_, kLayerEps);
    const weights::TensorInfo& positions = r.tensor("v.position_embd.weight");
    places_ = positions.shape[1];
    positions_ = r.floats(positions.name, dim_ * places_ * 2);
    position_norm_ = r.layer_norm("v.patch_norm.3", dim_, kLayerEps);
    last_eps_ = static_cast<float>(r.metadata().require_float("clip.vision.attention.layer_norm_epsilon"));
    ones_.assign(static_cast<std::size_t>(dim_), 1.0f);
    width_ = r.tensor("mm.input_projection.weight").rows();
    out_ = r.linear("mm.input_projection", width_, dim_, Bias::kNone);
  }

  std::int64_t width() const override { return width_; }

  Size size_for(Size p) const override {
    const Size to = largest_in(p, side_, most_);
    check_places(to, side_, places_);
    return to;
  }

  Prepared prepare(const Picture& p) const override {
    return {p.size, {resize(p, size_for(p.size), Filter::kBicubic, Rounding::kTorchvision)}};
  }

  std::vector<Run> runs(const Prepared& prepared) const override {
    return {{"<|image>", "<image|>", 0, grid_of(prepared.parts.at(0)), Sight::kBothWaysInWindows}};
  }

  Encoding encode(const Prepared& prepared, Team& team, Watch watch) override {
    const Picture& p = prepared.parts.at(0);
    const Grid grid = grid_of(p);
    const std::int64_t n = grid.count(), inputs = std::int64_t{3} * side_ * side_;
    watch(0, 1);
    RowWork work(team);
    std::vector<float> x(static_cast<std::size_t>(n * inputs)), y(static_cast<std::size_t>(n * dim_));
    work.each(n, [&](std::int64_t i) {
      const int column = static_cast<int>(i % grid.w), row = static_cast<int>(i / grid.w);
      cut_patch(p, column * side_, row * side_, side_, {}, x.data() + i * inputs);
    });
    work.norm(patch_norm_, x.data(), x.data(), n);
    work.multiply(patch_, x.data(), n, y.data());
    work.norm(after_, y.data(), y.data(), n);
    work.each(n, [&](std::int64_t i) {
      float* const row = y.data() + i * dim_;
      kernel::ops().add(row, positions_.data() + i % grid.w * dim_, dim_);
      kernel::ops().add(row, positions_.data() + (places_ + i / grid.w) * dim_, dim_);
    });
    work.norm(position_norm_, y.data(), y.data(), n);
    work.each(n, [&](std::int64_t i) {
      float* const row = y.data() + i * dim_;
      kernel::ops().rms_norm(row, ones_.data(), row, dim_, last_eps_);
    });
    Encoding e;
    e.width = width_;
    e.rows.resize(static_cast<std::size_t>(n * width_));
    work.multiply(out_, y.data(), n, e.rows.data());
    e.runs = runs(prepared);
    return e;
  }

  std::string description() const override {
    return fmt::format("at most {} patches of {}, bicubic as torchvision, x / 255", most_, side_);
  }

 private:
  Grid grid_of(const Picture& p) const { return {1, p.size.height / side_, p.size.width / side_}; }

  int most_, side_ = 0;
  std::int64_t dim_ = 0, width_ = 0, places_ = 0;
  Linear patch_, out_;
  Norm patch_norm_, after_, position_norm_;
  std::vector<float> positions_, ones_;  // positions: (2, places, dim), of columns and of rows
  float last_eps_ = 0;
};

std::unique_ptr<Encoder> open(const Reader& r, const EncoderOptions& o) { return std::make_unique<Gemma4>(r, o); }

}  // namespace

const EncoderKind entry{"Gemma 4 Unified: patches and two tables of positions", open};

}  // namespace kvasir::vision::encoders_gemma4uv
