#include "run/pooling.hpp"

#include <utility>

#include "base/check.hpp"
#include "base/error.hpp"

namespace kvasir::run {

using model::Pooling;

Pooled::Pooled(model::Forward& forward, Pooling pooling, const model::ModelSpec& spec)
    : forward_(forward),
      rank_(pooling == Pooling::kRank),
      pooling_(!rank_        ? pooling
               : spec.causal ? Pooling::kLast
                             : spec.rank.pooling),
      state_(static_cast<std::size_t>(spec.dim)) {
  if (pooling_ == Pooling::kMean) sum_.resize(state_.size());
  if (pooling_ == Pooling::kNone) sum_.resize(static_cast<std::size_t>(spec.rank.output.rows));
}

void Pooled::add_to_sum(std::span<const float> x) {
  for (std::size_t i = 0; i < sum_.size(); ++i) sum_[i] += static_cast<double>(x[i]);
}

void Pooled::add(int row, std::int64_t count) {
  if (pooling_ == Pooling::kMean || pooling_ == Pooling::kNone) {
    for (std::int64_t r = 0; r < count; ++r) {
      forward_.head().state(row + static_cast<int>(r), state_.data());
      pooling_ == Pooling::kMean ? add_to_sum(state_) : add_to_sum(forward_.head().rank(state_));
    }
  } else if (pooling_ == Pooling::kLast) {
    forward_.head().state(row + static_cast<int>(count) - 1, state_.data());
  } else if (tokens_ == 0) {
    forward_.head().state(row, state_.data());
  }
  tokens_ += count;
}

std::vector<float> Pooled::take() {
  KVASIR_CHECK(tokens_ > 0);
  if (!sum_.empty()) {
    state_.resize(sum_.size());
    for (std::size_t i = 0; i < sum_.size(); ++i)
      state_[i] = static_cast<float>(sum_[i] / static_cast<double>(tokens_));
  }
  if (!rank_) return forward_.head().vector_of(state_);
  return pooling_ == Pooling::kNone ? std::move(state_) : forward_.head().rank(state_);
}

Pooling default_pooling(const model::ModelSpec& spec) {
  if (spec.pooling != Pooling::kNone && spec.pooling != Pooling::kRank) return spec.pooling;
  return spec.causal ? Pooling::kLast : Pooling::kMean;
}

void check_pooled(const model::Model& model, const ModelCard& card, const Request& request) {
  const auto tokens = static_cast<std::int64_t>(request.prompt.size());
  if (tokens == 0) throw Error(Code::kBadInput, "is empty, expected at least one token", "input");
  if (tokens > card.context)
    throw Error(Code::kBadInput,
                "has " + std::to_string(tokens) + " tokens, expected at most the context's " +
                    std::to_string(card.context) + " (see --ctx)",
                "input");
  for (const std::int32_t id : request.prompt)
    if (id < 0 || id >= model.spec().vocab)
      throw Error(Code::kBadInput,
                  "token " + std::to_string(id) + ", expected 0.." + std::to_string(model.spec().vocab - 1), "input");
  if (request.pooling == Pooling::kRank && !model.spec().rank)
    throw Error(Code::kUnsupported, "has no head that ranks (cls.output.weight)", "model");
}

}  // namespace kvasir::run
