// Gemma 4 Unified: no tower. So many samples as the matrix has columns (640) are one row; the last ones are filled up
// with zeros. In float32 whatever the options say: the matrix is small, and samples are of all sizes.
#include <fmt/format.h>

#include <algorithm>

#include "sound/encoder.hpp"
#include "vision/linear.hpp"

namespace kvasir::sound::encoders_gemma4ua {
namespace {

constexpr int kPublishedRate = 16000;  // of files, which do not say it

class Gemma4Sound final : public SoundEncoder {
 public:
  explicit Gemma4Sound(const vision::Reader& r) {
    const weights::TensorInfo& t = r.tensor("mm.a.input_projection.weight");
    frame_ = t.columns();
    width_ = t.rows();
    const weights::Metadata& m = r.metadata();
    if (m.get_int("clip.audio.embedding_length", 1, 1 << 20).value_or(frame_) != frame_)
      r.fail(t.name, fmt::format("has {} columns, expected clip.audio.embedding_length", frame_));
    out_ = r.linear_of(r.floats(t.name, width_ * frame_), width_, frame_);
    eps_ = static_cast<float>(m.require_float("clip.audio.attention.layer_norm_epsilon"));
    rate_ = static_cast<int>(m.get_int("clip.audio.sampling_rate", kLeastRate, kMostRate).value_or(kPublishedRate));
    ones_.assign(static_cast<std::size_t>(frame_), 1.0f);
  }

  std::int64_t width() const override { return width_; }
  int rate() const override { return rate_; }
  std::int64_t rows_of(std::int64_t samples) const override { return (samples + frame_ - 1) / frame_; }
  std::string_view before() const override { return "<|audio>"; }
  std::string_view after() const override { return "<audio|>"; }

  std::vector<float> encode(std::span<const float> samples, Team& team, vision::Watch watch) override {
    const auto count = std::ssize(samples);
    const std::int64_t n = rows_of(count);
    std::vector<float> rows(static_cast<std::size_t>(n * width_));
    std::vector<float> frames(static_cast<std::size_t>(std::min(n, kFramesAtOnce) * frame_));
    vision::RowWork work(team);
    for (std::int64_t first = 0; first < n; first += kFramesAtOnce) {
      watch(first, n);
      const std::int64_t some = std::min(n - first, kFramesAtOnce);
      const std::int64_t begin = first * frame_, end = std::min(begin + some * frame_, count);
      std::fill(std::copy(samples.begin() + begin, samples.begin() + end, frames.begin()), frames.end(), 0.0f);
      work.each(some, [&](std::int64_t i) {
        float* const row = frames.data() + i * frame_;
        kernel::ops().rms_norm(row, ones_.data(), row, frame_, eps_);
      });
      work.multiply(out_, frames.data(), some, rows.data() + first * width_);
    }
    return rows;
  }

  std::string description() const override {
    return fmt::format("{} samples a row at {} Hz, RMS norm with {}", frame_, rate_, eps_);
  }

 private:
  static constexpr std::int64_t kFramesAtOnce = 4096;

  std::int64_t frame_ = 0, width_ = 0;
  int rate_ = 0;
  vision::Linear out_;
  std::vector<float> ones_;
  float eps_ = 0;
};

std::unique_ptr<SoundEncoder> open(const vision::Reader& r, const vision::EncoderOptions&) {
  return std::make_unique<Gemma4Sound>(r);
}

}  // namespace

const SoundEncoderKind entry{"Gemma 4 Unified: samples through one matrix", open};

}  // namespace kvasir::sound::encoders_gemma4ua
