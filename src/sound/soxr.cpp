#include "sound/decoders.hpp"

#ifdef KVASIR_SOXR
#include <soxr.h>
#endif

namespace kvasir::sound {

#ifdef KVASIR_SOXR

std::vector<float> resampled(const SoundBytes& file, const Sound& sound, int rate) {
  // Rounded up, as librosa.load has it; the library's own number may be one less, and then the last sample is 0.
  const auto count = static_cast<std::size_t>((std::ssize(sound.samples) * rate + sound.rate - 1) / sound.rate);
  std::vector<float> out(count);
  const soxr_quality_spec_t quality = soxr_quality_spec(SOXR_HQ, 0);
  std::size_t done = 0;
  const soxr_error_t error = soxr_oneshot(sound.rate, rate, 1, sound.samples.data(), sound.samples.size(), nullptr,
                                          out.data(), count, &done, nullptr, &quality, nullptr);
  if (error) file.fail(std::string("cannot be resampled: ") + error);
  return out;
}

#else

std::vector<float> resampled(const SoundBytes& file, const Sound& sound, int rate) {
  file.lacks("has " + std::to_string(sound.rate) + " samples a second, expected " + std::to_string(rate), "libsoxr",
             "libsoxr-dev");
}

#endif

}  // namespace kvasir::sound
