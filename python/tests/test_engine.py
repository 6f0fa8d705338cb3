import asyncio
import json
import os
import tempfile
import threading
import time
import unittest
from pathlib import Path

import kvasir

MODEL = os.environ.get("KVASIR_MODEL") or Path(__file__).parents[2] / "models" / "kvasir-books-4m.gguf"
GREEDY = {"temperature": 0, "ignore_eos": True}
STORY = "It was a dark and stormy night, and the rain fell in torrents. "


class EngineTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.engine = kvasir.Engine.from_pretrained(MODEL, threads=2, ctx=1024, running=2)

    @classmethod
    def tearDownClass(cls):
        cls.engine.close()

    def test_answers_stream_as_they_are_returned(self):
        pieces = []
        whole = self.engine.generate(STORY, 24, on_text=pieces.append, **GREEDY)
        self.assertEqual("".join(pieces), whole.text)
        self.assertEqual("".join(self.engine.stream(STORY, 24, **GREEDY)), whole.text)
        self.assertEqual((whole.tokens, whole.finish), (24, "length"))
        self.assertGreater(whole.total_ms, whole.ttft_ms)
        ids = self.engine.tokenize(STORY, add_bos=True)
        self.assertEqual(self.engine.generate(ids, 24, **GREEDY).ids, whole.ids)
        self.assertEqual(self.engine.detokenize(self.engine.tokenize(STORY)), STORY)

    def test_a_stream_that_is_left_ends_the_answer(self):
        stream = self.engine.stream(STORY, 900, **GREEDY)
        next(stream)
        stream.close()
        self.assertIsNone(stream.result)
        self.assertEqual(list(stream), [])
        self.assertEqual(self.engine.generate(STORY, 2, **GREEDY).tokens, 2)
        # Nobody has it any more.
        next(self.engine.stream(STORY, 900, **GREEDY))
        self.assertEqual(self.engine.generate(STORY, 2, **GREEDY).tokens, 2)

    def test_a_stream_ends_with_the_whole_answer(self):
        stream = self.engine.stream(STORY, 12, **GREEDY)
        text = "".join(stream)
        self.assertEqual((stream.result.text, stream.result.tokens), (text, 12))
        with self.assertRaises(kvasir.BadInput):
            next(self.engine.stream(STORY, 12, top_k=-7))

    def test_reuse_gives_the_same_bits(self):
        report = self.engine.verify_correctness(STORY * 20, 16, ignore_eos=True)
        self.assertTrue(report["equal"], report)
        self.assertEqual(report["equal_tokens"], 16)
        self.assertGreater(report["reused_tokens"], 128)
        self.assertGreater(self.engine.generate(STORY * 20, 1, **GREEDY).kv_reuse_ratio, 0.9)
        self.assertGreater(self.engine.stats()["reused_tokens"], 0)

    def test_receipts_have_the_form_of_the_servers(self):
        with kvasir.Engine.from_pretrained(MODEL, threads=2, ctx=1024, select="quest:budget=128:block=16") as engine:
            answer = engine.generate(STORY * 20, 4, **GREEDY)
        receipt = answer.receipt
        self.assertEqual(receipt["computed_tokens"], answer.prompt_tokens - receipt["reused_tokens"])
        self.assertEqual(receipt["select"]["name"].split(":")[0], "quest")
        self.assertLess(receipt["select"]["read_tokens"], receipt["select"]["seen_tokens"])
        self.assertEqual((receipt["finish"], receipt["spans"][-1]["end"]), ("length", answer.prompt_tokens))
        self.assertAlmostEqual(receipt["ttft_ms"], answer.ttft_ms)
        self.assertNotIn("blend", receipt)

    def test_sessions_fork_cut_and_last(self):
        a = self.engine.session(STORY)
        first = a.generate(8, **GREEDY)
        b = a.fork()
        b.truncate(len(a) - 8)
        self.assertEqual(b.generate(8, **GREEDY).ids, first.ids)
        self.assertEqual(b.ids, a.ids)
        with tempfile.TemporaryDirectory() as folder:
            a.save(Path(folder) / "a.json")
            c = kvasir.Session.load(self.engine, Path(folder) / "a.json")
            self.assertEqual(c.text, a.text)

    def test_errors_are_exceptions_with_the_librarys_text(self):
        with self.assertRaisesRegex(kvasir.BadInput, "foo: is no option here"):
            self.engine.generate("x", 1, foo=1)
        with self.assertRaisesRegex(ValueError, "top_p"):
            self.engine.generate("x", 1, top_p=3)
        with self.assertRaisesRegex(OSError, "none.gguf"):
            kvasir.Engine("none.gguf")
        with self.assertRaisesRegex(kvasir.BadInput, "chat template"):
            self.engine.chat([{"role": "user", "content": "Hi"}])
        with self.assertRaises(kvasir.BadInput):
            self.engine.detokenize([1 << 40])
        with self.assertRaises(KeyError):
            self.engine.generate("x", 9, on_text=lambda text: {}["mine"], **GREEDY)
        engine = kvasir.Engine(MODEL, threads=1, ctx=256)
        engine.close()
        engine.close()
        with self.assertRaisesRegex(kvasir.Error, "closed"):
            engine.info()

    def test_threads_and_asyncio(self):
        alone = [self.engine.generate(p, 12, **GREEDY).ids for p in ("A cat", "The sea")]
        got = [None, None]

        def run(i, p):
            got[i] = self.engine.generate(p, 12, **GREEDY).ids

        threads = [threading.Thread(target=run, args=x) for x in enumerate(("A cat", "The sea"))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(got, alone)

        async def both():
            pieces = [piece async for piece in self.engine.stream("A cat", 12, **GREEDY)]
            left = self.engine.astream("A cat", 900, **GREEDY)
            async for _ in left:
                break
            await left.aclose()
            return await asyncio.gather(*(self.engine.agenerate(p, 12, **GREEDY) for p in ("A cat", "The sea"))), pieces

        answers, pieces = asyncio.run(both())
        self.assertEqual([a.ids for a in answers], alone)
        self.assertEqual("".join(pieces), answers[0].text)

    @unittest.skipUnless(hasattr(os, "fork"), "no fork here")
    def test_a_forked_process_is_told(self):
        pid = os.fork()
        if pid == 0:
            try:
                self.engine.generate("x", 1)
            except kvasir.Error as e:
                os._exit(0 if "fork" in str(e) else 2)
            os._exit(1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)

    @unittest.skipUnless(hasattr(os, "fork"), "no fork here")
    def test_a_forked_process_opens_an_engine_of_its_own(self):
        # While a thread of this process generates, so that locks are held at the fork.
        want = self.engine.generate("The sea", 12, **GREEDY).ids
        running = threading.Thread(target=self.engine.generate, args=(STORY, 200), kwargs=GREEDY)
        running.start()
        children = []
        for _ in range(3):
            pid = os.fork()
            if pid == 0:
                status = 1
                try:
                    with kvasir.Engine(MODEL, threads=1, ctx=256) as engine:
                        status = 0 if engine.generate("The sea", 12, **GREEDY).ids == want else 3
                finally:
                    os._exit(status)
            children.append(pid)
        running.join()
        for pid in children:
            deadline = time.monotonic() + 120
            while not (done := os.waitpid(pid, os.WNOHANG))[0]:
                if time.monotonic() > deadline:
                    os.kill(pid, 9)
                    os.waitpid(pid, 0)
                    self.fail("the forked process hangs")
                time.sleep(0.05)
            self.assertEqual(os.waitstatus_to_exitcode(done[1]), 0)
        self.assertEqual(self.engine.generate("The sea", 12, **GREEDY).ids, want)

    def test_threads_may_open_and_close_engines(self):
        want = self.engine.generate("A cat", 8, **GREEDY).ids
        wrong = []

        def run(i):
            try:
                for _ in range(3):
                    with kvasir.Engine(MODEL, threads=1, ctx=256) as engine:
                        if engine.generate("A cat", 8, **GREEDY).ids != want:
                            wrong.append(i)
                        try:
                            engine.generate("x", 1, top_p=3)
                            wrong.append("no exception")
                        except ValueError as e:
                            # The text of an error belongs to the thread that made it.
                            if "top_p" not in str(e):
                                wrong.append(str(e))
            except BaseException as e:
                wrong.append(e)

        threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])

    def test_a_list_of_prompts_is_verified(self):
        report = self.engine.verify_correctness([STORY * 20, "A cat " * 200], 4, ignore_eos=True)
        self.assertTrue(report["equal"], report)
        self.assertEqual(len(report["prompts"]), 2)
        self.assertEqual(report["reused_tokens"], sum(r["reused_tokens"] for r in report["prompts"]))
        self.assertGreater(report["prompts"][1]["reused_tokens"], 128)
        ids = self.engine.tokenize(STORY * 20)
        self.assertNotIn("prompts", self.engine.verify_correctness(ids, 2))

    def test_a_path_that_is_not_there(self):
        with self.assertRaises(kvasir.IoError):
            kvasir.Engine.from_pretrained("nowhere/model.gguf")

    def test_figures_have_the_servers_words(self):
        self.engine.generate(STORY * 20, 8, ignore_eos=True)
        self.engine.generate(STORY * 20, 8, ignore_eos=True)
        s = self.engine.stats()
        self.assertLessEqual({"hit_share", "rates", "batch", "pool", "drafts", "selection"}, s.keys())
        self.assertGreater(s["rates"]["prompt_tokens_per_second"], 0)
        self.assertGreater(s["rates"]["generated_tokens_per_second"], 0)
        self.assertGreaterEqual(s["batch"]["mean"], 1)
        self.assertEqual(s["pool"]["used"] + s["pool"]["free"], s["pool"]["pages"])
        cache = self.engine.cache_stats()
        self.assertEqual(cache["pool"], s["pool"])
        self.assertEqual(self.engine.paged_stats(), s["pool"])
        self.assertAlmostEqual(cache["hit_share"], s["reused_tokens"] / s["prompt_tokens"])

    def test_streamed_weights_say_what_they_read(self):
        self.assertIsNone(self.engine.streaming_stats())
        with tempfile.TemporaryDirectory() as folder:
            with kvasir.Engine(MODEL, ctx=512, threads=1, weights_mode="full_stream", weights_file=f"{folder}/packed") as engine:
                answer = engine.generate(STORY, 4, temperature=0, ignore_eos=True)
                stats = engine.streaming_stats()
        self.assertEqual(answer.text, self.engine.generate(STORY, 4, temperature=0, ignore_eos=True).text)
        self.assertGreater(stats["bytes_read"], 0)
        self.assertGreaterEqual(stats["blocks"], stats["late"])
        self.assertGreater(stats["blocks"], 0)

    def test_json_schema(self):
        schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["n"], "additionalProperties": False}
        answer = self.engine.generate(STORY, 64, json_schema=schema, temperature=0)
        self.assertEqual(answer.finish, "end")
        self.assertIn(json.loads(answer.text)["n"], range(1, 10))


if __name__ == "__main__":
    unittest.main()
