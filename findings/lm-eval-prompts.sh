#!/bin/sh
# lm_eval 0.4.13 (transformers 5.24.0 for its tokenizer): the prompts that local-completions sends for a task of generate_until, seen by a
# server that writes them down. The task has prompts of 40 words, one token each; max_length is the default of 2048 unless it is said.
# Guess: what does not fit in max_length is cut off at the left and a warning says so; where the answer alone does not fit, it is an error.
# num_concurrent changes nothing of what is sent, and add_bos_token puts the token there with either tokenizer_backend.
# Seen: a prompt that is cut is cut without a word. The warning "They were left truncated" comes where max_gen_toks reaches max_length - 1:
# at 2047 nothing is cut, at 2048 (the value of 65 files of tasks that come with it) the first token alone is, and with each more one more,
# until at 2087 an empty prompt is sent, and so it is for aime, which asks for 32768. With num_concurrent=2 the end token is not among the
# stop strings, where it is with 1; tokenizer_backend=remote ignores add_bos_token. Of these two nothing is said.
# Takes a minute of processor time, and a download of 250 MB.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet 'lm_eval[api]==0.4.13' transformers==5.24.0
cat >"$dir/a.py" <<'END'
import http.server
import json
import logging
import os
import sys
import threading
from importlib.metadata import version

out = sys.argv[1]
os.environ.update(HF_HOME=out + "/home", HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
import lm_eval
from lm_eval.tasks import TaskManager
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

print("lm_eval", version("lm_eval"))
words = [f"w{i}" for i in range(40)]
split = Tokenizer(models.WordLevel({w: i for i, w in enumerate(["<s>", "</s>", "<unk>", *words])}, unk_token="<unk>"))
split.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
split.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
PreTrainedTokenizerFast(tokenizer_object=split, bos_token="<s>", eos_token="</s>", unk_token="<unk>").save_pretrained(out + "/tokenizer")
os.mkdir(out + "/tasks")
with open(out + "/tasks/lines.json", "w", encoding="utf-8") as text:
    for _ in range(2):
        text.write(json.dumps({"question": " ".join(words), "answer": "w1"}) + "\n")
with open(out + "/tasks/words.yaml", "w", encoding="utf-8") as text:
    json.dump({"task": "words", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": out + "/tasks/lines.json"}},
               "test_split": "test", "output_type": "generate_until", "doc_to_text": "{{question}}", "doc_to_target": "{{answer}}",
               "generation_kwargs": {"until": ["\n"], "do_sample": False}, "metric_list": [{"metric": "exact_match"}]}, text)
sent = []


class Server(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, body):
        body = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer({"tokenizer_class": "any", "bos_token": "<s>", "eos_token": "</s>"})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path.endswith("/tokenize"):
            ids = split.encode(asked["prompt"], add_special_tokens=asked["add_special_tokens"]).ids
            self.answer({"tokens": ids, "count": len(ids), "max_model_len": 2048})
            return
        sent.append(asked)
        self.answer({"choices": [{"index": i, "text": " w1", "finish_reason": "stop"} for i in range(len(asked["prompt"]))]})


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_address[1]}/v1/completions"
warnings = []


class Keep(logging.Handler):
    def emit(self, record):
        if record.levelno >= logging.WARNING:
            warnings.append(record.getMessage())


logging.getLogger("lm_eval.models.api_models").addHandler(Keep())
tasks = TaskManager(include_path=out + "/tasks", include_defaults=False)


def seen(tokens, **more):
    """First and number of tokens of the prompt, what is said of it, and the stop strings of the request."""
    sent.clear()
    warnings.clear()
    settings = dict(model="any", base_url=url, tokenizer_backend="huggingface", tokenizer=out + "/tokenizer") | more
    lm_eval.simple_evaluate("local-completions", model_args=settings, tasks=["words"], task_manager=tasks, bootstrap_iters=0,
                            gen_kwargs={"max_gen_toks": tokens})
    assert len(sent) == 2
    prompt = sent[0]["prompt"][0]
    assert all("left truncated" in line for line in warnings)
    return split.id_to_token(prompt[0]) if prompt else "nothing", len(prompt), bool(warnings), sent[0]["stop"]


changed = False
for length, tokens, *wanted in [(2048, 256, "w0", 40, False), (64, 32, "w9", 31, False), (2048, 2046, "w39", 1, False),
                                (2048, 2047, "w0", 40, True), (2048, 2048, "w1", 39, True), (2048, 2060, "w13", 27, True),
                                (2048, 2087, "nothing", 0, True), (2048, 32768, "nothing", 0, True)]:
    first, count, said, _ = seen(tokens, max_length=length)
    print(f"max_length {length:4}, max_gen_toks {tokens:5}: {count:2} of 40 tokens, from {first}{'; it says: left truncated' if said else ''}")
    changed |= [first, count, said] != wanted
for count, wanted in [(1, ["\n", "</s>"]), (2, ["\n"])]:
    stop = seen(256, num_concurrent=count)[3]
    print(f"num_concurrent {count}: stop {stop}")
    changed |= stop != wanted
for backend, folder, wanted in [("huggingface", out + "/tokenizer", "<s>"), ("remote", None, "w0")]:
    first, count, said, _ = seen(256, tokenizer_backend=backend, tokenizer=folder, add_bos_token=True)
    print(f"add_bos_token with tokenizer_backend {backend}: the prompt begins with {first}")
    changed |= first != wanted or said
sys.exit("CHANGED" if changed else 0)
END
"$dir/venv/bin/python" "$dir/a.py" "$dir" 2>"$dir/errors" || { tail -n 5 "$dir/errors"; echo CHANGED; exit 1; }
