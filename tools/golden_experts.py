"""Golden models whose feed forwards are experts: what tools/golden_models.py writes besides its own."""
import math
import random

from golden_models import SMALL, Model, Tensor, silu, yarn


class ExpertModel(Model):
    """experts: (count, used, width); shared: width of the shared expert, gated: behind a gate of its own; gating: "softmax"
    or "sigmoid", normalise: weights are divided by their sum; scale: of weights; choice_bias: added for the choice alone;
    dense: layers without experts; gain: of gate and up."""

    def __init__(self, arch, seed, experts, shared=0, gated=False, gating="softmax", normalise=True, scale=1.0,
                 choice_bias=False, dense=(), gain=1.5, **rest):
        super().__init__(arch, seed, **rest)
        self.count, self.used, self.width = experts
        self.gated, self.gating, self.normalise, self.scale = gated, gating, normalise, scale
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
            matrix(block + "gate_exps", self.width, self.dim, gain, count=self.count)
            matrix(block + "up_exps", self.width, self.dim, gain, count=self.count)
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
            y = [math.fsum(map(float.__mul__, t.row(which * rows + i), v)) for i in range(rows)]
            bias = self.tensors.get(f"{block}{part}{suffix}.bias")
            return [a + b for a, b in zip(y, bias.row(which))] if bias else y

        return multiply("down", [self.hide(g, u) for g, u in zip(multiply("gate", x), multiply("up", x))])

    def hide(self, gate, up):
        return silu(gate) * up

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
        return y

    def logits(self, tokens):
        rows = super().logits(tokens)
        assert self.margin > 5e-4, f"{self.arch}: close calls of the router ({self.margin}), take another seed"
        return rows


class GptOss(ExpertModel):
    """Biases everywhere, a sink per query head, the softmax of the chosen experts alone, a clamped gate."""

    def __init__(self, arch, seed, **rest):
        super().__init__(arch, seed, **rest)
        noise = random.Random(seed + 2000)

        def vectors(name, rows, columns):
            self.tensors[name] = Tensor(rows, columns, [noise.gauss(0, 0.4) for _ in range(rows * columns)], False)

        for layer in range(self.layers):
            block = f"blk.{layer}."
            vectors(block + "attn_output.bias", 1, self.dim)
            vectors(block + "attn_sinks.weight", 1, self.heads)
            vectors(block + "ffn_gate_inp.bias", 1, self.count)
            for part, columns in (("gate", self.width), ("up", self.width), ("down", self.dim)):
                vectors(f"{block}ffn_{part}_exps.bias", self.count, columns)

    def weigh(self, layer, head, scores):
        scores = scores + [self.tensors[f"blk.{layer}.attn_sinks.weight"].values[head]]  # which has no value
        return super().weigh(layer, head, scores)

    def hide(self, gate, up):
        gate = min(gate, 7.0)
        return gate / (1 + math.exp(-1.702 * gate)) * (min(max(up, -7.0), 7.0) + 1)


class Llama4(ExpertModel):
    """Of four layers three see chunks of 10 tokens, turn heads and norm them without weights; the fourth's queries grow. An
    expert reads what its weight multiplies."""

    def first_seen(self, layer, position):
        return 0 if layer == 3 else position - position % 10

    def heat(self, layer, position):
        return 1 + 0.5 * math.log(1 + (position + 1) // 16) if layer == 3 else 1.0

    def heads_of(self, x, norm, layer, position):
        heads = super().heads_of(x, norm, layer, position)
        if layer == 3:
            return heads
        size = lambda head: math.sqrt(math.fsum(v * v for v in head) / len(head) + self.epsilon)
        return [[v / size(head) for v in head] for head in heads]

    def choose(self, layer, x):
        self.weights = dict(super().choose(layer, x))
        return [(e, 1.0) for e in self.weights]

    def expert(self, block, suffix, which, x):
        if suffix == "_exps":
            x = [v * self.weights[which] for v in x]
        return super().expert(block, suffix, which, x)


def gpt_oss():
    """Windows in layers 0 and 2, YaRN; experts so loud that the clamp cuts."""
    change, magnitude = yarn(10000.0, 16, 8.0, 64, whole=False)
    return GptOss("gpt-oss", 72, experts=(5, 2, 32), layers=3, bias=True, windows={0: 12, 2: 12}, gain=4.0,
                  before=("attn_norm", "post_attention_norm"), rope=lambda l: (10000.0, change, magnitude),
                  keys={"attention.sliding_window": 12, "rope.scaling.type": "yarn", "rope.scaling.factor": 8.0,
                        "rope.scaling.original_context_length": 64}, **ONE)


ONE = {"heads": 2, "kv_heads": 1, "tied": True, **SMALL}

MODELS = {
    "llama4": lambda: Llama4("llama4", 83, layers=4, experts=(5, 1, 32), shared=32, gating="sigmoid", normalise=False,
                             dense=(0, 2), no_rope=(3,), adjacent=True,
                             keys={"interleave_moe_layer_step": 2, "attention.sliding_window": 10,
                                   "attention.temperature_scale": 0.5, "attention.temperature_length": 16}, **ONE),
    "minimax-m2": lambda: ExpertModel("minimax-m2", 175, experts=(5, 2, 32), gating="sigmoid", choice_bias=True,
                                      head_norm="whole", rotated=8,
                                      keys={"rope.dimension_count": 8, "expert_gating_func": 2}, **{**ONE, "tied": False}),
    "qwen2moe": lambda: ExpertModel("qwen2moe", 28, experts=(5, 2, 32), shared=32, gated=True, normalise=False, bias=True,
                                    keys={"expert_shared_feed_forward_length": 32}, **ONE),
    "glm4moe": lambda: ExpertModel("glm4moe", 21, experts=(5, 2, 32), shared=32, gating="sigmoid", scale=1.5,
                                   choice_bias=True, dense=(0,), bias=True, rotated=8,
                                   before=("attn_norm", "post_attention_norm"),
                                   keys={"rope.dimension_count": 8, "leading_dense_block_count": 1,
                                         "expert_shared_count": 1, "expert_weights_scale": 1.5, "expert_weights_norm": True,
                                         "expert_gating_func": 2}, **ONE),
    "granitemoe": lambda: ExpertModel("granitemoe", 22, experts=(5, 2, 32), shared=16, adjacent=True, residual=0.5,
                                      divisor=4.0, embedding_scale=3.0,
                                      keys={"expert_shared_feed_forward_length": 16, "residual_scale": 0.5,
                                            "logit_scale": 4.0, "embedding_scale": 3.0}, **ONE),
    "ernie4_5-moe": lambda: ExpertModel("ernie4_5-moe", 53, layers=4, experts=(5, 2, 32), shared=32, adjacent=True,
                                        choice_bias=True, dense=(0, 2),
                                        keys={"leading_dense_block_count": 1, "interleave_moe_layer_step": 2,
                                              "expert_shared_feed_forward_length": 32}, **ONE),
    "qwen3moe": lambda: ExpertModel("qwen3moe", 70, experts=(6, 2, 32), head_norm=True, base=1000000.0, **ONE),
    "qwen3vlmoe": lambda: ExpertModel("qwen3vlmoe", 178, experts=(5, 2, 32), head_norm=True, base=1000000.0,
                                      keys={"rope.dimension_sections": [4, 2, 2, 0], "n_deepstack_layers": 1}, **ONE),
    "mixtral": lambda: ExpertModel("llama", 71, experts=(5, 2, 32), base=1000000.0, **ONE),
    "gpt-oss": gpt_oss,
    "hunyuan-moe": lambda: ExpertModel("hunyuan-moe", 64, experts=(5, 2, 32), shared=16, head_norm=True,
                                       norm_after_rope=True, keys={"expert_shared_feed_forward_length": 16}, **ONE),
}
