// The tower of Qwen2.5-VL: that of Qwen2-VL with RMS norms and gates, where most blocks see windows alone.
#include "vision/qwen.hpp"

namespace kvasir::vision::encoders_qwen2_5vl_merger {
namespace {

// The model's code; the converter writes the text model's in its place.
constexpr float kEps = 1e-6f;

constexpr int kWindow = 112;  // pixels; not in the file

std::unique_ptr<Encoder> open(const Reader& r, const EncoderOptions& o) {
  return open_qwen(r, o,
                   {.tower = {.activation = kernel::Activation::kSilu, .eps = kEps, .rms = true, .gated = true},
                    .least_rows = 4,
                    .window = kWindow});
}

}  // namespace

const EncoderKind entry{"Qwen2.5-VL: a tower with windows and rotation in two dimensions, a merger", open};

}  // namespace kvasir::vision::encoders_qwen2_5vl_merger
