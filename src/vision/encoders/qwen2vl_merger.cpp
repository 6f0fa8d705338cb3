// The tower of Qwen2-VL: rotation by row and column, four neighbours merged into one row.
#include "vision/qwen.hpp"

namespace kvasir::vision::encoders_qwen2vl_merger {
namespace {

// The model's code; the converter writes the text model's in its place.
constexpr float kEps = 1e-6f;

constexpr float kSharp = 1.702f;  // GELU as the model approximates it

std::unique_ptr<Encoder> open(const Reader& r, const EncoderOptions& o) {
  return open_qwen(r, o,
                   {.tower = {.activation = kernel::Activation::kSilu, .eps = kEps, .sharp = kSharp}, .least_rows = 4});
}

}  // namespace

const EncoderKind entry{"Qwen2-VL: a tower with rotation in two dimensions, a merger", open};

}  // namespace kvasir::vision::encoders_qwen2vl_merger
