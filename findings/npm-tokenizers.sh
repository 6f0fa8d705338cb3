#!/bin/bash
# @huggingface/tokenizers 0.2.0 of npm (seen with Node 20) beside tokenizers 0.23.3 of PyPI, on the same tokenizer.json: a BPE model of a
# few letters, with one step or token at a time.
# Guess: the same file gives the same tokens, or is refused where a step is not known.
# Seen: where Split joins what it found to its neighbours (merged_with_previous, merged_with_next, contiguous), npm cuts it out alone; the
# words of Whitespace are of ASCII letters, so that "naïve" becomes three; a token with single_word is found within words; and Metaspace
# that puts no space in front takes one away when it decodes. Nothing is raised.
# Takes seconds, and a download of 20 MB.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet tokenizers==0.23.3
npm install --silent --no-audit --no-fund --prefix . @huggingface/tokenizers@0.2.0
venv/bin/pip list --format=freeze | grep -iE '^(tokenizers)=='  # the version of each
npm ls --prefix . @huggingface/tokenizers
cat >a.mjs <<'END'
import {Tokenizer} from "@huggingface/tokenizers";
import {readFileSync} from "node:fs";
const tokenizer = new Tokenizer(JSON.parse(readFileSync(0)), {});
const {ids, tokens} = tokenizer.encode(process.argv[2]);
console.log(JSON.stringify([tokens, tokenizer.decode(ids)]));
END
cat >a.py <<'END'
import json
import subprocess
import sys

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

Split = pre_tokenizers.Split
merges = [("n", "a"), ("v", "e"), ("na", "ï"), ("naï", "ve"), ("a", " "), (" ", "b"), (".", "."), ("..", "."), ("▁", "a")]
letters = sorted({*"".join(map("".join, merges)), *"<s>"})
vocabulary = {token: i for i, token in enumerate([*letters, *map("".join, merges)])}
word = AddedToken("<s>", single_word=True, normalized=False)
cases = [("isolated", Split(" ", "isolated"), "a b", "a| |b"),
         ("merged_with_previous", Split(" ", "merged_with_previous"), "a b", "a| |b"),
         ("merged_with_next", Split(" ", "merged_with_next"), "a b", "a| |b"),
         ("contiguous", Split(".", "contiguous"), "a...", "a|.|.|."), ("Whitespace", pre_tokenizers.Whitespace(), "naïve", "na|ï|ve"),
         ("single_word", Split(" ", "isolated"), "a<s>b", "a|<s>|b"),
         ("decode", pre_tokenizers.Metaspace(prepend_scheme="never"), " a", "▁a")]
changed = False
for name, step, text, wanted in cases:
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = step
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="never") if name == "decode" else decoders.Fuse()
    if name == "single_word":
        tokenizer.add_tokens([word])
    tokens, back = json.loads(subprocess.check_output(["node", "a.mjs", text], input=tokenizer.to_str().encode()))
    meant = tokenizer.encode(text)
    whole = tokenizer.decode(meant.ids)
    print(f"{name:<20} {text!r}: PyPI {'|'.join(meant.tokens)} {whole!r}, npm {'|'.join(tokens)} {back!r}")
    changed |= "|".join(tokens) != wanted or ((tokens, back) == (meant.tokens, whole)) != (name == "isolated")
sys.exit("CHANGED" if changed else 0)
END
venv/bin/python a.py 2>errors || { tail -n 5 errors; echo CHANGED; exit 1; }
