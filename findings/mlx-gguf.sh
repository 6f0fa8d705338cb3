#!/bin/sh
# mlx 0.32.4 on the CPU, mx.load on GGUF files that gguf-py 0.19.0 wrote: three tensors, of which the second is of another type.
# Guess: a type that mlx does not know is refused, as Q5_0 and Q5_1 are; bfloat16, which mlx has, stays bfloat16.
# Seen: a tensor of a newer type (TQ1_0, TQ2_0, MXFP4) ends the reading. It and all tensors behind it are not in the result, without a
# word: of the three there is one. BF16 becomes float16: 1e5 is infinite, 1e-9 is 0.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install --quiet 'mlx[cpu]==0.32.4' numpy==2.4.6 gguf==0.19.0
cat >"$dir/a.py" <<'END'
import sys
from importlib.metadata import version

import gguf
import mlx.core as mx
import numpy as np

print("mlx", version("mlx"), "gguf", version("gguf"))
mx.set_default_device(mx.cpu)
x = np.random.default_rng(0).standard_normal((4, 256)).astype(np.float32)
x[0, :3] = 1e5, 1e-9, 2
refused = ("Q5_0", "Q5_1")
changed = False
for name in ("Q8_0", "Q4_1", "BF16", *refused, "TQ1_0", "TQ2_0", "MXFP4"):
    kind = gguf.GGMLQuantizationType[name]
    path = f"{sys.argv[1]}/{name}.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tensor("first.weight", x)
    writer.add_tensor("second.weight", gguf.quants.quantize(x / (1 if name == "BF16" else 1e5), kind), raw_dtype=kind)
    writer.add_tensor("third.weight", x)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    there = [tensor.name for tensor in gguf.GGUFReader(path).tensors]
    try:
        read = mx.load(path)
    except RuntimeError as fault:
        print(f"{name:<5} refused: {fault}")
        changed |= name not in refused
        continue
    missing = [tensor for tensor in there if tensor not in read]
    print(f"{name:<5} read, {'without ' + ', '.join(missing) if missing else 'whole'}")
    changed |= name in refused or missing != (["second.weight", "third.weight"] if name in ("TQ1_0", "TQ2_0", "MXFP4") else [])
    if name == "BF16":
        print("     ", read["second.weight"].dtype, *np.array(read["second.weight"].astype(mx.float32))[0, :3])
        changed |= read["second.weight"].dtype != mx.float16
sys.exit("CHANGED" if changed else 0)
END
"$dir/venv/bin/python" "$dir/a.py" "$dir" 2>"$dir/errors" || { tail -n 5 "$dir/errors"; echo CHANGED; exit 1; }
