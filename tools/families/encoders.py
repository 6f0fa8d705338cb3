#!/usr/bin/env python3
"""Encoders, from a random model to vectors: transformers, the folder, the converter's GGUF file.

usage: encoders.py KVASIR CONVERTER OUT [--table FILE] [--golden FOLDER] [NAME ...]

A tiny model of random weights with its switches on is made by transformers; where its class is not there (CLASSES), by the classes
of this file, written from the published formulas. The truth is in float64: the mean of all states, the first and the last state of
texts of 1, 2, 17 and 150 tokens (windows are 16 wide), and the scores of a head that ranks. Kvasir computes the same with `embed
--exact --raw` from the folder and from the GGUF file of llama.cpp's converter (CONVERTER: vendor/llama.cpp of the source package
llama-cpp-python). The greatest relative error (L2) is printed; at most 1e-4 is right. --golden writes float16 GGUF files and JSON
of one text for run/encoder_test. Needs torch, transformers 5.24 and gguf.
"""
import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import zlib

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
BAR, LENGTHS = 1e-4, (1, 2, 17, 150)
USUAL = dict(vocab_size=128, hidden_size=64, num_hidden_layers=4, num_attention_heads=4, intermediate_size=96, max_position_embeddings=704,
             bos_token_id=1, eos_token_id=2, pad_token_id=1, num_labels=1)
MODERN = dict(local_attention=16, cls_token_id=1, sep_token_id=2)
GEMMA = dict(head_dim=16, num_key_value_heads=2, use_bidirectional_attention=True, sliding_window=16, query_pre_attn_scalar=16,
             num_hidden_layers=6)
GEMMA2 = dict(head_dim=16, global_head_dim=32, num_key_value_heads=2, num_global_key_value_heads=1, sliding_window=8,
              hidden_size_per_layer_input=16, embedding_dim=48, num_hidden_layers=6, sliding_window_pattern=3)
# Name: model type, settings, whether a head ranks.
MODELS = {
    "bert": ("bert", {}, False),
    "bert+rank": ("bert", {}, True),
    "camembert": ("camembert", {}, False),
    "distilbert": ("distilbert", dict(dim=64, n_layers=4, n_heads=4, hidden_dim=96), False),
    "distilbert+rank": ("distilbert", dict(dim=64, n_layers=4, n_heads=4, hidden_dim=96), True),
    "roberta": ("roberta", {}, False),
    "xlm-roberta": ("xlm-roberta", {}, False),
    "xlm-roberta+rank": ("xlm-roberta", {}, True),
    "nomic_bert": ("nomic_bert", {}, False),
    "nomic_bert+rank": ("nomic_bert", {}, True),
    "nomic_moe": ("nomic_moe", {}, False),
    "modernbert": ("modernbert", MODERN, False),
    "modernbert+silu": ("modernbert", dict(MODERN, hidden_activation="silu"), False),
    "modernbert+bias": ("modernbert", dict(MODERN, norm_bias=True, attention_bias=True, mlp_bias=True), False),
    "modernbert+rank": ("modernbert", MODERN, True),
    "modernbert+mean": ("modernbert", dict(MODERN, classifier_pooling="mean", classifier_bias=True), True),
    "eurobert": ("eurobert", dict(num_key_value_heads=2, mask_token_id=3), False),
    "eurobert+bias": ("eurobert", dict(num_key_value_heads=2, mask_token_id=3, attention_bias=True, mlp_bias=True), False),
    "eurobert+late": ("eurobert", dict(num_key_value_heads=2, mask_token_id=3), True),
    "eurobert+mean": ("eurobert", dict(num_key_value_heads=2, mask_token_id=3, classifier_pooling="mean"), True),
    "gte": ("gte", {}, False),
    "gte+untyped": ("gte", dict(type_vocab_size=0), False),
    "gte+rank": ("gte", {}, True),
    "gte+ntk": ("gte", dict(rope_parameters=dict(rope_type="default", rope_theta=20000.0 * 8)), False),
    "jina_v2": ("jina_v2", {}, False),
    "jina_v2+heads": ("jina_v2", dict(hidden_size=96, num_attention_heads=6), False),
    "jina_v2+code": ("jina_v2", dict(code=True), False),
    "jina_embeddings_v3": ("jina_embeddings_v3", {}, False),
    "neobert": ("neobert", {}, False),
    "gemma3_text": ("gemma3_text", GEMMA, False),
    "gemma3_text+dense": ("gemma3_text", GEMMA, False),
    "embedding_gemma2_text": ("embedding_gemma2_text", GEMMA2, False),
    "qwen3": ("qwen3", dict(head_dim=16, num_key_value_heads=2), False),
}
# What files of the converter do not say, so that nothing can compute rightly by them: of ranks, or of all.
LACKS = {"bert+rank": (["rank"], "the pooler"), "distilbert+rank": (["rank"], "that its head has a ReLU"),
         "camembert": (["mean", "cls", "last"], "that positions begin behind the first two rows")}
ARGUMENTS = {"gemma3_text+dense": ["--sentence-transformers-dense-modules"]}


def classes():
    """Models whose classes transformers does not have, as torch modules: {type: class}."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    def attend(q, k, v, bias=None):  # (heads, tokens, d)
        scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
        return (scores if bias is None else scores + bias).softmax(-1) @ v

    class Part(nn.Module):
        """Named parts, as folders name them."""
        def __init__(self, /, **parts):
            super().__init__()
            for name, part in parts.items():
                setattr(self, name, part)

    class NeoBert(nn.Module):
        """arXiv:2502.19587 and chandar-lab/NeoBERT: rows of qkv by head, RoPE on adjacent pairs, SwiGLU."""
        def __init__(self, c):
            super().__init__()
            n, wide = c["hidden_size"], (2 * c["intermediate_size"] // 3 + 7) // 8 * 8
            self.heads = c["num_attention_heads"]
            norm = lambda: nn.RMSNorm(n, eps=1e-6)
            self.encoder, self.layer_norm = nn.Embedding(c["vocab_size"], n), norm()
            self.transformer_encoder = nn.ModuleList(Part(
                qkv=nn.Linear(n, 3 * n, bias=False), wo=nn.Linear(n, n, bias=False), attention_norm=norm(), ffn_norm=norm(),
                ffn=Part(w12=nn.Linear(n, 2 * wide, bias=False), w3=nn.Linear(wide, n, bias=False)))
                for _ in range(c["num_hidden_layers"]))

        def turn(self, x):  # (heads, tokens, d)
            d = x.shape[-1]
            angle = torch.outer(torch.arange(x.shape[1], dtype=x.dtype), 10000.0 ** (-torch.arange(0, d, 2, dtype=x.dtype) / d))
            pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], d // 2, 2).contiguous())
            return torch.view_as_real(pairs * torch.polar(torch.ones_like(angle), angle)).flatten(-2)

        def forward(self, ids):
            x = self.encoder(ids)
            for layer in self.transformer_encoder:
                rows = layer.qkv(layer.attention_norm(x)).view(len(ids), self.heads, -1)
                q, k, v = (part.transpose(0, 1) for part in rows.chunk(3, dim=-1))
                x = x + layer.wo(attend(self.turn(q), self.turn(k), v).transpose(0, 1).reshape(len(ids), -1))
                gate, up = layer.ffn.w12(layer.ffn_norm(x)).chunk(2, dim=-1)
                x = x + layer.ffn.w3(F.silu(gate) * up)
            return self.layer_norm(x)

    class JinaV2(nn.Module):
        """arXiv:2310.19923 and jinaai's classes jina-bert-implementation (gate before up) and, of code, jina-bert-v2-qk-post-norm
        (up before the gate, norms of queries, keys and sums)."""
        def __init__(self, c):
            super().__init__()
            n, wide, self.code, self.heads = c["hidden_size"], c["intermediate_size"], c.get("code", False), c["num_attention_heads"]
            norm = lambda: nn.LayerNorm(n, eps=1e-12)
            self.embeddings = Part(word_embeddings=nn.Embedding(c["vocab_size"], n), token_type_embeddings=nn.Embedding(2, n), LayerNorm=norm())

            def layer():
                own = dict(query=nn.Linear(n, n), key=nn.Linear(n, n), value=nn.Linear(n, n))
                up, down = nn.Linear(n, 2 * wide, bias=False), nn.Linear(wide, n)
                if self.code:
                    own.update(layer_norm_q=norm(), layer_norm_k=norm())
                    rest = dict(mlp=Part(up_gated_layer=up, down_layer=down), layer_norm_1=norm(), layer_norm_2=norm())
                else:
                    rest = dict(mlp=Part(gated_layers=up, wo=down, layernorm=norm()))
                return Part(attention=Part(**{"self": Part(**own)}, output=Part(dense=nn.Linear(n, n), LayerNorm=norm())), **rest)
            self.encoder = Part(layer=nn.ModuleList(layer() for _ in range(c["num_hidden_layers"])))

        def slopes(self):
            def power(n):
                return [2.0 ** (-8.0 * (i + 1) / n) for i in range(n)]
            whole = 2 ** int(math.log2(self.heads))
            return power(whole) + power(2 * whole)[0::2][:self.heads - whole]

        def forward(self, ids):
            e = self.embeddings
            x = e.LayerNorm(e.word_embeddings(ids) + e.token_type_embeddings.weight[0])
            at = torch.arange(len(ids))
            bias = -(at[:, None] - at[None]).abs().to(x.dtype) * torch.tensor(self.slopes(), dtype=x.dtype)[:, None, None]
            for layer in self.encoder.layer:
                own, out = getattr(layer.attention, "self"), layer.attention.output
                q, k, v = own.query(x), own.key(x), own.value(x)
                if self.code:
                    q, k = own.layer_norm_q(q), own.layer_norm_k(k)
                heads = [p.view(len(ids), self.heads, -1).transpose(0, 1) for p in (q, k, v)]
                mixed = out.LayerNorm(out.dense(attend(*heads, bias).transpose(0, 1).reshape(len(ids), -1)) + x)
                if self.code:
                    x = layer.layer_norm_1(x + mixed)
                    up, gate = layer.mlp.up_gated_layer(x).chunk(2, dim=-1)
                    x = layer.layer_norm_2(x + layer.mlp.down_layer(up * F.gelu(gate)))
                else:
                    gate, up = layer.mlp.gated_layers(mixed).chunk(2, dim=-1)
                    x = layer.mlp.layernorm(layer.mlp.wo(F.gelu(gate) * up) + mixed)
            return x

    class NomicMoe(nn.Module):
        """arXiv:2502.07972 and nomic-ai/nomic-bert-2048: every second layer has experts without a gate, whose weights are the
        softmax over all. The bias that the published class adds to their sum is none here: the converter leaves it out."""
        def __init__(self, c):
            super().__init__()
            n, wide, self.heads, self.used = c["hidden_size"], c["intermediate_size"], c["num_attention_heads"], 2
            norm = lambda: nn.LayerNorm(n, eps=1e-5)
            self.emb_ln, self.embeddings = norm(), Part(word_embeddings=nn.Embedding(c["vocab_size"], n), token_type_embeddings=nn.Embedding(1, n))

            def feed(layer):
                if layer % 2 == 0:
                    return Part(fc1=nn.Linear(n, wide), fc2=nn.Linear(wide, n))
                w1, w2 = (nn.Parameter(torch.randn(4 * wide, n)) for _ in range(2))
                return Part(router=Part(layer=nn.Linear(n, 4, bias=False)), experts=Part(mlp=Part(w1=w1, w2=w2)))
            self.encoder = Part(layers=nn.ModuleList(Part(
                attn=Part(Wqkv=nn.Linear(n, 3 * n), out_proj=nn.Linear(n, n)), norm1=norm(), norm2=norm(), mlp=feed(layer))
                for layer in range(c["num_hidden_layers"])))

        def turn(self, x):  # (heads, tokens, d)
            half = x.shape[-1] // 2
            angle = torch.outer(torch.arange(x.shape[1], dtype=x.dtype), 10000.0 ** (-torch.arange(half, dtype=x.dtype) / half))
            a, b = x[..., :half], x[..., half:]
            return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)

        def feed(self, mlp, x):
            if hasattr(mlp, "fc1"):
                return mlp.fc2(F.gelu(mlp.fc1(x)))
            weights, chosen = mlp.router.layer(x).softmax(-1).topk(self.used)
            w1, w2 = (w.view(4, -1, x.shape[-1]) for w in (mlp.experts.mlp.w1, mlp.experts.mlp.w2))
            return torch.stack([sum(w * (F.gelu(w1[e] @ row) @ w2[e]) for w, e in zip(weights[i], chosen[i])) for i, row in enumerate(x)])

        def forward(self, ids):
            x = self.emb_ln(self.embeddings.word_embeddings(ids) + self.embeddings.token_type_embeddings.weight[0])
            for layer in self.encoder.layers:
                q, k, v = (p.view(len(ids), self.heads, -1).transpose(0, 1) for p in layer.attn.Wqkv(x).chunk(3, -1))
                mixed = attend(self.turn(q), self.turn(k), v).transpose(0, 1).reshape(len(ids), -1)
                x = layer.norm1(x + layer.attn.out_proj(mixed))
                x = layer.norm2(x + self.feed(layer.mlp, x))
            return x

    return {"neobert": NeoBert, "jina_v2": JinaV2, "nomic_moe": NomicMoe}


# What such folders say of themselves.
CLASSES = {
    "neobert": dict(model_type="neobert", architectures=["NeoBERT"], max_length=704, norm_eps=1e-6),
    "nomic_moe": dict(model_type="nomic_bert", architectures=["NomicBertModel"], moe_every_n_layers=2, num_experts=4, moe_top_k=2,
                      layer_norm_eps=1e-5, rope_parameters=dict(rope_type="default", rope_theta=10000.0)),
    "jina_v2": dict(model_type="bert", architectures=["JinaBertModel"], position_embedding_type="alibi", feed_forward_type="geglu",
                    layer_norm_eps=1e-12, hidden_act="gelu", type_vocab_size=2),
}
# What published folders have besides what transformers 5 writes.
PUBLISHED = {
    "nomic_bert": dict(n_positions=8192, max_trained_positions=2048, activation_function="swiglu", causal=False, qkv_proj_bias=False,
                       mlp_fc1_bias=False, mlp_fc2_bias=False, prenorm=False, rotary_emb_fraction=1.0, rotary_emb_interleaved=False,
                       rotary_emb_scale_base=None, rotary_emb_base=1000.0,
                       layer_norm_epsilon=1e-12),
    "nomic_moe": dict(n_positions=2048, max_trained_positions=2048, activation_function="gelu", causal=False, qkv_proj_bias=True,
                      mlp_fc1_bias=True, mlp_fc2_bias=True, prenorm=False, rotary_emb_fraction=1.0, rotary_emb_interleaved=False,
                      rotary_emb_scale_base=None),
    "jina_embeddings_v3": dict(architectures=["XLMRobertaModel"], lora_adaptations=["retrieval.query"], rotary_emb_base=20000.0),
    "modernbert": dict(global_attn_every_n_layers=3),
    "eurobert": dict(classifier_pooling=None),  # "late", which the converter does not take
}


def build(name, small=None):
    """The model in float64 with random weights, and what its folder's configuration is (None: transformers writes it)."""
    import torch
    from models import randomise
    from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification
    kind, more, ranks = MODELS[name]
    settings = {**USUAL, **more, **(small or {})}
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    if kind in CLASSES:
        model, config = classes()[kind](settings), {**{k: v for k, v in settings.items() if k != "code"}, **CLASSES[kind]}
    else:
        own = AutoConfig.for_model(kind, **settings)
        own._attn_implementation = "eager"
        model, config = (AutoModelForSequenceClassification if ranks else AutoModel).from_config(own, dtype=torch.float32), None
    randomise(model, generator)
    if small:  # the weights that a file of 16-bit floats has
        with torch.no_grad():
            for p in model.parameters():
                if p.ndim > 1:
                    p.copy_(p.half().float())
    return model.eval(), config


# Golden files: the name there, of which model, its settings. Windows are 8 wide there.
SMALL = dict(hidden_size=32, num_attention_heads=2, num_hidden_layers=2, intermediate_size=48, max_position_embeddings=64)
GOLDEN = {"modern-bert": ("modernbert+rank", dict(SMALL, num_hidden_layers=3, local_attention=8)), "neo-bert": ("neobert", SMALL),
          "eurobert": ("eurobert", SMALL), "gte": ("gte+rank", SMALL), "jina-bert-v2": ("jina_v2", SMALL), "jina-bert-v2-code": ("jina_v2+code", SMALL),
          "jina-bert-v3": ("jina_embeddings_v3", SMALL), "nomic-bert-moe": ("nomic_moe", SMALL),
          "gemma-embedding": ("gemma3_text+dense", dict(SMALL, num_hidden_layers=6, sliding_window=8)),
          "gemma-embedding2": ("embedding_gemma2_text", dict(SMALL, num_hidden_layers=3, num_key_value_heads=1, sliding_window=4,
                                                             embedding_dim=32))}


FOLDERS = ("modern-bert", "jina-bert-v2-code", "gte", "gemma-embedding", "gemma-embedding2")  # kept as folders, too
MADE = ("gemma-embedding2",)  # files that `kvasir quantize` makes of the folder, because the converter does not know it


def write_gte(model, file):
    """What the converter would write if it knew GTE: its names, the tensors as folders have them."""
    import gguf
    import torch
    c, writer = model.config, gguf.GGUFWriter(file, "gte")
    for key, value in {"block_count": c.num_hidden_layers, "context_length": c.max_position_embeddings, "embedding_length": c.hidden_size,
                       "feed_forward_length": c.intermediate_size, "attention.head_count": c.num_attention_heads, "pooling_type": 2}.items():
        writer.add_uint32("gte." + key, value)
    writer.add_float32("gte.attention.layer_norm_epsilon", c.layer_norm_eps)
    writer.add_float32("gte.rope.freq_base", c.rope_parameters["rope_theta"])
    writer.add_bool("gte.attention.causal", False)
    tensors = {k.removeprefix("gte."): v for k, v in model.state_dict().items()}
    names = {"embeddings.word_embeddings": "token_embd", "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm",
             "pooler.dense": "cls", "classifier": "cls.output"}
    for layer in range(c.num_hidden_layers):
        own, block = f"layers.{layer}.", f"blk.{layer}."
        for kind in ("weight", "bias"):
            tensors[f"{own}qkv.{kind}"] = torch.cat([tensors.pop(f"{own}self_attn.{p}_proj.{kind}") for p in "qkv"])
        tensors[own + "up_gate.weight"] = torch.cat([tensors.pop(f"{own}mlp.{p}_proj.weight") for p in ("up", "gate")])
        names.update({own + k: block + v for k, v in {
            "qkv": "attn_qkv", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "attn_output_norm", "up_gate": "ffn_up",
            "mlp.down_proj": "ffn_down", "post_mlp_layernorm": "layer_output_norm"}.items()})
    for name, t in tensors.items():
        stem, _, kind = name.rpartition(".")
        writer.add_tensor(f"{names[stem]}.{kind}", t.numpy().astype(np.float16 if t.ndim > 1 else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_golden(kvasir, converter, out, names):
    import glob
    import tempfile

    import torch
    from safetensors.torch import load_file, save_file
    os.makedirs(out, exist_ok=True)
    for name, (of, small) in GOLDEN.items():
        if names and name not in names:
            continue
        with tempfile.TemporaryDirectory() as place:
            noise = torch.Generator().manual_seed(9)
            model, config = build(of, small)
            dense = [(torch.randn(shape, generator=noise) / 6).half() for shape in ((40, 32), (32, 40))] if "+dense" in of else []
            write_folder(of, model, config, place + "/folder", dense)
            said = None if name in MADE else write_gte(model, place + "/model.gguf") if name == "gte" else \
                convert(converter, place, of, kind="f16")
            if said:
                sys.exit(f"{name}: {said}")
            if name in FOLDERS:
                for path in [place + "/folder/model.safetensors", *glob.glob(place + "/folder/*_Dense/model.safetensors")]:
                    save_file({k: v.half() if v.ndim > 1 else v for k, v in load_file(path).items()}, path, {"format": "pt"})
                shutil.copytree(place + "/folder", f"{out}/{name}", dirs_exist_ok=True)
            if name in MADE:
                subprocess.run([kvasir, "quantize", place + "/folder", place + "/model.gguf", "--type", "F16"], check=True)
            model.double()
            ids = torch.randint(3, 128, (31,), generator=noise).tolist()
            answer = {"tokens": ids, "second": -1, "states": states_of(model, ids).tolist(),
                      "dense": [w.double().tolist() for w in dense]}
            if MODELS[of][2]:
                with torch.no_grad():
                    answer["rank"] = model(torch.tensor([ids])).logits[0].tolist()
            shutil.copy(place + "/model.gguf", f"{out}/{name}.gguf")
            with open(f"{out}/{name}.json", "w", encoding="utf-8") as file:
                json.dump(answer, file)
                file.write("\n")
            print(name, os.path.getsize(f"{out}/{name}.gguf"))


def write_table(rows, path):
    import transformers
    with open(path, "w", encoding="utf-8") as out:
        out.write(f"""# Encoders: transformers beside Kvasir

Written by `tools/families/encoders.py` with transformers {transformers.__version__} and the converter of llama-cpp-python 0.3.36. Each model is
tiny, with random weights and its switches on. A cell has the greatest relative error (L2) over texts of {", ".join(map(str, LENGTHS))} tokens, beside
float64, of the mean of all states, of the first and of the last one, and of the scores of a head that ranks; computed with
`kvasir embed --exact --raw`. At most {BAR:g} is right. Windows are 16 tokens wide. `-`: the converter does not take the folder. The models
`jina_v2`, `neobert` and `nomic_moe` are beside classes that the tool has itself, from the published ones; the others beside transformers'.

| model | folder | GGUF |
|---|---|---|
""")
        for name, folder, gguf, _ in rows:
            out.write(f"| `{name}` | {shown(folder)} | {shown(gguf)} |\n")
        out.write("\n## What is said\n\n")
        for name, _, _, words in rows:
            if words:
                out.write(f"* `{name}`: {words}\n")


def states_of(model, ids):
    import torch
    with torch.no_grad():
        if not hasattr(model, "config"):
            return model(torch.tensor(ids))
        inner = model if not hasattr(model, "num_labels") or hasattr(model, "get_input_embeddings") and model.base_model is model \
            else model.base_model
        return inner(torch.tensor([ids])).last_hidden_state[0]


def write_folder(name, model, config, folder, dense):
    from safetensors.torch import save_file
    if config is None:
        model.save_pretrained(folder)
    else:
        os.makedirs(folder, exist_ok=True)
        save_file({k: v.contiguous() for k, v in model.state_dict().items()}, folder + "/model.safetensors", {"format": "pt"})
        with open(folder + "/config.json", "w", encoding="utf-8") as file:
            json.dump(config, file)
    modules = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
               {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
    for i, w in enumerate(dense):
        place = f"{folder}/{i + 2}_Dense"
        os.makedirs(place, exist_ok=True)
        save_file({"linear.weight": w.float().contiguous()}, place + "/model.safetensors")
        with open(place + "/config.json", "w", encoding="utf-8") as file:
            json.dump({"in_features": w.shape[1], "out_features": w.shape[0], "bias": False,
                       "activation_function": "torch.nn.modules.linear.Identity"}, file)
        modules.append({"idx": i + 2, "name": str(i + 2), "path": f"{i + 2}_Dense", "type": "sentence_transformers.models.Dense"})
    os.makedirs(folder + "/1_Pooling", exist_ok=True)
    with open(folder + "/1_Pooling/config.json", "w", encoding="utf-8") as file:
        json.dump({"word_embedding_dimension": 64, "pooling_mode_mean_tokens": name != "qwen3", "pooling_mode_lasttoken": name == "qwen3"}, file)
    with open(folder + "/modules.json", "w", encoding="utf-8") as file:
        json.dump(modules, file)


def truth_of(name, place):
    """Writes place/folder, place/tokens.json and place/truth.json."""
    import torch
    model, config = build(name)
    noise = torch.Generator().manual_seed(9)
    dense = [torch.randn(shape, generator=noise) / 8 for shape in ((160, 64), (64, 160))] if name.endswith("+dense") else []
    write_folder(name, model, config, place + "/folder", dense)
    if name == "gte+ntk":  # as the authors' folders say it: of the base 20000, whose frequencies are also divided by 8^(2 / d)
        with open(place + "/folder/config.json", encoding="utf-8") as file:
            own = {**json.load(file), "model_type": "new", "rope_theta": 20000.0, "rope_scaling": {"type": "ntk", "factor": 8.0}}
        del own["rope_parameters"]
        with open(place + "/folder/config.json", "w", encoding="utf-8") as file:
            json.dump(own, file)
        model.rotary_emb.inv_freq /= 8.0 ** (2 / 16)
    model.double()
    ids = [torch.randint(3, 128, (n,), generator=noise).tolist() for n in LENGTHS]
    truth = {"mean": [], "cls": [], "last": [], "rank": []}
    for text in ids:
        states = states_of(model, text)
        for kind, v in (("mean", states.mean(0)), ("cls", states[0]), ("last", states[-1])):
            for w in dense:
                v = w.double() @ v
            truth[kind].append(v.tolist())
        if MODELS[name][2]:
            with torch.no_grad():
                truth["rank"].append(model(torch.tensor([text])).logits[0].tolist())
    with open(place + "/truth.json", "w", encoding="utf-8") as file:
        json.dump({k: v for k, v in truth.items() if v}, file)
    with open(place + "/tokens.json", "w", encoding="utf-8") as file:
        json.dump(ids, file)


def compare(kvasir, model, place):
    """The greatest relative error, or what was said."""
    with open(place + "/truth.json", encoding="utf-8") as file:
        truth = json.load(file)
    worst = {}
    for kind, want in truth.items():
        run = subprocess.run([kvasir, "embed", "-m", model, "--exact", "--raw", "--threads", "2", "--pooling", kind, "--tokens-file",
                              place + "/tokens.json"], capture_output=True, text=True)
        if run.returncode != 0:
            return (run.stderr.strip().splitlines() or ["no word"])[-1].replace(place + "/", "")[:240]
        out = json.loads(run.stdout)
        got = out.get("embeddings") or out["scores"]
        worst[kind] = max(np.linalg.norm(np.subtract(g, w)) / np.linalg.norm(w) for g, w in zip(got, want))
    return worst


def convert(converter, place, name, folder="folder", kind="f32"):
    """What the converter said where it makes no file."""
    from convert import convert_aside
    file, copy = place + "/model.gguf", place + "/published"
    shutil.copytree(f"{place}/{folder}", copy, dirs_exist_ok=True)
    with open(copy + "/config.json", encoding="utf-8") as text:
        config = {**json.load(text), **PUBLISHED.get(MODELS[name][0], {})}
    if config.get("model_type") == "nomic_bert":  # by the names that published ones have
        for own, published in (("hidden_size", "n_embd"), ("num_attention_heads", "n_head"), ("num_hidden_layers", "n_layer"),
                               ("intermediate_size", "n_inner")):
            config[published] = config[own]
    if MODELS[name][2]:
        config["id2label"] = {"0": "relevant"}
    with open(copy + "/config.json", "w", encoding="utf-8") as text:
        json.dump(config, text)
    with open(copy + "/tokenizer.json", "w", encoding="utf-8") as text:
        json.dump({"model": {"type": "WordPiece", "vocab": {f"word {i}": i for i in range(128)}}, "added_tokens": []}, text)
    said = convert_aside(converter, copy, file, ["--outtype", kind, *ARGUMENTS.get(name, [])])
    shutil.rmtree(copy)
    return None if said is None else (said.strip().splitlines() or ["no word"])[-1][:200]


def shown(result):
    if not isinstance(result, dict):
        return "-" if result is None else "refused"
    mark = "" if max(result.values(), default=0) <= BAR else "**WRONG** "
    return "not told" if not result else mark + ", ".join(f"{kind} {error:.0e}" for kind, error in result.items())


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kvasir")
    parser.add_argument("converter")
    parser.add_argument("out")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--table")
    parser.add_argument("--golden")
    args = parser.parse_args()
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import transformers
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    import convert as converting
    converting.load(args.converter)
    if args.golden:
        return write_golden(args.kvasir, args.converter, args.golden, args.names)
    wrong, rows = False, []
    for name in MODELS:
        if args.names and name not in args.names:
            continue
        place = os.path.join(args.out, name)
        os.makedirs(place, exist_ok=True)
        if not os.path.exists(place + "/truth.json"):
            truth_of(name, place)
        said = None if os.path.exists(place + "/model.gguf") else convert(args.converter, place, name)
        folder = compare(args.kvasir, place + "/folder", place)
        gguf = compare(args.kvasir, place + "/model.gguf", place) if os.path.exists(place + "/model.gguf") else None
        if isinstance(gguf, dict) and name in LACKS:
            for kind in LACKS[name][0]:
                del gguf[kind]
            said = "the file lacks " + LACKS[name][1]
        wrong |= any(isinstance(r, dict) and max(r.values(), default=0) > BAR for r in (folder, gguf))
        words = "; ".join(r for r in (folder, gguf, said and f"converter: {said}") if isinstance(r, str))
        rows.append((name, folder, gguf, words))
        print(f"{name:20} folder {shown(folder):50} GGUF {shown(gguf):50} {words}", flush=True)
    if args.table:
        write_table(rows, args.table)
    sys.exit(wrong)


if __name__ == "__main__":
    main()
