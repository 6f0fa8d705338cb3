#!/bin/bash
# jax 0.10.2 (jaxlib of the same number) on the CPU: tokens drawn by jax.random.categorical and jax.random.choice from bfloat16.
# Guess: they are drawn as often as softmax of the logits, or the probabilities given, say, to the precision of bfloat16 (3 digits).
# Seen: the random numbers are made in the type of the logits, of 128 values, and ties go to the first: of 1000 equal tokens the first 100
# are drawn 21692 times in 40000, the last 100 20 times. A token of 0.0024 comes at 0.0011, one of 0.00004 never. choice draws 128 of 1000
# equal probabilities, the others never. float32 is right in all of it, and mode="high" mends categorical. Nothing is said.
# Takes half a minute of processor time, and a download of 150 MB.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet jax==0.10.2 jaxlib==0.10.2 numpy==2.4.6 ml_dtypes==0.6.0 scipy==1.16.3
venv/bin/pip list --format=freeze | grep -iE '^(jax|jaxlib|numpy|ml_dtypes)=='  # the version of each
cat >a.py <<'END'
import sys

import jax
import jax.numpy as jnp
import numpy as np

key, draws = jax.random.key(0), 40_000
logits = [10.0, 6.0, 4.0, 2.0, 0.0]
meant = np.exp(logits) / np.exp(logits).sum()
changed = False
for kind in (jnp.float32, jnp.bfloat16):
    small = kind == jnp.bfloat16
    for mode in ("low", "high"):
        flat = np.bincount(jax.random.categorical(key, jnp.zeros(1000, kind), shape=(draws,), mode=mode), minlength=1000)
        steep = np.bincount(jax.random.categorical(key, jnp.array(logits, kind), shape=(draws,), mode=mode), minlength=5) / draws
        first, last = int(flat[:100].sum()), int(flat[-100:].sum())
        print(f"{kind.__name__:<8} mode={mode:<4} of 1000 equal tokens the first 100 are drawn {first:>5} times, the last 100 {last}; "
              f"five others {np.round(steep, 5).tolist()}")
        wrong = small and mode == "low"
        changed |= (first > 20 * last) != wrong or (abs(steep[2] / meant[2] - 1) > 0.3) != wrong
    equal = np.bincount(jax.random.choice(key, 1000, (draws,), p=jnp.full(1000, 1 / 1000, kind)), minlength=1000)
    values = len(np.unique(np.asarray(jax.random.uniform(key, (draws,), kind)).astype(np.float32)))
    print(f"{kind.__name__:<8} choice among 1000 equal ones draws {(equal > 0).sum()} of them; uniform has {values} values in {draws}")
    changed |= (equal > 0).sum() != (128 if small else 1000)
print("softmax of the five logits:", np.round(meant, 5).tolist())
sys.exit("CHANGED" if changed else 0)
END
venv/bin/python a.py 2>errors || { tail -n 5 errors; echo CHANGED; exit 1; }
