// How a drafter that has logits drafts: it draws as the request does, with the random numbers that the request
// will draw with, so that both often draw the same.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "run/drafter.hpp"

namespace kvasir::run {

// Of one text.
class DraftSampler {
 public:
  // vocab: of the model that is drafted for; ids below `known` are the drafter's, too.
  DraftSampler(const Answer& answer, std::int32_t vocab, std::int32_t known);

  void begin(const Round& round);
  // The next draft token by a row of (known) logits, if one may follow. `room`: (vocab).
  void add(Round& round, std::span<const float> row, std::span<float> room);
  // Whether a draft token behind the `made` ones is worth computing.
  bool goes_on(const Round& round, int made) const;

 private:
  SamplerChain chain_;
  std::int32_t known_;
  Answer::Ahead ahead_;
  double chance_ = 0;  // that all draft tokens so far are right
};

}  // namespace kvasir::run
