// Files of every kind beside what Pillow reads in them; files that are none, too large or broken.
#include "vision/picture.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/splitmix.hpp"
#include "vision/decoders.hpp"
#include "vision/golden_fixture.hpp"

namespace kvasir::vision {
namespace {

using Bytes = std::vector<std::byte>;

// What is wrong with a picture; empty: nothing.
std::string refusal(std::span<const std::byte> file, const Limits& limits = {}) {
  try {
    const Picture p = decode(file, "x", limits);
    EXPECT_EQ(p.rgb.size(), static_cast<std::size_t>(p.size.width) * static_cast<std::size_t>(p.size.height) * 3);
    EXPECT_LE(std::int64_t{p.size.width} * p.size.height, limits.pixels);
    return "";
  } catch (const Error& e) {
    EXPECT_TRUE(e.code() == Code::kBadInput || e.code() == Code::kUnsupported) << e.what();
    EXPECT_EQ(e.context(), "x");
    EXPECT_FALSE(e.message().empty());
    return e.message();
  }
}

std::vector<std::string> files_read() {
  std::vector<std::string> names;
  const nlohmann::json all = golden_json("decoded.json");
  for (const auto& [name, want] : all.items())
    if (reads("files/" + name)) names.push_back(name);
  return names;
}

TEST(Picture, IsWhatPillowReads) {
  const auto all = golden_json("decoded.json");
  int compared = 0;
  for (const std::string& name : files_read()) {
    const Picture p = read_picture(golden("files/" + name));
    EXPECT_EQ(p.size, (Size{all[name]["width"], all[name]["height"]})) << name;
    const std::string hex = all[name]["rgb"];
    ASSERT_EQ(p.rgb.size() * 2, hex.size()) << name;
    const bool lossy = name.ends_with(".jpg") || name == "lossy.webp";
    int largest = 0;
    for (std::size_t i = 0; i < p.rgb.size(); ++i)
      largest = std::max(largest, std::abs(std::stoi(hex.substr(2 * i, 2), nullptr, 16) - p.rgb[i]));
    EXPECT_LE(largest, lossy ? 1 : 0) << name;  // versions of a codec may round otherwise
    ++compared;
  }
  if (compared == 0) GTEST_SKIP() << "SKIPPED: this build has no library for pictures";
}

TEST(Picture, OfAKindThatTheBuildLacksNamesThePackage) {
  for (const auto& [name, package] :
       {std::pair{"rgb.png", "libpng-dev"}, {"full.jpg", "libjpeg62-turbo-dev"}, {"lossy.webp", "libwebp-dev"}}) {
    const std::string said = refusal(golden_bytes(std::string("files/") + name));
    EXPECT_TRUE(said.empty() || said.find(package) != std::string::npos) << said;
  }
}

TEST(Picture, IsRefusedByItsHeader) {
  if (reads("files/rgb.png")) {
    EXPECT_EQ(refusal(golden_bytes("files/large.png")), "has 30000 x 30000 pixels, at most 67108864 are read");
    EXPECT_EQ(refusal(golden_bytes("files/long.png")), "has 1048576 x 1 pixels, at most 65535 are read on a side");
  }
  const Limits few{.bytes = 1 << 20, .pixels = 13 * 9 - 1}, short_one{.bytes = 50};
  for (const std::string& name : files_read()) {
    const std::string said = refusal(golden_bytes("files/" + name), few);
    EXPECT_TRUE(said.ends_with(" pixels, at most 116 are read")) << name << ": " << said;
    EXPECT_TRUE(refusal(golden_bytes("files/" + name), short_one).ends_with(" bytes, at most 50 are read")) << name;
    EXPECT_EQ(refusal(golden_bytes("files/" + name), {.pixels = 13 * 9}), "") << name;
  }
}

TEST(Picture, ThatTakesTooLongIsGivenUp) {
  for (const std::string& name : files_read()) {
    const Bytes file = golden_bytes("files/" + name);
    const std::string said = refusal(file, {.seconds = 1e-9});
    EXPECT_TRUE(said.ends_with("that cannot be read: it takes longer than 1e-09 seconds to decode")) << name << said;
    EXPECT_EQ(refusal(file, {.seconds = 60}), "") << name;
    EXPECT_EQ(refusal(file, {.seconds = 0}), "") << name;
  }
}

// Some 60 scans over eight million pixels, of which nearly none says anything: a small file, and the time of as many
// pictures.
TEST(Picture, OfManyScansIsGivenUpInTime) {
  if (!reads("files/progressive.jpg")) GTEST_SKIP() << "SKIPPED: this build has no libjpeg";
  Bytes file = golden_bytes("files/progressive.jpg");
  std::size_t frame = 0, last = file.size() - 2;
  while (file[frame] != std::byte{0xff} || file[frame + 1] != std::byte{0xc2}) ++frame;
  for (const std::size_t side : {frame + 5, frame + 7}) file[side] = std::byte{0x0b};  // 2816 and what stood behind it
  while (file[last] != std::byte{0xff} || file[last + 1] != std::byte{0xda}) --last;
  const Bytes scan(file.begin() + static_cast<std::ptrdiff_t>(last), file.end() - 2), end(file.end() - 2, file.end());
  file.resize(file.size() - 2);
  for (int i = 0; i < 50; ++i) file.insert(file.end(), scan.begin(), scan.end());
  file.insert(file.end(), end.begin(), end.end());
  const double begin = steady_seconds();
  EXPECT_EQ(refusal(file, {.seconds = 0.05}),
            "is a JPEG picture that cannot be read: it takes longer than 0.05 seconds to decode");
  EXPECT_LT(steady_seconds() - begin, 2.0);
}

TEST(Picture, OfAnotherKindIsNamed) {
  EXPECT_EQ(refusal({}), "is empty, expected a picture");
  EXPECT_EQ(refusal(std::as_bytes(std::span("some text"))), "is no picture: expected JPEG, PNG or WebP");
  EXPECT_EQ(refusal(golden_bytes("files/moves.gif")), "is a file of the kind GIF, expected JPEG, PNG or WebP");
  if (reads("files/lossy.webp")) {
    EXPECT_EQ(refusal(golden_bytes("files/moves.webp")), "is an animated WebP, expected a single picture");
  }
  EXPECT_THROW(read_picture(golden("files/none.png")), Error);
  EXPECT_THROW(read_picture(golden("files")), Error);
}

TEST(Picture, CutOffAnywhereIsRefused) {
  for (const std::string& name : files_read()) {
    const Bytes file = golden_bytes("files/" + name);
    std::size_t read = 0;
    for (std::size_t n = 0; n < file.size(); ++n) read += refusal(std::span(file).first(n)).empty();
    // Behind the pixels: JPEG's end marker, WebP's EXIF.
    EXPECT_LE(read, name.ends_with(".png") ? 0u : name == "turned.webp" ? 60u : 2u) << name;
  }
}

TEST(Picture, WithFlippedBitsIsAPictureOrRefused) {
  std::uint64_t seed = 55;
  for (const std::string& name : files_read()) {
    const Bytes file = golden_bytes("files/" + name);
    for (int round = 0; round < 300; ++round) {
      Bytes broken = file;
      for (std::uint64_t flips = 1 + splitmix64(seed) % 4; flips > 0; --flips)
        broken[splitmix64(seed) % broken.size()] ^= static_cast<std::byte>(1u << splitmix64(seed) % 8);
      refusal(broken, {.pixels = 1 << 20});
    }
  }
}

TEST(Picture, OfThousandsOfScansIsRefused) {
  if (!reads("files/progressive.jpg")) GTEST_SKIP() << "SKIPPED: this build has no libjpeg";
  Bytes file = golden_bytes("files/progressive.jpg");
  std::size_t last = file.size() - 2;
  while (file[last] != std::byte{0xff} || file[last + 1] != std::byte{0xda}) --last;
  const Bytes scan(file.begin() + static_cast<std::ptrdiff_t>(last), file.end() - 2), end(file.end() - 2, file.end());
  file.resize(file.size() - 2);
  for (int i = 0; i < 100; ++i) file.insert(file.end(), scan.begin(), scan.end());
  file.insert(file.end(), end.begin(), end.end());
  EXPECT_EQ(refusal(file), "is a JPEG picture that cannot be read: it has more than 64 scans");
}

TEST(Exif, IsReadInBothOrdersAndBroken) {
  const auto block = [](std::string text) {
    return Bytes(reinterpret_cast<const std::byte*>(text.data()),
                 reinterpret_cast<const std::byte*>(text.data()) + text.size());
  };
  using namespace std::string_literals;
  EXPECT_EQ(exif_orientation(block("II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0"s)), 6);
  EXPECT_EQ(exif_orientation(block("MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x03\0\0"s)), 3);
  EXPECT_EQ(exif_orientation(block("II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x09\0\0\0"s)), 1);        // no such
  EXPECT_EQ(exif_orientation(block("II*\0\xff\xff\xff\xff\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0"s)), 1);  // elsewhere
  EXPECT_EQ(exif_orientation(block("II*\0\x08\0\0\0\xff\xff"s)), 1);
  EXPECT_EQ(exif_orientation({}), 1);
}

}  // namespace
}  // namespace kvasir::vision
