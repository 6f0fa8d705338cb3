// Nemotron-H and Nemotron Nano 2: every layer is Mamba-2, attention without positions, or a feed forward of squared
// ReLU.
#include "hub/config_reader.hpp"
#include "hub/family_names.hpp"
#include "model/recurrent_blocks.hpp"

namespace kvasir::model::archs_nemotron_h {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    const Norm norm = n.rms("attn_norm");
    if (h.in_layer("feed_forward_length", l, {}, 0) > 0) {
      m.layers.push_back(
          {.mixer = NoMixer{}, .feed_norm = norm, .feed = plain(n, Activation::kRelu2, Bias::kIfPresent)});
    } else if (h.attends(l)) {
      Attention a = attention(n);
      a.rope = -1;
      m.layers.push_back({.norm = norm, .mixer = a, .feed = NoFeed{}});
    } else {
      m.layers.push_back({.norm = norm, .mixer = mamba2(n), .feed = NoFeed{}});
    }
  }
  return m;
}

const Arch entry{.summary = "Nemotron-H and Nemotron Nano 2 (Mamba-2)",
                 .describe = describe,
                 .hub = {{.types = {"nemotron_h"}, .names = hub::kMixer, .read = hub::read_nemotron_h}}};

}  // namespace kvasir::model::archs_nemotron_h
