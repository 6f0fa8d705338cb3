#!/bin/sh
# llama.cpp's convert_hf_to_gguf.py (in llama_cpp_python 0.3.36) on folders that transformers 5.24.0 saved (torch 2.15.0): tiny random
# models. The vocabulary is left out.
# Guess: a key of the file says what the configuration says, or what the class has fixed.
# Seen, without an error: the context of glm is the hidden size, and that of falcon 2048; the width of the feed forward of falcon and
# gpt_bigcode is 4 times the hidden size; gpt_bigcode with multi_query=False has 1 KV head; granitemoehybrid has 0 KV heads in each layer;
# the epsilon of the norms in the encoder of qwen3_vl, which transformers has fixed to 1e-6, is that of the text model.
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
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

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


shape = dict(vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4, head_dim=16,
             num_key_value_heads=2, max_position_embeddings=704, pad_token_id=None, bos_token_id=1, eos_token_id=2)
falcon = dict(shape, new_decoder_architecture=True, num_kv_heads=2, ffn_hidden_size=96)
del falcon["head_dim"]
hybrid = dict(shape, layer_types=["linear_attention", "full_attention"] * 2, num_local_experts=0, num_experts_per_tok=0,
              shared_intermediate_size=64, mamba_n_heads=8, mamba_d_head=16, mamba_d_state=16, mamba_chunk_size=16)
starcoder = dict(vocab_size=64, n_embd=64, n_layer=2, n_head=4, n_positions=704, n_inner=96, multi_query=False, pad_token_id=None)
sight = dict(
    text_config=dict(shape, rms_norm_eps=1e-3, rope_parameters=dict(rope_type="default", rope_theta=1e4, mrope_section=[4, 2, 2])),
    vision_config=dict(depth=3, hidden_size=32, intermediate_size=32, num_heads=2, out_hidden_size=64, deepstack_visual_indexes=[0],
                       num_position_embeddings=16))
cases = [("llama", shape, "llama.context_length", 704, 704), ("glm", shape, "chatglm.context_length", 704, 64),
         ("falcon", falcon, "falcon.context_length", 704, 2048), ("falcon", falcon, "falcon.feed_forward_length", 96, 256),
         ("gpt_bigcode", starcoder, "starcoder.attention.head_count_kv", 4, 1),
         ("gpt_bigcode", starcoder, "starcoder.feed_forward_length", 96, 256),
         ("granitemoehybrid", hybrid, "granitehybrid.attention.head_count_kv", [0, 2, 0, 2], [0, 0, 0, 0]),
         ("qwen3_vl", sight, "clip.vision.attention.layer_norm_epsilon", 1e-6, 1e-3)]
changed = False
for name, settings, key, meant, wanted in cases:
    folder = f"{out}/{name}"
    if not os.path.exists(folder):
        kind = AutoModelForImageTextToText if name == "qwen3_vl" else AutoModelForCausalLM
        kind.from_config(AutoConfig.for_model(name, **settings)).save_pretrained(folder)
        if name == "qwen3_vl":
            with open(folder + "/preprocessor_config.json", "w", encoding="utf-8") as text:
                text.write('{"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}')
        convert(folder, folder + ".gguf", *["--mmproj"] * (name == "qwen3_vl"))
    said = gguf.GGUFReader(folder + ".gguf").fields[key].contents()
    said = round(said, 9) if isinstance(said, float) else said
    print(f"{name:<16} {key:<40} meant {meant}, file {said}")
    changed |= said != wanted
sys.exit("CHANGED" if changed else 0)
END
"$dir/venv/bin/python" "$dir/a.py" "$dir" 2>"$dir/errors" || { tail -n 5 "$dir/errors"; echo CHANGED; exit 1; }
