#!/usr/bin/env python3
"""Writes tests/golden/weights.txt: what the blocks of every quantised weight type dequantise to, by gguf-py.

usage: tools/golden_weights.py FILE LIBRARY

Needs numpy and gguf-py as llama.cpp of October 2026 has it (PYTHONPATH); tests need neither. LIBRARY is ggml's (libggml-base.so
of a build of llama.cpp), for the types that gguf-py names but does not dequantise (OF_GGML). For every type
    NAME BLOCK BLOCK_BYTES BLOCKS HASH     of the floats of all blocks
    HEX                                    the bytes of the first block
    HEX ...                                the bits of its floats
The bytes of a type are those of a generator, x = 1664525 x + 1013904223 modulo 2^32 from x = BLOCK_BYTES on, x >> 24 of
every x, but for its f16 fields, which are made finite numbers below 2 (FIELDS, finite_fields). The hash is h = (h ^ w) p
modulo 2^64 over the bits w of all floats, from 0xcbf29ce484222325 on, p = 0x100000001b3.
"""
import ctypes
import sys

import gguf
import numpy as np

BLOCKS = 1000
# Where the f16 fields begin. That of IQ1_M lies in the high four bits of four words; the last byte has its high bits.
FIELDS = {
    "q4_0": [0], "q4_1": [0, 2], "q5_0": [0], "q5_1": [0, 2], "q8_0": [0], "q2_k": [80, 82], "q3_k": [108],
    "q4_k": [0, 2], "q5_k": [0, 2], "q6_k": [208], "iq1_s": [0], "iq1_m": [54], "iq2_xxs": [0], "iq2_xs": [0],
    "iq2_s": [0], "iq3_xxs": [0], "iq3_s": [0], "iq4_nl": [0], "iq4_xs": [0], "tq1_0": [52], "tq2_0": [64],
    "mxfp4": [], "nvfp4": [], "q1_0": [0], "q2_0": [0],
}
OF_GGML = ("q1_0", "q2_0")


def finite_fields(name, blocks):
    for i, block in enumerate(blocks):
        for at in FIELDS[name]:
            block[at + 1] &= 0xbf
            if i % 16 == 3:
                block[at + 1] &= 0x83
            if i % 16 == 5:
                block[at + 1] &= 0x80
                block[at] = 0
        if name == "mxfp4":  # 255 is no number, which gguf-py does not know
            block[0] = min(block[0], 254)


def floats_of(name, kind, blocks, library):
    if name not in OF_GGML:
        return gguf.dequantize(blocks, kind).astype(np.float32)
    out = np.empty(len(blocks) * gguf.GGML_QUANT_SIZES[kind][0], dtype=np.float32)
    function = getattr(ctypes.CDLL(library), "dequantize_row_" + name)
    function(ctypes.c_void_p(blocks.ctypes.data), ctypes.c_void_p(out.ctypes.data), ctypes.c_int64(len(out)))
    return out


def main(path, library):
    lines = []
    for name in FIELDS:
        kind = gguf.GGMLQuantizationType[name.upper()]
        size, size_bytes = gguf.GGML_QUANT_SIZES[kind]
        x, values = size_bytes, bytearray()
        for _ in range(BLOCKS * size_bytes):
            x = (1664525 * x + 1013904223) & 0xffffffff
            values.append(x >> 24)
        blocks = np.frombuffer(values, dtype=np.uint8).reshape(BLOCKS, size_bytes).copy()
        finite_fields(name, blocks)
        floats = floats_of(name, kind, blocks, library).view(np.uint32).reshape(-1)
        h = 0xcbf29ce484222325
        for word in floats.tolist():
            h = ((h ^ word) * 0x100000001b3) & 0xffffffffffffffff
        lines.append(f"{name} {size} {size_bytes} {BLOCKS} {h:016x}")
        lines.append(blocks[0].tobytes().hex())
        words = [f"{word:08x}" for word in floats[:size].tolist()]
        lines += [" ".join(words[i:i + 16]) for i in range(0, size, 16)]
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
