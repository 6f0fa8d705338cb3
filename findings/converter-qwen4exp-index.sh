#!/bin/sh
# llama.cpp's convert_hf_to_gguf.py (in llama_cpp_python 0.3.36) on a folder of Qwen4-exp as it is published, with layers called
# full_attention and indexer_compress_ratio 4, made tiny by transformers 5.24.0 (torch 2.15.0). The vocabulary is left out, which has no
# part in it.
# Guess: the file says 4 for the layers of attention, whatever the transformers beside the converter knows.
# Seen: 0 for all layers, without a word, so that llama.cpp computes without the index: the converter asks transformers for the configuration,
# which calls these layers indexed_attention, and looks for full_attention. With a model_type that transformers does not know it is 4.
# Takes a download of about 3 GB: torch.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet transformers==5.24.0 torch==2.15.0 sentencepiece==0.2.1
"$dir/venv/bin/pip" download --quiet --no-deps --no-binary llama_cpp_python -d "$dir" llama_cpp_python==0.3.36
tar -xzf "$dir"/llama_cpp_python-0.3.36.tar.gz -C "$dir"
cat >"$dir/a.py" <<'END'
import json
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
folder = out + "/model"
kinds = ["linear_attention"] * 3 + ["full_attention"]
AutoModelForCausalLM.from_config(AutoConfig.for_model(
    "qwen4_exp_text", vocab_size=64, hidden_size=64, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
    linear_num_key_heads=2, linear_num_value_heads=2, linear_key_head_dim=16, linear_value_head_dim=16, num_experts=4,
    num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=32, hc_lowrank=8, indexer_n_heads=4,
    indexer_kv_heads=1, indexer_head_dim=16, indexer_budget=16, indexer_compress_ratio=4, layer_types=kinds,
    output_gate_type="sigmoid", bos_token_id=1, eos_token_id=2)).save_pretrained(folder)
with open(folder + "/config.json") as file:
    config = {**json.load(file), "layer_types": kinds}
seen = {}
for kind in ("qwen4_exp_text", "unknown"):
    with open(folder + "/config.json", "w") as file:
        json.dump({**config, "model_type": kind}, file)
    child = os.fork()
    if child == 0:
        log = os.open(folder + "/log", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.argv = ["convert_hf_to_gguf.py", folder, "--outfile", folder + "/model.gguf"]
        runpy.run_path(place + "/convert_hf_to_gguf.py", run_name="__main__")
        os._exit(0)
    os.waitpid(child, 0)
    ratios = gguf.GGUFReader(folder + "/model.gguf").fields["qwen4exp.attention.compress_ratios"].contents()
    said = [line for line in open(folder + "/log") if "compress" in line.lower() or "indexed" in line.lower()]
    print(f"model_type {kind:<15} ratios {ratios}, {len(said)} lines about it")
    os.remove(folder + "/model.gguf")
    seen[kind] = ratios, bool(said)
sys.exit("CHANGED" if seen != {"qwen4_exp_text": ([0, 0, 0, 0], False), "unknown": ([0, 0, 0, 4], False)} else 0)
END
"$dir/venv/bin/python" "$dir/a.py" "$dir" 2>"$dir/errors" || { tail -n 5 "$dir/errors"; echo CHANGED; exit 1; }
