#!/bin/bash
# ml_dtypes 0.6.0 with numpy 2.4.6: 1000 ones in a small float type, and a number just above the middle between 1 and the next one.
# Guess: sum and mean add in something wider, as they do with numpy's own float16; a float64 is rounded once, to the nearest.
# Seen: sums are rounded to the type at each step, in order. That of bfloat16 ends at 256, of float8_e4m3fn at 16, of float8_e5m2 at 8, and
# the mean of 1000 ones in bfloat16 is 0.256, without a word; dot has 1000, as does sum with dtype=float32. A float64 is rounded to float32
# first, so that 1 + 2^-8 + 2^-40 is 1 in bfloat16, where 1 + 2^-7 is nearer.
# Takes seconds, and a download of 25 MB.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet ml_dtypes==0.6.0 numpy==2.4.6
venv/bin/pip list --format=freeze | grep -iE '^(ml_dtypes|numpy)=='  # the version of each
cat >a.py <<'END'
import sys

import ml_dtypes
import numpy as np

wanted = {"float16": 1000, "bfloat16": 256, "float8_e4m3fn": 16, "float8_e5m2": 8}
changed = False
for name, end in wanted.items():
    kind = np.dtype(getattr(ml_dtypes, name, name))
    ones = np.ones(1000, kind)
    total, mean, wide = float(ones.sum()), float(ones.mean()), float(ones.sum(dtype=np.float32))
    eps = float(ml_dtypes.finfo(kind).eps)
    above = float(np.float64(1 + eps / 2 + 2.0**-40).astype(kind))
    print(f"{name:<13} sum {total:g}, mean {mean:.3g}, sum in float32 {wide:g}; 1 + {eps / 2} + 2^-40 is {above}, the next one {1 + eps}")
    changed |= total != end or (abs(mean - 1) < 0.1) != (name == "float16") or wide != 1000 or (above == 1) != (name != "float16")
dot = float(np.dot(np.ones(1000, ml_dtypes.bfloat16), np.ones(1000, ml_dtypes.bfloat16)))
print("dot of bfloat16", dot)
sys.exit("CHANGED" if changed or dot != 1000 else 0)
END
venv/bin/python a.py 2>errors || { tail -n 5 errors; echo CHANGED; exit 1; }
