// The command `picture`, as a user calls it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/command.hpp"
#include "cli/run_fixture.hpp"
#include "vision/golden_fixture.hpp"

namespace kvasir::cli {
namespace {

const std::string kEncoder = vision::golden("gemma4uv.gguf");

TEST(PictureCommand, PrintsAnObjectForEachPicture) {
  if (!vision::reads("files/rgb.png")) GTEST_SKIP() << "SKIPPED: this build has no libpng";
  const Result r = run_captured({"picture", "--mmproj", kEncoder, "--rows", "--most-rows", "70", "-t", "2",
                                 vision::golden("files/turned.png"), vision::golden("pictures/97x53.png")});
  ASSERT_EQ(r.status, 0) << r.err;
  const auto turned = nlohmann::json::parse(r.out.substr(0, r.out.find('\n')));
  EXPECT_EQ(turned["width"], 9);  // 13 x 9 in the file
  EXPECT_EQ(turned["height"], 13);
  const auto other = nlohmann::json::parse(r.out.substr(r.out.find('\n')));
  EXPECT_EQ(other["parts"], nlohmann::json::parse(R"([{"width":66,"height":36}])"));
  EXPECT_EQ(other["rows"], 66);
  EXPECT_EQ(other["values"].size(), 66u);
  EXPECT_EQ(other["values"][0].size(), other["row_width"]);
  EXPECT_EQ(other["runs"][0]["grid"], nlohmann::json::parse("[1,6,11]"));
  EXPECT_EQ(other["runs"][0]["sight"], "both_ways_in_windows");
  EXPECT_EQ(other["hash"].get<std::string>().size(), 64u);
  EXPECT_NE(other["hash"], turned["hash"]);
}

TEST(PictureCommand, SaysWhatIsWrong) {
  const auto said = [](const std::string& encoder, const std::string& picture, int status) {
    const Result r = run_captured({"picture", "--mmproj", encoder, picture});
    EXPECT_EQ(r.status, status);
    EXPECT_EQ(r.out, "");
    return r.err;
  };
  EXPECT_NE(said(kEncoder, "/none.png", kFailure).find("/none.png: cannot open"), std::string::npos);
  EXPECT_NE(said(kEncoder, kEncoder, kBadUsage).find("is no picture: expected JPEG, PNG or WebP"), std::string::npos);
  EXPECT_NE(said("/none.gguf", kEncoder, kFailure).find("/none.gguf"), std::string::npos);
  EXPECT_NE(said(std::string(KVASIR_SOURCE_DIR) + "/models/kvasir-books-4m.gguf", kEncoder, kBadUsage)
                .find("general.architecture is llama, expected clip"),
            std::string::npos);
  EXPECT_EQ(run_captured({"picture", "--mmproj", kEncoder}).status, kBadUsage);
}

}  // namespace
}  // namespace kvasir::cli
