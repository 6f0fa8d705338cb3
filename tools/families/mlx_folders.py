#!/usr/bin/env python3
"""Folders that mlx_lm.convert writes, from a random model to logits: mlx-lm beside Kvasir.

usage: mlx_folders.py KVASIR OUT [PART OF A NAME ...]

Tiny models of random weights (numpy alone makes them) are converted by mlx_lm.convert in every width, mode and recipe. The truth
is mlx-lm's own model of the folder that it wrote, computed in float32: its packed weights as they are, its scales, biases and norms
made float32. Prints the relative error (L2) of the logits of 150 random tokens (`--exact --kv f32`), beside mlx-lm's with its
packed weights and beside the same with dequantised ones. Needs mlx-lm and mlx[cpu]; the exit code is 1 beyond 1e-4.
"""
import contextlib
import io
import json
import os
import shutil
import subprocess
import sys

import numpy as np

TOKENS, BAR = 150, 1e-4
USUAL = dict(vocab_size=128, hidden_size=128, num_hidden_layers=8, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
             intermediate_size=192, max_position_embeddings=704, rms_norm_eps=1e-5, rope_theta=10000.0, bos_token_id=1, eos_token_id=2)
GEMMA = dict(USUAL, hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=32, sliding_window=16, sliding_window_pattern=4,
             rope_local_base_freq=1000.0, tie_word_embeddings=True)
EXPERTS = dict(num_experts=6, num_experts_per_tok=2, moe_intermediate_size=64, norm_topk_prob=True, decoder_sparse_step=1,
               mlp_only_layers=[])
# Configurations, and whether the model is of pictures: then the text half's tensors have a name before theirs.
MODELS = {
    "llama": dict(USUAL, model_type="llama", architectures=["LlamaForCausalLM"], hidden_act="silu", tie_word_embeddings=False),
    "llama+bias": dict(USUAL, model_type="llama", architectures=["LlamaForCausalLM"], hidden_act="silu", tie_word_embeddings=True,
                       attention_bias=True, mlp_bias=True),
    "qwen3": dict(USUAL, model_type="qwen3", architectures=["Qwen3ForCausalLM"], hidden_act="silu", tie_word_embeddings=True),
    "qwen3_moe": dict(USUAL, **EXPERTS, model_type="qwen3_moe", architectures=["Qwen3MoeForCausalLM"], hidden_act="silu",
                      tie_word_embeddings=False),
    "gemma3_text": dict(GEMMA, model_type="gemma3_text", architectures=["Gemma3ForCausalLM"]),
    "gemma3": dict(model_type="gemma3", architectures=["Gemma3ForConditionalGeneration"], vocab_size=128,
                   text_config=dict(GEMMA, model_type="gemma3_text")),
}
FORMS = {
    **{f"affine-{bits}-{group}": dict(q_bits=bits, q_group_size=group) for bits in (2, 3, 4, 5, 6, 8) for group in (32, 64)},
    **{recipe: dict(quant_predicate=recipe, q_group_size=32) for recipe in ("mixed_2_6", "mixed_3_4", "mixed_3_6", "mixed_4_6")},
    **{mode: dict(q_mode=mode) for mode in ("mxfp4", "mxfp8", "nvfp4")},
}


def weights(config):
    """Tensors as Hugging Face names them."""
    noise = np.random.default_rng(5)
    text = config.get("text_config", config)
    dim, ffn, d = text["hidden_size"], text["intermediate_size"], text["head_dim"]
    gemma, kind = "gemma" in text["model_type"], text["model_type"]
    before = "language_model." if "text_config" in config else ""

    def matrix(rows, columns):
        return noise.standard_normal((rows, columns)) * 1.2 / columns ** 0.5

    def norm(n):
        return (0.0 if gemma else 1.0) + 0.2 * noise.standard_normal(n)

    yield before + "model.embed_tokens.weight", noise.standard_normal((text["vocab_size"], dim)) * (0.1 if gemma else 0.7)
    yield before + "model.norm.weight", norm(dim)
    if not text["tie_word_embeddings"]:
        yield "lm_head.weight", matrix(text["vocab_size"], dim)
    for layer in range(text["num_hidden_layers"]):
        block = f"{before}model.layers.{layer}."
        norms = ["input_layernorm", "post_attention_layernorm"]
        for name in norms + ["pre_feedforward_layernorm", "post_feedforward_layernorm"] * gemma:
            yield f"{block}{name}.weight", norm(dim)
        rows = {"q": text["num_attention_heads"] * d, "k": text["num_key_value_heads"] * d, "v": text["num_key_value_heads"] * d}
        for part, n in rows.items():
            yield f"{block}self_attn.{part}_proj.weight", matrix(n, dim)
            if text.get("attention_bias"):
                yield f"{block}self_attn.{part}_proj.bias", 0.2 * noise.standard_normal(n)
        yield f"{block}self_attn.o_proj.weight", matrix(dim, rows["q"])
        if text.get("attention_bias"):
            yield f"{block}self_attn.o_proj.bias", 0.2 * noise.standard_normal(dim)
        if gemma or "qwen3" in kind:
            yield f"{block}self_attn.q_norm.weight", norm(d)
            yield f"{block}self_attn.k_norm.weight", norm(d)
        sizes = {"gate": (ffn, dim), "up": (ffn, dim), "down": (dim, ffn)}
        if "num_experts" in text:
            yield f"{block}mlp.gate.weight", matrix(text["num_experts"], dim)
            wide = text["moe_intermediate_size"]
            for e in range(text["num_experts"]):
                for part in sizes:
                    yield f"{block}mlp.experts.{e}.{part}_proj.weight", matrix(*((dim, wide) if part == "down" else (wide, dim)))
            continue
        for part, (n, k) in sizes.items():
            yield f"{block}mlp.{part}_proj.weight", matrix(n, k)
            if text.get("mlp_bias"):
                yield f"{block}mlp.{part}_proj.bias", 0.2 * noise.standard_normal(n)


def make(config, folder):
    import mlx.core as mx
    from tokenizers import Tokenizer, models, pre_tokenizers
    os.makedirs(folder)
    mx.save_safetensors(folder + "/model.safetensors", {n: mx.array(x.astype(np.float32)) for n, x in weights(config)}, {"format": "pt"})
    with open(folder + "/config.json", "w", encoding="utf-8") as file:
        json.dump(config, file)
    words = Tokenizer(models.BPE(vocab={f"w{i}": i for i in range(128)}, merges=[]))
    words.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    words.save(folder + "/tokenizer.json")
    with open(folder + "/tokenizer_config.json", "w", encoding="utf-8") as file:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "w1", "eos_token": "w2"}, file)


def truth(folder, ids):
    """Logits of mlx-lm with the folder's packed weights, and with these dequantised, both in float32."""
    from pathlib import Path

    import mlx.core as mx
    from mlx.utils import tree_map
    from mlx_lm.utils import dequantize_model, load_model
    model, _ = load_model(Path(folder))
    model.update(tree_map(lambda v: v.astype(mx.float32) if mx.issubdtype(v.dtype, mx.floating) else v, model.parameters()))
    packed = np.array(model(mx.array([ids]))[0].astype(mx.float32))
    plain = dequantize_model(model)
    plain.update(tree_map(lambda v: v.astype(mx.float32), plain.parameters()))
    return packed, np.array(plain(mx.array([ids]))[0].astype(mx.float32))


def kvasir_logits(kvasir, folder, ids):
    tokens, out = folder + "/ids.json", folder + "/got.f32"
    with open(tokens, "w", encoding="utf-8") as file:
        json.dump({"tokens": ids}, file)
    run = subprocess.run([kvasir, "logits", "-m", folder, "--exact", "--kv", "f32", "--threads", "2", "--tokens-file", tokens,
                          "--out", out], capture_output=True, text=True)
    if run.returncode != 0:
        return (run.stderr.strip().splitlines() or ["no word"])[-1][-200:]
    got = np.fromfile(out, dtype=np.float32).reshape(len(ids), -1)
    os.remove(out)
    return got


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    from mlx_lm import convert
    kvasir, out, parts = sys.argv[1], sys.argv[2], sys.argv[3:]
    ids = np.random.default_rng(3).integers(3, 128, TOKENS).tolist()
    failed = False
    for name, config in MODELS.items():
        for form, how in FORMS.items():
            for dtype in ("bfloat16", "float16", "float32"):
                title = f"{name}-{form}-{dtype}"
                if any(part not in title for part in parts):
                    continue
                source, folder = f"{out}/{name}", f"{out}/{title}"
                if not os.path.exists(source):
                    make(config, source)
                shutil.rmtree(folder, ignore_errors=True)
                try:
                    with contextlib.redirect_stdout(io.StringIO()):
                        convert(source, folder, quantize=True, dtype=dtype, **how)
                    packed, plain = truth(folder, ids)
                except Exception as e:  # said, and the others go on
                    print(f"{title:40} no truth: {type(e).__name__} {str(e)[:160]}", flush=True)
                    continue
                got = kvasir_logits(kvasir, folder, ids)
                if isinstance(got, str):
                    print(f"{title:40} refused: {got}", flush=True)
                    failed = True
                    continue
                errors = [float(np.linalg.norm(got - want) / np.linalg.norm(want)) for want in (packed, plain)]
                failed |= max(errors) > BAR
                print(f"{title:40} packed {errors[0]:.0e} dequantised {errors[1]:.0e}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
