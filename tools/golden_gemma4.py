"""Golden models of Gemma 4: what tools/golden_models.py writes besides its own."""
import math
import random

from golden_models import SMALL, Model, Tensor, gelu


class Gemma4(Model):
    """kinds: a letter for each layer, L local, G global; sizes, groups: of heads and number of KV heads, local and global;
    own: layers below it have keys and values; width: of the layers' inputs, or None; keys_are_values: of global layers;
    experts: (count, used, width) beside the dense feed forward, or None."""

    WINDOW = 10

    def __init__(self, seed, kinds, sizes=(16, 32), groups=(1, 1), own=None, width=None, keys_are_values=False,
                 experts=None):
        layers, heads = len(kinds), 2
        rest = {k: v for k, v in SMALL.items() if k != "head_dim"}
        keys = {"attention.head_count_kv": [groups["LG".index(k)] for k in kinds], "attention.key_length": sizes[1],
                "attention.value_length": sizes[1], "attention.key_length_swa": sizes[0],
                "attention.value_length_swa": sizes[0], "rope.dimension_count": sizes[1],
                "rope.dimension_count_swa": sizes[0], "rope.freq_base_swa": 10000.0,
                "attention.sliding_window": self.WINDOW, "attention.sliding_window_pattern": [k == "L" for k in kinds],
                "attention.shared_kv_layers": layers - own if own else 0, "embedding_length_per_layer_input": width or 0,
                "final_logit_softcapping": 12.0}
        if experts:
            keys |= dict(zip(("expert_count", "expert_used_count", "expert_feed_forward_length"), experts))
        quarter = sizes[1] // 8
        super().__init__("gemma4", seed, layers=layers, heads=heads, kv_heads=1, head_dim=sizes[0], base=1000000.0,
                         tied=True, after=("post_attention_norm", "post_ffw_norm"), gelu=True,
                         embedding_scale=math.sqrt(rest["dim"]), keys=keys,
                         stretch=[1.0] * quarter + [1e30] * (sizes[1] // 2 - quarter), **rest)
        self.kinds, self.sizes, self.groups, self.own = kinds, sizes, groups, own or layers
        self.width, self.experts, self.margin = width, experts, math.inf
        noise = random.Random(seed + 5000)

        def matrix(name, rows, columns, gain=1.0, count=1):
            values = [noise.gauss(0, gain / math.sqrt(columns)) for _ in range(count * rows * columns)]
            self.tensors[name + ".weight"] = Tensor(count * rows, columns, values, True, count)

        def vector(name, n, mean=1.0, deviation=0.2):
            self.tensors[name] = Tensor(1, n, [noise.gauss(mean, deviation) for _ in range(n)], False)

        dim = self.dim
        if width:
            matrix("per_layer_token_embd", self.vocab, layers * width, math.sqrt(layers * width))
            matrix("per_layer_model_proj", layers * width, dim)
            vector("per_layer_proj_norm.weight", width)
        for layer, kind in enumerate(kinds):
            block, n, kv = f"blk.{layer}.", sizes["LG".index(kind)], groups["LG".index(kind)]
            for part in "qkv":
                del self.tensors[f"{block}attn_{part}.weight"]
            matrix(block + "attn_q", heads * n, dim)
            matrix(block + "attn_output", dim, heads * n)
            vector(block + "attn_q_norm.weight", n, 0.8)
            if layer < self.own:
                matrix(block + "attn_k", kv * n, dim)
                vector(block + "attn_k_norm.weight", n, 0.8)
                if not (keys_are_values and kind == "G"):
                    matrix(block + "attn_v", kv * n, dim, 2)
            vector(block + "layer_output_scale.weight", 1, 1, 0.3)
            if width:
                matrix(block + "inp_gate", width, dim, 1.5)
                matrix(block + "proj", dim, width)
                vector(block + "post_norm.weight", dim)
            if experts:
                count, _, hidden = experts
                matrix(block + "ffn_gate_inp", count, dim, 2 * math.sqrt(dim))
                vector(block + "ffn_gate_inp.scale", dim, 1, 0.4)
                vector(block + "ffn_down_exps.scale", count, 1, 0.4)
                matrix(block + "ffn_gate_up_exps", 2 * hidden, dim, 1, count)
                matrix(block + "ffn_down_exps", dim, hidden, 1, count)
                for name in ("pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2"):
                    vector(f"{block}{name}.weight", dim)

    def plain_norm(self, x):
        scale = 1 / math.sqrt(math.fsum(v * v for v in x) / len(x) + self.epsilon)
        return [v * scale for v in x]

    def turned(self, x, norm, layer, position):
        """Heads of x, normed and rotated."""
        kind = self.kinds[layer]
        n = self.sizes["LG".index(kind)]
        base, factors = (10000.0, None) if kind == "L" else (self.base, self.tensors["rope_freqs.weight"].values)
        out = []
        for first in range(0, len(x), n):
            head = self.norm(norm, x[first:first + n])
            for i in range(n // 2):
                angle = position * base ** (-2 * i / n) / (factors[i] if factors else 1.0)
                c, s = math.cos(angle), math.sin(angle)
                head[i], head[i + n // 2] = head[i] * c - head[i + n // 2] * s, head[i] * s + head[i + n // 2] * c
            out.append(head)
        return out

    def attention(self, layer, x, position, keys, values):
        block, kind = f"blk.{layer}.", self.kinds[layer]
        n = self.sizes["LG".index(kind)]
        q = self.turned(self.multiply(block + "attn_q.weight", x), block + "attn_q_norm.weight", layer, position)
        if layer < self.own:
            k = self.multiply(block + "attn_k.weight", x)
            v = self.multiply(block + "attn_v.weight", x) if block + "attn_v.weight" in self.tensors else k
            keys.append(self.turned(k, block + "attn_k_norm.weight", layer, position))
            values.append([self.plain_norm(v[i:i + n]) for i in range(0, len(v), n)])
            self.caches[layer] = keys, values
        else:
            keys, values = self.caches[max(i for i in range(self.own) if self.kinds[i] == kind)]
        first = max(0, position + 1 - self.WINDOW) if kind == "L" else 0
        out = []
        for h, query in enumerate(q):
            kv = h * len(keys[0]) // self.heads
            weights, total = self.weigh(layer, h, [math.fsum(map(float.__mul__, query, k[kv])) for k in keys[first:]])
            out += [math.fsum(w * v[kv][i] for w, v in zip(weights, values[first:])) / total for i in range(n)]
        return self.multiply(block + "attn_output.weight", out)

    def mixture(self, block, x):
        """What the experts give for the residual stream x."""
        count, used, hidden = self.experts
        row = [a * b / math.sqrt(self.dim) for a, b in
               zip(self.plain_norm(x), self.tensors[block + "ffn_gate_inp.scale"].values)]
        z = self.multiply(block + "ffn_gate_inp.weight", row)
        p = [math.exp(v - max(z)) for v in z]
        order = sorted(range(count), key=lambda e: -z[e])
        self.margin = min(self.margin, z[order[used - 1]] - z[order[used]])
        total = math.fsum(p[e] for e in order[:used])
        x, out = self.norm(block + "pre_ffw_norm_2.weight", x), [0.0] * self.dim
        up, down = self.tensors[block + "ffn_gate_up_exps.weight"], self.tensors[block + "ffn_down_exps.weight"]
        dot = lambda a, b: math.fsum(map(float.__mul__, a, b))
        for e in order[:used]:
            both = [dot(up.row(e * 2 * hidden + i), x) for i in range(2 * hidden)]
            h = [gelu(g) * u for g, u in zip(both[:hidden], both[hidden:])]
            weight = p[e] / total * self.tensors[block + "ffn_down_exps.scale"].values[e]
            out = [y + weight * dot(down.row(e * self.dim + i), h) for i, y in enumerate(out)]
        return out

    def feed_forward(self, layer, x):
        y, block = super().feed_forward(layer, x), f"blk.{layer}."
        if not self.experts:
            return y
        experts = self.norm(block + "post_ffw_norm_2.weight", self.mixture(block, self.stream))
        return [a + b for a, b in zip(self.norm(block + "post_ffw_norm_1.weight", y), experts)]

    def embed(self, token, position):
        x = super().embed(token, position)
        if self.width:
            rows = [v / math.sqrt(self.dim) for v in self.multiply("per_layer_model_proj.weight", x)]
            table = self.tensors["per_layer_token_embd.weight"].row(token)
            self.inputs = []
            for first in range(0, len(rows), self.width):
                part = self.norm("per_layer_proj_norm.weight", rows[first:first + self.width])
                self.inputs.append([(a + b * math.sqrt(self.width)) / math.sqrt(2)
                                    for a, b in zip(part, table[first:first + self.width])])
        return x

    def run_layer(self, layer, x, position, keys, values):
        block = f"blk.{layer}."
        add = lambda x, norm, y: [a + b for a, b in zip(x, self.norm(f"{block}{norm}.weight", y))]
        h = self.norm(block + "attn_norm.weight", x)
        x = self.stream = add(x, "post_attention_norm", self.attention(layer, h, position, keys, values))
        x = add(x, "post_ffw_norm", self.feed_forward(layer, self.norm(block + "ffn_norm.weight", x)))
        if self.width:
            gate = self.multiply(block + "inp_gate.weight", x)
            hidden = [gelu(g) * e for g, e in zip(gate, self.inputs[layer])]
            x = add(x, "post_norm", self.multiply(block + "proj.weight", hidden))
        scale = self.tensors[block + "layer_output_scale.weight"].values[0]
        return [v * scale for v in x]

    def logits(self, tokens):
        self.caches = {}
        rows = [12.0 * math.tanh(v / 12.0) for v in super().logits(tokens)]
        assert self.margin > 5e-3, f"gemma4: close calls of the router ({self.margin}), take another seed"
        return rows


MODELS = {
    "gemma4": lambda: Gemma4(90, "LLGLG", own=3, width=32),
    "gemma4-dense": lambda: Gemma4(91, "LLG", groups=(2, 1), keys_are_values=True),
    "gemma4-moe": lambda: Gemma4(93, "LG", keys_are_values=True, experts=(5, 2, 32)),
}
