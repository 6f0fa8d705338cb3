#include "cli/yaml.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace kvasir::cli {
namespace {

std::string refusal(const std::string& text) {
  try {
    parse_yaml(text, "c.yaml");
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Yaml, ScalarsAreWhatTheyLookLike) {
  if (!reads_yaml()) {
    EXPECT_NE(refusal("a: 1").find("c.yaml: is YAML, which this build does not read"), std::string::npos);
    GTEST_SKIP() << "built without yaml-cpp";
  }
  const auto json = parse_yaml(
      "# KTransformers\nlong_context:\n  block_size: 128  # tokens\n  preselect_block: True\n  token_step: \n"
      "  kv_type: FP16\n  ratio: 1.5\n  list: [1, no, 'no', \"3\", ~]\nother: {a: -4}\n",
      "c.yaml");
  EXPECT_EQ(json, nlohmann::json::parse(R"({"long_context": {"block_size": 128, "preselect_block": true,
      "token_step": null, "kv_type": "FP16", "ratio": 1.5, "list": [1, false, "no", "3", null]}, "other": {"a": -4}})"));
  EXPECT_EQ(parse_yaml("", "c.yaml"), nullptr);
  EXPECT_EQ(refusal("a: [1, 2\nb: 3").find("c.yaml: not valid YAML: line "), 0u) << refusal("a: [1, 2\nb: 3");
}

// Aliases that double would fill memory.
TEST(Yaml, WhatGrowsWithoutBoundIsRefused) {
  if (!reads_yaml()) GTEST_SKIP() << "built without yaml-cpp";
  std::string text = "a0: &a0 [x, x]\n";
  for (int i = 1; i < 40; ++i)
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) + ", *a" +
            std::to_string(i - 1) + "]\n";
  EXPECT_NE(refusal(text).find("fewer and flatter"), std::string::npos);
  EXPECT_NE(refusal(std::string(40, '[') + std::string(40, ']')).find("fewer and flatter"), std::string::npos);
  EXPECT_NE(refusal("[a]: b").find("names as keys"), std::string::npos);
}

}  // namespace
}  // namespace kvasir::cli
