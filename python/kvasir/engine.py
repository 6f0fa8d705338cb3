"""A model that answers, and texts that grow with it."""

from __future__ import annotations

import asyncio
import base64
import ctypes
import io
import json
import os
import queue
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field

from . import _hub
from . import _native as native


@dataclass
class Generation:
    """An answer. Times are in milliseconds from the call."""

    text: str
    ids: list[int]
    finish: str  # "end", "stop", "length", "context", "cancelled", "nothing to choose"
    prompt_tokens: int
    seed: int  # gives the same answer again
    ttft_ms: float  # to the first token
    total_ms: float  # to the last one
    receipt: dict  # where each span of the prompt came from
    logprobs: list[dict] = field(default_factory=list)
    prompt: str | None = None  # where it was a text

    @property
    def tokens(self) -> int:
        """Tokens of the answer."""
        return len(self.ids)

    @property
    def kv_reuse_ratio(self) -> float:
        """Share of the prompt's tokens that were not computed."""
        return self.receipt["reused_tokens"] / self.prompt_tokens if self.prompt_tokens else 0.0

    @property
    def tokens_per_second(self) -> float:
        seconds = (self.total_ms - self.ttft_ms) / 1e3
        return (self.tokens - 1) / seconds if seconds > 0 else 0.0

    # KVBoost's names.
    @property
    def output_text(self) -> str:
        return self.text

    @property
    def generated_tokens(self) -> int:
        return self.tokens

    @property
    def tokens_per_sec(self) -> float:
        return self.tokens_per_second

    @property
    def cached_tokens(self) -> int:
        """Tokens of the prompt that were not computed."""
        return self.receipt["reused_tokens"]

    @property
    def mode(self) -> str:
        """What was done with the prompt: "baseline" (computed), "prefix_cache" (known from its beginning on) or
        "chunk_kv_reuse" (known text at another place was read, reuse="blend").
        """
        blended = (self.receipt.get("blend") or {}).get("relocated_tokens", 0) > 0
        return "chunk_kv_reuse" if blended else "prefix_cache" if self.cached_tokens else "baseline"

    def __str__(self) -> str:
        return self.text


def _generation(reply: native.Handle) -> Generation:
    try:
        r = json.loads(native.lib.kvasir_reply_json(reply))
    finally:
        native.lib.kvasir_reply_free(reply)
    first = 1e3 * r["first_token_seconds"]
    return Generation(
        r["text"], r["ids"], r["finish"], r["prompt_tokens"], r["seed"], first, first + 1e3 * r["generate_seconds"],
        r["receipt"], r["logprobs"],
    )


class _Listener:
    """Hands an answer's text to a function of Python; what it raises ends the answer and is raised by the call."""

    def __init__(self, on_text: Callable[[str], object] | None):
        self.error: BaseException | None = None

        def listen(text, size, _):
            try:
                return 1 if on_text(ctypes.string_at(text, size).decode("utf-8", "replace")) is False else 0
            except BaseException as e:
                self.error = e
                return 1

        self.call = native.OnText(listen) if on_text else ctypes.cast(None, native.OnText)

    def check(self) -> None:
        if self.error:
            raise self.error


def _request(options: dict, max_new_tokens: int | None) -> ctypes.Array:
    if max_new_tokens is not None:
        if "n_predict" in options:
            raise native.BadInput("max_new_tokens: n_predict is given too, expected one of them")
        options = {**options, "n_predict": max_new_tokens}
    if options.get("draft") in ([], ()):
        options = {**options, "draft": False}
    if isinstance(options.get("json_schema"), dict):
        options = {**options, "json_schema": json.dumps(options["json_schema"])}
    return native.options(options)


def options() -> dict[str, list[dict]]:
    """All options: {"engine": [...], "request": [...]}, each with name, type, expects, preset, unit and help.

    Those of "engine" are arguments of `Engine`, those of "request" of its calls.
    """
    text = native.Handle()
    native.call("options", ctypes.byref(text))
    return json.loads(native.take_text(text))


class _Bar:
    """Progress of loading on a terminal."""

    def __init__(self, wanted: bool | None):
        wanted = sys.stderr.isatty() if wanted is None else wanted
        self.shown = -1
        self.call = native.OnProgress(self._show) if wanted else ctypes.cast(None, native.OnProgress)

    def _show(self, done: int, total: int, _) -> None:
        percent = 100 * done // total if total else 100
        if percent != self.shown:
            self.shown = percent
            print(f"\rloading {percent:3d} %", end="\n" if percent == 100 else "", file=sys.stderr, flush=True)


class _Asks:
    """What Engine and Session share: one answer, its stream, and both for asyncio."""

    def _ask(self, prompt, options, listener) -> Generation:
        raise NotImplementedError

    def _generate(self, prompt, max_new_tokens, on_text, options) -> Generation:
        listener = _Listener(on_text)
        reply = self._ask(prompt, _request(options, max_new_tokens), listener)
        listener.check()
        reply.prompt = prompt if isinstance(prompt, str) else None
        return reply

    def _stream(self, prompt, max_new_tokens, options) -> Stream:
        return Stream(lambda hear: self._generate(prompt, max_new_tokens, hear, options))


class Stream:
    """An answer's text as it comes, for `for` and for `async for`. What leaves it, ends the answer.

    result: the whole Generation, once the text is over; None before.
    """

    def __init__(self, generate: Callable[[Callable[[str], bool]], Generation]):
        self.result: Generation | None = None
        self._pieces: queue.SimpleQueue = queue.SimpleQueue()
        self._left = threading.Event()
        pieces, left = self._pieces, self._left

        def run() -> None:  # without `self`, so that a stream nobody has any more is closed
            def hear(text: str) -> bool:
                pieces.put(text)
                return not left.is_set()

            try:
                pieces.put(generate(hear))
            except BaseException as e:
                pieces.put(e)

        self._thread = threading.Thread(target=run, daemon=True)  # from the first piece on

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        if self._left.is_set():
            raise StopIteration
        if not self._thread.ident:
            self._thread.start()
        piece = self._pieces.get()
        if isinstance(piece, str):
            return piece
        self.close()
        if isinstance(piece, BaseException):
            raise piece
        self.result = piece
        raise StopIteration

    def close(self) -> None:
        """Ends the answer, and waits until it has ended."""
        self._left.set()
        if self._thread.ident:
            self._thread.join()

    __del__ = close

    def __aiter__(self) -> AsyncIterator[str]:
        return self

    async def __anext__(self) -> str:
        try:
            piece = await asyncio.to_thread(next, self, None)
        except asyncio.CancelledError:
            self._left.set()
            raise
        if piece is None:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        await asyncio.to_thread(self.close)


class Engine(native.Owner, _Asks):
    """A model with its cache. Any number of threads may use it; give `running` to answer several at once.

    Options are those of ``kvasir serve``: threads, ctx, kv, running, ram_cache, cache_dir, tier, draft, reuse, select, ...
    """

    _close = "engine_close"

    def __init__(self, model, *, progress: bool | None = None, **options):
        """model: a GGUF file, a folder of Hugging Face, or a name of the Hub: "OWNER/REPO", "hf:OWNER/REPO:QUANT",
        "hf:OWNER/REPO/FILE.gguf", which huggingface_hub downloads (`pip install 'kvasir[hub]'`). progress: show the
        loading; None: on a terminal.
        """
        handle, bar = native.Handle(), _Bar(progress)
        native.call("engine_open", _hub.local(str(model), progress).encode(), native.options(options), bar.call, None, ctypes.byref(handle))
        super().__init__(handle)

    @classmethod
    def from_pretrained(cls, model, *, progress: bool | None = None, **options) -> Engine:
        """Engine(model, ...), by transformers' name."""
        return cls(model, progress=progress, **options)

    def info(self) -> dict:
        text = native.Handle()
        native.call("engine_info", self.handle, ctypes.byref(text))
        return json.loads(native.take_text(text))

    def stats(self) -> dict:
        """Tokens computed and reused since the start, and what the tiers hold; as of /v1/stats rates, batch, pool, drafts,
        selection and hit_share.
        """
        text = native.Handle()
        native.call("engine_stats", self.handle, ctypes.byref(text))
        return json.loads(native.take_text(text))

    def cache_stats(self) -> dict:
        """Of stats(): what prompts reused, what the pool of pages holds and what tiers do, in the words of /v1/stats."""
        s = self.stats()
        return {
            **{k: s[k] for k in ("prompt_tokens", "reused_tokens", "kv_bytes", "kv_budget", "pool", "tiers")},
            "hit_share": s["hit_share"] or 0.0,
        }

    def paged_stats(self) -> dict:
        """Of stats(): pages of the pool that are used, free and shared, and the share that is used."""
        return self.stats()["pool"]

    def speculative_stats(self) -> dict:
        """What drafts did since the start. histogram[n]: steps with draft tokens of which n were right."""
        d = self.stats()["drafts"]
        return {
            **d,
            "acceptance": d["accepted"] / d["drafted"] if d["drafted"] else 0.0,
            "tokens_per_step": d["tokens"] / d["steps"] if d["steps"] else 0.0,
        }

    def streaming_stats(self) -> dict | None:
        """What reading weights did since the start, in the words of /v1/stats: bytes_read, blocks, late (blocks that were
        waited for), stall_seconds, overlap (share of the reading that was hidden), ... None: all weights are in memory
        (`weights_memory` bounds them).
        """
        return self.stats().get("weights")

    def reset_cache(self) -> None:
        """Forgets everything that is kept; in `cache_dir` and `tier` also what other engines and models keep there."""
        native.call("engine_reset_cache", self.handle)

    def flush(self) -> None:
        """Everything that is kept is written to where it lasts."""
        native.call("engine_flush", self.handle)

    # ---- answers

    def _ask(self, prompt, options, listener) -> Generation:
        reply = native.Handle()
        if isinstance(prompt, _Messages):
            native.call("chat", self.handle, prompt.messages, prompt.tools, options, listener.call, None, ctypes.byref(reply))
        elif isinstance(prompt, _Pictured):
            text, files = prompt.text.encode(), prompt.files
            images = (native.Image * len(files))(*(native.Image(f, len(f)) for f in files))
            native.call(
                "generate_images", self.handle, text, len(text), images, len(files), options, listener.call, None, ctypes.byref(reply),
            )
        elif isinstance(prompt, str):
            text = prompt.encode()
            native.call("generate", self.handle, text, len(text), options, listener.call, None, ctypes.byref(reply))
        else:
            ids, rows = self._elements(prompt)
            native.call(
                "generate_rows", self.handle, ids, len(ids), (native.Rows * len(rows))(*rows), len(rows), options,
                listener.call, None, ctypes.byref(reply),
            )
        return _generation(reply)

    def _elements(self, prompt) -> tuple[ctypes.Array, list[native.Rows]]:
        """Ids with -1 in place of rows, and the rows."""
        ids, rows = [], []
        for item in prompt:
            if hasattr(item, "__index__"):
                ids.append(int(item))
                continue
            width = self.info()["width"]
            values = item.tolist() if hasattr(item, "tolist") else list(item)
            if not values or any(not isinstance(row, list) or len(row) != width for row in values):
                raise native.BadInput(f"rows: expected (n, {width}) numbers behind the first {len(ids)} elements of the prompt")
            flat = (ctypes.c_float * (len(values) * width))(*(x for row in values for x in row))
            rows.append(native.Rows(len(ids), flat, len(values)))
            ids += [-1] * len(values)
        return native.ids_array(ids), rows

    def rows_of(self, ids: Sequence[int]) -> list[list[float]]:
        """The model's rows of tokens, (len(ids), width), as they enter the first layer: see generate."""
        data, values, size = native.ids_array(ids), native.Floats(), ctypes.c_size_t()
        native.call("rows_of", self.handle, data, len(data), ctypes.byref(values), ctypes.byref(size))
        try:
            flat = values[: size.value]
        finally:
            native.lib.kvasir_free(values)
        width = self.info()["width"]
        return [flat[i : i + width] for i in range(0, len(flat), width)]

    def generate(self, prompt: str | Sequence[int], max_new_tokens: int | None = None, *, images: Sequence = (), on_text=None, **options) -> Generation:
        """Goes on from `prompt`, a text or token ids. on_text gets the text as it comes; False ends the answer.

        Among the ids may be arrays (n, width) of floats: rows that enter the first layer in place of n tokens, such as
        embeddings of another model, behind the embedding's factor. They are reused by their content.

        images: pictures (a file's name, its bytes, or a PIL image), each where the text says <image>, or all in front of it
        where it says that nowhere. The engine needs mmproj, the file of the model's encoder of pictures.

        Options (see kvasir.options()) are those of sampling (temperature, top_k, top_p, min_p, seed, ...) and stop (a text or a list), logprobs,
        logit_bias, json_schema (a dict), ignore_eos, prefix_tokens, add_bos, special, tenant; reuse (True: as the engine has it, False,
        "off", "exact", "blend") with blend_ratio and its like; select; lora ("NAME=0.5,OTHER" or
        "none": which of the engine's adapters add); draft (True: all of the engine's drafters, False, a
        name or a list of names).
        """
        return self._generate(_pictured(prompt, images), max_new_tokens, on_text, options)

    def generate_batch(self, prompts: Sequence[str], max_new_tokens: int | None = None, **options) -> list[Generation]:
        """The answers to `prompts`, in their order; `running` of them are computed together, each as it would be alone."""
        if isinstance(prompts, str) or not all(isinstance(p, str) for p in prompts):
            raise native.BadInput("prompts: expected a list of texts")
        texts = [p.encode() for p in prompts]
        n = len(texts)
        replies = (native.Handle * n)()
        sizes = (ctypes.c_size_t * n)(*map(len, texts))
        native.call("generate_batch", self.handle, (ctypes.c_char_p * n)(*texts), sizes, n, _request(options, max_new_tokens), replies)
        return [_generation(native.Handle(r)) for r in replies]

    def embed(self, text: str | Sequence[str], **options) -> list[float] | list[list[float]]:
        """The vector of a text, or those of a list of texts. Options: pooling ("mean", "cls", "last"), dimensions, raw."""
        if not isinstance(text, str):
            return [self.embed(t, **options) for t in text]
        data, vector, count = text.encode(), native.Floats(), ctypes.c_size_t()
        native.call("embed", self.handle, data, len(data), native.options(options), ctypes.byref(vector), ctypes.byref(count))
        try:
            return vector[: count.value]
        finally:
            native.lib.kvasir_free(vector)

    def rerank(self, query: str, documents: Sequence[str], *, top_n: int | None = None, raw: bool = False) -> list[dict]:
        """Documents by how well they answer `query`, the best first: {"index", "relevance_score"} as of /v1/rerank.

        For models that write and have a head that ranks (cls.output.weight). raw: the head's first score itself.
        """
        if isinstance(documents, str) or not all(isinstance(d, str) for d in documents):
            raise native.BadInput("documents: expected a list of texts")
        question, texts, scores = query.encode(), [d.encode() for d in documents], native.Doubles()
        n = len(texts)
        native.call("rerank", self.handle, question, len(question), (ctypes.c_char_p * n)(*texts), (ctypes.c_size_t * n)(*map(len, texts)),
                    n, native.options({"raw": raw}), ctypes.byref(scores))  # fmt: skip
        try:
            ranked = sorted(({"index": i, "relevance_score": s} for i, s in enumerate(scores[:n])), key=lambda r: -r["relevance_score"])
        finally:
            native.lib.kvasir_free(scores)
        return ranked[:top_n]

    def stream(self, prompt: str | Sequence[int], max_new_tokens: int | None = None, *, images: Sequence = (), **options) -> Stream:
        """The answer's text as it comes, for `for` and for `async for`. Closing it ends the answer."""
        return self._stream(_pictured(prompt, images), max_new_tokens, options)

    def chat(self, messages: list[dict], max_new_tokens: int | None = None, *, tools: list | None = None, on_text=None, **options) -> Generation:
        """messages as OpenAI's API has them, put into the model's own chat template.

        A content may be a list of parts: {"type": "text", "text": ...}, and pictures, {"type": "image", "image": ...} with a
        file's name, its bytes or a PIL image, or {"type": "image_url", "image_url": {"url": "data:..."}};
        and sounds, {"type": "audio", "audio": ...} with a file's name or its bytes.
        """
        return self._generate(_Messages(messages, tools), max_new_tokens, on_text, options)

    def stream_chat(self, messages: list[dict], max_new_tokens: int | None = None, *, tools: list | None = None, **options) -> Stream:
        return self._stream(_Messages(messages, tools), max_new_tokens, options)

    def chat_prompt(self, messages: list[dict], tools: list | None = None) -> str:
        """The text that chat() asks."""
        m, text = _Messages(messages, tools), native.Handle()
        native.call("chat_prompt", self.handle, m.messages, m.tools, ctypes.byref(text))
        return native.take_text(text)

    async def agenerate(self, prompt, max_new_tokens: int | None = None, **options) -> Generation:
        return await asyncio.to_thread(self.generate, prompt, max_new_tokens, **options)

    async def achat(self, messages: list[dict], max_new_tokens: int | None = None, **options) -> Generation:
        return await asyncio.to_thread(self.chat, messages, max_new_tokens, **options)

    def astream(self, prompt, max_new_tokens: int | None = None, **options) -> Stream:
        return self.stream(prompt, max_new_tokens, **options)

    # ---- the cache

    def warm(self, prompt: str, **options) -> int:
        """Computes a prompt and keeps it; returns its tokens."""
        text, tokens = prompt.encode(), ctypes.c_int64()
        native.call("warm", self.handle, text, len(text), native.options(options), ctypes.byref(tokens))
        return tokens.value

    def verify_correctness(self, prompt: str | Sequence[int] | Sequence[str], max_new_tokens: int = 32, **options) -> dict:
        """Answers with and without reuse, compared bit for bit by ids and log-probabilities.

        `reused_tokens` of 0 means that nothing was put to the test: the prompt is shorter than a page, or there is no
        cache. Of a list of prompts `prompts` has the report of each, and the rest is about all of them.
        """
        if not isinstance(prompt, str) and len(prompt) > 0 and not isinstance(prompt[0], int):
            reports = [self.verify_correctness(p, max_new_tokens, **options) for p in prompt]
            total = {k: sum(r[k] for r in reports) for k in ("tokens", "equal_tokens", "reused_tokens", "cold_ttft_ms", "warm_ttft_ms")}
            return {"equal": all(r["equal"] for r in reports), **total, "prompts": reports}
        options = {"temperature": 0, **options, "logprobs": True}
        cold = self.generate(prompt, max_new_tokens, **{**options, "reuse": False})
        self.generate(prompt, max_new_tokens, **options)  # what it computes is kept
        warm = self.generate(prompt, max_new_tokens, **options)
        same = sum(1 for a, b in zip(cold.logprobs, warm.logprobs) if a == b)
        return {
            "equal": cold.ids == warm.ids and cold.logprobs == warm.logprobs,
            "tokens": cold.tokens,
            "equal_tokens": same,
            "reused_tokens": warm.receipt["reused_tokens"],
            "cold_ttft_ms": cold.ttft_ms,
            "warm_ttft_ms": warm.ttft_ms,
        }

    def session(self, text: str = "", tenant: str = "") -> Session:
        session = Session(self, tenant=tenant)
        if text:
            session.append(text)
        return session

    # ---- text and tokens

    def tokenize(self, text: str, *, add_bos: bool = False, special: bool = True) -> list[int]:
        data, ids, count = text.encode(), native.Handle(), ctypes.c_size_t()
        native.call("tokenize", self.handle, data, len(data), add_bos, special, ctypes.byref(ids), ctypes.byref(count))
        try:
            return ctypes.cast(ids, native.Ids)[: count.value]
        finally:
            native.lib.kvasir_free(ids)

    def detokenize(self, ids: Sequence[int]) -> str:
        array, text, size = native.ids_array(ids), native.Handle(), ctypes.c_size_t()
        native.call("detokenize", self.handle, array, len(array), ctypes.byref(text), ctypes.byref(size))
        return native.take_text(text, size.value)


@dataclass
class _Pictured:
    text: str
    files: list[bytes]


def _pictured(prompt, images):
    if not images:
        return prompt
    if not isinstance(prompt, str):
        raise native.BadInput("images: expected a text as the prompt")
    return _Pictured(prompt, [_image_bytes(i) for i in images])


def _file_bytes(file, what: str) -> bytes:
    if isinstance(file, (bytes, bytearray, memoryview)):
        return bytes(file)
    if isinstance(file, (str, os.PathLike)):
        with open(file, "rb") as opened:
            return opened.read()
    raise native.BadInput(f"{what}: expected the name of a file or bytes, found {type(file).__name__}")


def _image_bytes(image) -> bytes:
    """The bytes of a picture's file."""
    if isinstance(image, (bytes, bytearray, memoryview, str, os.PathLike)):
        return _file_bytes(image, "image")
    if hasattr(image, "save"):  # of PIL
        file = io.BytesIO()
        image.save(file, "PNG")
        return file.getvalue()
    raise native.BadInput(f"image: expected the name of a file, bytes or a PIL image, found {type(image).__name__}")


def _with_urls(message):
    """Pictures in its parts as data: URLs, sounds as input_audio."""
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, list):
        return message
    def part(p):
        if isinstance(p, dict) and p.get("type") == "audio" and "audio" in p:
            return {"type": "input_audio", "input_audio": {"data": base64.b64encode(_file_bytes(p["audio"], "audio")).decode()}}
        if not isinstance(p, dict) or p.get("type") != "image" or "image" not in p:
            return p
        return {"type": "image_url", "image_url": {"url": "data:image/*;base64," + base64.b64encode(_image_bytes(p["image"])).decode()}}
    return {**message, "content": [part(p) for p in content]}


class _Messages:
    def __init__(self, messages, tools):
        self.messages = json.dumps([_with_urls(m) for m in messages]).encode()
        self.tools = json.dumps(tools).encode() if tools else None


class Session(native.Owner, _Asks):
    """A text that grows: what was appended and generated. Copies (fork) are cheap, the pages are the engine's."""

    _close = "session_close"

    def __init__(self, engine: Engine, *, tenant: str = "", _handle: native.Handle | None = None):
        if _handle is None:
            _handle = native.Handle()
            native.call("session_open", engine.handle, tenant.encode(), ctypes.byref(_handle))
        super().__init__(_handle)
        self.engine = engine  # outlives this

    @classmethod
    def load(cls, engine: Engine, path) -> Session:
        handle = native.Handle()
        native.call("session_load", engine.handle, str(path).encode(), ctypes.byref(handle))
        return cls(engine, _handle=handle)

    def save(self, path) -> None:
        native.call("session_save", self.handle, str(path).encode())

    def fork(self) -> Session:
        handle = native.Handle()
        native.call("session_fork", self.handle, ctypes.byref(handle))
        return Session(self.engine, _handle=handle)

    def append(self, text: str | Sequence[int]) -> None:
        if isinstance(text, str):
            data = text.encode()
            native.call("session_append", self.handle, data, len(data))
        else:
            ids = native.ids_array(text)
            native.call("session_append_ids", self.handle, ids, len(ids))

    def truncate(self, tokens: int) -> None:
        native.call("session_truncate", self.handle, tokens)

    def _ask(self, _, options, listener) -> Generation:
        reply = native.Handle()
        native.call("session_generate", self.handle, options, listener.call, None, ctypes.byref(reply))
        return _generation(reply)

    def generate(self, max_new_tokens: int | None = None, *, on_text=None, **options) -> Generation:
        """Goes on from what is there; the answer becomes part of it."""
        return self._generate(None, max_new_tokens, on_text, options)

    def stream(self, max_new_tokens: int | None = None, **options) -> Stream:
        return self._stream(None, max_new_tokens, options)

    @property
    def ids(self) -> list[int]:
        count = ctypes.c_size_t()
        ids = native.lib.kvasir_session_ids(self.handle, ctypes.byref(count))
        return ids[: count.value] if count.value else []

    @property
    def text(self) -> str:
        text, size = native.Handle(), ctypes.c_size_t()
        native.call("session_text", self.handle, ctypes.byref(text), ctypes.byref(size))
        return native.take_text(text, size.value)

    def __len__(self) -> int:
        return len(self.ids)
