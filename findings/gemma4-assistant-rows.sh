#!/bin/sh
# transformers 5.24.0 (torch 2.15.0): generate(assistant_model=...) of Gemma 4 with its assistant, which reads the model's keys and values.
# Guess: for a draft behind n tokens the assistant is shown the n - 1 rows that the model has computed of these, in local layers those
# in the window.
# Seen: n rows, the last of which is that of a token that was drafted and rejected; local layers, behind their window, have all rows of
# rejected tokens: 19 in place of 15. Answers stay right, as the model verifies them, and drafts are worse than they need be, without a word.
# Takes a download of about 3 GB: torch.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet transformers==5.24.0 torch==2.15.0
cat >"$dir/a.py" <<'END'
import torch
import transformers
from transformers import Gemma4AssistantConfig, Gemma4AssistantForCausalLM, Gemma4ForCausalLM, Gemma4TextConfig

print("transformers", transformers.__version__)
rope = {"full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}
both = dict(vocab_size=256, num_attention_heads=4, num_key_value_heads=2, head_dim=16, global_head_dim=32, num_global_key_value_heads=1,
            attention_k_eq_v=True, sliding_window=16, max_position_embeddings=512, rope_parameters=rope, enable_moe_block=False,
            use_double_wide_mlp=False, bos_token_id=2, eos_token_id=1, pad_token_id=0, num_hidden_layers=4)
torch.manual_seed(1)
target = Gemma4ForCausalLM(Gemma4TextConfig(**both, hidden_size=64, intermediate_size=128, vocab_size_per_layer_input=256,
                                            hidden_size_per_layer_input=16, num_kv_shared_layers=0,
                                            layer_types=["sliding_attention", "full_attention"] * 2)).eval()
small = Gemma4TextConfig(**both, hidden_size=32, intermediate_size=64, vocab_size_per_layer_input=0, hidden_size_per_layer_input=0,
                         num_kv_shared_layers=4, layer_types=["sliding_attention"] * 3 + ["full_attention"])
assistant = Gemma4AssistantForCausalLM(Gemma4AssistantConfig(text_config=small, backbone_hidden_size=64)).eval()
assistant.generation_config.num_assistant_tokens = 3
assistant.generation_config.num_assistant_tokens_schedule = "constant"
seen, forward = {}, assistant.forward


def spy(**k):
    shared = k["shared_kv_states"]
    tokens = int(k["position_ids"]) + 1
    seen.setdefault(tokens, (shared["full_attention"][0].shape[2], shared["sliding_attention"][0].shape[2]))
    return forward(**k)


assistant.forward = spy
ids = torch.randint(4, 256, (1, 9), generator=torch.Generator().manual_seed(1))
target.generate(ids, assistant_model=assistant, max_new_tokens=20, do_sample=False)
more = 0
for tokens, (full, local) in seen.items():
    print(f"text of {tokens:2} tokens, keys and values of {tokens - 1} computed: the assistant is shown {full} in full layers, {local} in local ones")
    more += full > tokens - 1
changed = more < len(seen) - 1
raise SystemExit("CHANGED" if changed else 0)
END
"$dir/venv/bin/python" "$dir/a.py" 2>"$dir/errors" || { tail -n 5 "$dir/errors"; echo CHANGED; exit 1; }
