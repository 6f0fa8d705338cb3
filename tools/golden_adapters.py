#!/usr/bin/env python3
"""Golden adapters (LoRA): two that the library PEFT writes for a golden folder, and one as llama.cpp's converter makes it of them.

usage: golden_adapters.py CONVERTER OUT

Writes OUT/all and OUT/some (adapter_config.json, adapter_model.safetensors), OUT/all.gguf, and the logits of
tests/golden/tokens.json that transformers computes in float32 with all (OUT/all.logits.f32) and with all and half of some
(OUT/both.logits.f32). CONVERTER is vendor/llama.cpp of llama-cpp-python's source package. Needs torch, transformers 5.24, peft
0.21 and gguf.
"""
import json
import os
import runpy
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, HERE + "/families"]
BASE = "llama+bias"
EVERY = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
ADAPTERS = {
    "all": dict(r=4, lora_alpha=8, target_modules=EVERY),
    # Ranks and alphas of single modules, and alpha / sqrt(rank): the converter drops the latter two.
    "some": dict(r=3, lora_alpha=6, target_modules=["q_proj", "down_proj"], use_rslora=True, rank_pattern={"q_proj": 5},
                 alpha_pattern={"layers.1.mlp.down_proj": 12}),
}


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    import golden_folders
    import torch
    from models import MODELS
    from peft import LoraConfig, PeftModel, get_peft_model
    from transformers import AutoModelForCausalLM

    converter, out = sys.argv[1:]
    with open(HERE + "/../tests/golden/tokens.json", encoding="utf-8") as file:
        ids = torch.tensor([json.load(file)["tokens"]])
    os.makedirs(out, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        os.environ["FOLDERS"] = place
        golden_folders.write(BASE, MODELS[BASE], ids[0].tolist(), place)
        base = os.path.join(place, BASE)

        def load():
            return AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, attn_implementation="eager")

        for number, (name, settings) in enumerate(ADAPTERS.items()):
            torch.manual_seed(number)
            model = get_peft_model(load(), LoraConfig(task_type="CAUSAL_LM", init_lora_weights=False, **settings))
            model.save_pretrained(os.path.join(out, name))
            os.remove(os.path.join(out, name, "README.md"))
            path = os.path.join(out, name, "adapter_config.json")
            with open(path, encoding="utf-8") as file:
                config = json.load(file)
            config["base_model_name_or_path"] = BASE  # not a path of this machine
            with open(path, "w", encoding="utf-8") as file:
                json.dump(config, file, indent=1, sort_keys=True)

        def logits(model, file):
            with torch.no_grad():
                model(ids).logits[0].numpy().tofile(os.path.join(out, file))

        model = PeftModel.from_pretrained(load(), os.path.join(out, "all"), adapter_name="all")
        logits(model, "all.logits.f32")
        model.load_adapter(os.path.join(out, "some"), adapter_name="some")
        model.base_model.set_adapter(["all", "some"])
        for module in model.modules():
            if isinstance(getattr(module, "scaling", None), dict) and "some" in module.scaling:
                module.scaling["some"] *= 0.5
        logits(model, "both.logits.f32")
        sys.path[:0] = [converter, converter + "/gguf-py"]
        sys.argv = ["convert_lora_to_gguf.py", os.path.join(out, "all"), "--base", base, "--outfile", os.path.join(out, "all.gguf"),
                    "--outtype", "f32"]
        runpy.run_path(converter + "/convert_lora_to_gguf.py", run_name="__main__")


main()
