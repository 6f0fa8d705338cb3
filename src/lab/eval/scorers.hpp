// Scores of a model's answer beside right ones, as benchmarks of long contexts define them: 0 to 1.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir::lab::eval {

enum class Scorer {
  kF1,         // f1
  kF1Chinese,  // f1_chinese
  kRougeL,     // rouge_l
  kExact,      // within
  kClass,      // class_share
  kParagraph,  // number_share, of the number behind "Paragraph" in the right answer
  kCount,      // number_share
};
const char* name_of(Scorer scorer);

// Lower case, without ASCII punctuation and the words a, an, the; words with one space between (SQuAD, LongBench).
std::string normalised(std::string_view text);

// Harmonic mean of the shares of the prediction's and the answer's words that are in both, as multisets, of normalised
// texts (SQuAD; LongBench's qa_f1_score).
double f1(std::string_view predicted, std::string_view answer);
// The same of Chinese: every CJK character is a word, other words are as they stand. LongBench splits by jieba's
// dictionary, so its figures are others.
double f1_chinese(std::string_view predicted, std::string_view answer);
// F1 of the longest common subsequence of lower-case words of ASCII letters and digits (Lin 2004; rougeL of the package
// rouge-score without stemming).
double rouge_l(std::string_view predicted, std::string_view answer);
// 1 where the answer's words stand in the prediction, one after the other; else 0. Words as in rouge_l, and
// every character beyond ASCII is one.
double within(std::string_view predicted, std::string_view answer);
// LongBench's classification_score: of the classes whose names stand in the prediction, those aside that are a part of
// the right one's name, 1 / their number where the right one is among them; else 0.
double class_share(std::string_view predicted, std::string_view answer, std::span<const std::string> classes);
// LongBench's retrieval_score and count_score: which share of the numbers in the prediction is the answer's first one.
double number_share(std::string_view predicted, std::string_view answer);

// The best over the answers. first_line: of the prediction only the first line that has something counts.
double score(Scorer scorer, std::string_view predicted, std::span<const std::string> answers,
             std::span<const std::string> classes, bool first_line);

}  // namespace kvasir::lab::eval
