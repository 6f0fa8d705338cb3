#!/usr/bin/env python3
"""Measures what stored caches cost on real models, and prints the tables of docs/results/quality.md.

usage: tools/quality.py KVASIR FOLDER TEXT [--kv LIST] [--ctx N] [--windows N] [--threads N] [--model PART] [--fast]
           [--llama PYTHON] [--transformers PYTHON] [--hf FOLDER]
           [--recall FILES] [--records N] [--samples N] [--answers N] [--plot FOLDER] [--no-ppl]

KVASIR is the binary, FOLDER has the models (*.gguf), TEXT is what they read. --kv: as `kvasir eval ppl` takes it, names
separated by semicolons. --model: only files whose name contains PART. --fast: without --exact, with activations of 8
bits. Needs nothing but Python. Every row is one JSON object of `kvasir eval ppl` on stderr, and a row of Markdown on
stdout.

Other engines read the same tokens in the same windows, compared with their own f32 caches:
--llama         a Python with llama-cpp-python and numpy (tools/quality_llama.py)
--transformers  a Python with torch, transformers, optimum-quanto, hqq and gguf (tools/quality_transformers.py)
--hf            folders of the same models as Hugging Face publishes them, their names the models'; without it
                transformers reads the GGUF files

--recall   files of `kvasir eval recall`, separated by commas, their samples cut to --records and --samples: what the
           models find again
--answers  how N pieces of TEXT go on, 64 tokens each by greedy choice: `kvasir eval answers`
--no-ppl   only what the options before this name
--plot     draws KL against bytes, FOLDER/MODEL.svg
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

PIECE = 2400  # bytes of a text that goes on
PRESETS = "safe;balanced;small;tiny;kivi4;kivi2;quanto4;hqq4"
HERE = pathlib.Path(__file__).resolve().parent
UNSUPPORTED = 3  # exit status of a peer that has no such cache for this model


def call(command, may_refuse=False):
    run = subprocess.run([str(x) for x in command], capture_output=True, text=True)
    if may_refuse and run.returncode == UNSUPPORTED:
        print(run.stderr.strip(), file=sys.stderr)
    elif run.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{run.stderr.strip()}")
    return run.stdout


def rows_of(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def options(o, model, kv):
    return ["-m", model, "--kv", kv, "--threads", o.threads, "--json"] + ([] if o.fast else ["--exact"])


def measure(o, model):
    plot = ["--plot", pathlib.Path(o.plot) / (model.stem.lower() + ".svg")] if o.plot else []
    return rows_of(call([o.kvasir, "eval", "ppl", "-f", o.text, "--ctx", o.ctx, "--tokens", o.ctx * o.windows,
                         *options(o, model, o.kv), *plot]))


def folder_of(o, model):
    """Of --hf, the folder whose name begins the model's, dots and dashes aside; else the file."""
    plain = lambda name: "".join(c for c in name.lower() if c.isalnum())
    for at in sorted(pathlib.Path(o.hf).iterdir()) if o.hf else []:
        if at.is_dir() and plain(model.stem).startswith(plain(at.name)):
            return at
    return model


def peers(o, model, bos):
    with tempfile.TemporaryDirectory() as folder:
        ids = pathlib.Path(folder) / "ids"
        ids.write_text(call([o.kvasir, "tokenize", "-m", model, "--special", "--ids", "-f", o.text]))
        numbers = ids.read_text().split()
        common = [ids, "--ctx", o.ctx, "--windows", o.windows] + (["--bos", numbers[0]] if bos else [])
        common += ["--threads", o.threads] if o.threads else []
        rows = []
        if o.llama:
            rows += rows_of(call([o.llama, HERE / "quality_llama.py", model, *common]))
        if o.transformers:
            rows += rows_of(call([o.transformers, HERE / "quality_transformers.py", folder_of(o, model), *common], True))
    return [r for r in rows if r["windows"] == o.windows]


def row(r):
    engine = f" of {r['engine']}" if "engine" in r else ""
    return (f"| `{r['kv']}`{engine} | {r['kv_bytes_per_token']:.0f} | {100 * r['kv_bytes_per_token'] / r['f16_bytes_per_token']:.1f} % "
            f"| {r['kl_mean']:.1e} | {100 * r['ppl_change']:+.2f} ± {100 * r['ppl_change_error']:.2f} | {100 * r['top1']:.2f} |")


def show(rows, line):
    for r in rows:
        print(json.dumps(r), file=sys.stderr)
        print(line(r), flush=True)


def perplexity(o, model):
    rows = measure(o, model)
    first = rows[0]
    print(f"\n**{model.name}**: {first['windows']} windows of {first['ctx']} tokens, {first['scored']} scored, "
          f"{100 * first['sealed_share']:.0f} % of what they read sealed; f32 perplexity {first['ppl_f32']:.3f}\n")
    print("| `--kv` | bytes per token | of f16 | KL | change of perplexity, % | top-1, % |\n|---|---|---|---|---|---|")
    show(rows, row)
    if o.llama or o.transformers:
        show(peers(o, model, first["bos"]), row)


def recall(o, model):
    print("\n| file | `--kv` | trials | exact, % | ranked first, % | greedy as f32, % | |\n|---|---|---|---|---|---|---|")
    for file in o.recall.split(","):
        rows = rows_of(call([o.kvasir, "eval", "recall", "-f", file, "--records", o.records, "--samples", o.samples, "--ctx",
                             o.ctx, *options(o, model, o.kv)]))
        show(rows, lambda r: f"| {pathlib.Path(file).name} | `{r['kv']}` | {r['trials']} | {100 * r['exact']:.0f} "
             f"| {100 * r['ranked_first']:.0f} | {100 * r['same_greedy']:.0f} | { {True: '', False: 'no skill', None: 'too few trials'}[r['model_retrieves']] } |")


def answers(o, model):
    """Continues pieces of the text: long enough that most of what the answer reads is sealed."""
    text = pathlib.Path(o.text).read_bytes()
    step = len(text) // o.answers
    starts = [text.index(b" ", i * step) + 1 for i in range(o.answers)]
    pieces = [text[i:text.rindex(b" ", i, i + PIECE)].decode(errors="ignore") for i in starts]
    print("\n| `--kv` | of f16 | equal answers | tokens as f32, % |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        prompts = pathlib.Path(folder) / "prompts"
        prompts.write_text("\n=====\n".join(pieces) + "\n")
        rows = rows_of(call([o.kvasir, "eval", "answers", prompts, "--sections", "=====", "--ctx", o.ctx,
                             *options(o, model, o.kv)]))
    show([r for r in rows if "prompts" in r],
         lambda r: f"| `{r['kv']}` | {100 * r['kv_bytes_per_token'] / r['f16_bytes_per_token']:.1f} % | {r['equal']} of {r['prompts']} "
         f"| {100 * r['same_tokens'] / max(r['tokens'], 1):.1f} |")


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
    p.add_argument("--llama", metavar="PYTHON")
    p.add_argument("--transformers", metavar="PYTHON")
    p.add_argument("--hf", metavar="FOLDER")
    p.add_argument("--recall", metavar="FILES")
    p.add_argument("--records", type=int, default=0)
    p.add_argument("--samples", type=int, default=0)
    p.add_argument("--answers", type=int, default=0, metavar="N")
    p.add_argument("--no-ppl", action="store_true")
    p.add_argument("--plot", metavar="FOLDER")
    o = p.parse_args()
    models = [m for m in sorted(pathlib.Path(o.folder).glob("*.gguf"), key=lambda m: m.stat().st_size) if o.model in m.name]
    if not models:
        sys.exit(f"{o.folder}: no *.gguf with '{o.model}' in its name")
    for model in models:
        if not o.no_ppl:
            perplexity(o, model)
        else:
            print(f"\n**{model.name}**")
        if o.recall:
            recall(o, model)
        if o.answers:
            answers(o, model)


if __name__ == "__main__":
    main()
