"""`kvasir serve` for the examples beside this file: that of KVASIR_URL, or one that is started and stopped here.

A model without a chat template needs one: `--chat-template examples/plain.jinja` behind its name.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request


def _named(url):
    with urllib.request.urlopen(url + "/models") as answer:
        return url, json.load(answer)["data"][0]["id"]


@contextlib.contextmanager
def served(model, *options):
    """Yields the address for OpenAI's clients, http://HOST:PORT/v1, and the model's name."""
    if "KVASIR_URL" in os.environ:
        yield _named(os.environ["KVASIR_URL"])
        return
    command = [os.environ.get("KVASIR_PROGRAM", "kvasir"), "serve", "-m", model, "--port", "0", *options]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        said = ""
        for line in server.stderr:
            said += line
            if found := re.match(r"listening address=(\S+)", line):
                break
        else:
            sys.exit("the server ended:\n" + said)
        yield _named(found[1] + "/v1")
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate()
