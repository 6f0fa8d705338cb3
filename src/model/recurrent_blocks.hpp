// Parts of specifications with states in place of keys and values, as model/blocks.hpp has the others.
#pragma once

#include "model/blocks.hpp"

namespace kvasir::model {

// shortconv.in_proj, rows [b | c | u]; shortconv.conv over shortconv.l_cache tokens; shortconv.out_proj.
ShortConv short_conv(const Names& n);

// Sizes ssm.{group_count, time_step_rank, state_size, inner_size, conv_kernel}. attn_qkv and attn_gate or, by key head,
// ssm_in; ssm_beta and ssm_alpha or, by key head, ssm_ba; ssm_conv1d, ssm_dt.bias, ssm_a, ssm_norm, ssm_out.
Delta delta(const Names& n);
// Of layer l in models of Qwen: whether it is one of these. Every full_attention_interval'th layer is attention, unless
// attention.recurrent_layers says it of every layer.
bool is_delta(const Hparams& h, int layer);
// Attention whose queries and output gates are the rows of attn_q, head by head [q | gate], with norms of heads.
Attention gated_attention(const Names& n);

// Sizes as of delta, heads time_step_rank. ssm_in, rows [z | x | dt]; ssm_conv1d with a bias where the file has it;
// ssm_dt.bias, ssm_a, ssm_d; ssm_norm by groups where the file has it; ssm_out.
Mamba2 mamba2(const Names& n);

}  // namespace kvasir::model
