"""Models of transformers whose layers attend by themselves, not by the attention interface: Falcon, BLOOM, MPT.

Their attention modules become subclasses that go to the cache when they are handed views' makers, a KvasirCache, and are
what they were without one.
"""

from __future__ import annotations

import sys

import torch

from . import _native as native
from ._hf_store import View

KNOWN = ("Falcon", "BLOOM", "MPT")


def _is_ours(cache) -> bool:
    return hasattr(cache, "store")


def _slopes(build, heads: int) -> torch.Tensor:
    """(heads): by how much ALiBi's bias of two neighbours differs, as the model's own function makes it."""
    bias = build(heads).float()
    return (bias[:, 0, 1] - bias[:, 0, 0]).contiguous()


def _attend(module, cache, q, k, v, mask, **scoring) -> torch.Tensor:
    """(batch, tokens, heads * head_dim)."""
    if module.training:
        raise native.Unsupported("dropout: expected a model in eval mode")
    key, value = cache.update(k, v, module.layer_idx)
    if not isinstance(key, View):
        raise native.InternalError("the cache handed out tensors")
    out = key.store.attend(module.layer_idx, q, key.new, value.new, mask, **scoring)
    return out.flatten(2)


def _falcon(base):
    source = sys.modules[base.__module__]

    class KvasirFalconAttention(base):
        def forward(self, hidden_states, alibi, attention_mask, position_ids=None, layer_past=None, use_cache=False,
                    output_attentions=False, position_embeddings=None, **kwargs):
            if not _is_ours(layer_past):
                return super().forward(hidden_states, alibi, attention_mask, position_ids, layer_past, use_cache,
                                       output_attentions, position_embeddings=position_embeddings, **kwargs)
            q, k, v = (x.transpose(1, 2) for x in self._split_heads(self.query_key_value(hidden_states)))
            scoring = {"scale": self.inv_norm_factor}
            if alibi is None:
                q, k = source.apply_rotary_pos_emb(q, k, *position_embeddings)
            else:  # its bias is scaled like the scores
                ones = torch.ones(1, 2, dtype=torch.long)
                slopes = _slopes(lambda n: source.build_alibi_tensor(ones, n, torch.float32), self.num_heads)
                scoring["slopes"] = (slopes * self.inv_norm_factor).numpy()
            return self.dense(_attend(self, layer_past, q, k, v, attention_mask, **scoring)), None

    return KvasirFalconAttention


def _bloom(base):
    source = sys.modules[base.__module__]

    class KvasirBloomAttention(base):
        def forward(self, hidden_states, residual, alibi, attention_mask, layer_past=None, *args, **kwargs):
            if not _is_ours(layer_past):
                return super().forward(hidden_states, residual, alibi, attention_mask, layer_past, *args, **kwargs)
            if self.pretraining_tp > 1 and self.slow_but_exact:
                raise native.Unsupported("config.slow_but_exact: products in slices of pretraining_tp are not supported here")
            q, k, v = self._reshape(self.query_key_value(hidden_states))
            slopes = _slopes(lambda n: source.build_alibi_tensor(torch.ones(1, 2), n, torch.float32), self.num_heads)
            out = _attend(self, layer_past, q, k, v, attention_mask, scale=self.inv_norm_factor, slopes=slopes.numpy())
            return source.dropout_add(self.dense(out), residual, self.hidden_dropout, self.training), None

    return KvasirBloomAttention


def _mpt(base):
    source = sys.modules[base.__module__]

    class KvasirMptAttention(base):
        def forward(self, hidden_states, position_bias, *args, **kwargs):
            # The cache's name differs by version, and so may its place.
            names = [n for n in ("cache", "past_key_values") if n in kwargs]
            cache = kwargs[names[0]] if names else args[0] if args else None
            if not _is_ours(cache):
                return super().forward(hidden_states, position_bias, *args, **kwargs)
            mask = kwargs.get("attention_mask", args[1] if len(args) > 1 else None)
            qkv = self.Wqkv(hidden_states)
            if self.clip_qkv:
                qkv = qkv.clamp(min=-self.clip_qkv, max=self.clip_qkv)
            q, k, v = (x.unflatten(2, (self.n_heads, self.head_dim)).transpose(1, 2) for x in qkv.chunk(3, dim=2))
            scoring = {"scale": self.softmax_scale}
            if position_bias is not None:
                scoring["slopes"] = _slopes(lambda n: source.build_mpt_alibi_tensor(n, 2), self.n_heads).numpy()
            mask = None if mask is None else ~mask  # True is what is not seen there
            return self.out_proj(_attend(self, cache, q, k, v, mask, **scoring)), None

    return KvasirMptAttention


_MAKERS = {"FalconAttention": _falcon, "BloomAttention": _bloom, "MptAttention": _mpt}
_made: dict[type, type] = {}


def convert(model) -> bool:
    """Makes the attention modules of a known model ones that know the cache. False: the model has none of them."""
    found = False
    for module in model.modules():
        kind = type(module)
        if kind in _made.values():
            found = True
        elif kind.__name__ in _MAKERS and kind.__module__.startswith("transformers.models."):
            if kind not in _made:
                _made[kind] = _MAKERS[kind.__name__](kind)
            module.__class__ = _made[kind]
            found = True
    return found
