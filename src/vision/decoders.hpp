// One function for each kind of file that vision::decode reads.
#pragma once

#include <limits>
#include <string>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "vision/picture.hpp"

namespace kvasir::vision {

// As the file has it: not turned yet.
struct Decoded {
  Size size;
  int channels = 3;                   // 3: RGB; 4: with alpha
  std::vector<std::uint8_t> samples;  // (height, width, channels)
  int orientation = 1;                // EXIF, 1 to 8

  void allocate() {
    samples.resize(static_cast<std::size_t>(size.width) * static_cast<std::size_t>(size.height) *
                   static_cast<std::size_t>(channels));
  }
  std::uint8_t* row(int y) {
    return samples.data() + static_cast<std::size_t>(y) * static_cast<std::size_t>(size.width * channels);
  }
};

struct Encoded {
  std::span<const std::byte> bytes;
  const std::string& name;
  const Limits& limits;
  const double deadline = limits.seconds > 0 ? steady_seconds() + limits.seconds
                                             : std::numeric_limits<double>::infinity();

  const std::uint8_t* data() const { return reinterpret_cast<const std::uint8_t*>(bytes.data()); }
  [[noreturn]] void fail(const std::string& why) const { throw Error(Code::kBadInput, why, name); }
  [[noreturn]] void lacks(const char* kind, const char* library, const char* package) const {
    throw Error(Code::kUnsupported,
                std::string("is a ") + kind + " picture, and this build has no " + library + " (" + package + ")",
                name);
  }
  // Asked between rows.
  bool is_late() const { return steady_seconds() > deadline; }
  std::string late() const;
  // Before anything is allocated. Throws Error(kBadInput).
  void check(Size size) const;
};

Decoded decode_jpeg(const Encoded& file);
Decoded decode_png(const Encoded& file);
Decoded decode_webp(const Encoded& file);

// The orientation in an EXIF block, which begins with its TIFF header; 1 when it has none or is broken.
int exif_orientation(std::span<const std::byte> tiff);

}  // namespace kvasir::vision
