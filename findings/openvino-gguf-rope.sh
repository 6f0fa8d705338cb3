#!/bin/bash
# openvino-genai 2026.4.1.0 reads GGUF files by itself: a tiny random Llama in float16 that gguf 0.19.0 wrote, beside numpy in float64.
# Guess: it computes with the RoPE that the file asks for, as it does with its base and its epsilon, or refuses the file.
# Seen: the tensor rope_freqs.weight, which the files of Llama 3.1 and later have, and the keys rope.scaling.type and rope.scaling.factor
# (linear, yarn) change nothing: the 12 tokens are those of the plain file, and numpy has others from the second on. Nothing is said.
# Takes half a minute of processor time, and a download of 130 MB.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet openvino-genai==2026.4.1.0 openvino==2026.4.1 gguf==0.19.0 tokenizers==0.23.3 numpy==2.4.6
venv/bin/pip list --format=freeze | grep -iE '^(openvino|openvino-genai|gguf|numpy)=='  # the version of each
cat >a.py <<'END'
import sys

import gguf
import numpy as np
import openvino_genai
from tokenizers import pre_tokenizers

WIDTH, FEED, LAYERS, HEADS, KV, SIZE, WORDS, NEW = 64, 128, 2, 4, 2, 16, 300, 12
alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
SHAPES = {"attn_q": (WIDTH, WIDTH), "attn_k": (KV * SIZE, WIDTH), "attn_v": (KV * SIZE, WIDTH), "attn_output": (WIDTH, WIDTH),
          "ffn_gate": (FEED, WIDTH), "ffn_up": (FEED, WIDTH), "ffn_down": (WIDTH, FEED)}
random = np.random.default_rng(0)
weights = {"token_embd.weight": random.standard_normal((WORDS, WIDTH)), "output.weight": 0.15 * random.standard_normal((WORDS, WIDTH)),
           "output_norm.weight": np.ones(WIDTH)}
for layer in range(LAYERS):
    weights.update({f"blk.{layer}.{name}.weight": 0.15 * random.standard_normal(shape) for name, shape in SHAPES.items()})
    weights.update({f"blk.{layer}.{name}_norm.weight": np.ones(WIDTH) for name in ("attn", "ffn")})
weights = {name: weight.astype(np.float16 if weight.ndim == 2 else np.float32) for name, weight in weights.items()}


def write(path, base=10000.0, epsilon=1e-5, scaling=None, factors=None):
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(LAYERS)
    writer.add_context_length(512)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(FEED)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV)
    writer.add_layer_norm_rms_eps(epsilon)
    writer.add_rope_freq_base(base)
    writer.add_rope_dimension_count(SIZE)
    writer.add_vocab_size(WORDS)
    writer.add_file_type(1)
    if scaling:
        writer.add_rope_scaling_type(gguf.RopeScalingType(scaling))
        writer.add_rope_scaling_factor(8.0)
        writer.add_rope_scaling_orig_ctx_len(64)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list(alphabet + [f"<x{i}>" for i in range(WORDS - 257)] + ["ab"])
    writer.add_token_types([1] * 256 + [3] * (WORDS - 257) + [1])
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(256)
    writer.add_eos_token_id(257)
    writer.add_add_bos_token(False)
    for name, weight in {**weights, **({"rope_freqs.weight": np.array(factors, np.float32)} if factors else {})}.items():
        writer.add_tensor(name, weight)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def norm(x, epsilon):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon)


def turn(x, base, factors, factor):
    angles = np.arange(len(x))[:, None] * base ** (-np.arange(0, SIZE, 2) / SIZE) / factors / factor
    turned = (x[..., ::2] + 1j * x[..., 1::2]) * np.exp(1j * angles)[:, None]
    return np.stack([turned.real, turned.imag], -1).reshape(x.shape)


def tokens_of_numpy(ids, base=10000.0, epsilon=1e-5, scaling=None, factors=None):
    exact, ids = {name: weight.astype(np.float64) for name, weight in weights.items()}, list(ids)
    how = (base, np.array(factors or [1.0] * (SIZE // 2)), 8.0 if scaling == "linear" else 1.0)
    for _ in range(NEW):
        x, count = exact["token_embd.weight"][ids], len(ids)
        for layer in range(LAYERS):
            part = {name: exact[f"blk.{layer}.{name}.weight"] for name in SHAPES}
            y = norm(x, epsilon)
            q, k, v = ((y @ part[name].T).reshape(count, -1, SIZE) for name in ("attn_q", "attn_k", "attn_v"))
            k, v = (np.repeat(rows, HEADS // KV, 1) for rows in (turn(k, *how), v))
            scores = np.einsum("ihd,jhd->hij", turn(q, *how), k) / np.sqrt(SIZE) + np.triu(np.full((count, count), -1e30), 1)
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            x = x + np.einsum("hij,jhd->ihd", shares / shares.sum(-1, keepdims=True), v).reshape(count, -1) @ part["attn_output"].T
            y = norm(x, epsilon)
            gate = y @ part["ffn_gate"].T
            x = x + (gate / (1 + np.exp(-gate)) * (y @ part["ffn_up"].T)) @ part["ffn_down"].T
        ids.append(int((exact["output.weight"] @ norm(x[-1], epsilon)).argmax()))
    return ids[-NEW:]


def tokens_of_openvino(path):
    model = openvino_genai.LLMPipeline(path, "CPU", ATTENTION_BACKEND="SDPA", INFERENCE_PRECISION_HINT="f32")
    settings = openvino_genai.GenerationConfig()
    settings.max_new_tokens, settings.do_sample, settings.ignore_eos, settings.apply_chat_template = NEW, False, True, False
    prompt = model.get_tokenizer().encode("the quick brown fox jumps over the lazy dog, and then it sleeps")
    return prompt.input_ids.data[0].tolist(), list(model.generate(prompt, settings).tokens[0])


CASES = {"plain": {}, "freq_base": dict(base=500000.0), "epsilon": dict(epsilon=0.1), "linear": dict(scaling="linear"),
         "yarn": dict(scaling="yarn"), "rope_freqs.weight": dict(factors=[1.0, 1, 2, 4, 8, 8, 8, 8])}
changed, plain = False, None
for name, case in CASES.items():
    write(f"{name}.gguf", **case)
    ids, seen = tokens_of_openvino(f"{name}.gguf")
    plain = plain or seen
    meant = None if name == "yarn" else tokens_of_numpy(ids, **case)
    print(f"{name:<17} openvino-genai {seen[:6]}..., {'as' if seen == plain else 'not as'} the plain file; numpy",
          "not computed" if meant is None else "the same" if meant == seen else f"{meant[:6]}...")
    ignored = name in ("linear", "yarn", "rope_freqs.weight")
    changed |= (seen == plain) != (ignored or name == "plain") or (meant is not None and (meant == seen) == ignored)
sys.exit("CHANGED" if changed else 0)
END
venv/bin/python a.py >seen 2>errors || { cat seen; tail -n 5 errors; echo CHANGED; exit 1; }
cat seen
if grep -iE 'rope|scaling|freq' errors; then echo CHANGED; exit 1; fi
