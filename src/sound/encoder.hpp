// From sounds to rows of a text model. sound::open_encoder reads what a file beside the text model (`mmproj`), or the
// model's own folder, has for sounds besides what it has for pictures (vision/encoder.hpp), and finds its kind in
// sound/encoders, by the projector that the file names.
//
//   const auto encoder = sound::open_encoder("mmproj.gguf", {}, team);   // null: it has nothing for sounds
//   const sound::Sound s = sound::decode(bytes, "cat.wav", encoder->rate());
//   const vision::PictureKey key = sound::key_of(s.samples, *encoder);   // a cache may be asked here
//   const std::vector<float> rows = encoder->encode(s.samples, team, watch);   // (rows_of(samples), width())
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/registry.hpp"
#include "base/team.hpp"
#include "sound/sound.hpp"
#include "vision/encoder.hpp"

namespace kvasir::sound {

class SoundEncoder {
 public:
  virtual ~SoundEncoder() = default;

  virtual std::int64_t width() const = 0;  // of the text model's embedding
  virtual int rate() const = 0;            // samples a second
  virtual std::int64_t rows_of(std::int64_t samples) const = 0;
  // Texts of special tokens around the rows, which see those before them, as text does.
  virtual std::string_view before() const = 0;
  virtual std::string_view after() const = 0;
  // REQUIRES: samples at rate(), not empty; one call at a time. Throws Error(kMemory), and what `watch` throws.
  virtual std::vector<float> encode(std::span<const float> samples, Team& team, vision::Watch watch) = 0;
  // All that encode() does besides reading weights, as text.
  virtual std::string description() const = 0;

  // Of description(), the file's tensors and the kernels' arithmetic: two encoders with the same give the same rows.
  const vision::PictureKey& fingerprint() const { return fingerprint_; }
  const std::string& kind() const { return kind_; }  // as in the file

 private:
  friend std::unique_ptr<SoundEncoder> open_encoder(const std::string&, const vision::EncoderOptions&, Team&);
  vision::PictureKey fingerprint_;
  std::string kind_;
};

// Of the encoder's fingerprint, and number and bits of all samples.
vision::PictureKey key_of(std::span<const float> samples, const SoundEncoder& encoder);

// Contract of an entry in sound/encoders; its file is called as clip.audio.projector_type calls it.
struct SoundEncoderKind {
  const char* summary;
  // Reads keys and tensors. Throws Error naming the file and what is wrong.
  std::unique_ptr<SoundEncoder> (*open)(const vision::Reader& reader, const vision::EncoderOptions& options);
};
std::span<const Entry<SoundEncoderKind>> encoders();

// Null for a file that has nothing for sounds, or of a kind that is in no entry: pictures are read without it. Throws
// Error naming file, key or tensor.
std::unique_ptr<SoundEncoder> open_encoder(const std::string& path, const vision::EncoderOptions& options, Team& team);

}  // namespace kvasir::sound
