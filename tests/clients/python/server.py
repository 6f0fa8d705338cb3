"""Starts `kvasir serve` on a free port and stops it; what it logs is kept for failures."""

import json
import os
import re
import signal
import subprocess
import threading
import time
import urllib.request

# ChatML with tools as Hermes models have them, and thinking that begins in the prompt.
CHATML = """{% if tools %}<|im_start|>system
Tools: <tools>{% for t in tools %}{{ t | tojson }}{% endfor %}</tools>
Call one with <tool_call>{"name": "", "arguments": {}}</tool_call><|im_end|>
{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{% if m.content %}{{ m.content }}{% endif %}{% for c in m.tool_calls or [] %}<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking %}<think>
{% endif %}{% endif %}"""


class Server:
    def __init__(self, kvasir, model, scratch, *options):
        template = os.path.join(scratch, "chatml.jinja")
        with open(template, "w") as file:
            file.write(CHATML)
        self.log = ""
        self.process = subprocess.Popen(
            [kvasir, "serve", "-m", model, "--port", "0", "-t", "2", "--chat-template", template, *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.url = None
        for line in self.process.stderr:
            self.log += line
            found = re.match(r"listening address=(\S+)", line)
            if found:
                self.url = found[1]
                break
        if self.url is None:
            raise RuntimeError("the server ended:\n" + self.log)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.log += line

    def get(self, path):
        with urllib.request.urlopen(self.url + path) as answer:
            return json.load(answer)

    def post(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def settle(self):
        """Waits until what was computed is written: before that a request does not find it."""
        end = time.monotonic() + 30
        while any(tier["queued"] for tier in self.get("/v1/stats")["tiers"]):
            if time.monotonic() > end:
                raise RuntimeError("records wait to be written for 30 s")
            time.sleep(0.01)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait()
        self.reader.join()
        return status
