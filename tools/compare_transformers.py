#!/usr/bin/env python3
"""Compares kvasir with transformers on a model in a folder: token ids of texts, and logits in float32.

usage: compare_transformers.py KVASIR FOLDER TEXT-FILE [GGUF]

With GGUF the folder is written first, by transformers from that file. Needs torch, transformers, gguf and numpy.
"""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

TOKENS = 300
ODD = ["Hello world 123, ça va?\n\n\tint main() { return 0x1F; }  \U0001f600 naïve co-operate", "   leading", "a\r\n b"]


def write_folder(gguf, folder):
    place, file = os.path.split(os.path.abspath(gguf))
    read = AutoModelForCausalLM.from_pretrained(place, gguf_file=file, dtype=torch.float32)
    read.config.__dict__.pop("quantization_config", None)  # it would not be written
    model = type(read)(read.config)
    model.load_state_dict(read.state_dict())
    model.tie_weights()
    model.to(torch.float16).save_pretrained(folder)
    AutoTokenizer.from_pretrained(place, gguf_file=file).save_pretrained(folder)


def ids_of(kvasir, folder, text):
    out = subprocess.run([kvasir, "tokenize", "-m", folder, "-p", text, "--special", "--json"], check=True,
                         capture_output=True, text=True).stdout
    found = json.loads(out)
    return (found[0] if isinstance(found, list) else found)["ids"]


def logits_of(kvasir, folder, ids):
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run([kvasir, "logits", "-m", folder, "--exact", "--tokens", ",".join(map(str, ids)), "--out", file.name],
                       check=True, stdout=subprocess.DEVNULL)
        return np.fromfile(file.name, dtype=np.float32).reshape(len(ids), -1)


def main():
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    kvasir, folder, text_file = sys.argv[1:4]
    if len(sys.argv) == 5:
        write_folder(sys.argv[4], folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with open(text_file, encoding="utf-8") as file:
        text = file.read(5200)[2000:]
    equal = 0
    for one in [text, *ODD]:
        want, got = tokenizer(one, add_special_tokens=False)["input_ids"], ids_of(kvasir, folder, one)
        if got[:1] == [tokenizer.bos_token_id] and want[:1] != got[:1]:
            got = got[1:]  # the engine adds it by itself
        equal += want == got
    ids = tokenizer(text)["input_ids"][:TOKENS]
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        want = model(torch.tensor([ids])).logits[0].numpy()
    got = logits_of(kvasir, folder, ids)
    error = np.linalg.norm(got - want) / np.linalg.norm(want)
    same = (got.argmax(1) == want.argmax(1)).mean()
    print(f"texts with equal ids {equal} of {1 + len(ODD)}; logits of {len(ids)} tokens: relative L2 {error:.2e}, same first {same:.1%}")
    sys.exit(0 if equal == 1 + len(ODD) and error < 1e-3 else 1)


main()
