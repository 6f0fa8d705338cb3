// GPT-2: learned positions, layer norms and biases everywhere.
#include "model/blocks.hpp"
#include "weights/safetensors/config_reader.hpp"

namespace kvasir::model::archs_gpt2 {

constexpr weights::Rename kNames[] = {{"ln_1", "attn_norm"},
                                      {"ln_2", "ffn_norm"},
                                      {"attn.c_attn", "attn_qkv", weights::Make::kTurned},
                                      {"attn.c_proj", "attn_output", weights::Make::kTurned},
                                      {"mlp.c_fc", "ffn_up", weights::Make::kTurned},
                                      {"mlp.c_proj", "ffn_down", weights::Make::kTurned}};

const Arch entry{.summary = "GPT-2",
                 .describe = gpt2_model,
                 .hub = {{.types = {"gpt2"}, .names = kNames, .read_all = weights::read_gpt2}}};

}  // namespace kvasir::model::archs_gpt2
