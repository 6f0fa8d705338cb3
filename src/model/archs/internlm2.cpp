// InternLM 2: Llama, whose folders have queries, keys and values in one matrix by KV head.
#include "model/blocks.hpp"

namespace kvasir::model::archs_internlm2 {

static ModelSpec describe(const Hparams& h) { return llama_like_model(h, kernel::RopePairs::kAdjacent); }

constexpr hub::Rename kNames[] = {{"attention_norm", "attn_norm"},
                                  {"ffn_norm", "ffn_norm"},
                                  {"attention.wqkv", "attn_qkv", hub::Make::kByHead},
                                  {"attention.wo", "attn_output"},
                                  {"feed_forward.w1", "ffn_gate"},
                                  {"feed_forward.w3", "ffn_up"},
                                  {"feed_forward.w2", "ffn_down"}};

const Arch entry{.summary = "InternLM 2 and 2.5",
                 .describe = describe,
                 .hub = {{.types = {"internlm2"}, .pairs = true, .names = kNames}}};

}  // namespace kvasir::model::archs_internlm2
