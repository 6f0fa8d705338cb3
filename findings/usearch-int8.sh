#!/bin/bash
# usearch 2.26.6 (numpy 2.4.6): exact search among 500 vectors of unlike length, in indexes of each kind of number that it offers.
# Guess: "i8" and "u8" lose precision; which vector is nearest stays what the metric says, or the pair of metric and kind is refused.
# Seen: each vector is divided by its own length on its way into "i8" and "u8", whatever the metric: "ip" and "l2sq" find the vector of the
# nearest direction, right for 23 and 5 % of the queries. "u8" makes all numbers below 0 to 0, and "cos" is right for 15 % of them. A
# vector and its double come back as the same one. Nothing is said; float32, float16, bfloat16 and the floats of 8 bits find what they should.
# Takes seconds, and a download of 30 MB.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet usearch==2.26.6 numpy==2.4.6
venv/bin/pip list --format=freeze | grep -iE '^(usearch|numpy)=='  # the version of each
cat >a.py <<'END'
import sys

import numpy as np
from usearch.index import Index

random = np.random.default_rng(0)
vectors = (random.standard_normal((500, 64)) * random.uniform(0.1, 10, (500, 1))).astype(np.float32)
queries = random.standard_normal((100, 64)).astype(np.float32)
distances = {"ip": -queries @ vectors.T, "l2sq": ((queries[:, None] - vectors) ** 2).sum(-1),
             "cos": -queries @ vectors.T / np.linalg.norm(vectors, axis=1)}
changed = False
for metric, distance in distances.items():
    shares = {}
    for kind in ("f32", "f16", "bf16", "e5m2", "i8", "u8"):
        index = Index(ndim=64, metric=metric, dtype=kind)
        index.add(np.arange(500), vectors)
        found = index.search(queries, 1, exact=True).keys.reshape(-1)
        shares[kind] = float((found == distance.argmin(1)).mean())
    print(f"{metric:<4} right for a share of", shares)
    changed |= min(shares[kind] for kind in ("f32", "f16", "bf16")) < 0.97 or shares["e5m2"] < 0.8 or shares["u8"] > 0.4
    changed |= (shares["i8"] > 0.7) != (metric == "cos")
index = Index(ndim=4, metric="l2sq", dtype="i8")
index.add([1, 2], np.array([[1, 2, -3, 0], [2, 4, -6, 0]], np.float32))
one, double = index.get(1).tolist(), index.get(2).tolist()
positive = Index(ndim=4, metric="l2sq", dtype="u8")
positive.add(1, np.array([1, 2, -3, 0], np.float32))
print("1 2 -3 0 and 2 4 -6 0 in i8:", one, double, "and the first in u8:", positive.get(1).tolist())
sys.exit("CHANGED" if changed or one != double or positive.get(1).tolist()[2] != 0 else 0)
END
venv/bin/python a.py 2>errors || { tail -n 5 errors; echo CHANGED; exit 1; }
