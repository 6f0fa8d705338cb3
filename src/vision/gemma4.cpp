#include "vision/gemma4.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.hpp"

namespace kvasir::vision {

std::int32_t most_gemma4_rows(const Reader& reader, const EncoderOptions& options) {
  if (options.most_rows > 0) return options.most_rows;
  return static_cast<std::int32_t>(
      reader.metadata().get_int("clip.vision.image_max_tokens", 1, 1 << 20).value_or(kGemma4Rows));
}

Size largest_in(Size p, int unit, int most) {
  const double area = static_cast<double>(most) * unit * unit;
  const double factor = std::sqrt(area / (static_cast<double>(p.width) * p.height));
  const auto rounded = [&](int length) { return static_cast<int>(std::floor(factor * length / unit)) * unit; };
  const auto narrow = [&](int longer, int shorter) { return std::min(longer / shorter, most) * unit; };
  Size to{rounded(p.width), rounded(p.height)};
  if (to.height == 0) to = {narrow(p.width, p.height), unit};
  if (to.width == 0) to = {unit, narrow(p.height, p.width)};
  return to;
}

void check_places(Size size, int side, std::int64_t places) {
  if (std::max(size.width, size.height) / side > places)
    throw Error(Code::kBadInput,
                "becomes " + std::to_string(size.width) + " x " + std::to_string(size.height) +
                    " pixels, more than the " + std::to_string(places) + " patches in a row that the model knows",
                "picture");
}

}  // namespace kvasir::vision
