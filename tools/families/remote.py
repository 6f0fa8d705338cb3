"""Families whose classes transformers does not have: a class that computes the same, and what their folders call it.

`published(tensors)` gives the folder's tensors of the class's, `own` the other way round; `config` changes config.json.
"""
import json

import numpy as np


class Same:
    """As a class of transformers has it, under names of its own: (the class's, the folder's)."""

    def __init__(self, kind, architecture, names=(), config=lambda own: {}):
        self.kind, self.architecture, self.names, self.config_of = kind, architecture, names, config

    def config(self, own, name):
        kept = {k: v for k, v in own.items() if not k.endswith(("multiplier", "logits_scaling", "layer_types"))}
        return {**kept, "model_type": name, "architectures": [self.architecture], **self.config_of(own)}

    def renamed(self, tensors, back=False):
        def name(text):
            for pair in self.names:
                text = text.replace(*(pair[::-1] if back else pair))
            return text
        return {name(key): tensor for key, tensor in tensors.items()}

    def published(self, tensors, config):
        return self.renamed(tensors)

    def own(self, tensors, config):
        return self.renamed(tensors, True)


class Fused(Same):
    """Queries, keys and values in one tensor: by KV head, or one behind the other."""

    def __init__(self, kind, architecture, by_head, names, config=lambda own: {}):
        super().__init__(kind, architecture, names, config)
        self.by_head = by_head

    def published(self, tensors, config):
        out, heads = dict(tensors), config["num_key_value_heads"] if self.by_head else 1
        for key in tensors:
            if "self_attn.q_proj" not in key:
                continue
            parts = [out.pop(key.replace("q_proj", f"{part}_proj")) for part in "qkv"]
            rows = [p.reshape(heads, -1, *p.shape[1:]) for p in parts]
            out[key.replace("q_proj", "fused")] = np.concatenate(rows, axis=1).reshape(-1, *parts[0].shape[1:])
        return self.renamed(out)

    def own(self, tensors, config):
        out, kv = self.renamed(tensors, True), config["num_key_value_heads"]
        heads = config["num_attention_heads"]
        for key in [k for k in out if "self_attn.fused" in k]:
            whole = out.pop(key)
            rows = whole.reshape(kv if self.by_head else 1, -1, *whole.shape[1:])
            cuts = np.array([heads, heads + kv]) * rows.shape[1] // (heads + 2 * kv)
            for part, x in zip("qkv", np.split(rows, cuts, axis=1)):
                out[key.replace("fused", f"{part}_proj")] = np.ascontiguousarray(x.reshape(-1, *whole.shape[1:]))
        return out


def minicpm(own):
    return {"scale_emb": own["embedding_multiplier"], "scale_depth": own["residual_multiplier"] * own["num_hidden_layers"] ** 0.5,
            "dim_model_base": own["hidden_size"] / own["logits_scaling"]}


def qwen(own):
    return {"intermediate_size": 2 * own["intermediate_size"], "seq_length": own["max_position_embeddings"], "no_bias": True,
            "layer_norm_epsilon": own["rms_norm_eps"], "rotary_emb_base": own["rope_parameters"]["rope_theta"]}


REMOTE = {
    "internlm2": Fused("llama", "InternLM2ForCausalLM", True, (
        ("embed_tokens", "tok_embeddings"), ("lm_head", "output"), ("input_layernorm", "attention_norm"),
        ("post_attention_layernorm", "ffn_norm"), ("self_attn.fused", "attention.wqkv"), ("self_attn.o_proj", "attention.wo"),
        ("mlp.gate_proj", "feed_forward.w1"), ("mlp.up_proj", "feed_forward.w3"), ("mlp.down_proj", "feed_forward.w2"))),
    "minicpm": Same("granite", "MiniCPMForCausalLM", config=minicpm),
    "qwen": Fused("qwen2", "QWenLMHeadModel", False, (
        ("model.embed_tokens", "transformer.wte"), ("model.norm", "transformer.ln_f"), ("model.layers", "transformer.h"),
        ("input_layernorm", "ln_1"), ("post_attention_layernorm", "ln_2"), ("self_attn.fused", "attn.c_attn"),
        ("self_attn.o_proj", "attn.c_proj"), ("mlp.gate_proj", "mlp.w2"), ("mlp.up_proj", "mlp.w1"),
        ("mlp.down_proj", "mlp.c_proj")), qwen),
    "xverse": Same("llama", "XverseForCausalLM"),
}


def publish(name, folder):
    """Makes the folder of a class that of the family `name`."""
    from safetensors.numpy import load_file, save_file
    kind = REMOTE[name]
    with open(folder + "/config.json", encoding="utf-8") as file:
        config = json.load(file)
    file = folder + "/model.safetensors"
    save_file(kind.published(load_file(file), config), file, {"format": "pt"})
    with open(folder + "/config.json", "w", encoding="utf-8") as file:
        json.dump(kind.config(config, name), file)
