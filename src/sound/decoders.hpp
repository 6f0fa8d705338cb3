// What sound::decode is made of: one function for each library.
#pragma once

#include <string>

#include "base/error.hpp"
#include "sound/sound.hpp"

namespace kvasir::sound {

struct SoundBytes {
  std::span<const std::byte> bytes;
  const std::string& name;
  const SoundLimits& limits;

  [[noreturn]] void fail(const std::string& why) const { throw Error(Code::kBadInput, why, name); }
  [[noreturn]] void lacks(const std::string& what, const char* library, const char* package) const {
    throw Error(Code::kUnsupported, what + ", and this build has no " + library + " (" + package + ")", name);
  }
  // Of one channel. Throws Error(kBadInput).
  void check_length(std::int64_t samples, int rate) const;
};

// Channels averaged, at the file's own rate. libsndfile.
Sound read_sound_file(const SoundBytes& file);
// libsoxr. REQUIRES: rate differs from the sound's.
std::vector<float> resampled(const SoundBytes& file, const Sound& sound, int rate);

}  // namespace kvasir::sound
