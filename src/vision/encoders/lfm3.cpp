// The tower of LFM3-VL, from folders (transformers 5.24, lfm3_vl): Qwen's patches and rotation, blocks of which some
// are gated convolutions over 3 x 3 patches and the others attention with fewer heads of keys, both normed; texts'
// positions have one part.
#include "vision/qwen.hpp"

namespace kvasir::vision::encoders_lfm3 {
namespace {

std::unique_ptr<Encoder> open(const Reader& r, const EncoderOptions& o) {
  const auto number = [&](const char* key, double otherwise) {
    return static_cast<float>(r.metadata().get_float(key).value_or(otherwise));
  };
  return open_qwen(r, o,
                   {.tower = {.activation = kernel::Activation::kSilu,
                              .eps = number("clip.vision.attention.layer_norm_epsilon", 1e-5),
                              .rms = true,
                              .gated = true,
                              .biases = false},
                    .least_rows = 64,
                    .placed = false,
                    .theta = number("clip.vision.rope.freq_base", 1e6),
                    .lfm3 = true});
}

}  // namespace

const EncoderKind entry{"LFM3-VL: a tower of convolutions and attention with rotation in two dimensions, a merger",
                        open};

}  // namespace kvasir::vision::encoders_lfm3
