// libFuzzer target: any bytes are a sound within the limits, or an Error.
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "base/error.hpp"
#include "sound/sound.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const kvasir::sound::SoundLimits limits{.bytes = 1 << 16, .seconds = 10, .samples = 1 << 16};
  constexpr int kRate = 16000;
  try {
    const auto s = kvasir::sound::decode(std::as_bytes(std::span(data, size)), "fuzz", kRate, limits);
    if (s.rate != kRate || s.samples.empty() || std::ssize(s.samples) > limits.seconds * kRate) std::abort();
  } catch (const kvasir::Error& e) {
    if (e.context() != "fuzz" || e.message().empty()) std::abort();
  }
  return 0;
}
