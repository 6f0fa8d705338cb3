#!/bin/sh
# mlx 0.32.4 on the CPU: 512 groups of 32 normal numbers, quantised by mx.quantize in the mode affine and back.
# Guess: as the documentation of mx.quantize has it, the bias is the least number, the scale is (largest - least) / (2^bits - 1), so it
# is not negative, and codes are rounded: no number is off by more than half a step.
# Seen: the bias is the end that is farther from 0, the scale is negative where that is the largest number (half of the groups), and it
# is changed so that 0 has a code of its own: the other end of the range may lie most of a step outside. At 3, 4 and 8 bits the error as a
# whole is larger than that of what is documented; at 2 bits it is smaller. With float32, so that no rounding of scales counts.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet 'mlx[cpu]==0.32.4' numpy==2.4.6
cat >"$dir/a.py" <<'END'
import sys
from importlib.metadata import version

import mlx.core as mx
import numpy as np

print("mlx", version("mlx"))
mx.set_default_device(mx.cpu)
x = np.random.default_rng(1).standard_normal((512, 32)).astype(np.float32)
least, largest = x.min(1, keepdims=True), x.max(1, keepdims=True)
changed = False
for bits in (2, 3, 4, 8):
    codes, scales, biases = mx.quantize(mx.array(x), group_size=32, bits=bits)
    back = np.array(mx.dequantize(codes, scales, biases, group_size=32, bits=bits))
    scales, biases = np.array(scales), np.array(biases)
    step = (largest - least) / (2**bits - 1)
    plain = np.round((x - least) / step) * step + least
    negative = float((scales < 0).mean())
    worst, worst_plain = (float((np.abs(y - x) / step).max()) for y in (back, plain))
    error, error_plain = (float(np.linalg.norm(y - x) / np.linalg.norm(x)) for y in (back, plain))
    far = np.where(np.abs(least) > np.abs(largest), least, largest)
    print(f"{bits} bits: {negative:.0%} of scales negative, at most {worst:.2f} steps off, error {error:.4f}; as documented "
          f"{worst_plain:.2f} steps, {error_plain:.4f}")
    changed |= not (0.4 < negative < 0.6 and worst > 0.7 and worst_plain < 0.51)
    changed |= (error > error_plain) != (bits > 2)
    changed |= bool((np.abs(biases - far) > np.abs(far) * 1e-5).any()) and bits > 3
sys.exit("CHANGED" if changed else 0)
END
"$dir/venv/bin/python" "$dir/a.py" 2>"$dir/errors" || { tail -n 5 "$dir/errors"; echo CHANGED; exit 1; }
