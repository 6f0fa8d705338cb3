// Gemma 3: SigLIP over a picture of one size, whose rows are averaged in squares.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "vision/encoder.hpp"
#include "vision/resize.hpp"
#include "vision/tower.hpp"

namespace kvasir::vision::encoders_gemma3 {
namespace {

constexpr std::int64_t kPool = 4;  // patches on a side of a square, unless the file says otherwise

class Gemma3 final : public Encoder {
 public:
  Gemma3(const Reader& r, const EncoderOptions& o)
      : size_(static_cast<int>(r.metadata().require_int("clip.vision.image_size", 1, 1 << 14))),
        side_(static_cast<int>(r.metadata().require_int("clip.vision.patch_size", 1, size_))),
        pool_(static_cast<int>(
            r.metadata().get_int("clip.vision.projector.scale_factor", 1, size_ / side_).value_or(kPool))),
        normal_(Normal::read(r)),
        eps_(static_cast<float>(r.metadata().require_float("clip.vision.attention.layer_norm_epsilon"))),
        tower_(r, {kernel::Activation::kGeluTanh, eps_}),
        patches_(read_patches(r, tower_.dim(), side_)),
        positions_(r.floats("v.position_embd.weight", tower_.dim() * grid() * grid())),
        last_(r.layer_norm("v.post_ln", tower_.dim(), eps_)),
        pooled_norm_(r.floats("mm.soft_emb_norm.weight", tower_.dim())) {
    if (size_ % side_ != 0 || grid() % pool_ != 0)
      r.fail("clip.vision.image_size",
             fmt::format("is {}, expected a multiple of {} patches of {}", size_, pool_, side_));
    // The file has (dim, width): rows are multiplied from the left.
    const weights::TensorInfo& t = r.tensor("mm.input_projection.weight");
    width_ = t.columns();
    const std::vector<float> turned = r.floats(t.name, width_ * tower_.dim());
    std::vector<float> weights(turned.size());
    for (std::int64_t i = 0; i < tower_.dim(); ++i)
      for (std::int64_t j = 0; j < width_; ++j)
        weights[static_cast<std::size_t>(j * tower_.dim() + i)] = turned[static_cast<std::size_t>(i * width_ + j)];
    out_ = r.linear_of(weights, width_, tower_.dim());
    const int rows = grid() / pool_ * (grid() / pool_);
    if (o.most_rows > 0 && o.most_rows < rows)
      throw Error(Code::kBadInput,
                  fmt::format("is {}, and this encoder gives {} rows of every picture", o.most_rows, rows),
                  "most_rows");
  }

  std::int64_t width() const override { return width_; }
  Size size_for(Size) const override { return {size_, size_}; }

  Prepared prepare(const Picture& p) const override {
    return {p.size, {resize(p, {size_, size_}, Filter::kBilinear, Rounding::kTorchvision)}};
  }

  std::vector<Run> runs(const Prepared&) const override {
    const int pooled = grid() / pool_;
    return {{"\n\n<start_of_image>", "<end_of_image>\n\n", 0, {1, pooled, pooled}, Sight::kBothWays}};
  }

  Encoding encode(const Prepared& prepared, Team& team, Watch watch) override {
    const Picture& p = prepared.parts.at(0);
    const std::int64_t n = std::int64_t{grid()} * grid(), dim = tower_.dim();
    RowWork work(team);
    std::vector<float> x = embed_patches(p, grid(), side_, normal_, patches_, positions_, work);
    for (std::size_t i = 0; i < tower_.blocks(); ++i) {
      watch(static_cast<std::int64_t>(i), static_cast<std::int64_t>(tower_.blocks()));
      tower_.run(i, work, x, {});
    }
    work.norm(last_, x.data(), x.data(), n);
    const int pooled = grid() / pool_;
    std::vector<float> y(static_cast<std::size_t>(pooled * pooled * dim));
    work.each(std::int64_t{pooled} * pooled, [&](std::int64_t i) {
      const std::int64_t first = i / pooled * pool_ * grid() + i % pooled * pool_;
      float* const row = y.data() + i * dim;
      for (std::int64_t at = 0; at < std::int64_t{pool_} * pool_; ++at)
        kernel::ops().add(row, x.data() + (first + at / pool_ * grid() + at % pool_) * dim, dim);
      kernel::ops().scale(row, 1.0f / static_cast<float>(pool_ * pool_), dim);
      kernel::ops().rms_norm(row, pooled_norm_.data(), row, dim, eps_);
    });
    Encoding e;
    e.width = width_;
    e.rows.resize(static_cast<std::size_t>(pooled * pooled * width_));
    work.multiply(out_, y.data(), std::int64_t{pooled} * pooled, e.rows.data());
    e.runs = runs(prepared);
    return e;
  }

  std::string description() const override {
    return fmt::format("{} x {}, bilinear as torchvision, {}, squares of {}", size_, size_, normal_.text(), pool_);
  }

 private:
  int grid() const { return size_ / side_; }  // patches on a side

  int size_, side_, pool_;
  Normal normal_;
  float eps_;
  Tower tower_;
  Linear patches_;
  std::vector<float> positions_;  // (patches, dim)
  Norm last_;
  std::vector<float> pooled_norm_;  // RMS; 1 is in it
  Linear out_;
  std::int64_t width_ = 0;
};

std::unique_ptr<Encoder> open(const Reader& r, const EncoderOptions& o) { return std::make_unique<Gemma3>(r, o); }

}  // namespace

const EncoderKind entry{"Gemma 3: SigLIP, averaged in squares of patches", open};

}  // namespace kvasir::vision::encoders_gemma3
