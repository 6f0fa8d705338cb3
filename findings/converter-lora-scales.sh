#!/bin/sh
# llama.cpp's convert_lora_to_gguf.py (in llama_cpp_python 0.3.36) on adapters that peft 0.21.2 saved for a tiny llama of
# transformers 5.24.0 (torch 2.15.0). A GGUF adapter has one alpha, which is divided by each matrix's rank.
# Guess: an adapter whose scales one alpha cannot say is refused, or its matrices are multiplied by them.
# Seen: use_rslora (alpha / sqrt(rank)) and alpha_pattern are left out without a word: the file is byte for byte that of the
# plain adapter, and its matrices count for 1/4 (rank 16) and 1/8 (alpha 16 for 2) of what peft computes. rank_pattern, which
# the shapes say, is right.
# Takes a download of about 3 GB: torch.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet transformers==5.24.0 torch==2.15.0 peft==0.21.2 sentencepiece==0.2.1
"$dir/venv/bin/pip" list --format=freeze | grep -iE '^(peft|torch|transformers)=='  # the version of each
"$dir/venv/bin/pip" download --quiet --no-deps --no-binary llama_cpp_python -d "$dir" llama_cpp_python==0.3.36
tar -xzf "$dir"/llama_cpp_python-0.3.36.tar.gz -C "$dir"
cat >"$dir/a.py" <<'END'
import contextlib
import io
import logging
import runpy
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

out = sys.argv[1]
place = out + "/llama_cpp_python-0.3.36/vendor/llama.cpp"
sys.path[:0] = [place, place + "/gguf-py"]
import gguf

base = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=1,
                                    num_attention_heads=4, num_key_value_heads=2))
base.save_pretrained(out + "/base")
FILE = {"q_proj": "blk.0.attn_q.weight", "down_proj": "blk.0.ffn_down.weight"}
CASES = {"plain": {}, "use_rslora": dict(use_rslora=True), "alpha_pattern": dict(alpha_pattern={"down_proj": 16}),
         "rank_pattern": dict(rank_pattern={"down_proj": 8})}
log, changed, files = io.StringIO(), False, {}
logging.basicConfig(stream=log)
for name, more in CASES.items():
    torch.manual_seed(0)
    model = get_peft_model(LlamaForCausalLM.from_pretrained(out + "/base"), LoraConfig(
        r=16, lora_alpha=2, target_modules=list(FILE), init_lora_weights=False, **more))
    model.save_pretrained(f"{out}/{name}")
    path = f"{out}/{name}.gguf"
    sys.argv = ["convert_lora_to_gguf.py", f"{out}/{name}", "--base", out + "/base", "--outfile", path, "--outtype", "f32"]
    with contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
        runpy.run_path(place + "/convert_lora_to_gguf.py", run_name="__main__")
    reader = gguf.GGUFReader(path)
    alpha = float(reader.fields["adapter.lora.alpha"].contents())
    rank = {t.name: int(t.shape[0]) for t in reader.tensors if t.name.endswith("lora_b")}
    files[name] = b"".join(t.data.tobytes() for t in reader.tensors)
    shares = []
    for module in model.modules():
        if isinstance(getattr(module, "scaling", None), dict) and module.scaling:
            which = "q_proj" if module.out_features == module.in_features else "down_proj"
            shares.append(alpha / rank[FILE[which] + ".lora_b"] / module.scaling["default"])
    print(f"{name:<14} of peft's q_proj {shares[0]:.3f}, of down_proj {shares[1]:.3f}")
    changed |= shares != {"plain": [1, 1], "use_rslora": [0.25, 0.25], "alpha_pattern": [1, 0.125], "rank_pattern": [1, 1]}[name]
said = [line for line in log.getvalue().splitlines() if "rslora" in line.lower() or "alpha_pattern" in line]
same = files["plain"] == files["use_rslora"] == files["alpha_pattern"]
print(f"{len(said)} lines about them; the tensors are {'the same' if same else 'others'} in the first three files")
sys.exit("CHANGED" if changed or said or not same else 0)
END
"$dir/venv/bin/python" "$dir/a.py" "$dir" 2>"$dir/errors" || { tail -n 5 "$dir/errors"; echo CHANGED; exit 1; }
