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


if __name__ == "__main__":
    unittest.main()
