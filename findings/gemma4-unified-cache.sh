#!/bin/sh
# transformers 5.24.0 (torch 2.15.0, torchvision 0.29.2) with a picture in the prompt of Gemma 4 and of Gemma 4 Unified: tiny random models.
# Guess: which cache generate() uses does not change the logits of the first new token.
# Seen: so it is for gemma4. For gemma4_unified the static cache's are 45 % from the default one's, without a word: with the static cache the
# rows of a picture see each other in layers with a window alone, as the docstring of its masks says; with the default cache, and in a direct
# call, they do so in all layers.
# Takes a download of about 3 GB: torch.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet transformers==5.24.0 torch==2.15.0 pillow==13.0.0
"$dir/venv/bin/pip" install --quiet --no-deps torchvision==0.29.2
cat >"$dir/a.py" <<'END'
import sys

import torch
import transformers
from transformers import Gemma4Config, Gemma4ForConditionalGeneration, Gemma4UnifiedConfig, Gemma4UnifiedForConditionalGeneration
from transformers.models.gemma4.image_processing_gemma4 import Gemma4ImageProcessor
from transformers.models.gemma4_unified.image_processing_gemma4_unified import Gemma4UnifiedImageProcessor

torch.set_num_threads(1)
torch.manual_seed(1)
PICTURE = 60
text = dict(vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
            global_head_dim=16, max_position_embeddings=512, pad_token_id=0, bos_token_id=1, eos_token_id=2, sliding_window=512,
            layer_types=["sliding_attention", "full_attention"] * 2, use_bidirectional_attention="vision", hidden_size_per_layer_input=0)
tower = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2, head_dim=16, patch_size=4,
             position_embedding_size=64)
patches = dict(patch_size=2, pooling_kernel_size=3, mm_embed_dim=32, mm_posemb_size=80, output_proj_dims=32)
models = {
    "gemma4": (Gemma4ForConditionalGeneration(Gemma4Config(text_config=text, vision_config=tower, audio_config=None, image_token_id=PICTURE)),
               Gemma4ImageProcessor(patch_size=4)),
    "gemma4_unified": (Gemma4UnifiedForConditionalGeneration(Gemma4UnifiedConfig(
        text_config=text, vision_config=patches, audio_config=dict(audio_embed_dim=64, output_proj_dims=64), image_token_id=PICTURE)),
        Gemma4UnifiedImageProcessor(patch_size=2))}
print("transformers", transformers.__version__)
changed = False
for name, (model, processor) in models.items():
    x = processor(torch.randint(0, 256, (3, 24, 18), dtype=torch.uint8), return_tensors="pt")
    ids = torch.tensor([[1, 5, 6] + [PICTURE] * int(x.num_soft_tokens_per_image[0]) + [7, 8, 9]])
    given = dict(input_ids=ids, pixel_values=x.pixel_values, image_position_ids=x.image_position_ids, mm_token_type_ids=(ids == PICTURE).int())
    with torch.no_grad():
        called = model.eval()(**given).logits[0, -1]
    apart = {}
    for cache in ["dynamic", "static"]:
        out = model.generate(**given, max_new_tokens=2, do_sample=False, output_logits=True, return_dict_in_generate=True,
                             cache_implementation=None if cache == "dynamic" else cache, disable_compile=True)
        apart[cache] = float((out.logits[0][0] - called).norm() / called.norm())
    print(name, ", ".join(f"{cache} cache {error:.1e}" for cache, error in apart.items()), "from a call's logits")
    changed |= apart["dynamic"] > 1e-5 or (apart["static"] > 0.1) != (name == "gemma4_unified")
sys.exit("CHANGED" if changed else 0)
END
"$dir/venv/bin/python" "$dir/a.py" 2>"$dir/errors" || { tail -n 5 "$dir/errors"; echo CHANGED; exit 1; }
