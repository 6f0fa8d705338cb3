// The distribution of what is drawn with drafts: each drafter, 1e5 draws, against the probabilities that the options
// say, worked out here in float64. Drafters that need no model draw from a vocabulary of eight tokens; the block of a
// model's file drafts for that model, through the engine's own loop.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "base/splitmix.hpp"
#include "model/cache_shape.hpp"
#include "model/forward.hpp"
#include "model/synth.hpp"
#include "run/reuse_fixture.hpp"
#include "run/sampler.hpp"
#include "run/suffix_automaton.hpp"
#include "run/text_memory.hpp"
#include "run/verify.hpp"

namespace kvasir::run {
namespace drafting_chi2_test {

constexpr int kVocab = 8, kDraws = 100000, kDraftTokens = 4;
using Distribution = std::vector<double>;

// Logits behind the last token: a model's, and a smaller model's that resembles it.
std::vector<float> logits(int last, bool small) {
  std::vector<float> x(kVocab);
  for (int i = 0; i < kVocab; ++i) {
    x[static_cast<std::size_t>(i)] = 2.0f * static_cast<float>(std::sin(1.7 * last + 2.3 * i + 0.4 * i * last));
    if (small) x[static_cast<std::size_t>(i)] += 0.8f * static_cast<float>(std::cos(3.1 * i + last));
  }
  return x;
}

// What the chain of stages makes of logits behind `text`: penalties, top_k, top_p, min_p, temperature
// (run/sampler.hpp).
Distribution expected(const SamplingOptions& o, std::span<const float> x, std::span<const std::int32_t> text) {
  std::vector<double> logit(x.begin(), x.end());
  std::map<std::int32_t, int> seen;
  if (o.penalises())
    for (const std::int32_t id :
         text.last(std::min<std::size_t>(text.size(), static_cast<std::size_t>(o.penalty_last_n))))
      ++seen[id];
  for (const auto& [id, times] : seen) {
    double& l = logit[static_cast<std::size_t>(id)];
    l = l > 0 ? l / o.repetition_penalty : l * o.repetition_penalty;
    l -= static_cast<double>(o.frequency_penalty) * times + static_cast<double>(o.presence_penalty);
  }
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return logit[a] > logit[b]; });
  std::size_t keep = o.top_k > 0 ? std::min(x.size(), static_cast<std::size_t>(o.top_k)) : x.size();
  std::vector<double> mass;  // of the first i + 1
  for (std::size_t i = 0; i < keep; ++i) mass.push_back((i > 0 ? mass.back() : 0) + std::exp(logit[order[i]]));
  if (o.top_p < 1) {
    std::size_t n = 1;
    while (n < keep && mass[n - 1] < static_cast<double>(o.top_p) * mass[keep - 1]) ++n;
    keep = n;
  }
  if (o.min_p > 0)
    while (keep > 1 && logit[order[keep - 1]] < logit[order[0]] + std::log(static_cast<double>(o.min_p))) --keep;
  Distribution p(x.size());
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
  Text draft_tokens;
  for (std::int64_t i = match.next; match.length > 0 && static_cast<int>(draft_tokens.size()) < kDraftTokens; ++i)
    draft_tokens.push_back(i < static_cast<std::int64_t>(text.size())
                               ? text[static_cast<std::size_t>(i)]
                               : draft_tokens[static_cast<std::size_t>(i) - text.size()]);
  return draft_tokens;
}

// A model that draws with the random numbers of the text; or whose best token is always the draft token.
Text draw_from_small(SamplerChain& own, const SamplerChain& target, int last, bool greedy) {
  Text draft_tokens;
  own.follow(target);
  for (int i = 0; i < kDraftTokens; ++i) {
    std::vector<float> x = logits(draft_tokens.empty() ? last : draft_tokens.back(), true);
    const std::int32_t best = static_cast<std::int32_t>(std::max_element(x.begin(), x.end()) - x.begin());
    const std::int32_t id = greedy ? best : own.sample(x).id;
    own.accept(id);
    draft_tokens.push_back(id);
  }
  return draft_tokens;
}

struct Drawn {
  Text text{0, 1};
  std::int64_t drafted = 0, right = 0;
};

Drawn draw(const SamplingOptions& options, const std::string& drafter) {
  SamplerChain chain(options, kVocab), small(options, kVocab);
  SuffixAutomaton automaton;
  TextMemory memory(1 << 16);
  Drawn out;
  chain.accept_prompt(out.text);
  Text earlier;
  while (static_cast<int>(out.text.size()) < kDraws) {
    Text draft_tokens;
    if (drafter == "lookup") draft_tokens = lookup(automaton, out.text);
    if (drafter == "store") {
      if (out.text.size() % 500 < 3) memory.add(std::span(out.text).last(std::min<std::size_t>(500, out.text.size())));
      const auto found = memory.find(out.text);
      draft_tokens.assign(found.followed.begin(),
                          found.followed.begin() + std::min<std::ptrdiff_t>(kDraftTokens, std::ssize(found.followed)));
    }
    if (drafter == "model") draft_tokens = draw_from_small(small, chain, out.text.back(), false);
    if (drafter == "best of a model") draft_tokens = draw_from_small(small, chain, out.text.back(), true);
    out.drafted += static_cast<std::int64_t>(draft_tokens.size());
    out.right += static_cast<std::int64_t>(verify_drafts(draft_tokens, [&](std::size_t) {
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
    for (const std::string drafter : {"none", "lookup", "store", "model", "best of a model"}) {
      SCOPED_TRACE(name + ", " + drafter);
      const Drawn drawn = draw(options, drafter);
      if (drafter != "none") {
        EXPECT_GT(drawn.right, kDraws / 100);
        EXPECT_LT(drawn.right, drawn.drafted);
      }
      // More: the very tokens that the seed gives without draft tokens.
      const std::size_t n = std::min(drawn.text.size(), plain.text.size());
      EXPECT_TRUE(
          std::equal(plain.text.begin(), plain.text.begin() + static_cast<std::ptrdiff_t>(n), drawn.text.begin()));
      std::map<std::pair<int, int>, std::array<double, kVocab>> counts;
      for (std::size_t i = 2; i < drawn.text.size(); ++i)
        ++counts[{options.penalises() ? drawn.text[i - 2] : 0, drawn.text[i - 1]}]
                [static_cast<std::size_t>(drawn.text[i])];
      double chi2 = 0, freedom = 0;
      for (const auto& [context, count] : counts) {
        const std::vector<std::int32_t> last{context.first, context.second};
        const Distribution p = expected(options, logits(context.second, false), last);
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

// The model's logits behind every token of `text` from the last of the first `prompt` on, with the bits that they have
// where the text is generated: drafted tokens have those of single steps (kv/drafted_test.cpp). (rows, vocab)
std::vector<float> logits_of(Team& team, const model::Model& model, const Text& text, std::size_t prompt) {
  constexpr std::int64_t kStep = 16;
  kv::Cache cache(team, model::cache_shape(model.spec()), {.k_codec = "f32", .v_codec = "f32", .max_tokens = 512});
  model::Forward forward(team, model, cache, kStep, kStep);
  kv::Sequence* s = cache.create();
  std::vector<float> all;
  for (std::size_t i = 0; i < text.size();) {
    const auto most = i == 0 ? static_cast<std::int64_t>(prompt) : std::min(kStep, 1 + cache.rules().draft_room(*s));
    const auto part = std::span(text).subspan(i, std::min(static_cast<std::size_t>(most), text.size() - i));
    const model::Input input{
        .sequence = s, .tokens = part, .logits = i == 0 ? 1 : static_cast<int>(part.size()), .decode = i > 0};
    const auto rows = forward.step({&input, 1});
    all.insert(all.end(), rows.begin(), rows.end());
    i += part.size();
  }
  cache.release(s);
  return all;
}

// Where a draw falls in its distribution, with what comes before it summed by `first(i, drawn)` and a random place
// inside: uniform in [0, 1) if the distribution is that one, whatever it is (Rosenblatt 1952).
template <class First>
double place_of(const Distribution& p, std::size_t drawn, double inside, First first) {
  double before = 0;
  for (std::size_t i = 0; i < p.size(); ++i)
    if (i != drawn && first(i, drawn)) before += p[i];
  return before + inside * p[drawn];
}

struct Places {
  static constexpr std::size_t kBins = 50;
  std::array<double, kBins> seen{};
  double total = 0;
  void add(double place) {
    ++seen[std::min(kBins - 1, static_cast<std::size_t>(place * kBins))];
    ++total;
  }
  void add(const Places& other) {
    for (std::size_t i = 0; i < kBins; ++i) seen[i] += other.seen[i];
    total += other.total;
  }
  double p() const {
    double chi2 = 0;
    for (const double n : seen) chi2 += std::pow(n - total / kBins, 2) / (total / kBins);
    return p_value(chi2, kBins - 1);
  }
};

// The drafter of the engine: 1e5 draws of a model whose file brings a block, over all settings.
TEST(DraftedDraws, OfAModelsOwnBlockHaveTheDistributionOfTheOptions) {
  constexpr std::int32_t kTokens = 175;
  constexpr int kRounds = 24, kTexts = 4;
  const std::string folder = ::testing::TempDir() + "kvasir-chi2-" + std::to_string(getpid()),
                    file = folder + "/m.gguf";
  std::filesystem::create_directories(folder);
  Team team(1);  // a busy machine must not hold up threads that wait for each other
  model::write_synthetic_model(file, model::find_synth_shape("tiny-mtp"), "q8_0", 1, team, [](auto, auto) {});
  testing::Server server(
      "f32", {}, {}, file, {.draft = {"mtp"}, .draft_tokens = kDraftTokens, .draft_always = true},
      [](std::string text) { return text; }, [](EngineOptions& o, Engine::Needs&) { o.threads = 1; });
  Places by_chance, by_id;
  std::uint64_t state = 77;  // of random places inside
  std::int64_t drafted = 0, right = 0, seed = 0, outside = 0;
  for (auto [name, options] : settings()) {
    SCOPED_TRACE(name);
    Places chance, id;
    for (int round = 0; round < kRounds; ++round) {
      std::vector<std::shared_ptr<testing::Waiter>> waiting;
      std::vector<Text> prompts;
      for (int i = 0; i < kTexts; ++i) {
        ServiceRequest r;
        prompts.push_back({300 + i, 400 + round, 500});
        r.request.prompt = prompts.back();
        r.request.max_tokens = kTokens;
        r.request.sampling = options;
        r.request.sampling.seed = ++seed;  // the same one would bring the same random numbers
        r.request.ignore_eos = true;
        waiting.push_back(server.submit(std::move(r)));
      }
      for (std::size_t i = 0; i < waiting.size(); ++i) {
        const testing::Reply reply = waiting[i]->wait();
        ASSERT_EQ(reply.tokens.size(), static_cast<std::size_t>(kTokens)) << reply.outcome.error;
        drafted += reply.outcome.draft.drafted, right += reply.outcome.draft.accepted;
        Text text = prompts[i];
        const std::size_t from = text.size();
        testing::append(text, reply.ids());
        const std::vector<float> x = logits_of(team, server.model(), text, from);
        const std::size_t vocab = x.size() / (text.size() - from + 1);
        for (std::size_t t = from; t < text.size(); ++t) {
          const Distribution p =
              expected(options, std::span(x).subspan((t - from) * vocab, vocab), std::span(text).first(t));
          const auto drawn = static_cast<std::size_t>(text[t]);
          if (p[drawn] == 0) ++outside;
          const double inside = static_cast<double>(splitmix64(state) >> 11) * 0x1p-53;
          chance.add(place_of(p, drawn, inside, [&](std::size_t a, std::size_t b) { return p[a] > p[b]; }));
          id.add(place_of(p, drawn, inside, [](std::size_t a, std::size_t b) { return a < b; }));
        }
      }
    }
    EXPECT_GT(chance.p(), 1e-3);
    EXPECT_GT(id.p(), 1e-3);
    by_chance.add(chance), by_id.add(id);
  }
  std::printf("%.0f draws, %lld draft tokens, %lld of them right, %lld draws outside; p %.3f by chance, %.3f by id\n",
              by_chance.total, static_cast<long long>(drafted), static_cast<long long>(right),
              static_cast<long long>(outside), by_chance.p(), by_id.p());
  EXPECT_LE(outside, 5);  // the sampler's sums are floats: a token at the edge of a cut may be in there and not here
  EXPECT_GE(by_chance.total, kDraws);
  EXPECT_GT(right, drafted / 20);
  EXPECT_LT(right, drafted);
  EXPECT_GT(by_chance.p(), 0.01);
  EXPECT_GT(by_id.p(), 0.01);
  std::filesystem::remove_all(folder);
}

}  // namespace drafting_chi2_test
}  // namespace kvasir::run
