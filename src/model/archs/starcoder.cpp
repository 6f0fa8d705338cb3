// StarCoder: GPT-2 whose queries may share one key and value.
#include "hub/config_reader.hpp"
#include "model/blocks.hpp"

namespace kvasir::model::archs_starcoder {

constexpr hub::Rename kNames[] = {
    {"ln_1", "attn_norm"},          {"ln_2", "ffn_norm"},   {"attn.c_attn", "attn_qkv", hub::Make::kByHead},
    {"attn.c_proj", "attn_output"}, {"mlp.c_fc", "ffn_up"}, {"mlp.c_proj", "ffn_down"}};

const Arch entry{.summary = "StarCoder, SantaCoder",
                 .describe = gpt2_model,
                 .hub = {{.types = {"gpt_bigcode"}, .names = kNames, .read_all = hub::read_gpt2}}};

}  // namespace kvasir::model::archs_starcoder
