"""The sequences of a batch behind kvasir.hf: what a model's layers hand over, and the step that is open."""

from __future__ import annotations

import torch

from . import _native as native
from .cache import KvCache, Layer

NAME = "kvasir"
_FEW = 16  # tokens of a step that count as generated: scores may be computed on packed bytes


class View:
    """Keys or values of one layer as the model sees them: a shape, and the way back to the cache."""

    def __init__(self, store: Store, layer: int, new: torch.Tensor, length: int):
        self.store, self.layer, self.new = store, layer, new
        self.shape = torch.Size((new.shape[0], new.shape[1], length, new.shape[3]))
        self.dtype, self.device = new.dtype, new.device

    def to(self, *_, **__) -> View:
        return self  # attention is computed on the CPU, wherever the model lies


class Mask:
    """A mask that nobody made yet: with a KvasirCache padding is all that is read of it, without one sdpa's is made."""

    ndim = 4

    def __init__(self, arguments: dict, parts=(), made=None):
        self.arguments, self.parts, self.made = arguments, parts, {} if made is None else made

    def __getitem__(self, part) -> Mask:
        return Mask(self.arguments, (*self.parts, part), self.made)

    def plain(self) -> bool:
        """Whether it is causal, or a window of that, but for padding."""
        return self.arguments.get("allow_is_causal_skip", True) and not self.arguments.get("use_vmap")

    def dense(self) -> torch.Tensor:
        """(batch, 1, queries, keys), True where a query sees a key."""
        mask = self._made(False)
        for part in self.parts:
            mask = mask[part]
        return mask

    def for_sdpa(self) -> torch.Tensor | None:
        """As sdpa would have it: None where causality says all."""
        return self.dense() if self.parts else self._made(self.arguments.get("allow_is_causal_skip", True))

    def _made(self, skip: bool) -> torch.Tensor | None:
        from transformers.masking_utils import sdpa_mask

        if skip not in self.made:  # once for all layers
            self.made[skip] = sdpa_mask(**{**self.arguments, "allow_is_causal_skip": skip})
        return self.made[skip]

    def padding(self) -> torch.Tensor | None:
        """(batch, keys), False for padding."""
        mask = self.arguments.get("attention_mask")
        return None if mask is None else mask.bool()


def _value(config, *names, default=None):
    for name in names:
        if getattr(config, name, None) is not None:
            return getattr(config, name)
    return default


def layers_of(config) -> list[Layer]:
    """One Layer per attention layer. Sizes are 0 where all layers are alike: the first tokens bring them."""
    count = _value(config, "num_hidden_layers", "n_layer", "num_layers", "n_layers")
    heads = _value(config, "num_attention_heads", "n_head", "num_heads", "n_heads")
    if not count or not heads:
        raise native.BadInput("config: has no number of layers or of attention heads")
    types = getattr(config, "layer_types", None) or ["full_attention"] * count
    for i, t in enumerate(types):
        if t not in ("full_attention", "sliding_attention"):
            raise native.Unsupported(f"config.layer_types[{i}]: '{t}', expected full_attention or sliding_attention")
    window = getattr(config, "sliding_window", None) or 0
    if window and getattr(config, "layer_types", None) is None:
        types = ["sliding_attention"] * count  # Mistral says it so
    each = list(getattr(config, "per_layer_config", None) or [config] * count)
    sizes = [(getattr(c, "num_key_value_heads", None) or 0, getattr(c, "head_dim", None) or 0) for c in each]
    alike = len(set(sizes)) == 1
    return [
        Layer(0 if alike else kv, getattr(c, "num_attention_heads", heads), 0 if alike else dim, window=window if t == "sliding_attention" else 0)
        for c, t, (kv, dim) in zip(each, types, sizes)
    ]


def shared_layers(config, count: int) -> set[int]:
    """The layers that attend to the keys and values of another one."""
    modes = getattr(config, "kv_sharing_modes", None)
    if modes is None:  # versions before it say it by a number
        shared = getattr(config, "num_kv_shared_layers", 0) or 0
        modes = [None] * (count - shared) + ["reuse"] * shared
    for i, mode in enumerate(modes):
        if mode not in (None, "store", "reuse"):
            raise native.Unsupported(f"config.kv_sharing_modes[{i}]: '{mode}', expected reuse, store or None")
    return {i for i, mode in enumerate(modes) if mode == "reuse"}


class Store:
    """The sequences of a batch in one KvCache, and the step that is open."""

    def __init__(self, config, options: dict):
        self.layers = layers_of(config)
        self.shared = shared_layers(config, len(self.layers))
        self.config, self.options = config, options
        self.cache: KvCache | None = None
        self.by_itself = False  # the model's layers come here without the attention function
        self.clear()

    def clear(self) -> None:
        self.rows: list[int] = []  # a sequence per row of the batch; 0: no token that is no padding came yet
        self.pads: list[int] = []  # of each row
        self.length = 0  # tokens seen by the model, padding included
        self.batch = 0
        self.left = 0  # layers that the open step has not attended
        self.begun = False
        if self.cache:
            self.cache.reset()

    # ---- sequences

    def _open(self, sequences: int) -> None:
        """A cache with room for so many sequences; what another one holds moves over."""
        tokens = self.options.get("max_tokens")
        tokens = tokens or _value(self.config, "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", default=4096)
        tokens = min(tokens, 131072)
        options = {**self.options, "max_sequences": sequences, "max_tokens": tokens * sequences, "step_tokens": tokens}
        old, self.cache = self.cache, KvCache(self.layers, **options)
        self.sequences = sequences
        if old:
            self.rows = [self.cache.restore(old.save(s)) if s else 0 for s in self.rows]
            old.close()

    def take(self, order: list[int]) -> None:
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
        if attention != NAME and not self.by_itself:
            raise native.Unsupported(
                f"the model attends by '{attention}', expected '{NAME}': make the cache by KvasirCache.from_model(model), or "
                f"call model.set_attn_implementation('{NAME}')"
            )
        if not self.cache:
            for l in self.layers:
                if l.head_dim == 0:
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

    def _seen(self, mask, window: int) -> torch.Tensor | None:
        """What is no padding, (batch, keys). Masks that are more than causality, windows and padding are refused."""
        length = self.length + self.new
        if mask is None:
            return None
        if isinstance(mask, Mask) and mask.plain():
            seen = mask.padding()
        elif window:
            raise native.Unsupported("attention_mask: masks of a model's own are not for layers with a window")
        else:
            dense = mask.dense() if isinstance(mask, Mask) else mask
            if dense.ndim != 4 or dense.shape[2] != self.new or dense.shape[3] < length:
                raise native.Unsupported(f"attention_mask: has shape {tuple(dense.shape)}, expected (batch, 1, {self.new}, {length})")
            if dense.dtype != torch.bool:
                dense = dense > torch.finfo(dense.dtype).min / 2
            dense = dense[:, 0, :, :length].cpu().expand(self.batch, -1, -1)
            seen = dense[:, -1]
            causal = torch.arange(length) <= torch.arange(self.length, length)[:, None]
            for row in range(self.batch):
                real = seen[row, self.length :]
                if not torch.equal(dense[row, real], (causal & seen[row])[real]):
                    raise native.Unsupported("attention_mask: is not causal but for padding (images, packed texts and trees are not)")
        if seen is not None and seen.shape[1] < length:
            raise native.BadInput(f"attention_mask: has {seen.shape[1]} tokens, expected {length}, the cache's and the new ones")
        return None if seen is None else seen[:, :length].cpu()

    def _begin(self, seen: torch.Tensor | None) -> None:
        """Opens the step. seen (batch, keys): what is no padding; None: all."""
        self.real, slices, rows, pads = [], [], list(self.rows), list(self.pads)
        for row in range(self.batch):
            kept = torch.arange(self.new)
            if seen is None and pads[row]:
                raise native.BadInput("attention_mask: is missing, but tokens before were padding")
            if seen is not None:
                if not torch.equal(seen[row, : self.length], torch.arange(self.length) >= pads[row]):
                    raise native.Unsupported("attention_mask: leaves out tokens that the cache holds, or takes in padding of before")
                kept = seen[row, self.length :].nonzero().flatten()
                if rows[row] and len(kept) < self.new or len(kept) and int(kept[0]) + len(kept) != self.new:
                    raise native.Unsupported("attention_mask: padding stands between or behind tokens, expected it on the left")
            pads[row] += self.new - len(kept)
            self.real.append(kept)
        if not any(len(kept) for kept in self.real):
            raise native.BadInput("attention_mask: every token of the step is padding")
        for row, kept in enumerate(self.real):
            if len(kept):
                rows[row] = rows[row] or self.cache.create()
                slices.append((rows[row], len(kept), self.length > 0 and self.new <= _FEW))
        self.rows, self.pads = rows, pads
        self.cache.begin(slices)
        self.begun = True

    def attend(self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask, **scoring) -> torch.Tensor:
        """q (B, H, n, d), k and v (B, KV, T, d), the T new tokens, and q of the last n of them; (B, n, H, dv)."""
        try:
            if not self.begun:
                self._begin(self._seen(mask, self.layers[layer].window))
                self.mask = mask
            elif mask is not self.mask and not (mask is None or isinstance(mask, Mask) and mask.plain()):  # plain ones differ in windows alone
                self._seen(mask, self.layers[layer].window)
            whole = all(len(kept) == self.new for kept in self.real)
            asked = q.shape[2]
            if asked < self.new:  # a model that needs the last tokens alone: the others' rows are computed for nothing
                q = torch.cat([q.new_zeros(*q.shape[:2], self.new - asked, q.shape[3]), q], 2)

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
        return out[:, self.new - asked :].to(q.device, q.dtype)
