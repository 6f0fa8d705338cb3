#include "weights/gguf.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/file.hpp"
#include "weights/format.hpp"
#include "weights/gguf_fixture.hpp"

namespace kvasir::weights {
namespace {

namespace fs = std::filesystem;

template <class T>
void patch(Bytes& file, std::size_t at, T value) {
  ASSERT_LE(at + sizeof value, file.size());
  std::memcpy(file.data() + at, &value, sizeof value);
}

// Position behind the first occurrence of a string with its length before it.
std::size_t behind(const Bytes& file, const std::string& name) {
  std::string needle(8, '\0');
  const std::uint64_t n = name.size();
  std::memcpy(needle.data(), &n, 8);
  needle += name;
  const std::string_view all(reinterpret_cast<const char*>(file.data()), file.size());
  const std::size_t at = all.find(needle);
  EXPECT_NE(at, std::string_view::npos) << name;
  return at + needle.size();
}

fs::path temporary(const std::string& name) {
  return fs::temp_directory_path() / fmt::format("{}{}", ::getpid(), name);
}

TEST(Gguf, ReadsWhatWasWritten) {
  const Bytes file = whole(small_header());
  const GgufContents c = parse_gguf(file, "x.gguf");
  const Metadata& m = c.metadata;
  EXPECT_EQ(c.version, 3u);
  EXPECT_EQ(m.require_string("general.architecture"), "llama");
  EXPECT_EQ(std::get<std::int64_t>(*m.find("llama.block_count")), 2);
  EXPECT_FLOAT_EQ(std::get<double>(*m.find("llama.epsilon")), 1e-5f);
  EXPECT_TRUE(std::get<bool>(*m.find("flag")));
  EXPECT_EQ(std::get<std::int64_t>(*m.find("i8")), -8);
  EXPECT_EQ(std::get<std::int64_t>(*m.find("u8")), 200);
  EXPECT_EQ(std::get<std::int64_t>(*m.find("i16")), -1600);
  EXPECT_EQ(std::get<std::int64_t>(*m.find("u16")), 65000);
  EXPECT_EQ(std::get<std::int64_t>(*m.find("i32")), -3);
  EXPECT_EQ(std::get<std::int64_t>(*m.find("i64")), -(std::int64_t{1} << 40));
  EXPECT_EQ(std::get<std::uint64_t>(*m.find("u64")), ~std::uint64_t{0});
  EXPECT_EQ(std::get<double>(*m.find("f64")), 0.1);
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(*m.find("types")), (std::vector<std::int64_t>{1, -2, 3}));
  EXPECT_EQ(std::get<std::vector<double>>(*m.find("scores")), (std::vector<double>{0.5, -1}));
  EXPECT_EQ(std::get<std::vector<bool>>(*m.find("flags")), (std::vector<bool>{true, false}));
  EXPECT_EQ(std::get<std::vector<std::string>>(*m.find("tokens")), (std::vector<std::string>{"a", "", "ccc"}));
  EXPECT_EQ(m.all().size(), 16u);

  ASSERT_EQ(c.tensors.size(), 4u);
  EXPECT_EQ(c.tensors[1].name, "b.weight");
  EXPECT_EQ(c.tensors[1].quant, "q4_0");
  EXPECT_EQ(c.tensors[1].shape, (std::array<std::int64_t, 4>{64, 7, 2, 1}));
  EXPECT_EQ(c.tensors[1].rank, 3);
  EXPECT_EQ(c.tensors[1].bytes.size(), 2u * 18 * 14);
  EXPECT_EQ(c.tensors[2].bytes.size(), 144u);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_TRUE(std::all_of(c.tensors[i].bytes.begin(), c.tensors[i].bytes.end(),
                            [&](std::byte b) { return b == static_cast<std::byte>(i + 1); }));
}

TEST(Gguf, ReadsVersion2AndOtherAlignments) {
  Bytes file = whole(small_header());
  patch(file, 4, std::uint32_t{2});
  EXPECT_EQ(parse_gguf(file, "x").version, 2u);
  GgufHeader h(4096);
  h.add_tensor("t", "f16", std::vector<std::int64_t>{10});
  h.add_tensor("u", "f16", std::vector<std::int64_t>{10});
  const Bytes wide = whole(h);
  const GgufContents c = parse_gguf(wide, "x");
  EXPECT_EQ(c.alignment, 4096u);
  EXPECT_EQ(c.tensors[1].bytes.data() - wide.data(), 8192);
  const Bytes none = GgufHeader().encode();
  EXPECT_TRUE(parse_gguf(none, "x").tensors.empty());
}

TEST(Gguf, OpensThroughTheRegistry) {
  const fs::path path = temporary("registry.gguf");
  const GgufHeader h = small_header();
  {
    GgufWriter w(path.string(), h);
    for (std::size_t i = 0; i < h.sizes().size(); ++i) {
      const Bytes data(h.sizes()[i], static_cast<std::byte>(i + 1));
      w.write(std::span(data).first(data.size() / 3));
      w.write(std::span(data).subspan(data.size() / 3));
    }
    EXPECT_FALSE(fs::exists(path));
    w.finish();
    EXPECT_EQ(w.bytes_written(), fs::file_size(path));
  }
  const std::string text = read_text_file(path.string());
  const Bytes expected = whole(h);
  ASSERT_EQ(text.size(), expected.size());
  EXPECT_EQ(std::memcmp(text.data(), expected.data(), text.size()), 0);
  const auto model = open_model_file(path.string());
  ASSERT_NE(model->find("d.weight"), nullptr);
  EXPECT_EQ(model->find("d.weight")->rows(), 6);
  EXPECT_EQ(model->find("e.weight"), nullptr);
  EXPECT_EQ(model->tensors().size(), 4u);
  const std::byte before = model->find("b.weight")->bytes[0];
  model->drop(model->find("b.weight")->bytes);
  EXPECT_EQ(model->find("b.weight")->bytes[0], before);
  fs::remove(path);
}

TEST(Gguf, AnUnfinishedFileLeavesNothing) {
  const fs::path path = temporary("unfinished.gguf");
  { GgufWriter w(path.string(), small_header()); }
  EXPECT_FALSE(fs::exists(path));
  EXPECT_FALSE(fs::exists(path.string() + ".partial." + std::to_string(::getpid())));
  EXPECT_THROW(GgufWriter("/nonexistent/folder/x.gguf", small_header()), Error);
}

TEST(Gguf, RefusesWhatIsNoModelFile) {
  const fs::path path = temporary("zip.gguf");
  const std::string zip = "PK\x03\x04 something";
  write_file(path.string(), std::as_bytes(std::span(zip)));
  try {
    open_model_file(path.string());
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kBadInput);
    EXPECT_EQ(e.message(),
              "no model file: it starts with 'PK\\x03\\x04 som'; expected one of the formats " + names(formats()));
    EXPECT_EQ(e.context(), path.string());
  }
  fs::remove(path);
}

TEST(Gguf, RefusesAFolderThatIsNoModel) {
  try {
    open_model_file(fs::temp_directory_path().string());
    ADD_FAILURE();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kBadInput);
    EXPECT_EQ(e.message(), "not a regular file, and no folder of one of the formats " + names(formats()));
  }
}

TEST(Gguf, HeaderFaults) {
  const Bytes good = whole(small_header());
  Bytes file = good;
  patch(file, 4, std::uint32_t{0x03000000});
  EXPECT_EQ(error_of(file), "header: a big-endian GGUF file; only little-endian ones can be read");
  patch(file, 4, std::uint32_t{1});
  EXPECT_EQ(error_of(file), "header: GGUF version 1; versions 2 and 3 can be read");
  for (const std::uint64_t count :
       {~std::uint64_t{0}, std::uint64_t{1} << 63, std::uint64_t{1} << 32, std::uint64_t{100000}}) {
    file = good;
    patch(file, 8, count);
    EXPECT_NE(error_of(file).find("tensors do not fit"), std::string::npos);
    file = good;
    patch(file, 16, count);
    EXPECT_NE(error_of(file).find("metadata keys do not fit"), std::string::npos);
  }
}

TEST(Gguf, MetadataFaults) {
  const Bytes good = whole(small_header());
  const auto broken = [&](const std::string& key, std::size_t offset, auto value) {
    Bytes file = good;
    patch(file, behind(file, key) + offset, value);
    return error_of(file);
  };
  EXPECT_EQ(broken("i32", 0, std::uint32_t{13}),
            "metadata key 'i32' (9 of 16): value type 13 is unknown; expected 0 (u8) to 12 (f64)");
  EXPECT_EQ(broken("flag", 4, std::uint8_t{2}),
            "metadata key 'flag' (4 of 16): a bool has the value 2; expected 0 or 1");
  EXPECT_EQ(broken("flags", 17, std::uint8_t{9}),
            "metadata key 'flags' (15 of 16): element 1 of a bool array is 9; expected 0 or 1");
  EXPECT_NE(broken("types", 4, std::uint32_t{9}).find("array of arrays"), std::string::npos);
  EXPECT_NE(broken("types", 8, ~std::uint64_t{0}).find("does not fit"), std::string::npos);
  EXPECT_NE(broken("types", 8, std::uint64_t{1} << 62).find("does not fit"), std::string::npos);
  EXPECT_NE(broken("general.architecture", 4, ~std::uint64_t{0}).find("truncated?"), std::string::npos);
  EXPECT_NE(broken("general.architecture", 4, std::uint64_t{1} << 40).find("'general.architecture'"),
            std::string::npos);

  GgufHeader h;
  h.set<std::uint32_t>("twice", 1);
  h.set<std::uint32_t>("twice", 1);
  h.set<float>("general.alignment", 32.f);
  EXPECT_EQ(error_of(whole(h)),
            "2 faults:\n  metadata key 'twice' (2 of 3): the key occurs twice\n"
            "  metadata key 'general.alignment': not an integer");
  for (const std::uint32_t alignment : {0u, 1u, 4u, 24u, 33u, 0x80000000u}) {
    GgufHeader a;
    a.set<std::uint32_t>("general.alignment", alignment);
    EXPECT_NE(error_of(whole(a)).find("expected a power of two"), std::string::npos) << alignment;
  }
  GgufHeader big;
  big.set_array<std::uint64_t>("big", std::vector<std::uint64_t>{1, ~std::uint64_t{0}});
  EXPECT_NE(error_of(whole(big)).find("above the range of int64"), std::string::npos);
  GgufHeader control;
  control.set_string("a\x1b[2J\n", "x");
  Bytes file = whole(control);
  file.resize(24 + 8 + 6 + 4 + 8);
  EXPECT_NE(error_of(file).find("'a\\x1b[2J\\x0a'"), std::string::npos);
}

TEST(Gguf, TypesHaveTheNumbersOfGgml) {
  const struct {
    const char* quant;
    std::uint32_t type, file_type;
  } known[] = {{"f32", 0, 0},    {"f16", 1, 1},      {"q4_0", 2, 2},     {"q4_1", 3, 3},
               {"q5_0", 6, 8},   {"q5_1", 7, 9},     {"q8_0", 8, 7},     {"q2_k", 10, 10},
               {"q3_k", 11, 12}, {"q4_k", 12, 15},   {"q5_k", 13, 17},   {"q6_k", 14, 18},
               {"bf16", 30, 32}, {"iq4_nl", 20, 25}, {"iq4_xs", 23, 30}, {"mxfp4", 39, 38}};
  for (const auto& k : known) {
    const auto type = find_block_type(k.quant);
    ASSERT_TRUE(type) << k.quant;
    EXPECT_EQ(type->ggml_type, k.type) << k.quant;
    EXPECT_EQ(find_block_type(k.type).value().quant, k.quant);
    EXPECT_EQ(gguf_file_type(k.quant), k.file_type) << k.quant;
  }
  EXPECT_EQ(ggml_type_name(12), "Q4_K");
  EXPECT_EQ(ggml_type_name(9), "Q8_1");  // no entry, but a name
  EXPECT_FALSE(find_block_type(9));
  EXPECT_EQ(ggml_type_name(99), "");
  EXPECT_FALSE(find_block_type("a type of another format"));
  EXPECT_FALSE(gguf_file_type("a type of another format"));
}

TEST(Gguf, AnUnknownTypeIsSaidToBeUnknown) {
  Bytes file = whole(small_header());
  patch(file, behind(file, "b.weight") + 4 + 24, std::uint32_t{99});
  EXPECT_NE(error_of(file).find("weight type 99 is unknown; supported are "), std::string::npos) << error_of(file);
}

TEST(Gguf, TensorFaultsAreReportedTogether) {
  Bytes file = whole(small_header());
  patch(file, behind(file, "a.weight"), std::uint32_t{5});  // rank: the rest of the file moves
  EXPECT_NE(error_of(file).find("tensor 'a.weight' (1 of 4): rank 5; expected 1 to 4"), std::string::npos);
  file = whole(small_header());
  patch(file, behind(file, "a.weight") + 4, std::uint64_t{0});         // columns
  patch(file, behind(file, "b.weight") + 4 + 24, std::uint32_t{9});    // type
  patch(file, behind(file, "c.weight") + 4, std::uint64_t{255});       // columns
  patch(file, behind(file, "d.weight") + 40, std::uint64_t{1} << 60);  // offset
  EXPECT_EQ(
      error_of(file),
      "4 faults:\n"
      "  tensor 'a.weight' (1 of 4): dimension 0 is 0; expected 1 to 2^63 - 1\n"
      "  tensor 'b.weight' (2 of 4): weight type Q8_1 (9) is known but not supported; supported are " +
          block_type_names() +
          "\n"
          "  tensor 'c.weight' (3 of 4): rows of 255 elements; expected a multiple of the block of q4_k, 256\n"
          "  tensor 'd.weight' (4 of 4): 192 bytes at offset 1152921504606846976 end beyond the 928 bytes of tensor "
          "data in the file (truncated?)");
}

TEST(Gguf, TensorGeometry) {
  const Bytes good = whole(small_header());
  const auto broken = [&](std::size_t offset, std::uint64_t value) {
    Bytes file = good;
    patch(file, behind(file, "d.weight") + offset, value);
    return error_of(file);
  };
  EXPECT_NE(broken(4, std::uint64_t{1} << 62).find("above 2^63"), std::string::npos);  // 2^62 * 6 elements
  EXPECT_NE(broken(4, (std::uint64_t{1} << 60)).find("size in bytes"),
            std::string::npos);  // 6 * 2^60 elements, 2 bytes each
  EXPECT_NE(broken(4, std::uint64_t{1} << 63).find("dimension 0 is"), std::string::npos);
  EXPECT_NE(broken(12, ~std::uint64_t{0}).find("dimension 1 is"), std::string::npos);
  EXPECT_NE(broken(40, ~std::uint64_t{0} - 31).find("beyond"), std::string::npos);
  EXPECT_NE(broken(40, 8).find("no multiple of the alignment"), std::string::npos);
  EXPECT_NE(broken(40, 64).find("overlap"), std::string::npos);
  EXPECT_EQ(broken(40, 736), "");  // where it is

  GgufHeader twice;
  twice.add_tensor("same", "f32", std::vector<std::int64_t>{4});
  twice.add_tensor("same", "f32", std::vector<std::int64_t>{4});
  EXPECT_EQ(error_of(whole(twice)), "tensor 'same' (2 of 2): the name occurs twice");
  GgufHeader many;
  for (int i = 0; i < 50; ++i) many.add_tensor(fmt::format("t{}", i), "f32", std::vector<std::int64_t>{1024});
  const std::string message = error_of(many.encode());  // no data at all
  EXPECT_EQ(message.rfind("50 faults:", 0), 0u) << message;
  EXPECT_NE(message.find("and 30 more"), std::string::npos);
}

TEST(Gguf, WriterRefusesBadTensors) {
  GgufHeader h;
  EXPECT_THROW(h.add_tensor("t", "q9_x", std::vector<std::int64_t>{32}), Error);
  EXPECT_THROW(h.add_tensor("t", "q4_0", std::vector<std::int64_t>{33}), Error);
  EXPECT_THROW(h.add_tensor("t", "f32", std::vector<std::int64_t>{}), Error);
  EXPECT_THROW(h.add_tensor("t", "f32", std::vector<std::int64_t>{1, 0}), Error);
  EXPECT_THROW(h.add_tensor("t", "f32", std::vector<std::int64_t>{std::int64_t{1} << 61, 4}), Error);
}

// The size of Llama 3's vocabulary. The bound is loose (sanitizers, busy machines); the figure is in the test's output.
TEST(Gguf, LargeVocabularyIsReadFast) {
  std::vector<std::string> tokens, merges;
  for (int i = 0; i < 128256; ++i) tokens.push_back(fmt::format("tok{}", i));
  for (int i = 0; i < 280147; ++i) merges.push_back(fmt::format("tok{} tok{}", i, i + 1));
  GgufHeader h;
  h.set_strings("tokenizer.ggml.tokens", tokens);
  h.set_strings("tokenizer.ggml.merges", merges);
  h.set_array<std::int32_t>("tokenizer.ggml.token_type", std::vector<std::int32_t>(tokens.size(), 1));
  const Bytes file = whole(h);
  const double start = thread_cpu_seconds();
  const GgufContents c = parse_gguf(file, "x");
  const double ms = 1e3 * (thread_cpu_seconds() - start);
  EXPECT_EQ(std::get<std::vector<std::string>>(*c.metadata.find("tokenizer.ggml.merges")), merges);
  RecordProperty("milliseconds", std::to_string(ms));
  std::printf("%zu strings in %.1f ms\n", tokens.size() + merges.size(), ms);
  EXPECT_LT(ms, 2000);
}

}  // namespace
}  // namespace kvasir::weights
