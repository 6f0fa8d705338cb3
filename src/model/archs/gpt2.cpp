// GPT-2: learned positions, layer norms and biases everywhere.
#include "hub/config_reader.hpp"
#include "model/blocks.hpp"

namespace kvasir::model::archs_gpt2 {

constexpr hub::Rename kNames[] = {{"ln_1", "attn_norm"},
                                  {"ln_2", "ffn_norm"},
                                  {"attn.c_attn", "attn_qkv", hub::Make::kTurned},
                                  {"attn.c_proj", "attn_output", hub::Make::kTurned},
                                  {"mlp.c_fc", "ffn_up", hub::Make::kTurned},
                                  {"mlp.c_proj", "ffn_down", hub::Make::kTurned}};

const Arch entry{.summary = "GPT-2",
                 .describe = gpt2_model,
                 .hub = {{.types = {"gpt2"}, .names = kNames, .read_all = hub::read_gpt2}}};

}  // namespace kvasir::model::archs_gpt2
