#include "sound/encoder.hpp"

#include <filesystem>

#include "base/error.hpp"
#include "hub/vision_folder.hpp"
#include "simd/isa.hpp"
#include "vision/key_hasher.hpp"
#include "vision/linear.hpp"
#include "weights/model_file.hpp"
#include "weights/tensor_text.hpp"

namespace kvasir::sound {
namespace {

// Goes up when the same description comes to mean other rows. Keys of pictures begin otherwise.
constexpr std::string_view kSoundFormat = "kvasir sound 1\n";

// "" where the file has nothing for sounds.
std::string audio_projector_of(const weights::Metadata& m) {
  if (m.get_bool("clip.has_audio_encoder") != true) return {};
  return m.get_string("clip.audio.projector_type").value_or(m.get_string("clip.projector_type").value_or(""));
}

}  // namespace

vision::PictureKey key_of(std::span<const float> samples, const SoundEncoder& encoder) {
  vision::KeyHasher h;
  h.add(encoder.fingerprint().bytes);
  const std::uint64_t count = samples.size();
  h.add(std::as_bytes(std::span(&count, 1)));
  h.add(std::as_bytes(samples));
  return h.key();
}

std::unique_ptr<SoundEncoder> open_encoder(const std::string& path, const vision::EncoderOptions& options, Team& team) {
  std::error_code none;
  const std::unique_ptr<weights::ModelFile> file =
      std::filesystem::is_directory(path, none) ? hub::open_vision_folder(path) : weights::open_model_file(path);
  const std::string projector = audio_projector_of(file->metadata());
  const SoundEncoderKind* const kind = find(encoders(), projector);
  if (!kind) return nullptr;
  std::unique_ptr<SoundEncoder> encoder = kind->open(vision::Reader(*file, team, options), options);
  vision::KeyHasher h;
  h.add(kSoundFormat);
  h.add(projector + "\n" + encoder->description() + "\narithmetic " + std::string(simd::name(simd::active())) + "\n");
  h.add(weights::tensor_text(*file));
  encoder->fingerprint_ = h.key();
  encoder->kind_ = projector;
  return encoder;
}

}  // namespace kvasir::sound
