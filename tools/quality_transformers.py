#!/usr/bin/env python3
"""What the quantised caches of transformers cost, measured as `kvasir eval ppl` measures.

usage: tools/quality_transformers.py MODEL IDS [--caches LIST] [--ctx N] [--windows N] [--threads N]

MODEL is a folder as Hugging Face publishes models, or a GGUF file that transformers can read; weights and activations
are f32. IDS is a file of token numbers, as `kvasir tokenize --ids` prints them. LIST names caches, separated by commas:
quanto4, quanto2, hqq4, hqq2, each with the axes that the documentation of transformers advises for it, groups of 64 and a
residual length of 128. Prints one JSON object per cache after every window, with the names of `kvasir eval ppl --json`; the base is the
full f32 cache of the same weights in the same program.

Windows, BOS and scored positions are those of `kvasir eval ppl`. The scored half goes in by pieces of 128 tokens: the
cache gives a piece back as it came and quantises when 128 have gathered, so that is what token by token reads.
Bytes are those of a model in f16: the scale and the offset of a group take 2 bytes each.

Models with windows are refused, as the caches refuse them: exit status 3.

Needs torch, transformers, and optimum-quanto or hqq.
"""
import argparse
import json
import math
import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM, DynamicCache, QuantizedCache
from transformers.utils import logging

PIECE = 128
GROUP = 64
# Axis 0 is advised for quanto, axis 1 for HQQ: both are groups of 64 neighbours in a row of one head.
BACKENDS = {"quanto": ("quanto", 0), "hqq": ("hqq", 1)}


def load(path):
    at = pathlib.Path(path)
    where = {"gguf_file": at.name} if at.is_file() else {}
    model = AutoModelForCausalLM.from_pretrained(at.parent if at.is_file() else at, dtype=torch.float32, **where)
    return model.eval()


def cache_of(name, config):
    if name == "f32":
        return DynamicCache()  # without a config it forgets nothing, masks hide what a window does not see
    backend, axis = BACKENDS[name[:-1]]
    return QuantizedCache(backend, config, nbits=int(name[-1]), axis_key=axis, axis_value=axis, q_group_size=GROUP,
                          residual_length=PIECE)


def distributions(model, ids, cache):
    """Log-probabilities of the scored half, piece by piece: (n, vocab)."""
    first, end = len(ids) // 2, len(ids) - 1
    model(ids[None, :first], cache=cache, use_cache=True, logits_to_keep=1)
    for p in range(first, end, PIECE):
        piece = ids[None, p:min(p + PIECE, end)]
        logits = model(piece, cache=cache, use_cache=True).logits[0]
        yield torch.log_softmax(logits.float(), -1)


class Score:
    def __init__(self):
        self.kl, self.difference, self.base, self.same = [], [], [], 0

    def add(self, base, this, targets):
        self.kl += (base.exp() * (base - this)).sum(-1).double().tolist()
        at = targets[:, None]
        self.base += (-base.gather(1, at)[:, 0]).double().tolist()
        self.difference += (base.gather(1, at) - this.gather(1, at))[:, 0].double().tolist()
        self.same += int((base.argmax(-1) == this.argmax(-1)).sum())


def row(path, name, score, windows, ctx, model):
    n = len(score.kl)
    mean = sum(score.difference) / n
    error = math.sqrt(sum((x - mean) ** 2 for x in score.difference) / (n - 1) / n)
    c = model.config
    d = getattr(c, "head_dim", None) or c.hidden_size // c.num_attention_heads
    numbers = 2 * c.num_hidden_layers * c.num_key_value_heads * d
    bits = int(name[-1]) + 2 * 16 / GROUP
    return {"engine": "transformers", "model": pathlib.Path(path).name, "kv": name, "windows": windows, "ctx": ctx, "scored": n,
            "ppl_f32": math.exp(sum(score.base) / n), "kl_mean": sum(score.kl) / n, "kl_p99": sorted(score.kl)[int(0.99 * n)],
            "ppl_change": math.expm1(mean), "ppl_change_error": math.exp(mean) * error, "top1": score.same / n,
            "kv_bytes_per_token": numbers * bits / 8, "f16_bytes_per_token": numbers * 2}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("ids")
    p.add_argument("--caches", default="quanto4,hqq4")
    p.add_argument("--ctx", type=int, default=1024)
    p.add_argument("--windows", type=int, default=1)
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--bos", type=int, default=-1, help="takes the place of each window's first token")
    o = p.parse_args()
    if o.ctx % (2 * PIECE):
        sys.exit(f"--ctx: is {o.ctx}, expected a multiple of {2 * PIECE}")
    names = o.caches.split(",")
    for name in names:
        if name[:-1] not in BACKENDS or not name[-1].isdigit():
            sys.exit(f"--caches: '{name}' is unknown, expected one of quanto4, quanto2, hqq4, hqq2")
    torch.set_grad_enabled(False)
    logging.disable_progress_bar()
    if o.threads:
        torch.set_num_threads(o.threads)
    ids = [int(x) for x in pathlib.Path(o.ids).read_text().split()]
    if len(ids) < o.ctx * o.windows:
        sys.exit(f"{o.ids}: has {len(ids)} tokens, expected {o.ctx * o.windows}")
    model = load(o.model)
    kinds = set(getattr(model.config, "layer_types", None) or ["full_attention"])
    if kinds != {"full_attention"}:
        print(f"{o.model}: has layers of {', '.join(sorted(kinds))}; the quantised caches of transformers store none but full_attention",
              file=sys.stderr)
        sys.exit(3)
    scores = {name: Score() for name in names}
    for w in range(o.windows):
        window = torch.tensor(ids[w * o.ctx:(w + 1) * o.ctx])
        if o.bos >= 0:
            window[0] = o.bos
        caches = {name: distributions(model, window, cache_of(name, model.config)) for name in names}
        at = o.ctx // 2
        for base in distributions(model, window, cache_of("f32", model.config)):
            targets = window[at + 1:at + 1 + len(base)]
            for name in names:
                scores[name].add(base, next(caches[name]), targets)
            at += len(base)
        for name in names:
            print(json.dumps(row(o.model, name, scores[name], w + 1, o.ctx, model)), flush=True)


if __name__ == "__main__":
    main()
