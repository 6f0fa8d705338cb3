// Greedy answers under each choice of codecs, beside those of an f32 cache: what a user would see change.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lab/eval/subject.hpp"

namespace kvasir::lab::eval {

// One lane's answer to one prompt.
struct AnswerOf {
  std::vector<std::int32_t> ids;  // without the token that ended it
  std::string text;
  std::int64_t same = 0;  // tokens from the first on that are those of f32
  bool equal = false;     // all of them, and it ends where f32's does
};

struct AnswersRow {
  std::string kv;
  std::string note;  // what "auto" chose
  KvCost cost;
  std::vector<AnswerOf> answers;  // one per prompt
  std::int64_t equal = 0;         // answers
  std::int64_t same = 0;          // tokens before the first difference, of all answers
};

struct AnswersReport {
  std::int64_t tokens = 0;       // that f32 answered with
  std::vector<AnswersRow> rows;  // the f32 baseline first
};

// Every prompt's greedy answer of at most `most` tokens, its own number or one for all, ended early by an end-of-text
// token. REQUIRES: subject is loaded, prompts are not empty and fit into the context with as many tokens. poll(done,
// total) in answers may throw to stop. answered(prompt, rows so far): after all lanes have answered a prompt.
AnswersReport measure_answers(Subject& subject, std::span<const std::vector<std::int32_t>> prompts,
                              std::span<const int> most, const std::function<void(std::int64_t, std::int64_t)>& poll,
                              const std::function<void(std::size_t, const AnswersReport&)>& answered = {});

}  // namespace kvasir::lab::eval
