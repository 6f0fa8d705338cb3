// An encoder of pictures: copy to src/vision/encoders/NAME.cpp, NAME being the projector as files name it, and rename
// `skeleton`. Contract: vision/encoder.hpp; what is read of the file: vision/linear.hpp.
#include "vision/encoder.hpp"
#include "vision/linear.hpp"

namespace kvasir::vision::encoders_skeleton {
namespace {

// One row: the mean colour through a matrix.
class Mean final : public Encoder {
 public:
  explicit Mean(const Reader& r) : out_(r.linear("mm.0", r.tensor("mm.0.weight").rows(), 3, Bias::kHas)) {}
  std::int64_t width() const override { return out_.matrix.rows; }
  Size size_for(Size picture) const override { return picture; }
  Prepared prepare(const Picture& p) const override { return {p.size, {p}}; }
  std::string description() const override { return "mean colour"; }
  std::vector<Run> runs(const Prepared&) const override { return {{.grid = {1, 1, 1}}}; }
  Encoding encode(const Prepared& p, Team& team, Watch) override {
    float mean[3] = {};
    const std::vector<std::uint8_t>& rgb = p.parts.at(0).rgb;
    for (std::size_t i = 0; i < rgb.size(); ++i)
      mean[i % 3] += static_cast<float>(rgb[i]) / static_cast<float>(85 * rgb.size());
    Encoding e{.width = width(), .rows = std::vector<float>(static_cast<std::size_t>(width()))};
    RowWork(team).multiply(out_, mean, 1, e.rows.data());
    e.runs = runs(p);
    return e;
  }

 private:
  Linear out_;
};

std::unique_ptr<Encoder> open(const Reader& r, const EncoderOptions&) { return std::make_unique<Mean>(r); }

}  // namespace

const EncoderKind entry{"one row: the mean colour", open};

}  // namespace kvasir::vision::encoders_skeleton
