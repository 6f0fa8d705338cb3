#include "text/reasoning.hpp"

#include <gtest/gtest.h>

namespace kvasir::text {
namespace {

struct Told {
  std::string reasoning, content;
  bool operator==(const Told&) const = default;
};

Told split(std::string_view text, std::size_t piece, bool inside = false) {
  const ReasoningMarks* marks = find_reasoning_marks("<think></think>");
  ReasoningSplitter splitter(marks, inside);
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
  EXPECT_EQ(find_reasoning_marks("{{ messages }}"), nullptr);
  EXPECT_EQ(find_reasoning_marks("say <think> and no more"), nullptr);
  EXPECT_EQ(find_reasoning_marks("{% if '[THINK]' %}[/THINK]")->open, "[THINK]");
  const ReasoningMarks& marks = *find_reasoning_marks("'<think>\\n' '</think>'");
  EXPECT_TRUE(ends_in_reasoning(marks, "<|im_start|>assistant\n<think>\n"));
  EXPECT_FALSE(ends_in_reasoning(marks, "<|im_start|>assistant\n<think>\n\n</think>\n\n"));
  EXPECT_FALSE(ends_in_reasoning(marks, ""));
}

TEST(Reasoning, WithoutMarksAllIsContent) {
  ReasoningSplitter splitter(nullptr, false);
  Told told;
  splitter.push("<think>a", told.reasoning, told.content);
  splitter.finish(told.reasoning, told.content);
  EXPECT_EQ(told.content, "<think>a");
}

}  // namespace
}  // namespace kvasir::text
