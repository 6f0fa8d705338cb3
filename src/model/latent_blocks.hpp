// Models of multi-head latent attention: what the entries deepseek2, deepseek32, glm-dsa, mistral4 and kimi-linear are
// made of.
#pragma once

#include "model/blocks.hpp"

namespace kvasir::model {

// Tensors attn_q_a, attn_q_a_norm and attn_q_b, or attn_q; attn_kv_a_mqa and attn_kv_a_norm; attn_k_b and attn_v_b, or
// in older files attn_kv_b; attn_output; post_ffw_norm where the layer has it (A.X-K1).
LayerSpec latent_layer(const Hparams& h, int layer);
Attention latent_attention(const Names& n);
// Dense in the first leading_dense_block_count layers, then experts, by sigmoid where their choice has a bias.
Feed latent_feed(const Names& n, bool normalise = false);
// RoPE of the parts that turn.
Rope latent_rope(const Hparams& h);
ModelSpec latent_model(const Hparams& h);

// With an indexer (model::Indexer) in the layers that have one; the others see what the last one before them chose:
// indexer.attn_q_b, indexer.attn_k, indexer.k_norm with bias, indexer.proj. It turns its rows as `pairs` say.
ModelSpec indexed_model(const Hparams& h, kernel::RopePairs pairs);

}  // namespace kvasir::model
