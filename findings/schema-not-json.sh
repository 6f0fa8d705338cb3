#!/bin/bash
# outlines_core 0.2.14, lm-format-enforcer 0.11.3 and llguidance 1.9.1: texts that they let a model write for a JSON schema.
# Guess: whatever a library leaves out of a schema, what it lets through is JSON.
# Seen: for a string with a pattern outlines_core puts the pattern between two quotes as it is: with "^.+$" or "^[^x]+$" a quote, a
# backslash or a line break may stand there bare. Its regular expression is the only guard, so that the text ends where no parser reads it.
# lm-format-enforcer lets a comma stand before } where the properties behind it are optional: {"a":1,}. llguidance lets none of it through.
# minimum and maxProperties count for nothing in the first two, required in outlines_core where a name is not in properties. Nothing is said.
# Takes seconds, and a download of 25 MB.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet outlines_core==0.2.14 lm-format-enforcer==0.11.3 llguidance==1.9.1 jsonschema==4.26.0
venv/bin/pip list --format=freeze | grep -iE '^(outlines_core|lm-format-enforcer|llguidance)=='  # the version of each
cat >a.py <<'END'
import json
import re
import sys

from jsonschema import Draft202012Validator
from llguidance import LLMatcher, LLTokenizer
from lmformatenforcer import JsonSchemaParser
from outlines_core.json_schema import build_regex_from_schema

tokenizer = LLTokenizer("byte")


def outlines_core(schema, text):
    return re.fullmatch(build_regex_from_schema(json.dumps(schema)), text) is not None


def format_enforcer(schema, text):
    parser = JsonSchemaParser(schema)
    for letter in text:
        if letter not in parser.get_allowed_characters():
            return False
        parser = parser.add_character(letter)
    return parser.can_end()


def llguidance(schema, text):
    matcher = LLMatcher(tokenizer, LLMatcher.grammar_from_json_schema(json.dumps(schema)))
    tokens = tokenizer.tokenize_str(text)
    return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()


def verdict(schema, text):
    try:
        return "valid" if Draft202012Validator(schema).is_valid(json.loads(text)) else "not valid"
    except json.JSONDecodeError:
        return "not JSON"


number = {"type": "number"}
two = {"type": "object", "properties": {"a": number, "b": number}, "additionalProperties": False}
CASES = [({"type": "string", "pattern": "^.+$"}, '"a"b"', "o"), ({"type": "string", "pattern": "^.+$"}, '"\\"', "o"),
         ({"type": "string", "pattern": "^[^x]+$"}, '"a\nb"', "o"), ({"type": "string", "pattern": "^[a-z]+$"}, '"ab"', "ofl"),
         (two, '{"a":1,}', "f"), (two, '{"a":1}', "ofl"), (two, '{"b":1}', "ofl"),
         ({"type": "number", "minimum": 3}, "2.5", "of"), ({"type": "integer", "minimum": 3}, "2", "of"),
         ({"type": "object", "additionalProperties": number, "maxProperties": 1}, '{"a":1,"b":2}', "of"),
         ({"type": "object", "properties": {"a": number}, "required": ["a", "b"]}, '{"a":1}', "o")]
changed = False
for schema, text, wanted in CASES:
    through = [library for library in (outlines_core, format_enforcer, llguidance) if library(schema, text)]
    print(f"{json.dumps(schema)} {text!r}: {verdict(schema, text)}; let through by", *(library.__name__ for library in through) or ["none"])
    changed |= "".join(library.__name__[0] for library in through) != wanted
sys.exit("CHANGED" if changed else 0)
END
venv/bin/python a.py 2>errors || { tail -n 5 errors; echo CHANGED; exit 1; }
