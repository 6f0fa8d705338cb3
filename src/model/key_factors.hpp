// What the model file says about a model's keys before any text is read: factors that make them easier to store
// (kv::CacheOptions::key_factors), and how much scores suffer from what is lost (kv/share_policy.hpp).
//
// A codec that turns keys spreads its error evenly over the channels of a head. So the noise on a score grows with
//   sum over channels of E k^2 / s^2, times sum over channels of s^2 E q^2
// where s divides keys and multiplies queries. By Cauchy and Schwarz it is least for s^2 = sqrt(E k^2 / E q^2). Keys
// with a few channels a hundred times the others (Qwen 2: biases) lose two to four bits of noise that way.
//
// E k^2 and E q^2 are known before any text is read where keys and queries are normed (the weights of the norms), and
// nearly known where a bias rules (the rows of W and the bias). Elsewhere s is 1.
//
// A text tells more: the queries' second moments, so that a codec may feed its rounding errors back (kv/feedback.hpp).
// Then the noise grows with sum E k^2 / s^2 times the geometric mean of the eigenvalues of s H s, in which s does not
// count; it is least where all channels of k / s are equally large, s^2 = E k^2.
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
  // By layer: (kv_heads, d, d), E q q^T of the queries as positions up to kTurns have them, or empty: not known.
  std::vector<std::vector<float>> metrics = {};
};
inline constexpr double kUnknownGain = 5;  // nats^2: what the models that were measured have on average

// Reads a part of the matrices of queries and keys. Throws what check_tensors does.
KeyFacts key_facts(const ModelSpec& spec, const weights::ModelFile& file, bool exact);

// Whether layer `l` has keys of its own that may have factors. Latent layers have none: their values are a part of
// their keys.
bool has_key_factors(const ModelSpec& spec, int layer);

// Positions that the queries of a text are turned to, so that what it shows of its first hundred tokens holds behind
// long texts: more let slow pairs look as if they had no direction.
inline constexpr int kTurns = 4096;

// moments: (kv_heads, d, d) of one layer, E q q^T of queries behind RoPE (kv::query_moments). Turns them by 0 to
// kTurns - 1 more positions and takes the mean, exactly.
void average_turns(const ModelSpec& spec, int layer, std::vector<float>* moments);

// `known`, and of the layers that ran through the model with a text what queries and keys show. moments: by layer, as
// average_turns leaves them; empty where none were seen.
KeyFacts key_facts(const ModelSpec& spec, const kv::GainMeter& meter, std::vector<std::vector<float>> moments,
                   const KeyFacts& known);

}  // namespace kvasir::model
