#!/bin/sh
# transformers 5.24.0 (torch 2.15.0): a tiny random Falcon model with alibi=True, float32.
# Guess: attn_implementation "sdpa" and "eager" agree to rounding; the bias is exact to float32; set_attn_implementation sets it or raises.
# Seen: without alibi they agree. With it "eager" adds the bias twice, and the logits are 7 % off. The bias is computed in bfloat16 whatever
# the type of the model is: behind place 256 several places next to each other have one bias. set_attn_implementation("eager") leaves
# "sdpa" where it was, with no more than a line in the log, so that a comparison by it compares "sdpa" with itself.
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
from transformers import AutoModelForCausalLM, FalconConfig
from transformers.models.falcon.modeling_falcon import build_alibi_tensor

print("transformers", transformers.__version__)
torch.set_num_threads(1)
ids = torch.randint(3, 97, (1, 100), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def falcon(kind, alibi, switch=None):
    torch.manual_seed(1)
    config = FalconConfig(vocab_size=97, hidden_size=64, num_hidden_layers=3, num_attention_heads=4, alibi=alibi)
    model = AutoModelForCausalLM.from_config(config, attn_implementation=kind).eval()
    if switch:
        model.set_attn_implementation(switch)
    return model(ids).logits[0, -1], model.config._attn_implementation


changed = False
for alibi in (False, True):
    sdpa, eager = falcon("sdpa", alibi)[0], falcon("eager", alibi)[0]
    off = float((sdpa - eager).norm() / sdpa.norm())
    print(f"alibi={alibi}: eager is {off:.1g} off sdpa")
    changed |= off < 0.03 if alibi else off > 1e-5
switched, kind = falcon("sdpa", True, "eager")
print(f"set_attn_implementation('eager'): {kind}, {'same' if torch.equal(switched, sdpa) else 'other'} bits as sdpa")
changed |= kind != "sdpa" or not torch.equal(switched, sdpa)
bias = build_alibi_tensor(torch.ones(1, 520, dtype=torch.long), 4, torch.float32)[0, 0].tolist()
print("bias of places 255 to 262:", *bias[255:263])
changed |= bias[255:263] != [63.75, 64.0, 64.0, 64.5, 65.0, 65.0, 65.0, 65.5]
sys.exit("CHANGED" if changed else 0)
END
"$dir/venv/bin/python" "$dir/a.py" 2>"$dir/errors" || { tail -n 5 "$dir/errors"; echo CHANGED; exit 1; }
