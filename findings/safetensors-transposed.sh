#!/bin/bash
# safetensors 0.8.0 with numpy 2.4.6: arrays of 2 x 3 numbers through safetensors.numpy.save and load.
# Guess: what is loaded equals what was saved, or an array that is not laid out by rows is refused, as safetensors.torch does.
# Seen: so it is for arrays laid out by rows, and for big-endian ones. The memory of a transposed array, and of one in Fortran order, is
# written as it lies there, with the shape of the array: the numbers stand in other places, without a word. The documentation asks for
# "contiguous and dense" arrays, which those are in numpy's words (F_CONTIGUOUS).
# Takes seconds, and a download of 20 MB.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet safetensors==0.8.0 numpy==2.4.6
venv/bin/pip list --format=freeze | grep -iE '^(safetensors|numpy)=='  # the version of each
cat >a.py <<'END'
import sys

import numpy as np
from safetensors.numpy import load, save

rows = np.arange(6, dtype=np.float32).reshape(2, 3)
right = {"by rows": rows, "big-endian": rows.astype(">f4"), "transposed, copied": rows.T.copy()}
wrong = {"transposed": rows.T, "Fortran order": np.asfortranarray(rows), "of three axes": np.arange(24).reshape(2, 3, 4).transpose(2, 0, 1)}
changed = False
for name, array in {**right, **wrong}.items():
    back = load(save({"weight": array}))["weight"]
    print(f"{name:<18} {'equal' if np.array_equal(array, back) else 'other numbers'}, shape {back.shape}")
    changed |= np.array_equal(array, back) != (name in right) or back.shape != array.shape
print("saved", rows.T.tolist(), "loaded", load(save({"weight": rows.T}))["weight"].tolist())
sys.exit("CHANGED" if changed else 0)
END
venv/bin/python a.py 2>errors || { tail -n 5 errors; echo CHANGED; exit 1; }
