// The choice of `--kv auto`: the fewest bits per layer with which the noise on the scores stays within a budget.
//
// Let x^ be what a codec stores of x, and mu the mean of the page. The codec's relative distortion is
//   D = E|x - x^|^2 / E|x - mu|^2
//
// Keys. The error of a rotated codec has a random direction. So it puts noise on a score before the softmax, with the
// variance, in nats^2,
//   e^2 = scale^2 E|q|^2 E|k - mu|^2 D / d
//
// Values. The output has the weights w_t. Its mean squared error is
//   sum w_t^2 e^2 |v_t - out|^2     from noise e on the scores
//   sum w_t^2 D   |v_t - mu|^2      from distortion D of the values
// The two are alike when e = sqrt(D). So sqrt(D) is held against the same budget as e.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kv/codec.hpp"
#include "kv/options.hpp"

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
// scores per unit of relative distortion, of its worst query head. REQUIRES: budget > 0; gains as share_out has them.
AutoChoice choose_codecs(const CacheShape& shape, std::span<const double> gains, double budget);

// E|x - x^|^2 / E|x|^2 of Gaussian rows, as this codec stores them at this head size.
double relative_distortion(const Codec& codec, const CodecParams& params, int d, Side side);

// Gains from queries and keys that ran through the model.
class GainMeter {
 public:
  // scale: of the scores. Of every sequence the first `sinks` tokens are left out: they stay raw.
  GainMeter(const CacheShape& shape, float scale, int sinks);

  // Rows of one step, as Forward's observer gets them: q (n, query_heads, d), k (n, kv_heads, d), after RoPE. Row r is
  // at position first + r. Steps of a layer arrive in order. k is null for layers that read another layer's keys; these
  // layers are not counted.
  void add(int layer, std::int64_t first, int n, const float* q, const float* k);

  std::int64_t tokens() const;  // that were counted, of the layer with the fewest
  std::vector<double> gains() const;

  // By channel, (kv_heads, d): variance of the keys around the means of their pages, and E q^2 over the query heads
  // that read them.
  struct Squares {
    std::vector<double> keys, queries;
  };
  // Of a layer with keys of its own; empty when no token was counted there.
  Squares squares(int layer) const;

 private:
  struct PageSums {
    std::vector<double> sum, squares;  // (d)
    std::int64_t count = 0;
  };
  struct Head {
    PageSums page;                   // of the page being filled
    std::vector<double> deviations;  // (d), sum (k - mu)^2 of the pages before
    std::int64_t degrees = 0;
  };
  struct Layer {
    std::vector<double> query_squares;  // (query_heads, d)
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
