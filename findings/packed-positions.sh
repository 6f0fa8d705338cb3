#!/bin/sh
# transformers 5.24.0 (torch 2.15.0), tiny random models: two texts of 10 tokens in one row, told apart by position_ids 0 to 9, 0 to 9.
# Guess: whether the model gives a cache back does not change the logits of a call.
# Seen: with use_cache=False the second text has the logits that it has alone, as packed texts are meant to. With the default, use_cache
# on, it sees the first text, without a word: the logits are off by 45 to 120 % (norm).
# Takes a download of about 3 GB: torch.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet transformers==5.24.0 torch==2.15.0
cat >"$dir/a.py" <<'END'
import sys

import torch
import transformers
from transformers import AutoConfig, AutoModelForCausalLM

print("transformers", transformers.__version__)
torch.set_num_threads(1)
ids = torch.randint(3, 97, (1, 20), generator=torch.Generator().manual_seed(1))
places = torch.arange(10).repeat(2)[None]
changed = False
for name in ("llama", "qwen3", "olmo2", "gpt_neox"):
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(
        name, vocab_size=97, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=4,
        intermediate_size=96, pad_token_id=0)).eval()
    with torch.no_grad():
        alone = model(ids[:, 10:]).logits
        default, off = (float((model(ids, position_ids=places, **more).logits[:, 10:] - alone).norm() / alone.norm())
                        for more in ({}, dict(use_cache=False)))
    print(f"{name:<9} off by {default:.2g}, with use_cache=False by {off:.1g}")
    changed |= default < 0.05 or off > 1e-5
sys.exit("CHANGED" if changed else 0)
END
"$dir/venv/bin/python" "$dir/a.py" 2>"$dir/errors" || { tail -n 5 "$dir/errors"; echo CHANGED; exit 1; }
