// EXAONE 3 and 3.5: Llama with other pairs in RoPE.
#include "model/blocks.hpp"

namespace kvasir::model::archs_exaone {

static ModelSpec describe(const Hparams& h) { return llama_like_model(h, kernel::RopePairs::kSplitHalf); }

constexpr hub::Rename kNames[] = {{"ln_1", "attn_norm"},
                                  {"ln_2", "ffn_norm"},
                                  {"attn.attention.q_proj", "attn_q"},
                                  {"attn.attention.k_proj", "attn_k"},
                                  {"attn.attention.v_proj", "attn_v"},
                                  {"attn.attention.out_proj", "attn_output"},
                                  {"mlp.c_fc_0", "ffn_gate"},
                                  {"mlp.c_fc_1", "ffn_up"},
                                  {"mlp.c_proj", "ffn_down"}};

const Arch entry{.summary = "EXAONE 3 and 3.5", .describe = describe, .hub = {{.types = {"exaone"}, .names = kNames}}};

}  // namespace kvasir::model::archs_exaone
