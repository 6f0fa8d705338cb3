#include "text/reasoning.hpp"

#include <gtest/gtest.h>

namespace kvasir::text {
namespace reasoning_test {

struct Told {
  std::string reasoning, content;
  bool operator==(const Told&) const = default;
};

Told split(std::string_view text, std::size_t piece, bool inside = false, std::string_view marks = "<think></think>") {
  ReasoningSplitter splitter(find_reasoning_marks(marks), inside);
  Told told;
  for (std::size_t i = 0; i < text.size(); i += piece)
    splitter.push(text.substr(i, piece), told.reasoning, told.content);
  splitter.finish(told.reasoning, told.content);
  return told;
}

TEST(Reasoning, IsToldFromTheAnswerInPiecesOfAnySize) {
  struct Case {
    std::string_view text;
    bool inside;
    Told told;
  };
  const Case cases[] = {
      {"<think>\nOne.\n\nTwo.\n</think>\n\nThree. <think>no", false, {"One.\n\nTwo.", "Three. <think>no"}},
      {"\n <think>a</think>b", false, {"a", "b"}},
      {"One.\n</think>\n\nThree.", true, {"One.", "Three."}},
      {"<think></think>x", false, {"", "x"}},
      {"cut in thou", true, {"cut in thou", ""}},
      {"cut in </thi", true, {"cut in </thi", ""}},
      {" plain <think>", false, {"", " plain <think>"}},
      {"<thi", false, {"", "<thi"}},
      {"<think>only", false, {"only", ""}},
      {"<think>a</think>  \n", false, {"a", ""}},
      {"a < b </think", true, {"a < b </think", ""}},
      {"", true, {"", ""}},
  };
  for (const Case& c : cases)
    for (std::size_t piece = 1; piece <= c.text.size() + 1; ++piece) {
      const Told told = split(c.text, piece, c.inside);
      EXPECT_EQ(told.reasoning, c.told.reasoning) << c.text << " by " << piece;
      EXPECT_EQ(told.content, c.told.content) << c.text << " by " << piece;
    }
}

TEST(Reasoning, MarksAreTheTemplates) {
  EXPECT_FALSE(find_reasoning_marks("{{ messages }}"));
  EXPECT_FALSE(find_reasoning_marks("say <think> and no more"));
  EXPECT_EQ(find_reasoning_marks("{% if '[THINK]' %}[/THINK]")->open, "[THINK]");
  const ReasoningMarks marks = *find_reasoning_marks("'<think>\\n' '</think>'");
  EXPECT_TRUE(ends_in_reasoning(marks, "<|im_start|>assistant\n<think>\n"));
  EXPECT_FALSE(ends_in_reasoning(marks, "<|im_start|>assistant\n<think>\n\n</think>\n\n"));
  EXPECT_FALSE(ends_in_reasoning(marks, ""));
}

// Tokens that no text speaks of: reasoning stands between them wherever they are.
TEST(Reasoning, BetweenControlTokensIsFoundAnywhere) {
  struct Case {
    std::string_view text;
    bool inside;
    Told told;
  };
  const Case gemma[] = {
      {"<|channel>thought\nHm.\n<channel|>Yes.", false, {"Hm.", "Yes."}},
      {"<|channel>thought\n<channel|>Yes.", false, {"", "Yes."}},
      {"<|channel>thought<channel|>Yes.", false, {"", "Yes."}},
      {"Look.<|channel>thought\nHm.<channel|> Yes.", false, {"Hm.", "Look. Yes."}},
      {"<|channel>thought\nA<channel|>x<|channel>thought\nB<channel|>y", false, {"A\n\nB", "xy"}},
      {"thought\nHm.<channel|>Yes.", true, {"Hm.", "Yes."}},
      {"Hm.<channel|>Yes.<channel|>", true, {"Hm.", "Yes."}},
      {"<|channel>thoughtful<channel|>", false, {"thoughtful", ""}},
      {"<|channel>thought", false, {"", ""}},
      {"<|channel>", false, {"", ""}},
      {"a <|chan", false, {"", "a <|chan"}},
  };
  for (const Case& c : gemma)
    for (std::size_t piece = 1; piece <= c.text.size() + 1; ++piece) {
      const Told told = split(c.text, piece, c.inside, "<|channel>thought\n<channel|>");
      EXPECT_EQ(told.reasoning, c.told.reasoning) << c.text << " by " << piece;
      EXPECT_EQ(told.content, c.told.content) << c.text << " by " << piece;
    }
  const ReasoningMarks marks = *find_reasoning_marks("<|channel>thought\n<channel|>");
  EXPECT_TRUE(ends_in_reasoning(marks, "<|turn>model\n<|channel>thought\n"));
  EXPECT_FALSE(ends_in_reasoning(marks, "<|turn>model\n<|channel>thought\n<channel|>"));
}

// Marks around the rest of the answer, where the template asks for them.
TEST(Reasoning, MarksAroundTheRestAreNotPartOfIt) {
  constexpr std::string_view kBoth = "<think></think> <response></response>";
  struct Case {
    std::string_view text;
    Told told;
  };
  const Case cases[] = {
      {"<think>Hm.</think>\n<response>Yes.\n</response>", {"Hm.", "Yes."}},
      {"<think>Hm.</think><response>Yes </response>\n", {"Hm.", "Yes"}},
      {"<response>Yes.</response>", {"", "Yes."}},
      {"<think>Hm.</think>Yes.", {"Hm.", "Yes."}},
      {"<think>Hm.</think><response>a <b> </resp", {"Hm.", "a <b> </resp"}},
      {"<resp", {"", "<resp"}},
  };
  for (const Case& c : cases)
    for (std::size_t piece = 1; piece <= c.text.size() + 1; ++piece) {
      const Told told = split(c.text, piece, false, kBoth);
      EXPECT_EQ(told.reasoning, c.told.reasoning) << c.text << " by " << piece;
      EXPECT_EQ(told.content, c.told.content) << c.text << " by " << piece;
    }
}

TEST(Reasoning, MarksThatNobodyKnowsAreFoundAroundAThought) {
  const auto found = [](std::string_view with, std::string_view without) {
    const auto marks = marks_around(with, without, "HM");
    return marks ? marks->open + " " + marks->label + " " + marks->close : std::string("none");
  };
  EXPECT_EQ(found("<|a|>\n<ponder>\nHM\n</ponder>\nsaid<|e|>", "<|a|>\nsaid<|e|>"), "<ponder>  </ponder>");
  EXPECT_EQ(found("<|a|><|chan>musing\nHM\n<chan|>said<|e|>", "<|a|>said<|e|>"), "<|chan> musing <chan|>");
  EXPECT_EQ(found("<|a|><p>HM</p>said<|e|>", "<|a|><p>\n</p>said<|e|>"), "<p>  </p>");
  // What marks messages, and text without marks.
  EXPECT_EQ(found("<|a|>\nHM<|e|>", "<|a|>\nsaid<|e|>"), "none");
  EXPECT_EQ(found("<|a|>x\nHM<|e|><|a|>y\nsaid<|e|>", "<|a|>y\nsaid<|e|>"), "none");
  EXPECT_EQ(found("<|a|>thought: HM\nsaid<|e|>", "<|a|>said<|e|>"), "none");
  EXPECT_EQ(found("<|a|>said<|e|>", "<|a|>said<|e|>"), "none");
}

TEST(Reasoning, MarksAreTokensOrOpenAtTheEndOfThePrompt) {
  const auto tokens = [](std::string_view name) { return name == "<think>" || name == "</think>"; };
  EXPECT_EQ(find_reasoning_tokens(tokens)->open, "<think>");
  EXPECT_FALSE(find_reasoning_tokens([](std::string_view name) { return name == "<think>"; }));
  EXPECT_EQ(find_open_reasoning("<|assistant|>\n<think>\n")->close, "</think>");
  EXPECT_FALSE(find_open_reasoning("<|assistant|>\n"));
}

TEST(Reasoning, WithoutMarksAllIsContent) {
  ReasoningSplitter splitter({}, false);
  Told told;
  splitter.push("<think>a", told.reasoning, told.content);
  splitter.finish(told.reasoning, told.content);
  EXPECT_EQ(told.content, "<think>a");
}

}  // namespace reasoning_test
}  // namespace kvasir::text
