// What the two encoders of Gemma 4 share: how large a picture becomes.
#pragma once

#include <cstdint>

#include "vision/encoder.hpp"
#include "vision/linear.hpp"

namespace kvasir::vision {

// max_soft_tokens of the processor; 70, 140, 560 and 1120 are allowed, too.
inline constexpr std::int32_t kGemma4Rows = 280;

// The option's, the folder's (clip.vision.image_max_tokens), or the published one.
std::int32_t most_gemma4_rows(const Reader& reader, const EncoderOptions& options);

// The largest multiples of `unit` that keep the shape and hold at most `most` squares of it.
Size largest_in(Size picture, int unit, int most);

// Throws Error(kBadInput) unless a side has at most `places` patches of `side` pixels.
void check_places(Size size, int side, std::int64_t places);

}  // namespace kvasir::vision
