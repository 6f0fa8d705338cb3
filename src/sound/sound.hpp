// Sounds from files: WAV, FLAC, Ogg and MP3 become samples of one channel at the rate that an encoder wants.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kvasir::sound {

// Of one channel, about -1 to 1.
struct Sound {
  int rate = 0;  // samples a second
  std::vector<float> samples;
};

// What a sound may take at most. The first is checked before it is decoded; the others by its header where that says
// how long it is, and in any case while it is decoded.
struct SoundLimits {
  std::int64_t bytes = std::int64_t{64} << 20;  // of the file
  std::int64_t seconds = 1800;
  std::int64_t samples = std::int64_t{128} << 20;  // of one channel, at the file's own rate
};
inline constexpr int kLeastRate = 1000, kMostRate = 384000;  // of files
inline constexpr int kMostChannels = 16;

// The sound in a file's bytes; `name` only names it in messages. Channels are averaged, other rates resampled (soxr's
// high quality), which gives ceil(samples rate / own rate) samples: as load_audio of transformers does with soundfile.
// Takes 4 bytes a sample while it decodes, and 4 for each that comes of it. Throws Error: kBadInput for what is no
// whole sound or larger than the limits, kUnsupported where the build has no library for it.
Sound decode(std::span<const std::byte> file, const std::string& name, int rate, const SoundLimits& limits = {});

// Whether these bytes begin as a sound that decode() reads.
bool is_sound_file(std::span<const std::byte> file);

}  // namespace kvasir::sound
