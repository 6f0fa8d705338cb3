#!/usr/bin/env python3
"""Every family that Kvasir names, from a random model to logits: transformers, the folder, the converter's GGUF file.

usage: wheel.py KVASIR CONVERTER OUT [--table FILE] [NAME ...]

A tiny model of random weights with its switches on (models.py) is made by transformers, whose float32 logits of 150 random
tokens and of the 16 that follow greedily are the truth. Kvasir computes the same from the folder and from the GGUF file
that llama.cpp's converter (CONVERTER: vendor/llama.cpp of the source package llama-cpp-python) makes of it, with
`--exact --kv f32`. OUT/NAME keeps folder, file and truth; what is there is used again. --table writes the Markdown page.
Needs torch, transformers and gguf.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import zlib

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
TOKENS, GREEDY, BAR = 150, 16, 1e-4


def truth_of(name, settings, place):
    """Writes place/folder, place/logits.f32 and place/tokens.json."""
    import torch
    from models import PREFIX, build, randomise
    from remote import REMOTE, publish
    generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
    model = build(name, settings)
    randomise(model, generator)
    model.save_pretrained(place + "/folder")
    if (kind := name.split("+")[0]) in REMOTE:
        publish(kind, place + "/folder")
    config = model.config.get_text_config()
    vocab = getattr(config, "unpadded_vocab_size", config.vocab_size)
    ids = torch.randint(3, vocab, (TOKENS,), generator=generator).tolist()
    def computed():
        marks = {"token_type_ids": torch.tensor([[int(i < PREFIX[name]) for i in range(len(ids))]])} if name in PREFIX else {}
        return model(torch.tensor([ids]), use_cache=False, **marks).logits[0]

    with torch.no_grad():
        for _ in range(GREEDY):
            ids.append(int(computed()[-1].argmax()))
        logits = computed().float().numpy()
    logits.tofile(place + "/logits.f32")
    with open(place + "/tokens.json", "w", encoding="utf-8") as file:
        json.dump({"tokens": ids}, file)


def last_words(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].strip()[:200] if lines else "no word"


def compare(kvasir, model, place):
    """(kind, relative error, first greedy token that differs or -1, what was said)."""
    from models import PREFIX
    out, prefix = place + "/got.f32", PREFIX.get(os.path.basename(place), 0)
    run = subprocess.run([kvasir, "logits", "-m", model, "--exact", "--kv", "f32", "--threads", "2", "--tokens-file",
                          place + "/tokens.json", "--out", out, *(["--prefix-tokens", str(prefix)] if prefix else [])], capture_output=True, text=True)
    if run.returncode != 0:  # also where there is no such program: then files are made, and no more
        return {"kind": "refused", "word": last_words(run.stderr).replace(place + "/", "")}
    want = np.fromfile(place + "/logits.f32", dtype=np.float32)
    got = np.fromfile(out, dtype=np.float32)
    os.remove(out)
    with open(place + "/tokens.json", encoding="utf-8") as file:
        ids = json.load(file)["tokens"]
    want, got = want.reshape(len(ids), -1), got.reshape(len(ids), -1)
    error = float(np.linalg.norm(got - want) / np.linalg.norm(want))
    greedy = [int(got[i - 1].argmax()) == ids[i] for i in range(TOKENS, TOKENS + GREEDY)]
    word = last_words(run.stderr) if "warning" in run.stderr else ""
    right = error <= BAR and all(greedy)
    return {"kind": "ok" if right else "WRONG", "error": error, "greedy": sum(greedy), "word": word}


def turn_experts(file):
    """Published folders have the matrices (inputs, outputs), which transformers 5 turns when it saves them."""
    from safetensors.torch import load_file, save_file
    tensors = {name: t.transpose(1, 2).contiguous() if ".experts." in name and t.ndim == 3 else t for name, t in load_file(file).items()}
    save_file(tensors, file, {"format": "pt"})


def convert(converter, place):
    """What the converter said last where it makes no file."""
    file = place + "/model.gguf"
    if os.path.exists(file):
        return None
    if os.path.exists(place + "/unconverted"):
        with open(place + "/unconverted", encoding="utf-8") as said:
            return said.read()
    from convert import convert_aside
    from models import ARGUMENTS, publish_names, published_of
    name = os.path.basename(place)
    kind = name.split("+")[0]
    published = published_of(name)
    copy = place + "/published"  # the folder with what published configurations have besides, and a vocabulary
    shutil.copytree(place + "/folder", copy, dirs_exist_ok=True)
    with open(copy + "/config.json", encoding="utf-8") as text:
        config = json.load(text)
    with open(copy + "/config.json", "w", encoding="utf-8") as text:
        json.dump({**config, **published}, text)
    publish_names(name, copy + "/model.safetensors")
    if kind == "qwen3_vl_moe":
        turn_experts(copy + "/model.safetensors")
    with open(copy + "/tokenizer.json", "w", encoding="utf-8") as text:
        words = config.get("text_config", config).get("vocab_size", 0)  # embeddings are cut to that many
        json.dump({"model": {"vocab": {f"word {i}": i for i in range(words)}}, "added_tokens": []}, text)
    said = convert_aside(converter, copy, file, ["--outtype", "f32", *ARGUMENTS.get(kind, [])])
    shutil.rmtree(copy)
    if said is None and os.path.exists(file):
        return None
    if os.path.exists(file):
        os.remove(file)
    words = last_words((said or "").replace(place + "/", ""))
    with open(place + "/unconverted", "w", encoding="utf-8") as out:
        out.write(words)
    return words


def shown(result):
    if result is None:
        return "-"
    if result["kind"] == "refused":
        return "refused"
    mark = {"WRONG": "**WRONG** ", "lacks": "not told "}.get(result["kind"], "")
    return f"{mark}{result['error']:.0e}, {result['greedy']} of {GREEDY}"


def write_table(rows, path):
    import transformers
    ok = sum(r["folder"]["kind"] == "ok" for r in rows), sum((r["gguf"] or {}).get("kind") == "ok" for r in rows)
    made = sum(r["gguf"] is not None for r in rows)
    lacks = sum((r["gguf"] or {}).get("kind") == "lacks" for r in rows)
    wrong = sum(x is not None and x["kind"] == "WRONG" for r in rows for x in (r["folder"], r["gguf"]))
    with open(path, "w", encoding="utf-8") as out:
        out.write(f"""# Families: transformers beside Kvasir

Written by `tools/families/wheel.py` with transformers {transformers.__version__} and the converter of llama-cpp-python 0.3.36. Each model is tiny, with
random weights and its switches on (`tools/families/models.py`). A cell has the relative error (L2) of the logits of {TOKENS + GREEDY} tokens,
computed with `--exact --kv f32`, beside transformers' in float32, and how many of {GREEDY} greedy tokens are the same. At most
{BAR:g} and all {GREEDY} are right. `-`: the converter does not take the folder. Not told: the file lacks what it would need (`LACKS`
in `models.py`).

{len(rows)} models: {ok[0]} folders right; of {made} GGUF files {ok[1]} right, {lacks} not told; {wrong} wrong.

| model | folder | GGUF |
|---|---|---|
""")
        for r in rows:
            out.write(f"| `{r['name']}` | {shown(r['folder'])} | {shown(r['gguf'])} |\n")
        out.write("\n## What is said\n\n")
        for r in rows:
            for side, what in (("folder", r["folder"]), ("GGUF", r["gguf"])):
                if what and what["word"]:
                    word = re.split(", expected one of|, supported are", what["word"])[0]
                    out.write(f"* `{r['name']}`, {side}: {word[:170]}\n")
            if r["converter"]:
                out.write(f"* `{r['name']}`, converter: {r['converter'][:170]}\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kvasir")
    parser.add_argument("converter")
    parser.add_argument("out")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--table")
    args = parser.parse_args()
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import transformers
    from models import LACKS, MODELS
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    import convert as converting
    converting.load(args.converter)
    rows = []
    for name, settings in MODELS.items():
        if args.names and name not in args.names:
            continue
        place = os.path.join(args.out, name)
        os.makedirs(place, exist_ok=True)
        try:
            if not os.path.exists(place + "/tokens.json"):
                truth_of(name, settings, place)
        except Exception as e:  # another version of transformers: said, and the others go on
            print(f"{name:28} no truth: {type(e).__name__} {str(e)[:200]}", flush=True)
            continue
        row = {"name": name, "folder": compare(args.kvasir, place + "/folder", place), "gguf": None}
        row["converter"] = convert(args.converter, place)
        if row["converter"] is None:
            row["gguf"] = compare(args.kvasir, place + "/model.gguf", place)
            if row["gguf"]["kind"] == "WRONG" and name in LACKS:
                row["gguf"].update(kind="lacks", word="the file lacks " + LACKS[name])
        rows.append(row)
        words = "; ".join(x["word"] for x in (row["folder"], row["gguf"]) if x and x["word"])
        print(f"{name:28} folder {shown(row['folder']):28} GGUF {shown(row['gguf']):28} "
              f"{words or (row['converter'] or '')}", flush=True)
    if args.table:
        write_table(rows, args.table)
    sys.exit(any(x is not None and x["kind"] == "WRONG" for r in rows for x in (r["folder"], r["gguf"])))


if __name__ == "__main__":
    main()
