#!/bin/sh
# transformers 5.24.0 (torch 2.15.0): tiny random MPT models with the same weights, each with one setting of MptConfig changed.
# Guess: settings that the documentation of MptConfig explains change the logits, or are refused.
# Seen: alibi, alibi_bias_max, qk_ln, prefix_lm and attn_type of attn_config, and expansion_ratio, logit_scale and no_bias change no
# bit of them, without a word: positions by ALiBi are there with alibi false, too. clip_qkv, softmax_scale and layer_norm_epsilon count.
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
ids = torch.arange(40)[None]


@torch.no_grad()
def logits(**more):
    config = AutoConfig.for_model("mpt", vocab_size=64, d_model=32, n_heads=4, n_layers=2, max_seq_len=64, **more)
    model = AutoModelForCausalLM.from_config(config).eval()
    generator = torch.Generator().manual_seed(0)
    for weight in model.parameters():
        weight.normal_(0, 0.3, generator=generator)
    return model(ids).logits


plain = logits()
nothing = [dict(attn_config={key: value}) for key, value in dict(alibi=False, alibi_bias_max=2, qk_ln=True, prefix_lm=True,
                                                                 attn_type="multiquery_attention").items()]
nothing += [dict(expansion_ratio=2), dict(logit_scale=0.5), dict(no_bias=False)]
something = [dict(attn_config=dict(clip_qkv=0.5)), dict(attn_config=dict(softmax_scale=0.01)), dict(layer_norm_epsilon=0.1)]
changed = False
for more in nothing + something:
    difference = float((logits(**more) - plain).abs().max())
    print(f"{str(more):<53} {difference:.2g}")
    changed |= (difference == 0) != (more in nothing)
sys.exit("CHANGED" if changed else 0)
END
"$dir/venv/bin/python" "$dir/a.py" 2>"$dir/errors" || { tail -n 5 "$dir/errors"; echo CHANGED; exit 1; }
