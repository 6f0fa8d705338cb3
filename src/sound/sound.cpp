#include "sound/sound.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <string_view>
#include <utility>

#include "sound/decoders.hpp"

namespace kvasir::sound {
namespace {

// Kinds of files by their first bytes, and what is said of those that are not read.
struct SoundKind {
  const char* name;
  bool read;
  std::string_view magic;
  std::size_t at = 0;
};
using std::string_view_literals::operator""sv;
constexpr SoundKind kSoundKinds[] = {
    {"WAV", true, "WAVE"sv, 8},     {"FLAC", true, "fLaC"sv},
    {"Ogg", true, "OggS"sv},        {"MP3", true, "ID3"sv},
    {"AIFF", false, "FORM"sv},      {"AU", false, ".snd"sv},
    {"MPEG-4", false, "ftyp"sv, 4}, {"WebM", false, "\x1a\x45\xdf\xa3"sv},
    {"MIDI", false, "MThd"sv},      {"WMA", false, "\x30\x26\xb2\x75"sv},
    {"AMR", false, "#!AMR"sv},
};

bool begins(std::span<const std::byte> file, const SoundKind& kind) {
  return file.size() >= kind.at + kind.magic.size() &&
         std::memcmp(file.data() + kind.at, kind.magic.data(), kind.magic.size()) == 0;
}

// A frame of MPEG audio without a tag in front: eleven bits that are set, and a layer, which AAC says to be none.
const SoundKind* mpeg_kind(std::span<const std::byte> file) {
  static constexpr SoundKind kMp3{"MP3", true, {}}, kAac{"AAC", false, {}};
  if (file.size() < 4 || file[0] != std::byte{0xff} || (file[1] & std::byte{0xe0}) != std::byte{0xe0}) return nullptr;
  return (file[1] & std::byte{0x06}) != std::byte{0} ? &kMp3 : &kAac;
}

const SoundKind* kind_of(std::span<const std::byte> file) {
  for (const SoundKind& kind : kSoundKinds)
    if (begins(file, kind)) return &kind;
  return mpeg_kind(file);
}

// What the file says of its own length: libsndfile reads what is there and says nothing. Writers into pipes, which
// cannot come back to it, leave the largest numbers there.
void check_whole_wave(const SoundBytes& file) {
  constexpr std::uint32_t kUnknown = 0x7fff0000;
  if (std::memcmp(file.bytes.data(), "RIFF", 4) != 0) return;
  std::uint32_t size = 0;
  for (int i = 3; i >= 0; --i)
    size = size << 8 | std::to_integer<std::uint32_t>(file.bytes[4 + static_cast<std::size_t>(i)]);
  if (size < kUnknown && std::size_t{size} + 8 > file.bytes.size() + 1)  // the last byte of padding is often left out
    file.fail(fmt::format("is cut off: it has {} of {} bytes", file.bytes.size(), std::size_t{size} + 8));
}

}  // namespace

void SoundBytes::check_length(std::int64_t samples, int rate) const {
  if (samples > limits.samples)
    fail(fmt::format("has {} samples or more in a channel, at most {} are read", samples, limits.samples));
  if (samples > limits.seconds * rate)
    fail(fmt::format("is {} seconds long or more, at most {} are read", samples / rate, limits.seconds));
}

bool is_sound_file(std::span<const std::byte> file) {
  const SoundKind* const kind = kind_of(file);
  return kind && kind->read;
}

Sound decode(std::span<const std::byte> bytes, const std::string& name, int rate, const SoundLimits& limits) {
  const SoundBytes file{bytes, name, limits};
  if (std::cmp_greater(bytes.size(), limits.bytes))
    file.fail(fmt::format("has {} bytes, at most {} are read", bytes.size(), limits.bytes));
  if (bytes.empty()) file.fail("is empty, expected a sound");
  const SoundKind* const kind = kind_of(bytes);
  if (!kind) file.fail("is no sound: expected WAV, FLAC, Ogg or MP3");
  if (!kind->read) file.fail(fmt::format("is a file of the kind {}, expected WAV, FLAC, Ogg or MP3", kind->name));
  if (kind->magic == "WAVE") check_whole_wave(file);
  Sound sound = read_sound_file(file);
  if (sound.samples.empty()) file.fail("has no samples");
  for (const float x : sound.samples)
    if (!std::isfinite(x)) file.fail("has samples that are no numbers");
  if (sound.rate != rate) sound = {rate, resampled(file, sound, rate)};
  return sound;
}

}  // namespace kvasir::sound
