"""python -m kvasir.benchmark MODEL: a model of transformers with its own cache and with Kvasir's, side by side.

Every row generates the same number of tokens from the same prompt: tokens/s of generation, bytes of the cache
(counted), and how many tokens agree with the first row, which is the model's own cache in float32. With --forced every
row is fed the first row's tokens, so that distributions can be compared: KL is what is lost per token, in nats.
Programs that generate by themselves, with the same weights, show their speed alone.
"""

from __future__ import annotations

import argparse
import statistics
import time


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m kvasir.benchmark", description=__doc__.split("\n")[0])
    parser.add_argument("model", help="folder or name of a model of transformers")
    parser.add_argument("--tokens", type=int, default=128, metavar="N", help="tokens to generate (%(default)s)")
    parser.add_argument("--prompt-tokens", type=int, default=512, metavar="N", help="tokens of the prompt (%(default)s)")
    parser.add_argument("--G", type=int, default=32, help="group size of kvasir.kivi's row of sizes (%(default)s)")
    parser.add_argument("--R", type=int, default=128, help="newest tokens that stay raw (%(default)s)")
    parser.add_argument("--repeat", type=int, default=3, metavar="N", help="runs, in turns; medians are shown (%(default)s)")
    parser.add_argument("--text", metavar="FILE", help="begin of the prompt (a sentence, repeated)")
    parser.add_argument("--codecs", default="f16,safe,balanced,kivi2", metavar="LIST",
                        help="presets, codecs or KEYS/VALUES of KvasirCache's rows, separated by commas (%(default)s)")
    parser.add_argument("--forced", action="store_true", help="feed every row the first row's tokens, and show the KL")
    parser.add_argument("--quantized", action="store_true",
                        help="also the compressed caches of others, where installed: transformers' QuantizedCache (quanto, hqq), "
                             "tiny-turboquant's TinyKVCache, and KVBoost with a cache of 8 bits, which generates by itself")
    o = parser.parse_args()
    for name in ("tokens", "prompt_tokens", "repeat"):
        if getattr(o, name) < 1:
            parser.error(f"argument --{name.replace('_', '-')}: {getattr(o, name)}, expected at least 1")

    from .kivi import KiviCache

    try:
        KiviCache(1, o.G, group_size=o.G, residual_length=o.R)
    except ValueError as e:
        parser.error(f"arguments --G {o.G} and --R {o.R}: {e}")

    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

    from .hf import KvasirCache, as_argument, of_output

    tokenizer = AutoTokenizer.from_pretrained(o.model)
    model = AutoModelForCausalLM.from_pretrained(o.model, dtype=torch.float32).eval()
    kivi = KiviCache.from_model(model, group_size=o.G, residual_length=o.R)  # refuses sizes before the work
    text = "The history of computing is a history of memory. Numbers are kept, moved and forgotten, line by line. "
    text = open(o.text, encoding="utf-8").read(16 * o.prompt_tokens) if o.text else text * (o.prompt_tokens // 8 + 1)
    ids = tokenizer(text, return_tensors="pt").input_ids[:, : o.prompt_tokens]

    def kvasir(**options):
        return lambda: KvasirCache.from_model(model, **options)

    def own():
        model.set_attn_implementation("sdpa")
        return DynamicCache(config=model.config)

    def quantized(backend, bits):
        def make():
            from transformers import QuantizedCache

            model.set_attn_implementation("sdpa")
            axis = 0 if backend == "quanto" else 1
            return QuantizedCache(backend, model.config, nbits=bits, axis_key=axis, axis_value=axis, residual_length=o.R)

        return make

    def tiny():
        from tiny_turboquant import TinyKVCache

        class Cache(TinyKVCache):
            # Version 0.18 does not know the keyword that transformers 5 passes here.
            def update(self, keys, values, layer, *_, **__):
                return super().update(keys, values, layer)

        model.set_attn_implementation("sdpa")
        return Cache(key_bits=4, value_bits=4, residual_len=o.R)

    rows = [("DynamicCache, float32", own)]
    rows += [(f"KvasirCache, {c}", kvasir(codecs=c, residual=o.R)) for c in o.codecs.split(",")]
    if o.quantized:
        rows += [(f"QuantizedCache, {b} 4 bits", quantized(b, 4)) for b in ("quanto", "hqq")]
        rows += [("tiny-turboquant, 4 bits", tiny)]

    base: list = []  # the first row's distributions, and its tokens
    base_tokens: list = []

    def run(make):
        """Tokens, seconds per step of generation, bytes, mean KL."""
        cache, steps, out, loss = make(), [], [], []
        first = o.forced and len(base) < o.tokens
        with torch.no_grad():
            logits = model(ids, **as_argument(cache), use_cache=True, logits_to_keep=1).logits[0, -1]
            for i in range(o.tokens):
                out.append(int(logits.argmax()))
                if first:
                    base.append(logits.float().log_softmax(-1))
                    base_tokens.append(out[-1])
                elif o.forced:
                    p = base[i]
                    loss.append(float((p.exp() * (p - logits.float().log_softmax(-1))).sum()))
                start = time.perf_counter()
                token = base_tokens[i] if o.forced else out[-1]
                logits = model(torch.tensor([[token]]), **as_argument(cache), use_cache=True).logits[0, -1]
                steps.append(time.perf_counter() - start)
        if isinstance(cache, KvasirCache):
            size = cache.stats()["bytes"]
        else:
            size = sum(held(x) for layer in cache.layers for x in vars(layer).values())
        return out, statistics.median(steps), size, statistics.fmean(loss) if loss else 0.0

    def held(x) -> int:
        """Bytes of a tensor, or of what a backend made of one."""
        if x is None:
            return 0
        if isinstance(x, (tuple, list)):
            return sum(held(y) for y in x)
        if isinstance(x, dict):
            return sum(held(y) for y in x.values())
        inner = [getattr(x, n, None) for n in ("_data", "_scale", "_shift")]
        if any(i is not None for i in inner):
            return sum(held(i) for i in inner)
        return x.numel() * x.element_size() if torch.is_tensor(x) else 0

    def kvboost() -> float:
        """Tokens/s of generation, the first token apart."""
        import contextlib
        import io

        from kvboost.engine import InferenceEngine

        model.set_attn_implementation("sdpa")
        with contextlib.redirect_stdout(io.StringIO()):
            engine = InferenceEngine(model=model, tokenizer=tokenizer, max_cache_bytes=2 << 30, kv_cache_bits=8)
            answer = engine.generate(tokenizer.decode(ids[0]), max_new_tokens=o.tokens)
        return (answer.generated_tokens - 1) / ((answer.total_ms - answer.ttft_ms) / 1000)

    results: dict[str, list] = {name: [] for name, _ in rows}
    for _ in range(o.repeat):
        for name, make in list(rows):
            try:
                results[name].append(run(make))
            except (ImportError, ValueError, RuntimeError) as e:
                print(f"{name}: left out: {e}")
                rows = [r for r in rows if r[0] != name]
    first, _, whole, _ = results[rows[0][0]][0]
    print(f"{o.model}: prompt {ids.shape[1]} tokens, {o.tokens} generated, {torch.get_num_threads()} threads, median of {o.repeat}")
    print(f"{'cache':32} {'tokens/s':>9} {'MB':>8} {'of float32':>11} {'equal tokens':>13}" + (f"{'KL':>10}" if o.forced else ""))
    for name, _ in rows:
        out, _, size, loss = results[name][0]
        seconds = statistics.median(r[1] for r in results[name])
        # Behind the first token that differs answers are different texts, unless tokens are forced.
        until = next((i for i, (a, b) in enumerate(zip(first, out)) if a != b), len(out))
        equal = sum(a == b for a, b in zip(first, out)) if o.forced else until
        shown = f"{loss:10.1e}" if o.forced else ""
        print(f"{name:32} {1 / seconds:9.1f} {size / 1e6:8.2f} {100 * size / whole:9.1f} % {equal:6d} of {len(out)}{shown}")

    def engine() -> float:
        from .engine import Engine

        e = Engine.from_pretrained(o.model, threads=torch.get_num_threads(), kv="balanced", ctx=ids.shape[1] + o.tokens + 1)
        return e.generate(ids[0].tolist(), max_new_tokens=o.tokens, temperature=0, ignore_eos=True).tokens_per_second

    # Programs of their own, with the same weights: speed alone.
    own_programs = [("kvasir.Engine, balanced", engine)] + ([("KVBoost, 8 bits", kvboost)] if o.quantized else [])
    for name, measure in own_programs:
        try:
            print(f"{name:32} {statistics.median(measure() for _ in range(o.repeat)):9.1f}")
        except (ImportError, ValueError, RuntimeError, TypeError, ZeroDivisionError) as e:
            print(f"{name}: left out: {e}")

    # Sizes of KIVI's own format on the same tokens.
    model.set_attn_implementation("sdpa")
    with torch.no_grad():
        past = of_output(model(ids, use_cache=True))
    kivi.add_tokens(past)
    s = kivi.get_stats()
    print(f"KIVI 2 bits, G {o.G}, R {o.R}, layer 0: {s['kivi_bytes']} bytes, {s['compression']:.2f}x of float32, {s['compression'] / 2:.2f}x of float16")


if __name__ == "__main__":
    main()
