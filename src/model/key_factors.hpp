// What the model file says about a model's keys before any text is read: factors that make them easier to store
// (kv::CacheOptions::key_factors), and how much scores suffer from what is lost (kv/share_policy.hpp).
//
// A codec that turns keys spreads its error evenly over the channels of a head. So the noise on a score grows with
//   sum over channels of E k^2 / s^2, times sum over channels of s^2 E q^2
// where s divides keys and multiplies queries. By Cauchy and Schwarz it is least for s^2 = sqrt(E k^2 / E q^2). Keys
// with a few channels a hundred times the others (Qwen 2: biases) lose two to four bits of noise that way.
//
// E k^2 and E q^2 are known before any text is read where keys and queries are normed (the weights of the norms), and
// nearly known where a bias rules (the rows of W and the bias). Elsewhere a text may tell; without one s is 1.
#pragma once

#include <vector>

#include "kv/auto_policy.hpp"
#include "model/spec.hpp"
#include "weights/model_file.hpp"

namespace kvasir::model {

struct KeyFacts {
  // By layer: (kv_heads, d), or empty where s is 1. The two channels of a RoPE pair have one factor, so that keys may
  // be turned further.
  std::vector<std::vector<float>> factors;
  // By layer: variance of the noise on scores, nats^2, per unit of the keys' relative distortion, with these factors,
  // mean over the heads, at least 1. A guess within a factor of four: inputs count as independent. kUnknownGain where
  // the file says nothing.
  std::vector<double> gains;
};
inline constexpr double kUnknownGain = 5;  // nats^2: what the models that were measured have on average

// Reads a part of the matrices of queries and keys. Throws what check_tensors does.
KeyFacts key_facts(const ModelSpec& spec, const weights::ModelFile& file, bool exact);

// Whether the file says nothing of some layer.
bool text_would_tell(const ModelSpec& spec, const KeyFacts& known);

// `known`, and of layers of which the file says nothing what queries and keys of a text show that ran through the
// model. What a file says is better than a text of some hundred tokens: Gemma 3 270M at 16 % of f16's bytes, KL 4.6e-2
// and 6.5e-2.
KeyFacts key_facts(const ModelSpec& spec, const kv::GainMeter& meter, const KeyFacts& known);

}  // namespace kvasir::model
