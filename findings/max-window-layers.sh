#!/bin/sh
# transformers 5.24.0, configurations of 4 layers with a sliding window of 32 tokens, use_sliding_window, max_window_layers 2.
# Guess: the key means in every class what Qwen2's documentation says: the layers from the second on have the window.
# Seen: so it is in qwen2, qwen3, qwen2_vl, qwen2_5_vl and dots1. In qwen2_moe it is the other way round, and only every
# second layer counts: of the layers before it the first, third, ... have the window. In qwen3_moe and smollm3 the key
# is there, and nothing reads it: qwen3_moe has no kinds of layers at all.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet transformers==5.24.0
cat >"$dir/a.py" <<'END'
import sys
import transformers
from transformers import AutoConfig

print("transformers", transformers.__version__)

early, late = "window full full full", "full full window window"
wanted = {"qwen2": late, "qwen3": late, "qwen2_vl": late, "qwen2_5_vl": late, "dots1": late, "qwen2_moe": early,
          "qwen3_moe": "no kinds of layers", "smollm3": "full full full window"}
changed = False
for name, want in wanted.items():
    config = AutoConfig.for_model(name, num_hidden_layers=4, sliding_window=32, use_sliding_window=True,
                                  max_window_layers=2).get_text_config()
    kinds = getattr(config, "layer_types", None)
    seen = "no kinds of layers" if kinds is None else " ".join(
        {"sliding_attention": "window", "full_attention": "full"}[kind] for kind in kinds)
    print(f"{name:<12} {seen}")
    changed |= seen != want
sys.exit("CHANGED" if changed else 0)
END
"$dir/venv/bin/python" "$dir/a.py" 2>/dev/null || { echo CHANGED; exit 1; }
