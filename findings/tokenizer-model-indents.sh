#!/bin/bash
# transformers 5.24.0 on the SentencePiece models of Mistral 7B that mistral-common 1.13.1 brings (v1 and v3), beside sentencepiece 0.2.3.
# Guess: LlamaTokenizer, made from a tokenizer.model, splits as SentencePiece does with that file.
# Seen: words one blank apart, yes. An indent is split otherwise: SentencePiece puts the last of its blanks to the word behind them,
# LlamaTokenizer to the others, so that "return" stands without its blank. A blank at the beginning of a text is taken for the one that is
# always put there: " the model" has the tokens of "the model". A file of Python source has 5676 tokens in place of 5710, and all of its 411
# indented lines have other ones. legacy, true or false, does not mend it. Nothing is said.
# Takes half a minute of processor time, and a download of 90 MB.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet transformers==5.24.0 mistral-common==1.13.1 sentencepiece==0.2.3 protobuf==7.36.2
venv/bin/pip list --format=freeze | grep -iE '^(transformers|tokenizers|protobuf|mistral[-_]common|sentencepiece)=='  # the version of each
cat >a.py <<'END'
import json
import os
import shutil
import sys

import mistral_common
from sentencepiece import SentencePieceProcessor
from transformers import AutoTokenizer

place = os.path.dirname(mistral_common.__file__)
with open(place + "/protocol/instruct/messages.py", encoding="utf-8") as file:
    source = file.read()
indented = [line for line in source.splitlines() if line.startswith("    ")]
TEXTS = {"the model reads, then writes.": True, " the model": False, "def f():\n    return 1": False, "if x:\n  return": False}
changed = False
for name in ("tokenizer.model.v1", "mistral_instruct_tokenizer_240323.model.v3"):
    meant = SentencePieceProcessor(model_file=f"{place}/data/{name}")
    for legacy in ({}, {"legacy": True}, {"legacy": False}):
        folder = f"{name}-{legacy.get('legacy', '')}"
        os.makedirs(folder)
        shutil.copy(f"{place}/data/{name}", folder + "/tokenizer.model")
        for file_name, settings in (("config", {"model_type": "llama"}), ("tokenizer_config", {"tokenizer_class": "LlamaTokenizer", **legacy})):
            with open(f"{folder}/{file_name}.json", "w", encoding="utf-8") as file:
                json.dump(settings, file)
        seen = AutoTokenizer.from_pretrained(folder)
        print(name, type(seen).__name__, legacy or "")
        for text, same in TEXTS.items():
            ids, right = seen.encode(text, add_special_tokens=False), meant.encode(text)
            changed |= (ids == right) != same
            if not legacy:
                print(f"    {text!r}: {meant.encode(text, out_type=str)}", "" if ids == right else f"and {seen.convert_ids_to_tokens(ids)}")
        other = sum(seen.encode(line, add_special_tokens=False) != meant.encode(line) for line in indented)
        counts = len(meant.encode(source)), len(seen.encode(source, add_special_tokens=False))
        print(f"    messages.py: {counts[0]} and {counts[1]} tokens; {other} of {len(indented)} indented lines are other ones")
        changed |= counts[0] == counts[1] or other < len(indented) or len(seen) != meant.vocab_size()
sys.exit("CHANGED" if changed else 0)
END
venv/bin/python a.py 2>errors || { tail -n 5 errors; echo CHANGED; exit 1; }
