"""Kvasir's cache for models of transformers: attention runs on the packed pages, in C++, on the CPU.

    model = AutoModelForCausalLM.from_pretrained(...)
    cache = kvasir.hf.KvasirCache.from_model(model, codecs="balanced")
    model.generate(**inputs, **kvasir.hf.as_argument(cache))

`update` returns views, not tensors: they carry the new keys and values to the attention function "kvasir", which hands
them to the cache and attends there. So nothing is unpacked to a tensor of the whole past, and memory stays at what the
codecs take. Padding on the left is left out of the cache.
"""

from __future__ import annotations

import inspect
import sys

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import Cache, CacheLayerMixin

from . import _native as native
from .cache import KvCache, Layer

NAME = "kvasir"
_FEW = 16  # tokens of a step that count as generated: scores may be computed on packed bytes


class View:
    """Keys or values of one layer as the model sees them: a shape, and the way back to the cache."""

    def __init__(self, store: _Store, layer: int, new: torch.Tensor, length: int):
        self.store, self.layer, self.new = store, layer, new
        self.shape = torch.Size((new.shape[0], new.shape[1], length, new.shape[3]))
        self.dtype, self.device = new.dtype, new.device


def _value(config, *names, default=None):
    for name in names:
        if getattr(config, name, None) is not None:
            return getattr(config, name)
    return default


def _layers(config) -> list[Layer]:
    """One Layer per attention layer of the model. Head sizes of keys and values are filled in by the first tokens."""
    count = _value(config, "num_hidden_layers", "n_layer", "num_layers", "n_layers")
    heads = _value(config, "num_attention_heads", "n_head", "num_heads")
    if not count or not heads:
        raise native.BadInput("config: has no number of layers or of attention heads")
    types = getattr(config, "layer_types", None) or ["full_attention"] * count
    for i, t in enumerate(types):
        if t not in ("full_attention", "sliding_attention"):
            raise native.Unsupported(f"config.layer_types[{i}]: '{t}', expected full_attention or sliding_attention")
    # Layers that read another layer's keys have no cache of their own.
    if getattr(config, "num_kv_shared_layers", 0):
        raise native.Unsupported("config.num_kv_shared_layers: layers that share keys and values are not supported here")
    window = getattr(config, "sliding_window", None) or 0
    if types == ["full_attention"] * count and window and getattr(config, "layer_types", None) is None:
        types = ["sliding_attention"] * count  # Mistral says it so
    return [Layer(0, heads, 0, window=window if t == "sliding_attention" else 0) for t in types]


class _Store:
    """The sequences of a batch in one KvCache, and the step that is open."""

    def __init__(self, config, options: dict):
        self.layers = _layers(config)
        self.config, self.options = config, options
        self.cache: KvCache | None = None
        self.clear()

    def clear(self) -> None:
        self.rows: list[int] = []  # a sequence per row of the batch; 0: no token that is no padding came yet
        self.pads: list[int] = []  # of each row
        self.length = 0  # tokens seen by the model, padding included
        self.batch = 0
        self.pending: dict[int, torch.Tensor] = {}  # real tokens of the open step, by row
        self.left = 0  # layers that the open step has not attended
        if self.cache:
            self.cache.reset()

    # ---- sequences

    def _open(self, sequences: int) -> None:
        """A cache with room for so many sequences; what another one holds moves over."""
        tokens = self.options.get("max_tokens") or _value(self.config, "max_position_embeddings", "n_positions", default=4096)
        tokens = min(tokens, 131072)
        options = {**self.options, "max_sequences": sequences, "max_tokens": tokens * sequences, "step_tokens": tokens}
        old, self.cache = self.cache, KvCache(self.layers, **options)
        self.sequences = sequences
        if old:
            self.rows = [self.cache.restore(old.save(s)) if s else 0 for s in self.rows]
            old.close()

    def _take(self, order: list[int]) -> None:
        """Row i becomes what row order[i] is."""
        if not self.rows:
            return
        for i in order:
            if not 0 <= i < len(self.rows):
                raise native.BadInput(f"indices: {i} is not one of {len(self.rows)} rows")
        if len(order) + len(self.rows) > self.sequences:
            self._open(len(order) + len(self.rows))
        rows, pads, free = [], [], set(self.rows) - {0}
        for i in order:
            s = self.rows[i]
            if s in free:  # the first to ask gets it, the others forks
                free.discard(s)
                rows.append(s)
            else:
                rows.append(self.cache.fork(s) if s else 0)
            pads.append(self.pads[i])
        for s in free:
            self.cache.release(s)
        self.rows, self.pads, self.batch = rows, pads, len(rows)

    def crop(self, length: int) -> None:
        if not 0 <= length <= self.length:
            raise native.BadInput(f"crop: {length} tokens, expected 0 to {self.length}")
        for row, s in enumerate(self.rows):
            if s:
                self.cache.truncate(s, max(0, length - self.pads[row]))
            self.pads[row] = min(self.pads[row], length)
        self.length = length

    # ---- steps

    def update(self, layer: int, k: torch.Tensor, v: torch.Tensor) -> tuple[View, View]:
        attention = getattr(self.config, "_attn_implementation", NAME)
        if attention != NAME:
            raise native.Unsupported(
                f"the model attends by '{attention}', expected '{NAME}': call model.set_attn_implementation('{NAME}') "
                "or make the cache by KvasirCache.from_model(model)"
            )
        if not self.cache:
            if any(l.head_dim == 0 for l in self.layers):
                # Layers of other sizes are not known before they came; models have one size.
                for l in self.layers:
                    l.kv_heads, l.head_dim, l.head_dim_v = k.shape[1], k.shape[3], v.shape[3]
            self._open(2 * k.shape[0])
        if self.left == 0:
            if self.length and k.shape[0] != self.batch:
                raise native.BadInput(f"the batch has {k.shape[0]} rows, the cache has {self.batch}")
            self.left, self.batch, self.new = len(self.layers), k.shape[0], k.shape[2]
            if not self.rows:
                self.rows, self.pads = [0] * self.batch, [0] * self.batch
            self.begun = False
        length = self.length + self.new
        return View(self, layer, k, length), View(self, layer, v, length)

    def _begin(self, mask: torch.Tensor | None) -> None:
        """Opens the step: mask (batch, all tokens), False for padding, or None."""
        self.real, slices = [], []
        for row in range(self.batch):
            kept = torch.arange(self.new)
            if mask is not None:
                seen = mask[row, -self.new :].bool().cpu()
                kept = seen.nonzero().flatten()
                if self.rows[row] and len(kept) < self.new or len(kept) and int(kept[0]) + len(kept) != self.new:
                    raise native.Unsupported("attention_mask: padding stands between or behind tokens, expected it on the left")
            self.pads[row] += self.new - len(kept)
            self.real.append(kept)
            if len(kept):
                self.rows[row] = self.rows[row] or self.cache.create()
                slices.append((self.rows[row], len(kept), self.length > 0 and self.new <= _FEW))
        if not slices:
            raise native.BadInput("attention_mask: every token of the step is padding")
        self.cache.begin(slices)
        self.begun = True

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask, **scoring) -> torch.Tensor:
        """q (B, H, T, d), k and v (B, KV, T, d): the new tokens; (B, T, H, dv)."""
        try:
            if not self.begun:
                self._begin(mask)
            whole = all(len(kept) == self.new for kept in self.real)

            def rows(x):  # (B, h, T, d) to (n, h, d) without padding
                x = x.detach().to("cpu", torch.float32).transpose(1, 2)
                return (x.reshape(-1, *x.shape[2:]) if whole else torch.cat([x[b, i] for b, i in enumerate(self.real)])).numpy()

            out = torch.from_numpy(self.cache.attend(layer, rows(q), rows(k), rows(v), **scoring))
        except BaseException:
            if self.begun:
                self.cache.abort()
                self.rows = [0] * self.batch  # an aborted step empties its sequences
                self.cache.reset()
                self.length, self.pads = 0, [0] * self.batch
            self.left = 0
            raise
        shape = (self.batch, self.new, q.shape[1], v.shape[3])
        if whole:
            out = out.reshape(shape)
        else:
            full, at = torch.zeros(shape), 0
            for b, kept in enumerate(self.real):
                full[b, kept] = out[at : at + len(kept)]
                at += len(kept)
            out = full
        self.left -= 1
        if self.left == 0:
            self.cache.commit()
            self.length += self.new
        return out.to(q.device, q.dtype)


class _Layer(CacheLayerMixin):
    """What transformers asks of one layer; all layers are of one store."""

    is_croppable = True
    supports_early_init = False

    def __init__(self, store: _Store, index: int):
        super().__init__()
        self.store, self.index = store, index
        self.is_sliding = store.layers[index].window > 0

    def lazy_initialization(self, key_states, value_states=None):
        self.is_initialized = True

    def update(self, key_states, value_states, *args, **kwargs):
        self.is_initialized = True
        return self.store.update(self.index, key_states, value_states)

    def get_mask_sizes(self, query_length, *args):
        n = query_length if isinstance(query_length, int) else query_length.numel()
        return self.store.length + n, 0

    def get_seq_length(self, *args):
        return self.store.length

    def get_max_length(self):
        return -1

    get_max_cache_shape = get_max_length

    @property
    def batch_size(self):
        return self.store.batch

    def reset(self):
        self.is_initialized = False


def as_argument(cache) -> dict:
    """`cache` by the name that this version of transformers has for it: past_key_values, which goes in 5.40, or cache.

    model.generate(**inputs, **as_argument(cache)) works on both sides of the change, and so does calling the model.
    """
    from transformers import GenerationMixin

    known = inspect.signature(GenerationMixin.prepare_inputs_for_generation).parameters
    return {"cache" if "cache" in known else "past_key_values": cache}


def of_output(output):
    """The cache in what a model returned, by either name."""
    cache = output.get("cache")
    return cache if cache is not None else output.get("past_key_values")


def _check_attention(model) -> None:
    """Refuses models that attend by functions of their own, which no cache of another kind can serve."""
    kind = type(model)
    compatible = getattr(kind, "_supports_attention_backend", True)
    for base in kind.__mro__:
        if base.__module__ != "transformers.modeling_utils":
            compatible = compatible or hasattr(sys.modules.get(base.__module__), "ALL_ATTENTION_FUNCTIONS")
    if not compatible:
        raise native.Unsupported(
            f"{kind.__name__}: attends by functions of its own, not by transformers' attention interface, so it cannot "
            "attend to compressed pages"
        )


def _keys_have_bias(model) -> bool:
    return any(name.endswith("k_proj.bias") and bool(x.count_nonzero()) for name, x in model.named_parameters())


class KvasirCache(Cache):
    """A cache of transformers with Kvasir's pages. Options: codecs, window, sinks, max_tokens (of one row), threads.

    `bits` names presets by their size: 16, 8 ("safe"), 4 ("balanced") or 2 ("kivi2"). With 4, from_model takes "kivi4"
    where a layer called k_proj has a bias: there single channels are far larger than the others, and it has scales by
    channel. Models that make keys together with queries (GPT-2) keep "balanced".
    """

    BITS = {16: "f16", 8: "safe", 4: "balanced", 2: "kivi2"}

    def __init__(self, config, *, bits: int | None = None, **options):
        if bits is not None:
            if bits not in self.BITS or "codecs" in options:
                raise native.BadInput(f"bits: {bits}, expected one of {sorted(self.BITS)} and no codecs besides")
            options["codecs"] = self.BITS[bits]
        options.setdefault("threads", torch.get_num_threads())
        config = config.get_text_config(decoder=True) if hasattr(config, "get_text_config") else config
        self.store = _Store(config, options)
        super().__init__(layers=[_Layer(self.store, i) for i in range(len(self.store.layers))])

    @classmethod
    def from_model(cls, model, **options) -> KvasirCache:
        """For `model`, which attends by "kvasir" from then on; without this cache that is sdpa as before."""
        _check_attention(model)
        if options.get("bits") == 4 and "codecs" not in options and _keys_have_bias(model):
            options.pop("bits")
            options["codecs"] = "kivi4"
        model.set_attn_implementation(NAME)
        return cls(model.config, **options)

    def reset(self) -> None:
        super().reset()
        self.store.clear()

    def crop(self, tokens: int) -> None:
        """Negative: removes that many tokens. Positive: keeps the first ones. Exact, or Unsupported is raised."""
        self.store.crop(self.store.length + tokens if tokens <= 0 else min(tokens, self.store.length))

    def reorder_cache(self, beam_idx) -> None:
        self.store._take(beam_idx.tolist())

    def batch_repeat_interleave(self, repeats: int) -> None:
        self.store._take([i for i in range(len(self.store.rows)) for _ in range(repeats)])

    def batch_select_indices(self, indices) -> None:
        indices = torch.as_tensor(indices)
        self.store._take((indices.nonzero().flatten() if indices.dtype == torch.bool else indices).tolist())

    def stats(self) -> dict:
        """Tokens, sealed tokens, bits per number, and the bytes that the tokens of all rows take."""
        s = self.store.cache.stats() if self.store.cache else {"tokens": 0, "sealed_tokens": 0, "bytes_per_token": 0.0}
        raw = sum((l.head_dim + (l.head_dim_v or l.head_dim)) * l.kv_heads for l in self.store.layers)
        s["fp16_bytes"] = 2 * raw * s["tokens"]
        s["bytes"] = round(s["bytes_per_token"] * s["sealed_tokens"]) + 2 * raw * (s["tokens"] - s["sealed_tokens"])
        return s


def attention(module, query, key, value, attention_mask, dropout=0.0, scaling=None, softcap=None, s_aux=None, **kwargs):
    """The attention function "kvasir": on views by the cache they came from, on tensors by sdpa."""
    if not isinstance(key, View):
        from transformers.integrations.sdpa_attention import sdpa_attention_forward
        from transformers.masking_utils import sdpa_mask

        if attention_mask is not None and attention_mask.ndim == 2:  # the mask of this module's function: of padding
            n, t = attention_mask.shape[1], query.shape[2]
            attention_mask = sdpa_mask(query.shape[0], t, n, q_offset=n - t, attention_mask=attention_mask.bool(),
                                       allow_is_causal_skip=False, device=query.device)
        if softcap is not None or s_aux is not None:
            raise native.Unsupported("without a KvasirCache: soft caps and sinks of attention are not for sdpa")
        return sdpa_attention_forward(module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs)
    if dropout:
        raise native.Unsupported("dropout: expected a model in eval mode")
    if attention_mask is not None and attention_mask.ndim != 2:
        raise native.Unsupported(f"attention_mask: has {attention_mask.ndim} dimensions, expected padding (batch, tokens)")
    scoring = {"scale": scaling or 0.0, "soft_cap": softcap or 0.0}
    if s_aux is not None:
        scoring["sinks"] = s_aux.detach().float().cpu().numpy()
    return key.store.attend(key.layer, query, key.new, value.new, attention_mask, **scoring), None


def padding_mask(batch_size, q_length, kv_length, *args, attention_mask=None, **kwargs):
    """The mask function "kvasir": what is padding, (batch, tokens). Causality and windows are the cache's."""
    if kwargs.get("use_vmap"):
        raise native.Unsupported("attention_mask: masks of a model's own (use_vmap) are not supported")
    return None if attention_mask is None else attention_mask[:, -kv_length:]


AttentionInterface.register(NAME, attention)
AttentionMaskInterface.register(NAME, padding_mask)
