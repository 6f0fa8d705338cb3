#!/usr/bin/env python3
"""Measures what stored caches cost on real models, and prints the tables of docs/results/quality.md.

usage: tools/quality.py KVASIR FOLDER TEXT [--kv LIST] [--ctx N] [--windows N] [--threads N] [--model PART] [--fast]

KVASIR is the binary, FOLDER has the models (*.gguf), TEXT is what they read. --kv: as `kvasir eval ppl` takes it, names
separated by semicolons. --model: only files whose name contains PART. --fast: without --exact, with activations of 8
bits. Needs nothing but Python. Every row is one JSON object of `kvasir eval ppl` on stderr, and a row of Markdown on
stdout.
"""
import argparse
import json
import pathlib
import subprocess
import sys

PRESETS = "safe;balanced;small;tiny;kivi4;kivi2;quanto4;hqq4"


def measure(o, model):
    command = [o.kvasir, "eval", "ppl", "-m", str(model), "-f", o.text, "--kv", o.kv, "--ctx", str(o.ctx), "--tokens",
               str(o.ctx * o.windows), "--threads", str(o.threads), "--json"] + ([] if o.fast else ["--exact"])
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{' '.join(command)}\n{run.stderr.strip()}")
    return [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]


def row(r):
    return (f"| `{r['kv']}` | {r['kv_bytes_per_token']:.0f} | {100 * r['kv_bytes_per_token'] / r['f16_bytes_per_token']:.1f} % "
            f"| {r['kl_mean']:.1e} | {100 * r['ppl_change']:+.2f} ± {100 * r['ppl_change_error']:.2f} | {100 * r['top1']:.2f} |")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("kvasir")
    p.add_argument("folder")
    p.add_argument("text")
    p.add_argument("--kv", default=PRESETS)
    p.add_argument("--ctx", type=int, default=1024)
    p.add_argument("--windows", type=int, default=4)
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--model", default="")
    p.add_argument("--fast", action="store_true")
    o = p.parse_args()
    models = [m for m in sorted(pathlib.Path(o.folder).glob("*.gguf"), key=lambda m: m.stat().st_size) if o.model in m.name]
    if not models:
        sys.exit(f"{o.folder}: no *.gguf with '{o.model}' in its name")
    for model in models:
        rows = measure(o, model)
        first = rows[0]
        print(f"\n**{model.name}**: {first['windows']} windows of {first['ctx']} tokens, {first['scored']} scored, "
              f"{100 * first['sealed_share']:.0f} % of what they read sealed; f32 perplexity {first['ppl_f32']:.3f}\n")
        print("| `--kv` | bytes per token | of f16 | KL | change of perplexity, % | top-1, % |\n|---|---|---|---|---|---|")
        for r in rows:
            print(json.dumps(r), file=sys.stderr)
            print(row(r), flush=True)


if __name__ == "__main__":
    main()
