// Scores against values of the packages and scripts that define them.
#include "lab/eval/scorers.hpp"

#include <gtest/gtest.h>

namespace kvasir::lab::eval {
namespace {

TEST(Scorers, TextsAreNormalisedAsSquadDoes) {
  EXPECT_EQ(normalised("The  Eiffel-Tower, a tower\tin (Paris)!"), "eiffeltower tower in paris");
  EXPECT_EQ(normalised("an A the THE"), "");
}

// By LongBench's formula (metrics.py, qa_f1_score), worked out in Python.
TEST(Scorers, F1IsThatOfWords) {
  EXPECT_DOUBLE_EQ(f1("The Eiffel Tower, in Paris", "Eiffel tower"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(f1("a man and a plan", "the plan of a man"), 2.0 / 3);
  EXPECT_DOUBLE_EQ(f1("one one two", "one two two three"), 4.0 / 7);
  EXPECT_EQ(f1("U.S. Army", "us army"), 1);
  EXPECT_EQ(f1("no", "yes"), 0);
  EXPECT_EQ(f1("", "yes"), 0);
  EXPECT_EQ(f1("the", "a"), 0);
}

// By hand: three of four characters, of which the answer has three.
TEST(Scorers, ChineseWordsAreCharacters) {
  EXPECT_DOUBLE_EQ(f1_chinese("他住北京。", "在北京"), 4.0 / 7);
  EXPECT_EQ(f1_chinese("北京", "北京！"), 1);
  EXPECT_EQ(f1_chinese("上海", "北京"), 0);
  EXPECT_DOUBLE_EQ(f1_chinese("GPU 42 号", "42号"), 0.8);
}

// rouge-score 0.1.2: RougeScorer(["rougeL"], use_stemmer=False).score(answer, predicted).
TEST(Scorers, RougeLIsThatOfTheReference) {
  EXPECT_DOUBLE_EQ(rouge_l("the cat sat on the mat", "the cat lay on a mat"), 0.6666666666666666);
  EXPECT_DOUBLE_EQ(rouge_l("Police killed the gunman.", "police kill the gunman"), 0.75);
  EXPECT_DOUBLE_EQ(rouge_l("a b c d e f", "f e d c b a"), 0.16666666666666666);
  EXPECT_DOUBLE_EQ(rouge_l("It's 3.5%, isn't it?", "it s 3 5 isn t it"), 1.0);
  EXPECT_DOUBLE_EQ(rouge_l("one two three four five six seven", "three one four two seven five six"),
                   0.5714285714285714);
  EXPECT_DOUBLE_EQ(rouge_l("Anna lives in Bern; she paints.", "Anna, who paints, lives in Bern."), 0.6666666666666666);
  EXPECT_EQ(rouge_l("naïve café résumé", "naive cafe resume"), 0);
  EXPECT_EQ(rouge_l("", "x"), 0);
}

TEST(Scorers, AnAnswerStandsInThePredictionOrNot) {
  EXPECT_EQ(within("The number is 48213.", "48213"), 1);
  EXPECT_EQ(within("482130", "48213"), 0);
  EXPECT_EQ(within("In New  York!", "new york"), 1);
  EXPECT_EQ(within("York New", "New York"), 0);
  EXPECT_EQ(within("答案是 48213。", "48213"), 1);
  EXPECT_EQ(within("anything", ""), 0);
}

TEST(Scorers, ClassesThatArePartsOfTheRightOneDoNotCount) {
  const std::vector<std::string> classes{"Location", "Other location", "Number", "Date"};
  EXPECT_EQ(class_share("Type: Other location", "Other location", classes), 1);
  EXPECT_EQ(class_share("Number or Date", "Date", classes), 0.5);
  EXPECT_EQ(class_share("Number", "Date", classes), 0);
  EXPECT_EQ(class_share("", "Date", classes), 0);
}

TEST(Scorers, NumbersAreCounted) {
  EXPECT_EQ(number_share("Paragraph 12", "Paragraph 12"), 1);
  EXPECT_EQ(number_share("Paragraph 12 or 7", "Paragraph 12"), 0.5);
  EXPECT_EQ(number_share("Paragraph 1", "Paragraph 12"), 0);
  EXPECT_EQ(number_share("none", "3"), 0);
}

TEST(Scorers, TheBestAnswerCountsAndOfSomeTasksOneLine) {
  const std::vector<std::string> answers{"Paris", "the city of Paris"};
  EXPECT_EQ(score(Scorer::kF1, "city of Paris", answers, {}, false), 1);
  EXPECT_EQ(score(Scorer::kExact, "\nParis\nLondon", answers, {}, true), 1);
  EXPECT_EQ(score(Scorer::kExact, "London\nParis", answers, {}, true), 0);
}

}  // namespace
}  // namespace kvasir::lab::eval
