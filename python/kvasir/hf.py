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

from . import _hf_models
from . import _native as native
from ._hf_store import NAME, Mask, Store, View


class _Layer(CacheLayerMixin):
    """What transformers asks of one layer; all layers are of one store."""

    is_croppable = True
    supports_early_init = False

    def __init__(self, store: Store, index: int):
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


def _attend_here(model) -> bool:
    """Makes the model attend by "kvasir". Returns whether by layers of its own; refuses those that are not known."""
    if _hf_models.convert(model):
        return True
    kind = type(model)
    compatible = getattr(kind, "_supports_attention_backend", True)
    for base in kind.__mro__:
        if base.__module__ != "transformers.modeling_utils":
            compatible = compatible or hasattr(sys.modules.get(base.__module__), "ALL_ATTENTION_FUNCTIONS")
    if not compatible:
        raise native.Unsupported(
            f"{kind.__name__}: attends by functions of its own, not by transformers' attention interface, so it cannot "
            f"attend to compressed pages; of such models {', '.join(_hf_models.KNOWN)} are known here"
        )
    model.set_attn_implementation(NAME)
    return False


def _keys_have_bias(model) -> bool:
    return any(name.endswith("k_proj.bias") and bool(x.count_nonzero()) for name, x in model.named_parameters())


class KvasirCache(Cache):
    """A cache of transformers with Kvasir's pages. Options: codecs, window or residual, sinks, max_tokens (of one row),
    threads, device.

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
        self.store = Store(config, options)
        super().__init__(layers=[_Layer(self.store, i) for i in range(len(self.store.layers))])

    @classmethod
    def from_model(cls, model, **options) -> KvasirCache:
        """For `model`, which attends by "kvasir" from then on; without this cache that is sdpa as before."""
        by_itself = _attend_here(model)
        if options.get("bits") == 4 and "codecs" not in options and _keys_have_bias(model):
            options.pop("bits")
            options["codecs"] = "kivi4"
        cache = cls(model.config, **options)
        cache.store.by_itself = by_itself
        # MPT's configurations say False, and then generate would hand all tokens over again at every step.
        for config in (model.config, getattr(model, "generation_config", None)):
            if getattr(config, "use_cache", None) is False:
                config.use_cache = True
        return cache

    def reset(self) -> None:
        super().reset()
        self.store.clear()

    def crop(self, tokens: int) -> None:
        """Negative: removes that many tokens. Positive: keeps the first ones. Exact, or Unsupported is raised."""
        self.store.crop(self.store.length + tokens if tokens <= 0 else min(tokens, self.store.length))

    def reorder_cache(self, beam_idx) -> None:
        self.store.take(beam_idx.tolist())

    def batch_repeat_interleave(self, repeats: int) -> None:
        self.store.take([i for i in range(len(self.store.rows)) for _ in range(repeats)])

    def batch_select_indices(self, indices) -> None:
        indices = torch.as_tensor(indices)
        self.store.take((indices.nonzero().flatten() if indices.dtype == torch.bool else indices).tolist())

    def stats(self) -> dict:
        """Tokens, sealed tokens, bits per number, and the bytes that the tokens of all rows take."""
        s = self.store.cache.stats() if self.store.cache else {"tokens": 0, "sealed_tokens": 0, "bytes_per_token": 0.0}
        raw = sum((l.head_dim + (l.head_dim_v or l.head_dim)) * l.kv_heads for l in self.store.layers)
        s["fp16_bytes"] = 2 * raw * s["tokens"]
        s["bytes"] = round(s["bytes_per_token"] * s["sealed_tokens"]) + 2 * raw * (s["tokens"] - s["sealed_tokens"])
        return s


class QuantizedCache(KvasirCache):
    """In place of transformers' class of this name, with its arguments: `from kvasir.hf import QuantizedCache`.

    quanto's and hqq's codes in groups within a token, on pages of 128 tokens that are compressed once. residual_length
    tokens stay raw at least, those of a prompt, too, and at most 127 more. The config's model attends by "kvasir" then.
    `kivi.model_cache(model, schedule="hf")` compresses when transformers does, for comparisons.
    """

    CODECS = {("quanto", 2): "int2_token", ("quanto", 4): "int4_token", **{("hqq", b): f"hqq{b}" for b in (2, 3, 4, 8)}}

    def __init__(self, backend: str, config, nbits: int | None = None, axis_key: int | None = None, axis_value: int | None = None,
                 q_group_size: int | None = None, residual_length: int | None = None):
        codec = self.CODECS.get((backend, 4 if nbits is None else nbits))
        if codec is None:
            known = ", ".join(f"{b} {n}" for b, n in self.CODECS)
            raise native.BadInput(f"backend '{backend}' with nbits {nbits}: expected one of {known}")
        group = 64 if q_group_size is None else q_group_size
        # quanto's axis 0 and hqq's axis 1 are groups within a token, which both recommend.
        within = 0 if backend == "quanto" else 1
        for name, axis in (("axis_key", axis_key), ("axis_value", axis_value)):
            if (0 if axis is None else axis) != within:
                raise native.Unsupported(
                    f"{name}: {0 if axis is None else axis} mixes tokens or heads with {backend}; expected {within}, groups within a token. "
                    "KvasirCache(config, codecs='kivi4') has scales by channel"
                )
        if getattr(config, "model_type", "") in ("falcon", "bloom", "mpt"):
            raise native.Unsupported("config: Falcon, BLOOM and MPT attend by themselves: KvasirCache.from_model(model) takes them")
        super().__init__(config, codecs=f"{codec}:{group}", residual=128 if residual_length is None else residual_length)
        self.store.config._attn_implementation = NAME


def attention(module, query, key, value, attention_mask, dropout=0.0, scaling=None, softcap=None, s_aux=None, **kwargs):
    """The attention function "kvasir": on views by the cache they came from, on tensors by sdpa."""
    if not isinstance(key, View):
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        if softcap is not None or s_aux is not None:
            raise native.Unsupported("without a KvasirCache: soft caps and sinks of attention are not for sdpa")
        mask = attention_mask.for_sdpa() if isinstance(attention_mask, Mask) else attention_mask
        return sdpa_attention_forward(module, query, key, value, mask, dropout=dropout, scaling=scaling, **kwargs)
    if dropout:
        raise native.Unsupported("dropout: expected a model in eval mode")
    scoring = {"scale": scaling or 0.0, "soft_cap": softcap or 0.0}
    if s_aux is not None:
        scoring["sinks"] = s_aux.detach().float().cpu().numpy()
    # A layer that shares keys has pages of its own here: the library attends once per layer and step.
    layer = module.layer_idx if getattr(module, "layer_idx", None) in key.store.shared else key.layer
    return key.store.attend(layer, query, key.new, value.new, attention_mask, **scoring), None


def mask(**arguments):
    """The mask function "kvasir": what a mask is made of, for attention() to choose."""
    return Mask(arguments)


AttentionInterface.register(NAME, attention)
AttentionMaskInterface.register(NAME, mask)
