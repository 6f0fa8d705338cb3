"""The models of wheel.py: settings of configurations, what weights are made of, which class a type has."""
import math
import re

import torch
from golden_folders import GRANITE, INKLING, JAMBA, LAGUNA, LATENT, MAMBA, MIXED, ROPE, usual, yarn
from golden_folders import MODELS as GOLDEN
from remote import REMOTE
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

LONG = dict(max_position_embeddings=704)
LOCAL = ["sliding_attention", "full_attention"] * 2
FOUR = dict(num_hidden_layers=4, head_dim=16)
PLAIN = dict(vocab_size=128, bos_token_id=1, eos_token_id=2, pad_token_id=None)
GPT = dict(PLAIN, n_embd=64, n_layer=2, n_head=4, n_positions=704)

MORE = {
    "cwm": usual(FOUR, sliding_window=16, layer_types=LOCAL),
    "gemma": usual(head_dim=16),
    "gemma2": usual(FOUR, sliding_window=16, query_pre_attn_scalar=16),
    "gemma2+uncapped": usual(FOUR, sliding_window=16, query_pre_attn_scalar=16, attn_logit_softcapping=None,
                             final_logit_softcapping=None),
    "gemma3_text": usual(num_hidden_layers=6, head_dim=16, sliding_window=16, query_pre_attn_scalar=16),
    "glm4+bias": usual(head_dim=16, attention_bias=True),
    "granite": usual(GRANITE),
    "granite+bias": usual(GRANITE, attention_bias=True, mlp_bias=True),
    "granitemoeshared": usual(GRANITE, num_local_experts=4, num_experts_per_tok=2, intermediate_size=32, shared_intermediate_size=64),
    "helium": usual(head_dim=16),
    "inkling2_text": dict(INKLING, num_hidden_layers=7, n_layers_per_attn_res_block=3, vocab_size=136),
    "inkling2_loop_text": dict(INKLING, num_hidden_layers=8, n_layers_per_attn_res_block=2, layer_types=MIXED * 4, vocab_size=136,
                               hidden_size=64, head_dim=16, swa_head_dim=32, d_rel=8, loop_num_passes=3, loop_layer_index_start=2,
                               loop_layer_index_end=6, loop_gate_rank=8),
    "jamba+dense": usual(JAMBA, num_experts=1, num_experts_per_tok=1, mamba_conv_bias=False, tie_word_embeddings=True),
    "laguna+yarn": usual(FOUR, **LAGUNA, sliding_window=16, layer_types=LOCAL, num_attention_heads_per_layer=[2, 4, 4, 8],
                         gating="per-element", mlp_layer_types=["dense"] + ["sparse"] * 3,
                         rope_parameters=dict(full_attention=dict(yarn(), partial_rotary_factor=0.5), sliding_attention=ROPE)),
    "llama": usual(head_dim=16, tie_word_embeddings=True),
    "llama+bias": usual(head_dim=16, attention_bias=True, mlp_bias=True),
    "llama+llama3": usual(head_dim=16, rope_parameters=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                                             original_max_position_embeddings=64, rope_theta=10000.0)),
    "llama+part": usual(head_dim=16, rope_parameters=dict(ROPE, partial_rotary_factor=0.5)),
    "llama+yarn": usual(head_dim=16, rope_parameters=yarn(attention_factor=1.7)),
    "mamba+tied": dict(PLAIN, hidden_size=64, num_hidden_layers=3, state_size=16, conv_kernel=3, use_conv_bias=False),
    "mistral+window": usual(head_dim=16, sliding_window=16),
    "mixtral+window": usual(head_dim=16, num_local_experts=4, num_experts_per_tok=2, sliding_window=16),
    "olmo2": usual(head_dim=16),
    "olmo3": usual(FOUR, sliding_window=16),
    "olmoe+clip": usual(num_key_value_heads=4, num_experts=6, num_experts_per_tok=2, intermediate_size=32, clip_qkv=1.0),
    "phi3": usual(head_dim=16),
    "qwen2": usual(head_dim=16),
    "qwen2+window": usual(num_hidden_layers=4, sliding_window=16, use_sliding_window=True, max_window_layers=2),
    "qwen2_moe+window": usual(num_hidden_layers=4, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=32,
                              shared_expert_intermediate_size=64, sliding_window=16, use_sliding_window=True, max_window_layers=2),
    "qwen3": usual(head_dim=16),
    "qwen3+yarn": usual(head_dim=16, attention_bias=True, rope_parameters=yarn(beta_fast=16.0, beta_slow=2.0)),
    "qwen3+window": usual(FOUR, sliding_window=16, use_sliding_window=True, max_window_layers=2),
    "qwen3_moe+window": usual(FOUR, num_experts=6, num_experts_per_tok=2, moe_intermediate_size=32, norm_topk_prob=True,
                              sliding_window=16, use_sliding_window=True, max_window_layers=2),
    "qwen4_exp_text+plain": {**{k: v for k, v in GOLDEN["qwen4_exp_text"].items() if k not in ("ple_layer_ids", "output_gate_type")},
                             "indexer_compress_ratio": 8, "indexer_budget": 24, "hc_count": 3, "norm_topk_prob": False},
    "qwen3_next+plain": {**GOLDEN["qwen3_next"], "norm_topk_prob": False},
    "qwen2_vl": dict(
        text_config=usual(rope_parameters=dict(ROPE, mrope_section=[4, 2, 2])),
        vision_config=dict(depth=1, embed_dim=32, hidden_size=64, num_heads=2)),
    "qwen2_5_vl": dict(
        text_config=usual(rope_parameters=dict(ROPE, mrope_section=[4, 2, 2])),
        vision_config=dict(depth=1, hidden_size=32, intermediate_size=32, num_heads=2, out_hidden_size=64)),
    "qwen3_vl": dict(
        text_config=usual(LONG, head_dim=16, rope_parameters=dict(ROPE, mrope_section=[4, 2, 2], mrope_interleaved=True)),
        vision_config=dict(depth=1, hidden_size=32, intermediate_size=32, num_heads=2, out_hidden_size=64,
                           deepstack_visual_indexes=[0], num_position_embeddings=16)),
    "qwen3_vl_moe": dict(
        text_config=usual(LONG, head_dim=16, moe_intermediate_size=24, num_experts=6, num_experts_per_tok=2,
                          rope_parameters=dict(ROPE, mrope_section=[4, 2, 2], mrope_interleaved=True)),
        vision_config=dict(depth=1, hidden_size=32, intermediate_size=32, num_heads=2, out_hidden_size=64,
                           deepstack_visual_indexes=[0], num_position_embeddings=16)),
    "seed_oss+bias": usual(head_dim=16, attention_bias=True, attention_out_bias=True, mlp_bias=True),
    "smollm3": usual(FOUR, attention_bias=True, mlp_bias=True),
    "smollm3+window": usual(FOUR, sliding_window=16, use_sliding_window=True, layer_types=LOCAL),
    "starcoder2+window": usual(sliding_window=16),
    "glm+part": usual(head_dim=16, partial_rotary_factor=0.25),
    "hrm_text+prefix": GOLDEN["hrm_text"],
    "granite_swa+all": usual(GRANITE, FOUR, sliding_window=16, layer_types=LOCAL),
    "falcon_h1+plain": {**GOLDEN["falcon_h1"], "mamba_rms_norm": False, "mamba_norm_before_gate": True},
}
# Models whose first tokens see each other both ways, as many as this says.
PREFIX = {"hrm_text+prefix": 90}
MODELS = dict(sorted({**GOLDEN, **MORE}.items()))
MODELS.pop("gpt_oss+mxfp4")  # random codes have a test of their own
# What published configurations have and transformers 5 does not write.
PUBLISHED = {"bailing_hybrid": {"architectures": ["BailingMoeV3ForCausalLM"],
                                "model_type": "ling3",  # one of its own makes the converter ask transformers, which renames settings
                                "no_kda_lora": True, "head_dim": 16,
                                "gated_attention_proj_granularity_type": "head_wise", "num_experts_per_tok": 2,
                                "moe_shared_expert_intermediate_size": 32, "norm_topk_prob": True, "n_group": 4},
             "bamba": {"attn_rotary_emb": 8}, "cohere2": {"rotary_pct": 1.0}, "gpt2": {"n_ctx": 704}, "gpt_neox": {"rotary_pct": 0.25}, 
             "kimi_linear": {"first_k_dense_replace": 1, "linear_attn_config": {
                 "full_attn_layers": [2], "kda_layers": [1, 3], "head_dim": 16, "num_heads": 2, "short_conv_kernel_size": 4}},
             "kimi_linear+heads": {"first_k_dense_replace": 1, "linear_attn_config": {
                 "full_attn_layers": [1], "kda_layers": [2, 3], "head_dim": 16, "num_heads": 3, "short_conv_kernel_size": 4}},
             "phimoe": {"architectures": ["PhiMoEForCausalLM"]},
             "qwen4_exp_text": {"model_type": "qwen38",  # as ling3: transformers renames layer_types
                                "layer_types": ["linear_attention"] * 3 + ["full_attention"]},
             "exaone": {"activation_function": "silu"},
             "hunyuan_v1_moe": {"moe_topk": [2, 2], "num_shared_expert": [1, 1], "moe_intermediate_size": [96, 96]}}
# What files of the converter do not say, so that nothing can compute them rightly.
LACKS = {"kimi_linear+heads": "moe_renormalize", "afmoe+two": "which layers see everything, and mup_enabled", "granite_swa": "layer_rope_theta",
         "granitemoehybrid+dense": "position_embedding_type", "llama4_text": "its chunks, temperature and floor",
         "minicpm3+scales": "the three scales", "solar_open": "partial_rotary_factor", "olmoe+clip": "clip_qkv", "phimoe+long": "short_mscale", "laguna+yarn": "which layers have a window",
         "qwen3_next+plain": "norm_topk_prob", "qwen4_exp_text+plain": "output_gate_type and norm_topk_prob",
         **{name + "+window": "the window" for name in ("mistral", "mixtral", "qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "smollm3",
                                                        "starcoder2")}}
# What the converter is called with besides.
ARGUMENTS = {kind: ["--no-nextn"] for kind in ("qwen3_5_text", "qwen3_5_moe_text", "qwen3_next")}



def published_of(name):
    return PUBLISHED.get(name, PUBLISHED.get(name.split("+")[0], {}))


def publish_names(name, file):
    """Dense layers of Kimi Linear, which transformers 5 saves under the name that layers with experts have."""
    if name.split("+")[0] != "kimi_linear":
        return
    from safetensors.torch import load_file, save_file
    tensors = {re.sub(r"block_sparse_moe\.(\w+_proj)", r"mlp.\1", key): t for key, t in load_file(file).items()}
    save_file(tensors, file, {"format": "pt"})


def build(name, settings):
    settings = dict(settings)
    for key in ("max_position_embeddings", "n_positions"):
        if key in settings:
            settings[key] = 704
    kind = name.split("+")[0]
    config = AutoConfig.for_model(REMOTE[kind].kind if kind in REMOTE else kind, **settings)
    config._attn_implementation = "eager"
    try:
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    except ValueError:
        model = AutoModelForImageTextToText.from_config(config, dtype=torch.float32)
    return model.eval()


def randomise(model, generator):
    """Weights that keep states and scores alive; norms and biases that a translator cannot leave out unseen."""
    def noise(like, scale):
        return torch.randn(like.shape, generator=generator) * scale

    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("A_log"):
                p.copy_(0.5 + noise(p, 0.3))
            elif name.endswith("dt_bias"):
                p.copy_(-1.0 + noise(p, 0.5))
            elif p.ndim < 2 and ("norm" in name or "ln_" in name or "layernorm" in name or name.endswith((".D", "scale", "scalar"))):
                p.copy_((0.0 if name.endswith("bias") else float(p.mean())) + noise(p, 0.2))
            elif name.endswith("_input.query"):  # of attention residuals
                p.copy_(noise(p, 0.7))
            elif p.ndim < 2 or "bias" in name or "sinks" in name:
                p.copy_(noise(p, 0.2))
            elif "embed" in name or "wte" in name or "wpe" in name or name.endswith("embeddings.weight"):
                p.copy_(noise(p, 0.7))
            else:
                p.copy_(noise(p, 1.2 / math.sqrt(p.shape[-1])))
        for name, b in model.named_buffers():
            if "correction_bias" in name or "expert_bias" in name:
                b.copy_(noise(b, 0.2))
            elif name.endswith("layer_scalar"):
                b.add_(noise(b, 0.2))
