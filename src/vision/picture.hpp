// Pictures from files: JPEG, PNG and WebP become rows of RGB bytes, upright, over white.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace kvasir::vision {

struct Size {
  int width = 0, height = 0;
  bool operator==(const Size&) const = default;
};

struct Picture {
  Size size;
  std::vector<std::uint8_t> rgb;  // (height, width, 3)
};

inline constexpr int kMostSide = 65535;

// What a picture may take at most. Bytes and pixels are checked before it is decoded, by the file's length and by its
// header; the time after every row, or 64 KiB of a WebP file.
struct Limits {
  std::int64_t bytes = std::int64_t{64} << 20;   // of the file
  std::int64_t pixels = std::int64_t{64} << 20;  // width x height
  double seconds = 30;                           // of decoding; 0: as long as it takes
};

// The picture in a file's bytes; `name` only names it in messages. Turned as its EXIF orientation says, transparent
// places over white, 16 bits cut to the upper 8, CMYK as Adobe's programs write it (inverted). Takes up to 7 bytes a
// pixel while it decodes, of JPEG files with several scans 13. Throws Error: kBadInput for what is no whole picture,
// larger than the limits or takes longer, kUnsupported where the build has no library for the format.
Picture decode(std::span<const std::byte> file, const std::string& name, const Limits& limits = {});

// The bytes of a picture's file, at most one more than the limit. Throws Error(kIo) when it cannot be read.
std::string read_picture_bytes(const std::string& path, const Limits& limits = {});

// Both.
Picture read_picture(const std::string& path, const Limits& limits = {});

}  // namespace kvasir::vision
