// Retrieval under each choice of codecs: does the model still find what stands in a long prompt, and does it answer as
// with an f32 cache? The second question has an answer for models that cannot do the first, too.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "lab/eval/probes.hpp"
#include "lab/eval/statistics.hpp"
#include "lab/eval/subject.hpp"

namespace kvasir::lab::eval {

// Sums over the probes of one group and depth.
struct RecallRow {
  std::string kv;
  std::string group;
  int depth = -1;
  std::int64_t tokens = 0;  // of the longest prompt
  std::int64_t trials = 0;
  std::int64_t exact = 0;        // greedy decoding begins with the answer
  std::int64_t first = 0;        // the right candidate has the highest log-probability
  double logprob = 0;            // of the right candidate, sum over trials, nats
  std::int64_t same_greedy = 0;  // greedy decoding gives the tokens that it gives with the f32 cache
  std::int64_t same_choice = 0;  // the candidate ranked first is the f32 cache's
  double logprob_shift = 0;      // sum of |log-probability - f32's| of the right candidate
  RecallRow& operator+=(const RecallRow& other);
};

struct RecallReport {
  std::vector<RecallRow> rows;  // lane by lane, the f32 baseline first; groups and depths as the probes come
  double chance = 0;            // of ranking the right candidate first without looking
  RecallRow baseline;           // all of f32
  double guessing = 0;          // probability that guessing ranks at least as often right as f32 did
  // Whether the model with an f32 cache finds answers at all; if not, hits say nothing about codecs.
  Skill skill() const { return skill_of(baseline.trials, baseline.first, chance); }
};

// REQUIRES: subject is loaded, made with 2 sequences and as many extra tokens as its context; probes fit into the
// context. poll(done, total) in probes may throw to stop.
RecallReport measure_recall(Subject& subject, std::span<const Probe> probes,
                            const std::function<void(std::int64_t, std::int64_t)>& poll);

}  // namespace kvasir::lab::eval
