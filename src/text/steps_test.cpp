// Tokenizers of tokenizer.json with Unigram, WordPiece and BPE: the ids of Hugging Face's package, id for id
// (tools/golden_tokenizers.py), and clear words for steps that are not known.
#include "text/steps.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/file.hpp"
#include "hub/tokenizer_config.hpp"
#include "text/tokenizer.hpp"

namespace kvasir::text {
namespace {

const std::string kGolden = std::string(KVASIR_SOURCE_DIR) + "/tests/golden/tokenizers.json";

std::unique_ptr<Tokenizer> tokenizer_of(const StepJson& written) {
  weights::Metadata metadata("F");
  std::int64_t most = 0;
  for (const StepJson& t : written.value("added_tokens", StepJson::array()))
    most = std::max(most, t["id"].get<std::int64_t>() + 1);
  most = std::max(most, static_cast<std::int64_t>(written["model"]["vocab"].size()));
  hub::read_tokenizer({.tokenizer = written, .config = {}, .generation = {}, .model = {}, .chat_template = {}}, most,
                      "F", metadata);
  return make_tokenizer(metadata);
}

// KVASIR_TOKENIZERS names another file that the tool wrote, such as one with thousands of texts.
TEST(StepTokenizers, SameIdsAsHuggingFace) {
  const char* other = std::getenv("KVASIR_TOKENIZERS");
  const StepJson golden = StepJson::parse(read_text_file(other ? other : kGolden));
  ASSERT_GE(golden["tokenizers"].size(), 37u);
  for (const StepJson& one : golden["tokenizers"]) {
    const auto tokenizer = tokenizer_of(one["tokenizer"]);
    int wrong = 0;
    for (std::size_t i = 0; i < golden["texts"].size(); ++i) {
      const auto text = golden["texts"][i].get<std::string>();
      const auto want = one["ids"][i].get<std::vector<std::int32_t>>();
      const auto got = tokenizer->encode(text, {.parse_special = true});
      if (got == want || ++wrong > 3) continue;
      EXPECT_EQ(got, want) << one["name"] << ": " << golden["texts"][i].dump();
    }
    EXPECT_EQ(wrong, 0) << one["name"];
  }
}

// What stands behind text is not the beginning: no sign is put in front of it where only the first word has one.
TEST(StepTokenizers, TextBehindTextHasNoSign) {
  const StepJson golden = StepJson::parse(read_text_file(kGolden));
  for (const StepJson& one : golden["tokenizers"]) {
    if (one["name"] != "first") continue;
    const auto tokenizer = tokenizer_of(one["tokenizer"]);
    const auto front = tokenizer->encode("the"), behind = tokenizer->encode("the", {.behind_text = true});
    EXPECT_NE(front, behind);
    EXPECT_EQ(tokenizer->decode(front), "the");
    auto both = tokenizer->encode("the </s>the", {.parse_special = true});
    ASSERT_GE(both.size(), behind.size());
    EXPECT_EQ(std::vector(both.end() - static_cast<std::ptrdiff_t>(behind.size()), both.end()), behind);
  }
}

TEST(StepTokenizers, DecodeGivesTheText) {
  const StepJson golden = StepJson::parse(read_text_file(kGolden));
  for (const StepJson& one : golden["tokenizers"])
    for (const char* name : {"t5", "first", "bytes", "bert-cased"})
      if (one["name"] == name) {
        const auto tokenizer = tokenizer_of(one["tokenizer"]);
        EXPECT_EQ(tokenizer->decode(tokenizer->encode("the first of them")), "the first of them") << name;
      }
}

TEST(StepTokenizers, WhatIsNotKnownIsNamed) {
  const auto what = [](const StepJson& normalizer, const StepJson& cut) -> std::string {
    try {
      Steps(normalizer, cut, "F/tokenizer.json");
    } catch (const Error& e) {
      return e.what();
    }
    return "taken";
  };
  const auto says = [](const std::string& text, const char* words) {
    EXPECT_NE(text.find(words), std::string::npos) << text;
  };
  EXPECT_EQ(what({{"type", "NFC"}}, {{"type", "Whitespace"}}), "taken");
  says(what({{"type", "NFX"}}, {}),
       "F/tokenizer.json: 'normalizer': has a step of the type 'NFX', expected one of Bert");
  says(what({}, {{"type", "UnicodeScripts"}}), "'pre_tokenizer': has a step of the type 'UnicodeScripts'");
  says(what({}, {{"type", "Split"}, {"pattern", {{"Regex", "(a|b)+?"}}}, {"behavior", "Isolated"}}),
       "'pre_tokenizer': Split: has the pattern '(a|b)+?', which no scanner here knows");
  says(what({}, {{"type", "Split"}, {"pattern", {{"String", " "}}}, {"behavior", "Sideways"}}), "has the behavior");
  says(what({{"type", "Replace"}, {"content", "x"}}, {}), "has no 'pattern'");
  says(what({{"type", "Prepend"}}, {}), "Prepend: has no 'prepend', expected a text");
  says(what({{"type", "Sequence"}}, {}), "Sequence: has no 'normalizers', expected an array");
  says(what({{"type", "Precompiled"}, {"precompiled_charsmap", "%"}}, {}), "is no base64");
  says(what({}, {{"type", "Metaspace"}, {"prepend_scheme", "last"}}), "expected always, first or never");
}

}  // namespace
}  // namespace kvasir::text
