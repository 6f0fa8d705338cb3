// Prompts built from known documents in another order: how long the first token takes, and what the answers become,
// exactly, and with every way of blending.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/options.hpp"
#include "run/blend.hpp"
#include "run/engine.hpp"

namespace kvasir::lab {

struct RagOptions {
  std::string documents;           // file: a text that is cut, or JSON lines with "text", "question", "answer"
  std::int32_t k = 8;              // documents of a prompt
  std::int32_t tokens = 500;       // of a document
  std::int32_t questions = 8;      // in all
  std::int32_t per_set = 4;        // of them about the same documents
  std::string order = "shuffled";  // "shuffled", "edited", "inserted", "unrelated"
  std::string ratios = "0,0.05,0.15,0.3";
  std::int32_t answer = 16;  // tokens
  std::int64_t seed = 1;
  bool skip_exact = false;  // without exact reuse, which an evaluation of answers does not need
  std::string samples;  // file of what was measured, a line per question, which a later run goes on from; empty: none
};
const OptionTable<RagOptions>& rag_table();

// Of questions of whose prompt a share within [from, from + 1/4) was not computed; the last one has 1, too.
struct RagBucket {
  double from = 0;
  std::int64_t asked = 0, right = 0, cold_right = 0, same_answer = 0;
};

// One way to compute the prompts, over all questions.
struct RagRow {
  std::string name;
  std::vector<float> ttft;     // seconds, by question
  std::vector<float> looking;  // seconds of it that went to find and compare known text, by question
  std::int64_t prompt_tokens = 0, reused = 0, relocated = 0, repaired = 0;
  // Against the cold ones: KL of the first token's distribution (its likeliest tokens, and the others as one), nats;
  // how many first tokens and answers are the same, and how many answers hold what was asked for.
  std::vector<float> kl;
  std::int64_t same_first = 0, same_answer = 0, right = 0, asked = 0;
  std::int64_t as_good = 0;  // answers that are the same, or as right or wrong as the cold one
  std::int64_t worse = 0;    // answers that are wrong where the cold one is right
  std::vector<RagBucket> by_reuse = {{0}, {0.25}, {0.5}, {0.75}};
  std::string refused;  // the last reason why nothing was relocated
};

// The rows so far after every question: "cold", "exact", "naive", "first rows", then "blend R" for every ratio. poll
// may stop it. Throws Error for a file that has no documents, and what an engine throws.
std::vector<RagRow> measure_rag(run::Engine& engine, const RagOptions& options, const run::BlendOptions& blend,
                                const std::function<bool(std::int64_t done, std::int64_t total)>& poll);

}  // namespace kvasir::lab
