// The preset `auto`: how many bits a layer's keys and values need for the noise on its scores to stay within a budget.
//
// A codec of relative distortion D (E|x - x^|^2 / E|x - mu|^2, mu the mean of the page) whose error points anywhere, as
// that of rotated codecs does, puts noise of variance
//   e^2 = scale^2 E|q|^2 E|k - mu|^2 D / d
// on a score before the softmax, in nats^2. Noise e on the scores moves the output by sum w_t^2 e^2 |v_t - out|^2 in
// the mean square, distortion D of the values by sum w_t^2 D |v_t - mu|^2: so for values sqrt(D) is the noise that has
// the same effect, and both have the same budget.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kv/cache.hpp"
#include "kv/codec.hpp"

namespace kvasir::kv {

struct AutoLayer {
  std::string k_codec;
  std::string v_codec;
  double k_noise = 0;  // nats; 0 with f16
  double v_noise = 0;
};

struct AutoChoice {
  std::vector<AutoLayer> layers;
  double budget = 0;
  std::string source;  // what it was computed from, for the user

  std::vector<LayerCodecs> codecs() const;  // for CacheOptions::layers
  double largest_noise() const;
  // One line: "rq4/rq3 in layers 0-3, rq3 in layers 4-7; noise at most 0.14 of 0.2 nats (...)".
  std::string text() const;
};

// The smallest rotated codec within `budget` for every layer, f16 where none is. gains[l]: noise variance of layer l's
// scores per unit of relative distortion, of its worst query head. REQUIRES: budget > 0, a gain per layer.
AutoChoice choose_codecs(const CacheShape& shape, std::span<const double> gains, double budget);

// E|x - x^|^2 / E|x|^2 of Gaussian rows, as this codec stores them at this head size.
double relative_distortion(const Codec& codec, const CodecParams& params, int d, Side side);

// Gains from queries and keys that ran through the model.
class GainMeter {
 public:
  // scale: of the scores. Of every sequence the first `sinks` tokens are left out: they stay raw.
  GainMeter(const CacheShape& shape, float scale, int sinks);

  // Rows of one step, as Forward's observer gets them: q (n, query_heads, d), k (n, kv_heads, d), rotated; row r stands
  // at position first + r. Steps of a layer arrive in order.
  void add(int layer, std::int64_t first, int n, const float* q, const float* k);

  std::int64_t tokens() const;  // that were counted, of the layer with the fewest
  std::vector<double> gains() const;

 private:
  struct PageSums {
    std::vector<double> sum;  // (d)
    double squares = 0;
    std::int64_t count = 0;
  };
  struct Head {
    PageSums page;          // of the page being filled
    double deviations = 0;  // sum |k - mu|^2 of the pages before
    std::int64_t degrees = 0;
  };
  struct Layer {
    std::vector<double> query_squares;  // (query_heads)
    std::vector<Head> heads;            // (kv_heads)
    std::int64_t tokens = 0;
  };
  void close_page(Head& head) const;

  CacheShape shape_;
  double scale_;
  int sinks_;
  std::vector<Layer> layers_;
};

}  // namespace kvasir::kv
