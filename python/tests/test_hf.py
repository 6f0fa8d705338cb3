"""KvasirCache with tiny random models of transformers; nothing is downloaded."""

import contextlib
import copy
import io
import unittest
import warnings

try:
    import numpy as np
    import torch
    from transformers import DynamicCache, QuantizedCache, Gemma2Config, GPT2Config, LlamaConfig, MistralConfig, Qwen2Config
    from transformers import AutoModelForCausalLM, BatchEncoding
    from transformers.cache_utils import Cache, QuantizedLayer
    from transformers.utils import is_optimum_quanto_available

    import kvasir
    from kvasir import hf, kivi
except ImportError as e:
    raise unittest.SkipTest(f"SKIPPED: {e}")

COMMON = dict(vocab_size=97, hidden_size=64, num_hidden_layers=3, num_attention_heads=4, intermediate_size=96,
              max_position_embeddings=1024, bos_token_id=1, eos_token_id=2, pad_token_id=0)
CONFIGS = {
    "llama": LlamaConfig(num_key_value_heads=2, **COMMON),
    "qwen2": Qwen2Config(num_key_value_heads=2, **COMMON),
    "mistral": MistralConfig(num_key_value_heads=2, sliding_window=64, **COMMON),
    "gemma2": Gemma2Config(num_key_value_heads=2, head_dim=16, sliding_window=64, **COMMON),
    "gpt2": GPT2Config(vocab_size=97, n_embd=64, n_layer=3, n_head=4, n_positions=1024, bos_token_id=1, eos_token_id=2),
}


def model_of(name):
    torch.manual_seed(7)
    return AutoModelForCausalLM.from_config(copy.deepcopy(CONFIGS[name])).eval()


def ids_of(rows, n, seed=1):
    return torch.randint(3, 97, (rows, n), generator=torch.Generator().manual_seed(seed))


def generate(model, ids, cache, n=24, **more):
    more = {"attention_mask": torch.ones_like(ids), "do_sample": False, "pad_token_id": 0, "min_new_tokens": n, **more}
    return model.generate(ids, **hf.as_argument(cache), max_new_tokens=n, **more)


def own(model):
    model.set_attn_implementation("eager" if model.config.model_type == "gemma2" else "sdpa")
    return DynamicCache(config=model.config)


class HfTest(unittest.TestCase):
    def test_generates_what_the_models_own_cache_does(self):
        for name in CONFIGS:
            model, ids = model_of(name), ids_of(2, 300)
            want = generate(model, ids, own(model))
            cache = hf.KvasirCache.from_model(model, codecs="f32", threads=1)
            self.assertTrue((generate(model, ids, cache) == want).all(), name)
            self.assertEqual(cache.get_seq_length(), want.shape[1] - 1)

    def test_logits_are_near(self):
        model, ids = model_of("llama"), ids_of(1, 400)
        model.set_attn_implementation("sdpa")
        with torch.no_grad():
            want = model(ids).logits[0, -1]
            for codecs, most in (("f32", 1e-4), ("f16", 2e-3), ("int8_token", 0.05), ("safe", 0.05), ("balanced", 0.5)):
                cache = hf.KvasirCache.from_model(model, codecs=codecs, window=0, sinks=0)
                model(ids[:, :300], **hf.as_argument(cache))
                model(ids[:, 300:399], **hf.as_argument(cache))
                got = model(ids[:, 399:], **hf.as_argument(cache)).logits[0, -1]
                self.assertLess(float((got - want).norm() / want.norm()), most, codecs)

    def test_padding_on_the_left_changes_nothing(self):
        model = model_of("llama")
        rows = [ids_of(1, n, seed=n)[0] for n in (150, 80, 20)]
        alone = [generate(model, r[None], hf.KvasirCache.from_model(model, codecs="balanced"))[0, len(r):] for r in rows]
        padded = torch.zeros(3, 150, dtype=torch.long)
        mask = torch.zeros(3, 150, dtype=torch.long)
        for i, r in enumerate(rows):
            padded[i, 150 - len(r):], mask[i, 150 - len(r):] = r, 1
        together = generate(model, padded, hf.KvasirCache.from_model(model, codecs="balanced"), attention_mask=mask)
        for i in range(3):
            self.assertTrue((together[i, 150:] == alone[i]).all(), f"row {i}")

    def test_beams_and_assistance(self):
        for name in ("llama", "mistral"):
            model, ids = model_of(name), ids_of(2, 200)
            want = generate(model, ids, own(model), num_beams=3)
            self.assertTrue((generate(model, ids, hf.KvasirCache.from_model(model, codecs="f32"), num_beams=3) == want).all())
            one = ids_of(1, 40).repeat(1, 5)
            want = generate(model, one, own(model))
            got = generate(model, one, hf.KvasirCache.from_model(model, codecs="f32"), prompt_lookup_num_tokens=4)
            self.assertTrue((got == want).all(), name)

    def test_cutting_selecting_and_repeating(self):
        model, ids = model_of("llama"), ids_of(3, 200)
        with torch.no_grad():
            cache = hf.KvasirCache.from_model(model, codecs="balanced")
            model(ids, **hf.as_argument(cache))
            nxt = ids_of(3, 5, seed=9)
            first = model(nxt, **hf.as_argument(cache)).logits
            cache.crop(-5)
            self.assertTrue((model(nxt, **hf.as_argument(cache)).logits == first).all())
            cache.crop(-5)
            cache.batch_select_indices(torch.tensor([2, 0]))
            # Products of another batch size are rounded differently.
            torch.testing.assert_close(model(nxt[[2, 0]], **hf.as_argument(cache)).logits, first[[2, 0]], rtol=1e-4, atol=1e-5)
            cache.crop(-5)
            cache.batch_repeat_interleave(3)
            got = model(nxt[[2, 2, 2, 0, 0, 0]], **hf.as_argument(cache)).logits
            torch.testing.assert_close(got, first[[2, 2, 2, 0, 0, 0]], rtol=1e-4, atol=1e-5)
            cache.reset()
            self.assertEqual(cache.get_seq_length(), 0)
            model(ids, **hf.as_argument(cache))
            self.assertTrue((model(nxt, **hf.as_argument(cache)).logits == first).all())

    def test_memory_is_lower(self):
        model, ids = model_of("llama"), ids_of(1, 900)
        sizes = {}
        for bits in (16, 8, 4, 2):
            cache = hf.KvasirCache.from_model(model, bits=bits)
            with torch.no_grad():
                model(ids, **hf.as_argument(cache))
            s = cache.stats()
            sizes[bits] = s["bytes"]
            self.assertEqual(s["tokens"], 900)
        self.assertTrue(sizes[16] > sizes[8] > sizes[4] > sizes[2], sizes)

    def test_keys_with_a_bias_have_scales_by_channel(self):
        model, ids = model_of("qwen2"), ids_of(1, 400)

        def error(**options):
            model.set_attn_implementation("sdpa")
            want = model(ids).logits[0, -1]
            cache = hf.KvasirCache.from_model(model, window=0, sinks=0, **options)
            model(ids[:, :399], **hf.as_argument(cache))
            return float((model(ids[:, 399:], **hf.as_argument(cache)).logits[0, -1] - want).norm() / want.norm())

        with torch.no_grad():
            self.assertEqual(error(bits=4), error(codecs="balanced"))  # biases are 0 so far
            for layer in model.model.layers:
                bias = layer.self_attn.k_proj.bias
                bias.copy_(20 * torch.randn(len(bias), generator=torch.Generator().manual_seed(5)))
            self.assertEqual(error(bits=4), error(codecs="kivi4"))
            self.assertLess(error(bits=4), 0.7 * error(codecs="balanced"))

    def test_what_does_not_work_is_said(self):
        model, ids = model_of("llama"), ids_of(1, 8)
        cache = hf.KvasirCache(model.config)
        with self.assertRaisesRegex(kvasir.Unsupported, "set_attn_implementation"):
            model(ids, **hf.as_argument(cache))
        cache = hf.KvasirCache.from_model(model)
        with self.assertRaisesRegex(kvasir.Unsupported, "on the left"):
            model(ids, **hf.as_argument(cache), attention_mask=torch.tensor([[1, 1, 1, 1, 1, 1, 0, 0]]))
        with self.assertRaises(kvasir.BadInput):
            hf.KvasirCache(model.config, bits=3)
        with self.assertRaisesRegex(kvasir.BadInput, "nonsense"):
            model(ids, **hf.as_argument(hf.KvasirCache.from_model(model, codecs="nonsense")))

    def test_the_cache_is_named_as_this_version_does(self):
        model, ids = model_of("llama"), ids_of(1, 8)
        (name, cache), = hf.as_argument(hf.KvasirCache.from_model(model)).items()
        self.assertIn(name, ("cache", "past_key_values"))
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("error", FutureWarning)
            output = model(ids, **{name: cache}, use_cache=True)
        self.assertIs(hf.of_output(output), cache)

    def test_models_that_attend_by_themselves_and_are_not_known_are_refused_at_once(self):
        class Strange(torch.nn.Module):
            _supports_attention_backend = False

        with self.assertRaisesRegex(kvasir.Unsupported, "Strange: attends by functions of its own.*Falcon, BLOOM, MPT are known"):
            hf.KvasirCache.from_model(Strange())

    def test_kivi_generates_with_progress(self):
        model = model_of("llama")

        class Tokenizer:
            eos_token_id = 2

            def __call__(self, text, return_tensors):
                ids = torch.tensor([[3 + len(w) for w in text.split()]])
                return BatchEncoding({"input_ids": ids, "attention_mask": torch.ones_like(ids)})

            def decode(self, ids, **_):
                return " ".join(str(int(i)) for i in ids) + " "

        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            text = kivi.generate(model, Tokenizer(), "a bb ccc", 5, verbose=True)
        self.assertIn("cache: ", out.getvalue())
        self.assertEqual(text, kivi.generate(model, Tokenizer(), "a bb ccc", 5))
        long = "a bb ccc dddd " * 75
        held = {}
        for group in (4, 8, 16, 32, 64):  # on packed pages
            with self.subTest(group=group):
                out = io.StringIO()
                with contextlib.redirect_stdout(out):
                    kivi.generate(model, Tokenizer(), long, 5, group_size=group, residual_length=64, verbose=True)
                self.assertIn("for 304 tokens", out.getvalue())
                held[group] = int(out.getvalue().split("cache: ")[1].split()[0])
        self.assertTrue(held[4] > held[8] > held[16] > held[32], held)
        with self.assertRaisesRegex(kvasir.BadInput, "device tpu: expected cpu, gpu"):
            kivi.generate(model, Tokenizer(), "a", 5, device="tpu")
        with contextlib.suppress(kvasir.Unsupported):  # where there is no OpenCL device
            kivi.device_name("opencl")
            for options in (dict(group_size=32), dict(group_size=16, bits=8)):  # on pages, and unpacked
                got = kivi.generate(model, Tokenizer(), long, 5, residual_length=64, device="opencl", **options)
                self.assertEqual(got, kivi.generate(model, Tokenizer(), long, 5, residual_length=64, **options))

    @torch.no_grad()
    def test_a_device_has_the_processors_bits(self):
        try:
            kivi.device_name("opencl")
        except kvasir.Unsupported as e:
            self.skipTest(f"SKIPPED: {e}")
        model, ids, logits = model_of("llama"), ids_of(2, 1306), []
        for device in (None, "opencl"):
            cache = hf.KvasirCache.from_model(model, bits=2, residual=64, max_tokens=1400, device=device)
            steps = [model(ids[:, a:b], **hf.as_argument(cache)).logits[:, -1] for a, b in ((0, 1300), (1300, 1301), (1301, 1302))]
            cache.crop(1300)
            steps += [model(ids[:, a : a + 1], **hf.as_argument(cache)).logits[:, -1] for a in range(1300, 1306)]
            logits.append(torch.stack(steps))
            stats = cache.stats()
            self.assertEqual(stats["device"] != "", device is not None)
            self.assertEqual(stats["device_lost"], "")
            self.assertEqual(stats["device_groups"] > 0, device is not None)
        self.assertTrue(torch.equal(*logits))

    @torch.no_grad()
    def test_small_groups_attend_to_what_kivi_holds(self):
        model, ids = model_of("llama"), ids_of(2, 310)
        past, kept = own(model), kivi.KiviCache.from_model(model, group_size=4, residual_length=30)
        model(ids[:, :300], **hf.as_argument(past))
        kept.add_tokens(past)
        want = model(ids[:, 300:], **hf.as_argument(kept.get_full_cache())).logits
        cache = kivi.model_cache(model, group_size=4, residual_length=30)
        model(ids[:, :300], **hf.as_argument(cache))
        torch.testing.assert_close(model(ids[:, 300:], **hf.as_argument(cache)).logits, want, rtol=1e-5, atol=1e-6)
        self.assertEqual(cache.stats()["tokens"], 310)
        self.assertLess(kept.get_stats()["residual_tokens"], 30)
        with self.assertRaisesRegex(kvasir.Unsupported, "KvasirCache takes those with windows"):
            kivi.model_cache(model_of("mistral"))

    @torch.no_grad()
    def test_the_schedule_of_transformers_is_theirs_to_the_bit(self):
        """Beside their cache with this package's quantiser, and with quanto's where it is installed."""
        model, ids = model_of("llama"), ids_of(2, 120)
        model.set_attn_implementation("sdpa")
        group, length = 16, 20

        class Layer(QuantizedLayer):
            def _quantize(self, x, axis):
                return kivi._quantize(x.numpy(), group, self.nbits, np.float32)

            def _dequantize(self, packed):
                return torch.from_numpy(kivi._dequantize(*packed, group, self.nbits))

        def logits(cache):
            return [model(ids[:, a:b], **hf.as_argument(cache)).logits for a, b in ((0, 40), (40, 43), *((n, n + 1) for n in range(43, 120)))]

        for bits in (2, 4):
            options = dict(nbits=bits, axis_key=0, axis_value=0, q_group_size=group, residual_length=length)
            theirs = [lambda: Cache(layers=[Layer(**options) for _ in range(3)])]
            if is_optimum_quanto_available():
                theirs.append(lambda: QuantizedCache("quanto", model.config, **options))
            got = kivi.model_cache(model, group_size=group, residual_length=length, bits=bits, schedule="hf")
            here = logits(got)
            for their in theirs:
                for n, (a, b) in enumerate(zip(here, logits(their()))):
                    self.assertTrue(torch.equal(a, b), f"{bits} bits, step {n}")
            other = logits(kivi.model_cache(model, group_size=group, residual_length=length, bits=bits))
            self.assertFalse(torch.equal(other[-1], here[-1]))

    @torch.no_grad()
    def test_quantized_cache_in_one_line(self):
        model, ids = model_of("llama"), ids_of(1, 300)
        model.set_attn_implementation("sdpa")
        cache = hf.QuantizedCache("quanto", model.config, nbits=4, axis_key=0, axis_value=0, q_group_size=32, residual_length=128)
        got = generate(model, ids, cache)
        want = generate(model, ids, hf.KvasirCache.from_model(model, codecs="int4_token:32", residual=128))
        self.assertTrue(torch.equal(got, want))
        for arguments, text in ((("quanto", model.config, 60), "expected one of quanto 2, quanto 4, hqq 2"),
                                (("hqq", model.config), "expected 1, groups within a token"),
                                (("fp8", model.config), "backend 'fp8'")):
            with self.assertRaisesRegex(kvasir.Error, text):
                hf.QuantizedCache(*arguments)

    def test_kivi_cache_follows_a_model(self):
        model, ids = model_of("llama"), ids_of(2, 300)
        cache = kivi.KiviCache.from_model(model, group_size=16, residual_length=64)
        past = own(model)
        with torch.no_grad():
            model(ids[:, :200], **hf.as_argument(past))
            self.assertEqual(cache.add_tokens(past), 200)
            with self.assertRaises(kvasir.BadInput):
                cache.add_tokens(past)
            with self.assertRaisesRegex(kvasir.BadInput, "2 heads, expected kv_heads, 4"):
                kivi.KiviCache(3, 16, 4, group_size=16).add_tokens(past)
            model(ids[:, 200:], **hf.as_argument(past))
            self.assertEqual(cache.add_tokens(past), 100)
        full = cache.get_full_cache()
        self.assertEqual(full.get_seq_length(), 300)
        k, want = full.layers[1].keys, past.layers[1].keys
        self.assertGreater(float(torch.nn.functional.cosine_similarity(k.flatten(), want.flatten(), 0)), 0.85)


if __name__ == "__main__":
    unittest.main()
