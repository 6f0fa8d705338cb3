"""rerank: the scores of /v1/rerank, of a model with a head that ranks."""

import json
import os
import re
import struct
import subprocess
import tempfile
import unittest
import urllib.request
from pathlib import Path

import kvasir

MODEL = Path(os.environ.get("KVASIR_MODEL") or Path(__file__).parents[2] / "models" / "kvasir-books-4m.gguf")
PROGRAM = os.environ.get("KVASIR_PROGRAM", "")
DOCUMENTS = ["The sea is wide and deep.", "A dark and stormy night.", "He sold his horse."]


def with_head(data: bytes, labels: int) -> bytes:
    """A GGUF file and the tensor cls.output.weight besides, (labels, width)."""
    version, tensors, pairs = struct.unpack_from("<IQQ", data, 4)
    at = 24
    sizes = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
    found = {}

    def text():
        nonlocal at
        (n,) = struct.unpack_from("<Q", data, at)
        at += 8 + n
        return data[at - n : at].decode()

    def value(kind):
        nonlocal at
        if kind == 8:
            return text()
        if kind == 9:
            inner, n = struct.unpack_from("<IQ", data, at)
            at += 12
            return [value(inner) for _ in range(n)]
        at += sizes[kind]
        return struct.unpack_from("<I", data, at - 4)[0] if kind == 4 else None

    for _ in range(pairs):
        key = text()
        at += 4
        found[key] = value(struct.unpack_from("<I", data, at - 4)[0])
    width = next(v for k, v in found.items() if k.endswith(".embedding_length"))
    align = found.get("general.alignment", 32)
    for _ in range(tensors):
        text()
        (rank,) = struct.unpack_from("<I", data, at)
        at += 4 + 8 * rank + 12
    begin = (at + align - 1) // align * align
    end = (len(data) - begin + align - 1) // align * align
    name = b"cls.output.weight"
    info = struct.pack("<Q", len(name)) + name + struct.pack("<IQQIQ", 2, width, labels, 0, end)
    head = data[:4] + struct.pack("<IQQ", version, tensors + 1, pairs) + data[24:at] + info
    weights = [((7 * i) % 11 - 5) / 40 for i in range(width * labels)]
    return head.ljust((len(head) + align - 1) // align * align, b"\0") + data[begin:].ljust(end, b"\0") + struct.pack(f"<{len(weights)}f", *weights)


class Rank(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "ranker.gguf")

    def tearDown(self):
        self.folder.cleanup()

    def test_shares_and_raw_scores(self):
        for labels in (1, 2):
            Path(self.path).write_bytes(with_head(MODEL.read_bytes(), labels))
            with kvasir.Engine(self.path, threads=2, ctx=256) as engine:
                ranked = engine.rerank("What was the weather like?", DOCUMENTS)
                self.assertEqual(sorted(r["index"] for r in ranked), [0, 1, 2])
                scores = [r["relevance_score"] for r in ranked]
                self.assertEqual(scores, sorted(scores, reverse=True))
                self.assertEqual(len(set(scores)), 3)
                self.assertTrue(all(0 < s < 1 for s in scores))
                raw = engine.rerank("What was the weather like?", DOCUMENTS, raw=True, top_n=2)
                self.assertEqual(len(raw), 2)
                if labels == 1:
                    self.assertEqual([r["index"] for r in raw], [r["index"] for r in ranked[:2]])
                self.assertEqual(engine.rerank("x", []), [])
                with self.assertRaises(kvasir.BadInput):
                    engine.rerank("x", "one text")
                with self.assertRaises(kvasir.BadInput):
                    engine.rerank("x", ["word " * 1000])

    def test_other_models_say_what_they_lack(self):
        with kvasir.Engine(MODEL, threads=2, ctx=256) as engine, self.assertRaisesRegex(kvasir.Unsupported, "head that ranks"):
            engine.rerank("x", DOCUMENTS)

    @unittest.skipUnless(PROGRAM and os.access(PROGRAM, os.X_OK), "SKIPPED: KVASIR_PROGRAM names no program")
    def test_scores_are_the_servers(self):
        Path(self.path).write_bytes(with_head(MODEL.read_bytes(), 2))
        server = subprocess.Popen([PROGRAM, "serve", "-m", self.path, "--port", "0", "--ctx", "256", "-t", "2"], stderr=subprocess.PIPE, text=True)
        try:
            address = None
            for line in server.stderr:
                if found := re.search(r"listening address=(\S+)", line):
                    address = found[1]
                    break
                if "no HTTP server" in line:
                    self.skipTest("SKIPPED: this program was built without the server")
            self.assertIsNotNone(address)
            body = json.dumps({"query": "Where?", "documents": DOCUMENTS}).encode()
            request = urllib.request.Request(address + "/v1/rerank", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=60) as answer:
                theirs = json.load(answer)["results"]
        finally:
            server.terminate()
            server.communicate(timeout=60)
        with kvasir.Engine(self.path, threads=2, ctx=256) as engine:
            self.assertEqual(engine.rerank("Where?", DOCUMENTS), theirs)


if __name__ == "__main__":
    unittest.main()
