// Pass-key retrieval (Mohtashami and Jaggi, Landmark attention, 2023): a number hidden in repetitive text.
#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "lab/eval/probes.hpp"
#include "run/rng.hpp"

namespace kvasir::lab::eval {
namespace {

constexpr const char* kQuestion = "What is the pass key? The pass key is";

std::string prompt_text(std::int64_t fillers, std::int64_t depth, const std::string& key) {
  std::string text = kPasskeyTask;
  const std::int64_t before = fillers * depth / 100;
  for (std::int64_t i = 0; i < before; ++i) text += kPasskeyFiller;
  text += "The pass key is " + key + ". Remember it. " + key + " is the pass key.\n";
  for (std::int64_t i = before; i < fillers; ++i) text += kPasskeyFiller;
  return text + kQuestion;
}

// Different numbers of five digits: the key first, then the distractors.
std::vector<std::string> draw_keys(run::Rng* rng, int count) {
  std::vector<std::string> keys;
  std::set<std::string> seen;
  while (static_cast<int>(keys.size()) < count) {
    std::string key = std::to_string(10000 + rng->next() % 90000);
    if (seen.insert(key).second) keys.push_back(std::move(key));
  }
  return keys;
}

Probe probe_of(const text::Tokenizer& tokenizer, std::int64_t fillers, std::int64_t depth,
               const std::vector<std::string>& keys) {
  std::vector<std::string> continuations;
  for (const std::string& key : keys) continuations.push_back(" " + key);
  Probe probe = make_probe(tokenizer, prompt_text(fillers, depth, keys.front()), continuations);
  probe.answer = keys.front();
  probe.depth = static_cast<int>(depth);
  return probe;
}

}  // namespace

std::vector<Probe> passkey_probes(const text::Tokenizer& tokenizer, const std::vector<std::int64_t>& lengths,
                                  const std::vector<std::int64_t>& depths, int trials, const ProbeOptions& options) {
  std::vector<Probe> all;
  run::Rng rng(options.seed);
  for (const std::int64_t length : lengths) {
    if (length > options.ctx)
      throw Error(Code::kBadInput,
                  "has " + std::to_string(length) + ", expected at most --ctx, " + std::to_string(options.ctx),
                  "--lengths");
    for (const std::int64_t depth : depths)
      for (int trial = 0; trial < trials; ++trial) {
        const std::vector<std::string> keys = draw_keys(&rng, options.distractors + 1);
        const std::int64_t least = probe_of(tokenizer, 0, depth, keys).tokens();
        if (least > length)
          throw Error(Code::kBadInput,
                      "has " + std::to_string(length) + ", the question alone takes " + std::to_string(least),
                      "--lengths");
        // The most filler that fits: a first guess from the filler's own tokens, then one by one.
        const auto step = static_cast<std::int64_t>(tokenizer.encode(kPasskeyFiller).size());
        std::int64_t fillers = (length - least) / std::max<std::int64_t>(1, step) + 2;
        Probe probe = probe_of(tokenizer, fillers, depth, keys);
        while (fillers > 0 && probe.tokens() > length) probe = probe_of(tokenizer, --fillers, depth, keys);
        probe.group = std::to_string(length);
        all.push_back(std::move(probe));
      }
  }
  return all;
}

}  // namespace kvasir::lab::eval
