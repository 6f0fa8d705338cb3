#!/bin/sh
# transformers 5.24.0 (torch 2.15.0): 8 tokens behind 20 by generate() of tiny random models, with a DynamicCache handed over.
# Guess: the tokens are those without a cache, and the cache holds one place for each token but the last: 27.
# Seen: so it is where the configuration has use_cache=True. Where it is False, as it is by default in MptConfig, generate() hands all
# tokens over at each step, and the layers put them behind those in the cache: it holds 188 places in the end, without a word, and MPT and
# Llama say other tokens. use_cache=True in the call mends it.
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
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache

print("transformers", transformers.__version__)
torch.set_num_threads(1)
ids = torch.randint(3, 97, (1, 20), generator=torch.Generator().manual_seed(1))
usual = dict(attention_mask=torch.ones_like(ids), do_sample=False, pad_token_id=0, eos_token_id=None, max_new_tokens=8)
shapes = {"mpt": dict(d_model=64, n_heads=4, n_layers=3, max_seq_len=512),
          "falcon": dict(hidden_size=64, num_attention_heads=4, num_hidden_layers=3),
          "llama": dict(hidden_size=64, num_attention_heads=4, num_hidden_layers=3, intermediate_size=96)}
changed = False
for name, settings in (("mpt", {}), ("falcon", {}), ("falcon", dict(use_cache=False)), ("llama", {}), ("llama", dict(use_cache=False))):
    torch.manual_seed(1)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(name, vocab_size=97, **shapes[name], **settings)).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.normal_(0, 0.12)
    without = model.generate(ids, **usual)[0, 20:].tolist()
    for more in ({}, dict(use_cache=True)):
        cache = DynamicCache(config=model.config)
        tokens = model.generate(ids, cache=cache, **usual, **more)[0, 20:].tolist()
        places = cache.get_seq_length()
        print(f"{name:<6} configuration {model.config.use_cache!s:<5} call {more.get('use_cache', '-')!s:<4} "
              f"{'same' if tokens == without else 'other'} tokens, {places} places")
        changed |= places != (27 if model.config.use_cache or more else 188)
        changed |= name != "falcon" and (tokens == without) != bool(model.config.use_cache or more)
sys.exit("CHANGED" if changed else 0)
END
"$dir/venv/bin/python" "$dir/a.py" 2>"$dir/errors" || { tail -n 5 "$dir/errors"; echo CHANGED; exit 1; }
