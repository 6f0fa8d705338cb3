// Mamba and Falcon Mamba: one mixer in every layer and no feed forward.
#include "hub/config_reader.hpp"
#include "hub/family_names.hpp"
#include "model/recurrent_blocks.hpp"

namespace kvasir::model::archs_mamba {

static ModelSpec describe(const Hparams& h) {
  ModelSpec m = around(h, Names(h).rms("output_norm"));
  for (int l = 0; l < h.layers(); ++l) {
    const Names n(h, l);
    m.layers.push_back({.norm = n.rms("attn_norm"), .mixer = model::mamba(n), .feed = NoFeed{}});
  }
  return m;
}

const Arch entry{.summary = "Mamba and Falcon Mamba",
                 .describe = describe,
                 .hub = {{.types = {"mamba", "falcon_mamba"}, .names = hub::kMixer, .read_all = hub::read_mamba1}}};

}  // namespace kvasir::model::archs_mamba
