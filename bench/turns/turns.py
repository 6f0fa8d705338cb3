#!/usr/bin/env python3
"""Time to first token by turn of one conversation: Kvasir and llama-server, each with what it keeps, after a restart, and cold.

usage: turns.py --model FILE --kvasir PROGRAM [--llama PROGRAM] [--document FILE] [--threads N] [--turns N] [--repeat N]
                [--tokens N] [--out ROWS.jsonl] [--plot CHART.svg]

The ways take turns: a question is asked of one after the other, never of two at once. Every engine goes on with its own
answers. The clock runs from sending a request to the first text of the answer; starting a server does not count.

  kvasir         one server with --cache-dir
  kvasir again   the same, but the server is stopped and started before every turn
  kvasir cold    the messages of `kvasir`, asked with "reuse": false
  llama          one llama-server with its defaults
  llama again    the messages of `llama`, asked of a llama-server that was just started
"""
import argparse
import contextlib
import http.client
import json
import os
import pathlib
import socket
import statistics
import subprocess
import tempfile
import time

QUESTIONS = [
    "What is this file for? Answer in two sentences.",
    "Which of its types would a reader meet first?",
    "Which function does the most work?",
    "What may go wrong there?",
    "How would you test that?",
    "Which name would you change, and why?",
    "What is missing in the comments?",
    "Sum all of that up in one sentence.",
]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    def __init__(self, command):
        self.port = free_port()
        self.process = subprocess.Popen([*command, "--port", str(self.port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.time() + 300
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.get("/health") == 200:
                    return
            if time.time() > deadline or self.process.poll() is not None:
                raise SystemExit(f"{command[0]}: does not start")
            time.sleep(0.05)

    def get(self, path):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        c.request("GET", path)
        return c.getresponse().status

    def ask(self, messages, tokens, **more):
        """Returns the answer, milliseconds to its first text, and the prompt's tokens."""
        body = {"messages": messages, "max_tokens": tokens, "temperature": 0, "stream": True,
                "stream_options": {"include_usage": True}, **more}
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=1800)
        begin = time.perf_counter()
        c.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        text, first, prompt = "", None, 0
        for line in c.getresponse():
            if not line.startswith(b"data: {"):
                continue
            chunk = json.loads(line[6:])
            for choice in chunk.get("choices", []):
                piece = choice.get("delta", {}).get("content") or ""
                if piece and first is None:
                    first = 1000 * (time.perf_counter() - begin)
                text += piece
            prompt = (chunk.get("usage") or {}).get("prompt_tokens", prompt)
        if first is None:
            raise SystemExit("an answer without text")
        return text, first, prompt

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Talk:
    def __init__(self, document):
        self.messages = [{"role": "user", "content": document + "\n\n" + QUESTIONS[0]}]

    def go_on(self, answer, turn):
        self.messages.append({"role": "assistant", "content": answer})
        if turn < len(QUESTIONS):
            self.messages.append({"role": "user", "content": QUESTIONS[turn]})


def one_round(a, document, rows):
    common = ["-t", str(a.threads)]
    with tempfile.TemporaryDirectory() as kept, tempfile.TemporaryDirectory() as moved:
        kvasir = [a.kvasir, "serve", "-m", a.model, *common, "--ctx", str(a.ctx), "--cache-dir"]
        llama = [a.llama, "-m", a.model, *common, "-c", str(a.ctx)]
        steady = Server([*kvasir, kept])
        other = Server(llama) if a.llama else None
        talks = {way: Talk(document) for way in ("kvasir", "kvasir again", "llama")}
        for turn in range(1, a.turns + 1):
            def note(way, first, prompt):
                rows.append({"way": way, "turn": turn, "prompt_tokens": prompt, "ttft_ms": round(first, 1), "threads": a.threads})
                print(f"turn {turn}  {way:13} {prompt:6} tokens {first:10.1f} ms", flush=True)

            answer, first, prompt = steady.ask(talks["kvasir"].messages, a.tokens)
            note("kvasir", first, prompt)
            note("kvasir cold", *steady.ask(talks["kvasir"].messages, 1, reuse=False)[1:])
            talks["kvasir"].go_on(answer, turn)
            again = Server([*kvasir, moved])
            answer, first, prompt = again.ask(talks["kvasir again"].messages, a.tokens)
            again.stop()
            note("kvasir again", first, prompt)
            talks["kvasir again"].go_on(answer, turn)
            if other:
                answer, first, prompt = other.ask(talks["llama"].messages, a.tokens)
                note("llama", first, prompt)
                fresh = Server(llama)
                note("llama again", *fresh.ask(talks["llama"].messages, 1)[1:])
                fresh.stop()
                talks["llama"].go_on(answer, turn)
        steady.stop()
        if other:
            other.stop()


COLOURS = {"kvasir": "#0b6b8a", "kvasir again": "#3fa7c8", "kvasir cold": "#9aa4ad", "llama": "#d07b1f", "llama again": "#8a3b12"}
NAMES = {"kvasir": "Kvasir", "kvasir again": "Kvasir, restarted before every turn", "kvasir cold": "Kvasir without reuse",
         "llama": "llama-server", "llama again": "llama-server, restarted before every turn"}


def plot(rows, model, path):
    """Lines on a logarithmic scale of seconds."""
    import math
    ways = [w for w in NAMES if any(r["way"] == w for r in rows)]
    turns = sorted({r["turn"] for r in rows})
    median = {(w, t): statistics.median(r["ttft_ms"] for r in rows if (r["way"], r["turn"]) == (w, t)) for w in ways for t in turns}
    low, high = math.floor(math.log10(min(median.values()))), math.ceil(math.log10(max(median.values())))
    width, height, left, top, right, bottom = 820, 360, 90, 40, 290, 40
    x = lambda t: left + (width - left - right) * (t - turns[0]) / max(1, turns[-1] - turns[0])
    y = lambda ms: top + (height - top - bottom) * (high - math.log10(ms)) / (high - low)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>',
           f'<text x="{left}" y="20" font-size="14">Time to first token by turn, {model}, {rows[0]["threads"]} threads</text>']
    for decade in range(low, high + 1):
        label = f"{10 ** decade / 1000:g} s"
        out.append(f'<line x1="{left}" x2="{width - right}" y1="{y(10 ** decade):.1f}" y2="{y(10 ** decade):.1f}" stroke="#d5dade"/>'
                   f'<text x="{left - 8}" y="{y(10 ** decade) + 4:.1f}" text-anchor="end">{label}</text>')
    for t in turns:
        tokens = statistics.median(r["prompt_tokens"] for r in rows if r["turn"] == t)
        out.append(f'<text x="{x(t):.1f}" y="{height - bottom + 16}" text-anchor="middle">{t}</text>'
                   f'<text x="{x(t):.1f}" y="{height - bottom + 30}" text-anchor="middle" fill="#5d6770" font-size="10">{tokens:.0f}</text>')
    out.append(f'<text x="{left - 8}" y="{height - bottom + 16}" text-anchor="end">turn</text>'
               f'<text x="{left - 8}" y="{height - bottom + 30}" text-anchor="end" fill="#5d6770" font-size="10">tokens</text>')
    labels = sorted(ways, key=lambda w: median[w, turns[-1]])
    places = {}
    for w in labels:  # from below, none over another
        places[w] = min([y(median[w, turns[-1]])] + [p - 15 for p in places.values()])
    for w in ways:
        points = " ".join(f"{x(t):.1f},{y(median[w, t]):.1f}" for t in turns)
        out.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[w]}" stroke-width="2"/>')
        out += [f'<circle cx="{x(t):.1f}" cy="{y(median[w, t]):.1f}" r="3" fill="{COLOURS[w]}"/>' for t in turns]
        out.append(f'<text x="{width - right + 10}" y="{places[w] + 4:.1f}" fill="{COLOURS[w]}">{NAMES[w]}</text>')
    pathlib.Path(path).write_text("\n".join(out) + "\n</svg>\n")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", required=True)
    p.add_argument("--kvasir")
    p.add_argument("--llama")
    p.add_argument("--document", default=pathlib.Path(__file__).resolve().parents[2] / "src/run/service.hpp")
    p.add_argument("--threads", type=int, default=os.cpu_count())
    p.add_argument("--ctx", type=int, default=8192)
    p.add_argument("--turns", type=int, default=len(QUESTIONS))
    p.add_argument("--tokens", type=int, default=48)
    p.add_argument("--repeat", type=int, default=1)
    p.add_argument("--out")
    p.add_argument("--plot")
    a = p.parse_args()
    if not 1 <= a.turns <= len(QUESTIONS):
        p.error(f"--turns: expected 1 to {len(QUESTIONS)}")
    rows = []
    document = pathlib.Path(a.document).read_text()
    if a.kvasir:
        for _ in range(a.repeat):
            one_round(a, document, rows)
    elif a.out:  # only the chart of rows that are there
        rows = [json.loads(line) for line in open(a.out)]
    else:
        p.error("--kvasir or --out is missing")
    if a.out and a.kvasir:
        with open(a.out, "w") as out:
            out.writelines(json.dumps(r) + "\n" for r in rows)
    if a.plot:
        plot(rows, pathlib.Path(a.model).name.removesuffix(".gguf"), a.plot)


if __name__ == "__main__":
    main()
