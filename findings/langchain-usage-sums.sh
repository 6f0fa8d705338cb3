#!/bin/bash
# langchain-openai 1.7.4 (langchain-core 1.8.3, openai 3.57.0) on a server that says the usage so far in each chunk of a stream, as
# vLLM does with continuous_usage_stats, and on one that says it at the end alone.
# Guess: usage_metadata of the whole message is what the server said last: 100 tokens in, 4 out.
# Seen: so it is where the server says it once. Where each of the four words, the finish and the last chunk say it, all are added up: 600
# tokens in, 18 out, with stream() and with invoke() of a streaming model. The text is right. Nothing is said.
# Takes half a minute of processor time, and a download of 30 MB.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet langchain-openai==1.7.4 langchain-core==1.8.3 openai==3.57.0
venv/bin/pip list --format=freeze | grep -iE '^(langchain-openai|langchain-core|openai)=='  # the version of each
cat >a.py <<'END'
import functools
import http.server
import json
import operator
import sys
import threading

from langchain_openai import ChatOpenAI


class Server(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        parts = [([{"index": 0, "delta": {"content": word}, "finish_reason": None}], i + 1) for i, word in enumerate(("we", " keep", " the", " cache"))]
        parts += [([{"index": 0, "delta": {}, "finish_reason": "stop"}], 4), ([], 4)]
        for choices, out in parts:
            chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices}
            if asked["model"] == "each" or not choices:
                chunk["usage"] = {"prompt_tokens": 100, "completion_tokens": out, "total_tokens": 100 + out}
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, *more):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
changed = False
for when, wanted in (("end", (100, 4)), ("each", (600, 18))):
    usual = dict(model=when, base_url=f"http://127.0.0.1:{server.server_port}/v1", api_key="none", stream_usage=True)
    streamed = functools.reduce(operator.add, ChatOpenAI(**usual).stream("hi"))
    invoked = ChatOpenAI(**usual, streaming=True).invoke("hi")
    for name, message in (("stream", streamed), ("invoke", invoked)):
        usage = message.usage_metadata["input_tokens"], message.usage_metadata["output_tokens"]
        print(f"usage said {'in each chunk' if when == 'each' else 'at the end'}, {name}(): {message.text!r}, {usage[0]} tokens in, {usage[1]} out")
        changed |= usage != wanted or message.text != "we keep the cache"
sys.exit("CHANGED" if changed else 0)
END
venv/bin/python a.py 2>errors || { tail -n 5 errors; echo CHANGED; exit 1; }
