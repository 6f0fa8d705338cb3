// Questions whose answer stands in a long prompt: pass keys hidden in filler text, and records of a file to look up.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "text/tokenizer.hpp"

namespace kvasir::lab::eval {

struct Probe {
  std::vector<std::int32_t> prompt;
  std::string answer;
  // The ways to go on that are ranked: the right one first, then distractors. They begin where `prompt` ends.
  std::vector<std::vector<std::int32_t>> candidates;
  std::string group;            // of probes that are counted together: "1024", or the file's name
  int depth = -1;               // of the answer in the prompt, per cent; -1: not controlled
  std::int64_t tokens() const;  // prompt and longest candidate
};

struct ProbeOptions {
  std::int64_t ctx = 0;
  std::uint64_t seed = 1;
  std::int32_t distractors = 9;
  std::int32_t questions = 1;  // per text and depth
};

// Beginning and filler of a text that hides pass keys.
inline constexpr const char* kPasskeyTask =
    "There is an important info hidden inside a lot of irrelevant text. Find it and memorize it. I will quiz you about "
    "the important information there.\n";
inline constexpr const char* kPasskeyFiller =
    "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again.\n";

// One probe per length, depth and trial, in that order. The key and its distractors are drawn alike, so a model that
// does not look ranks the right one first with probability 1 / (distractors + 1) exactly. Throws Error(kBadInput) for a
// length that the context or the question itself does not allow.
std::vector<Probe> passkey_probes(const text::Tokenizer& tokenizer, const std::vector<std::int64_t>& lengths,
                                  const std::vector<std::int64_t>& depths, int trials, const ProbeOptions& options);

struct FileProbes {
  std::vector<Probe> probes;
  std::int64_t too_long = 0;         // samples left out because they do not fit into the context
  std::int64_t shortest_tokens = 0;  // of all samples
};
// Samples of a JSON-lines file, in one of two forms that are told apart by their fields: line retrieval (LongChat:
// prompt, correct_line, expected_number) and key-value retrieval (Lost in the Middle: ordered_kv_records, key, value).
// Distractors are other values of the same prompt. records > 0: only as many records of each sample, the right one
// among them. samples > 0: the first so many. Throws Error naming the file and the line.
FileProbes file_probes(const text::Tokenizer& tokenizer, const std::string& path, std::int64_t records,
                       std::int64_t samples, const ProbeOptions& options);

// Makes a probe of a text and what may follow it. Used by both.
Probe make_probe(const text::Tokenizer& tokenizer, const std::string& prompt,
                 const std::vector<std::string>& continuations);

}  // namespace kvasir::lab::eval
