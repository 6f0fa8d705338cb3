// Models of multi-head latent attention: what the entries deepseek2 and mistral4 are made of.
#pragma once

#include "model/blocks.hpp"

namespace kvasir::model {

// Tensors attn_q_a, attn_q_a_norm and attn_q_b, or attn_q; attn_kv_a_mqa and attn_kv_a_norm; attn_k_b and attn_v_b, or
// in older files attn_kv_b; attn_output.
LayerSpec latent_layer(const Hparams& h, int layer);
ModelSpec latent_model(const Hparams& h);

}  // namespace kvasir::model
