#!/bin/bash
# @huggingface/jinja 0.5.11 of npm (seen with Node 20) beside jinja2 3.1.6, the latter set up as transformers does for chat templates.
# Guess: an engine made for chat templates gives the text that jinja2 gives, or raises where it lacks something.
# Seen: strip, lstrip and rstrip do not look at their argument and take all white space, so that an answer behind "</think>\n\n" loses the
# indent of its first line; startswith ignores its second argument; a list equals itself alone; '1' == 1 and undefined == none hold; %
# has the sign of the left side, int rounds down, capitalize leaves the rest as it is, `~` drops the brackets of lists, and None is
# printed as nothing. Nothing is raised.
# Takes seconds, and a download of 1 MB.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet jinja2==3.1.6
npm install --silent --no-audit --no-fund --prefix . @huggingface/jinja@0.5.11
venv/bin/pip list --format=freeze | grep -iE '^(jinja2)=='  # the version of each
npm ls --prefix . @huggingface/jinja
cat >a.py <<'END'
import json
import subprocess
import sys

from jinja2.sandbox import ImmutableSandboxedEnvironment

templates = {r"{{ 'thought</think>\n\n    return 1'.split('</think>')[-1].lstrip('\n') }}": "return 1",
             "{{ 'xyabyx'.strip('xy') }}": "xyabyx", "{{ 'a. .'.rstrip('.') }}": "a. .", "{{ 'abc'.startswith('b', 1) }}": "false",
             "{{ 'same' if roles == ['user', 'tool'] else 'other' }}": "other", "{{ 'same' if '1' == 1 else 'other' }}": "same",
             "{{ 'none' if missing == none else 'other' }}": "none", "{{ -7 % 3 }}": "-1", "{{ -4.9 | int }}": "-5",
             "{{ 'aBC' | capitalize }}": "ABC", "{{ 'roles: ' ~ roles }}": "roles: user,tool", "{{ none }}": ""}
values = {"roles": ["user", "tool"]}
node = """import {Template} from "@huggingface/jinja";
const [templates, values] = JSON.parse(process.argv[2]);
console.log(JSON.stringify(templates.map(text => new Template(text).render(values))));"""
with open("a.mjs", "w", encoding="utf-8") as script:
    script.write(node)
seen = json.loads(subprocess.check_output(["node", "a.mjs", json.dumps([list(templates), values])]))
engine = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
changed = False
for (template, wanted), there in zip(templates.items(), seen):
    meant = engine.from_string(template).render(**values)
    print(f"{template:<75} jinja2 {meant!r}, npm {there!r}")
    changed |= there != wanted or meant == wanted
sys.exit("CHANGED" if changed else 0)
END
venv/bin/python a.py 2>errors || { tail -n 5 errors; echo CHANGED; exit 1; }
