#include "vision/encoder.hpp"

#include <sodium.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "base/error.hpp"
#include "hub/vision_folder.hpp"
#include "simd/isa.hpp"
#include "vision/key_hasher.hpp"
#include "vision/linear.hpp"
#include "weights/model_file.hpp"
#include "weights/tensor_text.hpp"

namespace kvasir::vision {
namespace {

// Goes up when the same description comes to mean other rows.
constexpr std::string_view kEncodingFormat = "kvasir picture 2\n";

// The converter writes it under one of two keys.
std::string projector_of(const weights::Metadata& m) {
  if (m.get_string("general.architecture").value_or("") != "clip")
    throw Error(Code::kBadInput,
                "general.architecture is " + m.get_string("general.architecture").value_or("absent") +
                    ", expected clip: a file that convert_hf_to_gguf.py --mmproj wrote",
                m.path());
  if (m.has("clip.vision.projector_type")) return m.require_string("clip.vision.projector_type");
  if (m.get_bool("clip.has_vision_encoder") == false)
    throw Error(Code::kBadInput, "has no encoder of pictures (clip.has_vision_encoder)", m.path());
  return m.require_string("clip.projector_type");
}

}  // namespace

std::string_view name(Sight sight) {
  return sight == Sight::kEarlier ? "earlier" : sight == Sight::kBothWays ? "both_ways" : "both_ways_in_windows";
}

std::string to_hex(const PictureKey& key) {
  std::string text(2 * key.bytes.size() + 1, '\0');
  sodium_bin2hex(text.data(), text.size(), reinterpret_cast<const unsigned char*>(key.bytes.data()), key.bytes.size());
  text.pop_back();
  return text;
}

PictureKey key_of(const Prepared& prepared, const Encoder& encoder) {
  KeyHasher h;
  h.add(encoder.fingerprint().bytes);
  for (const Picture& p : prepared.parts) {
    const std::uint32_t size[] = {static_cast<std::uint32_t>(p.size.width), static_cast<std::uint32_t>(p.size.height)};
    h.add(std::as_bytes(std::span(size)));
    h.add(std::as_bytes(std::span(p.rgb)));
  }
  // Parts of one colour are equal however they lie: what stands between them is not.
  for (const std::string& mark : prepared.marks) h.add(std::string_view(mark.c_str(), mark.size() + 1));
  return h.key();
}

std::unique_ptr<Encoder> open_encoder(const std::string& path, const EncoderOptions& options, Team& team) {
  std::error_code none;
  const std::unique_ptr<weights::ModelFile> file =
      std::filesystem::is_directory(path, none) ? hub::open_vision_folder(path) : weights::open_model_file(path);
  const std::string projector = projector_of(file->metadata());
  std::string entry = projector;
  std::replace(entry.begin(), entry.end(), '.', '_');
  const EncoderKind* const kind = find(encoders(), entry);
  if (!kind)
    throw Error(Code::kUnsupported, "the projector " + projector + " is not known; known are " + names(encoders()),
                path);
  std::unique_ptr<Encoder> encoder = kind->open(Reader(*file, team, options), options);
  KeyHasher h;
  h.add(kEncodingFormat);
  h.add(projector + "\n" + encoder->description() + "\narithmetic " + std::string(simd::name(simd::active())) +
        (options.exact        ? " exact\n"
         : options.eight_bits ? " q8_0\n"
                              : "\n"));
  h.add(weights::tensor_text(*file));
  encoder->fingerprint_ = h.key();
  encoder->kind_ = projector;
  return encoder;
}

}  // namespace kvasir::vision
