#!/bin/sh
# mlx-lm 0.32.2 (mlx 0.32.4 on the CPU) on configurations that transformers 5.24.0 saved (it asks for 5.7 or later): rope_theta 500000.
# Guess: the base of RoPE is taken from where transformers 5 writes it (rope_parameters), or the folder is refused.
# Seen: so it is in qwen3; granite and qwen3_moe are refused (rope_theta is missing). llama, mistral, mixtral, qwen2, qwen2_moe, olmoe,
# olmo2, gemma and gemma2 are computed with the class's own base (10000; mixtral 1000000), without a word: logits of 40 tokens are
# 23 to 88 % off those of the same weights with rope_theta where transformers 4 wrote it.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet 'mlx[cpu]==0.32.4' mlx-lm==0.32.2 transformers==5.24.0
cat >"$dir/a.py" <<'END'
import sys
from importlib.metadata import version
from pathlib import Path

import mlx.core as mx
import numpy as np
from mlx.utils import tree_map
from mlx_lm.utils import _get_classes, load_config
from transformers import AutoConfig

print("mlx-lm", version("mlx-lm"), "transformers", version("transformers"))
mx.set_default_device(mx.cpu)
shape = dict(vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             head_dim=16, max_position_embeddings=256, pad_token_id=0, bos_token_id=1, eos_token_id=2)
experts = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32, shared_expert_intermediate_size=32)


def logits(config):
    kind, arguments = _get_classes(config)
    model = kind(arguments.from_dict(config))
    mx.random.seed(0)
    model.update(tree_map(lambda p: mx.random.normal(p.shape) * 0.3 if p.ndim > 1 else p, model.parameters()))
    return np.array(model(mx.array([[5, 9, 11, 3, 40, 21, 7, 8, 30, 33] * 4])))


ignored = ("llama", "mistral", "mixtral", "qwen2", "qwen2_moe", "olmoe", "olmo2", "gemma", "gemma2")
refused = ("granite", "qwen3_moe")
changed = False
for name in ("qwen3", *refused, *ignored):
    more = dict(num_local_experts=4, num_experts_per_tok=2) if name == "mixtral" else experts if name.endswith("moe") else {}
    folder = Path(sys.argv[1], name)
    AutoConfig.for_model(name, **shape, **more, rope_parameters={"rope_type": "default", "rope_theta": 500000.0}).save_pretrained(folder)
    saved = load_config(folder)
    changed |= "rope_theta" in saved or saved["rope_parameters"]["rope_theta"] != 500000.0
    try:
        seen = logits(saved)
    except TypeError as fault:
        print(f"{name:<10} refused: {fault}")
        changed |= name not in refused or "rope_theta" not in str(fault)
        continue
    wanted = logits({**saved, "rope_theta": 500000.0})
    off = float(np.linalg.norm(seen - wanted) / np.linalg.norm(wanted))
    print(f"{name:<10} {off:.0%} off")
    changed |= off < 0.02 if name in ignored else name in refused or off > 1e-5
sys.exit("CHANGED" if changed else 0)
END
"$dir/venv/bin/python" "$dir/a.py" "$dir" 2>"$dir/errors" || { tail -n 5 "$dir/errors"; echo CHANGED; exit 1; }
