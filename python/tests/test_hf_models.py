"""KvasirCache with the kinds of models that attend in ways of their own; tiny, random, nothing is downloaded."""

import copy
import unittest

try:
    import torch
    from transformers import AutoModelForCausalLM, BloomConfig, DynamicCache, FalconConfig, Gemma3nTextConfig, Gemma3TextConfig
    from transformers import LlamaConfig, MistralConfig, MptConfig, Qwen2Config

    import kvasir
    from kvasir import hf
except ImportError as e:
    raise unittest.SkipTest(f"SKIPPED: {e}")
try:
    from transformers import Gemma4TextConfig
except ImportError:  # versions before it
    Gemma4TextConfig = None

SIZE = dict(vocab_size=97, hidden_size=64)
LAYERS = dict(num_hidden_layers=3, num_attention_heads=4, **SIZE)
GROUPED = dict(num_key_value_heads=2, intermediate_size=96, max_position_embeddings=1024, **LAYERS)
KINDS = ["sliding_attention", "sliding_attention", "full_attention"]
SHARED = dict(num_attention_heads=4, num_key_value_heads=2, head_dim=16, intermediate_size=96, sliding_window=64, num_hidden_layers=6,
              num_kv_shared_layers=3, layer_types=2 * KINDS, vocab_size_per_layer_input=97, hidden_size_per_layer_input=8,
              max_position_embeddings=1024, **SIZE)
OWN = {  # layers that attend by themselves
    "falcon": FalconConfig(**LAYERS),
    "falcon, alibi": FalconConfig(alibi=True, **LAYERS),
    "falcon, new": FalconConfig(new_decoder_architecture=True, num_kv_heads=2, **{**LAYERS, "num_attention_heads": 8, "hidden_size": 128}),
    "bloom": BloomConfig(n_layer=3, n_head=4, **SIZE),
    "bloom, 6 heads": BloomConfig(n_layer=2, n_head=6, vocab_size=97, hidden_size=96),
    "mpt": MptConfig(d_model=64, n_heads=4, n_layers=3, max_seq_len=512, vocab_size=97),
    "mpt, 6 heads": MptConfig(d_model=96, n_heads=6, n_layers=2, max_seq_len=512, vocab_size=97),
}
SLIDING = {
    "mistral": MistralConfig(sliding_window=64, **GROUPED),
    "gemma3": Gemma3TextConfig(sliding_window=64, head_dim=16, layer_types=KINDS, **GROUPED),
    "qwen2": Qwen2Config(use_sliding_window=True, sliding_window=64, max_window_layers=1, **GROUPED),
}
SHARING = {"gemma3n": Gemma3nTextConfig(laurel_rank=8, activation_sparsity_pattern=[0.0] * 6, **SHARED)}
if Gemma4TextConfig:
    SHARING["gemma4"] = Gemma4TextConfig(global_head_dim=32, **SHARED)
ALL = {**OWN, **SLIDING, **SHARING}


def model_of(config, seed=7):
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(copy.deepcopy(config)).eval()
    with torch.no_grad():  # as they are made, such models say one word for ever
        for p in model.parameters():
            if p.ndim > 1:
                p.normal_(0, 0.12)
    model.generation_config.use_cache, model.generation_config.eos_token_id = True, 0
    return model


def ids_of(rows, n, seed=1):
    return torch.randint(3, 97, (rows, n), generator=torch.Generator().manual_seed(seed))


def generate(model, ids, cache, n=10, **more):
    more = {"attention_mask": torch.ones_like(ids), "do_sample": False, "pad_token_id": 0, **more}
    return model.generate(ids, **hf.as_argument(cache), max_new_tokens=n, **more)


def own(model):
    if model.config._attn_implementation == hf.NAME:
        model.set_attn_implementation("sdpa")
    return DynamicCache(config=model.config)


def ours(model, **options):
    return hf.KvasirCache.from_model(model, threads=1, **options)


class HfModelsTest(unittest.TestCase):
    def each(self, test, configs=ALL):
        for name, config in configs.items():
            with self.subTest(model=name):
                test(model_of(config))

    def test_tokens_and_logits_are_those_of_the_models_own_cache(self):
        ids, mask = ids_of(2, 200), torch.ones(2, 200, dtype=torch.long)
        mask[1, :37] = 0

        def test(model):
            want = generate(model, ids, own(model), attention_mask=mask)
            self.assertGreater(len(set(want[:, 200:].flatten().tolist())), 1)
            self.assertTrue(torch.equal(generate(model, ids, ours(model, codecs="f32"), attention_mask=mask), want))
            with torch.no_grad():
                want = model(ids, attention_mask=mask, **hf.as_argument(own(model))).logits[:, -1]
                for codecs, most in (("f32", 1e-5), ("f16", 3e-3), ("safe", 0.06)):
                    cache = ours(model, codecs=codecs, window=0, sinks=0)
                    model(ids[:, :190], attention_mask=mask[:, :190], **hf.as_argument(cache))
                    got = model(ids[:, 190:], attention_mask=mask, **hf.as_argument(cache)).logits[:, -1]
                    self.assertLess(float((got - want).norm() / want.norm()), most, codecs)

        self.each(test)

    def test_beams(self):
        ids = ids_of(2, 100)

        def test(model):
            want = generate(model, ids, own(model), 8, num_beams=3)
            self.assertTrue(torch.equal(generate(model, ids, ours(model, codecs="f32"), 8, num_beams=3), want))

        self.each(test)

    def test_assistance(self):
        ids = ids_of(1, 40).repeat(1, 4)

        def test(model):
            want = generate(model, ids, own(model))
            got = generate(model, ids, ours(model, codecs="f32"), prompt_lookup_num_tokens=4)
            self.assertTrue(torch.equal(got[:, : want.shape[1]], want))  # transformers 5.0 does not stop at max_new_tokens
            helper = model_of(LlamaConfig(**{**GROUPED, "num_hidden_layers": 1}), seed=3)
            got = generate(model, ids, ours(model, codecs="f32"), assistant_model=helper)
            self.assertTrue(torch.equal(got[:, : want.shape[1]], want))

        self.each(test)

    def test_a_cut_cache_goes_on_as_if_nothing_had_been_there(self):
        ids, other = ids_of(2, 200), ids_of(2, 5, seed=9)

        def test(model):
            with torch.no_grad():
                cache = ours(model, codecs="balanced", sinks=4)
                model(ids, **hf.as_argument(cache))
                first = model(other, **hf.as_argument(cache)).logits
                cache.crop(-5)
                self.assertEqual(cache.get_seq_length(), 200)
                self.assertTrue(torch.equal(model(other, **hf.as_argument(cache)).logits, first))

        self.each(test)

    def test_a_model_without_the_cache_is_what_it_was(self):
        ids, mask = ids_of(2, 150), torch.ones(2, 150, dtype=torch.long)
        mask[0, :20] = 0
        plain = dict(max_new_tokens=4, do_sample=False, pad_token_id=0)

        def test(model):
            with torch.no_grad():
                want, tokens = model(ids, attention_mask=mask).logits, model.generate(ids, attention_mask=mask, **plain)
                ours(model)
                torch.testing.assert_close(model(ids, attention_mask=mask).logits[mask == 1], want[mask == 1], rtol=1e-4, atol=1e-5)
                self.assertTrue(torch.equal(model.generate(ids, attention_mask=mask, **plain), tokens))

        self.each(test)

    @torch.no_grad()
    def test_bias_by_distance_is_not_rounded(self):
        # Falcon in transformers multiplies slopes and places in bfloat16, which is exact up to 256 tokens alone.
        model, ids = model_of(OWN["falcon, alibi"]), ids_of(1, 500)
        import transformers.models.falcon.modeling_falcon as falcon

        def exact(mask, heads, dtype):
            one = rounded(torch.ones(1, 2, dtype=torch.long), heads, torch.float32)[:, 0, 1]
            return (one[None, :, None] * (mask.cumsum(-1) - 1)[:, None]).reshape(-1, 1, mask.shape[1]).to(dtype)

        rounded, falcon.build_alibi_tensor = falcon.build_alibi_tensor, exact
        try:
            want = model(ids).logits[0, -1]
        finally:
            falcon.build_alibi_tensor = rounded
        got = model(ids, **hf.as_argument(ours(model, codecs="f32"))).logits[0, -1]
        self.assertLess(float((got - want).norm() / want.norm()), 1e-5)

    def test_shared_layers_count_as_pages_of_their_own(self):

        def test(model):
            cache = ours(model, codecs="f16")
            model(ids_of(1, 100), **hf.as_argument(cache))
            self.assertEqual(cache.store.shared, {3, 4, 5})
            self.assertEqual(cache.stats()["fp16_bytes"], 100 * 2 * 2 * sum(l.kv_heads * l.head_dim for l in cache.store.layers))

        self.each(test, SHARING)


class MasksTest(unittest.TestCase):
    def refuse(self, text, model, ids, mask, cache=None, **more):
        with self.assertRaisesRegex(kvasir.Error, text):
            model(ids, attention_mask=mask, **hf.as_argument(cache or ours(model)), **more)

    def test_masks_that_are_causal_are_taken_and_others_refused(self):
        ids, causal = ids_of(1, 20), torch.ones(20, 20).tril().bool()[None, None]
        for config in (LlamaConfig(**GROUPED), OWN["bloom"], OWN["mpt"], OWN["falcon"]):
            model = model_of(config)
            with torch.no_grad(), self.subTest(model=model.config.model_type):
                if model.config.model_type == "llama":
                    want = model(ids, **hf.as_argument(ours(model, codecs="f32"))).logits
                    got = model(ids, attention_mask=causal, **hf.as_argument(ours(model, codecs="f32"))).logits
                    self.assertTrue(torch.equal(got, want))
                    tree = causal.clone()
                    tree[0, 0, 10, 5] = False
                    self.refuse("not causal but for padding", model, ids, tree)
                    self.refuse("not causal but for padding", model, ids, torch.ones_like(causal))
                holes = torch.ones(1, 20, dtype=torch.long)
                holes[0, 5] = 0
                self.refuse("expected it on the left", model, ids, holes)
                right = torch.ones(1, 20, dtype=torch.long)
                right[0, 18:] = 0
                self.refuse("expected it on the left", model, ids, right)

    def test_tokens_cannot_be_left_out_later(self):
        model, ids = model_of(LlamaConfig(**GROUPED)), ids_of(1, 21)
        with torch.no_grad():
            cache = ours(model)
            model(ids[:, :20], **hf.as_argument(cache))
            later = torch.ones(1, 21, dtype=torch.long)
            later[0, 7] = 0
            self.refuse("leaves out tokens that the cache holds", model, ids[:, 20:], later, cache)
            cache, padded = ours(model), torch.ones(1, 20, dtype=torch.long)
            padded[0, :3] = 0
            model(ids[:, :20], attention_mask=padded, **hf.as_argument(cache))
            self.refuse("tokens before were padding", model, ids[:, 20:], None, cache)


if __name__ == "__main__":
    unittest.main()
