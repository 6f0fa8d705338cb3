#!/bin/sh
# llama.cpp's convert_hf_to_gguf.py (in llama_cpp_python 0.3.36) on encoders that transformers 5.24.0 saved (torch 2.15.0): tiny random
# models. The vocabulary is left out.
# Guess: what the folder computes can be computed from the file.
# Seen, without an error: CamemBERT, whose positions begin two rows into its table as RoBERTa's do, keeps the two rows that RoBERTa's
# file is without, in a file of the same architecture: every token gets the row of two positions before. Of a BERT that ranks the dense
# layer with tanh before the classifier is left out, while RoBERTa's is kept, and the classifier alone is `cls.output`.
# Takes a download of about 3 GB: torch.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet transformers==5.24.0 torch==2.15.0 sentencepiece==0.2.1
"$dir/venv/bin/pip" download --quiet --no-deps --no-binary llama_cpp_python -d "$dir" llama_cpp_python==0.3.36
tar -xzf "$dir"/llama_cpp_python-0.3.36.tar.gz -C "$dir"
cat >"$dir/a.py" <<'END'
import os
import runpy
import sys

import numpy
import torch
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification

out = sys.argv[1]
place = out + "/llama_cpp_python-0.3.36/vendor/llama.cpp"
torch.set_num_threads(1)
sys.path[:0] = [place, place + "/gguf-py"]
import conversion
import gguf

found = conversion.get_model_class


def without_vocabulary(name, mmproj=False):
    model = found(name, mmproj=mmproj)
    model.set_vocab = lambda self: self.gguf_writer.add_tokenizer_model("none")
    return model


conversion.get_model_class = without_vocabulary
conversion.load_all_models()


def convert(folder, file):
    child = os.fork()
    if child == 0:
        log = os.open(folder + "/log", os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.argv = ["convert_hf_to_gguf.py", folder, "--outtype", "f32", "--outfile", file]
        runpy.run_path(place + "/convert_hf_to_gguf.py", run_name="__main__")
        os._exit(0)
    os.waitpid(child, 0)


shape = dict(vocab_size=64, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=66,
             type_vocab_size=1, pad_token_id=1, num_labels=1)


def both(name, ranks):
    """A tiny random model, and the tensors of its file."""
    folder = f"{out}/{name}-{'ranks' if ranks else 'embeds'}"
    kind = AutoModelForSequenceClassification if ranks else AutoModel
    model = kind.from_config(AutoConfig.for_model(name, **shape)).eval()
    model.save_pretrained(folder)
    convert(folder, folder + ".gguf")
    reader = gguf.GGUFReader(folder + ".gguf")
    return model, reader.fields["general.architecture"].contents(), {t.name: numpy.array(t.data) for t in reader.tensors}


seen = []
for name in ["roberta", "camembert"]:
    model, arch, tensors = both(name, False)
    table = model.embeddings.position_embeddings.weight.detach().numpy()
    first = model.embeddings.create_position_ids_from_input_ids(torch.tensor([[5, 6, 7]]), 1)[0, 0].item()
    ours = tensors["position_embd.weight"]
    row = next(i for i in range(len(table)) if numpy.array_equal(table[i], ours[0]))
    print(f"{name}: architecture {arch}, {len(table)} rows of positions, the first token takes row {first}; the file has {len(ours)}, from row {row}")
    seen.append((arch, first, len(ours), row))
for name in ["roberta", "bert"]:
    model, arch, tensors = both(name, True)
    heads = sorted(k for k in tensors if k.startswith("cls."))
    dense = "classifier.dense" if name == "roberta" else "bert.pooler.dense"
    print(f"{name} that ranks: the folder has {dense}.weight: {dense + '.weight' in model.state_dict()}; the file has {', '.join(heads)}")
    seen.append((arch, dense + ".weight" in model.state_dict(), heads))
wanted = [("bert", 2, 64, 2), ("bert", 2, 66, 0), ("bert", True, ["cls.bias", "cls.output.bias", "cls.output.weight", "cls.weight"]),
          ("bert", True, ["cls.output.bias", "cls.output.weight"])]
sys.exit("CHANGED" if seen != wanted else 0)
END
"$dir/venv/bin/python" "$dir/a.py" "$dir" 2>"$dir/errors" || { tail -n 5 "$dir/errors"; echo CHANGED; exit 1; }
