#!/bin/sh
# llama.cpp's convert_hf_to_gguf.py (in llama_cpp_python 0.3.36) on a tiny random Qwen3-VL-MoE model that transformers 5.24.0 saved
# (torch 2.15.0): hidden size 64, 6 experts 24 wide. The vocabulary is left out.
# Guess: the experts in the file are those of the model, or a file with other shapes is refused.
# Seen: transformers 5 saves the matrices of experts the other way round than published folders have them, and the converter turns
# them all the same, and cuts gate and up apart along the wrong axis. It makes a file with matrices of 32 x 48 in place of 64 x 24, without
# a word. From the matrices turned back it makes the file that is meant.
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

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForImageTextToText

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


text = dict(vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=1, num_attention_heads=4, head_dim=16,
            num_key_value_heads=2, max_position_embeddings=704, moe_intermediate_size=24, num_experts=6, num_experts_per_tok=2,
            rope_parameters=dict(rope_type="default", rope_theta=1e4, mrope_section=[4, 2, 2], mrope_interleaved=True))
vision = dict(depth=1, hidden_size=32, intermediate_size=32, num_heads=2, out_hidden_size=64, deepstack_visual_indexes=[0],
              num_position_embeddings=16)
model = AutoModelForImageTextToText.from_config(AutoConfig.for_model("qwen3_vl_moe", text_config=text, vision_config=vision))
experts = model.model.language_model.layers[0].mlp.experts
gate, up = experts.gate_up_proj.detach().chunk(2, 1)
meant = {"gate": gate.numpy(), "up": up.numpy(), "down": experts.down_proj.detach().numpy()}
folder = out + "/model"
model.save_pretrained(folder)
changed = False
for turned in (False, True):
    if turned:
        file = folder + "/model.safetensors"
        tensors = load_file(file)
        save_file({name: data.transpose(1, 2).contiguous() if ".experts." in name and data.ndim == 3 else data.clone()
                   for name, data in tensors.items()}, file, {"format": "pt"})
    convert(folder, folder + ".gguf")
    with open(folder + "/log", encoding="utf-8") as log:
        words = [line for line in log if "WARNING" in line and "expert" in line.lower()]
    tensors = {tensor.name: tensor.data for tensor in gguf.GGUFReader(folder + ".gguf").tensors}
    for part, data in meant.items():
        there = tensors[f"blk.0.ffn_{part}_exps.weight"]
        right = np.array_equal(there, data)
        print(f"{'turned back' if turned else 'as saved':<11} {part:<4} meant {data.shape}, file {there.shape}: {'right' if right else 'wrong'}, "
              f"{len(words)} warnings")
        changed |= right != turned or bool(words)
sys.exit("CHANGED" if changed else 0)
END
"$dir/venv/bin/python" "$dir/a.py" "$dir" 2>"$dir/errors" || { tail -n 5 "$dir/errors"; echo CHANGED; exit 1; }
