// The tower of Qwen3-VL and Qwen 3.5: learned positions stretched over the picture, rotation by row and column, four
// neighbours merged into one row. Some blocks' rows go to early layers of the text model, too (deepstack).
#include "vision/qwen.hpp"

namespace kvasir::vision::encoders_qwen3vl_merger {
namespace {

// The model's code; the converter writes the text model's in its place.
constexpr float kEps = 1e-6f;

std::unique_ptr<Encoder> open(const Reader& r, const EncoderOptions& o) {
  return open_qwen(r, o, {.tower = {kernel::Activation::kGeluTanh, kEps}, .least_rows = 64, .positions = true});
}

}  // namespace

const EncoderKind entry{"Qwen3-VL, Qwen 3.5: a tower with rotation in two dimensions, a merger, deepstack", open};

}  // namespace kvasir::vision::encoders_qwen3vl_merger
