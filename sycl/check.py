#!/usr/bin/env python3
"""KIVI's arrays by the SYCL plug-in against the processor's, number by number: `./dev sycl` runs it.

usage: check.py [DEVICE ...]    DEVICE as kvasir.kivi has it; default sycl
Prints a table. Ends with 1 where a bit differs or a device is not there.
"""

import sys
import time

import numpy as np

from kvasir import Error, kivi

HEADS, TOKENS, CHANNELS = 4, 640, 128


def numbers(shape, seed):
    """Of different sizes; ties; groups that are constant, zero (of both signs), tiny, subnormal or near float16's end."""
    r = np.random.default_rng(seed)
    u = r.uniform(-1, 1, int(np.prod(shape))).astype(np.float32)
    kind = np.arange(u.size) // 1000 % 7
    others = [0.5 * r.integers(0, 31, u.size), np.where(r.random(u.size) < 0.5, 0.0, -0.0), u * 1e-7, u * 3e4,
              np.full(u.size, -1.5), u * 1e-42]
    x = np.choose(kind, [u * (1 + np.arange(u.size) // 64 % 9), *others]).astype(np.float32)
    return x.reshape(shape)


def differing(a, b):
    """How many numbers of b have other bits than those of a."""
    as_bits = {1: np.uint8, 2: np.uint16, 4: np.uint32}
    return int((a.view(as_bits[a.itemsize]) != b.view(as_bits[b.itemsize])).sum())


def timed(f, *arguments):
    """The result, and the milliseconds of the quickest of three calls."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        result = f(*arguments)
        best = min(best, 1000 * (time.perf_counter() - start))
    return result, best


def cases(values, bits, group, kind):
    """(name, call of a device) of what is compared; later ones read what the processor made."""
    x = numbers((1, HEADS, TOKENS, CHANNELS), bits * group + values)
    arrays = kivi._quantize(x, group, bits, kind, values=values)
    depth = TOKENS if values else CHANNELS
    a = numbers((1, HEADS * 3, 7, depth), 3)  # 21 rows a head
    side, multiply = ("values", "p V") if values else ("keys", "q K^T")
    product = kivi.matmul_values if values else kivi.matmul_keys
    return [
        (f"quantize_{side}", lambda d: kivi._quantize(x, group, bits, kind, values=values, device=d)),
        (f"dequantize_{side}", lambda d: (kivi._dequantize(*arrays, group, bits, values=values, device=d),)),
        (multiply, lambda d: (product(a, *arrays, group, bits, device=d),)),
    ]


def check(device):
    """Prints the device's rows, one for all groups and both kinds of scales; returns how many numbers differ."""
    print(f"{device}: {kivi.device_name(device)}; {HEADS} heads, {TOKENS} tokens, {CHANNELS} channels, 21 rows of q and p")
    print("groups of 32, 64, 128 with scales of float16 and float32; times are sums of the six, each the best of three calls")
    print(f"{'':18} bits      numbers  differ  processor ms  device ms")
    bad = 0
    for values in (False, True):
        for bits in (2, 4, 8):
            rows = {}
            for group in (32, 64, 128):
                for kind in (np.float16, np.float32):
                    for name, call in cases(values, bits, group, kind):
                        here, here_ms = timed(call, None)
                        there, there_ms = timed(call, device)  # the first call compiles, and compares a few arrays
                        row = rows.setdefault(name, [0, 0, 0.0, 0.0])
                        row[0] += sum(a.size for a in here)
                        row[1] += sum(differing(a, b) for a, b in zip(here, there))
                        row[2] += here_ms
                        row[3] += there_ms
            for name, (total, differ, here_ms, there_ms) in rows.items():
                print(f"{name:18} {bits:4} {total:12,} {differ:7}  {here_ms:12.1f}  {there_ms:9.1f}")
                bad += differ
    return bad


def main(devices):
    bad = 0
    for device in devices:
        try:
            bad += check(device)
        except Error as e:
            print(f"check.py: {e}", file=sys.stderr)
            return 1
    print("every number has the processor's bits" if bad == 0 else f"{bad} numbers have other bits")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["sycl"]))
