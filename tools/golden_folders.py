#!/usr/bin/env python3
"""Golden folders: small models of every type that a folder may have, with the logits that transformers computes in float32.

usage: golden_folders.py OUT [NAME ...]

Writes OUT/NAME.json (config.json and the tensors, whose values are computed from their names) and OUT/NAME.logits.f32 of
tests/golden/tokens.json, of models with PREFIX also OUT/NAME.prefix.f32. With FOLDERS in the environment the folders themselves are kept there: `kvasir quantize` makes of
some the golden models of architectures that only folders have. A value is offset + 2^exponent u, u from -1 to 1 in steps of 2^-10 by a hash of the
tensor's name and the element's number; tests/golden_folder_fixture.hpp makes the same. Needs torch and transformers 5.24.
"""
import json
import math
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "families"))
import loops  # for its classes
import numpy as np
import torch
import transformers
from remote import REMOTE
from safetensors.numpy import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

USUAL = dict(vocab_size=128, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             intermediate_size=96, max_position_embeddings=512, bos_token_id=1, eos_token_id=2, pad_token_id=None)
LATENT = dict(num_hidden_layers=3, num_key_value_heads=4, kv_lora_rank=32, qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=16,
              num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=32, first_k_dense_replace=1)
DELTA = dict(num_hidden_layers=4, head_dim=16, linear_conv_kernel_dim=3, linear_key_head_dim=8, linear_value_head_dim=8,
             linear_num_key_heads=2, linear_num_value_heads=4)
DELTA_EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=32)
FOUR = dict(num_hidden_layers=4, head_dim=16)
ROPE = dict(rope_type="default", rope_theta=10000.0)
SECTIONS = dict(**ROPE, partial_rotary_factor=0.5, mrope_section=[2, 1, 1], mrope_interleaved=True)
MAMBA = dict(mamba_n_heads=8, mamba_d_state=16, mamba_d_head=16, mamba_d_conv=4, mamba_expand=2, mamba_chunk_size=16)
GRANITE = dict(embedding_multiplier=3.0, residual_multiplier=0.5, attention_multiplier=0.3, logits_scaling=4.0)
NEMOTRON = dict(head_dim=16, mamba_num_heads=8, mamba_head_dim=16, ssm_state_size=16, n_groups=2, conv_kernel=4, chunk_size=16,
                expand=2, mlp_hidden_act="relu2", use_conv_bias=True)
OPT = dict(vocab_size=128, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, ffn_dim=96, max_position_embeddings=704,
           dropout=0.0, attention_dropout=0.0, bos_token_id=2, eos_token_id=2, pad_token_id=1)


def usual(*parts, **more):
    out = dict(USUAL)
    for part in parts:
        out.update(part)
    return {**out, **more}


def yarn(**more):
    return dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=32, rope_theta=10000.0, **more)


GPT_OSS = usual(head_dim=16, num_local_experts=4, num_experts_per_tok=2, intermediate_size=64, sliding_window=16,
                layer_types=["sliding_attention", "full_attention"], max_position_embeddings=128,
                rope_parameters=yarn(beta_fast=32.0, beta_slow=1.0, truncate=False))
HRM = dict({k: v for k, v in USUAL.items() if k != "num_key_value_heads"}, hidden_size=32, num_attention_heads=2, head_dim=16,
           intermediate_size=64, max_position_embeddings=704, H_cycles=2, L_cycles=2, embedding_scale=3.0)
# Those whose GGUF files are golden models, too.
SLIM = dict(max_position_embeddings=704, hidden_size=32, num_attention_heads=2, num_key_value_heads=1, intermediate_size=64, head_dim=16)
GPT = dict(vocab_size=128, bos_token_id=1, eos_token_id=2, pad_token_id=None)
JAMBA = dict(num_hidden_layers=4, attn_layer_period=4, attn_layer_offset=1, expert_layer_period=2, expert_layer_offset=1,
             num_experts=4, num_experts_per_tok=2, mamba_d_state=8, mamba_d_conv=4, mamba_expand=2, mamba_dt_rank=4,
             use_mamba_kernels=False)
HEADS = dict(kv_lora_rank=32, qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=16, num_local_experts=8, num_experts_per_tok=2,
             moe_intermediate_size=32, n_shared_experts=1)
# More tokens than an index chooses, and so many heads that no score is 0: torch takes any of equal scores.
INDEXED = dict(HEADS, num_key_value_heads=2, q_lora_rank=48, n_routed_experts=8, first_k_dense_replace=1, index_topk=16, index_head_dim=16,
               index_n_heads=32)
QSA = dict(indexer_n_heads=32, indexer_kv_heads=1, indexer_head_dim=16, indexer_budget=16, indexer_compress_ratio=4, hc_lowrank=8)
KIMI = dict(HEADS, linear_head_dim=16, num_key_value_heads=2)
LING = dict(HEADS, n_group=4, topk_group=2, first_k_dense_replace=1, layer_group_size=2, short_conv_kernel_size=3, num_mtp_layers=0)
LAGUNA = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=48,
              moe_routed_scaling_factor=1.5)
OLMO_HYBRID = dict(linear_num_key_heads=2, linear_num_value_heads=2, linear_key_head_dim=8, linear_value_head_dim=16)
INKLING = dict(vocab_size=128, unpadded_vocab_size=128, hidden_size=32, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
               swa_num_attention_heads=2, swa_num_key_value_heads=1, swa_head_dim=16, sliding_window_size=16, d_rel=4, rel_extent=24,
               log_scaling_n_floor=16, max_position_embeddings=704, moe_intermediate_size=32, n_routed_experts=4,
               num_experts_per_tok=2, route_scale=2.0, qk_l2_clip_threshold=2.0, rel_l2_clip_threshold=1.5, eos_token_id=2)
MIXED = ["hybrid_sliding", "hybrid"]
WINDOWS = dict(sliding_window=16, layer_types=["sliding_attention"] * 3 + ["full_attention"])
MODELS = {
    "afmoe": usual(SLIM, num_hidden_layers=4, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
                   num_shared_experts=2, num_dense_layers=1, sliding_window=16, route_scale=1.5, mup_enabled=True),
    "afmoe+two": usual(FOUR, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=32, num_shared_experts=1,
                       num_dense_layers=1, sliding_window=16, global_attn_every_n_layers=2, attention_bias=True),
    "apertus": usual(SLIM, attention_bias=True,
                     rope_parameters=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                          original_max_position_embeddings=64, rope_theta=10000.0)),
    "axk1": usual(SLIM, HEADS, num_hidden_layers=3, head_dim=8, num_key_value_heads=2, q_lora_rank=48, n_group=4, topk_group=2,
                  norm_topk_prob=True, routed_scaling_factor=1.5),
    "bamba": usual(MAMBA, num_hidden_layers=3, mamba_n_groups=1, attn_layer_indices=[1], attention_bias=True),
    "bailing_hybrid": usual(SLIM, LING, num_hidden_layers=4, num_key_value_heads=2, head_dim=16, qk_rope_head_dim=16),
    "bailing_hybrid+plain": usual(LING, num_hidden_layers=3, num_key_value_heads=4, head_dim=16, qk_rope_head_dim=16, q_lora_rank=48, kda_safe_gate=False,
                                  layer_types=["linear_attention", "full_attention", "linear_attention"]),
    "bloom": dict(GPT, hidden_size=64, n_layer=2, n_head=4),
    "cohere": usual(use_qk_norm=False),
    "cohere+norms": usual(use_qk_norm=True),
    "codegen": dict(GPT, n_embd=64, n_layer=2, n_head=4, n_positions=704, n_ctx=704, rotary_dim=8, tie_word_embeddings=False),
    "cohere2_moe": usual(SLIM, num_hidden_layers=5, sliding_window=16, num_experts=4, num_experts_per_tok=2,
                         layer_types=["full_attention"] + ["sliding_attention"] * 3 + ["full_attention"], logit_scale=0.25,
                         mlp_layer_types=["dense"] + ["sparse"] * 4, prefix_dense_intermediate_size=96),
    "cohere2_moe+average": usual(FOUR, sliding_window=16, num_experts=6, num_experts_per_tok=2, num_shared_experts=2),
    "cohere2_moe+sum": usual(FOUR, sliding_window=16, num_experts=6, num_experts_per_tok=2, expert_selection_fn="sigmoid",
                             norm_topk_prob=False, rms_norm_eps=1e-5, num_shared_experts=1,
                             shared_expert_combination_strategy="sum"),
    "cohere2": usual(num_hidden_layers=4, head_dim=16, sliding_window=16),
    "arcee": usual(head_dim=16),
    "deepseek_v2": usual(LATENT, q_lora_rank=None, n_routed_experts=6, topk_method="greedy", routed_scaling_factor=1.0,
                         norm_topk_prob=False, n_group=1, topk_group=1),
    "deepseek_v3": usual(LATENT, q_lora_rank=48, n_routed_experts=8, routed_scaling_factor=2.5, norm_topk_prob=True, n_group=4,
                         topk_group=2, rope_parameters=yarn(mscale=1.0, mscale_all_dim=1.0), num_nextn_predict_layers=0),
    "deepseek_v32": usual(SLIM, INDEXED, num_hidden_layers=3, n_group=4, topk_group=2, routed_scaling_factor=2.5, norm_topk_prob=True,
                          rope_parameters=yarn(mscale=1.0, mscale_all_dim=1.0)),
    "dots1": usual(SLIM, num_hidden_layers=3, n_routed_experts=8, num_experts_per_tok=2, n_shared_experts=2,
                   moe_intermediate_size=32, first_k_dense_replace=1, norm_topk_prob=True, n_group=4, topk_group=2,
                   routed_scaling_factor=1.5, attention_bias=True),
    "ernie4_5": usual(head_dim=16),
    "exaone": usual(tie_word_embeddings=True,
                    rope_parameters=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                         original_max_position_embeddings=64, rope_theta=10000.0)),
    "exaone4": usual(num_hidden_layers=4, head_dim=16, sliding_window=16,
                     layer_types=["sliding_attention"] * 3 + ["full_attention"]),
    "exaone4+small": usual(head_dim=16, sliding_window=None, layer_types=["full_attention"] * 2),
    "ernie4_5_moe": usual(head_dim=16, moe_num_experts=4, moe_k=2, moe_intermediate_size=32, moe_num_shared_experts=1,
                          moe_layer_start_index=1, moe_layer_end_index=1, moe_layer_interval=1),
    "exaone_moe": usual(SLIM, num_hidden_layers=4, num_experts=8, num_experts_per_tok=2, moe_intermediate_size=32,
                        num_shared_experts=2, first_k_dense_replace=1, n_group=4, topk_group=2, sliding_window=16),
    "falcon": dict(GPT, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_kv_heads=2,
                   new_decoder_architecture=True, max_position_embeddings=704),
    "falcon+one": dict(GPT, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, multi_query=True, parallel_attn=True,
                       new_decoder_architecture=False, bias=True, ffn_hidden_size=96),
    "falcon_mamba": dict(GPT, hidden_size=64, num_hidden_layers=2, state_size=16, conv_kernel=3, tie_word_embeddings=False),
    "flex_olmo": usual(SLIM, num_experts=4, num_experts_per_tok=2),
    "falcon_h1": usual(MAMBA, head_dim=16, mamba_d_ssm=128, mamba_n_groups=2, mamba_rms_norm=True, mamba_norm_before_gate=False,
                       key_multiplier=0.5, attention_in_multiplier=1.5, attention_out_multiplier=0.75, ssm_in_multiplier=1.25,
                       ssm_out_multiplier=0.6, mlp_multipliers=[0.8, 0.7], ssm_multipliers=[0.5, 0.6, 0.7, 0.8, 0.9],
                       embedding_multiplier=2.0, lm_head_multiplier=0.4),
    "gemma4_text": usual(num_hidden_layers=4, head_dim=16, global_head_dim=32, num_kv_shared_layers=2,
                         hidden_size_per_layer_input=16, vocab_size_per_layer_input=128, sliding_window=16,
                         layer_types=["sliding_attention", "full_attention"] * 2, use_double_wide_mlp=True,
                         final_logit_softcapping=30.0, enable_moe_block=False, attention_k_eq_v=False),
    "gemma4_text+experts": usual(num_hidden_layers=4, head_dim=16, global_head_dim=32, num_global_key_value_heads=1,
                                 num_kv_shared_layers=0, hidden_size_per_layer_input=0, sliding_window=16,
                                 layer_types=["sliding_attention"] * 3 + ["full_attention"], use_double_wide_mlp=False,
                                 final_logit_softcapping=30.0, enable_moe_block=True, num_experts=4, top_k_experts=2,
                                 moe_intermediate_size=32, attention_k_eq_v=True),
    "gemma4_unified_text": usual(num_hidden_layers=4, head_dim=16, global_head_dim=32, num_global_key_value_heads=1,
                                 sliding_window=16, layer_types=["sliding_attention"] * 3 + ["full_attention"],
                                 final_logit_softcapping=30.0, attention_k_eq_v=True),
    "glm": usual(SLIM, attention_bias=True, partial_rotary_factor=0.5, rms_norm_eps=1e-5),
    "glm4": usual(head_dim=16),
    "glm4_moe": usual(num_hidden_layers=3, head_dim=16, n_routed_experts=8, num_experts_per_tok=2, n_shared_experts=1,
                      moe_intermediate_size=32, first_k_dense_replace=1, routed_scaling_factor=1.5, norm_topk_prob=True, n_group=1,
                      topk_group=1, use_qk_norm=True, attention_bias=True),
    "glm4_moe_lite": usual(LATENT, q_lora_rank=48, n_routed_experts=8, routed_scaling_factor=1.8, norm_topk_prob=True, n_group=1,
                           topk_group=1),
    "glm_moe_dsa": usual(SLIM, INDEXED, num_hidden_layers=4, n_group=1, topk_group=1, rms_norm_eps=1e-5,
                         indexer_types=["full", "shared", "full", "shared"]),
    "gpt2": dict(GPT, n_embd=64, n_layer=2, n_head=4, n_positions=704),
    "gpt_bigcode": dict(GPT, n_embd=32, n_layer=2, n_head=2, n_positions=704),
    "gpt_bigcode+heads": dict(GPT, n_embd=64, n_layer=2, n_head=4, n_positions=704, multi_query=False, n_inner=96),
    "gpt_neox": usual(head_dim=16),
    "gpt_neox+sequential": usual(use_parallel_residual=False, attention_bias=False, hidden_act="gelu_new",
                                 rope_parameters=dict(ROPE, partial_rotary_factor=0.5)),
    "gpt_oss": GPT_OSS,
    "gpt_oss+mxfp4": GPT_OSS,
    "gptj": dict(vocab_size=128, n_embd=64, n_layer=2, n_head=4, rotary_dim=8, n_positions=128, n_inner=None,
                 tie_word_embeddings=False, bos_token_id=1, eos_token_id=2),
    "granite_swa": usual(GRANITE, FOUR, **WINDOWS, layer_rope_theta=[10000.0, 10000.0, 10000.0, 0]),
    "granitemoe": usual(GRANITE, num_local_experts=4, num_experts_per_tok=2, intermediate_size=32),
    "granitemoe_swa": usual(GRANITE, SLIM, num_hidden_layers=4, num_local_experts=4, num_experts_per_tok=2, intermediate_size=32,
                            shared_intermediate_size=32, **WINDOWS),
    "granitemoehybrid": usual(GRANITE, MAMBA, num_hidden_layers=3, num_local_experts=4, num_experts_per_tok=2, intermediate_size=32,
                              shared_intermediate_size=64, layer_types=["mamba", "attention", "mamba"], mamba_n_groups=1,
                              position_embedding_type="nope"),
    "granitemoehybrid+dense": usual(GRANITE, MAMBA, num_hidden_layers=3, num_local_experts=0, num_experts_per_tok=0,
                                    shared_intermediate_size=64, layer_types=["mamba", "attention", "mamba"], mamba_n_groups=1,
                                    position_embedding_type="rope"),
    "hunyuan_v1_dense": usual(head_dim=16),
    "hunyuan_v1_dense+alpha": usual(head_dim=16, rope_parameters=dict(rope_type="dynamic", alpha=1000.0, factor=1.0, rope_theta=10000.0)),
    "hunyuan_v1_moe": usual(head_dim=16, num_experts=4, moe_topk=2, num_shared_expert=1, moe_intermediate_size=32),
    "hyperclovax": usual(SLIM, GRANITE, attention_bias=True),
    "hyperclovax+plain": usual(head_dim=16, use_post_norm=False, tie_word_embeddings=True),
    "internlm2": usual(),
    "iquestcoder": usual(head_dim=16),
    "jais2": usual(SLIM),
    "jamba": usual(JAMBA, max_position_embeddings=704, hidden_size=32, num_attention_heads=2, num_key_value_heads=1, intermediate_size=32),
    "kimi_linear": usual(SLIM, KIMI, num_hidden_layers=3, linear_num_heads=2,
                         layer_types=["linear_attention", "full_attention", "linear_attention"]),
    "kimi_linear+heads": usual(KIMI, num_hidden_layers=3, linear_num_heads=3, norm_topk_prob=False, q_lora_rank=48,
                               num_key_value_heads=4, layer_types=["full_attention", "linear_attention", "linear_attention"]),
    "hrm_text": HRM,
    "hy_v3": usual(SLIM, num_hidden_layers=3, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, num_shared_experts=2),
    "inkling2_text": dict(INKLING, num_hidden_layers=3, n_layers_per_attn_res_block=2, layer_types=["hybrid", *MIXED]),
    "inkling2_loop_text": dict(INKLING, num_hidden_layers=4, n_layers_per_attn_res_block=1, layer_types=MIXED * 2, loop_num_passes=2,
                               loop_layer_index_start=1, loop_layer_index_end=3, loop_gate_rank=8),
    "laguna": usual(SLIM, LAGUNA, num_hidden_layers=4, sliding_window=16, attention_bias=True,
                    layer_types=["full_attention"] + ["sliding_attention"] * 3, num_attention_heads_per_layer=[2, 4, 4, 2],
                    rope_parameters=dict(full_attention=dict(ROPE, partial_rotary_factor=0.5), sliding_attention=dict(ROPE, rope_theta=1000.0))),
    "laguna+element": usual(LAGUNA, num_hidden_layers=2, head_dim=16, gating="per-element", mlp_layer_types=["sparse"] * 2,
                            sliding_window=0, rope_parameters=dict(full_attention=dict(ROPE, partial_rotary_factor=0.5))),
    "lfm2": usual(num_hidden_layers=3, block_multiple_of=32, block_auto_adjust_ff_dim=True, block_ff_dim=96, conv_L_cache=3,
                  full_attn_idxs=[1], layer_types=["conv", "full_attention", "conv"]),
    "lfm2_moe": usual(num_hidden_layers=4, conv_L_cache=3, layer_types=["conv", "full_attention", "conv", "conv"],
                      num_dense_layers=1, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, norm_topk_prob=True,
                      use_expert_bias=True, routed_scaling_factor=1.0),
    "lfm3": usual(SLIM, num_hidden_layers=5, sliding_window=16, attention_bias=True),
    "lfm3+plain": usual(num_hidden_layers=3, head_dim=16, conv_L_cache=3, use_sandwich_norm=False, use_attention_gate=False,
                        layer_types=["conv", "full_attention", "conv"]),
    "llama4_text": usual(num_hidden_layers=4, head_dim=16, intermediate_size=32, intermediate_size_mlp=96, num_local_experts=4,
                         num_experts_per_tok=1, interleave_moe_layer_step=2, attention_chunk_size=16, use_qk_norm=True,
                         attn_temperature_tuning=True, floor_scale=16, attn_scale=0.1, no_rope_layers=[1, 1, 1, 0],
                         layer_types=["chunked_attention"] * 3 + ["full_attention"]),
    "mamba": dict(GPT, hidden_size=32, num_hidden_layers=2, state_size=8, time_step_rank=6),
    "mamba2": dict(vocab_size=128, hidden_size=64, num_hidden_layers=2, num_heads=8, head_dim=16, expand=2, state_size=16,
                   n_groups=1, conv_kernel=4, chunk_size=16, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2,
                   pad_token_id=None),
    "mellum": usual(SLIM, num_hidden_layers=4, num_local_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, **WINDOWS,
                    rope_parameters=dict(full_attention=yarn(), sliding_attention=dict(rope_type="default", rope_theta=1000.0))),
    "mellum+dense": usual(FOUR, num_local_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, norm_topk_prob=False,
                          mlp_layer_types=["dense"] + ["sparse"] * 3, layer_types=["full_attention"] * 4, attention_bias=True),
    "minicpm": usual(embedding_multiplier=3.0, residual_multiplier=0.5, logits_scaling=4.0, attention_multiplier=0.25),
    "ministral": usual(head_dim=16, sliding_window=16, num_hidden_layers=4, layer_types=["sliding_attention", "full_attention"] * 2),
    "minicpm3": usual(SLIM, head_dim=8, num_key_value_heads=2, kv_lora_rank=32, q_lora_rank=48, qk_rope_head_dim=8, qk_nope_head_dim=16,
                      v_head_dim=24),
    "minicpm3+scales": usual(num_key_value_heads=4, kv_lora_rank=32, q_lora_rank=48, qk_rope_head_dim=8, qk_nope_head_dim=16,
                             v_head_dim=16, scale_emb=3.0, scale_depth=2.0, dim_model_base=16),
    "minimax_m2": usual(head_dim=16, num_local_experts=6, num_experts_per_tok=2, intermediate_size=32, rotary_dim=8,
                        partial_rotary_factor=0.5),
    "ministral3": usual(head_dim=16, sliding_window=None, rope_parameters=yarn(beta_fast=32.0, beta_slow=1.0, mscale=1.0,
                                                                                mscale_all_dim=1.0, llama_4_scaling_beta=0.1)),
    "mixtral": usual(head_dim=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=None),
    "mpt": dict(GPT, d_model=48, n_heads=3, n_layers=2, max_seq_len=704, attn_config=dict(clip_qkv=1.0)),
    "nanbeige": usual(SLIM, num_attention_heads=4, num_key_value_heads=2, num_loops=3),
    "nanbeige+skip": usual(head_dim=16, num_loops=2, skip_loop_final_norm=True, tie_word_embeddings=True),
    "nanochat": usual(SLIM),
    "nemotron": usual(head_dim=16, partial_rotary_factor=0.5),
    "nemotron_h": usual(NEMOTRON, layers_block_type=["mamba", "attention", "mlp", "mamba"]),
    "nemotron_h+experts": usual(NEMOTRON, layers_block_type=["mamba", "moe", "attention", "moe"], n_routed_experts=6,
                                num_experts_per_tok=2, moe_intermediate_size=32, moe_shared_expert_intermediate_size=48,
                                n_shared_experts=1, n_group=1, topk_group=1, norm_topk_prob=True, routed_scaling_factor=2.0),
    "nemotron_h+latent": usual(NEMOTRON, layers_block_type=["mamba", "moe", "attention", "moe"], n_routed_experts=6,
                               num_experts_per_tok=2, moe_intermediate_size=48, moe_shared_expert_intermediate_size=48,
                               n_shared_experts=1, n_group=1, topk_group=1, norm_topk_prob=True, routed_scaling_factor=2.0,
                               moe_latent_size=32),
    "olmo": usual(SLIM, clip_qkv=1.5),
    "olmo_hybrid": usual(SLIM, OLMO_HYBRID, num_hidden_layers=4),
    "olmo_hybrid+plain": usual(OLMO_HYBRID, rope_parameters=dict(rope_type="default", rope_theta=None), linear_allow_neg_eigval=False,
                               layer_types=["linear_attention", "full_attention"]),
    "olmoe": usual(num_key_value_heads=4, num_experts=6, num_experts_per_tok=2, intermediate_size=32, norm_topk_prob=False),
    "opt": dict(OPT, do_layer_norm_before=True, word_embed_proj_dim=64),
    "opt+behind": dict(OPT, do_layer_norm_before=False, word_embed_proj_dim=32),
    "persimmon": {k: v for k, v in usual(SLIM).items() if k not in ("num_key_value_heads", "head_dim")},
    "persimmon+plain": dict({k: v for k, v in USUAL.items() if k != "num_key_value_heads"}, qk_layernorm=False,
                            rope_parameters=dict(ROPE, partial_rotary_factor=0.25)),
    "phi": usual(num_key_value_heads=4),
    "phimoe": usual(SLIM, num_local_experts=4, num_experts_per_tok=2, attention_bias=True, lm_head_bias=True,
                    rope_parameters=dict(ROPE, original_max_position_embeddings=704)),
    "phimoe+jitter": usual(head_dim=16, num_local_experts=6, num_experts_per_tok=2, router_jitter_noise=0.2),
    "phimoe+long": usual(head_dim=16, num_local_experts=4, num_experts_per_tok=2,
                         rope_parameters=dict(rope_type="longrope", rope_theta=10000.0, short_factor=[1.0, 1.1, 1.2, 1.3, 1.5, 2.0, 3.0, 4.0],
                                              long_factor=[1.0, 1.1, 1.2, 1.3, 1.5, 2.0, 3.0, 5.0], short_mscale=1.25, long_mscale=1.25,
                                              original_max_position_embeddings=1024)),
    "qwen": usual(num_key_value_heads=4),
    "qwen2_moe": usual(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=64,
                       decoder_sparse_step=1, mlp_only_layers=[], use_sliding_window=False),
    "qwen3_5_moe_text": usual(DELTA, DELTA_EXPERTS, rope_parameters=SECTIONS),
    "qwen3_5_text": usual(DELTA, rope_parameters=SECTIONS),
    "qwen3_moe": usual(head_dim=16, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=32, norm_topk_prob=True,
                       decoder_sparse_step=1, mlp_only_layers=[]),
    "qwen3_next": usual(DELTA, DELTA_EXPERTS, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[],
                        partial_rotary_factor=0.5),
    "qwen4_exp_text": usual(DELTA, DELTA_EXPERTS, QSA, hidden_size=32, ple_layer_ids=[2], heads_per_ngram=2, ngram_vocab_size_base=97,
                            split_ngram_parts=4, make_ngram_vocab_size_divisible_by=8, output_gate_type="sigmoid", max_position_embeddings=704,
                            rope_parameters=dict(SECTIONS, rope_theta=10000.0)),
    "sarvam_mla": usual(SLIM, HEADS, num_hidden_layers=3, head_dim=8, num_key_value_heads=2, norm_topk_prob=True, routed_scaling_factor=1.5,
                        rope_parameters=yarn(mscale=1.0, mscale_all_dim=1.0)),
    "sarvam_moe": usual(SLIM, num_hidden_layers=3, n_routed_experts=8, num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=32,
                        first_k_dense_replace=1, n_group=4, topk_group=2, attention_bias=True),
    "seed_oss": usual(head_dim=16),
    "solar_open": usual(head_dim=16, n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=2, moe_intermediate_size=32,
                        attention_bias=True),
    "stablelm": usual(use_qkv_bias=True, partial_rotary_factor=0.5),
    "starcoder2": usual(sliding_window=None),
    "vaultgemma": usual(SLIM, num_hidden_layers=4, sliding_window=16, query_pre_attn_scalar=24),
    "xverse": usual(),
    "youtu": usual(num_key_value_heads=4, kv_lora_rank=32, q_lora_rank=48, qk_rope_head_dim=8, qk_nope_head_dim=16, v_head_dim=16,
                   tie_word_embeddings=False),
    # Windows that all layers have, or those behind the first ones, or every other one.
    "cwm": usual(FOUR, sliding_window=16, layer_types=["sliding_attention", "full_attention"] * 2),
    "mistral+window": usual(head_dim=16, sliding_window=16),
    "mixtral+window": usual(head_dim=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=16),
    "qwen2+window": usual(FOUR, sliding_window=16, use_sliding_window=True, max_window_layers=2),
    "qwen2_moe+window": usual(num_hidden_layers=4, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=32,
                              shared_expert_intermediate_size=64, sliding_window=16, use_sliding_window=True, max_window_layers=2),
    "qwen3+window": usual(FOUR, sliding_window=16, use_sliding_window=True, max_window_layers=2),
    "qwen3_moe+window": usual(head_dim=16, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=32, norm_topk_prob=True,
                              sliding_window=16, use_sliding_window=True),
    "smollm3+window": usual(FOUR, sliding_window=16, use_sliding_window=True, no_rope_layers=[1, 1, 1, 0]),
    "starcoder2+window": usual(sliding_window=16),
    # Settings that most files have otherwise.
    "falcon_h1+plain": usual(MAMBA, head_dim=16, mamba_d_ssm=128, mamba_n_groups=2, mamba_rms_norm=False, mamba_norm_before_gate=True),
    "gemma2+uncapped": usual(FOUR, sliding_window=16, query_pre_attn_scalar=16, attn_logit_softcapping=None,
                             final_logit_softcapping=None),
    "helium": usual(head_dim=16),
    "internlm3": usual(head_dim=16, qkv_bias=True, bias=True),
    "llama+bias": usual(head_dim=16, attention_bias=True, mlp_bias=True),
    # As long as the text: one token more would change all of it.
    "llama+dynamic": usual(head_dim=16, max_position_embeddings=48,
                           rope_parameters=dict(rope_type="dynamic", factor=4.0, rope_theta=10000.0)),
    "llama+part": usual(head_dim=16, rope_parameters=dict(ROPE, partial_rotary_factor=0.5)),
    "llama+yarn": usual(head_dim=16, rope_parameters=yarn(attention_factor=1.7)),
    "qwen3_next+plain": usual(DELTA, DELTA_EXPERTS, norm_topk_prob=False, decoder_sparse_step=1, mlp_only_layers=[],
                              partial_rotary_factor=0.5),
    "seed_oss+bias": usual(head_dim=16, attention_bias=True, attention_out_bias=True, mlp_bias=True),
}


def hashed(name, n):
    """splitmix64 of the element's number and the name's FNV-1a hash."""
    seed = 0xcbf29ce484222325
    for byte in name.encode():
        seed = (seed ^ byte) * 0x100000001b3 % 2**64
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + (np.arange(n, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9e3779b97f4a7c15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
        return z ^ (z >> np.uint64(31))


def values(name, shape, exponent, offset):
    u = (hashed(name, math.prod(shape)) >> np.uint64(53)).astype(np.float32) / 1024 - 1
    return (np.float32(offset) + u * np.float32(2.0**exponent)).astype(np.float16).reshape(shape)


def rule(name, tensor):
    """(exponent, offset) that keep states and scores alive."""
    if "norm" in name or "ln_" in name or name.endswith(("layer_scalar", "router.scale", "per_expert_scale", ".D")):
        return -2, float(np.round(np.mean(tensor)))
    if "attn_res." in name or "cross_pass" in name:
        return 0, 0.0
    if ".controllers." in name:  # gates of loops, which else make chaos of the smallest errors
        return -2, 0.0
    if name.endswith("A_log"):
        return -1, 0.5
    if name.endswith("dt_bias"):
        return 0, -1.0
    if tensor.ndim < 2 or "bias" in name or "sinks" in name:
        return -2, 0.0
    if "embed" in name or "wte" in name:
        return 0, 0.0
    return round(math.log2(2.0 / math.sqrt(tensor.shape[-1]))), 0.0


LEVELS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], dtype=np.float32)


PREFIX = {"hrm_text": 20}


def mxfp4(name, tensor):
    """Blocks and scales in place of matrices (experts, inputs, outputs), and what they are."""
    count, inputs, outputs = tensor.shape
    blocks = (hashed(name + "_blocks", count * outputs * inputs // 2) >> np.uint64(56)).astype(np.uint8)
    scales = (118 + (hashed(name + "_scales", count * outputs * inputs // 32) >> np.uint64(62))).astype(np.uint8)
    codes = np.stack([blocks & 15, blocks >> 4], axis=-1).reshape(-1, 32)
    x = (LEVELS[codes] * 2.0 ** (scales.astype(np.float32) - 127)[:, None]).reshape(count, outputs, inputs)
    return (blocks.reshape(count, outputs, inputs // 32, 16), scales.reshape(count, outputs, inputs // 32),
            np.ascontiguousarray(x.transpose(0, 2, 1)).astype(np.float16))


def write(name, settings, ids, out):
    kind = name.split("+")[0]
    remote = REMOTE.get(kind)
    config = AutoConfig.for_model(remote.kind if remote else kind, **settings)
    config._attn_implementation = "eager"
    with tempfile.TemporaryDirectory() as folder:
        AutoModelForCausalLM.from_config(config).half().save_pretrained(folder)
        file = os.path.join(folder, "model.safetensors")
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as written:
            plain = json.load(written)
        tensors, listed = load_file(file), []
        if remote:
            tensors = remote.published(tensors, plain)
        for key in sorted(tensors):
            tensor = tensors[key]
            if "mxfp4" in name and key.endswith(("gate_up_proj", "down_proj")):
                blocks, scales, tensors[key] = mxfp4(key, tensor)
                listed += [[key + "_blocks", "U8", list(blocks.shape), 56, 0], [key + "_scales", "U8", list(scales.shape), 62, 118]]
                continue
            if tensor.dtype == np.int64:  # what hashes are made with
                listed.append([key, "I64", list(tensor.shape), tensor.tolist(), 0])
                continue
            exponent, offset = rule(key, tensor)
            tensors[key] = values(key, tensor.shape, exponent, offset)
            listed.append([key, "F16", list(tensor.shape), exponent, offset])
        save_file(remote.own(tensors, plain) if remote else tensors, file, {"format": "pt"})
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0].numpy()
            if name in PREFIX:  # the first tokens see each other both ways
                marks = torch.tensor([[int(i < PREFIX[name]) for i in range(len(ids))]])
                model(torch.tensor([ids]), token_type_ids=marks).logits[0].numpy().tofile(os.path.join(out, name + ".prefix.f32"))
        if remote:
            plain = remote.config(plain, kind)
            save_file(tensors, file, {"format": "pt"})
            with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as published:
                json.dump(plain, published)
        if os.environ.get("FOLDERS"):
            shutil.copytree(folder, os.path.join(os.environ["FOLDERS"], name), dirs_exist_ok=True)
    if "mxfp4" in name:
        plain["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}
    logits.astype(np.float32).tofile(os.path.join(out, name + ".logits.f32"))
    with open(os.path.join(out, name + ".json"), "w", encoding="utf-8") as text:
        lines = ",\n".join(json.dumps(t, separators=(",", ":")) for t in listed)
        text.write(f'{{"config": {json.dumps(plain)},\n"tensors": [\n{lines}\n]}}\n')
    print(f"{name}: {len(listed)} tensors, logits spread {logits.std():.2f}")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "tokens.json")
    with open(beside, encoding="utf-8") as file:
        ids = json.load(file)["tokens"]
    os.makedirs(sys.argv[1], exist_ok=True)
    for name, settings in MODELS.items():
        if len(sys.argv) == 2 or name in sys.argv[2:]:
            write(name, settings, ids, sys.argv[1])


if __name__ == "__main__":
    main()
