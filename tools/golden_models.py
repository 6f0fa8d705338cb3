#!/usr/bin/env python3
"""Writes the golden models of tests/golden: one small random model per architecture, and its logits in double precision.

usage: tools/golden_models.py FOLDER

Needs nothing but Python. NAME.gguf has F16 matrices and F32 vectors; NAME.logits.f32 has the logits of every token of
tokens.json, float32 (tokens, vocabulary), computed from the weights as they are rounded in the file.
"""
import json
import math
import os
import random
import struct
import sys

VOCAB, DIM, FFN, TOKENS = 128, 64, 96, 48
ALIGN = 32


class Tensor:
    def __init__(self, rows, columns, values, half):
        self.rows, self.columns, self.half = rows, columns, half
        self.bytes = struct.pack(f"<{len(values)}{'e' if half else 'f'}", *values)
        self.values = struct.unpack(f"<{len(values)}{'e' if half else 'f'}", self.bytes)

    def row(self, i):
        return self.values[i * self.columns:(i + 1) * self.columns]


class Model:
    """heads, kv_heads, head_dim; bias: of q, k and v; head_norm: RMS norm of every query and key head; tied: the output
    matrix is token_embd; stretch: factors that divide the RoPE frequencies (rope_freqs.weight)."""

    def __init__(self, arch, seed, layers=2, heads=4, kv_heads=2, head_dim=32, base=10000.0, bias=False, head_norm=False,
                 tied=False, stretch=None):
        self.arch, self.layers, self.heads, self.kv_heads, self.head_dim, self.base = arch, layers, heads, kv_heads, head_dim, base
        self.epsilon = 1e-5
        self.tensors = {}
        noise = random.Random(seed)

        def matrix(name, rows, columns, gain):
            scale = gain / math.sqrt(columns)
            self.tensors[name] = Tensor(rows, columns, [noise.gauss(0, scale) for _ in range(rows * columns)], True)

        def vector(name, values):
            self.tensors[name] = Tensor(1, len(values), values, False)

        def random_vector(name, n, mean, deviation):
            vector(name, [noise.gauss(mean, deviation) for _ in range(n)])

        queries, keys = heads * head_dim, kv_heads * head_dim
        matrix("token_embd.weight", VOCAB, DIM, 4)
        if not tied:
            matrix("output.weight", VOCAB, DIM, 2)
        random_vector("output_norm.weight", DIM, 1, 0.2)
        if stretch:
            vector("rope_freqs.weight", stretch)
        for layer in range(layers):
            block = f"blk.{layer}."
            random_vector(block + "attn_norm.weight", DIM, 1, 0.2)
            for name, rows, gain in (("q", queries, 2), ("k", keys, 2), ("v", keys, 1)):
                matrix(f"{block}attn_{name}.weight", rows, DIM, gain)
                if bias:
                    random_vector(f"{block}attn_{name}.bias", rows, 0, 0.5)
            if head_norm:
                random_vector(block + "attn_q_norm.weight", head_dim, 1.5, 0.2)
                random_vector(block + "attn_k_norm.weight", head_dim, 1.5, 0.2)
            matrix(block + "attn_output.weight", DIM, queries, 1)
            random_vector(block + "ffn_norm.weight", DIM, 1, 0.2)
            matrix(block + "ffn_gate.weight", FFN, DIM, 1)
            matrix(block + "ffn_up.weight", FFN, DIM, 1)
            matrix(block + "ffn_down.weight", DIM, FFN, 1)

    # --- the file -----------------------------------------------------------------------------------------------------

    def metadata(self):
        own = {"block_count": self.layers, "context_length": 2048, "embedding_length": DIM, "feed_forward_length": FFN,
               "attention.head_count": self.heads, "attention.head_count_kv": self.kv_heads, "vocab_size": VOCAB,
               "attention.key_length": self.head_dim, "attention.value_length": self.head_dim,
               "attention.layer_norm_rms_epsilon": self.epsilon, "rope.freq_base": self.base}
        if self.arch == "llama":
            own["rope.dimension_count"] = self.head_dim
        return {"general.architecture": self.arch, "general.file_type": 1, "tokenizer.ggml.model": "no_vocab",
                **{f"{self.arch}.{key}": value for key, value in own.items()}}

    def gguf(self):
        def text(s):
            return struct.pack("<Q", len(s)) + s.encode()

        def value(v):  # types 8, 6 and 4 of GGUF
            if isinstance(v, str):
                return struct.pack("<I", 8) + text(v)
            return struct.pack("<If", 6, v) if isinstance(v, float) else struct.pack("<II", 4, v)

        metadata = self.metadata()
        head = b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(metadata))
        head += b"".join(text(key) + value(v) for key, v in metadata.items())
        data = b""
        for name, t in self.tensors.items():
            shape = (t.columns, t.rows) if t.half else (t.columns,)
            head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, int(t.half), len(data))
            data += t.bytes + bytes(-len(t.bytes) % ALIGN)
        return head + bytes(-len(head) % ALIGN) + data

    # --- the reference ------------------------------------------------------------------------------------------------

    def multiply(self, name, x):
        t = self.tensors[name]
        bias = self.tensors.get(name.replace(".weight", ".bias"))
        y = [math.fsum(map(float.__mul__, t.row(i), x)) for i in range(t.rows)]
        return [a + b for a, b in zip(y, bias.values)] if bias else y

    def norm(self, name, x):
        scale = 1 / math.sqrt(math.fsum(v * v for v in x) / len(x) + self.epsilon)
        return [v * scale * w for v, w in zip(x, self.tensors[name].values)]

    def heads_of(self, x, norm, position):
        """Rows of head_dim, normed where the model norms heads, then rotated: llama rotates neighbours, the others
        element i with element i + head_dim / 2."""
        n, half = self.head_dim, self.head_dim // 2
        stretch = self.tensors["rope_freqs.weight"].values if "rope_freqs.weight" in self.tensors else [1.0] * half
        out = []
        for first in range(0, len(x), n):
            head = x[first:first + n]
            if norm in self.tensors:
                head = self.norm(norm, head)
            for i in range(half):
                a, b = (2 * i, 2 * i + 1) if self.arch == "llama" else (i, i + half)
                angle = position * self.base ** (-2 * i / n) / stretch[i]
                c, s = math.cos(angle), math.sin(angle)
                head[a], head[b] = head[a] * c - head[b] * s, head[a] * s + head[b] * c
            out.append(head)
        return out

    def attention(self, block, x, position, keys, values):
        q = self.heads_of(self.multiply(block + "attn_q.weight", x), block + "attn_q_norm.weight", position)
        keys.append(self.heads_of(self.multiply(block + "attn_k.weight", x), block + "attn_k_norm.weight", position))
        v = self.multiply(block + "attn_v.weight", x)
        values.append([v[i:i + self.head_dim] for i in range(0, len(v), self.head_dim)])
        out = []
        for h, query in enumerate(q):
            kv = h * self.kv_heads // self.heads
            scores = [math.fsum(map(float.__mul__, query, k[kv])) / math.sqrt(self.head_dim) for k in keys]
            weights = [math.exp(s - max(scores)) for s in scores]
            total = math.fsum(weights)
            out += [math.fsum(w * v[kv][i] for w, v in zip(weights, values)) / total for i in range(self.head_dim)]
        return self.multiply(block + "attn_output.weight", out)

    def feed_forward(self, block, x):
        gate, up = self.multiply(block + "ffn_gate.weight", x), self.multiply(block + "ffn_up.weight", x)
        return self.multiply(block + "ffn_down.weight", [g / (1 + math.exp(-g)) * u for g, u in zip(gate, up)])

    def logits(self, tokens):
        output = "output.weight" if "output.weight" in self.tensors else "token_embd.weight"
        cache = [([], []) for _ in range(self.layers)]
        rows = []
        for position, token in enumerate(tokens):
            x = list(self.tensors["token_embd.weight"].row(token))
            for layer, (keys, values) in enumerate(cache):
                block = f"blk.{layer}."
                y = self.attention(block, self.norm(block + "attn_norm.weight", x), position, keys, values)
                x = [a + b for a, b in zip(x, y)]
                y = self.feed_forward(block, self.norm(block + "ffn_norm.weight", x))
                x = [a + b for a, b in zip(x, y)]
            rows += self.multiply(output, self.norm("output_norm.weight", x))
        return rows


def llama3_stretch(n, base, factor=32.0, low=1.0, high=4.0, context=512):
    """Llama 3's scaling: short wavelengths stay, long ones are stretched by `factor`, those between by a mixture."""
    stretch = []
    for i in range(n // 2):
        wavelength = 2 * math.pi * base ** (2 * i / n)
        mix = (context / wavelength - low) / (high - low)
        stretch.append(1 / ((1 - mix) / factor + mix) if 0 < mix < 1 else factor if mix <= 0 else 1.0)
    return stretch


MODELS = {
    "llama": lambda: Model("llama", 1),
    "llama3": lambda: Model("llama", 2, layers=1, head_dim=64, base=500000.0, tied=True,
                            stretch=llama3_stretch(64, 500000.0)),
    "qwen2": lambda: Model("qwen2", 3, base=1000000.0, bias=True),
    "qwen3": lambda: Model("qwen3", 4, layers=1, heads=4, kv_heads=1, head_dim=64, base=1000000.0, head_norm=True,
                           tied=True),
}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    tokens = [random.Random(99 + i).randrange(VOCAB) for i in range(TOKENS)]
    with open(os.path.join(folder, "tokens.json"), "w") as f:
        json.dump({"tokens": tokens}, f)
        f.write("\n")
    for name, make in MODELS.items():
        model = make()
        rows = model.logits(tokens)
        with open(os.path.join(folder, name + ".gguf"), "wb") as f:
            f.write(model.gguf())
        with open(os.path.join(folder, name + ".logits.f32"), "wb") as f:
            f.write(struct.pack(f"<{len(rows)}f", *rows))


if __name__ == "__main__":
    main()
