#include "run/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "base/check.hpp"
#include "run/softmax.hpp"

namespace kvasir::run {
namespace {

constexpr std::size_t kBlock = 256;

std::int64_t choose_seed(std::int64_t wanted) {
  if (wanted >= 0) return wanted;
  std::random_device source;
  const std::uint64_t bits = (static_cast<std::uint64_t>(source()) << 32) | source();
  return static_cast<std::int64_t>(bits >> 1);
}

const SamplingOptions& validated(const SamplingOptions& options, std::int32_t vocab) {
  KVASIR_CHECK(vocab >= 1);
  validate(options, vocab);
  return options;
}

std::vector<const Sampler*> active_stages(const SamplingOptions& options) {
  std::vector<const Sampler*> stages;
  for (const auto& entry : samplers()) {
    if (!entry.value->active(options)) continue;
    if (options.temperature == 0 && !entry.value->changes_best) continue;
    stages.push_back(entry.value);
  }
  std::stable_sort(stages.begin(), stages.end(), [](auto* a, auto* b) { return a->order < b->order; });
  return stages;
}

}  // namespace

SamplerChain::SamplerChain(const SamplingOptions& options, std::int32_t vocab)
    : options_(validated(options, vocab)),
      vocab_(vocab),
      seed_(choose_seed(options.seed)),
      rng_(static_cast<std::uint64_t>(seed_)),
      history_(vocab, options.penalises() ? options.penalty_last_n : 0),
      candidates_(vocab),
      stages_(active_stages(options)),
      block_mass_((static_cast<std::size_t>(vocab) + kBlock - 1) / kBlock) {}

void SamplerChain::accept(std::int32_t id) {
  KVASIR_CHECK(id >= 0 && id < vocab_);
  history_.add(id);
}

void SamplerChain::accept_prompt(std::span<const std::int32_t> ids) {
  for (std::int32_t id : ids)
    if (id >= 0) accept(id);  // rows are no tokens
}

void SamplerChain::follow(const SamplerChain& other) {
  KVASIR_CHECK(vocab_ == other.vocab_);
  rng_ = other.rng_;
  if (options_.penalises()) history_ = other.history_;
}

Sampled SamplerChain::sample(std::span<float> logits) {
  KVASIR_CHECK(logits.size() == static_cast<std::size_t>(vocab_));
  survivors_ = {};
  candidates_.start(logits);
  std::size_t next = 0;
  for (; next < stages_.size() && stages_[next]->order < Sampler::kFirstCut; ++next)
    stages_[next]->apply(options_, history_, candidates_);
  Candidate best = candidates_.best();
  if (best.id < 0) return {-1, std::numeric_limits<float>::quiet_NaN()};
  if (best.logit == std::numeric_limits<float>::infinity()) return {best.id, 0};
  if (next == stages_.size() && options_.temperature == 0) return {best.id, 0};
  for (; next < stages_.size(); ++next) stages_[next]->apply(options_, history_, candidates_);
  if (options_.temperature == 0) return {candidates_.best().id, 0};
  return draw();
}

// Inverse of the cumulative distribution in the order of the list. Sums are made per block of 256 candidates, so that
// finding the place costs a walk over block sums and over one block.
Sampled SamplerChain::draw() {
  const std::span<Candidate> list = candidates_.list();
  survivors_ = list;
  const float max = candidates_.best().logit;
  double total = 0;
  for (std::size_t begin = 0, block = 0; begin < list.size(); begin += kBlock, ++block) {
    const std::size_t end = std::min(begin + kBlock, list.size());
    double mass = 0;
    for (std::size_t i = begin; i < end; ++i) mass += exp_nonpositive(list[i].logit - max);
    block_mass_[block] = mass;
    total += mass;
  }
  double left = rng_.uniform() * total;
  std::size_t begin = 0;
  for (std::size_t block = 0; begin + kBlock < list.size() && left >= block_mass_[block]; ++block, begin += kBlock)
    left -= block_mass_[block];
  // Rounding may leave `left` beyond the last candidate: then the last one with a probability is it.
  std::size_t chosen = begin;
  float chosen_mass = 0;
  for (std::size_t i = begin; i < std::min(begin + kBlock, list.size()); ++i) {
    const float mass = exp_nonpositive(list[i].logit - max);
    if (mass == 0) continue;
    chosen = i;
    chosen_mass = mass;
    if (left < mass) break;
    left -= mass;
  }
  return {list[chosen].id, static_cast<float>(std::log(chosen_mass / total))};
}

}  // namespace kvasir::run
