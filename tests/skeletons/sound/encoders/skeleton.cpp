// An encoder of sounds: copy to src/sound/encoders/NAME.cpp, NAME being the projector as files name it, and rename
// `skeleton`. Contract: sound/encoder.hpp; what is read of the file: vision/linear.hpp.
#include "sound/encoder.hpp"
#include "vision/linear.hpp"

namespace kvasir::sound::encoders_skeleton {
namespace {

// One row: the mean through a matrix.
class MeanSound final : public SoundEncoder {
 public:
  explicit MeanSound(const vision::Reader& r)
      : out_(r.linear("mm.a.0", r.tensor("mm.a.0.weight").rows(), 1, vision::Bias::kHas)) {}
  std::int64_t width() const override { return out_.matrix.rows; }
  int rate() const override { return 16000; }
  std::int64_t rows_of(std::int64_t) const override { return 1; }
  std::string_view before() const override { return ""; }
  std::string_view after() const override { return ""; }
  std::string description() const override { return "mean"; }
  std::vector<float> encode(std::span<const float> samples, Team& team, vision::Watch) override {
    float mean = 0;
    for (const float x : samples) mean += x / static_cast<float>(samples.size());
    std::vector<float> rows(static_cast<std::size_t>(width()));
    vision::RowWork(team).multiply(out_, &mean, 1, rows.data());
    return rows;
  }

 private:
  vision::Linear out_;
};

std::unique_ptr<SoundEncoder> open(const vision::Reader& r, const vision::EncoderOptions&) {
  return std::make_unique<MeanSound>(r);
}

}  // namespace

const SoundEncoderKind entry{"one row: the mean", open};

}  // namespace kvasir::sound::encoders_skeleton
