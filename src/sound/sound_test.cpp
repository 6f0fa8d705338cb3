// Sounds of all kinds beside what transformers reads of them (tools/golden_sounds.py), and files that are none.
#include <algorithm>
#include <cmath>
#include <limits>

#include "sound/golden_fixture.hpp"

namespace kvasir::sound {
namespace {

std::string refusal_of(std::string_view file, const SoundLimits& limits = {}) {
  try {
    decode(std::as_bytes(std::span(file)), "part", kGoldenRate, limits);
  } catch (const Error& e) {
    EXPECT_EQ(e.context(), "part");
    return e.message();
  }
  return "accepted";
}

// A WAV file of floats.
std::string wave_of(const std::vector<float>& samples, std::uint32_t rate = kGoldenRate, std::uint16_t channels = 1) {
  std::string out = "RIFF", data(samples.size() * 4, '\0');
  std::memcpy(data.data(), samples.data(), data.size());
  const auto number = [&](auto n) { out.append(reinterpret_cast<const char*>(&n), sizeof n); };
  number(static_cast<std::uint32_t>(36 + data.size()));
  out += "WAVEfmt ";
  number(std::uint32_t{16});
  number(std::uint16_t{3});
  number(channels);
  number(rate);
  number(rate * 4 * channels);
  number(static_cast<std::uint16_t>(4 * channels));
  number(std::uint16_t{32});
  out += "data";
  number(static_cast<std::uint32_t>(data.size()));
  return out + data;
}

TEST(SoundFiles, HaveTheSamplesOfTransformers) {
  const std::vector<float> all = golden_floats("decoded.f32");
  const float* want = all.data();
  const nlohmann::json listed = parse_json(read_text_file(golden_sound("decoded.json")), "decoded.json");
  for (const auto& f : listed["files"]) {
    const std::string name = f["file"];
    const auto count = f["samples"].get<std::size_t>();
    if (hears("files/" + name)) {
      const Sound s = heard("files/" + name);
      EXPECT_EQ(s.rate, kGoldenRate);
      ASSERT_EQ(s.samples.size(), count) << name;
      // Other versions of the libraries round otherwise. Decoders of lossy kinds do so in 16 bits.
      const bool lossy = name.ends_with(".ogg") || name.ends_with(".mp3");
      double most = 0;
      for (std::size_t i = 0; i < count; ++i)
        most = std::max(most, std::abs(static_cast<double>(s.samples[i]) - want[i]));
      EXPECT_LE(most, lossy ? 2e-4 : 2e-6) << name;
    }
    want += count;
  }
  EXPECT_EQ(want, all.data() + all.size());
}

TEST(SoundFiles, OfSeveralChannelsAreAveraged) {
  if (!hears("sounds/frame.wav")) GTEST_SKIP() << "SKIPPED: this build has no libsndfile";
  const std::string file = wave_of({0.5f, -0.25f, 1.0f, 0.0f}, kGoldenRate, 2);
  EXPECT_EQ(decode(std::as_bytes(std::span(file)), "x", kGoldenRate).samples, (std::vector{0.125f, 0.5f}));
}

TEST(SoundFiles, WhatIsNoneIsRefused) {
  EXPECT_EQ(refusal_of(""), "is empty, expected a sound");
  EXPECT_EQ(refusal_of("hello"), "is no sound: expected WAV, FLAC, Ogg or MP3");
  EXPECT_EQ(refusal_of(std::string("\0\0\0\x20"
                                   "ftypM4A ",
                                   12)),
            "is a file of the kind MPEG-4, expected WAV, FLAC, Ogg or MP3");
  EXPECT_EQ(refusal_of("\xff\xf1\x50\x80 of AAC"), "is a file of the kind AAC, expected WAV, FLAC, Ogg or MP3");
  EXPECT_EQ(refusal_of("FORM....AIFF"), "is a file of the kind AIFF, expected WAV, FLAC, Ogg or MP3");
  const std::string wave = read_text_file(golden_sound("sounds/frame.wav"));
  EXPECT_EQ(refusal_of(wave, {.bytes = 100}), "has " + std::to_string(wave.size()) + " bytes, at most 100 are read");
  EXPECT_NE(refusal_of(wave.substr(0, 900)).find("is cut off: it has 900 of 1324 bytes"), std::string::npos);
  if (!hears("sounds/frame.wav")) {
    EXPECT_NE(refusal_of(wave).find("this build has no libsndfile (libsndfile1-dev)"), std::string::npos);
    GTEST_SKIP() << "SKIPPED: this build has no libsndfile";
  }
  EXPECT_EQ(refusal_of(wave, {.samples = 600}), "has 640 samples or more in a channel, at most 600 are read");
  const std::string second = wave_of(std::vector<float>(40000, 0.1f));
  EXPECT_EQ(refusal_of(second, {.seconds = 2}), "is 2 seconds long or more, at most 2 are read");
  EXPECT_EQ(refusal_of(second, {.seconds = 3}), "accepted");
  EXPECT_EQ(refusal_of(wave_of({})), "has no samples");
  EXPECT_EQ(refusal_of(wave_of({0, std::nanf(""), 1})), "has samples that are no numbers");
  EXPECT_EQ(refusal_of(wave_of({0, std::numeric_limits<float>::infinity()})), "has samples that are no numbers");
  EXPECT_EQ(refusal_of(wave_of(std::vector<float>(17), kGoldenRate, 17)), "has 17 channels, at most 16 are read");
  EXPECT_EQ(refusal_of(wave_of({1}, 10)), "has 10 samples a second, expected 1000 to 384000");
  EXPECT_NE(refusal_of("RIFF\xff\xff\xff\xffWAVE and nothing").find("is no sound that can be read: "),
            std::string::npos);
  // A stream whose writer could not come back to say how long it is.
  std::string stream = wave_of({0.5f, 0.25f});
  stream.replace(4, 4, "\xff\xff\xff\xff");
  EXPECT_EQ(refusal_of(stream), "accepted");
  const std::string flac = read_text_file(golden_sound("files/stereo24.flac"));
  EXPECT_NE(refusal_of(flac.substr(0, flac.size() / 2)), "accepted");
}

// Every file cut anywhere, and with bytes changed: an error that names the part, or a sound.
TEST(SoundFiles, BrokenOnesAreErrors) {
  std::uint32_t seed = 1;
  const auto random = [&seed] { return seed = seed * 1664525 + 1013904223; };
  int refused = 0;
  for (const char* name : {"files/mono16.wav", "files/float48.wav", "files/stereo24.flac", "files/mono.ogg",
                           "files/opus.ogg", "files/stereo.mp3", "files/law.wav", "files/wide22.wav"}) {
    const std::string whole = read_text_file(golden_sound(name));
    for (int i = 0; i < 150; ++i) {
      std::string file = whole;
      if (i % 3 == 0) file.resize(random() % file.size());
      for (std::uint32_t n = random() % 8 + (i % 3 != 0); n > 0; --n)
        if (!file.empty())
          file[(i % 2 ? random() % std::min<std::size_t>(file.size(), 64) : random() % file.size())] ^=
              static_cast<char>(1 + random() % 255);
      refused += refusal_of(file, {.bytes = 1 << 20, .seconds = 60, .samples = 1 << 20}) != "accepted";
    }
  }
  EXPECT_GT(refused, 300);
}

}  // namespace
}  // namespace kvasir::sound
