// Model files that are cut, changed or none: an error that names the file, or a correct run.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/rss.hpp"
#include "robustness_fixture.hpp"

namespace kvasir {
namespace {

namespace fs = std::filesystem;
using namespace testing;

TEST(BrokenFiles, FilesTruncatedAtEvery4KB) {
  const TemporaryPath copy("truncated.gguf");
  fs::copy_file(kBooks, copy.path);
  const auto size = static_cast<std::int64_t>(fs::file_size(copy.path));
  int cases = 0;
  for (std::int64_t at = (size - 1) / 4096 * 4096; at >= 0; at -= 4096, ++cases) {
    ASSERT_EQ(::truncate(copy.path.c_str(), at), 0);
    within(1, std::to_string(at), [&] {
      const std::string error = try_step(small(copy.path));
      EXPECT_TRUE(error.find("truncated?") != std::string::npos || error.find(" fit into the ") != std::string::npos ||
                  (at == 0 && error.find("is empty") != std::string::npos))
          << at << ": " << error;
      EXPECT_NE(error.find(copy.path), std::string::npos);
    });
  }
  EXPECT_GT(cases, 1800);
}

TEST(BrokenFiles, FilesTruncatedAnywhereInASmallModel) {
  const TemporaryPath path("short.gguf");
  tiny_file(path);
  const auto size = static_cast<std::int64_t>(fs::file_size(path.path));
  for (std::int64_t at = size - 32; at >= 0; at -= at > 16000 ? 509 : 3) {
    ASSERT_EQ(::truncate(path.path.c_str(), at), 0);
    EXPECT_NE(try_step(small(path.path)), "") << at;
  }
}

// Flips bytes of `path` at `places` with each mask and runs a step. The file is as before at the end.
void flip(const std::string& path, const std::vector<std::size_t>& places, const std::vector<int>& masks) {
  const std::string bytes = read_text_file(path);
  reset_peak_rss();
  const std::uint64_t before = process_rss().current;
  int ran = 0, refused = 0;
  for (const std::size_t at : places)
    for (const int mask : masks) {
      patch(path, at, static_cast<char>(bytes[at] ^ mask));
      bool worked = false;
      within(1, fmt::format("byte {} ^ {}", at, mask), [&] { try_step(small(path), &worked); });
      ++(worked ? ran : refused);
      patch(path, at, bytes[at]);
    }
  std::printf("%zu bytes flipped: %d ran, %d refused\n", places.size(), ran, refused);
  EXPECT_GT(ran, 0);
  EXPECT_GT(refused, 0);
  if (!kSanitized) {
    EXPECT_LT(process_rss().peak, before + (200u << 20));
  }
}

TEST(BrokenFiles, EveryHeaderByteFlippedInASmallModel) {
  const TemporaryPath path("flipped.gguf");
  tiny_file(path);
  const std::size_t header = TinyModel().header().encode().size();
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < header; i += kSanitized ? 7 : 1) places.push_back(i);
  flip(path.path, places, {0x01, 0x80, 0xff});
}

TEST(BrokenFiles, HeaderBytesFlippedInTheBundledModel) {
  const TemporaryPath copy("flipped-books.gguf");
  fs::copy_file(kBooks, copy.path);
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < 65536; i += i < 400 ? 3 : (kSanitized ? 2111 : 331)) places.push_back(i);
  flip(copy.path, places, {0xff});
}

TEST(BrokenFiles, WhatIsNoModelFile) {
  const TemporaryPath path("nothing");
  const auto run = [&](const std::string& model) { return std::vector<std::string>{"run", "-m", model, "-p", "x"}; };
  expect_error(run(path.path), 1, {path.path, "cannot open", "No such file"});
  expect_error(run("/tmp"), 2, {"/tmp", "not a regular file"});
  write_bytes(path.path, "");
  expect_error(run(path.path), 2, {path.path, "empty"});
  write_bytes(path.path, "It was the best of times, it was the worst of times");
  expect_error(run(path.path), 2, {path.path, "no model file", "It was t"});
  write_bytes(path.path, "GGUF");
  expect_error(run(path.path), 2, {path.path, "version", "truncated?"});
  expect_error(run("/dev/null"), 2, {"/dev/null", "not a regular file"});
  expect_error({"run", "-p", "x"}, 2, {"--model"});
}

}  // namespace
}  // namespace kvasir
