// What folders of encoders call the tensors that GGUF has. Those of one architecture stand in its entry.
#pragma once

#include "hub/family.hpp"

namespace kvasir::hub {

inline constexpr Rename kBert[] = {
    {"attention.self.query", "attn_q"},
    {"attention.self.key", "attn_k"},
    {"attention.self.value", "attn_v"},
    {"attention.output.dense", "attn_output"},
    {"attention.output.LayerNorm", "attn_output_norm"},
    {"intermediate.dense", "ffn_up"},
    {"output.dense", "ffn_down"},
    {"output.LayerNorm", "layer_output_norm"},
    // Jina Embeddings 2.
    {"mlp.gated_layers", "ffn_up"},
    {"mlp.wo", "ffn_down"},
    {"mlp.layernorm", "layer_output_norm"},
    // The same for code.
    {"attention.self.layer_norm_q", "attn_q_norm"},
    {"attention.self.layer_norm_k", "attn_k_norm"},
    {"mlp.up_gated_layer", "ffn_up"},
    {"mlp.down_layer", "ffn_down"},
    {"layer_norm_1", "attn_norm_2"},
    {"layer_norm_2", "layer_output_norm"},
};
inline constexpr Rename kDistilBert[] = {{"attention.q_lin", "attn_q"},
                                         {"attention.k_lin", "attn_k"},
                                         {"attention.v_lin", "attn_v"},
                                         {"attention.out_lin", "attn_output"},
                                         {"sa_layer_norm", "attn_output_norm"},
                                         {"ffn.lin1", "ffn_up"},
                                         {"ffn.lin2", "ffn_down"},
                                         {"output_layer_norm", "layer_output_norm"}};
// Nomic Embed and Jina Embeddings 3.
inline constexpr Rename kWqkv[] = {{"attn.Wqkv", "attn_qkv"},     {"attn.out_proj", "attn_output"},
                                   {"mixer.Wqkv", "attn_qkv"},    {"mixer.out_proj", "attn_output"},
                                   {"mlp.fc1", "ffn_up"},         {"mlp.fc11", "ffn_up"},
                                   {"mlp.fc12", "ffn_gate"},      {"mlp.fc2", "ffn_down"},
                                   {"norm1", "attn_output_norm"}, {"norm2", "layer_output_norm"}};

inline constexpr Rename kOfEncoder[] = {{"embeddings.word_embeddings", "token_embd"},
                                        {"embeddings.tok_embeddings", "token_embd"},
                                        {"encoder", "token_embd"},  // of NeoBERT
                                        {"embeddings.token_type_embeddings", "token_types"},
                                        {"embeddings.position_embeddings", "position_embd"},
                                        {"embeddings.LayerNorm", "token_embd_norm"},
                                        {"embeddings.norm", "token_embd_norm"},
                                        {"emb_ln", "token_embd_norm"},
                                        {"final_norm", "output_norm"},
                                        {"layer_norm", "enc.output_norm"},
                                        // Heads that rank.
                                        {"pooler.dense", "cls"},
                                        {"pre_classifier", "cls"},
                                        {"head.dense", "cls"},
                                        {"dense", "cls"},
                                        {"classifier.dense", "cls"},
                                        {"head.norm", "cls.norm"},
                                        {"classifier", "cls.output"},
                                        {"classifier.out_proj", "cls.output"}};
// What is of no use to them: heads that guess masked tokens, and buffers.
inline constexpr std::string_view kUnusedOfEncoder[] = {
    "cls.predictions.",        "cls.seq_relationship.",    "lm_head.", "decoder.", "vocab_",
    "embeddings.position_ids", "embeddings.token_type_ids"};

}  // namespace kvasir::hub
