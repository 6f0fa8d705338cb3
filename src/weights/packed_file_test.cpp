#include "weights/packed_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace kvasir::weights {
namespace {

namespace fs = std::filesystem;

class PackedFiles : public ::testing::Test {
 protected:
  PackedFiles() : path_((fs::temp_directory_path() / ("kvasir-packed-" + std::to_string(::getpid()))).string()) {
    write();
  }
  ~PackedFiles() override { fs::remove(path_); }
  void write() {
    write_packed_file(path_, print_, sizes_, [&](int block, std::span<std::byte> to) {
      for (std::int64_t i = 0; i < sizes_[static_cast<std::size_t>(block)]; ++i)
        to[static_cast<std::size_t>(i)] = at(block, i);
    });
  }
  static std::byte at(int block, std::int64_t i) { return static_cast<std::byte>(31 * block + i % 251 + i / 1000); }
  std::string error(const PackedFingerprint& print, const std::vector<std::int64_t>& sizes) const {
    try {
      const PackedFile file(path_, print, sizes);
      check_blocks(file, MappedFile(path_).bytes());
      return "";
    } catch (const Error& e) {
      EXPECT_EQ(e.context(), path_);
      EXPECT_EQ(e.code(), Code::kBadInput);
      return e.message();
    }
  }
  void patch(std::int64_t at, char mask) const {
    std::fstream f(path_, std::ios::in | std::ios::out | std::ios::binary);
    f.seekg(at);
    const char c = static_cast<char>(f.get() ^ mask);
    f.seekp(at);
    f.put(c);
  }

  const std::string path_;
  const std::vector<std::int64_t> sizes_{100, 3 * kPieceBytes + 5, 4096};
  const PackedFingerprint print_ = packed_fingerprint("a model");
};

TEST_F(PackedFiles, HasItsBlocksAtWholePages) {
  const PackedFile file(path_, print_, sizes_);
  const MappedFile mapped(path_);
  check_blocks(file, mapped.bytes());
  EXPECT_EQ(file.layout().count(), 3);
  for (int b = 0; b < 3; ++b) {
    const auto i = static_cast<std::size_t>(b);
    EXPECT_EQ(file.layout().at[i] % kBlockAlign, 0);
    EXPECT_EQ(file.layout().bytes[i] % kBlockAlign, 0);
    for (std::int64_t k = 0; k < file.layout().bytes[i]; k += 61)
      ASSERT_EQ(mapped.bytes()[static_cast<std::size_t>(file.layout().at[i] + k)],
                k < sizes_[i] ? at(b, k) : std::byte{0});
  }
}

TEST_F(PackedFiles, OfAnotherModelOrShapeIsRefused) {
  EXPECT_EQ(error(print_, sizes_), "");
  EXPECT_NE(error(packed_fingerprint("another"), sizes_).find("another model"), std::string::npos);
  EXPECT_NE(error(print_, {100, 3 * kPieceBytes + 5}), "");
  EXPECT_NE(error(print_, {100, 3 * kPieceBytes + 5, 8192}), "");
}

TEST_F(PackedFiles, DamageAnywhereIsFound) {
  const PackedLayout layout(sizes_);
  for (const std::int64_t at : {std::int64_t{0}, std::int64_t{9}, std::int64_t{13}, std::int64_t{20}, std::int64_t{33},
                                std::int64_t{41}, std::int64_t{50}, std::int64_t{57}, std::int64_t{66},
                                std::int64_t{90}, layout.at[0], layout.at[1] + kPieceBytes, layout.end - 1}) {
    patch(at, 0x10);
    const std::string message = error(print_, sizes_);
    EXPECT_NE(message, "") << at;
    patch(at, 0x10);
    EXPECT_EQ(error(print_, sizes_), "") << at;
  }
}

TEST_F(PackedFiles, CutOffAnywhereIsFound) {
  const auto whole = static_cast<std::int64_t>(fs::file_size(path_));
  for (const std::int64_t bytes :
       {std::int64_t{0}, std::int64_t{10}, std::int64_t{64}, std::int64_t{80}, whole - 1, whole + 1}) {
    fs::resize_file(path_, static_cast<std::uintmax_t>(bytes));
    EXPECT_THROW(PackedFile(path_, print_, sizes_), Error) << bytes;
    write();
  }
}

TEST_F(PackedFiles, IsThereWholeOrNotAtAll) {
  fs::remove(path_);
  EXPECT_THROW(write_packed_file(path_, print_, sizes_,
                                 [&](int block, std::span<std::byte>) {
                                   if (block == 1) throw Error(Code::kBadInput, "no", "x");
                                 }),
               Error);
  const fs::path folder = fs::path(path_).parent_path();
  for (const auto& entry : fs::directory_iterator(folder))
    EXPECT_FALSE(entry.path().string().starts_with(path_)) << entry.path();
  try {
    write_packed_file("/nowhere/at/all", print_, sizes_, [](int, std::span<std::byte>) {});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kIo);
    EXPECT_EQ(e.context(), "/nowhere/at/all");
  }
}

}  // namespace
}  // namespace kvasir::weights
