#!/usr/bin/env python3
"""Golden folders of picture encoders: those of golden_pictures.py as transformers saves them, for the same rows.

usage: golden_picture_folders.py FOLDER [NAME ...]

FOLDER is tests/golden/vision. Writes FOLDER/folders/NAME with config.json, preprocessor_config.json and in model.safetensors the encoder's
tensors alone, in float16 where that holds them exactly. Beside them altered.json, another preprocessor_config.json, with the sizes that
pictures have then, and altered.rows.f32, their rows.
Needs torch, torchvision, pillow, safetensors and transformers 5.24.
"""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
# What is changed of each kind's settings.
COLOURS = dict(image_mean=[0.48, 0.45, 0.4], image_std=[0.27, 0.26, 0.28])
EDGES = dict(size={"shortest_edge": 2500, "longest_edge": 30000}, **COLOURS)
ALTERED = {"gemma3": COLOURS, "qwen2vl_merger": EDGES, "qwen2_5vl_merger": EDGES, "qwen3vl_merger": EDGES,
           "lfm3": EDGES,
           "idefics3": dict(size={"longest_edge": 203}, max_image_size={"longest_edge": 64}, **COLOURS),
           "gemma4v": dict(max_soft_tokens=70), "gemma4uv": dict(max_soft_tokens=140),
           "lfm2": dict(min_image_tokens=16, max_image_tokens=36, max_pixels_tolerance=1.5, tile_size=256, max_tiles=6, **COLOURS)}
FILES = ["150x151.png", "307x19.png", "1500x500.png"]
ALONE = {"lfm3": "Lfm3"}  # the converter does not know it, so its five pictures' rows, FOLDER/NAME.rows.f32, are written here


def write_pictures(encoder, place, files, out):
    import golden_pictures
    import torch
    from PIL import Image
    listed, rows = [], b""
    with torch.no_grad():
        for file in files:
            parts, values, _ = encoder.rows(Image.open(f"{out}/pictures/{file}"))
            parts = [dict(width=p.shape[1], height=p.shape[0], pixels=golden_pictures.fnv(p.tobytes()), grid=grid) for p, grid in parts]
            listed.append(dict(file=file, parts=parts, rows=list(values.shape), deep=0))
            rows += values.contiguous().numpy().astype("<f4").tobytes()
    with open(place + ".json", "w", encoding="utf-8") as file:
        json.dump({"pictures": listed}, file, indent=1)
        file.write("\n")
    with open(place + ".rows.f32", "wb") as file:
        file.write(rows)


def write(name, out):
    import golden_pictures
    import torch
    from PIL import Image
    from safetensors.torch import load_file, save_file
    torch.manual_seed(1)
    encoder = getattr(golden_pictures, ALONE[name])() if name in ALONE else golden_pictures.ENCODERS[name]()
    encoder.model.eval().float()
    golden_pictures.shake(encoder.model, 7)
    place = f"{out}/folders/{name}"
    encoder.model.save_pretrained(place)
    encoder.processor.save_pretrained(place)
    parts = ("vision", "visual", "multi_modal", "embed_audio", "connector")
    tensors = {key: t for key, t in load_file(place + "/model.safetensors").items() if any(part in key for part in parts)}
    small = {key: t.half() if torch.equal(t, t.half().float()) else t for key, t in tensors.items()}
    save_file(small, place + "/model.safetensors", {"format": "pt"})
    if os.path.exists(place + "/generation_config.json"):
        os.remove(place + "/generation_config.json")
    if name in ALONE:
        write_pictures(encoder, f"{out}/{name}", [f"{w}x{h}.png" for w, h in golden_pictures.SIZES], out)
    with open(place + "/preprocessor_config.json", encoding="utf-8") as file:
        settings = {**json.load(file), **ALTERED[name]}
    encoder.processor = type(encoder.processor).from_dict(settings)
    listed, rows = [], b""
    with torch.no_grad():
        for file in FILES:
            pieces, values, _ = encoder.rows(Image.open(f"{out}/pictures/{file}"))
            listed.append(dict(file=file, parts=[[p.shape[1], p.shape[0]] for p, _ in pieces], rows=list(values.shape)))
            rows += values.contiguous().numpy().astype("<f4").tobytes()
    with open(place + "/altered.json", "w", encoding="utf-8") as file:
        json.dump(dict(preprocessor=settings, pictures=listed), file, indent=1)
        file.write("\n")
    with open(place + "/altered.rows.f32", "wb") as file:
        file.write(rows)
    print(name, os.path.getsize(place + "/model.safetensors"), listed)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for name in sys.argv[2:] or ALTERED:
        write(name, sys.argv[1])


if __name__ == "__main__":
    main()
