#!/bin/sh
# llama.cpp's convert_hf_to_gguf.py (in llama_cpp_python 0.3.36) on folders that transformers 5.24.0 saved (torch 2.15.0): tiny random
# models, converted once as they are and once with one setting changed in config.json. The vocabulary is left out.
# Guess: where a setting changes the logits of transformers, the two files differ.
# Seen: they are the same to the byte, without an error, for rope_theta of glm, falcon and minicpm3, rms_norm_eps of glm, activation
# of falcon, layer_types and mup_enabled of afmoe, layer_rope_theta of granite_swa, position_embedding_type of granitemoehybrid, and
# scale_emb, scale_depth and dim_model_base of minicpm3: whatever reads the file has one value for all models.
# rope_theta and rms_norm_eps of llama are written.
# Takes a download of about 3 GB: torch.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet transformers==5.24.0 torch==2.15.0 sentencepiece==0.2.1
"$dir/venv/bin/pip" download --quiet --no-deps --no-binary llama_cpp_python -d "$dir" llama_cpp_python==0.3.36
tar -xzf "$dir"/llama_cpp_python-0.3.36.tar.gz -C "$dir"
cat >"$dir/a.py" <<'END'
import os
import runpy
import sys
import json

import torch
from transformers import AutoConfig, AutoModelForCausalLM

out = sys.argv[1]
place = out + "/llama_cpp_python-0.3.36/vendor/llama.cpp"
torch.set_num_threads(1)

sys.path[:0] = [place, place + "/gguf-py"]
import conversion
import gguf

found = conversion.get_model_class


def without_vocabulary(name, mmproj=False):
    model = found(name, mmproj=mmproj)
    if not mmproj:
        model.set_vocab = lambda self: self._set_vocab_none()
    return model


conversion.get_model_class = without_vocabulary
conversion.load_all_models()


def convert(folder, file, *more):
    child = os.fork()
    if child == 0:
        log = os.open(folder + "/log", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.argv = ["convert_hf_to_gguf.py", folder, "--outtype", "f32", "--outfile", file, *more]
        runpy.run_path(place + "/convert_hf_to_gguf.py", run_name="__main__")
        os._exit(0)
    os.waitpid(child, 0)


def theta(folder_config):
    return dict(rope_parameters=dict(folder_config["rope_parameters"], rope_theta=77.0))


shape = dict(vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=256, pad_token_id=None, bos_token_id=1, eos_token_id=2)
half = ["sliding_attention", "full_attention"] * 2
quarter = ["sliding_attention"] * 3 + ["full_attention"]
models = {
    "glm": (dict(head_dim=16), [theta, dict(rms_norm_eps=0.1)]),
    "falcon": (dict(new_decoder_architecture=True, num_kv_heads=2, ffn_hidden_size=256), [theta, dict(activation="relu")]),
    "afmoe": (dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, num_dense_layers=1, sliding_window=16,
                   layer_types=quarter, head_dim=16), [dict(layer_types=half, global_attn_every_n_layers=2), dict(mup_enabled=True)]),
    "granite_swa": (dict(sliding_window=16, layer_types=quarter), [dict(layer_rope_theta=[1e4, 1e4, 0, 1e4])]),
    "granitemoehybrid": (dict(layer_types=["linear_attention", "full_attention"] * 2, num_local_experts=0, num_experts_per_tok=0,
                              shared_intermediate_size=64, mamba_n_heads=8, mamba_d_head=16, mamba_d_state=16, mamba_chunk_size=16,
                              rms_norm_eps=1e-5), [dict(position_embedding_type="rope")]),
    "minicpm3": (dict(num_key_value_heads=4, head_dim=8, q_lora_rank=48, kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8,
                      v_head_dim=16), [theta, dict(scale_emb=3.0), dict(scale_depth=4.0), dict(dim_model_base=16)]),
    "llama": ({}, [theta, dict(rms_norm_eps=0.1)]),
}
ids = torch.arange(48)[None]


def seen(folder, more):
    with open(folder + "/config.json", encoding="utf-8") as text:
        config = json.load(text)
    with open(folder + "/config.json", "w", encoding="utf-8") as text:
        json.dump({**config, **more}, text)
    with torch.no_grad():
        logits = AutoModelForCausalLM.from_pretrained(folder)(ids).logits
    convert(folder, folder + ".gguf")
    with open(folder + ".gguf", "rb") as file:
        data = file.read()
    os.remove(folder + ".gguf")
    with open(folder + "/config.json", "w", encoding="utf-8") as text:
        json.dump(config, text)
    return logits, data, config


changed = False
for name, (more, settings) in models.items():
    folder = f"{out}/{name}"
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(name, **{**shape, **more}))
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(0, 0.2)
    model.save_pretrained(folder)
    logits, data, config = seen(folder, {})
    for setting in settings:
        setting = setting(config) if callable(setting) else setting
        other_logits, other_data, _ = seen(folder, setting)
        off = float((other_logits - logits).norm() / logits.norm())
        print(f"{name:<16} {', '.join(setting):<40} logits {off:5.1%} other, file {'the same' if data == other_data else 'another'}")
        changed |= off < 0.001 or (data == other_data) == (name == "llama")
sys.exit("CHANGED" if changed else 0)
END
"$dir/venv/bin/python" "$dir/a.py" "$dir" 2>"$dir/errors" || { tail -n 5 "$dir/errors"; echo CHANGED; exit 1; }
