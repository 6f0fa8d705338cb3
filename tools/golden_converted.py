#!/usr/bin/env python3
"""Golden files as llama.cpp's converter writes them: what Kvasir has read wrongly once.

usage: golden_converted.py CONVERTER OUT [NAME ...]

Those of GOLDEN are the golden models of their architectures and lie in tests/golden, the others in its folder converted.

CONVERTER is vendor/llama.cpp of llama-cpp-python's source package. Writes OUT/NAME.gguf (float16) and OUT/NAME.logits.f32,
transformers' logits in float32 of the folder that was converted, as tools/golden_folders.py makes it. Needs torch,
transformers 5.24 and gguf.
"""
import os
import shutil
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, HERE + "/families"]
# NAME: architecture.
GOLDEN = {"afmoe": "afmoe", "apertus": "apertus", "bailing_hybrid": "bailingmoe3",
          "cohere2_moe": "cohere2moe", "deepseek_v32": "deepseek32", "dots1": "dots1",
          "exaone_moe": "exaone-moe", "glm_moe_dsa": "glm-dsa", "gpt_bigcode": "starcoder", "granitemoe_swa": "granite_swa",
          "hrm_text": "hrm_text", "hy_v3": "hy_v3",
          "internlm2": "internlm2", "jais2": "jais2", "jamba": "jamba", "kimi_linear": "kimi-linear",
          "laguna": "laguna", "mamba": "mamba", "mellum": "mellum", "minicpm": "minicpm",
          "minicpm3": "minicpm3", "nanbeige": "nanbeige", "olmo": "olmo", "phimoe": "phimoe", "qwen": "qwen",
          "qwen4_exp_text": "qwen4exp",
          "xverse": "xverse"}
# NAME: what the converter is called with besides.
FILES = {
    **{name: [] for name in GOLDEN},
    "bamba": [],  # rows of queries and keys in an order of their own
    "deepseek_v3": [],  # no expert_gating_func
    "exaone": [],  # as a llama
    "falcon_mamba": [],  # norms without weights
    "falcon_h1": [],  # ffn_norm without .weight
    "gpt_oss": [],  # YaRN whose ramp begins and ends within pairs
    "llama+bias": [],
    "llama+yarn": [],  # attention_factor
    "nemotron_h+experts": [],  # attention.layer_norm_epsilon alone
    "nemotron_h+latent": [],  # ffn_latent_down, ffn_latent_up
    "sarvam_moe": [],  # as a glm4moe
    "seed_oss+bias": [],
}
# Decays of states are exponentials, which the converter computes in the folder's type.
WIDE = {"bailing_hybrid", "falcon_mamba", "jamba", "kimi_linear", "mamba", "qwen4_exp_text"}
TOKENIZER = '{"model": {"vocab": {}}, "added_tokens": []}'


def widen(file):
    from safetensors.torch import load_file, save_file
    tensors = load_file(file)
    save_file({key: t.float() if t.is_floating_point() else t for key, t in tensors.items()}, file, {"format": "pt"})


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    import convert
    import golden_folders
    import json
    import transformers
    from models import MODELS, publish_names, published_of
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    converter, out = sys.argv[1:3]
    convert.load(converter)
    with open(HERE + "/../tests/golden/tokens.json", encoding="utf-8") as file:
        ids = json.load(file)["tokens"]
    os.makedirs(out, exist_ok=True)
    for name, arguments in FILES.items():
        if len(sys.argv) > 3 and name not in sys.argv[3:]:
            continue
        with tempfile.TemporaryDirectory() as place:
            os.environ["FOLDERS"] = place
            golden_folders.write(name, MODELS[name], ids, place)
            folder = os.path.join(place, name)
            with open(folder + "/config.json", encoding="utf-8") as file:
                config = {**json.load(file), **published_of(name)}
            with open(folder + "/config.json", "w", encoding="utf-8") as file:
                json.dump(config, file)
            publish_names(name, folder + "/model.safetensors")
            if name in WIDE:
                widen(folder + "/model.safetensors")
            with open(folder + "/tokenizer.json", "w", encoding="utf-8") as file:
                file.write(TOKENIZER)
            to = GOLDEN.get(name, name)
            said = convert.convert_aside(converter, folder, f"{out}/{to}.gguf", ["--outtype", "f16", *arguments])
            if said is not None:
                sys.exit(f"{name}: {said}")
            shutil.copy(f"{place}/{name}.logits.f32", f"{out}/{to}.logits.f32")
            print(to, os.path.getsize(f"{out}/{to}.gguf"), flush=True)


main()
