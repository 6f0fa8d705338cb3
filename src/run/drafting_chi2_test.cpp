// The distribution of what is drawn with drafts, on a vocabulary of eight tokens: each drafter, 1e5 draws, against the
// probabilities that the options say, worked out here in float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "run/sampler.hpp"
#include "run/suffix_automaton.hpp"
#include "run/text_memory.hpp"
#include "run/verify.hpp"

namespace kvasir::run {
namespace {

constexpr int kVocab = 8, kDraws = 100000, kGuesses = 4;
using Distribution = std::array<double, kVocab>;

// Logits behind the last token: a model's, and a smaller model's that resembles it.
std::vector<float> logits(int last, bool small) {
  std::vector<float> x(kVocab);
  for (int i = 0; i < kVocab; ++i) {
    x[static_cast<std::size_t>(i)] = 2.0f * static_cast<float>(std::sin(1.7 * last + 2.3 * i + 0.4 * i * last));
    if (small) x[static_cast<std::size_t>(i)] += 0.8f * static_cast<float>(std::cos(3.1 * i + last));
  }
  return x;
}

// What the chain of stages makes of it: penalties, top_k, top_p, min_p, temperature (run/sampler.hpp).
Distribution expected(const SamplingOptions& o, int before, int last) {
  const std::vector<float> x = logits(last, false);
  std::array<double, kVocab> logit{};
  for (std::size_t i = 0; i < kVocab; ++i) {
    logit[i] = x[i];
    const int seen = o.penalises() ? (before == static_cast<int>(i)) + (last == static_cast<int>(i)) : 0;
    if (seen == 0) continue;
    logit[i] = logit[i] > 0 ? logit[i] / o.repetition_penalty : logit[i] * o.repetition_penalty;
    logit[i] -= static_cast<double>(o.frequency_penalty) * seen + static_cast<double>(o.presence_penalty);
  }
  std::array<std::size_t, kVocab> order{};
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return logit[a] > logit[b]; });
  std::size_t keep = o.top_k > 0 ? std::min<std::size_t>(kVocab, static_cast<std::size_t>(o.top_k)) : kVocab;
  const auto mass = [&](std::size_t n) {
    double sum = 0;
    for (std::size_t i = 0; i < n; ++i) sum += std::exp(logit[order[i]]);
    return sum;
  };
  if (o.top_p < 1) {
    std::size_t n = 1;
    while (n < keep && mass(n) < static_cast<double>(o.top_p) * mass(keep)) ++n;
    keep = n;
  }
  if (o.min_p > 0)
    while (keep > 1 && logit[order[keep - 1]] < logit[order[0]] + std::log(static_cast<double>(o.min_p))) --keep;
  Distribution p{};
  double sum = 0;
  for (std::size_t i = 0; i < keep; ++i)
    sum += p[order[i]] = std::exp(logit[order[i]] / static_cast<double>(o.temperature));
  for (double& x_i : p) x_i /= sum;
  return p;
}

// The upper tail of chi-square (Wilson and Hilferty 1931).
double p_value(double chi2, double freedom) {
  const double z = (std::cbrt(chi2 / freedom) - (1 - 2 / (9 * freedom))) / std::sqrt(2 / (9 * freedom));
  return 0.5 * std::erfc(z / std::sqrt(2.0));
}

SamplingOptions neutral(float temperature) {
  SamplingOptions o;
  o.temperature = temperature;
  o.top_k = 0;
  o.top_p = 1;
  o.min_p = 0;
  o.seed = 12;
  return o;
}

std::vector<std::pair<std::string, SamplingOptions>> settings() {
  std::vector<std::pair<std::string, SamplingOptions>> all{{"temperature", neutral(0.7f)}, {"hot", neutral(1.5f)}};
  SamplingOptions o = neutral(1);
  o.top_k = 4;
  all.emplace_back("top_k", o);
  o = neutral(1);
  o.top_p = 0.8f;
  all.emplace_back("top_p", o);
  o = neutral(1.2f);
  o.min_p = 0.1f;
  all.emplace_back("min_p", o);
  o = neutral(1);
  o.repetition_penalty = 1.3f;
  o.frequency_penalty = 0.4f;
  o.presence_penalty = 0.2f;
  o.penalty_last_n = 2;
  all.emplace_back("penalties", o);
  return all;
}

using Text = std::vector<std::int32_t>;

Text lookup(SuffixAutomaton& automaton, const Text& text) {
  while (automaton.size() < static_cast<std::int64_t>(text.size()))
    automaton.push(text[static_cast<std::size_t>(automaton.size())]);
  const auto match = automaton.longest();
  Text guesses;
  for (std::int64_t i = match.next; match.length > 0 && static_cast<int>(guesses.size()) < kGuesses; ++i)
    guesses.push_back(i < static_cast<std::int64_t>(text.size()) ? text[static_cast<std::size_t>(i)]
                                                                 : guesses[static_cast<std::size_t>(i) - text.size()]);
  return guesses;
}

// A model that draws with the random numbers of the text; or whose best token is always the guess.
Text draw_from_small(SamplerChain& own, const SamplerChain& target, int last, bool greedy) {
  Text guesses;
  own.follow(target);
  for (int i = 0; i < kGuesses; ++i) {
    std::vector<float> x = logits(guesses.empty() ? last : guesses.back(), true);
    const std::int32_t best = static_cast<std::int32_t>(std::max_element(x.begin(), x.end()) - x.begin());
    const std::int32_t id = greedy ? best : own.sample(x).id;
    own.accept(id);
    guesses.push_back(id);
  }
  return guesses;
}

// A block that reads states: the first guess is made of the model's own, the others of what it made itself.
Text draw_from_states(SamplerChain& own, const SamplerChain& target, int before, int last) {
  Text guesses;
  own.follow(target);
  std::vector<float> state = logits(before, false);
  for (int i = 0; i < kGuesses; ++i) {
    std::vector<float> x = logits(guesses.empty() ? last : guesses.back(), true);
    for (std::size_t k = 0; k < x.size(); ++k) x[k] += 0.3f * state[k];
    state = x;
    const std::int32_t id = own.sample(x).id;
    own.accept(id);
    guesses.push_back(id);
  }
  return guesses;
}

struct Drawn {
  Text text{0, 1};
  std::int64_t guessed = 0, right = 0;
};

Drawn draw(const SamplingOptions& options, const std::string& drafter) {
  SamplerChain chain(options, kVocab), small(options, kVocab);
  SuffixAutomaton automaton;
  TextMemory memory(1 << 16);
  Drawn out;
  chain.accept_prompt(out.text);
  Text earlier;
  while (static_cast<int>(out.text.size()) < kDraws) {
    Text guesses;
    if (drafter == "lookup") guesses = lookup(automaton, out.text);
    if (drafter == "store") {
      if (out.text.size() % 500 < 3) memory.add(std::span(out.text).last(std::min<std::size_t>(500, out.text.size())));
      const auto found = memory.find(out.text);
      guesses.assign(found.followed.begin(),
                     found.followed.begin() + std::min<std::ptrdiff_t>(kGuesses, std::ssize(found.followed)));
    }
    if (drafter == "model") guesses = draw_from_small(small, chain, out.text.back(), false);
    if (drafter == "best of a model") guesses = draw_from_small(small, chain, out.text.back(), true);
    if (drafter == "mtp") guesses = draw_from_states(small, chain, *(out.text.end() - 2), out.text.back());
    out.guessed += static_cast<std::int64_t>(guesses.size());
    out.right += static_cast<std::int64_t>(verify_guesses(guesses, [&](std::size_t) {
      std::vector<float> x = logits(out.text.back(), false);
      const std::int32_t id = chain.sample(x).id;
      chain.accept(id);
      out.text.push_back(id);
      return id;
    }));
  }
  return out;
}

TEST(DraftedDraws, HaveTheDistributionOfTheOptions) {
  for (const auto& [name, options] : settings()) {
    const Drawn plain = draw(options, "none");
    for (const std::string drafter : {"none", "lookup", "store", "model", "mtp", "best of a model"}) {
      SCOPED_TRACE(name + ", " + drafter);
      const Drawn drawn = draw(options, drafter);
      if (drafter != "none") {
        EXPECT_GT(drawn.right, kDraws / 100);
        EXPECT_LT(drawn.right, drawn.guessed);
      }
      // More: the very tokens that the seed gives without guesses.
      const std::size_t n = std::min(drawn.text.size(), plain.text.size());
      EXPECT_TRUE(
          std::equal(plain.text.begin(), plain.text.begin() + static_cast<std::ptrdiff_t>(n), drawn.text.begin()));
      std::map<std::pair<int, int>, std::array<double, kVocab>> counts;
      for (std::size_t i = 2; i < drawn.text.size(); ++i)
        ++counts[{options.penalises() ? drawn.text[i - 2] : 0, drawn.text[i - 1]}]
                [static_cast<std::size_t>(drawn.text[i])];
      double chi2 = 0, freedom = 0;
      for (const auto& [context, count] : counts) {
        const Distribution p = expected(options, context.first, context.second);
        const double total = std::accumulate(count.begin(), count.end(), 0.0);
        if (total < 200) continue;
        double rest_seen = 0, rest_wanted = 0;
        int cells = 0;
        for (std::size_t i = 0; i < kVocab; ++i) {
          if (p[i] == 0) {
            EXPECT_EQ(count[i], 0) << i;
          } else if (p[i] * total < 5) {
            rest_seen += count[i], rest_wanted += p[i] * total;
          } else {
            chi2 += std::pow(count[i] - p[i] * total, 2) / (p[i] * total);
            ++cells;
          }
        }
        if (rest_wanted > 1) chi2 += std::pow(rest_seen - rest_wanted, 2) / rest_wanted, ++cells;
        freedom += std::max(0, cells - 1);
      }
      ASSERT_GT(freedom, 5);
      EXPECT_GT(p_value(chi2, freedom), 0.01) << "chi2 " << chi2 << " of " << freedom;
    }
  }
}

}  // namespace
}  // namespace kvasir::run
