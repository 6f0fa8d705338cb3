// DeepSeek V2, V2-Lite, V3 and R1, Kimi K2, GLM-4.7-Flash: multi-head latent attention (model/spec.hpp, Latent); the
// first layers are dense, the others experts in groups with a shared one.
#include "model/latent_blocks.hpp"

namespace kvasir::model::archs_deepseek2 {

const Arch entry = {"DeepSeek V2 and V3, Kimi K2, GLM-4.7-Flash", latent_model, latent_layer};

}  // namespace kvasir::model::archs_deepseek2
