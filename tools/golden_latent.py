"""Golden models of multi-head latent attention: what tools/golden_models.py writes besides its own."""
import math
import random

from golden_experts import ExpertModel
from golden_models import SMALL, Tensor, yarn


class LatentModel(ExpertModel):
    """low: rank of queries, or None; rank: of keys and values; plain, rotated: parts of a head of queries; a head of values
    has head_dim elements; absorbed: the file has attn_k_b and attn_v_b, not attn_kv_b; groups: (count, used, best) of
    experts; growth: of scores, besides 1 / sqrt(plain + rotated). The reference makes every head's keys and values, which the engine never does."""

    def __init__(self, arch, seed, low=None, rank=32, plain=16, rotated=32, absorbed=False, groups=None, growth=1.0,
                 **rest):
        keys = rest.pop("keys", {})
        values, heads = rest["head_dim"], rest["heads"]
        own = {"attention.key_length": plain + rotated, "attention.value_length": values, "attention.kv_lora_rank": rank,
               "rope.dimension_count": rotated}
        if absorbed:
            own = {**own, "attention.key_length": rank + rotated, "attention.value_length": rank,
                   "attention.key_length_mla": plain + rotated, "attention.value_length_mla": values}
        if low:
            own["attention.q_lora_rank"] = low
        if groups:
            own["expert_group_count"], own["expert_group_used_count"] = groups[:2]
        super().__init__(arch, seed, kv_heads=1, adjacent=True, rotated=rotated, keys={**own, **keys}, **rest)
        self.low, self.rank, self.plain, self.turned = low, rank, plain, rotated
        self.absorbed, self.groups, self.score = absorbed, groups, growth / math.sqrt(plain + rotated)
        noise = random.Random(seed + 4000)

        def matrix(name, rows, columns, gain):
            values = [noise.gauss(0, gain / math.sqrt(columns)) for _ in range(rows * columns)]
            self.tensors[name + ".weight"] = Tensor(rows, columns, values, True)

        def norm(name, n):
            self.tensors[name + ".weight"] = Tensor(1, n, [noise.gauss(1.2, 0.3) for _ in range(n)], False)

        for layer in range(self.layers):
            block = f"blk.{layer}.attn_"
            for part in "qkv":
                del self.tensors[f"{block}{part}.weight"]
            if low:
                matrix(block + "q_a", low, self.dim, 1)
                norm(block + "q_a_norm", low)
            matrix(block + ("q_b" if low else "q"), heads * (plain + rotated), low or self.dim, 1)
            matrix(block + "kv_a_mqa", rank + rotated, self.dim, 1.5)
            norm(block + "kv_a_norm", rank)
            matrix(block + "kv_b", heads * (plain + values), rank, 1.2)

    def rows_of_head(self, block, head):
        """Of attn_kv_b: those that make the head's keys, and its values."""
        t = self.tensors[block + "kv_b.weight"]
        first, both = head * (self.plain + self.head_dim), self.plain + self.head_dim
        rows = [t.row(first + i) for i in range(both)]
        return rows[:self.plain], rows[self.plain:]

    def written(self):
        if not self.absorbed:
            return self.tensors
        out = dict(self.tensors)
        for layer in range(self.layers):
            block, heads = f"blk.{layer}.attn_", range(self.heads)
            del out[block + "kv_b.weight"]
            parts = [self.rows_of_head(block, h) for h in heads]
            keys = [row[c] for k, _ in parts for c in range(self.rank) for row in k]
            values = [x for _, v in parts for row in v for x in row]
            out[block + "k_b.weight"] = Tensor(self.heads * self.rank, self.plain, keys, True, self.heads)
            out[block + "v_b.weight"] = Tensor(self.heads * self.head_dim, self.rank, values, True, self.heads)
        return out

    def attention(self, layer, x, position, keys, values):
        block = f"blk.{layer}.attn_"
        dot = lambda a, b: math.fsum(map(float.__mul__, a, b))
        if self.low:
            low = self.norm(block + "q_a_norm.weight", self.multiply(block + "q_a.weight", x))
        q = self.multiply(block + "q_b.weight", low) if self.low else self.multiply(block + "q.weight", x)
        row = self.multiply(block + "kv_a_mqa.weight", x)
        c, shared = self.norm(block + "kv_a_norm.weight", row[:self.rank]), row[self.rank:]
        self.turn(shared, layer, position)
        parts = [self.rows_of_head(block, h) for h in range(self.heads)]
        keys.append([[dot(r, c) for r in k] + shared for k, _ in parts])
        values.append([[dot(r, c) for r in v] for _, v in parts])
        heat, wide = self.heat(layer, position), self.plain + self.turned
        out = []
        for h in range(self.heads):
            plain, turned = q[h * wide:h * wide + self.plain], q[h * wide + self.plain:(h + 1) * wide]
            self.turn(turned, layer, position)
            scores = [heat * dot(plain + turned, k[h]) * self.score for k in keys]
            weights, total = self.weigh(layer, h, scores)
            out += [math.fsum(w * v[h][i] for w, v in zip(weights, values)) / total for i in range(self.head_dim)]
        return self.multiply(block + "output.weight", out)

    def choose(self, layer, x):
        """As without groups, of the experts in the open groups."""
        if not self.groups:
            return super().choose(layer, x)
        z = self.multiply(f"blk.{layer}.ffn_gate_inp.weight", x)
        assert self.gating == "sigmoid" and self.normalise
        p = [1 / (1 + math.exp(-v)) for v in z]
        bias = self.tensors[f"blk.{layer}.exp_probs_b.bias"].values
        rank = [v + b for v, b in zip(p, bias)]
        count, used, best = self.groups
        size = self.count // count
        sums = [math.fsum(sorted(rank[g * size:(g + 1) * size])[-best:]) for g in range(count)]
        groups = sorted(range(count), key=lambda g: -sums[g])
        open_ = [e for e in range(self.count) if e // size in groups[:used]]
        order = sorted(open_, key=lambda e: -rank[e])
        self.margin = min(self.margin, sums[groups[used - 1]] - sums[groups[used]],
                          rank[order[self.used - 1]] - rank[order[self.used]])
        total = math.fsum(p[e] for e in order[:self.used])
        return [(e, self.scale * p[e] / total) for e in order[:self.used]]


def v3():
    """Low-rank queries, YaRN whose growth is in the scale, a dense layer, groups of experts; attn_kv_b."""
    change, _ = yarn(10000.0, 32, 40.0, 64)
    return LatentModel("deepseek2", 103, layers=3, experts=(8, 2, 16), groups=(4, 2, 2), shared=16, gating="sigmoid", scale=2.5,
                       choice_bias=True, dense=(0,), low=24, gain=0.8, growth=(1 + 0.1 * math.log(40.0)) ** 2,
                       rope=lambda l: (10000.0, change, 1.0),
                       keys={"expert_weights_scale": 2.5, "expert_weights_norm": True, "expert_gating_func": 2,
                             "expert_shared_count": 1, "leading_dense_block_count": 1, "rope.scaling.type": "yarn",
                             "rope.scaling.factor": 40.0, "rope.scaling.original_context_length": 64,
                             "rope.scaling.yarn_log_multiplier": 0.1}, **SIZES)


def lite():
    """Queries of full rank, routing by softmax that is not normalised; attn_k_b and attn_v_b."""
    return LatentModel("deepseek2", 83, layers=2, experts=(5, 2, 16), shared=32, normalise=False, dense=(0,), absorbed=True,
                       keys={"expert_shared_count": 2, "leading_dense_block_count": 1, "expert_gating_func": 1}, **SIZES)


def mistral4():
    """Queries that grow every 16 tokens."""
    return LatentModel("mistral4", 85, layers=2, experts=(5, 2, 16), shared=16, low=24, absorbed=True, temperature=(0.5, 16),
                       keys={"expert_shared_count": 1, "expert_weights_norm": True, "attention.temperature_scale": 0.5,
                             "attention.temperature_length": 16}, **SIZES)


SIZES = {"heads": 3, "head_dim": 16, "dim": 32, "ffn": 32, "epsilon": 1e-3, "tied": True}
MODELS = {"deepseek2": v3, "deepseek2-lite": lite, "mistral4": mistral4}
