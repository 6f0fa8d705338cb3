"""Golden models whose feed forwards are experts: what tools/golden_models.py writes besides its own."""
import math
import random

from golden_models import SMALL, Model, Tensor, silu


class ExpertModel(Model):
    """experts: (count, used, width); shared: width of the shared expert, gated: behind a gate of its own; gating: "softmax"
    or "sigmoid", normalise: weights are divided by their sum; scale: of weights; choice_bias: added for the choice alone;
    dense: layers without experts; residual: scale of what attention and feed forward give; divisor: of logits."""

    def __init__(self, arch, seed, experts, shared=0, gated=False, gating="softmax", normalise=True, scale=1.0,
                 choice_bias=False, dense=(), residual=1.0, divisor=1.0, **rest):
        super().__init__(arch, seed, **rest)
        self.count, self.used, self.width = experts
        self.gated, self.gating, self.normalise, self.scale, self.residual, self.divisor = (
            gated, gating, normalise, scale, residual, divisor)
        self.dense, self.margin = dense, math.inf
        noise = random.Random(seed + 1000)

        def matrix(name, rows, columns, gain, half=True, count=1):
            values = [noise.gauss(0, gain / math.sqrt(columns)) for _ in range(count * rows * columns)]
            self.tensors[name + ".weight"] = Tensor(count * rows, columns, values, half, count)

        for layer in range(self.layers):
            if layer in dense:
                continue
            block = f"blk.{layer}.ffn_"
            for part in ("gate", "up", "down"):
                del self.tensors[f"{block}{part}.weight"]
            matrix(block + "gate_inp", self.count, self.dim, 2, half=False)
            matrix(block + "gate_exps", self.width, self.dim, 1.5, count=self.count)
            matrix(block + "up_exps", self.width, self.dim, 1.5, count=self.count)
            matrix(block + "down_exps", self.dim, self.width, 1.5, count=self.count)
            if choice_bias:
                values = [noise.gauss(0, 0.1) for _ in range(self.count)]
                self.tensors[f"blk.{layer}.exp_probs_b.bias"] = Tensor(1, self.count, values, False)
            if shared:
                matrix(block + "gate_shexp", shared, self.dim, 1)
                matrix(block + "up_shexp", shared, self.dim, 1)
                matrix(block + "down_shexp", self.dim, shared, 1)
            if gated:
                matrix(block + "gate_inp_shexp", 1, self.dim, 1, half=False)
        own = {"expert_count": self.count, "expert_used_count": self.used, "expert_feed_forward_length": self.width}
        self.keys = {**own, **self.keys}

    def expert(self, block, suffix, which, x):
        """The feed forward of the tensors with this suffix, of the matrices of number `which` in them."""
        def multiply(part, v):
            t = self.tensors[f"{block}{part}{suffix}.weight"]
            rows = t.rows // t.count
            return [math.fsum(map(float.__mul__, t.row(which * rows + i), v)) for i in range(rows)]

        hidden = [silu(g) * u for g, u in zip(multiply("gate", x), multiply("up", x))]
        return multiply("down", hidden)

    def choose(self, layer, x):
        """(expert, weight) of those that are used."""
        z = self.multiply(f"blk.{layer}.ffn_gate_inp.weight", x)
        if self.gating == "sigmoid":
            p = [1 / (1 + math.exp(-v)) for v in z]
        else:
            p = [math.exp(v - max(z)) for v in z]
            p = [v / math.fsum(p) for v in p]
        bias = self.tensors.get(f"blk.{layer}.exp_probs_b.bias")
        rank = [v + b for v, b in zip(p, bias.values)] if bias else p
        order = sorted(range(self.count), key=lambda e: -rank[e])
        self.margin = min(self.margin, rank[order[self.used - 1]] - rank[order[self.used]])
        total = math.fsum(p[e] for e in order[:self.used]) if self.normalise else 1.0
        return [(e, self.scale * p[e] / total) for e in order[:self.used]]

    def feed_forward(self, layer, x):
        block = f"blk.{layer}.ffn_"
        if layer in self.dense:
            y = super().feed_forward(layer, x)
        else:
            y = [0.0] * self.dim
            for e, weight in self.choose(layer, x):
                y = [a + weight * b for a, b in zip(y, self.expert(block, "_exps", e, x))]
            if block + "up_shexp.weight" in self.tensors:
                part = 1 / (1 + math.exp(-self.multiply(block + "gate_inp_shexp.weight", x)[0])) if self.gated else 1.0
                y = [a + part * b for a, b in zip(y, self.expert(block, "_shexp", 0, x))]
        return [v * self.residual for v in y]

    def attention(self, *arguments):
        return [v * self.residual for v in super().attention(*arguments)]

    def logits(self, tokens):
        rows = [v / self.divisor for v in super().logits(tokens)]
        assert self.margin > 5e-4, f"{self.arch}: close calls of the router ({self.margin}), take another seed"
        return rows


ONE = {"heads": 2, "kv_heads": 1, "tied": True, **SMALL}

MODELS = {
    "qwen2moe": lambda: ExpertModel("qwen2moe", 28, experts=(5, 2, 32), shared=32, gated=True, normalise=False, bias=True,
                                    keys={"expert_shared_feed_forward_length": 32}, **ONE),
    "glm4moe": lambda: ExpertModel("glm4moe", 21, experts=(5, 2, 32), shared=32, gating="sigmoid", scale=1.5,
                                   choice_bias=True, dense=(0,), bias=True, rotated=8,
                                   before=("attn_norm", "post_attention_norm"),
                                   keys={"rope.dimension_count": 8, "leading_dense_block_count": 1,
                                         "expert_shared_count": 1, "expert_weights_scale": 1.5, "expert_weights_norm": True,
                                         "expert_gating_func": 2}, **ONE),
}
MORE = {
    "granitemoe": lambda: ExpertModel("granitemoe", 22, experts=(5, 2, 32), shared=16, adjacent=True, residual=0.5,
                                      divisor=4.0, embedding_scale=3.0,
                                      keys={"expert_shared_feed_forward_length": 16, "residual_scale": 0.5,
                                            "logit_scale": 4.0, "embedding_scale": 3.0}, **ONE),
    "ernie4_5-moe": lambda: ExpertModel("ernie4_5-moe", 53, layers=4, experts=(5, 2, 32), shared=32, adjacent=True,
                                        choice_bias=True, dense=(0, 2),
                                        keys={"leading_dense_block_count": 1, "interleave_moe_layer_step": 2,
                                              "expert_shared_feed_forward_length": 32}, **ONE),
    "hunyuan-moe": lambda: ExpertModel("hunyuan-moe", 64, experts=(5, 2, 32), shared=16, head_norm=True,
                                       norm_after_rope=True, keys={"expert_shared_feed_forward_length": 16}, **ONE),
}
