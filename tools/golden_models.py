#!/usr/bin/env python3
"""Writes the golden models of tests/golden: one small random model per architecture, and its logits in double precision.

usage: tools/golden_models.py FOLDER [NAME ...]    all models, or those that are named

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
    """count: matrices of rows / count rows each, one behind the other."""

    def __init__(self, rows, columns, values, half, count=1):
        self.rows, self.columns, self.half, self.count = rows, columns, half, count
        self.bytes = struct.pack(f"<{len(values)}{'e' if half else 'f'}", *values)
        self.values = struct.unpack(f"<{len(values)}{'e' if half else 'f'}", self.bytes)

    def row(self, i):
        return self.values[i * self.columns:(i + 1) * self.columns]


def silu(x):
    return x / (1 + math.exp(-x))


def erf_gelu(x):
    return 0.5 * x * (1 + math.erf(x / math.sqrt(2)))


def gelu(x):  # the form with tanh
    return 0.5 * x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))


def relu2(x):
    return max(x, 0.0) ** 2


class Model:
    """heads, kv_heads, head_dim; bias: of q, k and v; head_norm: norm of every query and key head, "whole": of all query
    heads together; tied: the output matrix is token_embd; stretch: factors that divide the RoPE frequencies
    (rope_freqs.weight); dim, ffn, vocab, epsilon: sizes; keys: more metadata; rules: see RULES."""

    # What a family computes, unless it says otherwise.
    RULES = {
        "adjacent": False,       # RoPE turns elements 2i and 2i + 1, not i and i + n/2
        "rotated": None,         # elements of a head that are turned; None: all
        "rope": None,            # of a layer: (base, frequencies of pairs -> frequencies, magnitude); None: base alone
        "no_rope": (),           # layers without positions
        "norm_after_rope": False,
        "windows": {},           # of a layer: tokens that it sees
        "layer_norm": False,     # in place of RMS norm
        "before": ("attn_norm", "ffn_norm"),   # norms of what attention and feed forward read; None: none
        "after": (None, None),                 # norms of what they give
        "gelu": False,           # in place of SiLU: True with tanh, "erf", or "relu2", which is none: relu(x)^2
        "gate": "own",           # a matrix of its own, "fused": in front of ffn_up, None
        "slopes": None,          # ALiBi, by head
        "clamp": None,           # most of q, k and v
        "temperature": None,     # (scale, length): queries times 1 + scale ln(1 + floor(position / length))
        "scale": None,           # of scores, in place of 1 / sqrt(head_dim)
        "embedding_scale": 1.0,
        "residual": 1.0,         # scale of what attention and feed forward give
        "divisor": 1.0,          # of logits
    }

    def __init__(self, arch, seed, layers=2, heads=4, kv_heads=2, head_dim=32, base=10000.0, bias=False, head_norm=False,
                 tied=False, stretch=None, dim=DIM, ffn=FFN, vocab=VOCAB, epsilon=1e-5, keys=None, **rules):
        self.arch, self.layers, self.heads, self.kv_heads, self.head_dim, self.base = arch, layers, heads, kv_heads, head_dim, base
        self.dim, self.ffn, self.vocab, self.epsilon, self.keys = dim, ffn, vocab, epsilon, keys or {}
        assert set(rules) <= set(Model.RULES), rules
        self.rules = {"adjacent": arch == "llama", **{k: v for k, v in Model.RULES.items() if k != "adjacent"}, **rules}
        self.tensors = {}
        noise = random.Random(seed)

        def matrix(name, rows, columns, gain):
            scale = gain / math.sqrt(columns)
            self.tensors[name] = Tensor(rows, columns, [noise.gauss(0, scale) for _ in range(rows * columns)], True)

        def vector(name, values):
            self.tensors[name] = Tensor(1, len(values), values, False)

        def random_vector(name, n, mean, deviation):
            vector(name, [noise.gauss(mean, deviation) for _ in range(n)])

        def norms(block, names):
            for name in names:
                if name:
                    random_vector(f"{block}{name}.weight", dim, 1, 0.2)

        queries, keys = heads * head_dim, kv_heads * head_dim
        matrix("token_embd.weight", vocab, dim, 4)
        if not tied:
            matrix("output.weight", vocab, dim, 2)
        random_vector("output_norm.weight", dim, 1, 0.2)
        if stretch:
            vector("rope_freqs.weight", stretch)
        for layer in range(layers):
            block = f"blk.{layer}."
            norms(block, (self.rules["before"][0],))
            for name, rows, gain in (("q", queries, 2), ("k", keys, 2), ("v", keys, 1)):
                matrix(f"{block}attn_{name}.weight", rows, dim, gain)
                if bias:
                    random_vector(f"{block}attn_{name}.bias", rows, 0, 0.5)
            if head_norm:
                whole = head_norm == "whole"
                random_vector(block + "attn_q_norm.weight", queries if whole else head_dim, 1.5, 0.2)
                random_vector(block + "attn_k_norm.weight", keys if whole else head_dim, 1.5, 0.2)
            matrix(block + "attn_output.weight", dim, queries, 1)
            norms(block, (self.rules["after"][0], self.rules["before"][1]))
            if self.rules["gate"] == "own":
                matrix(block + "ffn_gate.weight", ffn, dim, 1)
            matrix(block + "ffn_up.weight", ffn * (2 if self.rules["gate"] == "fused" else 1), dim, 1)
            matrix(block + "ffn_down.weight", dim, ffn, 1)
            norms(block, (self.rules["after"][1],))

    # --- the file -----------------------------------------------------------------------------------------------------

    def metadata(self):
        kind = "" if self.rules["layer_norm"] else "rms_"
        own = {"block_count": self.layers, "context_length": 2048, "embedding_length": self.dim, "feed_forward_length": self.ffn,
               "attention.head_count": self.heads, "attention.head_count_kv": self.kv_heads, "vocab_size": self.vocab,
               "attention.key_length": self.head_dim, "attention.value_length": self.head_dim,
               f"attention.layer_norm_{kind}epsilon": self.epsilon, "rope.freq_base": self.base}
        if self.arch == "llama":
            own["rope.dimension_count"] = self.head_dim
        return {"general.architecture": self.arch, "general.file_type": 1, "tokenizer.ggml.model": "no_vocab",
                **{f"{self.arch}.{key}": value for key, value in {**own, **self.keys}.items()}}

    def written(self):
        """The tensors as the file has them."""
        return self.tensors

    def gguf(self):
        def text(s):
            return struct.pack("<Q", len(s)) + s.encode()

        def value(v):  # types 8, 9, 7, 6 and 4 of GGUF
            if isinstance(v, list):
                items = [value(x) for x in v]
                return struct.pack("<I", 9) + items[0][:4] + struct.pack("<Q", len(v)) + b"".join(x[4:] for x in items)
            if isinstance(v, str):
                return struct.pack("<I", 8) + text(v)
            if isinstance(v, bool):
                return struct.pack("<I?", 7, v)
            return struct.pack("<If", 6, v) if isinstance(v, float) else struct.pack("<II", 4, v)

        metadata, tensors = self.metadata(), self.written()
        head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
        head += b"".join(text(key) + value(v) for key, v in metadata.items())
        data = b""
        for name, t in tensors.items():
            shape = (t.columns, t.rows // t.count, t.count) if t.count > 1 else (t.columns, t.rows)
            if t.rows == 1 and not t.half:
                shape = (t.columns,)
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
        if name not in self.tensors:
            return x
        mean = math.fsum(x) / len(x) if self.rules["layer_norm"] else 0.0
        x = [v - mean for v in x]
        scale = 1 / math.sqrt(math.fsum(v * v for v in x) / len(x) + self.epsilon)
        y = [v * scale * w for v, w in zip(x, self.tensors[name].values)]
        bias = self.tensors.get(name.replace(".weight", ".bias"))
        return [a + b for a, b in zip(y, bias.values)] if bias else y

    def rope_of(self, layer):
        """Frequencies and magnitude of a layer, or None."""
        if layer in self.rules["no_rope"]:
            return None
        base, change, magnitude = self.rules["rope"](layer) if self.rules["rope"] else (self.base, None, 1.0)
        n = self.rules["rotated"] or self.head_dim
        frequencies = [base ** (-2 * i / n) for i in range(n // 2)]
        return change(frequencies) if change else frequencies, magnitude

    def turn(self, head, layer, position):
        rope = self.rope_of(layer)
        if not rope:
            return
        frequencies, magnitude = rope
        half, stretch = len(frequencies), self.tensors.get("rope_freqs.weight")
        for i, frequency in enumerate(frequencies):
            a, b = (2 * i, 2 * i + 1) if self.rules["adjacent"] else (i, i + half)
            angle = position * frequency / (stretch.values[i] if stretch else 1.0)
            c, s = math.cos(angle) * magnitude, math.sin(angle) * magnitude
            head[a], head[b] = head[a] * c - head[b] * s, head[a] * s + head[b] * c

    def cut(self, x):
        most = self.rules["clamp"]
        return [min(max(v, -most), most) for v in x] if most else x

    def heads_of(self, x, norm, layer, position):
        """Rows of head_dim, normed where the model norms heads, and rotated."""
        n, x = self.head_dim, self.cut(x)
        weight = self.tensors.get(norm)
        if weight and weight.columns > n:
            x, weight = self.norm(norm, x), None
        out = []
        for first in range(0, len(x), n):
            head = x[first:first + n]
            if weight and not self.rules["norm_after_rope"]:
                head = self.norm(norm, head)
            self.turn(head, layer, position)
            if weight and self.rules["norm_after_rope"]:
                head = self.norm(norm, head)
            out.append(head)
        return out

    def weigh(self, layer, head, scores):
        """Weights of the keys, and what they are divided by."""
        weights = [math.exp(s - max(scores)) for s in scores]
        return weights, math.fsum(weights)

    def first_seen(self, layer, position):
        window = self.rules["windows"].get(layer)
        return max(0, position + 1 - window) if window else 0

    def heat(self, layer, position):
        """What queries are multiplied by."""
        if not self.rules["temperature"]:
            return 1.0
        scale, length = self.rules["temperature"]
        return 1.0 + scale * math.log(1 + position // length)

    def mixed(self, layer, x, heads):
        """What the output matrix reads."""
        return heads

    def attention(self, layer, x, position, keys, values):
        block = f"blk.{layer}."
        q = self.heads_of(self.multiply(block + "attn_q.weight", x), block + "attn_q_norm.weight", layer, position)
        keys.append(self.heads_of(self.multiply(block + "attn_k.weight", x), block + "attn_k_norm.weight", layer, position))
        v = self.cut(self.multiply(block + "attn_v.weight", x))
        values.append([v[i:i + self.head_dim] for i in range(0, len(v), self.head_dim)])
        first, heat = self.first_seen(layer, position), self.heat(layer, position)
        root = 1 / self.rules["scale"] if self.rules["scale"] else math.sqrt(self.head_dim)
        out = []
        for h, query in enumerate(q):
            kv = h * self.kv_heads // self.heads
            scores = [heat * math.fsum(map(float.__mul__, query, k[kv])) / root for k in keys[first:]]
            if self.rules["slopes"]:
                scores = [s - self.rules["slopes"][h] * (position - first - i) for i, s in enumerate(scores)]
            weights, total = self.weigh(layer, h, scores)
            out += [math.fsum(w * v[kv][i] for w, v in zip(weights, values[first:])) / total for i in range(self.head_dim)]
        return self.multiply(block + "attn_output.weight", self.mixed(layer, x, out))

    def feed_forward(self, layer, x):
        block, act = f"blk.{layer}.", {False: silu, True: gelu, "erf": erf_gelu, "relu2": relu2}[self.rules["gelu"]]
        up = self.multiply(block + "ffn_up.weight", x)
        if self.rules["gate"] == "fused":
            gate, up = up[:self.ffn], up[self.ffn:]
        elif self.rules["gate"]:
            gate = self.multiply(block + "ffn_gate.weight", x)
        hidden = [act(g) * u for g, u in zip(gate, up)] if self.rules["gate"] else [act(u) for u in up]
        return self.multiply(block + "ffn_down.weight", hidden)

    def embed(self, token, position):
        return [v * self.rules["embedding_scale"] for v in self.tensors["token_embd.weight"].row(token)]

    def run_layer(self, layer, x, position, keys, values):
        def add(x, y):
            return [a + b * self.rules["residual"] for a, b in zip(x, y)]

        name = [f"blk.{layer}.{n}.weight" for n in self.rules["before"] + self.rules["after"]]
        x = add(x, self.norm(name[2], self.attention(layer, self.norm(name[0], x), position, keys, values)))
        return add(x, self.norm(name[3], self.feed_forward(layer, self.norm(name[1], x))))

    def logits(self, tokens):
        output = "output.weight" if "output.weight" in self.tensors else "token_embd.weight"
        cache = [([], []) for _ in range(self.layers)]
        rows = []
        for position, token in enumerate(tokens):
            x = self.embed(token, position)
            for layer, (keys, values) in enumerate(cache):
                x = self.run_layer(layer, x, position, keys, values)
            rows += [v / self.rules["divisor"] for v in self.multiply(output, self.norm("output_norm.weight", x))]
        return rows


def llama3_stretch(n, base, factor=32.0, low=1.0, high=4.0, context=512):
    """Llama 3's scaling: short wavelengths stay, long ones are stretched by `factor`, those between by a mixture."""
    stretch = []
    for i in range(n // 2):
        wavelength = 2 * math.pi * base ** (2 * i / n)
        mix = (context / wavelength - low) / (high - low)
        stretch.append(1 / ((1 - mix) / factor + mix) if 0 < mix < 1 else factor if mix <= 0 else 1.0)
    return stretch


def yarn(base, n, factor, original, fast=32, slow=1, whole=True):
    """YaRN (arXiv:2309.00071): frequencies -> frequencies, and the magnitude."""
    def pair(turns):
        return n * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(base))

    first, last = (math.floor(pair(fast)), math.ceil(pair(slow))) if whole else (pair(fast), pair(slow))
    low, high = max(0, first), min(n - 1, last)

    def change(frequencies):
        kept = [1 - min(max((i - low) / max(high - low, 1e-3), 0), 1) for i in range(len(frequencies))]
        return [f * (k + (1 - k) / factor) for f, k in zip(frequencies, kept)]

    return change, 1 + 0.1 * math.log(factor)


def gemma3():
    """Two layers with a window and base 10000, then one that sees everything and has scaled RoPE."""
    windows = {0: 10, 1: 10, 3: 10}
    return Model("gemma3", 5, layers=4, heads=2, kv_heads=1, base=1000000.0, head_norm=True, tied=True, windows=windows,
                 after=("post_attention_norm", "post_ffw_norm"), gelu=True, embedding_scale=math.sqrt(SMALL["dim"]),
                 rope=lambda l: (10000.0, None, 1.0) if l in windows else (1000000.0, lambda f: [x / 8 for x in f], 1.0),
                 keys={"attention.sliding_window": 10, "attention.sliding_window_pattern": 3, "rope.scaling.type": "linear",
                       "rope.scaling.factor": 8.0}, **SMALL)


def olmo3():
    """Three layers with a window and plain RoPE, then one with YaRN."""
    windows, (change, magnitude) = {0: 9, 1: 9, 2: 9}, yarn(10000.0, 16, 4.0, 64)
    return Model("olmo2", 6, layers=4, heads=2, kv_heads=1, head_norm="whole", windows=windows, before=(None, None),
                 after=("post_attention_norm", "post_ffw_norm"),
                 rope=lambda l: (10000.0, None, 1.0) if l in windows else (10000.0, change, magnitude),
                 keys={"attention.sliding_window": 9, "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
                       "rope.scaling.original_context_length": 64}, **SMALL)


def mistral3():
    """YaRN of two magnitudes, which are m(1) = 1 + 0.1 ln 4 and m(0.5); queries grow every 16 tokens."""
    change, magnitude = yarn(10000.0, 16, 4.0, 16)
    return Model("mistral3", 7, heads=2, kv_heads=1, adjacent=True, temperature=(0.5, 16),
                 rope=lambda l: (10000.0, change, magnitude / (1 + 0.05 * math.log(4.0))),
                 keys={"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 16,
                       "rope.scaling.yarn_log_multiplier": 0.5, "attention.temperature_scale": 0.5}, **SMALL)


def exaone4(windows):
    return Model("exaone4", 8, layers=4 if windows else 2, heads=2, kv_heads=1, head_norm=True, before=(None, None),
                 after=("post_attention_norm", "post_ffw_norm"), windows={0: 11, 1: 11, 2: 11} if windows else {},
                 no_rope=(3,) if windows else (), keys={"attention.sliding_window": 11} if windows else {}, **SMALL)


SMALL = {"head_dim": 16, "dim": 32, "ffn": 32, "epsilon": 1e-3}

MODELS = {
    "llama": lambda: Model("llama", 1),
    "llama3": lambda: Model("llama", 2, layers=1, head_dim=64, base=500000.0, tied=True,
                            stretch=llama3_stretch(64, 500000.0)),
    "qwen2": lambda: Model("qwen2", 3, base=1000000.0, bias=True),
    "qwen3": lambda: Model("qwen3", 4, layers=1, heads=4, kv_heads=1, head_dim=64, base=1000000.0, head_norm=True,
                           tied=True),
    "qwen2vl": lambda: Model("qwen2vl", 15, heads=2, kv_heads=1, bias=True, keys={"rope.dimension_sections": [4, 2, 2, 0]}, **SMALL),
    "qwen3vl": lambda: Model("qwen3vl", 16, heads=2, kv_heads=1, head_norm=True, tied=True,
                             keys={"rope.dimension_sections": [4, 2, 2, 0], "n_deepstack_layers": 1}, **SMALL),
    "gemma3": gemma3,
    "mpt": lambda: Model("mpt", 9, heads=3, kv_heads=3, tied=True, layer_norm=True, gelu="erf", gate=None, clamp=1.5,
                         no_rope=(0, 1), slopes=[2 ** -4.0, 2 ** -8.0, 2 ** -2.0],
                         keys={"attention.max_alibi_bias": 8.0, "attention.clamp_kqv": 1.5}, **SMALL),
    "hunyuan": lambda: Model("hunyuan-dense", 10, heads=2, kv_heads=1, head_norm=True, tied=True, norm_after_rope=True,
                             **SMALL),
    "mistral3": mistral3,
    "olmo3": olmo3,
    "glm4": lambda: Model("glm4", 11, heads=2, kv_heads=1, bias=True, adjacent=True, rotated=8, gate="fused",
                          after=("post_attention_norm", "post_ffw_norm"), keys={"rope.dimension_count": 8}, **SMALL),
    "exaone4": lambda: exaone4(True),
    "exaone4-small": lambda: exaone4(False),
    "smollm3": lambda: Model("smollm3", 12, layers=4, heads=2, kv_heads=1, tied=True, adjacent=True, no_rope=(3,), **SMALL),
    "seed_oss": lambda: Model("seed_oss", 13, heads=2, kv_heads=1, bias=True, before=("attn_norm", "post_attention_norm"),
                              **SMALL),
    "ernie4_5": lambda: Model("ernie4_5", 14, heads=2, kv_heads=1, tied=True, adjacent=True, **SMALL),
}


def main():
    import golden_experts, golden_families, golden_gemma4, golden_latent, golden_recurrent  # which build on this file
    models = {**MODELS, **golden_experts.MODELS, **golden_families.MODELS,
              **golden_gemma4.MODELS, **golden_latent.MODELS, **golden_recurrent.MODELS}
    if len(sys.argv) < 2 or not set(sys.argv[2:]) <= set(models):
        sys.exit(__doc__)
    folder, names = sys.argv[1], sys.argv[2:] or models
    os.makedirs(folder, exist_ok=True)
    tokens = [random.Random(99 + i).randrange(VOCAB) for i in range(TOKENS)]
    with open(os.path.join(folder, "tokens.json"), "w") as f:
        json.dump({"tokens": tokens}, f)
        f.write("\n")
    for name in names:
        model = models[name]()
        rows = model.logits(tokens)
        with open(os.path.join(folder, name + ".gguf"), "wb") as f:
            f.write(model.gguf())
        with open(os.path.join(folder, name + ".logits.f32"), "wb") as f:
            f.write(struct.pack(f"<{len(rows)}f", *rows))


if __name__ == "__main__":
    main()
