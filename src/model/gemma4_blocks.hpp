// Parts of Gemma 4 that its drafting models have, too: model/archs/gemma4.cpp, gemma4-assistant.cpp.
#pragma once

#include <string_view>
#include <vector>

#include "hub/family.hpp"
#include "model/blocks.hpp"

namespace kvasir::model {

// Heads, sizes, window, RoPE (0: of layers without a window, 1: with one), the norm of queries and attn_output; of
// queries, keys and values nothing else.
Attention gemma4_heads(const Names& n);
// The two ropes that these layers name.
std::vector<Rope> gemma4_ropes(const Hparams& h);

// Names of layers that only Gemma 4 has, besides those of its experts and inputs.
inline constexpr hub::Rename kGemma4Scalar = {"layer_scalar", "layer_output_scale.weight"};

}  // namespace kvasir::model
