"""Kvasir: language models with a compressed, reusable KV cache.

    import kvasir
    engine = kvasir.Engine.from_pretrained("model.gguf", cache_dir="cache")
    print(engine.generate("Once upon a time", max_new_tokens=64))

`kvasir.cache` is the cache alone (numpy), `kvasir.hf` the cache for models of transformers.
"""

from ._native import BadInput, Busy, Cancelled, Error, InternalError, IoError, NoMemory, Unsupported, version
from .engine import Engine, Generation, Session, options

__version__ = version()
__all__ = [
    "BadInput", "Busy", "Cancelled", "Engine", "Error", "Generation", "InternalError", "IoError", "NoMemory", "Session",
    "Unsupported", "options", "version",
]
