"""KvasirCache on published models. KVASIR_HF_MODELS names a folder with folders of models, KVASIR_HF_TEXT a text file."""

import os
import unittest
from pathlib import Path

FOLDER, TEXT = os.environ.get("KVASIR_HF_MODELS"), os.environ.get("KVASIR_HF_TEXT")
if not FOLDER or not TEXT:
    raise unittest.SkipTest("SKIPPED: KVASIR_HF_MODELS and KVASIR_HF_TEXT name no models and no text")
try:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache, QuantizedCache

    from kvasir import hf
except ImportError as e:
    raise unittest.SkipTest(f"SKIPPED: {e}")

PROMPTS = 10
TOKENS = {8: 200, 4: 32}  # of greedy answers, by bits
PROMPT_TOKENS = 320  # more than the window: half of it is sealed


class ModelsTest(unittest.TestCase):
    def agree(self, name):
        model = AutoModelForCausalLM.from_pretrained(Path(FOLDER) / name, dtype=torch.float32).eval()
        tokenizer = AutoTokenizer.from_pretrained(Path(FOLDER) / name)
        ids = tokenizer(Path(TEXT).read_text()[:60000], return_tensors="pt").input_ids[0]
        # At distances, so that the prompts are of different texts.
        starts = [i * (len(ids) - PROMPT_TOKENS) // PROMPTS for i in range(PROMPTS)]
        prompts = [ids[a : a + PROMPT_TOKENS][None] for a in starts]

        def answer(prompt, cache, n):
            return model.generate(prompt, attention_mask=torch.ones_like(prompt), past_key_values=cache, max_new_tokens=n,
                                  min_new_tokens=n, do_sample=False, pad_token_id=0)[0, PROMPT_TOKENS:]

        model.set_attn_implementation("sdpa")
        want = [answer(p, DynamicCache(config=model.config), max(TOKENS.values())) for p in prompts]

        def equal(label, make, n):
            """How many answers are equal in all of n tokens."""
            first = []
            for p, w in zip(prompts, want):
                differ = (answer(p, make(), n) != w[:n]).nonzero().flatten()
                first.append(int(differ[0]) if len(differ) else n)
            print(f"{name}, {label}: equal tokens of {n}: {first}", flush=True)
            return sum(f == n for f in first)

        others = {}
        for backend, axis in ("quanto", 0), ("hqq", 1):
            options = dict(nbits=4, axis_key=axis, axis_value=axis, residual_length=128)
            try:
                others[backend] = equal(backend, lambda: QuantizedCache(backend, model.config, **options), TOKENS[4])
            except ImportError as e:
                print(f"{backend}: left out: {e}")
        got = {b: equal(f"{b} bits", lambda: hf.KvasirCache.from_model(model, bits=b), n) for b, n in TOKENS.items()}
        for backend, count in others.items():
            with self.subTest(beside=backend):
                self.assertGreaterEqual(got[4], count)
        for bits, count in got.items():
            with self.subTest(bits=bits):
                self.assertGreaterEqual(count, 9)

    def test_smollm2(self):
        self.agree("smollm2")

    def test_qwen(self):
        self.agree("qwen05")


if __name__ == "__main__":
    unittest.main()
