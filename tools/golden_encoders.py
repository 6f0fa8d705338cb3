#!/usr/bin/env python3
"""Writes the golden models of tests/golden/encoders: small random encoders, and what they make of a text in double precision.

usage: tools/golden_encoders.py FOLDER

Needs nothing but Python. NAME.gguf has F16 matrices, F32 vectors and a WordPiece vocabulary. NAME.json has `tokens`, where their
second text begins (`second`), `states` of all tokens behind the last layer, and `rank` where the model has a head for it. qwen3.json
has the states of tests/golden/qwen3.gguf, a decoder, behind its last norm.
Sources: arXiv:1810.04805 with the code of its authors (GELU by the error function), arXiv:2402.01613 for nomic-bert.
"""
import json
import math
import os
import random
import struct
import sys

import golden_models
from golden_models import Tensor, silu

DIM, HEADS, FFN, LAYERS, POSITIONS, EPSILON = 32, 2, 64, 2, 64, 1e-3
WORDS = ["a", "the", "sea", "ship", "sail", "##s", "##ed", "##ing", "wind", "old", "man", "and", "his", "dog", "rain", "##y", ".", ",",
         "?", "on", "in", "deep", "blue", "water", "storm", "night", "dark", "was", "it", "what", "is", "far", "near", "home", "b"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCAB = SPECIAL + ["\u2581" + w if not w.startswith("##") else w[2:] for w in WORDS]


def gelu(x):
    return 0.5 * x * (1 + math.erf(x / math.sqrt(2)))


class Encoder:
    def __init__(self, arch, seed, rank):
        self.arch, self.rank, self.tensors = arch, rank, {}
        noise = random.Random(seed)

        def matrix(name, rows, columns, gain=1.0):
            self.tensors[name] = Tensor(rows, columns, [noise.gauss(0, gain / math.sqrt(columns)) for _ in range(rows * columns)], True)

        def vector(name, n, mean=0.0, deviation=0.3):
            self.tensors[name] = Tensor(1, n, [noise.gauss(mean, deviation) for _ in range(n)], False)

        def norm(name):
            vector(name + ".weight", DIM, 1, 0.2)
            vector(name + ".bias", DIM, 0.1)

        bert = arch == "bert"
        matrix("token_embd.weight", len(VOCAB), DIM, 4)
        matrix("token_types.weight", 2, DIM, 2)
        if bert:
            matrix("position_embd.weight", POSITIONS, DIM, 2)
        norm("token_embd_norm")
        for layer in range(LAYERS):
            block = f"blk.{layer}."
            for name, rows, gain in [("q", DIM, 2), ("k", DIM, 2), ("v", DIM, 1)] if bert else [("qkv", 3 * DIM, 2)]:
                matrix(f"{block}attn_{name}.weight", rows, DIM, gain)
                if bert:
                    vector(f"{block}attn_{name}.bias", rows)
            for name, rows, columns in [("attn_output", DIM, DIM), ("ffn_up", FFN, DIM), ("ffn_down", DIM, FFN)]:
                matrix(f"{block}{name}.weight", rows, columns)
                if bert:
                    vector(f"{block}{name}.bias", rows)
            if not bert:
                matrix(block + "ffn_gate.weight", FFN, DIM)
            norm(block + "attn_output_norm")
            norm(block + "layer_output_norm")
        if rank:
            matrix("cls.weight", DIM, DIM)
            vector("cls.bias", DIM)
            matrix("cls.output.weight", 1, DIM, 2)
            vector("cls.output.bias", 1)

    def metadata(self):
        own = {"block_count": LAYERS, "context_length": POSITIONS, "embedding_length": DIM, "feed_forward_length": FFN,
               "attention.head_count": HEADS, "attention.layer_norm_epsilon": EPSILON, "attention.causal": False,
               "pooling_type": 2 if self.rank else 1}
        if self.arch == "nomic-bert":
            own["rope.freq_base"] = 1000.0
        return {"general.architecture": self.arch, "general.file_type": 1, **{f"{self.arch}.{k}": v for k, v in own.items()},
                "tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": VOCAB,
                "tokenizer.ggml.token_type": [3] * len(SPECIAL) + [1] * len(WORDS), "tokenizer.ggml.token_type_count": 2,
                "tokenizer.ggml.unknown_token_id": 1, "tokenizer.ggml.cls_token_id": 2, "tokenizer.ggml.seperator_token_id": 3,
                "tokenizer.ggml.padding_token_id": 0}

    def gguf(self):
        def text(s):
            return struct.pack("<Q", len(s.encode())) + s.encode()

        def value(v):
            if isinstance(v, str):
                return struct.pack("<I", 8) + text(v)
            if isinstance(v, bool):
                return struct.pack("<I?", 7, v)
            if isinstance(v, list):
                strings = isinstance(v[0], str)
                items = b"".join(map(text, v)) if strings else struct.pack(f"<{len(v)}i", *v)
                return struct.pack("<IIQ", 9, 8 if strings else 5, len(v)) + items
            return struct.pack("<If", 6, v) if isinstance(v, float) else struct.pack("<II", 4, v)

        metadata, align = self.metadata(), golden_models.ALIGN
        head = b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(metadata))
        head += b"".join(text(key) + value(v) for key, v in metadata.items())
        data = b""
        for name, t in self.tensors.items():
            shape = (t.columns, t.rows) if t.half else (t.columns,)
            head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, int(t.half), len(data))
            data += t.bytes + bytes(-len(t.bytes) % align)
        return head + bytes(-len(head) % align) + data

    # --- the reference ------------------------------------------------------------------------------------------------

    def multiply(self, name, x):
        t = self.tensors[name + ".weight"]
        y = [math.fsum(map(float.__mul__, t.row(i), x)) for i in range(t.rows)]
        bias = self.tensors.get(name + ".bias")
        return [a + b for a, b in zip(y, bias.values)] if bias else y

    def norm(self, name, x):
        mean = math.fsum(x) / len(x)
        scale = 1 / math.sqrt(math.fsum((v - mean) ** 2 for v in x) / len(x) + EPSILON)
        weight, bias = self.tensors[name + ".weight"].values, self.tensors[name + ".bias"].values
        return [(v - mean) * scale * w + b for v, w, b in zip(x, weight, bias)]

    def turn(self, x, position):
        if self.arch != "nomic-bert":
            return x
        out, n = [], DIM // HEADS
        for first in range(0, len(x), n):
            head = list(x[first:first + n])
            for i in range(n // 2):
                angle = position * 1000.0 ** (-2 * i / n)
                a, b = head[i], head[i + n // 2]
                head[i] = a * math.cos(angle) - b * math.sin(angle)
                head[i + n // 2] = a * math.sin(angle) + b * math.cos(angle)
            out += head
        return out

    def attention(self, block, rows):
        if self.arch == "bert":
            parts = [[self.multiply(f"{block}attn_{c}", x) for x in rows] for c in "qkv"]
        else:
            both = [self.multiply(block + "attn_qkv", x) for x in rows]
            parts = [[y[i * DIM:(i + 1) * DIM] for y in both] for i in range(3)]
        q, k = ([self.turn(x, p) for p, x in enumerate(parts[i])] for i in (0, 1))
        v, n, out = parts[2], DIM // HEADS, []
        for query in q:
            row = []
            for h in range(0, DIM, n):
                scores = [math.fsum(map(float.__mul__, query[h:h + n], key[h:h + n])) / math.sqrt(n) for key in k]
                weights = [math.exp(s - max(scores)) for s in scores]
                row += [math.fsum(w * x[h + i] for w, x in zip(weights, v)) / math.fsum(weights) for i in range(n)]
            out.append(self.multiply(block + "attn_output", row))
        return out

    def feed_forward(self, block, x):
        up = self.multiply(block + "ffn_up", x)
        if self.arch == "bert":
            return self.multiply(block + "ffn_down", [gelu(u) for u in up])
        return self.multiply(block + "ffn_down", [silu(g) * u for g, u in zip(self.multiply(block + "ffn_gate", x), up)])

    def states(self, tokens, second):
        rows = []
        for position, token in enumerate(tokens):
            x = [a + b for a, b in zip(self.tensors["token_embd.weight"].row(token),
                                       self.tensors["token_types.weight"].row(int(position >= second)))]
            if self.arch == "bert":
                x = [a + b for a, b in zip(x, self.tensors["position_embd.weight"].row(position))]
            rows.append(self.norm("token_embd_norm", x))
        for layer in range(LAYERS):
            block = f"blk.{layer}."
            mixed = self.attention(block, rows)
            rows = [self.norm(block + "attn_output_norm", [a + b for a, b in zip(x, m)]) for x, m in zip(rows, mixed)]
            rows = [self.norm(block + "layer_output_norm", [a + b for a, b in zip(x, self.feed_forward(block, x))]) for x in rows]
        return rows


class Decoder(golden_models.Model):
    """Keeps what its last norm gives."""

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.states = []

    def norm(self, name, x):
        y = super().norm(name, x)
        if name == "output_norm.weight":
            self.states.append(y)
        return y


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)

    def write(name, answer):
        with open(os.path.join(folder, name + ".json"), "w") as f:
            json.dump(answer, f)
            f.write("\n")

    for name, seed, rank in (("bert", 21, True), ("nomic-bert", 22, False)):
        model = Encoder(name, seed, rank)
        with open(os.path.join(folder, name + ".gguf"), "wb") as f:
            f.write(model.gguf())
        noise = random.Random(7)
        tokens = [2] + [noise.randrange(len(SPECIAL), len(VOCAB)) for _ in range(20)] + [3]
        tokens += [noise.randrange(len(SPECIAL), len(VOCAB)) for _ in range(13)] + [3]
        states = model.states(tokens, 22)
        answer = {"tokens": tokens, "second": 22, "states": states}
        if rank:
            answer["rank"] = model.multiply("cls.output", [math.tanh(x) for x in model.multiply("cls", states[0])])
        write(name, answer)
    decoder = Decoder("qwen3", 4, layers=1, heads=4, kv_heads=1, head_dim=64, base=1000000.0, head_norm=True, tied=True)
    tokens = [random.Random(99 + i).randrange(golden_models.VOCAB) for i in range(golden_models.TOKENS)]
    decoder.logits(tokens)
    write("qwen3", {"tokens": tokens, "second": -1, "states": decoder.states})


if __name__ == "__main__":
    main()
