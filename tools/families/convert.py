#!/usr/bin/env python3
"""A GGUF file by llama.cpp's own converter, of a folder without a tokenizer.

usage: convert.py CONVERTER FOLDER FILE [ARGUMENT ...]

CONVERTER is the folder with convert_hf_to_gguf.py (vendor/llama.cpp of llama-cpp-python's source package). The vocabulary
is left out, which the converter knows by a hash of published ones; all else is its own work. ARGUMENTs go to it.
"""
import os
import runpy
import sys
import traceback


def load(place):
    """The converter's modules, changed to leave the vocabulary out."""
    sys.path[:0] = [place, place + "/gguf-py"]
    import conversion

    found = conversion.get_model_class

    def without_vocabulary(name, mmproj=False):
        model = found(name, mmproj=mmproj)
        if not mmproj:
            model.set_vocab = lambda self: self._set_vocab_none()
        return model

    conversion.get_model_class = without_vocabulary
    conversion.load_all_models()


def convert(place, folder, file, more):
    sys.argv = ["convert_hf_to_gguf.py", folder, "--outfile", file, *more]
    runpy.run_path(place + "/convert_hf_to_gguf.py", run_name="__main__")


def convert_aside(place, folder, file, more):
    """In a child, which has what this process has loaded; returns what it said last if it failed, else None."""
    log = file + ".log"
    child = os.fork()
    if child == 0:
        with open(log, "w", encoding="utf-8") as out:
            os.dup2(out.fileno(), 1)
            os.dup2(out.fileno(), 2)
        status = 1
        try:
            convert(place, folder, file, more)
            status = 0
        except SystemExit as e:
            status = int(bool(e.code))
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    failed = os.waitpid(child, 0)[1] != 0
    with open(log, encoding="utf-8") as said:
        words = said.read()
    os.remove(log)
    return words if failed else None


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    load(sys.argv[1])
    convert(*sys.argv[1:4], sys.argv[4:])
