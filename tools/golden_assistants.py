#!/usr/bin/env python3
"""Golden assistants of Gemma 4: small models with the assistants that draft for them, and the logits of draft tokens.

usage: golden_assistants.py OUT [NAME ...]

Writes OUT/NAME.json (both folders as tools/golden_folders.py has them, lengths of texts, which are tokens of
tests/golden/tokens.json over and over) and OUT/NAME.logits.f32: of every text the logits of STEPS draft tokens behind its last
token, each made of the one before, by transformers' classes in float64. The layers with a window are given its last rows
but the one of the last token, as the model's own layers would see them from there; transformers' own loop gives them other
numbers of rows from step to step (docs/drafting.md). With FOLDERS in the environment the folders are kept there.
Needs torch and transformers 5.24.
"""
import json
import os
import shutil
import sys
import tempfile

import numpy as np
import torch
import transformers
from golden_folders import rule, usual, values
from safetensors.numpy import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

STEPS = 4
LENGTHS = (2, 90, 129, 200, 201, 330, 600)
LAYERS = dict(head_dim=64, global_head_dim=128, attention_k_eq_v=True, num_global_key_value_heads=1, sliding_window=200,
              max_position_embeddings=4096, enable_moe_block=False, use_double_wide_mlp=False)
TARGET = usual(LAYERS, num_hidden_layers=4, num_kv_shared_layers=2, hidden_size_per_layer_input=16, vocab_size_per_layer_input=128,
               layer_types=["sliding_attention", "full_attention"] * 2, final_logit_softcapping=30.0)
UNIFIED = usual(LAYERS, num_hidden_layers=4, layer_types=["sliding_attention"] * 3 + ["full_attention"], final_logit_softcapping=30.0)


def assistant(**more):
    """Of three layers, the last without a window."""
    return {**usual(LAYERS, num_hidden_layers=3, num_kv_shared_layers=3, hidden_size_per_layer_input=0, vocab_size_per_layer_input=0,
                    layer_types=["sliding_attention", "sliding_attention", "full_attention"], final_logit_softcapping=None), **more}


MODELS = {
    "plain": (("gemma4_text", TARGET), ("gemma4_assistant", dict(backbone_hidden_size=64),
                                        assistant(hidden_size=32, intermediate_size=64, num_attention_heads=8))),
    "ordered": (("gemma4_unified_text", UNIFIED),
                ("gemma4_unified_assistant", dict(backbone_hidden_size=64, use_ordered_embeddings=True, num_centroids=16,
                                                  centroid_intermediate_top_k=3), assistant())),
}


def make(config, folder):
    """The model in float64, config.json, and how its tensors are made."""
    config._attn_implementation = "eager"
    AutoModelForCausalLM.from_config(config).half().save_pretrained(folder)
    file = os.path.join(folder, "model.safetensors")
    tensors, listed = load_file(file), []
    for key in sorted(tensors):
        shape = tensors[key].shape
        if tensors[key].dtype == np.int64:
            tensors[key] = (np.arange(shape[0]) * 7 + 3) % shape[0]
            listed.append([key, "I64", list(shape), 7, 3])
            continue
        exponent, offset = rule(key, tensors[key])
        tensors[key] = values(key, shape, exponent, offset)
        listed.append([key, "F16", list(shape), exponent, offset])
    save_file(tensors, file, {"format": "pt"})
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as text:
        plain = json.load(text)
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager"), plain, listed


def drafted(model, helper, window, ids):
    """Logits of STEPS draft tokens behind ids, of which the model has computed all but the last."""
    embed = model.get_input_embeddings()
    with torch.no_grad():
        out = model(torch.tensor([ids[:-1]]), output_hidden_states=True, return_shared_kv_states=True, use_cache=False)
        seen = {kind: tuple(x[:, :, 1 - window:] if kind == "sliding_attention" else x for x in kv)
                for kind, kv in out.shared_kv_states.items()}
        state, last, rows = out.hidden_states[-1][:, -1:], torch.tensor([ids[-1:]]), []
        for _ in range(STEPS):
            step = helper(inputs_embeds=torch.cat([embed(last), state], -1), position_ids=torch.tensor([[len(ids) - 1]]),
                          shared_kv_states=seen, attention_mask=None)
            rows.append(step.logits[0, 0].numpy())
            state, last = step.last_hidden_state, step.logits.argmax(-1)
    best = np.sort(np.stack(rows), axis=-1)
    assert (best[:, -1] - best[:, -2]).min() > 1e-3, "two tokens are nearly as likely: take other lengths"
    return rows


def write(name, kinds, ids, out):
    (target, settings), (helper, around, layers) = kinds
    with tempfile.TemporaryDirectory() as folder:
        model, plain, listed = make(AutoConfig.for_model(target, **settings), os.path.join(folder, "target"))
        inner = AutoConfig.for_model(target if "unified" in target else "gemma4_text", **layers)
        own, own_plain, own_listed = make(AutoConfig.for_model(helper, text_config=inner, **around), os.path.join(folder, "assistant"))
        rows = [drafted(model, own, settings["sliding_window"], [ids[i % len(ids)] for i in range(n)]) for n in LENGTHS]
        if os.environ.get("FOLDERS"):
            shutil.copytree(folder, os.path.join(os.environ["FOLDERS"], name), dirs_exist_ok=True)
    logits = np.stack(rows).astype(np.float32)
    logits.tofile(os.path.join(out, name + ".logits.f32"))
    with open(os.path.join(out, name + ".json"), "w", encoding="utf-8") as text:
        def described(config, tensors):
            lines = ",\n".join(json.dumps(t, separators=(",", ":")) for t in tensors)
            return f'{{"config": {json.dumps(config)},\n"tensors": [\n{lines}\n]}}'
        text.write(f'{{"lengths": {json.dumps(LENGTHS)}, "steps": {STEPS},\n"target": {described(plain, listed)},\n'
                   f'"assistant": {described(own_plain, own_listed)}}}\n')
    print(f"{name}: logits {logits.shape}, spread {logits.std():.2f}")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    beside = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "tokens.json")
    with open(beside, encoding="utf-8") as file:
        ids = json.load(file)["tokens"]
    os.makedirs(sys.argv[1], exist_ok=True)
    for name, kinds in MODELS.items():
        if len(sys.argv) == 2 or name in sys.argv[2:]:
            write(name, kinds, ids, sys.argv[1])


if __name__ == "__main__":
    main()
