// Encoders in folders as transformers saves them: the rows of the files beside text models, and what
// preprocessor_config.json changes (tools/golden_picture_folders.py).
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "hub/vision_folder.hpp"
#include "vision/encoder.hpp"
#include "vision/golden_fixture.hpp"
#include "weights/model_file.hpp"

namespace kvasir::vision {
namespace {

std::string folder_of(const std::string& name) { return golden("folders/" + name); }

class PictureFolder : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!reads("pictures/64x64.png")) GTEST_SKIP() << "SKIPPED: this build has no libpng";
    std::filesystem::create_directories(copy_);
  }
  ~PictureFolder() override { std::filesystem::remove_all(copy_); }

  // A copy whose preprocessor_config.json is this.
  std::string altered(const nlohmann::json& settings) {
    std::filesystem::copy(folder_of(GetParam()), copy_,
                          std::filesystem::copy_options::overwrite_existing | std::filesystem::copy_options::recursive);
    const std::string text = settings.dump();
    write_file(copy_ + "/preprocessor_config.json", std::as_bytes(std::span(text)));
    return copy_;
  }
  std::string said(const std::string& path) {
    try {
      open_encoder(path, {}, team_);
    } catch (const Error& e) {
      return e.what();
    }
    return "accepted";
  }

  Team team_{2};
  const std::string copy_ = testing::TempDir() + "kvasir-picture-folder-" + std::to_string(getpid()) + GetParam();
};

// Tensor by tensor what the converter writes, in float32, but for matrices that it cuts and this does not.
TEST_P(PictureFolder, GivesTheRowsOfTheFile) {
  ASSERT_TRUE(hub::folder_has_vision(folder_of(GetParam())));
  if (encoder_of(GetParam()) == folder_of(GetParam())) return;  // there is none; picture_rows_test reads the folder
  const auto folder = open_encoder(folder_of(GetParam()), {.exact = true}, team_),
             file = open_encoder(golden(GetParam() + ".gguf"), {.exact = true}, team_);
  EXPECT_EQ(folder->kind(), file->kind());
  EXPECT_EQ(folder->description(), file->description());
  EXPECT_EQ(folder->deep(), file->deep());
  const nlohmann::json listed = golden_json(GetParam() + ".json");
  for (const auto& p : listed["pictures"]) {
    const Picture picture = read_picture(golden("pictures/" + p["file"].get<std::string>()));
    const Prepared ours = folder->prepare(picture), theirs = file->prepare(picture);
    ASSERT_EQ(ours.parts.size(), theirs.parts.size());
    for (std::size_t i = 0; i < ours.parts.size(); ++i) EXPECT_EQ(ours.parts[i].rgb, theirs.parts[i].rgb);
    const Encoding a = folder->encode(ours, team_), b = file->encode(theirs, team_);
    EXPECT_EQ(a.rows, b.rows) << p["file"];
    EXPECT_EQ(a.deep, b.deep);
  }
}

TEST_P(PictureFolder, FollowsItsPreprocessorConfig) {
  const nlohmann::json json = golden_json("folders/" + GetParam() + "/altered.json");
  const auto encoder = open_encoder(altered(json["preprocessor"]), {.exact = true}, team_),
             before = open_encoder(folder_of(GetParam()), {.exact = true}, team_);
  EXPECT_NE(encoder->fingerprint(), before->fingerprint());
  const std::vector<std::byte> all = golden_bytes("folders/" + GetParam() + "/altered.rows.f32");
  const auto* want = reinterpret_cast<const float*>(all.data());
  for (const auto& p : json["pictures"]) {
    const Prepared prepared = encoder->prepare(read_picture(golden("pictures/" + p["file"].get<std::string>())));
    ASSERT_EQ(prepared.parts.size(), p["parts"].size()) << p["file"];
    for (std::size_t i = 0; i < prepared.parts.size(); ++i)
      EXPECT_EQ(prepared.parts[i].size, (Size{p["parts"][i][0], p["parts"][i][1]})) << p["file"];
    const Encoding e = encoder->encode(prepared, team_);
    ASSERT_EQ(e.count(), p["rows"][0].get<std::int64_t>());
    double error = 0, norm = 0;
    for (const float x : e.rows) {
      error += std::pow(static_cast<double>(x) - *want, 2);
      norm += std::pow(static_cast<double>(*want++), 2);
    }
    EXPECT_LE(std::sqrt(error / norm), 1e-4) << p["file"];
  }
  EXPECT_EQ(reinterpret_cast<const std::byte*>(want), all.data() + all.size());
}

TEST_P(PictureFolder, WhatIsWrongIsNamed) {
  const nlohmann::json plain = golden_json("folders/" + GetParam() + "/preprocessor_config.json");
  const auto with = [&](const char* field, const nlohmann::json& value) {
    nlohmann::json changed = plain;
    changed[field] = value;
    return said(altered(changed));
  };
  EXPECT_NE(with("resample", 0).find("preprocessor_config.json: 'resample' is 0, expected"), std::string::npos);
  EXPECT_NE(with("rescale_factor", 1).find("'rescale_factor' is not 1/255"), std::string::npos);
  EXPECT_NE(with("do_resize", false).find("'do_resize' is false"), std::string::npos);
  // The settings of transformers 5, with those of other processors in one file.
  std::filesystem::remove(copy_ + "/preprocessor_config.json");
  EXPECT_NE(said(copy_).find("preprocessor_config.json: is missing"), std::string::npos) << said(copy_);
  EXPECT_FALSE(hub::folder_has_vision(copy_));
  const std::string text = nlohmann::json{{"image_processor", plain}}.dump();
  write_file(copy_ + "/processor_config.json", std::as_bytes(std::span(text)));
  EXPECT_EQ(open_encoder(copy_, {}, team_)->fingerprint(),
            open_encoder(folder_of(GetParam()), {}, team_)->fingerprint());
  // Another model; a tensor that is not there.
  const std::string config = nlohmann::json{{"model_type", "llama"}}.dump();
  write_file(copy_ + "/config.json", std::as_bytes(std::span(config)));
  EXPECT_NE(said(copy_).find("has no encoder of pictures of a kind that is known"), std::string::npos);
  EXPECT_FALSE(hub::folder_has_vision(copy_));
  altered(plain);
  std::string bytes = read_text_file(folder_of(GetParam()) + "/model.safetensors");
  const std::size_t at = bytes.find("norm");  // the first one
  bytes[at] = 'q';
  write_file(copy_ + "/model.safetensors", std::as_bytes(std::span(bytes)));
  EXPECT_NE(said(copy_).find(" is missing"), std::string::npos) << said(copy_);
  EXPECT_FALSE(hub::folder_has_vision(golden("folders")));
  EXPECT_FALSE(hub::folder_has_vision(golden("gemma3.gguf")));
}

std::vector<std::string> all_folders() {
  std::vector<std::string> names;
  for (const auto& kind : encoders()) names.emplace_back(kind.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Encoders, PictureFolder, testing::ValuesIn(all_folders()),
                         [](const auto& kind) { return kind.param; });

}  // namespace
}  // namespace kvasir::vision
