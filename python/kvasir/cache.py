"""The KV cache alone, on numpy arrays: compressed pages, raw recent tokens, attention on the packed bytes."""

from __future__ import annotations

import ctypes
import json
from dataclasses import dataclass

import numpy as np

from . import _native as native


@dataclass
class Layer:
    kv_heads: int
    query_heads: int
    head_dim: int
    head_dim_v: int = 0  # 0: head_dim
    window: int = 0  # tokens that a token sees, itself included; 0: all


def _floats(x, name: str, shape: tuple[int, ...]) -> np.ndarray:
    x = np.ascontiguousarray(x, dtype=np.float32)
    if x.shape != shape:
        raise native.BadInput(f"{name}: has shape {x.shape}, expected {shape}")
    return x


def _at(x: np.ndarray) -> native.Handle:
    return x.ctypes.data_as(native.Handle)


class KvCache(native.Owner):
    """One cache for all layers of a model; sequences in it are numbers.

    Options: codecs (a preset, a codec, or KEYS/VALUES), window, residual, sinks, max_tokens, max_sequences, step_tokens,
    threads, device ("gpu", "xpu", "cuda", "opencl:N": keeps copies of pages and attends to them, with the same bits).
    """

    _close = "cache_close"

    def __init__(self, layers: list[Layer], **options):
        rows = (native.Layer * len(layers))(
            *[native.Layer(l.kv_heads, l.query_heads, l.head_dim, l.head_dim_v, l.window) for l in layers]
        )
        handle = native.Handle()
        native.call("cache_open", rows, len(layers), native.options(options), ctypes.byref(handle))
        super().__init__(handle)
        self.layers = list(layers)
        self._rows = 0

    def create(self) -> int:
        s = ctypes.c_uint64()
        native.call("cache_create", self.handle, ctypes.byref(s))
        return s.value

    def fork(self, sequence: int) -> int:
        s = ctypes.c_uint64()
        native.call("cache_fork", self.handle, sequence, ctypes.byref(s))
        return s.value

    def release(self, sequence: int) -> None:
        native.call("cache_release", self.handle, sequence)

    def reset(self) -> None:
        native.call("cache_reset", self.handle)

    def length(self, sequence: int) -> int:
        n = ctypes.c_int64()
        native.call("cache_length", self.handle, sequence, ctypes.byref(n), None)
        return n.value

    def sealed_tokens(self, sequence: int) -> int:
        n = ctypes.c_int64()
        native.call("cache_length", self.handle, sequence, None, ctypes.byref(n))
        return n.value

    def truncate(self, sequence: int, tokens: int) -> None:
        """Keeps the first tokens. Unsupported is raised where they would have to become raw again."""
        native.call("cache_truncate", self.handle, sequence, tokens)

    def begin(self, slices: list[tuple[int, int, bool]]) -> None:
        """Opens a step of (sequence, tokens, generated)."""
        rows = (native.Slice * len(slices))(*[native.Slice(s, n, int(g)) for s, n, g in slices])
        native.call("cache_begin", self.handle, rows, len(slices))
        self._rows = sum(n for _, n, _ in slices)

    def attend(self, layer: int, q, k, v, *, scale: float = 0.0, soft_cap: float = 0.0, slopes=None, sinks=None) -> np.ndarray:
        """q (n, query_heads, head_dim), k (n, kv_heads, head_dim), v (n, kv_heads, head_dim_v), n the rows of the step.

        Returns (n, query_heads, head_dim_v).
        """
        if not 0 <= layer < len(self.layers):
            raise native.BadInput(f"layer: {layer} is not one of {len(self.layers)}")
        l, n = self.layers[layer], self._rows
        dv = l.head_dim_v or l.head_dim
        q = _floats(q, "q", (n, l.query_heads, l.head_dim))
        k = _floats(k, "k", (n, l.kv_heads, l.head_dim))
        v = _floats(v, "v", (n, l.kv_heads, dv))
        slopes = None if slopes is None else _floats(slopes, "slopes", (l.query_heads,))
        sinks = None if sinks is None else _floats(sinks, "sinks", (l.query_heads,))
        out = np.empty((n, l.query_heads, dv), np.float32)
        native.call(
            "cache_attend", self.handle, layer, _at(q), _at(k), _at(v), _at(out), scale, soft_cap,
            None if slopes is None else _at(slopes), None if sinks is None else _at(sinks),
        )
        return out

    def commit(self) -> None:
        native.call("cache_commit", self.handle)

    def abort(self) -> None:
        native.call("cache_abort", self.handle)

    def save(self, sequence: int) -> bytes:
        data, size = native.Handle(), ctypes.c_size_t()
        native.call("cache_save", self.handle, sequence, ctypes.byref(data), ctypes.byref(size))
        try:
            return ctypes.string_at(data, size.value)
        finally:
            native.lib.kvasir_free(data)

    def restore(self, data: bytes) -> int:
        s = ctypes.c_uint64()
        native.call("cache_restore", self.handle, data, len(data), ctypes.byref(s))
        return s.value

    def stats(self) -> dict:
        text = native.Handle()
        native.call("cache_stats", self.handle, ctypes.byref(text))
        return json.loads(native.take_text(text))


class Packed(native.Owner):
    """Keys or values [batch, heads, tokens, head_dim], compressed by one codec; pages of 128 tokens."""

    _close = "packed_free"

    def __init__(self, x, codec: str, *, values: bool = False):
        x = np.ascontiguousarray(x, dtype=np.float32)
        if x.ndim != 4:
            raise native.BadInput(f"x: has shape {x.shape}, expected (batch, heads, tokens, head_dim)")
        handle = native.Handle()
        native.call("pack", codec.encode(), int(values), _at(x), x.shape[0], x.shape[1], x.shape[2], x.shape[3], ctypes.byref(handle))
        super().__init__(handle)
        self.shape, self.codec, self.values = x.shape, codec, values

    @property
    def nbytes(self) -> int:
        return native.lib.kvasir_packed_bytes(self.handle)

    def numpy(self) -> np.ndarray:
        """What is stored, as floats."""
        x = np.empty(self.shape, np.float32)
        native.call("unpack", self.handle, _at(x))
        return x


def attend(q, k: Packed, v: Packed, scale: float = 0.0) -> np.ndarray:
    """One query per query head, q (batch, query_heads, head_dim), over all tokens: (batch, query_heads, head_dim_v)."""
    q = np.ascontiguousarray(q, dtype=np.float32)
    if q.ndim != 3 or q.shape[0] != k.shape[0] or q.shape[2] != k.shape[3]:
        raise native.BadInput(f"q: has shape {q.shape}, expected ({k.shape[0]}, query_heads, {k.shape[3]})")
    out = np.empty((q.shape[0], q.shape[1], v.shape[3]), np.float32)
    native.call("attend", _at(q), q.shape[1], k.handle, v.handle, scale, _at(out), None)
    return out
