// Parts of specifications with states in place of keys and values, as model/blocks.hpp has the others.
#pragma once

#include "model/blocks.hpp"

namespace kvasir::model {

// shortconv.in_proj, rows [b | c | u]; shortconv.conv over shortconv.l_cache tokens; shortconv.out_proj.
ShortConv short_conv(const Names& n);

// A model of Qwen: gated DeltaNet, and every full_attention_interval'th layer attention with an output gate, unless
// attention.recurrent_layers says it of every layer. post_attention_norm is the norm before the feed forward. Sizes
// ssm.{group_count, time_step_rank, state_size, inner_size, conv_kernel}. attn_qkv and attn_gate or, by key head,
// ssm_in; ssm_beta and ssm_alpha or, by key head, ssm_ba; ssm_conv1d, ssm_dt.bias, ssm_a, ssm_norm, ssm_out. attn_q has
// queries and gates head by head, [q | gate]. `tiled`: which key head a value head has, see Delta.
Delta delta(const Names& n);
LayerSpec delta_layer(const Hparams& h, int layer, bool tiled, Feed (*feed)(const Names& n));
ModelSpec delta_model(const Hparams& h, bool tiled, Feed (*feed)(const Names& n));

// Sizes as of delta_model, heads time_step_rank. ssm_in, rows [z | x | dt]; ssm_conv1d with a bias where the file has
// it; ssm_dt.bias, ssm_a, ssm_d; ssm_norm by groups where the file has it; ssm_out.
Mamba2 mamba2(const Names& n);

// Sizes ssm.{conv_kernel, inner_size, state_size, time_step_rank}. ssm_in, rows [x | z]; ssm_conv1d, with a bias where
// the file has it; ssm_x, rows [t | k | q], normed with ssm_{dt,b,c}_norm where the file has them, or without weights
// where it says ssm.dt_b_c_rms; ssm_dt, ssm_a, ssm_d, ssm_out.
Mamba mamba(const Names& n);

// Heads of kda.head_dim, as many as ssm_beta has rows. attn_{q,k,v} or attn_qkv; ssm_conv1d_{q,k,v} over
// ssm.conv_kernel tokens; ssm_beta; ssm_f_a and ssm_f_b, or ssm_f_a alone, make what is forgotten, ssm_g_a and ssm_g_b
// likewise the gate; ssm_dt.bias, ssm_a, ssm_norm, attn_output.
KeyedDelta keyed_delta(const Names& n);

}  // namespace kvasir::model
