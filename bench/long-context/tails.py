#!/usr/bin/env python3
"""What the mean of unread values does to an answer, when their attention mass is estimated and when it is known.

usage: tails.py MODEL-FOLDER TEXT [TOKENS]      a model of transformers (needs torch, transformers); default 4096 tokens

The first tokens of the text are read with dense attention. Each of the last eight goes through the model behind them once
with dense attention and once with a choice of blocks of 16, first and newest ones included. Printed is the mean and the
median of the Kullback-Leibler divergence of what follows, in nats: without a correction, with the mass that the scores of
the unread blocks promise, and with their true mass, which no estimate can better. Then, by layer, the norm of unread values
with 5 % of the tokens read: of those that attention looks at (mean by weight), and of all.
"""

import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

BLOCK, FIRST, NEWEST, QUERIES = 16, 64, 128, 8
now = {"estimate": None, "share": 0, "mass": None}  # of the attention below; estimate None: dense
norms = {}  # layer: pairs of norms


def choose(scores, tokens, first, local):
    """The blocks of [first, local) that are read beside those around them, as a mask of tokens."""
    votes = torch.softmax(scores[:, first:local], 1).sum(0)
    rest = tokens // BLOCK - local
    count = min(max(int(now["share"] * tokens) // BLOCK - first - rest, 1), local - first)
    read = torch.zeros(tokens, dtype=torch.bool)
    read[: first * BLOCK] = True
    read[local * BLOCK :] = True
    for block in votes.topk(count).indices.tolist():
        at = (block + first) * BLOCK
        read[at : at + BLOCK] = True
    return read


def one_head(layer, q, k, v):
    """Outputs (rows, d) of queries (rows, d), already scaled, on keys and values (tokens, d)."""
    scores = q @ k.T
    if not now["estimate"]:
        return torch.softmax(scores, 1) @ v
    tokens = len(k)
    sealed = (tokens - NEWEST) // 128 * 128
    blocks = k[:sealed].reshape(-1, BLOCK, k.shape[1])
    estimate = q @ blocks.mean(1).T
    if now["estimate"] == "spread":
        estimate = estimate + 0.5 * (q * q) @ blocks.var(1, unbiased=False).T
    local = min((tokens - NEWEST - int(now["share"] * tokens) // 4) // BLOCK, sealed // BLOCK)
    read = choose(estimate, tokens, FIRST // BLOCK, local)
    most = scores.max(1, keepdim=True).values
    mass = torch.exp(scores - most)
    out, total = (mass * read) @ v, (mass * read).sum(1, keepdim=True)
    if now["mass"]:
        unread = ~read
        left_out = unread[:sealed].reshape(-1, BLOCK)[:, 0]
        known = (mass * unread).sum(1, keepdim=True)
        guess = BLOCK * torch.exp(estimate[:, left_out] - most).sum(1, keepdim=True)
        if now == {"estimate": "mean", "share": 0.05, "mass": "true"}:
            size = v.norm(dim=1)
            looked_at = ((mass * unread) @ size / known[:, 0]).mean()
            norms.setdefault(layer, []).append((float(looked_at), float(size[unread].mean())))
        more = known if now["mass"] == "true" else guess
        out, total = out + more * v[unread].mean(0), total + more
    return out / total


def attention(module, query, key, value, mask, scaling=None, dropout=0.0, **more):
    if query.shape[2] > 1:
        out = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, scale=scaling,
                                                               enable_gqa=True)
        return out.transpose(1, 2), None
    group = query.shape[1] // key.shape[1]
    heads = [one_head(module.layer_idx, query[0, h * group : (h + 1) * group, 0] * scaling, key[0, h], value[0, h])
             for h in range(key.shape[1])]
    return torch.cat(heads)[None, None], None


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    tokens = int(sys.argv[3]) if len(sys.argv) > 3 else 4096
    ALL_ATTENTION_FUNCTIONS["chosen"] = attention
    tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
    model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32, attn_implementation="chosen").eval()
    with open(sys.argv[2], encoding="utf-8") as f:
        ids = torch.tensor([tokenizer(f.read(16 * tokens)).input_ids[:tokens]])
    if ids.shape[1] < tokens:
        sys.exit(f"{sys.argv[2]}: has {ids.shape[1]} tokens, expected {tokens}")
    modes = [(e, share, mass) for e in ("mean", "spread") for share in (0.05, 0.10, 0.20) for mass in (None, "estimated", "true")]
    lost = {mode: [] for mode in modes}
    with torch.no_grad():
        cache = model(ids[:, :-QUERIES], use_cache=True, logits_to_keep=1).past_key_values
        for i in range(tokens - QUERIES, tokens):
            def follows(estimate, share, mass):
                now.update(estimate=estimate, share=share, mass=mass)
                row = model(ids[:, i : i + 1], past_key_values=cache, use_cache=True).logits[0, -1]
                return torch.log_softmax(row.double(), 0)

            chosen = {}
            for mode in modes:
                chosen[mode] = follows(*mode)
                cache.crop(-1)
            dense = follows(None, 0, None)  # stays in the cache
            for mode, row in chosen.items():
                lost[mode].append(float((dense.exp() * (dense - row)).sum()))
    print(f"{'estimate':10} {'read':>5} {'mass of the rest':17} {'KL, mean':>9} {'median':>9}")
    for (estimate, share, mass), x in lost.items():
        print(f"{estimate:10} {share:5.0%} {mass or 'left out':17} {sum(x) / len(x):9.4f} {sorted(x)[len(x) // 2]:9.4f}")
    print("\nlayer  looked at  all")
    for layer, pairs in sorted(norms.items()):
        print(f"{layer:5} {sum(p[0] for p in pairs) / len(pairs):10.2f} {sum(p[1] for p in pairs) / len(pairs):4.2f}")


main()
