"""Golden models whose layers have states in place of keys and values: what tools/golden_models.py writes besides its own."""
import math
import random

from golden_experts import ExpertModel
from golden_models import SMALL, Model, Tensor, silu

EPSILON = SMALL["epsilon"]


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def softplus(x):
    return math.log1p(math.exp(x))


def dot(a, b):
    return math.fsum(map(float.__mul__, a, b))


def unit(x):
    length = max(math.sqrt(dot(x, x)), EPSILON)
    return [v / length for v in x]


class States:
    """kinds: of every layer a word: "attention", "conv" (LFM2), "delta" (gated DeltaNet), "mamba" (Mamba-2), "both"
    (attention beside Mamba-2); behind it "-" if it has no feed forward; "feed" if it has nothing else. sizes: taps, groups,
    heads, head_dim, state. by_head: "tiled" or "grouped" value heads. fused: DeltaNet's matrices by key head, "ba" or "all".
    queries_gated: attention's queries have output gates. norm: name of the last norm. normed: Mamba-2 has a norm. relu2: of the
    feed forward, which has no gate then."""

    def __init__(self, arch, seed, kinds, sizes=None, by_head="grouped", fused="", queries_gated=False, norm=None, normed=True,
                 relu2=False, conv_bias=True, **rest):
        super().__init__(arch, seed, layers=len(kinds), **rest)
        self.kinds, self.by_head, self.fused, self.gated_queries = kinds, by_head, fused, queries_gated
        self.last_norm, self.normed, self.relu2, self.gate = norm, normed, relu2, None
        self.taps, self.groups, self.state_heads, self.state_dim, self.state_size = sizes or (3, 0, 0, 0, 0)
        self.noise = random.Random(seed + 4000)
        for layer, kind in enumerate(kinds):
            block = f"blk.{layer}."
            if not kind.startswith(("attention", "both")):
                self.drop(block + "attn_q", block + "attn_k", block + "attn_v", block + "attn_output")
            if kind.endswith("-"):
                self.drop(block + "ffn_", block + self.rules["before"][1] + ".")
            if kind == "feed":
                self.drop(block + self.rules["before"][1] + ".")
            if relu2:
                self.drop(block + "ffn_gate")
            kind = kind.rstrip("-")
            make = {"conv": self.make_conv, "delta": self.make_delta, "mamba": self.make_mamba,
                    "both": self.make_mamba}.get(kind)
            if make:
                make(block, conv_bias)
            if kind == "attention" and queries_gated:
                self.matrix(block + "attn_og", self.heads * self.head_dim, self.dim, 1.5)

    def drop(self, *beginnings):
        for name in [n for n in self.tensors if n.startswith(beginnings)]:
            del self.tensors[name]

    def matrix(self, name, rows, columns, gain, half=True):
        values = [self.noise.gauss(0, gain / math.sqrt(columns)) for _ in range(rows * columns)]
        self.tensors[name + ".weight"] = Tensor(rows, columns, values, half)

    def vector(self, name, values, rows=1):
        self.tensors[name] = Tensor(rows, len(values) // rows, values, False)

    def random_vector(self, name, n, mean, deviation, rows=1):
        self.vector(name, [self.noise.gauss(mean, deviation) for _ in range(n)], rows)

    def make_conv(self, block, _):
        self.matrix(block + "shortconv.in_proj", 3 * self.dim, self.dim, 1.5)
        self.matrix(block + "shortconv.conv", self.dim, self.taps, 1.5, half=False)
        self.matrix(block + "shortconv.out_proj", self.dim, self.dim, 1.5)

    def make_heads(self, block, column):
        heads = self.state_heads
        self.random_vector(block + "ssm_dt.bias", heads, 0, 1)
        self.vector(block + "ssm_a", [-math.exp(self.noise.uniform(-3, 0.5)) for _ in range(heads)], column and heads or 1)

    def make_delta(self, block, _):
        keys, values = self.groups * self.state_size, self.state_heads * self.state_dim
        self.matrix(block + "attn_qkv", 2 * keys + values, self.dim, 1.5)
        self.matrix(block + "attn_gate", values, self.dim, 1.5)
        self.matrix(block + "ssm_beta", self.state_heads, self.dim, 1.5, half=False)
        self.matrix(block + "ssm_alpha", self.state_heads, self.dim, 1.5, half=False)
        self.matrix(block + "ssm_conv1d", 2 * keys + values, self.taps, 1.4, half=False)
        self.make_heads(block, False)
        self.random_vector(block + "ssm_norm.weight", self.state_dim, 1, 0.3)
        self.matrix(block + "ssm_out", self.dim, values, 1.5)

    def make_mamba(self, block, conv_bias):
        keys, values = self.groups * self.state_size, self.state_heads * self.state_dim
        self.matrix(block + "ssm_in", 2 * values + 2 * keys + self.state_heads, self.dim, 1.5)
        self.matrix(block + "ssm_conv1d", values + 2 * keys, self.taps, 1.4, half=False)
        if conv_bias:
            self.random_vector(block + "ssm_conv1d.bias", values + 2 * keys, 0, 0.3)
        self.make_heads(block, True)
        self.random_vector(block + "ssm_d", self.state_heads, 1, 0.4, rows=self.state_heads)
        if self.normed:
            self.random_vector(block + "ssm_norm.weight", values, 1, 0.3, rows=self.groups)
        self.matrix(block + "ssm_out", self.dim, values, 1.5)

    # --- the file -----------------------------------------------------------------------------------------------------

    def metadata(self):
        own = {"attention.head_count_kv": [self.kv_heads if k.startswith(("attention", "both")) else 0 for k in self.kinds]}
        if self.groups:
            own.update({"ssm.conv_kernel": self.taps, "ssm.group_count": self.groups, "ssm.time_step_rank": self.state_heads,
                        "ssm.state_size": self.state_size, "ssm.inner_size": self.state_heads * self.state_dim})
        else:
            own["shortconv.l_cache"] = self.taps
        known = super().metadata()
        return {**known, **{f"{self.arch}.{k}": v for k, v in own.items() if k not in self.keys}}

    def written(self):
        out = dict(super().written())
        if self.last_norm:
            out[self.last_norm + ".weight"] = out.pop("output_norm.weight")
        for layer in range(self.layers):
            block = f"blk.{layer}."
            if block + "attn_og.weight" in out:
                q, gate = out[block + "attn_q.weight"], out.pop(block + "attn_og.weight")
                out[block + "attn_q.weight"] = self.by_parts([q, gate], [self.head_dim] * 2, self.heads)
            if not self.fused or block + "ssm_beta.weight" not in out:
                continue
            own = self.state_heads // self.groups
            b, a = (out.pop(f"{block}ssm_{x}.weight") for x in ("beta", "alpha"))
            out[block + "ssm_ba.weight"] = self.by_parts([b, a], [own, own], self.groups)
            if self.fused == "all":
                qkv, z = (out.pop(f"{block}{x}.weight") for x in ("attn_qkv", "attn_gate"))
                keys = self.groups * self.state_size
                rows = [Tensor(n, self.dim, qkv.values[first * self.dim:(first + n) * self.dim], True)
                        for first, n in ((0, keys), (keys, keys), (2 * keys, self.state_heads * self.state_dim))]
                widths = [self.state_size, self.state_size, own * self.state_dim, own * self.state_dim]
                out[block + "ssm_in.weight"] = self.by_parts(rows + [z], widths, self.groups)
        return out

    @staticmethod
    def by_parts(tensors, widths, count):
        """Rows of several matrices, `widths` of them in turn, `count` times."""
        values, columns = [], tensors[0].columns
        for i in range(count):
            for t, n in zip(tensors, widths):
                values += t.values[i * n * columns:(i + 1) * n * columns]
        return Tensor(len(values) // columns, columns, values, tensors[0].half)

    # --- the reference ------------------------------------------------------------------------------------------------

    def convolve(self, name, x, past):
        """x is added to the past rows; what the convolution makes of the last ones."""
        past.append(x)
        weight, bias = self.tensors[name + ".weight"], self.tensors.get(name + ".bias")
        rows = past[-self.taps:]
        out = []
        for c in range(len(x)):
            taps = weight.row(c)[-len(rows):]
            out.append(math.fsum(t * row[c] for t, row in zip(taps, rows)) + (bias.values[c] if bias else 0.0))
        return out

    def conv(self, block, x, past, _):
        y, n = self.multiply(block + "shortconv.in_proj.weight", x), self.dim
        mixed = self.convolve(block + "shortconv.conv", [a * b for a, b in zip(y[:n], y[2 * n:])], past)
        return self.multiply(block + "shortconv.out_proj.weight", [a * b for a, b in zip(y[n:2 * n], mixed)])

    def parts(self, row, n):
        return [row[i:i + n] for i in range(0, len(row), n)]

    def delta(self, block, x, past, states):
        keys, d, dv = self.groups * self.state_size, self.state_size, self.state_dim
        y = [silu(v) for v in self.convolve(block + "ssm_conv1d", self.multiply(block + "attn_qkv.weight", x), past)]
        q, k = ([unit(h) for h in self.parts(row, d)] for row in (y[:keys], y[keys:2 * keys]))
        v, z = self.parts(y[2 * keys:], dv), self.parts(self.multiply(block + "attn_gate.weight", x), dv)
        b, a = (self.multiply(f"{block}ssm_{n}.weight", x) for n in ("beta", "alpha"))
        if not states:
            states += [[[0.0] * dv for _ in range(d)] for _ in range(self.state_heads)]
        out = []
        for h, s in enumerate(states):
            of = h % self.groups if self.by_head == "tiled" else h * self.groups // self.state_heads
            decay = math.exp(softplus(a[h] + self.tensors[block + "ssm_dt.bias"].values[h]) *
                             self.tensors[block + "ssm_a"].values[h])
            s = [[decay * e for e in row] for row in s]
            known = [dot(k[of], [row[j] for row in s]) for j in range(dv)]
            u = [sigmoid(b[h]) * (v[h][j] - known[j]) for j in range(dv)]
            states[h] = s = [[e + k[of][i] * u[j] for j, e in enumerate(row)] for i, row in enumerate(s)]
            o = [dot(q[of], [row[j] for row in s]) / math.sqrt(d) for j in range(dv)]
            out += [n * silu(g) for n, g in zip(self.norm(block + "ssm_norm.weight", o), z[h])]
        return self.multiply(block + "ssm_out.weight", out)

    def mamba(self, block, x, past, states):
        keys, values = self.groups * self.state_size, self.state_heads * self.state_dim
        y = self.multiply(block + "ssm_in.weight", x)
        z, dt = y[:values], y[2 * values + 2 * keys:]
        mixed = [silu(v) for v in self.convolve(block + "ssm_conv1d", y[values:2 * values + 2 * keys], past)]
        v = self.parts(mixed[:values], self.state_dim)
        b, c = (self.parts(mixed[first:first + keys], self.state_size) for first in (values, values + keys))
        if not states:
            states += [[[0.0] * self.state_size for _ in range(self.state_dim)] for _ in range(self.state_heads)]
        out = []
        for h, s in enumerate(states):
            group = h * self.groups // self.state_heads
            step = softplus(dt[h] + self.tensors[block + "ssm_dt.bias"].values[h])
            decay = math.exp(step * self.tensors[block + "ssm_a"].values[h])
            states[h] = s = [[decay * e + step * v[h][p] * b[group][n] for n, e in enumerate(row)]
                             for p, row in enumerate(s)]
            skip = self.tensors[block + "ssm_d"].values[h]
            out += [dot(row, c[group]) + skip * v[h][p] for p, row in enumerate(s)]
        out = [o * silu(g) for o, g in zip(out, z)]
        if self.normed:
            weight, width = self.tensors[block + "ssm_norm.weight"], values // self.groups
            for g in range(self.groups):
                part = out[g * width:(g + 1) * width]
                scale = 1 / math.sqrt(dot(part, part) / width + self.epsilon)
                out[g * width:(g + 1) * width] = [v * scale * w for v, w in zip(part, weight.row(g))]
        return self.multiply(block + "ssm_out.weight", out)

    def multiply(self, name, x):
        if self.gate and name.endswith("attn_output.weight"):
            x, self.gate = [v * sigmoid(g) for v, g in zip(x, self.gate)], None
        return super().multiply(name, x)

    def feed_forward(self, layer, x):
        if not self.relu2:
            return super().feed_forward(layer, x)
        hidden = [max(v, 0.0) ** 2 for v in self.multiply(f"blk.{layer}.ffn_up.weight", x)]
        return self.multiply(f"blk.{layer}.ffn_down.weight", hidden)

    def run_layer(self, layer, x, position, keys, values):
        block, kind, scale = f"blk.{layer}.", self.kinds[layer], self.rules["residual"]
        first, second = self.rules["before"]
        if kind == "feed":
            return [a + scale * b for a, b in zip(x, self.feed_forward(layer, self.norm(block + first + ".weight", x)))]
        h, mixed = self.norm(block + first + ".weight", x), [0.0] * self.dim
        if kind.startswith(("attention", "both")):
            if self.gated_queries:
                self.gate = self.multiply(block + "attn_og.weight", h)
            mixed = self.attention(layer, h, position, keys, values)
        state = {"conv": self.conv, "delta": self.delta, "mamba": self.mamba, "both": self.mamba}.get(kind.rstrip("-"))
        if state:
            past, states = self.memory.setdefault(layer, ([], []))
            mixed = [a + b for a, b in zip(mixed, state(block, h, past, states))]
        x = [a + scale * b for a, b in zip(x, mixed)]
        if kind.endswith("-"):
            return x
        return [a + scale * b for a, b in zip(x, self.feed_forward(layer, self.norm(block + second + ".weight", x)))]

    def logits(self, tokens):
        self.memory = {}
        return super().logits(tokens)


class StateModel(States, Model):
    pass


class StateExperts(States, ExpertModel):
    pass


ONE = {"heads": 2, "kv_heads": 1, **SMALL}
QWEN = {"queries_gated": True, "head_norm": True, "before": ("attn_norm", "post_attention_norm"), "rotated": 8, "base": 1000000.0,
        **ONE}
QWEN_KEYS = {"rope.dimension_count": 8, "full_attention_interval": 2, "attention.head_count_kv": 1}
DELTA = {"kinds": ["delta", "attention", "delta", "attention"], "sizes": (4, 2, 4, 16, 16)}
GRANITE = {"no_rope": (0, 1, 2), "residual": 0.5, "divisor": 4.0, "embedding_scale": 3.0}
GRANITE_KEYS = {"embedding_scale": 3.0, "residual_scale": 0.5, "logit_scale": 4.0,
                "rope.scaling.finetuned": False}
MAMBA = (4, 2, 4, 8, 16)
SHARED = {"expert_shared_feed_forward_length": 16}

MODELS = {
    "lfm2": lambda: StateModel("lfm2", 81, ["conv", "attention", "conv"], head_norm=True, tied=True,
                               norm="token_embd_norm", **ONE),
    "lfm2moe": lambda: StateExperts("lfm2moe", 82, ["conv", "attention", "conv"], head_norm=True, tied=True,
                                    norm="token_embd_norm", experts=(5, 2, 32), gating="sigmoid", choice_bias=True,
                                    dense=(0,), keys={"leading_dense_block_count": 1, "expert_gating_func": 2}, **ONE),
    "qwen35": lambda: StateModel("qwen35", 83, by_head="tiled", tied=True, keys=QWEN_KEYS, **DELTA, **QWEN),
    "qwen35moe": lambda: StateExperts("qwen35moe", 100, by_head="tiled", experts=(5, 2, 32), shared=16,
                                      gated=True, keys={**QWEN_KEYS, **SHARED}, **DELTA, **QWEN),
    "qwen3next": lambda: StateExperts("qwen3next", 124, fused="ba", experts=(5, 2, 32), shared=16, gated=True,
                                      keys={**QWEN_KEYS, **SHARED}, **DELTA, **QWEN),
    "qwen3next-old": lambda: StateExperts("qwen3next", 140, fused="all", experts=(5, 2, 32), shared=16, gated=True,
                                          keys={**QWEN_KEYS, **SHARED}, **DELTA, **QWEN),
    "mamba2": lambda: StateModel("mamba2", 87, ["mamba-", "mamba-"], sizes=MAMBA, tied=True,
                                 keys={"attention.head_count": 0, "attention.head_count_kv": 0, "feed_forward_length": 0},
                                 **ONE),
    "granitehybrid": lambda: StateModel("granitehybrid", 88, ["mamba", "attention", "mamba"], sizes=MAMBA, tied=True,
                                        adjacent=True, scale=0.4, keys={**GRANITE_KEYS, "attention.scale": 0.4}, **GRANITE,
                                        **ONE),
    "granitehybrid-moe": lambda: StateExperts("granitehybrid", 89, ["mamba", "attention", "mamba"], sizes=MAMBA,
                                              experts=(5, 2, 32), shared=16, tied=True, adjacent=True, conv_bias=False,
                                              keys={**GRANITE_KEYS, **SHARED}, **GRANITE, **ONE),
    "falcon-h1": lambda: StateModel("falcon-h1", 90, ["both", "both"], sizes=(4, 1, 4, 8, 16), normed=False, **ONE),
    "nemotron_h": lambda: StateModel("nemotron_h", 91, ["mamba-", "feed", "attention-", "feed", "mamba-"], sizes=MAMBA,
                                     relu2=True, no_rope=(2,), keys={"feed_forward_length": [0, 32, 0, 32, 0]}, **ONE),
}
