#include "vision/decoders.hpp"

namespace kvasir::vision {
namespace {

constexpr std::uint32_t kOrientationTag = 0x0112, kShortType = 3;
constexpr std::size_t kEntryBytes = 12;

struct Tiff {
  std::span<const std::byte> bytes;
  bool little;

  // 0 behind the end.
  std::uint32_t number(std::size_t at, std::size_t width) const {
    if (at > bytes.size() || bytes.size() - at < width) return 0;
    std::uint32_t v = 0;
    for (std::size_t i = 0; i < width; ++i)
      v = v << 8 | static_cast<std::uint32_t>(bytes[at + (little ? width - 1 - i : i)]);
    return v;
  }
};

}  // namespace

int exif_orientation(std::span<const std::byte> bytes) {
  if (bytes.size() < 8) return 1;
  const Tiff tiff{bytes, bytes[0] == std::byte{'I'}};
  if (tiff.number(2, 2) != 42) return 1;
  const std::size_t directory = tiff.number(4, 4);
  const std::uint32_t entries = tiff.number(directory, 2);
  for (std::uint32_t i = 0; i < entries; ++i) {
    const std::size_t at = directory + 2 + i * kEntryBytes;
    if (at >= bytes.size()) break;
    if (tiff.number(at, 2) != kOrientationTag || tiff.number(at + 2, 2) != kShortType) continue;
    const std::uint32_t value = tiff.number(at + 8, 2);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

}  // namespace kvasir::vision
