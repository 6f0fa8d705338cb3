#include "lab/eval/codec_trial.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "base/error.hpp"
#include "base/test_data_fixture.hpp"
#include "lab/eval/capture.hpp"
#include "lab/eval/eval_fixture.hpp"
#include "run/engine.hpp"

namespace kvasir::lab::eval {
namespace {

KvArray noise(int heads, int tokens, int dim, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  KvArray a{1, heads, tokens, dim, {}};
  for (int i = 0; i < heads * tokens * dim; ++i) a.data.push_back(normal(random));
  return a;
}

CodecRow trial(const std::string& name, const KvPair& pair) {
  return try_codecs(name, sides_of(name, pair, true), pair, {.queries = 11});
}

// IEEE bf16, to nearest even, and f16 for numbers in its normal range.
float rounded(float x, int mantissa_bits) {
  int e = 0;
  const float m = std::frexp(x, &e);
  return std::ldexp(std::nearbyint(std::ldexp(m, mantissa_bits + 1)), e - mantissa_bits - 1);
}

struct Folder {
  Folder() : path((std::filesystem::temp_directory_path() / ("kvasir-trial-" + std::to_string(::getpid()))).string()) {
    std::filesystem::create_directory(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

TEST(CodecTrial, LosslessCodecsReproduceEverything) {
  for (const int tokens : {2, 99, 128, 129, 300}) {
    const KvPair pair{noise(2, tokens, 64, 1), noise(2, tokens, 96, 2)};
    const CodecRow r = trial("f32", pair);
    EXPECT_TRUE(std::isinf(r.k.db())) << tokens;
    EXPECT_TRUE(std::isinf(r.v.db())) << tokens;
    EXPECT_NEAR(r.scores.slope(), 1, 1e-6) << tokens;
    EXPECT_LT(r.scores.relative_error(), 1e-11) << tokens;
    EXPECT_LT(r.output_relative_error(), 2e-6) << tokens;
    EXPECT_EQ(r.bits_k, 32);
    EXPECT_EQ(r.bits_v, 32);
  }
}

TEST(CodecTrial, RoundingGivesItsOwnSignalToNoise) {
  const KvPair pair{noise(2, 150, 64, 3), noise(2, 150, 64, 4)};
  const CodecRow r = trial("bf16/f16", pair);
  const auto expected = [](const KvArray& a, int bits) {
    double signal = 0, error = 0;
    for (const float x : a.data) {
      signal += static_cast<double>(x) * x;
      error += std::pow(static_cast<double>(x) - rounded(x, bits), 2);
    }
    return 10 * std::log10(signal / error);
  };
  EXPECT_NEAR(r.k.db(), expected(pair.keys, 7), 1e-3);
  EXPECT_NEAR(r.v.db(), expected(pair.values, 10), 0.05);  // a few values are subnormal in f16
  EXPECT_NEAR(10 * std::log10(1 / r.scores.relative_error()), r.k.db(), 1.5);
  EXPECT_GT(r.output_relative_error(), 1e-4);
  EXPECT_LT(r.output_relative_error(), 1e-2);
}

TEST(CodecTrial, KeysAloneAndCodecsThatRefuse) {
  const KvPair pair{noise(1, 40, 12, 5), {}};
  EXPECT_THROW(sides_of("f16", pair, true), Error);  // no multiple of 8
  EXPECT_EQ(sides_of("f16", pair, false).k, "");
  EXPECT_THROW(sides_of("nonsense", {noise(1, 4, 32, 6), {}}, true), Error);
  const CodecRow r = trial("f16", {noise(1, 40, 32, 7), {}});
  EXPECT_TRUE(r.has_k);
  EXPECT_FALSE(r.has_v);
  EXPECT_GT(r.k.db(), 70);
}

TEST(KvFile, ComesBackAndBadFilesAreNamed) {
  const Folder folder;
  const std::string path = folder.path + "/k.bin";
  const KvArray a = noise(3, 5, 8, 8);
  write_kv_file(path, a);
  EXPECT_EQ(std::filesystem::file_size(path), 20u + 3 * 5 * 8 * 4);
  const KvArray b = read_kv_file(path);
  EXPECT_EQ(b.layer, 1);
  EXPECT_EQ(b.heads, 3);
  EXPECT_EQ(b.data, a.data);

  const auto error = [&](const std::function<void(std::string&)>& spoil) {
    write_kv_file(path, a);
    std::string bytes = read_text_file(path);
    spoil(bytes);
    std::ofstream(path, std::ios::binary) << bytes;
    try {
      read_kv_file(path);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  EXPECT_NE(error([](std::string& s) { s.resize(12); }).find("too short for its header"), std::string::npos);
  EXPECT_NE(error([](std::string& s) { s[0] = 'x'; }).find("0x544B5651"), std::string::npos);
  EXPECT_NE(error([](std::string& s) { s.pop_back(); }).find("bytes, expected 500"), std::string::npos);
  EXPECT_NE(error([](std::string& s) { s[11] = '\x7f'; }).find("heads is"), std::string::npos);
  EXPECT_NE(error([](std::string& s) { s[12] = 1; }).find("tokens is 1, expected 2.."), std::string::npos);
  EXPECT_NE(error([](std::string& s) { s.replace(20, 4, std::string("\x00\x00\xc0\x7f", 4)); }).find("not finite"),
            std::string::npos);

  write_kv_file(path, a);
  write_kv_file(folder.path + "/v.bin", noise(3, 6, 8, 9));
  EXPECT_THROW(read_kv_pair(path + "," + folder.path + "/v.bin"), Error);
  EXPECT_EQ(read_kv_pair(path).values.heads, 0);
}

TEST(Capture, TakesWhatTheCacheGetsWhateverTheChunks) {
  const Folder folder;
  CaptureOptions o;
  o.model = fixture::options("", 0).model;
  o.text = fixture::text_path();
  o.tokens = 600;  // two chunks
  o.threads = 2;
  const std::vector<KvPair> layers = capture(o, [] {});
  ASSERT_EQ(layers.size(), 4u);
  EXPECT_EQ(layers[3].keys.layer, 3);
  EXPECT_EQ(layers[0].keys.heads, 2);
  EXPECT_EQ(layers[0].keys.tokens, 600);
  EXPECT_EQ(layers[0].values.dim, 64);
  o.tokens = 100;
  const std::vector<KvPair> fewer = capture(o, [] {});
  for (std::size_t l = 0; l < 4; ++l)
    for (int h = 0; h < 2; ++h) {
      EXPECT_TRUE(std::equal(fewer[l].keys.head(h), fewer[l].keys.head(h) + 100 * 64, layers[l].keys.head(h)));
      EXPECT_TRUE(std::equal(fewer[l].values.head(h), fewer[l].values.head(h) + 100 * 64, layers[l].values.head(h)));
    }
  save_capture(folder.path + "/c", fewer);
  const KvPair back = read_kv_pair(folder.path + "/c_layer2_keys.bin," + folder.path + "/c_layer2_values.bin");
  EXPECT_EQ(back.keys.data, fewer[2].keys.data);
  EXPECT_EQ(back.values.data, fewer[2].values.data);
  o.tokens = 5000;
  EXPECT_THROW(capture(o, [] {}), Error);  // longer than the model's context
  o.tokens = 50;
  o.text = folder.path + "/short.txt";
  std::ofstream(o.text) << "It was a dark and stormy night.";
  EXPECT_THROW(capture(o, [] {}), Error);  // longer than the text
}

TEST(CodecTrial, SharedVectors) {
  // Keys and values of a real model, whose numbers a bf16 holds: nothing is lost.
  const std::string stem = kvasir::fixture::test_data("kv/qwen35_layer3_");
  if (!std::filesystem::exists(stem + "keys.bin")) GTEST_SKIP() << stem << "keys.bin is not here";
  const KvPair pair = read_kv_pair(stem + "keys.bin," + stem + "values.bin");
  EXPECT_EQ(pair.keys.tokens, 99);
  EXPECT_EQ(pair.keys.dim, 256);
  const CodecRow r = trial("bf16", pair);
  EXPECT_TRUE(std::isinf(r.k.db()));
  EXPECT_LT(r.output_relative_error(), 1e-5);
}

}  // namespace
}  // namespace kvasir::lab::eval
