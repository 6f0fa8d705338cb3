// WebP by libwebp.
#include "vision/decoders.hpp"

#ifdef KVASIR_WEBP
#include <webp/decode.h>

#include <algorithm>
#include <cstring>
#include <memory>
#endif

namespace kvasir::vision {

#ifdef KVASIR_WEBP
namespace {

constexpr std::size_t kStep = std::size_t{64} << 10;  // bytes that are decoded between two looks at the clock

// The orientation in the chunk EXIF, which stands behind the picture.
int orientation_of(std::span<const std::byte> file) {
  constexpr std::size_t kHeader = 12, kChunk = 8;
  for (std::size_t at = kHeader; at + kChunk <= file.size();) {
    std::uint32_t size = 0;
    for (std::size_t i = 0; i < 4; ++i) size |= static_cast<std::uint32_t>(file[at + 4 + i]) << (8 * i);
    if (size > file.size() - at - kChunk) return 1;
    if (std::memcmp(file.data() + at, "EXIF", 4) == 0) {
      std::span<const std::byte> block = file.subspan(at + kChunk, size);
      if (size > 6 && std::memcmp(block.data(), "Exif\0\0", 6) == 0)
        block = block.subspan(6);  // as some programs write
      return exif_orientation(block);
    }
    at += kChunk + size + size % 2;
  }
  return 1;
}

const char* why(VP8StatusCode status) {
  switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY:
      return "no memory for it";
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return "it has what libwebp does not read";
    case VP8_STATUS_NOT_ENOUGH_DATA:
    case VP8_STATUS_SUSPENDED:
      return "it is cut off";
    default:
      return "its data are broken";
  }
}

}  // namespace

Decoded decode_webp(const Encoded& file) {
  WebPDecoderConfig config;
  if (!WebPInitDecoderConfig(&config)) throw Error(Code::kUnsupported, "libwebp has another version", file.name);
  const auto check = [&](VP8StatusCode status) {
    if (status != VP8_STATUS_OK) file.fail(std::string("is a WebP picture that cannot be read: ") + why(status));
  };
  check(WebPGetFeatures(file.data(), file.bytes.size(), &config.input));
  if (config.input.has_animation) file.fail("is an animated WebP, expected a single picture");
  Decoded d;
  d.size = {config.input.width, config.input.height};
  file.check(d.size);
  d.channels = config.input.has_alpha ? 4 : 3;
  d.allocate();
  config.output.colorspace = config.input.has_alpha ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {d.samples.data(), d.size.width * d.channels, d.samples.size()};
  const std::unique_ptr<WebPIDecoder, void (*)(WebPIDecoder*)> decoder(WebPIDecode(nullptr, 0, &config), WebPIDelete);
  if (!decoder) throw Error(Code::kMemory, "no memory to read it", file.name);
  VP8StatusCode status = VP8_STATUS_SUSPENDED;
  for (std::size_t n = 0; status == VP8_STATUS_SUSPENDED && n < file.bytes.size();) {
    n = std::min(n + kStep, file.bytes.size());
    status = WebPIUpdate(decoder.get(), file.data(), n);
    if (file.is_late()) file.fail("is a WebP picture that cannot be read: " + file.late());
  }
  check(status);
  d.orientation = orientation_of(file.bytes);
  return d;
}
#else
Decoded decode_webp(const Encoded& file) { file.lacks("WebP", "libwebp", "libwebp-dev"); }
#endif

}  // namespace kvasir::vision
