"""The fifteen checks of KIVI's first users, each under its name: known answers of the quantiser, the books of the cache,
and attention on what it gives back."""

import contextlib
import functools
import os
import unittest
from unittest import mock

import kvasir

try:
    import numpy as np

    from kvasir import kivi
except ImportError as e:
    raise unittest.SkipTest(f"SKIPPED: {e}")

DEVICE = os.environ.get("KVASIR_KIVI_DEVICE", "opencl")  # the first OpenCL device; `./dev sycl` names others


def floats(*shape, seed=42):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def attend(q, k, v, scale):
    """q (B, H, n, D) on all of k, v (B, H, T, D), in float64: outputs, weights, logarithms of the sums."""
    s = np.einsum("bhnd,bhtd->bhnt", q.astype(np.float64), k.astype(np.float64)) * scale
    most = s.max(-1, keepdims=True)
    p = np.exp(s - most)
    total = p.sum(-1, keepdims=True)
    return np.einsum("bhnt,bhtd->bhnd", p / total, v.astype(np.float64)), p / total, np.log(total[..., 0]) + most[..., 0]


class Past:
    """A cache of a model, as later versions of transformers have it: `layers` with keys and values that grow in place."""

    class Layer:
        def __init__(self, k, v):
            self.keys, self.values = k, v

    def __init__(self, pairs):
        self.layers = [self.Layer(k, v) for k, v in pairs]


class KiviChecks(unittest.TestCase):
    def test_01_four_numbers_are_the_byte_228(self):
        codes, s, m = kivi.quantize_values(np.array([1, 2, 3, 4], np.float32).reshape(1, 1, 1, 4), 4)
        self.assertEqual(codes.flatten().tolist(), [228])
        self.assertAlmostEqual(float(s.flatten()[0]), 1, delta=0.01)
        self.assertEqual(float(m.flatten()[0]), 1)
        self.assertEqual(kivi.dequantize_values(codes, s, m, 4).flatten().tolist(), [1, 2, 3, 4])

    def test_02_a_constant_group_comes_back(self):
        five = np.full((1, 2, 32, 32), 5, np.float32)
        for quantize, back in ((kivi.quantize_keys, kivi.dequantize_keys), (kivi.quantize_values, kivi.dequantize_values)):
            self.assertTrue((back(*quantize(five)) == five).all())

    def test_03_halves_are_rounded_to_even(self):
        x = np.array([-1, -0.5, 0, 0.25, 0.5, 1, 1.5, 2], np.float32).reshape(1, 1, 1, 8)
        codes, s, m = kivi.quantize_values(x, 8)
        self.assertEqual((codes.flatten().tolist(), float(s.flatten()[0]), float(m.flatten()[0])), ([80, 234], 1, -1))

    def test_04_codes_of_four_bits(self):
        x = np.array([-1, -0.5, 0, 0.25, 0.5, 1, 1.5, 2], np.float32).reshape(1, 1, 1, 8)
        codes = kivi.quantize_values(x, 8, bits=4)[0].flatten().tolist()
        for got, want in zip([c for b in codes for c in (b & 15, b >> 4)], [0, 2, 5, 6, 8, 10, 12, 15]):
            self.assertLessEqual(abs(got - want), 1)  # 2.5, 7.5 and 12.5 are near ties

    def test_05_bytes_are_the_words_of_the_reference(self):
        two = np.tile(np.arange(4, dtype=np.float32), 4).reshape(1, 1, 1, 16)
        self.assertEqual(kivi.quantize_values(two, 16)[0].view("<u4").flatten().tolist(), [0xE4E4E4E4])
        four = np.arange(16, dtype=np.float32).reshape(1, 1, 1, 16)
        self.assertEqual(kivi.quantize_values(four, 16, bits=4)[0].view("<u4").flatten().tolist(), [0x76543210, 0xFEDCBA98])

    def test_06_keys_lie_along_tokens_and_values_along_channels(self):
        x = floats(2, 3, 64, 32)
        codes, s, m = kivi.quantize_keys(x, 32)
        self.assertEqual((codes.shape, s.shape, m.shape), ((2, 3, 32, 16), (2, 3, 32, 2), (2, 3, 32, 2)))
        codes, s, m = kivi.quantize_values(x, 32)
        self.assertEqual((codes.shape, s.shape, m.shape), ((2, 3, 64, 8), (2, 3, 64, 1), (2, 3, 64, 1)))

    def test_07_rows_of_a_batch_do_not_know_of_each_other(self):
        x = floats(3, 2, 64, 64)
        for quantize in (kivi.quantize_keys, kivi.quantize_values):
            together = quantize(x)
            for b in range(3):
                for whole, alone in zip(together, quantize(x[b : b + 1])):
                    self.assertTrue((whole[b : b + 1] == alone).all())

    def test_08_the_example_of_the_paper_attends_as_written(self):
        k = np.array([[0, 1, -1, 2], [1, 1, 0, 4], [2, -1, 1, 6], [3, 3, 2, 8]], np.float32).reshape(1, 1, 4, 4)
        v = np.array([[0, 1, 2, 3], [4, -2, 0, 2], [1, 1, 1, 1], [-1, 0.5, 2, 5]], np.float32).reshape(1, 1, 4, 4)
        q = np.array([1, 0, 0.5, -0.25], np.float32).reshape(1, 1, 1, 4)
        ks, vs = kivi.quantize_keys(k, 4), kivi.quantize_values(v, 4)
        self.assertEqual(ks[0].flatten().tolist(), [228, 202, 228, 228])
        k, v = kivi.dequantize_keys(*ks, 4), kivi.dequantize_values(*vs, 4)
        out, p, lse = attend(q, k, v, 0.5)
        # 4 / 3 is rounded to float16.
        np.testing.assert_allclose(p.flatten(), [0.1015363, 0.1674051, 0.2760043, 0.4550542], atol=1e-6)
        np.testing.assert_allclose(lse.flatten(), [1.7873387], atol=1e-6)
        np.testing.assert_allclose(out.flatten(), [0.4905705, 0.4977847, 1.8442396, 3.1906947], atol=1e-6)
        # And with a token of the residual.
        k = np.concatenate([k, np.ones((1, 1, 1, 4), np.float32)], 2)
        v = np.concatenate([v, np.array([10, 0, -10, 0], np.float32).reshape(1, 1, 1, 4)], 2)
        out, _, lse = attend(q, k, v, 0.5)
        np.testing.assert_allclose(lse.flatten(), [2.0594658], atol=1e-6)
        np.testing.assert_allclose(out.flatten(), [2.7561217, 0.3791912, -0.9775627, 2.4305353], atol=1e-6)

    def test_09_without_quantising_the_history_is_the_truth(self):
        k, v = floats(2, 2, 300, 64), floats(2, 2, 300, 64, seed=1)
        was = kivi.quantize_keys, kivi.quantize_values, kivi.dequantize_keys, kivi.dequantize_values
        try:
            kivi.quantize_keys = kivi.quantize_values = lambda x, *_, **__: (x.copy(),)
            kivi.dequantize_keys = kivi.dequantize_values = lambda x, *_, **__: x
            grown, pairs = kivi.KiviCache(1, 64), kivi.KiviCache(1, 64)
            for n in (100, 101, 128, 229, 300):
                grown.add_tokens(Past([(k[:, :, :n], v[:, :, :n])]))
                pairs.add_tokens(((k[:, :, :n], v[:, :, :n]),))  # as older models hand it over
                for cache in (grown, pairs):
                    got = cache.get(0)
                    self.assertTrue((got[0] == k[:, :, :n]).all() and (got[1] == v[:, :, :n]).all())
        finally:
            kivi.quantize_keys, kivi.quantize_values, kivi.dequantize_keys, kivi.dequantize_values = was

    def test_10_what_left_the_residual_is_what_every_group_gives_alone(self):
        k, v = floats(1, 2, 300, 64), floats(1, 2, 300, 64, seed=1)
        at_once, one_by_one = kivi.KiviCache(1, 64), kivi.KiviCache(1, 64)
        at_once.add_tokens([(k, v)])
        for n in range(1, 301):
            one_by_one.add_tokens([(k[:, :, :n], v[:, :, :n])])
        for got, other in zip(at_once.get(0), one_by_one.get(0)):
            self.assertTrue((got == other).all())
        got_k, got_v = at_once.get(0)
        for a in range(0, at_once.get_stats()["quantized_tokens"], 32):
            span = slice(a, a + 32)
            self.assertTrue((got_k[:, :, span] == kivi.dequantize_keys(*kivi.quantize_keys(k[:, :, span]))).all())
            self.assertTrue((got_v[:, :, span] == kivi.dequantize_values(*kivi.quantize_values(v[:, :, span]))).all())

    def test_11_the_residual_follows_its_table(self):
        k = floats(1, 1, 430, 32)
        for first, more, books in ((100, 230, [(0, 100), (128, 102)]), (128, 258, [(32, 96), (160, 98)]), (300, 430, [(192, 108), (320, 110)])):
            cache, seen = kivi.KiviCache(1, 32), []
            for n in (first, more):
                cache.add_tokens([(k[:, :, :n], k[:, :, :n])])
                s = cache.get_stats()
                seen.append((s["quantized_tokens"], s["residual_tokens"]))
            self.assertEqual(seen, books)

    def test_the_other_schedules_follow_theirs(self):
        k = floats(1, 1, 430, 32)

        def books(schedule, steps, **options):
            cache, seen = kivi.KiviCache(1, 32, schedule=schedule, **options), []
            for n in steps:
                cache.add_tokens([(k[:, :, :n], k[:, :, :n])])
                s = cache.get_stats()
                seen.append(tuple(s[f"{x}_{y}"] for y in ("tokens", "values") for x in ("quantized", "residual")))
            return seen, cache

        for steps, want in (((100, 230), [(0, 100, 0, 100), (128, 102, 102, 128)]), ((128, 258), [(128, 0, 0, 128), (256, 2, 130, 128)]),
                            ((300, 430), [(256, 44, 172, 128), (384, 46, 302, 128)])):
            self.assertEqual(books("paper", steps)[0], want)
        # However the tokens come, the paper's cache is the same.
        at_once, one_by_one = (books("paper", steps)[1] for steps in ((430,), range(1, 431)))
        for got, other in zip(at_once.get(0), one_by_one.get(0)):
            self.assertTrue((got == other).all())
        flushed = [n for n, s in zip(range(10, 31), books("hf", range(10, 31), residual_length=4)[0]) if s[1] == 0]
        self.assertEqual(flushed, [10, 14, 18, 22, 26, 30])
        for bad, text in (((dict(schedule="lifo")), "'lifo', expected one of fifo, paper, hf"), (dict(residual_length=16), "at least 32"),
                          (dict(schedule="paper", residual_length=100), "100, expected a multiple of group_size, 32"),
                          (dict(schedule="hf", residual_length=-1), "at least 0"), (dict(group_size=12), "12, expected a multiple of 4 that")):
            with self.assertRaisesRegex(kvasir.BadInput, text):
                kivi.KiviCache(1, 32, **bad)

    def test_12_the_same_tokens_twice_are_an_error(self):
        k = floats(1, 1, 40, 32)
        cache = kivi.KiviCache(2, 32)
        cache.add_tokens([(k, k)] * 2)
        with self.assertRaisesRegex(kvasir.BadInput, "expected more than the 40"):
            cache.add_tokens([(k, k)] * 2)

    def test_13_another_batch_and_unequal_keys_and_values_are_errors(self):
        k = floats(2, 1, 40, 32)
        cache = kivi.KiviCache(1, 32)
        cache.add_tokens([(k[:, :, :20], k[:, :, :20])])
        for keys, values in ((k[:1], k[:1]), (k, k[:, :, :30]), (k[..., :16], k[..., :16])):
            with self.assertRaises(kvasir.BadInput):
                cache.add_tokens([(keys, values)])
        self.assertEqual(cache.get_stats()["total_tokens"], 20)

    def test_14_attention_stays_similar(self):
        q, k, v = floats(1, 2, 3, 64), floats(1, 2, 32, 64, seed=43), floats(1, 2, 32, 64, seed=44)
        want = attend(q, k, v, 1 / 8)[0].flatten()
        got = attend(q, kivi.dequantize_keys(*kivi.quantize_keys(k)), kivi.dequantize_values(*kivi.quantize_values(v)), 1 / 8)[0].flatten()
        self.assertGreater(float(got @ want / np.linalg.norm(got) / np.linalg.norm(want)), 0.85)

    def test_15_weights_diverge_less_with_more_bits(self):
        q, k = floats(1, 2, 8, 64), floats(1, 2, 256, 64, seed=43)
        p = attend(q, k, k, 1 / 8)[1]
        loss = []
        for bits in (8, 4, 2):
            other = attend(q, kivi.dequantize_keys(*kivi.quantize_keys(k, bits=bits), bits=bits), k, 1 / 8)[1]
            loss.append(float((p * np.log(p / other)).sum(-1).mean()))
        self.assertTrue(0 < loss[0] < loss[1] < loss[2] < 0.2, loss)


class KiviChecksOnADevice(KiviChecks):
    """All of them on DEVICE."""

    def setUp(self):
        try:
            kivi.device_name(DEVICE)
        except kvasir.Unsupported as e:
            self.skipTest(f"SKIPPED: {e}")
        for name in ("quantize_keys", "quantize_values", "dequantize_keys", "dequantize_values", "KiviCache"):
            patch = mock.patch.object(kivi, name, functools.partial(getattr(kivi, name), device=DEVICE))
            patch.start()
            self.addCleanup(patch.stop)


def formulas(x, group, bits, kind):
    """Groups along the last axis: codes, scales, minima, in numpy."""
    top = np.float32(2**bits - 1)
    g = x.reshape(*x.shape[:-1], -1, group)
    scale, low = ((g.max(-1) - g.min(-1)) / top).astype(kind), g.min(-1).astype(kind)
    s, m = scale.astype(np.float32)[..., None], low.astype(np.float32)[..., None]
    codes = np.where(s > 0, np.clip(np.rint((g - m) / np.where(s > 0, s, 1)), 0, top), 0).astype(np.uint8)
    codes = codes.reshape(*x.shape[:-1], -1, 8 // bits)
    return sum(codes[..., i] << (bits * i) for i in range(8 // bits)).astype(np.uint8), scale, low


class KiviDevices(unittest.TestCase):
    """Arrays made here and on DEVICE."""

    def both(self, name, *arguments, **options):
        """What kivi's function gives here, after a look at the device's bits."""
        here = getattr(kivi, name)(*arguments, **options)
        with contextlib.suppress(kvasir.Unsupported):
            kivi.device_name(DEVICE)  # else there is none
            there = getattr(kivi, name)(*arguments, **options, device=DEVICE)
            for a, b in zip(*((x if isinstance(x, tuple) else (x,)) for x in (here, there))):
                self.assertEqual((a.shape, a.dtype, a.tobytes()), (b.shape, b.dtype, b.tobytes()), name)
        return here

    def test_functions_are_the_formulas(self):
        x = floats(2, 3, 384, 64) * np.exp(floats(1, 1, 384, 64, seed=2))
        for group in (4, 32, 64, 128):
            for bits in (2, 4, 8):
                arrays = self.both("quantize_keys", x, group, bits)
                for got, want in zip(arrays, formulas(np.ascontiguousarray(x.transpose(0, 1, 3, 2)), group, bits, np.float16)):
                    np.testing.assert_array_equal(got, want)
                k, q = self.both("dequantize_keys", *arrays, group, bits), floats(2, 6, 5, 64, seed=3)
                got = self.both("matmul_keys", q, *arrays, group, bits)
                want = np.einsum("bhnd,bhsd->bhns", q, k.repeat(2, 1).astype(np.float64))
                np.testing.assert_allclose(got, want, atol=2e-4)
                if group > 64:
                    continue
                arrays = self.both("quantize_values", x, group, bits)
                for got, want in zip(arrays, formulas(x, group, bits, np.float16)):
                    np.testing.assert_array_equal(got, want)
                v = self.both("dequantize_values", *arrays, group, bits)
                p = np.abs(floats(2, 6, 5, 384, seed=4)) / 384
                np.testing.assert_allclose(
                    self.both("matmul_values", p, *arrays, group, bits), np.einsum("bhns,bhsd->bhnd", p, v.repeat(2, 1).astype(np.float64)), atol=2e-5)

    def test_attention_is_that_of_the_numbers_read_back(self):
        q, k, v = floats(1, 8, 1, 64), floats(1, 2, 256, 64, seed=5), floats(1, 2, 256, 64, seed=6)
        ks, vs = kivi.quantize_keys(k, bits=4), kivi.quantize_values(v, bits=4)
        scores = self.both("matmul_keys", q / 8, *ks, bits=4)
        p = np.exp(scores - scores.max(-1, keepdims=True))
        got = self.both("matmul_values", p / p.sum(-1, keepdims=True), *vs, bits=4)
        want = attend(q, kivi.dequantize_keys(*ks, bits=4).repeat(4, 1), kivi.dequantize_values(*vs, bits=4).repeat(4, 1), 1 / 8)[0]
        np.testing.assert_allclose(got, want, atol=1e-5)

    def test_the_cache_has_the_bits_of_the_device(self):
        try:
            kivi.device_name(DEVICE)
        except kvasir.Unsupported as e:
            self.skipTest(f"SKIPPED: {e}")
        k, v = floats(1, 2, 300, 64), floats(1, 2, 300, 64, seed=1)
        for schedule in kivi.KiviCache.SCHEDULES:
            here, there = (kivi.KiviCache(1, 64, schedule=schedule, device=d) for d in (None, DEVICE))
            for n in (100, 101, 260, 300):
                for cache in (here, there):
                    cache.add_tokens([(k[:, :, :n], v[:, :, :n])])
                for a, b in zip(here.get(0), there.get(0)):
                    self.assertEqual(a.tobytes(), b.tobytes(), schedule)

    def test_what_is_wrong_is_named(self):
        x = floats(1, 1, 32, 32)
        for device, error, text in (("tpu", kvasir.BadInput, "device tpu: expected cpu, gpu, opencl"), ("opencl:999", kvasir.Unsupported, "device opencl:999")):
            with self.assertRaisesRegex(error, text):
                kivi.quantize_keys(x, device=device)
        arrays = kivi.quantize_keys(x)
        for call, text in ((lambda: kivi.matmul_keys(x[:, :, :, :16], *arrays), r"q: has shape .*, expected \[1, a multiple of 1, n, 32\]"),
                           (lambda: kivi.dequantize_keys(arrays[0], arrays[1][..., :0], arrays[2]), "scales: have shape"),
                           (lambda: kivi.dequantize_keys(arrays[0], arrays[1] * np.inf, arrays[2]), "scales: hold a number that is not finite"),
                           (lambda: kivi.dequantize_keys(arrays[0].astype(np.int32), *arrays[1:]), "codes: are int32"),
                           (lambda: kivi.quantize_keys(x * 1e6), "reach beyond float16"),
                           (lambda: kivi.quantize_keys(x[0]), "x: has shape")):
            with self.assertRaisesRegex(kvasir.BadInput, text):
                call()


if __name__ == "__main__":
    unittest.main()
