#!/usr/bin/env python3
"""What estimates of a block's attention mass miss, on queries and keys of a real model.

usage: estimates.py MODEL-FOLDER [TOKENS]      a Qwen2 model of transformers (needs torch, transformers, numpy); default 14000 tokens

The text is one of random key-value pairs and a question for one of them, the queries are those of the last token of the
question and of every fourth token of the answer. A tenth of the tokens is read, in blocks of 16, first and newest ones
included. Printed is the share of dense attention's mass that a choice by each estimate loses to the best choice of as
many blocks: its mean over layers, KV heads and queries, its 99th percentile and the worst. "x4" means that four times
as many blocks were chosen by the estimate, and of these the best ones by exact scores.
"""

import random
import sys

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.models.qwen2 import modeling_qwen2

BLOCK, SHARE, FIRST, NEWEST = 16, 0.10, 64, 400


def text_of(pairs):
    numbers = random.Random(5)
    data = [("%012x" % numbers.getrandbits(48), "%012x" % numbers.getrandbits(48)) for _ in range(pairs)]
    lines = ",\n ".join(f'"{k}": "{v}"' for k, v in data)
    key, value = data[pairs // 3]
    head = "Extract the value corresponding to the specified key in the JSON object below.\n\nJSON data:\n{"
    return f'{head}{lines}}}\n\nKey: "{key}"\nCorresponding value: "', value


def capture(folder, tokens):
    """Queries behind the text (layer: heads, queries, d) and all keys (layer: KV heads, tokens, d), rotated by position."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    pairs = 16
    while len(tokenizer(text_of(pairs)[0]).input_ids) < tokens:
        pairs += 8
    text, answer = text_of(pairs)
    asked = len(tokenizer(text).input_ids)
    ids = torch.tensor([tokenizer(text + answer).input_ids])
    queries, keys, rotate = [], [], modeling_qwen2.apply_rotary_pos_emb

    def keep(q, k, *rest, **more):
        q, k = rotate(q, k, *rest, **more)
        queries.append(q[0, :, asked - 1 :].numpy().copy())
        keys.append(k[0].numpy().copy())
        return q, k

    modeling_qwen2.apply_rotary_pos_emb = keep
    with torch.no_grad():
        logits = model(ids, logits_to_keep=ids.shape[1] - asked + 1).logits[0]
    given = tokenizer.decode(logits.argmax(-1)[:-1])
    print(f"{pairs} pairs, {asked} tokens; the model's answer is {'right' if given.startswith(answer) else 'wrong'}")
    return queries, keys, asked


def log_sum(x, axis):
    most = x.max(axis, keepdims=True)
    return (most + np.log(np.exp(x - most).sum(axis, keepdims=True))).squeeze(axis)


def rotation(d):
    h = np.ones((1, 1))
    while h.shape[0] < d:
        h = np.block([[h, h], [h, -h]])
    return (h / np.sqrt(d) * np.random.default_rng(0).choice([-1, 1], d)).astype(np.float32)


def estimates(k, q):
    """Scores (rows, blocks), as logarithms of mass."""
    blocks, d = k.shape[0] // BLOCK, k.shape[1]
    by_block = k.reshape(blocks, BLOCK, d)
    mean = by_block.mean(1)
    yield "mean", q @ mean.T
    yield "quest", np.maximum(q, 0) @ by_block.max(1).T + np.minimum(q, 0) @ by_block.min(1).T
    yield "spread", q @ mean.T + 0.5 * (q * q) @ by_block.var(1).T
    for n in (8, 4, 2):
        part = k.reshape(-1, n, d).mean(1)
        yield f"means of {n} tokens", log_sum((q @ part.T).reshape(len(q), blocks, BLOCK // n), 2)
    turn = rotation(d)
    page = np.repeat(k.reshape(-1, 128, d).mean(1), 128, 0)
    rest = (k - page) @ turn.T
    scale = np.sqrt((rest * rest).mean(1, keepdims=True))
    for bits, levels in ((1, [-0.798, 0.798]), (2, [-1.51, -0.453, 0.453, 1.51])):  # Lloyd-Max of a normal distribution
        levels = np.array(levels, np.float32)
        code = levels[np.abs((rest / scale)[..., None] - levels).argmin(-1)] * scale
        yield f"keys in {bits} bits", log_sum((q @ page.T + q @ turn.T @ code.T).reshape(len(q), blocks, BLOCK), 2)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    queries, keys, asked = capture(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 14000)
    lost = {}
    for q_all, k_all in zip(queries, keys):
        group = q_all.shape[0] // k_all.shape[0]
        for head, k in enumerate(k_all):
            for i in range(0, q_all.shape[1], 4):
                n = asked + i
                end = (n - NEWEST) // 128 * 128
                q = q_all[head * group : (head + 1) * group, i] / np.sqrt(k.shape[1])
                scores = q @ k[:n].T
                mass = np.exp(scores - log_sum(scores, 1)[:, None]).mean(0)[FIRST:end].reshape(-1, BLOCK).sum(1)
                count = int(SHARE * n) // BLOCK - FIRST // BLOCK - (n - end) // BLOCK
                best = np.sort(mass)[-count:].sum()
                for name, score in estimates(k[:end], q):
                    score = score[:, FIRST // BLOCK :]
                    order = np.argsort(-np.exp(score - log_sum(score, 1)[:, None]).sum(0))
                    for times in (1, 2, 4, 6):
                        held = np.sort(mass[order[: count * times]])[-count:].sum()
                        lost.setdefault((name, times), []).append(best - held)
    print(f"{'estimate':20} {'mean':>8} {'99 %':>8} {'worst':>8}")
    for (name, times), x in lost.items():
        label = name + (f", x{times}" if times > 1 else "")
        print(f"{label:20} {np.mean(x):8.4f} {np.quantile(x, 0.99):8.3f} {np.max(x):8.3f}")


main()
