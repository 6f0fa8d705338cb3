#include "kv/page_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <vector>

#include "base/error.hpp"
#include "kv/page_file_fixture.hpp"

namespace kvasir::kv {
namespace {

class PageFiles : public ::testing::TestWithParam<Reading> {
 protected:
  std::string folder_ = testing::TempDir();
};

std::byte byte_at(std::uint64_t i) { return static_cast<std::byte>((i * 2654435761u) >> 13); }

TEST_P(PageFiles, ManyPiecesAreReadAtOnce) {
  constexpr std::uint64_t kBytes = 3 << 20;
  const auto file = make_page_file(folder_, kBytes, GetParam());
  std::vector<std::byte> all(kBytes);
  for (std::uint64_t i = 0; i < kBytes; ++i) all[i] = byte_at(i);
  file->write(0, std::span(all).first(1 << 20));
  file->write(1 << 20, std::span(all).subspan(1 << 20));
  for (const std::size_t count : {0u, 1u, 2u, 127u, 128u, 700u}) {
    std::vector<std::vector<std::byte>> to(count);
    std::vector<FilePiece> pieces;
    for (std::size_t i = 0; i < count; ++i) {
      to[i].resize(1 + (i * 977) % 20000);
      pieces.push_back({(i * 7919 * 13) % (kBytes - to[i].size()), to[i].data(), to[i].size()});
    }
    file->read(pieces);
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_EQ(std::memcmp(to[i].data(), all.data() + pieces[i].at, to[i].size()), 0) << i << " of " << count;
  }
  EXPECT_STREQ(file->how(), GetParam() == Reading::kPlain ? "pread" : file->how());
}

TEST_P(PageFiles, AFileThatEndsTooEarlyIsNamed) {
  const auto file = make_page_file(folder_, 1 << 16, GetParam());
  fixture::cut_page_files(folder_, 20000);
  std::vector<std::byte> to(300 * 4096);
  std::vector<FilePiece> pieces;
  for (std::uint64_t i = 0; i < 300; ++i) pieces.push_back({i * 200, to.data() + i * 4096, 4096});
  for (int again = 0; again < 2; ++again) {
    try {
      file->read(pieces);
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kIo);
      EXPECT_NE(std::string(e.what()).find(folder_), std::string::npos);
      EXPECT_NE(std::string(e.what()).find("the file ends there"), std::string::npos) << e.what();
    }
  }
  file->read(std::span(pieces).first(10));  // it works on
  file->write(16000, std::span(to).first(4096));
}

TEST_P(PageFiles, NothingIsLeftBehind) {
  const std::string folder = folder_ + "/page-files-" + std::to_string(getpid());
  std::filesystem::create_directory(folder);
  {
    const auto file = make_page_file(folder, 4096, GetParam());
    EXPECT_TRUE(std::filesystem::is_empty(folder));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  std::filesystem::remove(folder);
}

TEST_P(PageFiles, WhatCannotBeIsSaid) {
  try {
    make_page_file(folder_ + "/is/not/there", 4096, GetParam());
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kBadInput);
    EXPECT_NE(std::string(e.what()).find("is/not/there"), std::string::npos);
  }
  try {
    make_page_file(folder_, std::uint64_t{1} << 62, GetParam());
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kIo);
    EXPECT_NE(std::string(e.what()).find("cannot be reserved"), std::string::npos) << e.what();
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, PageFiles, testing::Values(Reading::kBest, Reading::kPlain),
                         [](const auto& way) { return way.param == Reading::kBest ? "Best" : "Plain"; });

}  // namespace
}  // namespace kvasir::kv
