#!/bin/bash
# transformers 5.24.0: a folder with a tokenizer.json (byte-level BPE, up to three digits a piece, tokens 12 and 123), a
# tokenizer_config.json of the class PreTrainedTokenizerFast, which has no steps of its own, and a config.json.
# Guess: AutoTokenizer splits as tokenizer.json says, whatever model the tokens are for.
# Seen: so it is without config.json, and with model_type llama. With qwen2 it takes its class Qwen2Tokenizer, which builds the steps by
# itself: vocabulary and merges of the file are used, its pattern is not, and digits come one by one. Nothing is said. What is saved again
# has the other pattern in its tokenizer.json.
# Takes a minute of processor time, and a download of 60 MB.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet transformers==5.24.0
venv/bin/pip list --format=freeze | grep -iE '^(transformers|tokenizers)=='  # the version of each
cat >a.py <<'END'
import io
import json
import logging
import os
import sys

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoTokenizer

said = io.StringIO()
logging.getLogger("transformers").addHandler(logging.StreamHandler(said))
vocabulary = {letter: i for i, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
vocabulary.update({"12": len(vocabulary), "123": len(vocabulary) + 1})
own = Tokenizer(models.BPE(vocab=vocabulary, merges=[("1", "2"), ("12", "3")]))
own.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(r"\p{N}{1,3}|[^\p{N}]+"), "isolated"),
                                             pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
own.decoder = decoders.ByteLevel()
changed = own.encode("a123").tokens != ["a", "123"]
for kind in (None, "llama", "qwen2"):
    folder = f"{kind}"
    os.makedirs(folder)
    own.save(folder + "/tokenizer.json")
    settings = {"tokenizer_config": {"tokenizer_class": "PreTrainedTokenizerFast"}, **({"config": {"model_type": kind}} if kind else {})}
    for name, setting in settings.items():
        with open(f"{folder}/{name}.json", "w", encoding="utf-8") as file:
            json.dump(setting, file)
    loaded = AutoTokenizer.from_pretrained(folder)
    loaded.save_pretrained(folder + "/again")
    again = Tokenizer.from_file(folder + "/again/tokenizer.json").encode("a123", add_special_tokens=False).tokens
    print(f"model_type {kind}: {type(loaded).__name__} {loaded.tokenize('a123')}, saved again {again}")
    wanted = ["a", "1", "2", "3"] if kind == "qwen2" else ["a", "123"]
    changed |= loaded.tokenize("a123") != wanted or again != wanted
print("said:", said.getvalue() or "nothing")
sys.exit("CHANGED" if changed or said.getvalue() else 0)
END
venv/bin/python a.py 2>errors || { tail -n 5 errors; echo CHANGED; exit 1; }
