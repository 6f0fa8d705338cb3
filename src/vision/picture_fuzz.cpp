// libFuzzer target: any bytes are a picture within the limits, or an Error.
#include <cstdint>
#include <cstdlib>

#include "base/error.hpp"
#include "vision/picture.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const kvasir::vision::Limits limits{.bytes = 1 << 16, .pixels = 1 << 18};
  try {
    const auto p = kvasir::vision::decode(std::as_bytes(std::span(data, size)), "fuzz", limits);
    if (p.size.width <= 0 || p.size.height <= 0 || std::int64_t{p.size.width} * p.size.height > limits.pixels ||
        p.rgb.size() != static_cast<std::size_t>(p.size.width) * static_cast<std::size_t>(p.size.height) * 3)
      std::abort();
  } catch (const kvasir::Error& e) {
    if (e.context() != "fuzz" || e.message().empty()) std::abort();
  }
  return 0;
}
