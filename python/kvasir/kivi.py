"""KIVI's arrays and cache (Liu et al. 2024, arXiv 2402.02750), for code that was written for them.

The quantiser: s = (max - min) / (2^bits - 1), code = round((x - min) / s), half to even; keys in groups of tokens within
a channel, values in groups of channels within a token; scales and minima in float16, codes packed with the first one in
the lowest bits. `kvasir.hf.KvasirCache(bits=2)` is what attends on such numbers; this is for export and comparison, and
`model_cache` for group sizes and schedules that packed attention does not have.

`device` is where they are made: None or "cpu", or an OpenCL device: "xpu" (a GPU of Intel), "cuda" (of NVIDIA), "gpu",
"opencl:0" (`kvasir devices` lists them), also as torch.device; "sycl" with the plug-in that `./dev sycl` builds. All have
the same bits; a device that has others is refused when it is first used. Arrays come and go over the processor's memory.
"""

from __future__ import annotations

import ctypes
import os

import numpy as np

from . import _native as native
from ._native import BadInput, Error, Unsupported


def _array(x, kind=None) -> np.ndarray:
    if type(x).__module__.startswith("torch"):
        x = x.detach().cpu()
        x = (x if kind is None else x.float()).numpy()
    return np.ascontiguousarray(x, kind)


def _back(x):
    """What turns results into x's own kind of array, where x is."""
    if type(x).__module__.startswith("torch"):
        import torch

        return lambda y: torch.from_numpy(y).to(x.device)
    return lambda y: y


def _at(x: np.ndarray) -> native.Handle:
    return x.ctypes.data_as(native.Handle)


class _Maker(native.Owner):
    _close = "kivi_close"

    def __init__(self, device: str):
        handle = native.Handle()
        native.call("kivi_open", device.encode(), ctypes.byref(handle))
        super().__init__(handle)


_makers: dict[tuple[str, int], _Maker] = {}  # of this process: a fork has no device


def _maker(device) -> native.Handle:
    name = "cpu" if device is None else str(device)
    key = (name, os.getpid())
    if key not in _makers:
        _makers[key] = _Maker(name)
    return _makers[key].handle


def device_name(device=None) -> str:
    """The device that `device` stands for: "cpu", or what the driver calls it. Raises where there is none."""
    return native.lib.kvasir_kivi_device(_maker(device)).decode("utf-8", "replace")


def _arrays(values: bool, bits: int, group: int, sizes: tuple, codes, scales, minima) -> native.KiviArrays:
    """sizes: (B, H, S, D)."""
    b, h, s, d = sizes
    return native.KiviArrays(
        values, scales.dtype == np.float32, bits, group, b * h, s, d, codes.ctypes.data, scales.ctypes.data, minima.ctypes.data)


def _check(bits: int, group: int, lanes: int) -> None:
    if bits not in (2, 4, 8):
        raise BadInput(f"bits: {bits}, expected 2, 4 or 8")
    if group < 4 or group % 4 or lanes % group:
        raise BadInput(f"group_size: {group}, expected a multiple of 4 that divides {lanes}")


def _quantize(x, group: int, bits: int, kind=np.float16, *, values: bool = True, device=None):
    """x [B, H, S, D] as codes, scales and minima of `kind`; groups along D for values, along S else."""
    back, x = _back(x), _array(x, np.float32)
    if x.ndim != 4:
        raise BadInput(f"x: has shape {x.shape}, expected [B, H, S, D]")
    rows = x.shape[:3] if values else (*x.shape[:2], x.shape[3])
    lanes = x.shape[3] if values else x.shape[2]
    _check(bits, group, lanes)
    codes = np.empty((*rows, lanes * bits // 8), np.uint8)
    scales, minima = (np.empty((*rows, lanes // group), kind) for _ in range(2))
    to = _arrays(values, bits, group, x.shape, codes, scales, minima)
    native.call("kivi_quantize", _maker(device), _at(x), ctypes.byref(to))
    return tuple(back(y) for y in (codes, scales, minima))


def _held(codes, scales, minima, group: int, bits: int, values: bool) -> tuple[tuple, tuple]:
    """The arrays with their types, and [B, H, S, D] of what they hold."""
    codes, scales, minima = _array(codes), _array(scales), _array(minima)
    if codes.ndim != 4 or codes.dtype != np.uint8:
        raise BadInput(f"codes: are {codes.dtype} {codes.shape}, expected uint8 [B, H, {'S' if values else 'D'}, ...]")
    if bits not in (2, 4, 8):
        raise BadInput(f"bits: {bits}, expected 2, 4 or 8")
    b, h, depth, lanes = *codes.shape[:3], codes.shape[3] * 8 // bits
    _check(bits, group, lanes)
    kind = np.float16 if scales.dtype == np.float16 else np.float32
    for name, a in (("scales", scales), ("minima", minima)):
        if a.shape != (b, h, depth, lanes // group):
            raise BadInput(f"{name}: have shape {a.shape}, expected {(b, h, depth, lanes // group)}")
    arrays = codes, scales.astype(kind, copy=False), minima.astype(kind, copy=False)
    return arrays, (b, h, depth, lanes) if values else (b, h, lanes, depth)


def _dequantize(codes, scales, minima, group: int, bits: int, *, values: bool = True, device=None):
    back = _back(scales)
    arrays, sizes = _held(codes, scales, minima, group, bits, values)
    x = np.empty(sizes, np.float32)
    native.call("kivi_dequantize", _maker(device), ctypes.byref(_arrays(values, bits, group, sizes, *arrays)), _at(x))
    return back(x)


def _matmul(name: str, a, codes, scales, minima, group: int, bits: int, values: bool, device):
    back, a = _back(a), _array(a, np.float32)
    arrays, sizes = _held(codes, scales, minima, group, bits, values)
    b, h, depth, lanes = sizes if values else (*sizes[:2], sizes[3], sizes[2])
    if a.ndim != 4 or a.shape[0] != b or a.shape[3] != depth or h == 0 or a.shape[1] % h:
        raise BadInput(f"{name}: has shape {a.shape}, expected [{b}, a multiple of {h}, n, {depth}]")
    out = np.empty((*a.shape[:3], lanes), np.float32)
    rows = a.shape[1] // h * a.shape[2]
    native.call(
        "kivi_multiply", _maker(device), _at(a), rows, ctypes.byref(_arrays(values, bits, group, sizes, *arrays)), _at(out))
    return back(out)


def quantize_keys(x, group_size: int = 32, bits: int = 2, *, device=None):
    """x [B, H, S, D], S a multiple of group_size: codes [B, H, D, S * bits / 8], scales and minima [B, H, D, S / group]."""
    return _quantize(x, group_size, bits, values=False, device=device)


def dequantize_keys(codes, scales, minima, group_size: int = 32, bits: int = 2, *, device=None):
    """Back to [B, H, S, D]."""
    return _dequantize(codes, scales, minima, group_size, bits, values=False, device=device)


def matmul_keys(q, codes, scales, minima, group_size: int = 32, bits: int = 2, *, device=None):
    """q [B, Hq, n, D] times the keys that quantize_keys made, transposed: [B, Hq, n, S], without unpacking them to memory.

    Hq is a multiple of H; query head i reads head i / (Hq / H). Nothing is scaled.
    """
    return _matmul("q", q, codes, scales, minima, group_size, bits, False, device)


def quantize_values(x, group_size: int = 32, bits: int = 2, *, device=None):
    """x [B, H, S, D], D a multiple of group_size: codes [B, H, S, D * bits / 8], scales and minima [B, H, S, D / group]."""
    return _quantize(x, group_size, bits, device=device)


def dequantize_values(codes, scales, minima, group_size: int = 32, bits: int = 2, *, device=None):
    """Back to [B, H, S, D]."""
    return _dequantize(codes, scales, minima, group_size, bits, device=device)


def matmul_values(p, codes, scales, minima, group_size: int = 32, bits: int = 2, *, device=None):
    """p [B, Hq, n, S] times the values that quantize_values made: [B, Hq, n, D]. Heads as in matmul_keys."""
    return _matmul("p", p, codes, scales, minima, group_size, bits, True, device)


def _sizes(model) -> tuple[int, int]:
    """Layers and head size of a model of transformers."""
    c = model.config.get_text_config(decoder=True) if hasattr(model.config, "get_text_config") else model.config

    def value(*names):
        for n in names:
            if getattr(c, n, None):
                return getattr(c, n)
        raise BadInput(f"config: has none of {', '.join(names)}")

    head_dim = getattr(c, "head_dim", None) or value("hidden_size", "n_embd") // value("num_attention_heads", "n_head")
    return value("n_layer", "num_hidden_layers", "num_layers", "n_layers"), head_dim


class _KiviLayer:
    """One layer: quantised tokens, and raw ones behind them."""

    def __init__(self):
        self.keys: list[tuple] = []  # as the schedule takes them
        self.values: list[tuple] = []
        self.tokens_k = self.tokens_v = 0  # quantised
        self.raw_k = self.raw_v = None  # [B, H, r, D]
        self.flushes = 0


class KiviCache:
    """A history of keys and values in KIVI's format: keys and values of tokens older than the residual are quantised.

    Sizes are those of the arrays that are held. schedule says which tokens are quantised when, with R for
    residual_length and G for group_size:
      fifo   the oldest G keys and values as long as R are raw; G to R
      paper  KIVI's: keys R at once, when as many are raw; every value as soon as R are newer. R a multiple of G
      hf     QuantizedCache of transformers 5.24 with quanto on axis 0: what comes first as a whole, and all that there
             is again whenever R have come behind it. Groups of keys, too, are of channels of a token, and scales and
             minima float32, so that a model in float32 has the numbers that it has with transformers' class
    With fifo and paper, tokens are never quantised again.
    """

    SCHEDULES = ("fifo", "paper", "hf")

    def __init__(self, layers: int, head_dim: int, kv_heads: int | None = None, *, device=None, group_size: int = 32,
                 residual_length: int = 128, bits: int = 2, schedule: str = "fifo"):
        """kv_heads: checked against what comes; None: not. device: where groups are made and read, as of quantize_keys."""
        _maker(device)  # refused before the work
        if schedule not in self.SCHEDULES:
            raise BadInput(f"schedule: '{schedule}', expected one of {', '.join(self.SCHEDULES)}")
        if group_size < 4 or group_size % 4 or head_dim % group_size:
            raise BadInput(f"group_size: {group_size}, expected a multiple of 4 that divides head_dim, {head_dim}")
        least = 0 if schedule == "hf" else group_size
        if residual_length < least or (schedule == "paper" and residual_length % group_size):
            what = f"a multiple of group_size, {least}" if schedule == "paper" else f"at least {least}"
            raise BadInput(f"residual_length: {residual_length}, expected {what}")
        if layers < 1:
            raise BadInput(f"layers: {layers}, expected at least 1")
        self.group, self.residual, self.bits, self.head_dim = group_size, residual_length, bits, head_dim
        self.count, self.kv_heads, self.schedule, self.device = layers, kv_heads, schedule, device
        self.reset()

    @classmethod
    def from_model(cls, model, **options) -> KiviCache:
        return cls(*_sizes(model), **options)

    def reset(self) -> None:
        self._layers = [_KiviLayer() for _ in range(self.count)]

    def _held(self, layer: _KiviLayer) -> int:
        return layer.tokens_k + (0 if layer.raw_k is None else layer.raw_k.shape[2])

    @property
    def tokens(self) -> int:
        return self._held(self._layers[0])

    def add_tokens(self, past) -> int:
        """Takes what is new in `past`, a Cache of transformers or (keys, values) per layer, each [B, H, T, D] with all
        tokens so far. Returns how many are new; none is an error, and so is another batch."""
        if hasattr(past, "layers"):
            pairs = [(l.keys, l.values) for l in past.layers]
        elif hasattr(past, "key_cache"):  # transformers before 5
            pairs = list(zip(past.key_cache, past.value_cache))
        else:
            pairs = list(past)
        if len(pairs) != self.count:
            raise BadInput(f"past: has {len(pairs)} layers, expected {self.count}")
        arrays = [(_array(k, np.float32), _array(v, np.float32)) for k, v in pairs]
        for i, ((k, v), layer) in enumerate(zip(arrays, self._layers)):
            if k.ndim != 4 or k.shape[-1] != self.head_dim or k.shape[:3] != v.shape[:3] or k.shape[2] != arrays[0][0].shape[2]:
                raise BadInput(f"past, layer {i}: keys {k.shape} and values {v.shape}, expected [B, H, T, {self.head_dim}] of one length")
            if self.kv_heads and k.shape[1] != self.kv_heads:
                raise BadInput(f"past, layer {i}: {k.shape[1]} heads, expected kv_heads, {self.kv_heads}")
            if layer.raw_k is not None and layer.raw_k.shape[:2] != k.shape[:2]:
                raise BadInput(f"past, layer {i}: batch and heads {k.shape[:2]}, expected {layer.raw_k.shape[:2]}")
        new = arrays[0][0].shape[2] - self.tokens
        if new <= 0:
            raise BadInput(f"past: has {arrays[0][0].shape[2]} tokens, expected more than the {self.tokens} that are held")
        for (k, v), layer in zip(arrays, self._layers):
            self._append(layer, k[:, :, -new:], v[:, :, -new:])
            self._flush(layer)
        return new

    def _append(self, layer: _KiviLayer, k: np.ndarray, v: np.ndarray) -> None:
        layer.raw_k = k.copy() if layer.raw_k is None else np.concatenate([layer.raw_k, k], 2)
        layer.raw_v = v.copy() if layer.raw_v is None else np.concatenate([layer.raw_v, v], 2)

    def _flush(self, layer: _KiviLayer) -> None:
        """What the schedule takes leaves the residual. To be called after every step, which attends to it raw."""
        raw, total = layer.raw_k.shape[2], self._held(layer)
        if self.schedule == "hf":
            if layer.tokens_k == 0 or raw >= self.residual:
                self._quantize_all(layer)
            return
        if self.schedule == "paper":
            keys, values = raw // self.residual * self.residual, max(total - self.residual, 0) - layer.tokens_v
        else:
            keys = values = 0 if raw < self.residual else (raw - self.residual) // self.group * self.group + self.group
        for first in range(0, keys, self.group):
            layer.keys.append(quantize_keys(layer.raw_k[:, :, first : first + self.group], self.group, self.bits, device=self.device))
        if keys:
            layer.raw_k = layer.raw_k[:, :, keys:].copy()
            layer.tokens_k += keys
            layer.flushes += keys // self.group
        if values:
            layer.values.append(quantize_values(layer.raw_v[:, :, :values], self.group, self.bits, device=self.device))
            layer.raw_v = layer.raw_v[:, :, values:].copy()
            layer.tokens_v += values

    def _quantize_all(self, layer: _KiviLayer) -> None:
        k, v = self._floats(layer)
        layer.keys = [_quantize(k, self.group, self.bits, np.float32, device=self.device)]
        layer.values = [_quantize(v, self.group, self.bits, np.float32, device=self.device)]
        layer.tokens_k = layer.tokens_v = k.shape[2]
        layer.raw_k, layer.raw_v = k[:, :, :0], v[:, :, :0]
        layer.flushes += 1

    def _floats(self, l: _KiviLayer) -> tuple[np.ndarray, np.ndarray]:
        of_keys = dequantize_values if self.schedule == "hf" else dequantize_keys
        keys = [of_keys(*g, self.group, self.bits, device=self.device) for g in l.keys]
        values = [dequantize_values(*g, self.group, self.bits, device=self.device) for g in l.values]
        return np.concatenate([*keys, l.raw_k], 2), np.concatenate([*values, l.raw_v], 2)

    def get(self, layer: int) -> tuple[np.ndarray, np.ndarray]:
        """Keys and values of a layer as floats, [B, H, T, D]."""
        l = self._layers[layer]
        if l.raw_k is None:
            raise Error("the cache is empty")
        return self._floats(l)

    def get_full_cache(self):
        """A DynamicCache of transformers with everything as floats."""
        import torch
        from transformers import DynamicCache

        cache = DynamicCache()
        for i in range(self.count):
            k, v = self.get(i)
            cache.update(torch.from_numpy(k), torch.from_numpy(v), i)
        return cache

    def get_stats(self, layer: int = 0) -> dict:
        """Of a layer, but for total_flushes. quantized_tokens and residual_tokens are of keys; with the paper's schedule
        values have their own."""
        l = self._layers[layer]
        raw = 0 if l.raw_k is None else l.raw_k.shape[2]
        held = sum(a.nbytes for group in (*l.keys, *l.values) for a in group)
        held += 0 if l.raw_k is None else l.raw_k.nbytes + l.raw_v.nbytes
        elements = 0 if l.raw_k is None else 2 * l.raw_k.shape[0] * l.raw_k.shape[1] * self.head_dim * self._held(l)
        return {
            "total_tokens": self._held(l), "quantized_tokens": l.tokens_k, "residual_tokens": raw,
            "quantized_values": l.tokens_v, "residual_values": 0 if l.raw_v is None else l.raw_v.shape[2],
            "kivi_bytes": held, "fp16_bytes": 2 * elements, "fp32_bytes": 4 * elements,
            "compression": 4 * elements / held if held else 1.0, "total_flushes": sum(x.flushes for x in self._layers),
        }


def model_cache(model, **options):
    """A cache of transformers that holds a KiviCache and hands the model floats: any group size from 4, a residual that
    is exact to the token, and any of its schedules, for comparisons. The past is unpacked at every step; KvasirCache
    attends on packed bytes.

    Options are those of KiviCache. Beams, crop and models with sliding or shared layers are refused.
    """
    import torch
    from transformers.cache_utils import Cache, CacheLayerMixin

    config = model.config.get_text_config(decoder=True)
    if set(getattr(config, "layer_types", None) or ["full_attention"]) != {"full_attention"} or getattr(config, "sliding_window", None):
        raise Unsupported("model_cache: the model has layers that do not attend to all tokens; KvasirCache takes those with windows")
    store = KiviCache.from_model(model, **options)
    if config._attn_implementation == "kvasir":
        model.set_attn_implementation("sdpa")

    class Layer(CacheLayerMixin):
        is_sliding = False

        def __init__(self, index):
            super().__init__()
            self.index, self.held = index, store._layers[index]

        def lazy_initialization(self, *_):
            self.is_initialized = True

        def update(self, key_states, value_states, *_, **__):
            self.is_initialized = True
            store._append(self.held, _array(key_states, np.float32), _array(value_states, np.float32))
            k, v = store.get(self.index)  # what is new is still raw
            store._flush(self.held)
            return (torch.from_numpy(x).to(key_states.device, key_states.dtype) for x in (k, v))

        def get_seq_length(self, *_):
            return store._held(self.held)

        def get_mask_sizes(self, query, *_):
            return self.get_seq_length() + (query if isinstance(query, int) else query.numel()), 0

        def get_max_length(self):
            return -1

        get_max_cache_shape = get_max_length

        def refuse(self, *_):
            raise Unsupported("model_cache: rows and tokens are not rearranged; KvasirCache does that")

        crop = reorder_cache = batch_repeat_interleave = batch_select_indices = refuse

        def reset(self):
            store._layers[self.index] = self.held = _KiviLayer()

    cache = Cache(layers=[Layer(i) for i in range(store.count)])
    cache.stats = lambda: {  # of all layers, as KvasirCache has them
        "tokens": store.tokens, "bytes": sum(store.get_stats(i)["kivi_bytes"] for i in range(store.count)),
        "fp16_bytes": sum(store.get_stats(i)["fp16_bytes"] for i in range(store.count)),
    }
    return cache


def generate(model, tokenizer, prompt: str, max_new_tokens: int = 200, group_size: int = 32, residual_length: int = 128,
             device=None, temperature: float = 1.0, top_k: int | None = None, do_sample: bool = False, verbose: bool = False,
             *, bits: int = 2, **options) -> str:
    """prompt and answer of a model of transformers. Further options are those of model.generate.

    Groups of 4, 8, 16, 32, 64 and 128 attend on packed pages, of 128 tokens that residual_length tokens stand behind;
    other ones are unpacked at every step (`model_cache`). device, as of quantize_keys, keeps copies of the packed pages and
    attends to whole groups of eight there, with the same bits; with model_cache it makes and reads the groups. verbose: the answer is printed as it comes, and then what the cache takes.
    """
    from .hf import KvasirCache, as_argument

    inputs = tokenizer(prompt, return_tensors="pt").to(model.device)
    if group_size == 32:
        cache = KvasirCache.from_model(model, bits=bits, residual=residual_length, device=device)
    elif group_size in (4, 8, 16, 64, 128) and bits in (2, 4) and _sizes(model)[1] % 16 == 0:
        cache = KvasirCache.from_model(
            model, codecs=f"int{bits}_channel:{group_size}/int{bits}_token:{group_size}", residual=residual_length, device=device)
    else:
        cache = model_cache(model, group_size=group_size, residual_length=residual_length, bits=bits, device=device)
    if do_sample:
        options = {"temperature": temperature, **({} if top_k is None else {"top_k": top_k}), **options}
    options = {"do_sample": do_sample, "pad_token_id": tokenizer.eos_token_id, **options}
    if verbose:
        from transformers import TextStreamer

        options.setdefault("streamer", TextStreamer(tokenizer, skip_prompt=True))
    ids = model.generate(**inputs, **as_argument(cache), max_new_tokens=max_new_tokens, **options)
    if verbose:
        s = cache.stats()
        print(f"cache: {s['bytes']} bytes for {s['tokens']} tokens, {100 * s['bytes'] / s['fp16_bytes']:.0f} % of float16")
    return tokenizer.decode(ids[0], skip_special_tokens=True)
