// DeepSeek V2, V2-Lite, V3 and R1, Kimi K2, GLM-4.7-Flash: multi-head latent attention (model/spec.hpp, Latent); the
// first layers are dense, the others experts in groups with a shared one.
#include "hub/config_reader.hpp"
#include "model/latent_blocks.hpp"

namespace kvasir::model::archs_deepseek2 {

constexpr hub::Rename kAxk1[] = {{"post_mlp_layernorm", "post_ffw_norm"}, {"mlp.post_mlp_layernorm", "post_ffw_norm"}};

const Arch entry{.summary = "DeepSeek V2 and V3, Kimi K2, GLM-4.7-Flash",
                 .describe = latent_model,
                 .block = latent_layer,
                 .hub = {{.types = {"deepseek_v2", "deepseek_v3", "glm4_moe_lite", "kimi_k2", "sarvam_mla", "youtu"},
                          .turned = 1,
                          .read = hub::read_latent},
                         {.types = {"axk1"}, .turned = 1, .names = kAxk1, .read = hub::read_latent}}};

}  // namespace kvasir::model::archs_deepseek2
