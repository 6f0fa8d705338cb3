"""KvasirCache on published models. KVASIR_HF_MODELS names a folder with folders of models, KVASIR_HF_TEXT a text file."""

import os
import unittest
from pathlib import Path

FOLDER, TEXT = os.environ.get("KVASIR_HF_MODELS"), os.environ.get("KVASIR_HF_TEXT")
if not FOLDER or not TEXT:
    raise unittest.SkipTest("SKIPPED: KVASIR_HF_MODELS and KVASIR_HF_TEXT name no models and no text")
try:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

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
        for bits, n in TOKENS.items():
            first = []
            for p, w in zip(prompts, want):
                got = answer(p, hf.KvasirCache.from_model(model, bits=bits), n)
                differ = (got != w[:n]).nonzero().flatten()
                first.append(int(differ[0]) if len(differ) else n)
            print(f"{name}, {bits} bits: equal tokens of {n}: {first}")
            self.assertGreaterEqual(sum(f == n for f in first), 9, (name, bits, first))

    def test_smollm2(self):
        self.agree("smollm2")

    def test_qwen(self):
        self.agree("qwen05")


if __name__ == "__main__":
    unittest.main()
