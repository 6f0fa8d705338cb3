#include "client/hub.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.hpp"

namespace kvasir::client {
namespace {

std::vector<HubFile> files(std::initializer_list<const char*> paths) {
  std::vector<HubFile> out;
  for (const char* p : paths) out.push_back({.path = p});
  return out;
}

std::string chosen(std::span<const HubFile> all, const char* name) {
  try {
    std::string text;
    for (const HubFile& f : choose_files(all, parse_hub_name(name))) text += (text.empty() ? "" : " ") + f.path;
    return text;
  } catch (const Error& e) {
    return e.what();
  }
}

TEST(Hub, Names) {
  const HubName plain = parse_hub_name("hf:Qwen/Qwen3-8B-GGUF");
  EXPECT_EQ(plain.owner + " " + plain.repo + " " + plain.quant, "Qwen Qwen3-8B-GGUF ");
  EXPECT_EQ(parse_hub_name("hf:a/b:q4_k_m").quant, "q4_k_m");
  EXPECT_EQ(parse_hub_name("hf:a/b/c/d.gguf").file, "c/d.gguf");
  for (const char* name : {"hf:a/b", "hf:a/b:Q8_0", "hf:a/b/c.gguf"}) EXPECT_EQ(parse_hub_name(name).text(), name);
  for (const char* bad : {"hf:", "hf:a", "hf:a/", "hf:/b", "hf:a/b:", "hf:a/b/", "hf:../b", "hf:a/..",
                          "hf:a/b/../c.gguf", "hf:a/b/c.bin", "hf:a/b:x/y", "hf:a?/b", "a/b", "hf:a/b\n"})
    EXPECT_THROW(parse_hub_name(bad), Error) << bad;
  EXPECT_FALSE(is_hub_name("models/hf.gguf"));
}

TEST(Hub, NextPages) {
  const std::string hub = "https://hub.example";
  const auto next = [&](const char* link) { return next_page(link, hub); };
  EXPECT_EQ(next("<https://hub.example/api/x?cursor=a%3D>; rel=\"next\""), hub + "/api/x?cursor=a%3D");
  EXPECT_EQ(next("<https://hub.example/1>; rel=\"prev\", </2>; rel=next\r\n"), hub + "/2");
  for (const char* none : {"", "<https://hub.example/1>; rel=\"last\"", "<x", "x>; rel=next"})
    EXPECT_EQ(next(none), "");
  // These would be given the token.
  for (const char* other : {"<https://other/2>; rel=next", "<https://hub.example.org/2>; rel=next",
                            "<//other/2>; rel=next", "<https://hub.example/a b>; rel=next"})
    EXPECT_THROW(next(other), Error) << other;
}

TEST(Hub, Quants) {
  EXPECT_EQ(quant_of("Qwen3-8B-Q4_K_M.gguf"), "Q4_K_M");
  EXPECT_EQ(quant_of("qwen2.5-0.5b-instruct-q8_0.gguf"), "Q8_0");
  EXPECT_EQ(quant_of("x/model.IQ4_XS.gguf"), "IQ4_XS");
  EXPECT_EQ(quant_of("m-UD-Q2_K_XL-00001-of-00003.gguf"), "UD-Q2_K_XL");
  EXPECT_EQ(quant_of("BF16/m-BF16.gguf"), "BF16");
  EXPECT_EQ(quant_of("gpt-oss-20b-mxfp4.gguf"), "MXFP4");
  EXPECT_EQ(quant_of("Qwen3-8B.gguf"), "");
  EXPECT_EQ(quant_of("tiny.gguf"), "");
}

TEST(Hub, Choices) {
  const auto all = files({"README.md", "m-F16.gguf", "m-Q4_K_M.gguf", "m-Q8_0.gguf", "mmproj-m-F16.gguf",
                          "m-Q6_K-00002-of-00002.gguf", "m-Q6_K-00001-of-00002.gguf", "m-IQ2_M-00001-of-00002.gguf"});
  EXPECT_EQ(chosen(all, "hf:a/b"), "m-Q4_K_M.gguf");
  EXPECT_EQ(chosen(all, "hf:a/b:q8_0"), "m-Q8_0.gguf");
  EXPECT_EQ(chosen(all, "hf:a/b:F16"), "m-F16.gguf");
  EXPECT_EQ(chosen(all, "hf:a/b:Q6_K"), "m-Q6_K-00001-of-00002.gguf m-Q6_K-00002-of-00002.gguf");
  EXPECT_EQ(chosen(all, "hf:a/b/m-F16.gguf"), "m-F16.gguf");
  EXPECT_EQ(chosen(all, "hf:a/b:Q5_K_M"), "hf:a/b:Q5_K_M: is not there; there is F16, IQ2_M, Q4_K_M, Q6_K, Q8_0");
  EXPECT_EQ(chosen(all, "hf:a/b:IQ2_M"), "hf:a/b:IQ2_M: has only some of the parts of m-IQ2_M-00001-of-00002.gguf");
  EXPECT_EQ(chosen(files({"README.md"}), "hf:a/b"), "hf:a/b: has no GGUF files");
  EXPECT_EQ(chosen(files({"tiny.gguf"}), "hf:a/b"), "tiny.gguf");
  EXPECT_EQ(chosen(files({"one.gguf", "two.gguf"}), "hf:a/b"), "hf:a/b: name one of its 2 files");
  // The plain one before one for something else.
  EXPECT_EQ(chosen(files({"m-Q4_K_M.gguf", "m-assistant-Q4_K_M.gguf"}), "hf:a/b"), "m-Q4_K_M.gguf");
}

TEST(Hub, Listings) {
  const auto list = parse_listing(R"([{"type": "directory", "path": "d"},
      {"type": "file", "path": "d/a.gguf", "size": 130, "lfs": {"oid": ")" +
                                      std::string(64, 'a') + R"(", "size": 5000000000}},
      {"type": "file", "path": "../b.gguf", "size": 1}, {"type": "file", "path": "/etc/c.gguf", "size": 1},
      {"type": "file", "path": "x\u0000.gguf"}, {"type": "file", "path": 3}, 7,
      {"type": "file", "path": "e.gguf", "size": -1, "lfs": {"oid": "zz"}}])",
                                  "url");
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].path, "d/a.gguf");
  EXPECT_EQ(list[0].size, 5000000000u);
  EXPECT_EQ(list[0].sha256, std::string(64, 'a'));
  EXPECT_EQ(list[1].sha256 + std::to_string(list[1].size), "0");
  for (const char* bad : {"", "{}", "{\"error\": \"x\"}", "[", "null"}) EXPECT_THROW(parse_listing(bad, "url"), Error);
}

TEST(Hub, ModelsOfAFolder) {
  const std::string folder = testing::TempDir() + "hub_test_models";
  std::filesystem::remove_all(folder);
  EXPECT_TRUE(list_models(folder).empty());
  const auto put = [&](const std::string& path) {
    std::filesystem::create_directories(std::filesystem::path(folder + "/" + path).parent_path());
    std::ofstream(folder + "/" + path) << "12345";
  };
  put("a/b/m-Q8_0.gguf");
  put("a/b/m-Q4_K_M.gguf.0123456789ab.part");
  put("a/c/x/n-Q6_K-00001-of-00003.gguf");
  put("a/c/x/n-Q6_K-00002-of-00003.gguf");
  put("a/d/plain.gguf");
  put("a/d/README.md");
  const auto all = list_models(folder);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].name, "hf:a/b:Q4_K_M");
  EXPECT_TRUE(all[0].partly);
  EXPECT_EQ(all[1].name, "hf:a/b:Q8_0");
  EXPECT_TRUE(all[1].whole());
  EXPECT_EQ(all[2].name, "hf:a/c:Q6_K");
  EXPECT_EQ(all[2].missing_parts, 1);
  EXPECT_EQ(all[2].bytes, 10u);
  EXPECT_EQ(all[3].name, "hf:a/d/plain.gguf");
  EXPECT_EQ(find_model(parse_hub_name("hf:a/b"), folder), folder + "/a/b/m-Q8_0.gguf");
  EXPECT_EQ(find_model(parse_hub_name("hf:a/b:Q4_K_M"), folder), std::nullopt);
  EXPECT_EQ(find_model(parse_hub_name("hf:a/c:Q6_K"), folder), std::nullopt);
  EXPECT_EQ(find_model(parse_hub_name("hf:a/d"), folder), folder + "/a/d/plain.gguf");
  EXPECT_EQ(find_model(parse_hub_name("hf:x/y"), folder), std::nullopt);
  std::filesystem::remove_all(folder);
}

TEST(Hub, OptionsOfTheEnvironment) {
  const auto with = [](const char* name, const char* value) { value ? ::setenv(name, value, 1) : ::unsetenv(name); };
  with("HF_ENDPOINT", "http://127.0.0.1:9/");
  with("HF_TOKEN", " hf_x\n");
  with("KVASIR_MODELS", "/m");
  const HubOptions o = hub_options();
  EXPECT_EQ(o.endpoint, "http://127.0.0.1:9");
  EXPECT_EQ(o.token, "hf_x");
  EXPECT_EQ(o.folder, "/m");
  with("HF_TOKEN", "a\nb");
  EXPECT_THROW(hub_options(), Error);
  with("HF_TOKEN", nullptr);
  with("HF_ENDPOINT", "ftp://x");
  EXPECT_THROW(hub_options(), Error);
  with("HF_ENDPOINT", nullptr);
  with("KVASIR_MODELS", nullptr);
  EXPECT_EQ(hub_options().endpoint, "https://huggingface.co");
}

}  // namespace
}  // namespace kvasir::client
