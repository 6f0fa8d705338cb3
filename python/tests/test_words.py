"""Options have the command line's words, and answers its bits."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import kvasir

MODEL = str(os.environ.get("KVASIR_MODEL") or Path(__file__).parents[2] / "models" / "kvasir-books-4m.gguf")
PROGRAM = os.environ.get("KVASIR_PROGRAM", "")
ENGINE = {"threads": 2, "ctx": 1024}
STORY = "It was a dark and stormy night, and the rain fell in torrents. "
DRAWN = {"temperature": 0.9, "seed": 7, "ignore_eos": True, "n_predict": 24}
needs_program = unittest.skipUnless(PROGRAM and os.access(PROGRAM, os.X_OK), "SKIPPED: KVASIR_PROGRAM names no program")


def run(prompt, options):
    """`kvasir run` with options by their names here."""
    flags = []
    for name, value in options.items():
        for one in value if isinstance(value, list) else [value]:
            flags += [f"--{name.replace('_', '-')}"] + ([] if one is True else [str(one)])
    done = subprocess.run([PROGRAM, "run", "-m", MODEL, "--json", "--logprobs", "0", "-p", prompt, *flags], capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr


class WordsTest(unittest.TestCase):
    def same(self, answer, row):
        self.assertEqual(answer.ids, row["ids"])
        self.assertEqual([t["logprob"] for t in answer.logprobs], [t["logprob"] for t in row["logprobs"]])

    @needs_program
    def test_answers_are_the_command_lines_bit_for_bit(self):
        for more in (
            {},
            {"kv": "kivi2"},
            {"draft": "lookup", "draft_always": True},
            {"draft": ["lookup", "model:" + MODEL], "draft_tokens": 4, "draft_always": True},
            {"select": "quest:budget=128:block=16"},
            {"reuse": "off"},
        ):
            with self.subTest(**more), kvasir.Engine(MODEL, **ENGINE, **more) as engine:
                cold = engine.generate(STORY * 20, logprobs=True, **DRAWN)
                self.same(cold, run(STORY * 20, {**ENGINE, **more, **DRAWN}))
                warm = engine.generate(STORY * 20, logprobs=True, **DRAWN)
                self.assertEqual((warm.ids, warm.logprobs), (cold.ids, cold.logprobs))
                self.assertEqual(warm.receipt["reused_tokens"] > 128, more.get("reuse") != "off")
                self.assertEqual("draft" in warm.receipt, "draft" in more)

    @needs_program
    def test_a_folder_is_shared_with_the_command_line(self):
        with tempfile.TemporaryDirectory() as folder:
            row = run(STORY * 20, {**ENGINE, **DRAWN, "cache_dir": folder})
            with kvasir.Engine(MODEL, **ENGINE, cache_dir=folder, ram_cache=0) as engine:
                answer = engine.generate(STORY * 20, logprobs=True, **DRAWN)
                self.same(answer, row)
                self.assertGreater(answer.receipt["reused_tokens"], 128)
                # A cut session goes on as the text would alone.
                session = engine.session(STORY * 20)
                size = len(session)
                session.generate(5, temperature=0)
                session.truncate(size)
                self.same(session.generate(logprobs=True, **DRAWN), row)

    @needs_program
    def test_messages_are_the_command_lines(self):
        for wrong in ({"draft": "guess"}, {"draft": ["lookup", "lookup"]}, {"select": "nonsense"}, {"reuse": "sometimes"}, {"blend_ratio": 3}):
            with self.subTest(**wrong), self.assertRaises(kvasir.BadInput) as caught:
                kvasir.Engine(MODEL, **ENGINE, **wrong)
            said = run("x", {**ENGINE, **wrong}).strip().removeprefix("kvasir: ").removeprefix("--").split("\n")[0]
            (name,) = wrong
            self.assertEqual(str(caught.exception).removeprefix("--").removeprefix(name), said.removeprefix(name.replace("_", "-")))

    def test_requests_have_the_servers_fields(self):
        with kvasir.Engine(MODEL, **ENGINE, draft="lookup", draft_always=True) as engine:
            alone = engine.generate(STORY * 20, draft=False, reuse=False, logprobs=True, **DRAWN)
            self.assertNotIn("draft", alone.receipt)
            for draft, asked in ((True, True), (["lookup"], True), ("lookup", True), (None, True), ([], False)):
                answer = engine.generate(STORY * 20, draft=draft, reuse="exact", logprobs=True, **DRAWN)
                self.assertEqual((answer.ids, answer.logprobs), (alone.ids, alone.logprobs))
                self.assertEqual("draft" in answer.receipt, asked, draft)
            for wrong, text in (
                ({"draft": "mtp"}, "draft: unknown drafter 'mtp', expected one of: lookup"),
                ({"reuse": "sometimes"}, "reuse: expected one of off, exact, blend, found 'sometimes'"),
                ({"select": "quest"}, "select: is 'quest', which does not suit --select all"),
                ({"select": "nonsense"}, "select: unknown selector 'nonsense', expected one of"),
                ({"blend_strategy": "all"}, "blend_strategy: expected one of none, first_rows, blend, found 'all'"),
            ):
                with self.subTest(**wrong), self.assertRaises(kvasir.BadInput) as caught:
                    engine.generate("x", 1, **wrong)
                self.assertIn(text, str(caught.exception))


class OptionsTest(unittest.TestCase):
    def test_every_option_of_a_request_is_taken_and_a_wrong_value_is_refused_in_the_tables_words(self):
        with kvasir.Engine(MODEL, **ENGINE) as engine:
            for option in kvasir.options()["request"]:
                name, preset = option["name"], option["preset"]
                with self.subTest(option=name):
                    if name != "draft":  # of the engine's drafters, and there are none
                        engine.generate("x", **{"n_predict": 1, name: preset if preset != -1 else 1})
                    if option["expects"] not in ("text", "a list of strings"):
                        with self.assertRaises(kvasir.BadInput) as caught:
                            engine.generate("x", **{name: "quark"})
                        self.assertTrue(str(caught.exception).startswith(f"{name}: expected {option['expects']}"), caught.exception)

    def test_every_option_of_an_engine_is_known(self):
        options = kvasir.options()["engine"]
        with self.assertRaises(kvasir.BadInput) as caught:
            kvasir.Engine(MODEL, no_such_option=1)
        known = str(caught.exception).split("expected one of ")[1].split(", ")
        self.assertEqual(sorted(known), sorted({o["name"] for o in options}))
        for option in options:
            if option["expects"] in ("text", "a list of strings"):
                continue
            with self.subTest(option=option["name"]), self.assertRaisesRegex(kvasir.BadInput, f"^{option['name']}: expected "):
                kvasir.Engine(MODEL, **{option["name"]: "quark"})


class CallsTest(unittest.TestCase):
    def test_a_batch_has_the_answers_that_each_would_have_alone(self):
        prompts = [STORY * 20, "A cat", "The sea was", STORY * 20 + "A cat", "He said"]
        with kvasir.Engine(MODEL, **ENGINE, running=3) as engine:
            alone = [engine.generate(p, reuse=False, logprobs=True, **DRAWN) for p in prompts]
            together = engine.generate_batch(prompts, logprobs=True, **DRAWN)
            self.assertEqual([(a.ids, a.logprobs) for a in together], [(a.ids, a.logprobs) for a in alone])
            self.assertEqual(engine.generate_batch([]), [])
            with self.assertRaisesRegex(kvasir.BadInput, "top_p"):
                engine.generate_batch(prompts, top_p=3)
            with self.assertRaisesRegex(kvasir.BadInput, "prompts: expected a list of texts"):
                engine.generate_batch("A cat")

    def test_answers_have_kvboosts_names_too(self):
        with kvasir.Engine(MODEL, **ENGINE) as engine:
            engine.generate(STORY * 20, **DRAWN)
            answer = engine.generate(STORY * 20, **DRAWN)
            self.assertEqual((answer.output_text, answer.generated_tokens), (answer.text, 24))
            self.assertEqual(answer.tokens_per_sec, answer.tokens_per_second)
            self.assertGreater(answer.cached_tokens, 128)
            self.assertEqual(answer.cached_tokens, answer.receipt["reused_tokens"])

    def test_rows_stand_for_tokens(self):
        with kvasir.Engine(MODEL, **ENGINE) as engine:
            ids = engine.tokenize(STORY * 20)
            whole = engine.generate(ids, reuse=False, logprobs=True, **DRAWN)
            rows = engine.rows_of(ids[30:250])
            self.assertEqual((len(rows), len(rows[0])), (220, engine.info()["width"]))
            mixed = [*ids[:30], rows, *ids[250:]]
            for _ in range(2):
                answer = engine.generate(mixed, logprobs=True, **DRAWN)
                self.assertEqual((answer.ids, answer.logprobs), (whole.ids, whole.logprobs))
            self.assertGreater(answer.receipt["reused_tokens"], 128)
            rows[0][0] += 1
            self.assertLessEqual(engine.generate(mixed, **DRAWN).receipt["reused_tokens"], 30)
            for wrong, text in (([1, rows[0]], "rows: expected"), ([1, [[0.0] * 3]], r"rows: expected \(n, \d+\) numbers behind the first 1"), ([1, [[float("nan")] * len(rows[0])]], "not finite")):
                with self.assertRaisesRegex(kvasir.BadInput, text):
                    engine.generate(wrong)

    def test_pictures_need_their_encoder(self):
        part = {"type": "image", "image": b"x"}
        asked = [{"role": "user", "content": [{"type": "text", "text": "What?"}, part]}]
        with kvasir.Engine(MODEL, **ENGINE) as engine:
            with self.assertRaisesRegex(kvasir.BadInput, r"images\[0\]: is a picture, .* mmproj"):
                engine.generate("x", images=[b"x"])
            with self.assertRaisesRegex(kvasir.BadInput, r"messages\[0\].content\[1\]: is a picture, .* mmproj"):
                engine.chat(asked)
            with self.assertRaises(FileNotFoundError):
                engine.generate("x", images=["no such file.png"])
            with self.assertRaisesRegex(kvasir.BadInput, "found int"):
                engine.generate("x", images=[1])
            with self.assertRaisesRegex(kvasir.BadInput, "expected a text"):
                engine.generate([1, 2], images=[b"x"])

    def test_the_cache_is_counted_and_reset(self):
        with kvasir.Engine(MODEL, **ENGINE) as engine:
            first = engine.generate(STORY * 20, logprobs=True, **DRAWN)
            self.assertGreater(engine.generate(STORY * 20, **DRAWN).receipt["reused_tokens"], 128)
            self.assertGreater(engine.cache_stats()["hit_share"], 0.4)
            engine.reset_cache()
            self.assertEqual([t["records"] for t in engine.cache_stats()["tiers"]], [0])
            again = engine.generate(STORY * 20, logprobs=True, **DRAWN)
            self.assertEqual((again.ids, again.logprobs, again.receipt["reused_tokens"]), (first.ids, first.logprobs, 0))
            self.assertGreater(engine.generate(STORY * 20, **DRAWN).receipt["reused_tokens"], 128)

    def test_drafts_are_counted_by_step(self):
        with kvasir.Engine(MODEL, **ENGINE, draft="model:" + MODEL, draft_always=True) as engine:
            answers = engine.generate_batch([STORY, "A cat"], **{**DRAWN, "temperature": 0})
            stats = engine.speculative_stats()
            drafts = [a.receipt["draft"] for a in answers]
            for name in ("drafted", "accepted", "steps", "tokens"):
                self.assertEqual(stats[name], sum(d[name] for d in drafts))
            self.assertEqual(sum(n * steps for n, steps in enumerate(stats["histogram"])), stats["accepted"])
            self.assertEqual(sum(stats["histogram"]), sum(d["drafted_at"][0] for d in drafts))
            self.assertGreater(stats["acceptance"], 0)

    @needs_program
    def test_vectors_are_those_of_the_command_line(self):
        with kvasir.Engine(MODEL, **ENGINE) as engine:
            one = engine.embed(STORY)
            self.assertEqual(engine.embed([STORY, "A cat"])[0], one)
            row = json.loads(subprocess.run([PROGRAM, "embed", "-m", MODEL, "-p", STORY], capture_output=True, text=True, check=True).stdout)
            self.assertEqual([round(x, 6) for x in one], [round(x, 6) for x in row["embeddings"][0]])
            self.assertEqual(len(engine.embed(STORY, dimensions=8, pooling="mean", raw=True)), 8)
            for wrong, text in (({"pooling": "all"}, "expected mean, cls or last"), ({"dimensions": 1 << 20}, "expected at most"), ({"top_k": 1}, "top_k: is no option here")):
                with self.assertRaisesRegex(kvasir.BadInput, text):
                    engine.embed("x", **wrong)


if __name__ == "__main__":
    unittest.main()
