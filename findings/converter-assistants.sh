#!/bin/sh
# llama.cpp's convert_hf_to_gguf.py (in llama_cpp_python 0.3.36) on assistants of Gemma 4 and Gemma 4 Unified that transformers 5.24.0 saved
# (torch 2.15.0): tiny random models without experts. The vocabulary is left out; tokenizer.json is there for its size.
# Guess: both families, which the converter registers as one class, become files, and with use_ordered_embeddings a file has the centroids
# and the order of tokens, for which the tensor map of gguf, the list of the architecture and llama.cpp's loader have names.
# Seen: of Gemma 4 the file with use_ordered_embeddings has the bytes of the one without: both tensors are left out, and so are the settings,
# without a word, so that drafts have to be looked for among all tokens. Gemma 4 Unified, whose configuration has no experts, is refused
# for want of a moe_intermediate_size; with "moe_intermediate_size": null put into config.json it becomes a file, without the two as well.
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
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer, models
from transformers import AutoConfig

print("transformers", transformers.__version__)
out = sys.argv[1]
place = out + "/llama_cpp_python-0.3.36/vendor/llama.cpp"
torch.set_num_threads(1)
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


def convert(folder):
    """The bytes of the file, or None, and what the converter said."""
    file = folder.with_suffix(".gguf")
    child = os.fork()
    if child == 0:
        log = os.open(folder / "log", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.argv = ["convert_hf_to_gguf.py", str(folder), "--outtype", "f32", "--outfile", str(file)]
        try:
            runpy.run_path(place + "/convert_hf_to_gguf.py", run_name="__main__")
        except Exception as error:
            print(f"{type(error).__name__}: {error}", flush=True)
            os._exit(1)
        os._exit(0)
    failed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
    return None if failed else file.read_bytes(), (folder / "log").read_text()


rope = {"full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}
text = dict(vocab_size=256, num_attention_heads=4, num_key_value_heads=2, head_dim=16, global_head_dim=32, num_global_key_value_heads=1,
            attention_k_eq_v=True, sliding_window=16, max_position_embeddings=512, rope_parameters=rope, bos_token_id=2, eos_token_id=1,
            pad_token_id=0, num_hidden_layers=4, hidden_size=32, intermediate_size=64, num_kv_shared_layers=4,
            layer_types=["sliding_attention"] * 3 + ["full_attention"])
places = dict(vocab_size_per_layer_input=0, hidden_size_per_layer_input=0)
files, changed = {}, False
for family, name, more in [("gemma4", "Gemma4", places), ("gemma4_unified", "Gemma4Unified", {})]:
    for ordered in [False, True]:
        settings = AutoConfig.for_model(family + "_assistant", text_config=AutoConfig.for_model(family + "_text", **text, **more),
                                        backbone_hidden_size=64, use_ordered_embeddings=ordered, num_centroids=16, centroid_intermediate_top_k=2)
        torch.manual_seed(1)
        model = getattr(transformers, name + "AssistantForCausalLM")(settings)
        if ordered:
            model.masked_embedding.token_ordering.copy_(torch.randperm(256))
            model.load_state_dict(plain.state_dict(), strict=False)
        plain = model
        folder = Path(out, family, "ordered" if ordered else "plain", "assistant")
        model.save_pretrained(folder)
        Tokenizer(models.BPE({chr(256 + i): i for i in range(256)}, [])).save(str(folder / "tokenizer.json"))
        file, log = convert(folder)
        if file is None:
            said = log.splitlines()[-1]
            print(f"{family:<14} use_ordered_embeddings {ordered!s:5}: {said}")
            changed |= family == "gemma4" or not said.startswith("KeyError") or "moe_intermediate_size" not in said
            settings = json.loads((folder / "config.json").read_text())
            changed |= "moe_intermediate_size" in settings["text_config"]
            settings["text_config"]["moe_intermediate_size"] = None
            (folder / "config.json").write_text(json.dumps(settings))
            file, log = convert(folder)
        else:
            changed |= family == "gemma4_unified"
        saved = [k for k in model.state_dict() if "masked" in k]
        reader = gguf.GGUFReader(folder.with_suffix(".gguf"))
        kept = [t.name for t in reader.tensors if "masked" in t.name]
        print(f"{family:<14} use_ordered_embeddings {ordered!s:5}: saved {saved}, file of {len(file)} bytes, {len(reader.tensors)} tensors, {kept}")
        files[family, ordered] = file
        changed |= len(saved) != 2 * ordered or kept != [] or "masked" in log
for family in ["gemma4", "gemma4_unified"]:
    same = files[family, False] == files[family, True]
    print(f"{family:<14} files the same: {same}")
    changed |= not same
known = [t.name for t in gguf.MODEL_TENSORS[gguf.MODEL_ARCH.GEMMA4_ASSISTANT] if "MASKED" in t.name]
print("the architecture lists", *known)
sys.exit("CHANGED" if changed or len(known) != 2 else 0)
END
"$dir/venv/bin/python" "$dir/a.py" "$dir" 2>"$dir/errors" || { tail -n 5 "$dir/errors"; echo CHANGED; exit 1; }
