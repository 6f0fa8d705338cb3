// Questions about long texts that are answered in words and scored, after LongBench (Bai et al. 2023, arXiv:2308.14508)
// and InfiniteBench (Zhang et al. 2024, arXiv:2402.13718): made from words that are here, or read from their files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab/eval/scorers.hpp"
#include "text/tokenizer.hpp"

namespace kvasir::lab::eval {

struct LongQuestion {
  std::string task;
  std::string prompt;
  std::vector<std::string> answers = {};  // any of them is right
  std::vector<std::string> classes = {};  // with Scorer::kClass
  Scorer scorer = Scorer::kF1;
  bool first_line = false;  // of what is answered the first line counts
  int most = 32;            // tokens of the answer
};

// passages   which of many paragraphs an abstract is from                  paragraph
// recite     a paragraph, word by word                                     ROUGE-L
// hops       who is mayor of the city where somebody lives                 F1
// count      how many paragraphs there are, those aside that come again    count
// classes    the kind of a question, from examples                         class
// pairs      a value of a JSON object of random pairs                      exact
// needle     one city's number among sentences                             exact
// needle_zh  the same in Chinese                                           exact
const std::vector<std::string>& long_task_names();

// `samples` questions of every task, each behind as long a text as fits into `length` tokens. What is asked for stands
// at even distances from the beginning to the end. Throws Error(kBadInput) for an unknown task and for a length that
// does not suffice.
std::vector<LongQuestion> make_long_questions(const text::Tokenizer& tokenizer, const std::vector<std::string>& tasks,
                                              std::int64_t length, int samples, std::uint64_t seed);

// A file of JSON lines as published: LongBench (fields context, input, answers, all_classes, dataset) or InfiniteBench
// (context, input, answer; the file's name says the task). Known are hotpotqa, 2wikimqa, musique, trec, triviaqa,
// samsum, passage_retrieval_en, passage_count, multifieldqa_en, narrativeqa, qasper, and passkey, number_string,
// kv_retrieval. prompts: a JSON file of texts by task with {context} and {input}, as LongBench's
// config/dataset2prompt.json; "", or what it lacks: words of our own, whose scores are not those of papers. ROUGE-L is
// that of scorers.hpp. samples > 0: the first so many. Throws Error naming file and line, for another task too.
std::vector<LongQuestion> read_long_questions(const std::string& path, std::int64_t samples,
                                              const std::string& prompts = {});

// A text of more than `most` tokens without its middle, as LongBench cuts it; else as it is.
std::string without_middle(const text::Tokenizer& tokenizer, const std::string& text, std::int64_t most);

}  // namespace kvasir::lab::eval
