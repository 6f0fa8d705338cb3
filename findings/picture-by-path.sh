#!/bin/sh
# transformers 5.24.0 (torch 2.15.0, torchvision 0.29.2, pillow 13.0.0): an image processor on a PNG file, by its path and opened by PIL.
# Guess: the same file gives the same pixels.
# Seen: so it is with colours alone. Of a file with an alpha channel the path drops alpha, so that the colours of transparent places are
# seen, and PIL's picture is laid on white. Of a grey file of 16 bits the path divides by 255 all the same, so that pixels are up to 257
# in place of 1, and PIL's picture is cut at 255: nearly all of it is white. There is no error.
# Takes a download of about 3 GB: torch.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet transformers==5.24.0 torch==2.15.0 torchvision==0.29.2 pillow==13.0.0
cat >"$dir/a.py" <<'END'
import sys

import numpy as np
import torch
import transformers
from PIL import Image
from transformers import Gemma3ImageProcessor, Gemma4UnifiedImageProcessor

print("transformers", transformers.__version__)
torch.set_num_threads(1)
noise = np.random.default_rng(0).integers(0, 256, (96, 96, 4), dtype=np.uint8)
noise[..., 3] = noise[..., 3] // 128 * 255
deep = np.random.default_rng(1).integers(0, 65536, (96, 96), dtype=np.uint16)
pictures = {"colours": noise[..., :3], "alpha": noise, "16 bits": deep}
changed = False
for kind in (Gemma4UnifiedImageProcessor, Gemma3ImageProcessor):
    processor = kind(do_convert_rgb=True, do_normalize=False)
    for name, pixels in pictures.items():
        file = f"{sys.argv[1]}/{name}.png"
        Image.fromarray(pixels).save(file)
        path, pil = (processor(picture, return_tensors="pt")["pixel_values"].float() for picture in (file, Image.open(file)))
        apart, most = float((path - pil).abs().max()), float(path.max())
        print(f"{kind.__name__:<27} {name:<7} means {float(path.mean()):.3f} and {float(pil.mean()):.3f}, at most {apart:.3f} apart")
        changed |= not (apart < 0.01 if name == "colours" else 0.9 < apart < 1.1 if name == "alpha" else 250 < most < 260)
        changed |= float(pil.max()) > 1.01
sys.exit("CHANGED" if changed else 0)
END
"$dir/venv/bin/python" "$dir/a.py" "$dir" 2>"$dir/errors" || { tail -n 5 "$dir/errors"; echo CHANGED; exit 1; }
