#include "sound/decoders.hpp"

#ifdef KVASIR_SNDFILE
#include <fmt/format.h>
#include <sndfile.h>

#include <algorithm>
#include <cstring>
#include <memory>
#endif

namespace kvasir::sound {

#ifdef KVASIR_SNDFILE
namespace {

constexpr int kMpegFile = 0x230000;  // SF_FORMAT_MPEG, which libraries before 1.1 do not know
constexpr std::int64_t kFramesAtOnce = 4096;

// Bytes in memory as libsndfile reads files.
struct MemoryFile {
  std::span<const std::byte> bytes;
  sf_count_t at = 0;

  sf_count_t size() const { return static_cast<sf_count_t>(bytes.size()); }
  static SF_VIRTUAL_IO calls() {
    return {.get_filelen = [](void* f) { return static_cast<MemoryFile*>(f)->size(); },
            .seek =
                [](sf_count_t offset, int whence, void* user) {
                  MemoryFile& f = *static_cast<MemoryFile*>(user);
                  const sf_count_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? f.at : f.size();
                  // Broken files say offsets that would overflow.
                  const sf_count_t to = offset > f.size() ? f.size() : offset < -f.size() ? 0 : from + offset;
                  f.at = std::clamp<sf_count_t>(to, 0, f.size());
                  return f.at;
                },
            .read =
                [](void* to, sf_count_t count, void* user) {
                  MemoryFile& f = *static_cast<MemoryFile*>(user);
                  const sf_count_t n = std::clamp<sf_count_t>(count, 0, f.size() - f.at);
                  if (n > 0) std::memcpy(to, f.bytes.data() + f.at, static_cast<std::size_t>(n));
                  f.at += n;
                  return n;
                },
            .write = [](const void*, sf_count_t, void*) { return sf_count_t{0}; },
            .tell = [](void* f) { return static_cast<MemoryFile*>(f)->at; }};
  }
};

bool is_read(int format) {
  const int type = format & SF_FORMAT_TYPEMASK;
  return type == SF_FORMAT_WAV || type == SF_FORMAT_WAVEX || type == SF_FORMAT_RF64 || type == SF_FORMAT_FLAC ||
         type == SF_FORMAT_OGG || type == kMpegFile;
}

}  // namespace

Sound read_sound_file(const SoundBytes& file) {
  MemoryFile memory{file.bytes};
  SF_VIRTUAL_IO calls = MemoryFile::calls();
  SF_INFO info{};
  const std::unique_ptr<SNDFILE, int (*)(SNDFILE*)> opened(sf_open_virtual(&calls, SFM_READ, &info, &memory), sf_close);
  if (!opened) file.fail(fmt::format("is no sound that can be read: {}", sf_strerror(nullptr)));
  if (!is_read(info.format)) file.fail("is no sound: expected WAV, FLAC, Ogg or MP3");
  if (info.channels < 1 || info.channels > kMostChannels)
    file.fail(fmt::format("has {} channels, at most {} are read", info.channels, kMostChannels));
  if (info.samplerate < kLeastRate || info.samplerate > kMostRate)
    file.fail(fmt::format("has {} samples a second, expected {} to {}", info.samplerate, kLeastRate, kMostRate));
  const bool known = info.frames > 0 && info.frames < SF_COUNT_MAX;
  const bool exact = known && (info.format & SF_FORMAT_TYPEMASK) != kMpegFile;  // of MP3 it may be an estimate
  if (exact) file.check_length(info.frames, info.samplerate);
  Sound sound{.rate = info.samplerate, .samples = {}};
  std::vector<float> block(static_cast<std::size_t>(kFramesAtOnce * info.channels));
  while (const sf_count_t n = sf_readf_float(opened.get(), block.data(), kFramesAtOnce)) {
    if (n < 0) break;
    file.check_length(std::ssize(sound.samples) + n, info.samplerate);
    const float* from = block.data();
    for (sf_count_t i = 0; i < n; ++i, from += info.channels) {
      float sum = from[0];
      for (int c = 1; c < info.channels; ++c) sum += from[c];
      sound.samples.push_back(sum / static_cast<float>(info.channels));
    }
  }
  if (const int error = sf_error(opened.get()); error != SF_ERR_NO_ERROR)
    file.fail(fmt::format("is broken behind {} samples: {}", sound.samples.size(), sf_error_number(error)));
  if (exact && std::ssize(sound.samples) < info.frames)
    file.fail(fmt::format("is cut off: it has {} of {} samples", sound.samples.size(), info.frames));
  return sound;
}

#else

Sound read_sound_file(const SoundBytes& file) { file.lacks("is a sound", "libsndfile", "libsndfile1-dev"); }

#endif

}  // namespace kvasir::sound
