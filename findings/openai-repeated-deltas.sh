#!/bin/bash
# openai 3.57.0 of PyPI and openai 7.59.0 of npm (seen with Node 20): chat.completions.stream() on a server that says role, and id and name
# of a tool call, in each chunk in place of the first alone (all are optional in each); and one whose second choice begins first (n=2).
# Guess: what is said again is the same as before, and choices go by their index.
# Seen: so it is in Node. Python strings together all strings of a delta: the role of the final message is
# "assistantassistantassistant", the tool is named "findfindfind". A second choice that begins first is an IndexError.
# Takes half a minute of processor time, and a download of 30 MB.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet openai==3.57.0
npm install --silent --no-audit --no-fund --prefix . openai@7.59.0
venv/bin/pip list --format=freeze | grep -iE '^(openai)=='  # the version of each
npm ls --prefix . openai
cat >a.mjs <<'END'
import OpenAI from "openai";
const client = new OpenAI({baseURL: process.argv[2], apiKey: "none"});
const answer = await client.chat.completions.stream(JSON.parse(process.argv[3])).finalChatCompletion();
console.log(JSON.stringify(answer.choices));
END
cat >a.py <<'END'
import http.server
import json
import subprocess
import sys
import threading

import openai


class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for part in ('{"a":', '1', '}'):
            for index in reversed(range(asked["n"])):
                call = {"index": 0, "id": "one", "type": "function", "function": {"name": "find", "arguments": part}}
                choice = {"index": index, "delta": {"role": "assistant", "tool_calls": [call]}, "finish_reason": "tool_calls" if part == "}" else None}
                chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
                self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *more):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"http://127.0.0.1:{server.server_port}/v1"
client = openai.OpenAI(base_url=address, api_key="none")


def python(asked):
    with client.chat.completions.stream(**asked) as stream:
        return stream.get_final_completion().to_dict()["choices"]


def node(asked):
    return json.loads(subprocess.check_output(["node", "a.mjs", address, json.dumps(asked)]))


changed = False
for who in (python, node):
    for n in (1, 2):
        try:
            choices = who(dict(model="m", n=n, messages=[{"role": "user", "content": "hi"}]))
        except IndexError as fault:
            print(f"{who.__name__} n={n}: IndexError: {fault}")
            changed |= who == node or n == 1
            continue
        calls = [choice["message"]["tool_calls"][0] for choice in choices]
        seen = [(choice["message"]["role"], call["id"], call["function"]) for choice, call in zip(choices, calls)]
        print(f"{who.__name__} n={n}:", *seen)
        times = 3 if who == python else 1
        wanted = ("assistant" * times, "one" * times, "find" * times, '{"a":1}')
        changed |= len(seen) != n or any((role, name, tool["name"], tool["arguments"]) != wanted for role, name, tool in seen)
        changed |= who == python and n == 2
sys.exit("CHANGED" if changed else 0)
END
venv/bin/python a.py 2>errors || { tail -n 5 errors; echo CHANGED; exit 1; }
