// Parts of specifications with experts, as model/blocks.hpp has the others.
#pragma once

#include "model/blocks.hpp"

namespace kvasir::model {

// Whether the file says that its feed forwards are experts (expert_count).
bool has_experts(const Hparams& h);

// ffn_gate_inp and ffn_{gate,up,down}_exps, or gate and up in one tensor ffn_gate_up_exps; expert_count of them, of
// which expert_used_count are used, `width` wide each. Softmax, weights divided by their sum, times
// expert_weights_scale.
Experts experts(const Names& n, std::int64_t width, Activation activation = Activation::kSilu, Bias bias = Bias::kNone);

// How files of several architectures say it: expert_gating_func (1 softmax, 2 sigmoid, 3 softmax of the chosen) and
// expert_weights_norm; without the keys as given. exp_probs_b, where it is there, is added for the choice.
void read_gating(const Names& n, Gating gating, bool normalise, Experts& e);

// expert_feed_forward_length, else `fallback`.
std::int64_t expert_width(const Hparams& h, std::int64_t fallback);

// ffn_{gate,up,down}_shexp.
Dense shared_expert(const Names& n, std::int64_t width, Activation activation = Activation::kSilu);

// Of layers that have a router, experts of expert_feed_forward_length as read_gating says, beside a shared one where
// there is one; of others a gated feed forward.
Feed feed_by_router(const Names& n, Gating gating, bool normalise);

// Qwen 3 with experts, also the text half of its models of pictures.
ModelSpec qwen3_experts_model(const Hparams& h);

// Of the models of Qwen since Qwen3-Next: weights divided by their sum, and where the file has it a shared expert of
// expert_shared_feed_forward_length whose part ffn_gate_inp_shexp decides.
Experts qwen_experts(const Names& n);

}  // namespace kvasir::model
