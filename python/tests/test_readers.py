"""What readers of five systems would write first: it runs, or the message names what to write here instead.

The systems: KIVI on Intel GPUs, the quantised cache of transformers, KVBoost, quant.cpp, KTransformers. Imports and the
class that is made first have Kvasir's names; everything behind them is as those systems' documentation has it.
"""

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import kvasir

MODEL = str(os.environ.get("KVASIR_MODEL") or Path(__file__).parents[2] / "models" / "kvasir-books-4m.gguf")
PROGRAM = os.environ.get("KVASIR_PROGRAM", "")
needs_program = unittest.skipUnless(PROGRAM and os.access(PROGRAM, os.X_OK), "SKIPPED: KVASIR_PROGRAM names no program")
TEXT = "It was a dark and stormy night, and the rain fell in torrents. " * 12


def run(*arguments):
    """The exit code and all that `kvasir` says."""
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


class Readers(unittest.TestCase):
    @contextlib.contextmanager
    def named(self, *words):
        """What stands in the block is refused, and the message has all of `words`."""
        with self.assertRaises((kvasir.Error, SystemExit)) as caught:
            yield
        for word in words:
            self.assertIn(word, str(caught.exception))

    def program_names(self, word, *arguments):
        code, said = run(*arguments)
        self.assertNotEqual(code, 0)
        self.assertIn(word, said)


class Kivi(Readers):
    @classmethod
    def setUpClass(cls):
        try:
            import torch
            from transformers import AutoModelForCausalLM, BatchEncoding, GPT2Config
        except ImportError as e:
            raise unittest.SkipTest(f"SKIPPED: {e}")
        torch.manual_seed(1)
        config = GPT2Config(vocab_size=97, n_embd=64, n_layer=2, n_head=2, n_positions=512, bos_token_id=1, eos_token_id=2)
        cls.torch, cls.model = torch, AutoModelForCausalLM.from_config(config).eval()

        class Tokenizer:
            eos_token_id = 2

            def __call__(self, text, return_tensors):
                ids = torch.tensor([[3 + len(w) for w in text.split()]])
                return BatchEncoding({"input_ids": ids, "attention_mask": torch.ones_like(ids)})

            def decode(self, ids, **_):
                return " ".join(str(int(i)) for i in ids)

        cls.tokenizer = Tokenizer()

    def test_01_generate_with_progress(self):
        from kvasir.kivi import generate

        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            text = generate(self.model, self.tokenizer, "The history of computing", max_new_tokens=8, group_size=32,
                            residual_length=64, temperature=1.0, top_k=None, do_sample=False, verbose=True)
        self.assertTrue(text.startswith("6 10 5 12"))
        self.assertIn("cache: ", out.getvalue())

    def test_02_a_cache_that_follows_the_model(self):
        from kvasir.kivi import KiviCache

        cache = KiviCache.from_model(self.model, group_size=16, residual_length=64)
        ids = self.torch.randint(3, 97, (1, 200))
        with self.torch.no_grad():
            out = self.model(ids, use_cache=True)
        from kvasir.hf import of_output

        cache.add_tokens(of_output(out))
        stats = cache.get_stats(0)
        self.assertEqual(stats["total_tokens"], 200)
        self.assertGreater(stats["compression"], 2)
        self.assertEqual(cache.get_full_cache().get_seq_length(), 200)

    def test_03_its_device(self):
        from kvasir.hf import of_output
        from kvasir.kivi import KiviCache

        with self.named("device tpu", "expected cpu, gpu"):
            KiviCache.from_model(self.model, device="tpu", group_size=16, residual_length=64)
        held = []
        for device in ("cpu", "opencl", "xpu"):
            try:
                cache = KiviCache.from_model(self.model, device=device, group_size=16, residual_length=64)
            except kvasir.Unsupported as e:  # there is none here, and the text says what was tried
                self.assertRegex(str(e), f"device {device}: .*tried")
                continue
            self.torch.manual_seed(1)
            with self.torch.no_grad():
                cache.add_tokens(of_output(self.model(self.torch.randint(3, 97, (1, 200)), use_cache=True)))
            held.append([a.tobytes() for a in cache.get(0)])
        self.assertTrue(all(h == held[0] for h in held))

    def test_04_arrays(self):
        from kvasir.kivi import dequantize_keys, quantize_keys

        x = self.torch.randn(1, 2, 64, 32)
        codes, scales, zeros = quantize_keys(x, group_size=4)
        back = dequantize_keys(codes, scales, zeros, group_size=4)
        self.assertLess(float((back - x).norm() / x.norm()), 0.4)

    def test_05_quantized_cache(self):
        from kvasir.hf import QuantizedCache, as_argument

        past = QuantizedCache(backend="quanto", config=self.model.config, nbits=4, axis_key=0, axis_value=0, q_group_size=32, residual_length=128)
        ids = self.torch.randint(3, 97, (1, 200))
        out = self.model.generate(ids, attention_mask=self.torch.ones_like(ids), **as_argument(past), max_new_tokens=4, do_sample=False, pad_token_id=0)
        self.assertGreater(out.shape[1], 200)

    def test_06_quantized_cache_of_other_axes(self):
        from kvasir.hf import QuantizedCache

        with self.named("axis_key: 0", "expected 1", "kivi4"):
            QuantizedCache(backend="hqq", config=self.model.config, nbits=4)
        with self.named("nbits 60", "quanto 4"):
            QuantizedCache(backend="quanto", config=self.model.config, nbits=60)


class KvBoost(Readers):
    @classmethod
    def setUpClass(cls):
        cls.engine = kvasir.Engine.from_pretrained(MODEL, threads=2, ctx=1024)

    @classmethod
    def tearDownClass(cls):
        cls.engine.close()

    def test_07_from_the_hub(self):
        with mock.patch.dict(sys.modules, {"huggingface_hub": None}):  # test_hub.py has it with
            with self.named("Qwen/Qwen2.5-3B", "kvasir[hub]", "kvasir pull hf:Qwen/Qwen2.5-3B"):
                kvasir.Engine.from_pretrained("Qwen/Qwen2.5-3B")

    def test_08_options_of_its_engine(self):
        for name, words in {
            "chunk_size": "pages of 128 tokens", "recency_window_chunks": "not to be chosen", "max_cache_bytes": "'ram_cache'", "kv_cache_bits": "'kv'", "recompute_strategy": "'blend_strategy'",
            "recompute_overlap": "'blend_first_rows'", "overlap_k": "'blend_first_rows'", "disk_cache_dir": "'cache_dir'",
            "max_batch_size": "'running'", "awq_streaming": "'weights_memory'", "num_blocks": "'pool'", "block_size": "128 tokens",
        }.items():
            with self.subTest(name), self.named(name, words):
                kvasir.Engine.from_pretrained(MODEL, **{name: 8})

    def test_09_warm_and_ask(self):
        self.engine.warm(TEXT)
        result = self.engine.generate(TEXT + "What happened?", max_new_tokens=8, temperature=0.0)
        self.assertGreater(result.kv_reuse_ratio, 0.5)
        self.assertEqual((result.mode, result.prompt), ("prefix_cache", TEXT + "What happened?"))
        self.assertEqual(self.engine.generate(TEXT, 1, reuse=False).mode, "baseline")
        with self.named("do_sample", "temperature of 0"):
            self.engine.generate(TEXT, do_sample=True)
        with self.named("num_beams", "no beam search"):
            self.engine.generate(TEXT, num_beams=4)
        self.assertGreater(result.total_ms, result.ttft_ms)

    def test_10_verify_correctness(self):
        report = self.engine.verify_correctness([TEXT, TEXT * 2], max_new_tokens=8)
        self.assertTrue(report["equal"])
        self.assertGreater(report["reused_tokens"], 0)

    def test_11_a_stream(self):
        pieces = []
        result = self.engine.generate(TEXT, max_new_tokens=8, on_text=pieces.append)
        self.assertEqual("".join(pieces), result.text)
        self.assertGreater(len(pieces), 1)

    @needs_program
    def test_12_options_of_its_server(self):
        if run("serve", "--help")[0] != 0:
            self.skipTest("SKIPPED: this program was built without the server")
        for option, words in (("--kv-cache-bits", "is --kv here"), ("--recompute-strategy", "is --blend-strategy here"),
                              ("--draft-model", "is --draft model:FILE here"), ("--gamma", "is --draft-tokens here"),
                              ("--max-batch-size", "is --running here"), ("--sink-tokens", "is --sinks here")):
            with self.subTest(option):
                self.program_names(words, "serve", option, "4")


    @needs_program
    def test_12b_one_hint_for_one_name(self):
        if run("serve", "--help")[0] != 0:
            self.skipTest("SKIPPED: this program was built without the server")
        for name in ("sink_tokens", "kv_cache_bits", "max_batch_size", "gamma", "speculative_gamma", "recompute_ratio", "num_blocks",
                     "chunk_size", "recency_window_chunks", "block_size"):  # fmt: skip
            with self.subTest(name), self.assertRaises(kvasir.BadInput) as caught:
                kvasir.Engine(MODEL, **{name: 4})
            here = re.search(r"\((.*?)\)", str(caught.exception))[1]
            said = re.search(r"\((.*)\)", run("serve", "-m", MODEL, "--" + name.replace("_", "-"), "4")[1])[1]
            ours = re.search(r"'\w+' is '(\w+)'", here)
            if ours:
                self.assertIn(f"is --{ours[1].replace('_', '-')} here", said)
            else:
                self.assertIn(here.split(": ", 1)[1].split("(")[0].strip(), said)


class QuantCpp(Readers):
    @needs_program
    def test_13_run(self):
        code, said = run("run", "-m", MODEL, "-p", "Once upon a time", "-n", "8", "-t", "2")
        self.assertEqual(code, 0)
        self.assertRegex(said, r"tokens/s")

    @needs_program
    def test_14_its_types(self):
        for keys in ("uniform4", "uniform2", "delta3", "polar4", "qjl1", "turbo3", "turbo4"):
            with self.subTest(keys):
                self.assertEqual(run("run", "-m", MODEL, "-p", "Once", "-n", "2", "-t", "2", "--kv", f"{keys}/f16")[0], 0)

    @needs_program
    def test_15_perplexity(self):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as text:
            text.write(TEXT * 8)
            text.flush()
            code, said = run("eval", "ppl", "-m", MODEL, "-f", text.name, "--ctx", "256", "--kv", "uniform4/f16", "-t", "2")
        self.assertEqual((code, "uniform4" in said), (0, True), said)

    def test_16_a_callback_that_stops(self):
        heard = []
        with kvasir.Engine(MODEL, threads=2, ctx=4096) as engine:  # the engine goes on until it hears of it
            answer = engine.generate("Once", max_new_tokens=3000, ignore_eos=True, on_text=lambda text: heard.append(text) or False)
        self.assertEqual(answer.finish, "cancelled")
        self.assertEqual(len(heard), 1)
        self.assertLess(answer.tokens, 3000)


class KTransformers(Readers):
    CONFIG = """
light:
  port: 10003
model:
  type: long_context
long_context:
  max_seq_len: 4096
  block_size: 128
  head_select_mode: SHARED
  second_select_num: 32
  threads_num: 2
  anchor_type: DYNAMIC
  kv_type: FP16
  dense_layer_num: 0
  anchor_num: 1
  preselect_block: false
  preselect_block_count: 0
  chunk_size: 512
  layer_step: 1
  token_step: 100
"""

    def with_config(self, text, *more):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(text)
            file.flush()
            return run("run", "-m", MODEL, "--config", file.name, "-p", "Once upon", "-n", "2", *more)

    @needs_program
    def test_17_its_file(self):
        code, said = self.with_config(self.CONFIG)
        self.assertEqual(code, 0, said)
        self.assertIn("not used here: light, model", said)

    @needs_program
    def test_18_its_other_anchors(self):
        for anchors in ("MAX", "MEAN", "FIX", "FIXED", "QUEST", "BLOCK_MAX", "BLOCK_MEAN"):
            with self.subTest(anchors):
                self.assertEqual(self.with_config(re.sub("DYNAMIC", anchors, self.CONFIG))[0], 0)
        code, said = self.with_config(re.sub("DYNAMIC", "BLOCK_TOPK", self.CONFIG))
        self.assertNotEqual(code, 0)
        self.assertIn("'anchor_type': expected one of DYNAMIC, BLOCK_MEAN, BLOCK_MAX, FIXED, QUEST", said)

    @needs_program
    def test_19_blocks_of_one_token(self):
        code, said = self.with_config(re.sub("block_size: 128", "block_size: 1", self.CONFIG))
        self.assertEqual(code, 0, said)
        code, said = self.with_config(re.sub("block_size: 128", "block_size: 4", self.CONFIG))
        self.assertNotEqual(code, 0)
        self.assertIn("'block_size': expected 1, 8, 16, 32, 64 or 128", said)

    @needs_program
    def test_20_its_command_line(self):
        for option, words in (("--prompt_file", "is -f here"), ("--max_new_tokens", "is -n here"), ("--cpu_infer", "is --threads here"),
                              ("--gguf_path", "is -m here"), ("--optimize_config_path", "the model's file says it")):
            with self.subTest(option):
                self.program_names(words, "run", option, "4")


if __name__ == "__main__":
    unittest.main()
