#!/bin/sh
# xgrammar 0.2.9 (torch 2.15.0): texts that compile_json_schema lets a model write, with the vocabulary of the 256 bytes.
# Guess: minLength and maxLength count the characters of a string; a keyword that is not kept is named in the log, as multipleOf is.
# Seen: a string with either of them may not have an escape: no line break, no quote and no backslash can be written into a string of
# {"minLength": 1}, while a bare control character, which JSON forbids, can. A required name that is not in properties is not
# asked for, and minimum beside $ref, dependentRequired, uniqueItems and the type beside enum count for nothing. Not one line is logged.
# Takes a download of about 3 GB: torch.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet xgrammar==0.2.9 torch==2.15.0 jsonschema==4.26.0
"$dir/venv/bin/pip" list --format=freeze | grep -iE '^(xgrammar|torch)=='  # the version of each
cat >"$dir/a.py" <<'END'
import json
import sys

import xgrammar
from jsonschema import Draft202012Validator

vocabulary = xgrammar.TokenizerInfo([bytes([byte]) for byte in range(256)] + [b""], vocab_type=xgrammar.VocabType.RAW, vocab_size=257,
                                    stop_token_ids=[256])
compiler = xgrammar.GrammarCompiler(vocabulary)


def through(schema, text):
    matcher = xgrammar.GrammarMatcher(compiler.compile_json_schema(json.dumps(schema)), terminate_without_stop_token=True)
    return matcher.accept_string(text) and matcher.is_terminated()


def verdict(schema, text):
    try:
        return "valid" if Draft202012Validator(schema).is_valid(json.loads(text)) else "not valid"
    except json.JSONDecodeError:
        return "not JSON"


number, some = {"type": "number"}, {"type": "string", "minLength": 1}
RIGHT = [({"type": "string"}, '"a\\nb"'), ({"type": "string"}, '"a\tb"'), (some, '"ab"'), (some, '""'), ({"type": "integer", "minimum": 3}, "2"),
         ({"type": "object", "properties": {"a": number}, "required": ["a"]}, "{}")]
WRONG = [(some, '"a\\nb"'), (some, '"a\\"b"'), (some, '"a\\\\b"'), (some, '"a\tb"'), ({"type": "string", "maxLength": 9}, '"a\\nb"'),
         ({"type": "object", "properties": {"a": number}, "required": ["a", "b"]}, '{"a":1}'),
         ({"$ref": "#/$defs/n", "$defs": {"n": {"type": "integer"}}, "minimum": 3}, "2"),
         ({"type": "object", "properties": {"a": number, "b": number}, "dependentRequired": {"a": ["b"]}, "additionalProperties": False},
          '{"a":1}'),
         ({"type": "array", "items": number, "uniqueItems": True}, "[1,1]"), ({"type": "string", "enum": ["a", 1]}, "1")]
changed = False
for schema, text in RIGHT + WRONG:
    said, may = verdict(schema, text), through(schema, text)
    print(f"{json.dumps(schema)} {text!r}: {said}, {'let through' if may else 'held back'}")
    changed |= (may != (said == "valid")) != ((schema, text) in WRONG)
sys.exit("CHANGED" if changed else 0)
END
"$dir/venv/bin/python" "$dir/a.py" 2>"$dir/errors" || { tail -n 5 "$dir/errors"; echo CHANGED; exit 1; }
grep -i warning "$dir/errors" && { echo CHANGED; exit 1; }
echo "no warning in the log"
