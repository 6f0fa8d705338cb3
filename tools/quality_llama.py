#!/usr/bin/env python3
"""What the caches of llama.cpp cost, measured as `kvasir eval ppl` measures.

usage: tools/quality_llama.py MODEL IDS [--caches LIST] [--ctx N] [--windows N] [--threads N] [--bos ID]

MODEL is a GGUF file, IDS a file of token numbers, as `kvasir tokenize --ids` prints them. LIST names types of keys and
values, separated by commas: f16, q8_0, q4_0. Flash attention is on. Prints one JSON object per cache after every window,
with the names of `kvasir eval ppl --json`; the base is the f32 cache of the same program.

All tokens are stored in the named type: this cache keeps none raw. llama.cpp computes with activations of 8 bits, which
is noise of its own: the same cache differs from f32 by part of it.

Needs numpy and llama-cpp-python.
"""
import argparse
import ctypes
import json
import math
import pathlib
import sys

import llama_cpp as llama
import numpy as np

# ggml's numbers of types, and bits of a number with its share of the scale of 32.
TYPES = {"f32": (0, 32), "f16": (1, 16), "q8_0": (8, 8.5), "q4_0": (2, 4.5)}
BATCH = 512


@llama.llama_log_callback
def quiet(_level, _text, _user):
    pass


class Lane:
    def __init__(self, model, kind, o):
        p = llama.llama_context_default_params()
        p.n_ctx, p.n_batch, p.n_ubatch = o.ctx, BATCH, BATCH
        p.n_threads = p.n_threads_batch = o.threads
        p.type_k = p.type_v = TYPES[kind][0]
        p.flash_attn_type = 1
        self.context = llama.llama_init_from_model(model, p)
        if not self.context:
            sys.exit(f"llama.cpp has no cache of type {kind} here")
        self.vocab = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))
        self.batch = llama.llama_batch_init(BATCH, 0, 1)

    def clear(self):
        llama.llama_memory_clear(llama.llama_get_memory(self.context), True)

    def feed(self, ids, first, wanted):
        """Log-probabilities (n, vocab) where they are wanted, else nothing."""
        b = self.batch
        b.n_tokens = len(ids)
        for j, token in enumerate(ids):
            b.token[j], b.pos[j], b.n_seq_id[j], b.seq_id[j][0], b.logits[j] = token, first + j, 1, 0, wanted
        if llama.llama_decode(self.context, b):
            sys.exit("llama.cpp could not compute a batch")
        if not wanted:
            return None
        rows = [np.ctypeslib.as_array(llama.llama_get_logits_ith(self.context, j), (self.vocab,)) for j in range(len(ids))]
        x = np.array(rows, np.float32)
        x -= x.max(-1, keepdims=True)
        return x - np.log(np.exp(x).sum(-1, keepdims=True, dtype=np.float64)).astype(np.float32)


def number(model, name):
    buffer = ctypes.create_string_buffer(64)
    found = llama.llama_model_meta_val_str(model, name.encode(), buffer, 64)
    return int(buffer.value) if found >= 0 else None


def numbers_per_token(model):
    buffer = ctypes.create_string_buffer(64)
    llama.llama_model_meta_val_str(model, b"general.architecture", buffer, 64)
    arch = buffer.value.decode()
    d = number(model, arch + ".attention.key_length") or llama.llama_model_n_embd(model) // llama.llama_model_n_head(model)
    return 2 * llama.llama_model_n_layer(model) * llama.llama_model_n_head_kv(model) * d


class Score:
    def __init__(self):
        self.kl, self.difference, self.base, self.same = [], [], [], 0

    def add(self, base, this, targets):
        at = (np.arange(len(targets)), targets)
        self.kl += (np.exp(base) * (base - this)).sum(-1, dtype=np.float64).tolist()
        self.base += (-base[at]).astype(float).tolist()
        self.difference += (base[at] - this[at]).astype(float).tolist()
        self.same += int((base.argmax(-1) == this.argmax(-1)).sum())

    def row(self, model, name, windows, ctx, numbers):
        n = len(self.kl)
        mean = sum(self.difference) / n
        error = math.sqrt(sum((x - mean) ** 2 for x in self.difference) / (n - 1) / n)
        return {"engine": "llama.cpp", "model": model, "kv": name, "windows": windows, "ctx": ctx, "scored": n,
                "ppl_f32": math.exp(sum(self.base) / n), "kl_mean": sum(self.kl) / n, "kl_p99": sorted(self.kl)[int(0.99 * n)],
                "ppl_change": math.expm1(mean), "ppl_change_error": math.exp(mean) * error, "top1": self.same / n,
                "kv_bytes_per_token": numbers * TYPES[name][1] / 8, "f16_bytes_per_token": numbers * 2}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model")
    p.add_argument("ids")
    p.add_argument("--caches", default="q8_0,q4_0")
    p.add_argument("--ctx", type=int, default=1024)
    p.add_argument("--windows", type=int, default=1)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--bos", type=int, default=-1, help="takes the place of each window's first token")
    o = p.parse_args()
    names = o.caches.split(",")
    for name in names:
        if name not in TYPES:
            sys.exit(f"--caches: '{name}' is unknown, expected one of {', '.join(TYPES)}")
    ids = [int(x) for x in pathlib.Path(o.ids).read_text().split()]
    if len(ids) < o.ctx * o.windows:
        sys.exit(f"{o.ids}: has {len(ids)} tokens, expected {o.ctx * o.windows}")
    llama.llama_log_set(quiet, ctypes.c_void_p(0))
    llama.llama_backend_init()
    settings = llama.llama_model_default_params()
    settings.n_gpu_layers = 0
    model = llama.llama_model_load_from_file(o.model.encode(), settings)
    if not model:
        sys.exit(f"{o.model}: llama.cpp cannot read it")
    numbers = numbers_per_token(model)
    lanes = {name: Lane(model, name, o) for name in ["f32", *names]}
    scores = {name: Score() for name in names}
    for w in range(o.windows):
        window = ids[w * o.ctx:(w + 1) * o.ctx]
        if o.bos >= 0:
            window[0] = o.bos
        for lane in lanes.values():
            lane.clear()
        at, end = 0, o.ctx - 1
        while at < end:
            wanted = at >= o.ctx // 2
            piece = window[at:min(at + (128 if wanted else BATCH), end if wanted else o.ctx // 2)]
            base = lanes["f32"].feed(piece, at, wanted)
            for name in names:
                this = lanes[name].feed(piece, at, wanted)
                if wanted:
                    scores[name].add(base, this, np.array(window[at + 1:at + 1 + len(piece)]))
            at += len(piece)
        for name in names:
            print(json.dumps(scores[name].row(pathlib.Path(o.model).name, name, w + 1, o.ctx, numbers)), flush=True)


if __name__ == "__main__":
    main()
