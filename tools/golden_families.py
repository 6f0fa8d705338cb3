"""Golden models of the families before Llama and beside it: what tools/golden_models.py writes besides its own."""
import math
import random

from golden_models import SMALL, Model, Tensor


class Family(Model):
    """biases: letters n (of norms) o (attention's output) f (feed forward) v (logits); parallel: attention and feed forward
    side by side, each on its norm of "before"; positions: rows of position_embd; embedding_norm: of the embedding; fused:
    the file has attn_qkv; caps: of scores and of logits; extra: more vectors."""

    def __init__(self, arch, seed, biases="", parallel=False, positions=0, embedding_norm=False, fused=False,
                 caps=(None, None), extra=None, **rest):
        keys = rest.pop("keys", {})
        super().__init__(arch, seed, keys={**({"context_length": positions} if positions else {}), **keys}, **rest)
        self.parallel, self.positions, self.fused, self.caps = parallel, positions, fused, caps
        noise = random.Random(seed + 3000)

        def vector(name, n, mean=0.0, deviation=0.4):
            self.tensors[name] = Tensor(1, n, [noise.gauss(mean, deviation) for _ in range(n)], False)

        if positions:
            values = [noise.gauss(0, 1) for _ in range(positions * self.dim)]
            self.tensors["position_embd.weight"] = Tensor(positions, self.dim, values, True)
        if embedding_norm:
            vector("token_embd_norm.weight", self.dim, 1, 0.2)
        for name, t in list(self.tensors.items()):
            kind = ("n" if "norm" in name else "o" if "attn_output" in name else "f" if "ffn_" in name else
                    "v" if name == "output.weight" else "-")
            if kind in biases:
                vector(name.replace(".weight", ".bias"), t.columns if kind == "n" else t.rows)
        for name, values in (extra or {}).items():
            self.tensors[name] = Tensor(1, len(values), values, False)

    def written(self):
        if not self.fused:
            return self.tensors
        out = dict(self.tensors)
        for layer in range(self.layers):
            for end in (".weight", ".bias"):
                parts = [out.pop(f"blk.{layer}.attn_{x}{end}", None) for x in "qkv"]
                if parts[0]:
                    rows = [v for part in parts for v in part.values]
                    columns = parts[0].columns if end == ".weight" else len(rows)
                    out[f"blk.{layer}.attn_qkv{end}"] = Tensor(len(rows) // columns, columns, rows, parts[0].half)
        return out

    def embed(self, token, position):
        x = super().embed(token, position)
        if self.positions:
            x = [a + b for a, b in zip(x, self.tensors["position_embd.weight"].row(position))]
        return self.norm("token_embd_norm.weight", x)

    def weigh(self, layer, head, scores):
        if self.caps[0]:
            scores = [self.caps[0] * math.tanh(s / self.caps[0]) for s in scores]
        return super().weigh(layer, head, scores)

    def run_layer(self, layer, x, position, keys, values):
        if not self.parallel:
            return super().run_layer(layer, x, position, keys, values)
        first, second = (self.norm(f"blk.{layer}.{n}.weight", x) for n in self.rules["before"])
        both = self.attention(layer, first, position, keys, values), self.feed_forward(layer, second)
        return [a + b + c for a, b, c in zip(x, *both)]

    def logits(self, tokens):
        rows, cap = super().logits(tokens), self.caps[1]
        return [cap * math.tanh(v / cap) for v in rows] if cap else rows


class MuseGlimmer(Family):
    """A gate for every element of attention's heads, and norms of eps 1e-8 behind attention and feed forward."""

    def __init__(self, arch, seed, **rest):
        super().__init__(arch, seed, **rest)
        noise, rows = random.Random(seed + 6000), self.heads * self.head_dim
        for layer in range(self.layers):
            values = [noise.gauss(0, 2 / math.sqrt(self.dim)) for _ in range(rows * self.dim)]
            self.tensors[f"blk.{layer}.attn_gate.weight"] = Tensor(rows, self.dim, values, True)

    def mixed(self, layer, x, heads):
        gate = self.multiply(f"blk.{layer}.attn_gate.weight", x)
        return [v / (1 + math.exp(-g)) for v, g in zip(heads, gate)]

    def norm(self, name, x):
        kept = self.epsilon
        if "post_" in name:
            self.epsilon = 1e-8
        y = super().norm(name, x)
        self.epsilon = kept
        return y

    def embed(self, token, position):
        x = super().embed(token, position)
        scale = 1 / math.sqrt(math.fsum(v * v for v in x) / len(x) + self.epsilon)
        return [v * scale for v in x]


GPT = {"layer_norm": True, "gelu": True, "gate": None, "biases": "nof", "bias": True, **SMALL}
SAME = ("attn_norm", "attn_norm")  # one norm for attention and feed forward
POST = ("post_attention_norm", "post_ffw_norm")
PART = {"rotated": 8, "keys": {"rope.dimension_count": 8}}
NO_ROPE = (0, 1)


def phi3():
    """LongRoPE: of 8 frequencies each has a divisor of its own for contexts of more than 256 tokens. The window sees all."""
    long, short = ([1 + 0.5 * i ** 1.2 for i in range(8)], [1 + 0.02 * i for i in range(8)])
    factor = math.sqrt(1 + math.log(2048 / 256) / math.log(256))
    return Family("phi3", 44, heads=2, kv_heads=1, gate="fused", fused=True,
                  rope=lambda l: (10000.0, lambda f: [x / d for x, d in zip(f, long)], factor),
                  extra={"rope_factors_long.weight": long, "rope_factors_short.weight": short},
                  keys={"rope.dimension_count": 16, "attention.sliding_window": 262144,
                        "rope.scaling.original_context_length": 256, "rope.scaling.attn_factor": factor}, **SMALL)


def gemma2():
    return Family("gemma2", 42, layers=4, heads=2, kv_heads=1, tied=True, windows={0: 10, 2: 10}, after=POST, gelu=True,
                  caps=(4.0, 6.0), embedding_scale=math.sqrt(SMALL["dim"]),
                  keys={"attention.sliding_window": 10, "attn_logit_softcapping": 4.0, "final_logit_softcapping": 6.0},
                  **SMALL)


def cohere2():
    """Three layers with a window, then one that sees everything and has no positions."""
    return Family("cohere2", 53, layers=4, heads=2, kv_heads=1, tied=True, layer_norm=True, adjacent=True, parallel=True,
                  before=SAME, windows={0: 9, 1: 9, 2: 9}, no_rope=(3,), divisor=2.0,
                  keys={"attention.sliding_window": 9, "logit_scale": 0.5}, **SMALL)


def muse_glimmer():
    """Three layers with a window, then one that sees everything and has no positions."""
    return MuseGlimmer("muse-glimmer", 54, layers=4, heads=2, kv_heads=1, head_norm=True, adjacent=True, after=POST,
                       windows={0: 9, 1: 9, 2: 9}, no_rope=(3,), divisor=2.0, caps=(None, 6.0),
                       keys={"attention.sliding_window": 9, "logit_scale": 0.5, "final_logit_softcapping": 6.0}, **SMALL)


MODELS = {
    "muse-glimmer": muse_glimmer,
    "gemma": lambda: Family("gemma", 41, heads=2, kv_heads=1, tied=True, gelu=True,
                            embedding_scale=math.sqrt(SMALL["dim"]), **SMALL),
    "gemma2": gemma2,
    "phi2": lambda: Family("phi2", 43, heads=2, kv_heads=2, parallel=True, before=SAME, **PART,
                           **{**GPT, "biases": "nofv"}),
    "phi3": phi3,
    "gpt2": lambda: Family("gpt2", 45, heads=2, kv_heads=2, tied=True, fused=True, positions=640, no_rope=NO_ROPE, **GPT),
    "gptneox": lambda: Family("gptneox", 46, heads=2, kv_heads=2, fused=True, parallel=True, **PART,
                              **{**GPT, "gelu": "erf"}),
    "falcon": lambda: Family("falcon", 47, heads=3, kv_heads=1, tied=True, fused=True, parallel=True,
                             before=("attn_norm_2", "attn_norm"), **{**GPT, "gelu": "erf", "bias": False, "biases": "n"}),
    "bloom": lambda: Family("bloom", 48, heads=2, kv_heads=2, tied=True, fused=True, embedding_norm=True,
                            no_rope=NO_ROPE, slopes=[2 ** -4.0, 2 ** -8.0], **GPT),
    "stablelm": lambda: Family("stablelm", 49, heads=2, kv_heads=1, bias=True, biases="n", layer_norm=True, **PART,
                               **SMALL),
    "arcee": lambda: Family("arcee", 55, heads=2, kv_heads=1, adjacent=True, gelu="relu2", gate=None,
                            keys={"rope.dimension_count": 16}, **SMALL),
    "nemotron": lambda: Family("nemotron", 56, heads=2, kv_heads=1, bias=False, biases="n", layer_norm=True, gelu="relu2",
                               gate=None, **PART, **SMALL),
    "starcoder2": lambda: Family("starcoder2", 50, heads=2, kv_heads=1, tied=True, **GPT),
    "granite": lambda: Family("granite", 51, heads=2, kv_heads=1, tied=True, adjacent=True, scale=0.4, residual=0.5,
                              divisor=4.0, embedding_scale=3.0,
                              keys={"embedding_scale": 3.0, "residual_scale": 0.5, "attention.scale": 0.4,
                                    "logit_scale": 4.0}, **SMALL),
    "command-r": lambda: Family("command-r", 52, heads=2, kv_heads=1, tied=True, layer_norm=True, adjacent=True,
                                parallel=True, before=SAME, divisor=0.5, keys={"logit_scale": 2.0}, **SMALL),
    "cohere2": cohere2,
}
