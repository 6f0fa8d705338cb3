"""KIVI's arrays and cache (Liu et al. 2024, arXiv 2402.02750), for code that was written for them.

The quantiser: s = (max - min) / (2^bits - 1), code = round((x - min) / s), half to even; keys in groups of tokens within
a channel, values in groups of channels within a token; scales and minima in float16, codes packed with the first one in
the lowest bits. `kvasir.hf.KvasirCache(bits=2)` is what attends on such numbers; this is for export and comparison, and
`model_cache` for group sizes and schedules that packed attention does not have.
"""

from __future__ import annotations

import numpy as np

from ._native import BadInput, Error, Unsupported


def _numpy(x) -> tuple[np.ndarray, object]:
    """x as float32, and what turns results into x's own kind of array."""
    if type(x).__module__.startswith("torch"):
        import torch

        return x.detach().to("cpu", torch.float32).numpy(), torch.from_numpy
    return np.asarray(x, np.float32), lambda y: y


def _quantize(x: np.ndarray, group: int, bits: int, kind=np.float16) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Groups along the last axis n: codes (..., n * bits / 8) of bytes, s and minima (..., n / group) of `kind`."""
    if bits not in (2, 4, 8):
        raise BadInput(f"bits: {bits}, expected 2, 4 or 8")
    if group < 4 or group % 4 or x.shape[-1] % group:
        raise BadInput(f"group_size: {group}, expected a multiple of 4 that divides {x.shape[-1]}")
    if not np.isfinite(x).all():
        raise BadInput("x: holds a number that is not finite")
    top = 2**bits - 1
    g = x.reshape(*x.shape[:-1], -1, group)
    low = g.min(-1).astype(kind)
    scale = ((g.max(-1) - g.min(-1)) / top).astype(kind)
    s, m = scale.astype(np.float32)[..., None], low.astype(np.float32)[..., None]
    codes = np.where(s > 0, np.clip(np.rint((g - m) / np.where(s > 0, s, 1)), 0, top), 0).astype(np.uint8)
    each = 8 // bits
    codes = codes.reshape(*x.shape[:-1], -1, each)
    packed = np.zeros(codes.shape[:-1], np.uint8)
    for i in range(each):
        packed |= codes[..., i] << (bits * i)
    return packed, scale, low


def _dequantize(packed: np.ndarray, scale: np.ndarray, low: np.ndarray, group: int, bits: int) -> np.ndarray:
    each = 8 // bits
    codes = np.stack([(packed >> (bits * i)) & (2**bits - 1) for i in range(each)], -1)
    codes = codes.reshape(*packed.shape[:-1], -1, group).astype(np.float32)
    if codes.shape[:-1] != scale.shape or scale.shape != low.shape:
        raise BadInput(f"scales: have shape {scale.shape}, expected {codes.shape[:-1]}")
    x = codes * scale.astype(np.float32)[..., None] + low.astype(np.float32)[..., None]
    return x.reshape(*x.shape[:-2], -1)


def quantize_keys(x, group_size: int = 32, bits: int = 2):
    """x [B, H, S, D], S a multiple of group_size: codes [B, H, D, S * bits / 8], scales and minima [B, H, D, S / group]."""
    x, back = _numpy(x)
    if x.ndim != 4:
        raise BadInput(f"x: has shape {x.shape}, expected [B, H, S, D]")
    return tuple(back(y) for y in _quantize(np.ascontiguousarray(x.transpose(0, 1, 3, 2)), group_size, bits))


def dequantize_keys(codes, scales, minima, group_size: int = 32, bits: int = 2):
    """Back to [B, H, S, D]."""
    back = _numpy(scales)[1]
    x = _dequantize(np.asarray(codes), np.asarray(scales), np.asarray(minima), group_size, bits)
    return back(np.ascontiguousarray(x.transpose(0, 1, 3, 2)))


def quantize_values(x, group_size: int = 32, bits: int = 2):
    """x [B, H, S, D], D a multiple of group_size: codes [B, H, S, D * bits / 8], scales and minima [B, H, S, D / group]."""
    x, back = _numpy(x)
    if x.ndim != 4:
        raise BadInput(f"x: has shape {x.shape}, expected [B, H, S, D]")
    return tuple(back(y) for y in _quantize(x, group_size, bits))


def dequantize_values(codes, scales, minima, group_size: int = 32, bits: int = 2):
    """Back to [B, H, S, D]."""
    back = _numpy(scales)[1]
    return back(_dequantize(np.asarray(codes), np.asarray(scales), np.asarray(minima), group_size, bits))


def _check_device(device) -> None:
    if device is not None and str(device) != "cpu":
        raise BadInput(f"device: '{device}', expected cpu or nothing: arrays are numpy's and attention runs on the CPU")


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
        """kv_heads: checked against what comes; None: not."""
        _check_device(device)
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
        self.count, self.kv_heads, self.schedule = layers, kv_heads, schedule
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
        arrays = [(_numpy(k)[0], _numpy(v)[0]) for k, v in pairs]
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
            layer.keys.append(quantize_keys(layer.raw_k[:, :, first : first + self.group], self.group, self.bits))
        if keys:
            layer.raw_k = layer.raw_k[:, :, keys:].copy()
            layer.tokens_k += keys
            layer.flushes += keys // self.group
        if values:
            layer.values.append(quantize_values(layer.raw_v[:, :, :values], self.group, self.bits))
            layer.raw_v = layer.raw_v[:, :, values:].copy()
            layer.tokens_v += values

    def _quantize_all(self, layer: _KiviLayer) -> None:
        k, v = self._floats(layer)
        layer.keys = [_quantize(k, self.group, self.bits, np.float32)]
        layer.values = [_quantize(v, self.group, self.bits, np.float32)]
        layer.tokens_k = layer.tokens_v = k.shape[2]
        layer.raw_k, layer.raw_v = k[:, :, :0], v[:, :, :0]
        layer.flushes += 1

    def _floats(self, l: _KiviLayer) -> tuple[np.ndarray, np.ndarray]:
        of_keys = dequantize_values if self.schedule == "hf" else dequantize_keys
        keys = [of_keys(*g, self.group, self.bits) for g in l.keys]
        values = [dequantize_values(*g, self.group, self.bits) for g in l.values]
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
            store._append(self.held, _numpy(key_states)[0], _numpy(value_states)[0])
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
    other ones are unpacked at every step (`model_cache`). verbose: the answer is printed as it comes, and then what the cache takes.
    """
    from .hf import KvasirCache, as_argument

    _check_device(device)
    inputs = tokenizer(prompt, return_tensors="pt").to(model.device)
    if group_size == 32:
        cache = KvasirCache.from_model(model, bits=bits, residual=residual_length)
    elif group_size in (4, 8, 16, 64, 128) and bits in (2, 4) and _sizes(model)[1] % 16 == 0:
        cache = KvasirCache.from_model(
            model, codecs=f"int{bits}_channel:{group_size}/int{bits}_token:{group_size}", residual=residual_length)
    else:
        cache = model_cache(model, group_size=group_size, residual_length=residual_length, bits=bits)
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
