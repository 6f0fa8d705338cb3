// Rows of every encoder of sounds beside transformers' (tools/golden_sounds.py), of file and folder.
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "hub/vision_folder.hpp"
#include "sound/encoder.hpp"
#include "sound/golden_fixture.hpp"

namespace kvasir::sound {
namespace {

double apart(std::span<const float> got, const float* want) {
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    error += std::pow(static_cast<double>(got[i]) - want[i], 2);
    norm += std::pow(static_cast<double>(want[i]), 2);
  }
  return norm > 0 ? std::sqrt(error / norm) : error;
}

std::vector<float> rows(SoundEncoder& encoder, std::span<const float> samples, int threads = 2) {
  Team team(threads);
  return encoder.encode(samples, team, [](std::int64_t, std::int64_t) {});
}

class SoundRows : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!hears("sounds/frame.wav")) GTEST_SKIP() << "SKIPPED: this build has no libsndfile";
  }
  std::unique_ptr<SoundEncoder> open(const vision::EncoderOptions& options = {}) {
    return sound::open_encoder(golden_sound(GetParam()), options, team_);
  }
  Team team_{2};
};
INSTANTIATE_TEST_SUITE_P(Encoders, SoundRows, testing::Values("gemma4ua.gguf", "folder"),
                         [](const auto& file) { return file.param.substr(0, file.param.find('.')); });

TEST_P(SoundRows, AreThoseOfTransformers) {
  const nlohmann::json listed = parse_json(read_text_file(golden_sound("gemma4ua.json")), "json");
  const std::vector<float> all = golden_floats("gemma4ua.rows.f32");
  for (const vision::EncoderOptions& options : {vision::EncoderOptions{.exact = true}, {}, {.eight_bits = true}}) {
    const auto encoder = open(options);
    ASSERT_TRUE(encoder);
    EXPECT_EQ(encoder->kind(), "gemma4ua");
    EXPECT_EQ(encoder->rate(), kGoldenRate);
    const float* want = all.data();
    for (const auto& s : listed["sounds"]) {
      const Sound sound = heard("sounds/" + s["file"].get<std::string>());
      const std::vector<float> got = rows(*encoder, sound.samples);
      ASSERT_EQ(encoder->rows_of(std::ssize(sound.samples)), s["rows"][0].get<std::int64_t>());
      ASSERT_EQ(std::ssize(got), s["rows"][0].get<std::int64_t>() * encoder->width());
      EXPECT_LE(apart(got, want), 1e-5) << s["file"];
      want += got.size();
    }
    EXPECT_EQ(want, all.data() + all.size());
  }
}

// More frames than are computed at once, by any number of threads.
TEST_P(SoundRows, HaveTheSameBitsHoweverTheyAreComputed) {
  const auto encoder = open();
  std::vector<float> samples = heard("sounds/long.wav").samples;
  const std::vector<float> one = rows(*encoder, samples, 1);
  EXPECT_EQ(rows(*encoder, samples, 3), one);
  std::vector<float> many;
  for (int i = 0; i < 4200; ++i) many.insert(many.end(), samples.begin() + 640, samples.begin() + 1280);  // of one row
  const std::vector<float> repeated = rows(*encoder, many);
  const std::int64_t width = encoder->width();
  for (const std::int64_t row : {std::int64_t{0}, std::int64_t{4095}, std::int64_t{4096}, std::int64_t{4199}})
    EXPECT_TRUE(std::equal(repeated.begin() + row * width, repeated.begin() + (row + 1) * width, one.begin() + width));
}

TEST_P(SoundRows, AreKeyedBySamplesAndEncoder) {
  const auto encoder = open(), again = open();
  EXPECT_EQ(encoder->fingerprint(), again->fingerprint());
  std::vector<float> samples = heard("sounds/two.wav").samples;
  const std::vector<float> other = heard("sounds/other.wav").samples;
  ASSERT_EQ(samples.size(), other.size());
  const vision::PictureKey key = key_of(samples, *encoder);
  EXPECT_EQ(key_of(samples, *again), key);
  EXPECT_NE(key_of(other, *encoder), key);
  // Zeros at the end give the same rows; they are another sound all the same.
  samples.push_back(0);
  EXPECT_NE(key_of(samples, *encoder), key);
}

TEST(SoundEncoderFiles, WithoutSoundsGiveNone) {
  Team team(1);
  EXPECT_EQ(sound::open_encoder(std::string(KVASIR_SOURCE_DIR) + "/tests/golden/vision/gemma3.gguf", {}, team),
            nullptr);
  EXPECT_EQ(sound::open_encoder(std::string(KVASIR_SOURCE_DIR) + "/tests/golden/vision/folders/gemma3", {}, team),
            nullptr);
}

TEST(SoundEncoderFiles, WhatIsWrongIsNamed) {
  Team team(1);
  const std::string copy = testing::TempDir() + "kvasir-sound-folder-" + std::to_string(getpid());
  const auto said = [&](const char* file, const std::string& from, const std::string& to) -> std::string {
    std::filesystem::copy(golden_sound("folder"), copy,
                          std::filesystem::copy_options::overwrite_existing | std::filesystem::copy_options::recursive);
    std::string text = read_text_file(copy + "/" + file);
    const std::size_t at = text.find(from);
    EXPECT_NE(at, text.npos) << from;
    text.replace(at, from.size(), to);
    write_file(copy + "/" + file, std::as_bytes(std::span(text)));
    try {
      return sound::open_encoder(copy, {}, team) ? "accepted" : "none";
    } catch (const Error& e) {
      return e.what();
    }
  };
  EXPECT_EQ(said("config.json", "\"model_type\": \"gemma4_unified\"", "\"model_type\": \"gemma4_unified\""),
            "accepted");
  EXPECT_NE(said("processor_config.json", "\"audio_samples_per_token\": 640", "\"audio_samples_per_token\": 320")
                .find("'feature_extractor.audio_samples_per_token' is not 640, audio_embed_dim of config.json"),
            std::string::npos);
  EXPECT_NE(said("processor_config.json", "\"padding_value\": 0.0", "\"padding_value\": 0.5").find("is not 0"),
            std::string::npos);
  EXPECT_NE(said("config.json", "\"audio_embed_dim\": 640", "\"audio_embed_dim\": 320").find("is not 320"),
            std::string::npos);
  const std::string lacks = said("model.safetensors", "embed_audio", "embed_other");
  EXPECT_NE(lacks.find("mm.a.input_projection.weight is missing"), std::string::npos) << lacks;
  EXPECT_EQ(said("config.json", "\"audio_config\"", "\"other_config\""), "none");
  // Another rate is the file's to say.
  EXPECT_EQ(said("processor_config.json", "\"sampling_rate\": 16000", "\"sampling_rate\": 24000"), "accepted");
  EXPECT_EQ(sound::open_encoder(copy, {}, team)->rate(), 24000);
  // In a file of its own, as before version 5 of transformers.
  std::filesystem::copy(golden_sound("folder"), copy,
                        std::filesystem::copy_options::overwrite_existing | std::filesystem::copy_options::recursive);
  const std::string own = R"({"sampling_rate": 8000, "audio_samples_per_token": 640})";
  write_file(copy + "/preprocessor_config.json", std::as_bytes(std::span(own)));
  nlohmann::json all = parse_json(read_text_file(copy + "/processor_config.json"), "processor_config.json");
  all.erase("feature_extractor");
  const std::string rest = all.dump();
  write_file(copy + "/processor_config.json", std::as_bytes(std::span(rest)));
  EXPECT_EQ(sound::open_encoder(copy, {}, team)->rate(), 8000);
  std::filesystem::remove_all(copy);
}

}  // namespace
}  // namespace kvasir::sound
