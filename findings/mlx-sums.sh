#!/bin/bash
# mlx 0.32.4 on the CPU: softmax of equal numbers, and means, in the small types that models are kept in.
# Guess: probabilities add up to 1, to the precision of the type, and a mean lies between the least and the largest number.
# Seen: softmax adds its exponentials up in the type itself, in which the sum stops growing: of 1000 equal numbers in bfloat16 each has
# 1/256, and they add up to 3.9; of 4000 in float16 each has 1/2048. precise=True mends it. mean adds up in the type, too: the mean of 16
# times 60000 in float16 is infinite, and that of 4 times 2^30 in int32 is 0. Nothing is said. numpy has the right means.
# Takes seconds, and a download of 80 MB.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet 'mlx[cpu]==0.32.4' numpy==2.4.6
venv/bin/pip list --format=freeze | grep -iE '^(mlx|numpy)=='  # the version of each
cat >a.py <<'END'
import sys

import mlx.core as mx
import numpy as np

mx.set_default_device(mx.cpu)
changed = False
for kind, count, most in ((mx.float32, 4000, 1.001), (mx.bfloat16, 200, 1.01), (mx.bfloat16, 1000, 4), (mx.float16, 4000, 2)):
    plain, precise = (mx.softmax(mx.zeros(count, kind), precise=more).astype(mx.float32) for more in (False, True))
    total, whole = (float(part.sum()) for part in (plain, precise))
    print(f"softmax of {count} in {kind}: adds up to {total:.4g}, with precise=True to {whole:.4g}")
    changed |= not 0.8 * most < total < most or not 0.99 < whole < 1.01
for kind, count, number, wanted in (("float32", 16, 60000, 60000), ("float16", 16, 60000, np.inf), ("int32", 4, 2**30, 0)):
    seen, meant = float(mx.full(count, number, getattr(mx, kind)).mean()), float(np.full(count, number, kind).mean())
    print(f"mean of {count} times {number} in {kind}: mlx {seen}, numpy {meant}")
    changed |= seen != wanted or meant != number
sys.exit("CHANGED" if changed else 0)
END
venv/bin/python a.py 2>errors || { tail -n 5 errors; echo CHANGED; exit 1; }
