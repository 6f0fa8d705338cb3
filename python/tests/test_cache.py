import sys
import unittest

import kvasir

try:
    import numpy as np

    from kvasir.cache import KvCache, Layer, Packed, attend
    from kvasir import kivi
except ImportError as e:
    raise unittest.SkipTest(f"SKIPPED: {e}")


def softmax_attend(q, k, v, scale):
    """q (H, d), k (KV, T, d), v (KV, T, dv), in float64."""
    group = q.shape[0] // k.shape[0]
    out = []
    for h in range(q.shape[0]):
        s = k[h // group].astype(np.float64) @ q[h] * scale
        p = np.exp(s - s.max())
        out.append(p / p.sum() @ v[h // group])
    return np.array(out)


class CacheTest(unittest.TestCase):
    def step(self, cache, s, q, k, v, a, b, generated=False):
        cache.begin([(s, b - a, generated)])
        out = cache.attend(0, q[a:b], k[a:b], v[a:b])
        cache.commit()
        return out

    def test_attends_like_float64_and_survives_everything(self):
        rng = np.random.default_rng(1)
        n = 400
        q, k, v = (rng.standard_normal((n + 1, h, 64)).astype(np.float32) for h in (4, 2, 2))
        for codecs, most in (("f32", 1e-5), ("f16", 2e-3), ("balanced", 0.3)):
            cache = KvCache([Layer(2, 4, 64)], codecs=codecs, max_tokens=2048, max_sequences=4)
            s = cache.create()
            self.step(cache, s, q, k, v, 0, n - 1)
            out = self.step(cache, s, q, k, v, n - 1, n)
            want = softmax_attend(q[n - 1], k[:n].transpose(1, 0, 2), v[:n].transpose(1, 0, 2), 1 / 8)
            self.assertLess(np.linalg.norm(out[0] - want) / np.linalg.norm(want), most, codecs)
            saved = cache.save(s)
            f = cache.fork(s)
            r = cache.restore(saved)
            a, b, c = (self.step(cache, x, q, k, v, n, n + 1, True) for x in (s, f, r))
            self.assertTrue((a == b).all() and (a == c).all(), codecs)
            cache.truncate(s, n)
            self.assertEqual(cache.save(s), saved)
            self.assertEqual(cache.stats()["tokens"], n + 2 * (n + 1))
            cache.reset()
            self.assertEqual(cache.stats()["tokens"], 0)

    def test_a_residual_is_exact_to_the_token(self):
        rng = np.random.default_rng(3)
        q, k, v = (rng.standard_normal((320, h, 64)).astype(np.float32) for h in (4, 2, 2))
        cache = KvCache([Layer(2, 4, 64)], codecs="kivi2", residual=64, sinks=0, max_tokens=1024)
        s, at = cache.create(), 0
        for tokens, sealed in ((191, 0), (192, 128), (319, 128), (320, 256)):
            self.step(cache, s, q, k, v, at, tokens)
            self.assertEqual(cache.sealed_tokens(s), sealed, tokens)
            at = tokens

    def test_wrong_arrays_are_named(self):
        cache = KvCache([Layer(2, 4, 64)], codecs="f32", max_tokens=256)
        s = cache.create()
        cache.begin([(s, 2, False)])
        with self.assertRaisesRegex(kvasir.BadInput, "q: has shape"):
            cache.attend(0, np.zeros((1, 4, 64)), np.zeros((2, 2, 64)), np.zeros((2, 2, 64)))
        with self.assertRaisesRegex(kvasir.BadInput, "layer"):
            cache.attend(1, None, None, None)
        cache.abort()
        with self.assertRaisesRegex(kvasir.BadInput, "codecs"):
            KvCache([Layer(2, 4, 64)], codecs="nonsense")
        with self.assertRaises(kvasir.BadInput):
            KvCache([Layer(2, 3, 64)])

    def test_packed_arrays(self):
        rng = np.random.default_rng(2)
        k, v = (rng.standard_normal((2, 3, 300, 64)).astype(np.float32) for _ in range(2))
        q = rng.standard_normal((2, 6, 64)).astype(np.float32)
        for codec, most in (("f32", 1e-5), ("int8_token", 0.02), ("rq4", 0.2)):
            pk, pv = Packed(k, codec), Packed(v, codec, values=True)
            self.assertLess(np.linalg.norm(pk.numpy() - k) / np.linalg.norm(k), most, codec)
            out = attend(q, pk, pv)
            for b in range(2):
                want = softmax_attend(q[b], pk.numpy()[b], pv.numpy()[b], 1 / 8)
                self.assertLess(np.linalg.norm(out[b] - want) / np.linalg.norm(want), 2e-2, codec)
        self.assertLess(Packed(k, "rq4").nbytes, k.nbytes / 3)


def resident() -> int:
    """Bytes of this process that are no file's, as the system counts them."""
    with open("/proc/self/status") as f:
        return next(1024 * int(line.split()[1]) for line in f if line.startswith("RssAnon:"))


class MemoryTest(unittest.TestCase):
    @unittest.skipUnless(sys.platform == "linux", "no /proc here")
    def test_memory_grows_by_what_is_counted(self):
        layer, step = Layer(32, 32, 64), 512
        x = np.random.default_rng(2).standard_normal((step, 32, 64)).astype(np.float32)

        def grown(codecs):
            """Bytes that 5120 tokens add to the process, behind 1024 that bring scratch memory with them; and as counted."""
            with KvCache([layer], codecs=codecs, max_tokens=6144, step_tokens=step, threads=2) as cache:
                s = cache.create()
                for n in range(0, 6144, step):
                    if n == 1024:
                        before = resident()
                    cache.begin([(s, step, False)])
                    cache.attend(0, x, x, x)
                    cache.commit()
                return resident() - before, 5120 * cache.stats()["bytes_per_token"]

        sizes = {}
        for codecs in ("f16", "balanced", "kivi2"):
            sizes[codecs], counted = grown(codecs)
            # The system gives memory by pieces of 2 MiB.
            self.assertLess(sizes[codecs], 1.05 * counted + (6 << 20), codecs)
        self.assertGreater(sizes["f16"], 36 << 20)
        self.assertLess(sizes["balanced"], 0.5 * sizes["f16"])
        self.assertLess(sizes["kivi2"], 0.4 * sizes["f16"])


class KiviTest(unittest.TestCase):
    """Known answers of the quantiser, its layouts, and the cache's book-keeping."""

    def test_known_answers(self):
        x = np.array([1, 2, 3, 4], np.float32).reshape(1, 1, 4, 1)
        codes, s, m = kivi.quantize_keys(x, 4)
        self.assertEqual((int(codes[0, 0, 0, 0]), float(s[0, 0, 0, 0]), float(m[0, 0, 0, 0])), (228, 1.0, 1.0))
        self.assertTrue((kivi.dequantize_keys(codes, s, m, 4) == x).all())
        x = np.array([-1, -0.5, 0, 0.25, 0.5, 1, 1.5, 2], np.float32).reshape(1, 1, 1, 8)
        self.assertEqual(kivi.quantize_values(x, 8)[0].flatten().tolist(), [80, 234])
        four = [c for b in kivi.quantize_values(x, 8, bits=4)[0].flatten().tolist() for c in (b & 15, b >> 4)]
        for got, want in zip(four, [0, 2, 5, 6, 8, 10, 12, 15]):  # 2.5, 7.5 and 12.5 are near ties
            self.assertLessEqual(abs(got - want), 1)
        same = np.full((1, 1, 4, 8), 5, np.float32)
        for quantize, back in ((kivi.quantize_keys, kivi.dequantize_keys), (kivi.quantize_values, kivi.dequantize_values)):
            self.assertTrue((back(*quantize(same, 4), 4) == 5).all())

    def test_the_papers_example(self):
        k = np.array([[0, 1, -1, 2], [1, 1, 0, 4], [2, -1, 1, 6], [3, 3, 2, 8]], np.float32).reshape(1, 1, 4, 4)
        self.assertEqual(kivi.quantize_keys(k, 4)[0].flatten().tolist(), [228, 202, 228, 228])
        v = np.array([[0, 1, 2, 3], [4, -2, 0, 2], [1, 1, 1, 1], [-1, 0.5, 2, 5]], np.float32).reshape(1, 1, 4, 4)
        codes = kivi.quantize_values(v, 4)[0].flatten().tolist()
        self.assertEqual([[(c >> (2 * i)) & 3 for i in range(4)] for c in codes], [[0, 1, 2, 3], [3, 0, 1, 2], [0, 0, 0, 0], [0, 1, 2, 3]])

    def test_layouts_and_bounds(self):
        x = np.random.default_rng(3).standard_normal((2, 3, 64, 32)).astype(np.float32)
        codes, s, m = kivi.quantize_keys(x, 32)
        self.assertEqual((codes.shape, s.shape, m.dtype), ((2, 3, 32, 16), (2, 3, 32, 2), np.float16))
        error = np.abs(kivi.dequantize_keys(codes, s, m, 32) - x)
        self.assertLess(float((error / np.repeat(s.astype(np.float32), 32, -1).transpose(0, 1, 3, 2)).max()), 0.6)
        codes, s, m = kivi.quantize_values(x, 32)
        self.assertEqual((codes.shape, s.shape), ((2, 3, 64, 8), (2, 3, 64, 1)))
        for bad in ((5, 2), (48, 2), (32, 3)):
            with self.assertRaises(kvasir.BadInput):
                kivi.quantize_keys(x, *bad)
        with self.assertRaisesRegex(kvasir.BadInput, "finite"):
            kivi.quantize_values(np.full((1, 1, 4, 8), np.nan, np.float32), 8)

    def test_the_cache_keeps_books(self):
        rng = np.random.default_rng(4)
        k, v = (rng.standard_normal((2, 2, 500, 64)).astype(np.float32) for _ in range(2))
        cache = kivi.KiviCache(2, 64, group_size=32, residual_length=128)
        for n in (100, 101, 160, 161, 500):
            cache.add_tokens([(k[:, :, :n], v[:, :, :n])] * 2)
            stats = cache.get_stats(1)
            self.assertEqual(stats["total_tokens"], n)
            self.assertEqual(stats["quantized_tokens"] + stats["residual_tokens"], n)
            self.assertLess(stats["residual_tokens"], 128)
            self.assertEqual(stats["quantized_tokens"] % 32, 0)
        got_k, got_v = cache.get(0)
        raw = stats["residual_tokens"]
        self.assertTrue((got_k[:, :, -raw:] == k[:, :, -raw:]).all())
        want = kivi.dequantize_keys(*kivi.quantize_keys(k[:, :, :32], 32), 32)
        self.assertTrue((got_k[:, :, :32] == want).all())
        self.assertEqual(got_v.shape, v.shape)
        self.assertGreater(stats["compression"], 3)
        for bad in ([(k, v)] * 2, [(k[:, :, :10], v[:, :, :10])] * 2, [(k, v)], [(k[:1], v[:1])] * 2):
            with self.assertRaises(kvasir.BadInput):
                cache.add_tokens(bad)
        cache.reset()
        self.assertEqual(cache.tokens, 0)


if __name__ == "__main__":
    unittest.main()
