#!/bin/sh
# transformers 5.24.0 (torch 2.15.0): the position of each patch of a whole picture in Idefics 2, Idefics 3 and SmolVLM.
# Guess: of a picture with as many patches to a side as the tower has positions, patch i has position i.
# Seen: positions are bucketed by fractions in float32, and with 25 patches to a side 10 of 25 columns have the position of their left
# neighbour, with 55 patches 22, with 61 patches 34, without a word. 26, 27, 32 and 64, as published models have them, are right. In Idefics 2
# (70 positions to a side) pictures of 25, 49, 50 and 55 patches to a side have 4 to 6 wrong columns.
# Takes a download of about 3 GB: torch.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet transformers==5.24.0 torch==2.15.0
cat >"$dir/a.py" <<'END'
import torch
import transformers
from transformers.models.idefics2.configuration_idefics2 import Idefics2VisionConfig
from transformers.models.idefics2.modeling_idefics2 import Idefics2VisionEmbeddings
from transformers.models.idefics3.configuration_idefics3 import Idefics3VisionConfig
from transformers.models.idefics3.modeling_idefics3 import Idefics3VisionEmbeddings
from transformers.models.smolvlm.configuration_smolvlm import SmolVLMVisionConfig
from transformers.models.smolvlm.modeling_smolvlm import SmolVLMVisionEmbeddings

print("transformers", transformers.__version__, "torch", torch.__version__)
asked = {"Idefics2": (Idefics2VisionConfig, Idefics2VisionEmbeddings), "Idefics3": (Idefics3VisionConfig, Idefics3VisionEmbeddings),
         "SmolVLM": (SmolVLMVisionConfig, SmolVLMVisionEmbeddings)}
changed = False
for name, (config, embeddings) in asked.items():
    wrong = {}
    for n in range(2, 65):  # patches to a side of a whole picture
        layer = embeddings(config(image_size=4 * n, patch_size=4, hidden_size=8, num_attention_heads=1, intermediate_size=8, num_hidden_layers=1))
        seen = []
        layer.position_embedding.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
        with torch.no_grad():
            layer(torch.zeros(1, 3, 4 * n, 4 * n), patch_attention_mask=torch.ones(1, n, n, dtype=torch.bool))
        column = seen[0].reshape(n, n)[0] % n
        if bad := int((column != torch.arange(n)).sum()):
            wrong[n] = bad
    print(f"{name}: columns with the position of a neighbour, by patches to a side: {wrong}")
    changed |= wrong.get(25) != 10 or any(n in wrong for n in (26, 27, 32, 64))
raise SystemExit("CHANGED" if changed else 0)
END
"$dir/venv/bin/python" "$dir/a.py" 2>"$dir/errors" || { tail -n 5 "$dir/errors"; echo CHANGED; exit 1; }
