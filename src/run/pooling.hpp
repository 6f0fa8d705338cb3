// One vector of a text from the states of its tokens.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/forward.hpp"
#include "model/model.hpp"
#include "run/request.hpp"
#include "run/service.hpp"

namespace kvasir::run {

// Gathers what steps compute of one text. Means are summed in double, in order.
class Pooled {
 public:
  Pooled(model::Forward& forward, model::Pooling pooling, const model::ModelSpec& spec);

  // The next `count` tokens are the last step's rows from `row` on.
  void add(int row, std::int64_t count);
  // (ModelSpec::vector_width), or the scores of the rank head. REQUIRES: some tokens.
  std::vector<float> take();

 private:
  void add_to_sum(std::span<const float> x);

  model::Forward& forward_;
  const bool rank_;
  const model::Pooling pooling_;  // of states; kNone: the mean of ranks
  std::int64_t tokens_ = 0;
  std::vector<double> sum_;
  std::vector<float> state_;
};

// What a request gets that leaves it to the model: what the file says, else the mean for encoders and the last token
// for models that write.
model::Pooling default_pooling(const model::ModelSpec& spec);

// Throws Error: kBadInput for an empty text, one beyond the context or ids outside the vocabulary, kUnsupported for a
// rank of a model without a head for it.
void check_pooled(const model::Model& model, const ModelCard& card, const Request& request);

}  // namespace kvasir::run
