#include "vision/picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string_view>
#include <utility>

#include "vision/decoders.hpp"

namespace kvasir::vision {
namespace {

// Kinds of files by their first bytes, and what is said of those that are not read.
struct Kind {
  const char* name;
  std::string_view magic;
  std::size_t at = 0;
  Decoded (*decode)(const Encoded&) = nullptr;
};
using std::string_view_literals::operator""sv;
constexpr Kind kKinds[] = {
    {"JPEG", "\xff\xd8\xff"sv, 0, decode_jpeg},
    {"PNG", "\x89PNG\r\n\x1a\n"sv, 0, decode_png},
    {"WebP", "WEBP"sv, 8, decode_webp},
    {"GIF", "GIF8"sv},
    {"BMP", "BM"sv},
    {"TIFF", "II*\0"sv},
    {"TIFF", "MM\0*"sv},
    {"AVIF", "ftypavif"sv, 4},
    {"HEIF", "ftyphei"sv, 4},
    {"HEIF", "ftypmif1"sv, 4},
    {"JPEG XL", "\0\0\0\x0cJXL "sv},
};

bool holds(std::span<const std::byte> file, const Kind& kind) {
  return file.size() >= kind.at + kind.magic.size() &&
         std::memcmp(file.data() + kind.at, kind.magic.data(), kind.magic.size()) == 0;
}

// Of a colour over white: round((c a + 255 (255 - a)) / 255).
std::uint8_t over_white(int c, int alpha) {
  const int sum = c * alpha + 255 * (255 - alpha) + 128;
  return static_cast<std::uint8_t>((sum + (sum >> 8)) >> 8);
}

// Where pixel (x, y) of the upright picture lies in the stored one, by EXIF orientation.
Size source_of(int orientation, Size stored, int x, int y) {
  const int right = stored.width - 1, bottom = stored.height - 1;
  switch (orientation) {
    case 2:
      return {right - x, y};
    case 3:
      return {right - x, bottom - y};
    case 4:
      return {x, bottom - y};
    case 5:
      return {y, x};
    case 6:
      return {y, bottom - x};
    case 7:
      return {right - y, bottom - x};
    case 8:
      return {right - y, x};
    default:
      return {x, y};
  }
}

Picture finish(Decoded&& d) {
  Picture p;
  p.size = d.orientation >= 5 ? Size{d.size.height, d.size.width} : d.size;
  if (d.orientation == 1 && d.channels == 3) {
    p.rgb = std::move(d.samples);
    return p;
  }
  p.rgb.resize(static_cast<std::size_t>(p.size.width) * static_cast<std::size_t>(p.size.height) * 3);
  std::uint8_t* to = p.rgb.data();
  for (int y = 0; y < p.size.height; ++y)
    for (int x = 0; x < p.size.width; ++x, to += 3) {
      const Size at = source_of(d.orientation, d.size, x, y);
      const std::uint8_t* const from = d.row(at.height) + at.width * d.channels;
      for (int c = 0; c < 3; ++c) to[c] = d.channels == 4 ? over_white(from[c], from[3]) : from[c];
    }
  return p;
}

}  // namespace

void Encoded::check(Size size) const {
  if (size.width <= 0 || size.height <= 0) fail("has no pixels");
  if (std::max(size.width, size.height) > kMostSide)
    fail("has " + std::to_string(size.width) + " x " + std::to_string(size.height) + " pixels, at most " +
         std::to_string(kMostSide) + " are read on a side");
  if (std::int64_t{size.width} * size.height > limits.pixels)
    fail("has " + std::to_string(size.width) + " x " + std::to_string(size.height) + " pixels, at most " +
         std::to_string(limits.pixels) + " are read");
}

std::string Encoded::late() const { return fmt::format("it takes longer than {:g} seconds to decode", limits.seconds); }

Picture decode(std::span<const std::byte> file, const std::string& name, const Limits& limits) {
  const Encoded encoded{file, name, limits};
  if (std::cmp_greater(file.size(), limits.bytes))
    encoded.fail("has " + std::to_string(file.size()) + " bytes, at most " + std::to_string(limits.bytes) +
                 " are read");
  for (const Kind& kind : kKinds) {
    if (!holds(file, kind)) continue;
    if (kind.decode) return finish(kind.decode(encoded));
    encoded.fail(std::string("is a file of the kind ") + kind.name + ", expected JPEG, PNG or WebP");
  }
  encoded.fail(file.empty() ? "is empty, expected a picture" : "is no picture: expected JPEG, PNG or WebP");
}

std::string read_picture_bytes(const std::string& path, const Limits& limits) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(Code::kIo, "cannot open", path);
  // Not by the file's size, which pipes do not have and which may change; one byte more than is allowed.
  std::string bytes;
  constexpr std::size_t kStep = std::size_t{1} << 20;
  while (in && std::cmp_less_equal(bytes.size(), limits.bytes)) {
    const std::size_t had = bytes.size();
    bytes.resize(had + kStep);
    in.read(bytes.data() + had, kStep);
    bytes.resize(had + static_cast<std::size_t>(in.gcount()));
  }
  if (in.bad() || (bytes.empty() && !in.eof())) throw Error(Code::kIo, "cannot read", path);
  return bytes;
}

Picture read_picture(const std::string& path, const Limits& limits) {
  const std::string bytes = read_picture_bytes(path, limits);
  return decode(std::as_bytes(std::span(bytes)), path, limits);
}

}  // namespace kvasir::vision
