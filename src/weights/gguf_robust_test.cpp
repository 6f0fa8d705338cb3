// Broken GGUF files: errors, and nothing else.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <new>

#include "base/file.hpp"
#include "base/test_data_fixture.hpp"
#include "weights/gguf_fixture.hpp"
#include "weights/quant.hpp"

namespace {
std::size_t largest_allocation = 0;
}  // namespace

// Every allocation of this program is looked at: a count in a broken file must not become memory.
[[gnu::noinline]] void* operator new(std::size_t n) {
  largest_allocation = std::max(largest_allocation, n);
  if (void* p = std::malloc(n ? n : 1)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { std::free(p); }

namespace kvasir::weights {
namespace {

namespace fs = std::filesystem;

// Broken bytes may parse or throw Error; nothing else, no large allocation, and every tensor lies inside the file.
bool survives(std::span<const std::byte> bytes) {
  const Bytes file(bytes.begin(), bytes.end());  // exactly sized: ASan sees a read beyond its end
  largest_allocation = 0;
  unsigned sum = 0;
  bool valid = true;
  try {
    const GgufContents c = parse_gguf(file, "x.gguf");
    for (const TensorInfo& t : c.tensors) {
      EXPECT_GE(t.bytes.data(), file.data());
      EXPECT_LE(t.bytes.data() + t.bytes.size(), file.data() + file.size());
      for (const std::byte b : t.bytes) sum += std::to_integer<unsigned>(b);
    }
  } catch (const Error& e) {
    EXPECT_GT(e.message().size(), 10u);
    valid = false;
  }
  asm volatile("" : : "r"(sum));  // the reads stay
  EXPECT_LE(largest_allocation, 64 * file.size() + 65536);
  return valid;
}

std::string data_path(const std::string& name) { return fixture::test_data(name); }

TEST(GgufRobust, EveryTruncationOfAHeader) {
  const GgufHeader h = small_header();
  const Bytes file = whole(h);
  for (std::size_t n = 0; n < file.size(); ++n) EXPECT_FALSE(survives(std::span(file).first(n))) << n;
  EXPECT_TRUE(survives(file));  // the last tensor ends with the file, without padding
}

TEST(GgufRobust, EveryFlippedBit) {
  const GgufHeader h = small_header();
  Bytes file = whole(h);
  const std::size_t header = h.encode().size();
  for (std::size_t i = 0; i < header; ++i) {
    const std::byte was = file[i];
    for (int bit = 0; bit < 8; ++bit) {
      file[i] = was ^ static_cast<std::byte>(1 << bit);
      survives(file);
    }
    for (const int b : {0x00, 0xff, 0x7f, 0x80}) {
      file[i] = static_cast<std::byte>(b);
      survives(file);
    }
    file[i] = was;
  }
  EXPECT_TRUE(survives(file));
}

TEST(GgufRobust, TruncationsOfALongerFile) {
  GgufHeader h = small_header(3000);
  for (int i = 0; i < 20; ++i) h.add_tensor(fmt::format("x{}", i), "q8_0", std::vector<std::int64_t>{320, 11});
  const Bytes file = whole(h);
  const std::size_t header = h.encode().size();
  ASSERT_GT(header, 40000u);
  std::vector<std::size_t> cuts;
  for (std::size_t n = 0; n < file.size(); n += 4096) cuts.push_back(n);
  std::size_t at = header;
  for (const std::uint64_t size : h.sizes()) {
    for (const std::size_t n : {at - 1, at, at + 1, at + size - 1}) cuts.push_back(n);
    at = (at + size + 31) / 32 * 32;
  }
  for (const std::size_t n : cuts) EXPECT_FALSE(survives(std::span(file).first(n))) << n;
  EXPECT_TRUE(survives(file));
}

// Truncated and flipped real files: every 4 KB, and every byte of the header outside long arrays.
TEST(GgufRobust, GoldenFiles) {
  if (!fs::exists(data_path("golden"))) GTEST_SKIP() << data_path("") << " is not there";
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(data_path("golden"))) {
    if (entry.path().extension() != ".gguf") continue;
    SCOPED_TRACE(entry.path());
    const MappedFile file(entry.path().string());
    EXPECT_EQ(error_of(file.bytes()), "");
    ++files;
    const GgufContents c = parse_gguf(file.bytes(), "x");
    ASSERT_FALSE(c.tensors.empty());
    for (std::size_t n = 0; n < file.bytes().size(); n += 4096)
      EXPECT_FALSE(error_of(file.bytes().first(n)).empty()) << n;
    Bytes copy(file.bytes().begin(), file.bytes().end());
    const auto header = static_cast<std::size_t>(c.tensors[0].bytes.data() - file.bytes().data());
    for (std::size_t i = 0; i < std::min<std::size_t>(header, 16384); ++i) {
      copy[i] ^= std::byte{0xff};
      error_of(copy);
      copy[i] ^= std::byte{0xff};
    }
    EXPECT_EQ(error_of(copy), "");
  }
  EXPECT_GE(files, 16);
}

TEST(GgufRobust, RealVocabularies) {
  if (!fs::exists(data_path("vocab"))) GTEST_SKIP() << data_path("") << " is not there";
  for (const char* name : {"llama-bpe", "qwen2", "llama-spm", "gpt-2", "deepseek-llm"}) {
    const auto model = open_model_file(data_path("vocab/" + std::string(name) + ".gguf"));
    EXPECT_GT(std::get<std::vector<std::string>>(*model->metadata().find("tokenizer.ggml.tokens")).size(), 30000u);
  }
}

// What fuzzing found and where it started: replayed on every test run.
TEST(GgufRobust, Corpus) {
  int files = 0, valid = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(KVASIR_SOURCE_DIR) / "fuzz/corpus/gguf")) {
    const std::string text = read_text_file(entry.path().string());
    valid += survives(std::as_bytes(std::span(text)));
    ++files;
  }
  EXPECT_GE(files, 5);
  EXPECT_GE(valid, 3);
}

}  // namespace
}  // namespace kvasir::weights
