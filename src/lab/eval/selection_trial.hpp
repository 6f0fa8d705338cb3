// What selectors cost in quality: answers to probes beside those of dense attention, and the attention mass that
// choices hold, by layer.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lab/eval/probes.hpp"
#include "lab/eval/statistics.hpp"
#include "lab/eval/subject.hpp"

namespace kvasir::lab::eval {

// Specs in groups that one cache can serve: their summaries are the same, or they need none. Every group begins with
// "all", and behind it with a spec that has the group's summaries. Throws Error(kBadInput) for what cannot be read.
std::vector<std::vector<std::string>> group_selectors(const std::vector<std::string>& specs);

// The spec that a cache for all specs of a group is made with.
std::string cache_selector(const std::vector<std::string>& group);

// What a subject needs for the functions below: the caches of group_selectors(specs), sequences and room beside `ctx`.
Subject::Needs selection_needs(const std::vector<std::string>& specs, std::int64_t ctx);

struct SelectedRow {
  std::string kv, select, group;
  int depth = -1;
  std::int64_t tokens = 0;  // of the longest prompt
  std::int64_t trials = 0;
  std::int64_t exact = 0;     // greedy decoding begins with the answer
  std::int64_t first = 0;     // the right candidate has the highest log-probability
  std::int64_t same = 0;      // greedy decoding gives the tokens of dense attention
  double logprob = 0;         // of the right candidate, summed over the trials
  double read = 0, seen = 0;  // tokens per layer and head, summed over steps and layers
  // Measured, summed over layers: at the token that begins the answer, and wherever the selector's own meter does.
  double mass = 0;
  std::int64_t measured = 0;
  std::optional<double> mean_mass() const;  // 1 where everything was read; none: nothing was measured
  SelectedRow& operator+=(const SelectedRow& o);
};

struct SelectedReport {
  std::vector<SelectedRow> rows;  // by codecs, selector, group and depth
  double chance = 0;              // of ranking the right candidate first without looking
  SelectedRow dense;              // all of dense attention
  double guessing = 0;            // probability that guessing ranks at least as often right as dense attention did
  Skill skill() const { return skill_of(dense.trials, dense.first, chance); }
};

// Every prompt is computed once per cache, dense, and once more for every selector that chooses for prompts, but for
// its last `asked` tokens, the question: these and the answer go through every choice as generated tokens. So a choice
// has to find what the question asks for. What a prompt has in common with the one before it is not computed again.
// REQUIRES: the subject was made with selection_needs.
SelectedReport measure_selected(Subject& subject, const std::vector<std::string>& specs, std::span<const Probe> probes,
                                std::int64_t asked, const std::function<void(std::int64_t, std::int64_t)>& poll);

// Shares of attention mass of one selector with one budget.
struct MassRow {
  std::string kv, select;
  std::vector<double> mass;                   // by layer that is asked about, mean over the queries
  std::vector<double> best;                   // what the best choice of as many blocks holds
  double read = 0;                            // share of the tokens
  double kl = 0;                              // of the next token, from dense attention's distribution to the choice's
  double same = 0;                            // share of queries whose most probable token is dense attention's
  double mean_from(std::size_t layer) const;  // of mass, over the layers from that one on
};

// Queries of `queries` tokens behind the first ids.size() - queries of a text, each choice measured while the model
// goes on with dense attention. What a selector learns from measurements (`aim`) is left out. Every token also goes
// once through the choice alone, behind a dense past: kl and same compare what it says next. Needs of the subject as in
// measure_selected.
std::vector<MassRow> measure_mass(Subject& subject, const std::vector<std::string>& specs,
                                  std::span<const std::int32_t> ids, std::int64_t queries,
                                  const std::function<void(std::int64_t, std::int64_t)>& poll);

}  // namespace kvasir::lab::eval
