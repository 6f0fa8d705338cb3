// Every byte of resized pictures, as Pillow and torchvision make them.
#include "vision/resize.hpp"

#include "vision/golden_fixture.hpp"

namespace kvasir::vision {
namespace {

TEST(Resize, HasTheBytesOfPillowAndTorchvision) {
  if (!reads("pictures/64x64.png")) GTEST_SKIP() << "SKIPPED: this build has no libpng";
  const std::vector<std::byte> all = golden_bytes("resized.u8");
  const auto* want = reinterpret_cast<const std::uint8_t*>(all.data());
  const auto* const end = want + all.size();
  const nlohmann::json listed = golden_json("resized.json");
  for (const auto& r : listed) {
    const Picture from = read_picture(golden("pictures/" + r["file"].get<std::string>()));
    const Picture to = resize(from, {r["width"], r["height"]}, r["bicubic"] ? Filter::kBicubic : Filter::kBilinear,
                              r["library"] == "pillow" ? Rounding::kPillow : Rounding::kTorchvision);
    ASSERT_EQ(to.rgb.size(), r["width"].get<std::size_t>() * r["height"].get<std::size_t>() * 3);
    ASSERT_LE(want + to.rgb.size(), end);
    std::size_t others = 0;
    for (const std::uint8_t byte : to.rgb) others += byte != *want++;
    EXPECT_EQ(others, 0u) << r;
  }
  EXPECT_EQ(want, end);
}

TEST(Resize, KeepsWhatHasItsSize) {
  const Picture p{{2, 1}, {1, 2, 3, 250, 251, 252}};
  EXPECT_EQ(resize(p, p.size, Filter::kBicubic, Rounding::kPillow).rgb, p.rgb);
  const Picture wide = resize(p, {2, 3}, Filter::kBilinear, Rounding::kTorchvision);
  EXPECT_EQ(wide.rgb,
            (std::vector<std::uint8_t>{1, 2, 3, 250, 251, 252, 1, 2, 3, 250, 251, 252, 1, 2, 3, 250, 251, 252}));
}

}  // namespace
}  // namespace kvasir::vision
