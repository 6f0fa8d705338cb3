#!/bin/sh
# transformers 5.24.0 (torch 2.15.0) on a tiny random Kimi Linear, whose first layer is dense and whose others have experts, and llama.cpp's
# convert_hf_to_gguf.py (in llama_cpp_python 0.3.36) on what it saved. The vocabulary is left out.
# Guess: a folder with the names of the published one, loaded and saved again, has the names that it had, and what converts before converts
# after.
# Seen: the three matrices of the dense layer are loaded from `mlp.` and saved as `block_sparse_moe.`, where the experts belong, without a
# word, and so they are by a new model. transformers takes both for the same, to the bit. The converter makes a file of the folder that was
# loaded, and refuses the one that was saved: "Can not map tensor".
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

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM

print("transformers", transformers.__version__)
out = sys.argv[1]
place = out + "/llama_cpp_python-0.3.36/vendor/llama.cpp"
torch.set_num_threads(1)
sys.path[:0] = [place, place + "/gguf-py"]
import conversion

found = conversion.get_model_class


def without_vocabulary(name, mmproj=False):
    model = found(name, mmproj=mmproj)
    model.set_vocab = lambda self: self._set_vocab_none()
    return model


conversion.get_model_class = without_vocabulary
conversion.load_all_models()


def convert(folder):
    """What the converter said last."""
    child = os.fork()
    if child == 0:
        log = os.open(folder + "/log", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.argv = ["convert_hf_to_gguf.py", folder, "--outtype", "f32", "--outfile", folder + ".gguf"]
        runpy.run_path(place + "/convert_hf_to_gguf.py", run_name="__main__")
        os._exit(0)
    os.waitpid(child, 0)
    with open(folder + "/log", encoding="utf-8") as text:
        return text.read().splitlines()[-1].replace(out + "/", "")


def names(folder):
    return set(load_file(folder + "/model.safetensors"))


new, published, again = (f"{out}/{name}" for name in ["new", "published", "again"])
linear = dict(head_dim=16, num_heads=4, short_conv_kernel_size=4, full_attn_layers=[4], kda_layers=[1, 2, 3])
settings = AutoConfig.for_model(
    "kimi_linear", vocab_size=64, hidden_size=64, intermediate_size=96, moe_intermediate_size=32, num_hidden_layers=4, num_attention_heads=4,
    num_key_value_heads=4, kv_lora_rank=32, qk_rope_head_dim=16, v_head_dim=16, qk_nope_head_dim=16, num_experts=4, num_experts_per_token=2,
    pad_token_id=0, bos_token_id=1, eos_token_id=2, linear_attn_config=linear, first_k_dense_replace=1)
torch.manual_seed(1)
model = AutoModelForCausalLM.from_config(settings).eval()
model.save_pretrained(new)
# The dense layer of the published folder is under `mlp.`, which is where the converter looks for it.
tensors = {name.replace("layers.0.block_sparse_moe.", "layers.0.mlp."): t for name, t in load_file(new + "/model.safetensors").items()}
os.mkdir(published)
settings.save_pretrained(published)
save_file(tensors, published + "/model.safetensors", metadata={"format": "pt"})
loaded, seen = AutoModelForCausalLM.from_pretrained(published, output_loading_info=True)
loaded.eval().save_pretrained(again)
ids = torch.arange(5, 25)[None]
with torch.no_grad():
    same = torch.equal(model(ids).logits, loaded(ids).logits)
print(f"loaded: {len(seen['missing_keys'])} names missing, {len(seen['unexpected_keys'])} not expected, logits the same: {same}")
print("only in what was loaded: ", *sorted(names(published) - names(again)))
print("only in what was saved:  ", *sorted(names(again) - names(published)))
matrices = ["down_proj", "gate_proj", "up_proj"]
changed = not same or seen["missing_keys"] or seen["unexpected_keys"] or names(new) != names(again)
for less, more, kind in [(again, published, "mlp"), (published, again, "block_sparse_moe")]:
    changed |= sorted(names(more) - names(less)) != [f"model.layers.0.{kind}.{m}.weight" for m in matrices]
for folder, wanted in [(published, "successfully exported"), (again, "Can not map tensor 'model.layers.0.block_sparse_moe.")]:
    said = convert(folder)
    print(f"{folder.replace(out + '/', '')}: {said}")
    changed |= wanted not in said
sys.exit("CHANGED" if changed else 0)
END
"$dir/venv/bin/python" "$dir/a.py" "$dir" 2>"$dir/errors" || { tail -n 5 "$dir/errors"; echo CHANGED; exit 1; }
