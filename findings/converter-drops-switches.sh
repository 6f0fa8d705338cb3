#!/bin/sh
# llama.cpp's convert_hf_to_gguf.py (in llama_cpp_python 0.3.36) on folders that transformers 5.24.0 saved (torch 2.15.0): tiny random
# models with a sliding window of 32 tokens, or with clip_qkv. The vocabulary is left out, which has no part in it.
# Guess: what changes the model's results is written into the file, or the folder is refused.
# Seen: the window of mistral, mixtral, starcoder2, qwen2, qwen3, qwen2_moe and qwen3_moe is left out without a word, as is
# clip_qkv of olmoe. That of olmo2's sibling olmo3 and of gemma2 is written.
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

out = sys.argv[1]
place = out + "/llama_cpp_python-0.3.36/vendor/llama.cpp"
from transformers import AutoConfig, AutoModelForCausalLM

sys.path[:0] = [place, place + "/gguf-py"]
import conversion
import gguf

found = conversion.get_model_class


def without_vocabulary(name, mmproj=False):
    model = found(name, mmproj=mmproj)
    model.set_vocab = lambda self: self._set_vocab_none()
    return model


conversion.get_model_class = without_vocabulary
conversion.load_all_models()
shape = dict(vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4, head_dim=16,
             num_key_value_heads=2, max_position_embeddings=256, pad_token_id=0, bos_token_id=1, eos_token_id=2)
experts = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=32)
window = dict(sliding_window=32)
qwen = dict(window, use_sliding_window=True, max_window_layers=2)
cases = {"mistral": window, "mixtral": dict(window, num_local_experts=4), "starcoder2": window, "qwen2": qwen, "qwen3": qwen,
         "qwen2_moe": dict(qwen, **experts), "qwen3_moe": dict(qwen, **experts),
         "olmoe": dict(num_experts=4, num_experts_per_tok=2, clip_qkv=0.5), "olmo3": window, "gemma2": window}
changed = False
for name, more in cases.items():
    folder = f"{out}/{name}"
    AutoModelForCausalLM.from_config(AutoConfig.for_model(name, **{**shape, **more})).save_pretrained(folder)
    child = os.fork()
    if child == 0:
        log = os.open(folder + "/log", os.O_CREAT | os.O_WRONLY)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.argv = ["convert_hf_to_gguf.py", folder, "--outfile", folder + "/model.gguf"]
        runpy.run_path(place + "/convert_hf_to_gguf.py", run_name="__main__")
        os._exit(0)
    os.waitpid(child, 0)
    keys = gguf.GGUFReader(folder + "/model.gguf").fields
    switch = "clip_qkv" if "clip_qkv" in more else "window"
    seen = any("clamp_kqv" in key or "sliding_window" in key for key in keys)
    said = [line for line in open(folder + "/log") if "sliding" in line.lower() or "clip" in line.lower()]
    print(f"{name:<11} {switch} {'written' if seen else 'left out'}, {len(said)} lines about it")
    changed |= seen != (name in ("olmo3", "gemma2")) or (not seen and bool(said))
sys.exit("CHANGED" if changed else 0)
END
"$dir/venv/bin/python" "$dir/a.py" "$dir" 2>"$dir/errors" || { tail -n 5 "$dir/errors"; echo CHANGED; exit 1; }
