"""libkvasir through ctypes: the calls of kvasir.h with their types, and statuses as exceptions.

ctypes, not an extension module: one wheel serves every version of Python, calls release the GIL, and the C API is the
only boundary.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path


class Error(Exception):
    """What Kvasir cannot do; its text names the option, file or argument and what was expected."""


class BadInput(Error, ValueError):
    """The caller's argument, option or file is wrong."""


class IoError(Error, OSError):
    """The system refused a file or a connection."""


class NoMemory(Error, MemoryError):
    """A budget or the machine's memory does not allow it."""


class Unsupported(Error, NotImplementedError):
    """Well formed, but this build, machine or state cannot do it."""


class Cancelled(Error):
    """Somebody asked to stop."""


class Busy(Error):
    """The same call may succeed later."""


class InternalError(Error, RuntimeError):
    """A defect of the library."""


_ERRORS = {1: BadInput, 2: IoError, 3: NoMemory, 4: Unsupported, 5: Cancelled, 6: Busy}


def _find() -> str:
    """KVASIR_LIBRARY, else the library in this package, else the system's."""
    named = os.environ.get("KVASIR_LIBRARY")
    if named:
        return named
    here = Path(__file__).parent
    for name in ("libkvasir.so", "libkvasir.so.0", "libkvasir.dylib"):
        if (here / name).exists():
            return str(here / name)
    return "libkvasir.dylib" if sys.platform == "darwin" else "libkvasir.so.0"


try:
    lib = ctypes.CDLL(_find())
except OSError as e:
    raise ImportError(
        f"kvasir: libkvasir was not found ({e}); install this package with pip, or name the library in KVASIR_LIBRARY"
    ) from e

Handle = ctypes.c_void_p
Status = ctypes.c_int
OnText = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
OnProgress = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
Ids = ctypes.POINTER(ctypes.c_int32)
Floats = ctypes.POINTER(ctypes.c_float)
Doubles = ctypes.POINTER(ctypes.c_double)
_text, _size, _int, _i64, _out = ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int64, ctypes.POINTER
_sequence = ctypes.c_uint64


class Layer(ctypes.Structure):
    _fields_ = [
        ("kv_heads", ctypes.c_int32),
        ("query_heads", ctypes.c_int32),
        ("head_dim", ctypes.c_int32),
        ("head_dim_v", ctypes.c_int32),
        ("window", ctypes.c_int64),
    ]


class Rows(ctypes.Structure):
    _fields_ = [("begin", ctypes.c_int64), ("values", Floats), ("count", ctypes.c_size_t)]


class Image(ctypes.Structure):
    _fields_ = [("data", ctypes.c_char_p), ("size", ctypes.c_size_t)]


class KiviArrays(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int32) for name in ("values", "float32_scales", "bits", "group")),
        *((name, ctypes.c_int64) for name in ("heads", "tokens", "head_dim")),
        *((name, ctypes.c_void_p) for name in ("codes", "scales", "minima")),
    ]


class Slice(ctypes.Structure):
    _fields_ = [("sequence", ctypes.c_uint64), ("count", ctypes.c_int32), ("generated", ctypes.c_int32)]


# Handles go in as c_void_p: a plain int would be cut to 32 bits.
_CALLS = {
    "engine_open": [_text, _out(_text), OnProgress, Handle, _out(Handle)],
    "options": [_out(Handle)],
    "engine_info": [Handle, _out(Handle)],
    "engine_stats": [Handle, _out(Handle)],
    "engine_flush": [Handle],
    "engine_reset_cache": [Handle],
    "generate_batch": [Handle, _out(_text), _out(_size), _size, _out(_text), _out(Handle)],
    "rerank": [Handle, _text, _size, _out(_text), _out(_size), _size, _out(_text), _out(Doubles)],
    "embed": [Handle, _text, _size, _out(_text), _out(Floats), _out(_size)],
    "generate": [Handle, _text, _size, _out(_text), OnText, Handle, _out(Handle)],
    "generate_ids": [Handle, Ids, _size, _out(_text), OnText, Handle, _out(Handle)],
    "generate_rows": [Handle, Ids, _size, _out(Rows), _size, _out(_text), OnText, Handle, _out(Handle)],
    "generate_images": [Handle, _text, _size, _out(Image), _size, _out(_text), OnText, Handle, _out(Handle)],
    "rows_of": [Handle, Ids, _size, _out(Floats), _out(_size)],
    "chat": [Handle, _text, _text, _out(_text), OnText, Handle, _out(Handle)],
    "chat_prompt": [Handle, _text, _text, _out(Handle)],
    "warm": [Handle, _text, _size, _out(_text), _out(_i64)],
    "tokenize": [Handle, _text, _size, _int, _int, _out(Handle), _out(_size)],
    "detokenize": [Handle, Ids, _size, _out(Handle), _out(_size)],
    "session_open": [Handle, _text, _out(Handle)],
    "session_load": [Handle, _text, _out(Handle)],
    "session_save": [Handle, _text],
    "session_fork": [Handle, _out(Handle)],
    "session_append": [Handle, _text, _size],
    "session_append_ids": [Handle, Ids, _size],
    "session_truncate": [Handle, _i64],
    "session_generate": [Handle, _out(_text), OnText, Handle, _out(Handle)],
    "session_text": [Handle, _out(Handle), _out(_size)],
    "cache_open": [_out(Layer), _size, _out(_text), _out(Handle)],
    "cache_create": [Handle, _out(_sequence)],
    "cache_fork": [Handle, _sequence, _out(_sequence)],
    "cache_release": [Handle, _sequence],
    "cache_reset": [Handle],
    "cache_length": [Handle, _sequence, _out(_i64), _out(_i64)],
    "cache_truncate": [Handle, _sequence, _i64],
    "cache_begin": [Handle, _out(Slice), _size],
    "cache_attend": [Handle, ctypes.c_int32, Handle, Handle, Handle, Handle, ctypes.c_float, ctypes.c_float, Handle, Handle],
    "cache_commit": [Handle],
    "cache_abort": [Handle],
    "cache_save": [Handle, _sequence, _out(Handle), _out(_size)],
    "cache_restore": [Handle, _text, _size, _out(_sequence)],
    "cache_stats": [Handle, _out(Handle)],
    "pack": [_text, _int, Handle, ctypes.c_int32, ctypes.c_int32, _i64, ctypes.c_int32, _out(Handle)],
    "unpack": [Handle, Handle],
    "kivi_open": [_text, _out(Handle)],
    "kivi_quantize": [Handle, Handle, _out(KiviArrays)],
    "kivi_dequantize": [Handle, _out(KiviArrays), Handle],
    "kivi_multiply": [Handle, Handle, _i64, _out(KiviArrays), Handle],
    "attend": [Handle, ctypes.c_int32, Handle, Handle, ctypes.c_float, Handle, Handle],
}
for _name, _arguments in _CALLS.items():
    _f = getattr(lib, "kvasir_" + _name)
    _f.argtypes, _f.restype = _arguments, Status
for _name, _result in (("error", _text), ("version", _text)):
    _f = getattr(lib, "kvasir_" + _name)
    _f.argtypes, _f.restype = [], _result
for _name in ("free", "engine_close", "reply_free", "session_close", "cache_close", "packed_free", "kivi_close"):
    _f = getattr(lib, "kvasir_" + _name)
    _f.argtypes, _f.restype = [Handle], None
lib.kvasir_reply_json.argtypes, lib.kvasir_reply_json.restype = [Handle], _text
lib.kvasir_session_ids.argtypes, lib.kvasir_session_ids.restype = [Handle, _out(_size)], Ids
lib.kvasir_kivi_device.argtypes, lib.kvasir_kivi_device.restype = [Handle], _text
lib.kvasir_packed_bytes.argtypes, lib.kvasir_packed_bytes.restype = [Handle], _size


def call(name: str, *arguments) -> None:
    """Calls kvasir_<name>; a status that is not 0 becomes an exception with the library's text."""
    status = getattr(lib, "kvasir_" + name)(*arguments)
    if status:
        raise _ERRORS.get(status, InternalError)(lib.kvasir_error().decode("utf-8", "replace"))


def version() -> str:
    return lib.kvasir_version().decode()


def options(values: dict) -> ctypes.Array:
    """{"stop": ["a", "b"], "seed": 1, "tenant": None} as NAME=VALUE texts; None is left out."""
    texts = []
    for name, value in values.items():
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is None:
                continue
            if isinstance(one, bool):
                one = "true" if one else "false"
            text = f"{name}={one}"
            if "\0" in text:
                raise BadInput(f"{name}: holds a zero character")
            texts.append(text.encode())
    return (ctypes.c_char_p * (len(texts) + 1))(*texts, None)


def take_text(pointer: Handle, size: int | None = None) -> str:
    """The text at `pointer`, which is freed."""
    try:
        return (ctypes.string_at(pointer) if size is None else ctypes.string_at(pointer, size)).decode("utf-8", "replace")
    finally:
        lib.kvasir_free(pointer)


def ids_array(ids) -> ctypes.Array:
    ids = [int(i) for i in ids]
    for i in ids:
        if not -(2**31) <= i < 2**31:
            raise BadInput(f"ids: {i} is no token")
    return (ctypes.c_int32 * len(ids))(*ids)


class Owner:
    """Holds one handle of the library. A process that was forked off has no threads of the engine: calls say so."""

    _close = ""

    def __init__(self, handle: Handle):
        self._handle, self._pid = handle, os.getpid()

    @property
    def handle(self) -> Handle:
        if not getattr(self, "_handle", None):
            raise Error(f"this {type(self).__name__} is closed")
        if self._pid != os.getpid():
            raise Error(f"this {type(self).__name__} belongs to the process that made it; make one after the fork")
        return self._handle

    def close(self) -> None:
        """Frees it; calling it twice is fine."""
        handle, self._handle = getattr(self, "_handle", None), None
        if handle and self._pid == os.getpid():
            getattr(lib, "kvasir_" + self._close)(handle)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        try:
            self.close()
        except Exception:  # the interpreter ends
            pass
