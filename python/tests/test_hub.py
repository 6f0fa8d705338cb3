"""Models by their names on the Hub: a hub on this machine, which huggingface_hub asks; and the rules of `kvasir pull`."""

import hashlib
import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

import kvasir
from kvasir import _hub

MODEL = Path(os.environ.get("KVASIR_MODEL") or Path(__file__).parents[2] / "models" / "kvasir-books-4m.gguf")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Choice(unittest.TestCase):
    """The cases of src/client/hub_test.cpp."""

    FILES = ["README.md", "m-F16.gguf", "m-Q4_K_M.gguf", "m-Q8_0.gguf", "mmproj-m-F16.gguf",
             "m-Q6_K-00002-of-00002.gguf", "m-Q6_K-00001-of-00002.gguf", "m-IQ2_M-00001-of-00002.gguf"]  # fmt: skip

    def chosen(self, files, model):
        parts = _hub.named(model)
        try:
            return " ".join(_hub.choose(files, model, parts[2] or "", parts[3] or ""))
        except kvasir.BadInput as e:
            return str(e)

    def test_quants(self):
        for path, quant in {
            "Qwen3-8B-Q4_K_M.gguf": "Q4_K_M", "m-UD-Q4_K_XL.gguf": "UD-Q4_K_XL", "BF16/m-BF16.gguf": "BF16", "m.Q8_0.gguf": "Q8_0",
            "gpt-oss-20b-mxfp4.gguf": "MXFP4", "Qwen3-8B.gguf": "", "tiny.gguf": "", "m-Q6_K-00001-of-00002.gguf": "Q6_K",
        }.items():  # fmt: skip
            self.assertEqual(_hub._quant(path), quant, path)

    def test_files(self):
        for model, files in {
            "hf:a/b": "m-Q4_K_M.gguf",
            "a/b": "m-Q4_K_M.gguf",
            "hf:a/b:q8_0": "m-Q8_0.gguf",
            "hf:a/b:F16": "m-F16.gguf",
            "hf:a/b:Q6_K": "m-Q6_K-00001-of-00002.gguf m-Q6_K-00002-of-00002.gguf",
            "hf:a/b/m-F16.gguf": "m-F16.gguf",
            "hf:a/b:Q5_K_M": "hf:a/b:Q5_K_M: is not there; there is F16, IQ2_M, Q4_K_M, Q6_K, Q8_0",
            "hf:a/b:IQ2_M": "hf:a/b:IQ2_M: has only some of the parts of m-IQ2_M-00001-of-00002.gguf",
        }.items():
            self.assertEqual(self.chosen(self.FILES, model), files, model)
        self.assertEqual(self.chosen(["tiny.gguf"], "hf:a/b"), "tiny.gguf")
        self.assertEqual(self.chosen(["one.gguf", "two.gguf"], "hf:a/b"), "hf:a/b: name one of its 2 files")
        self.assertEqual(self.chosen(["m-Q4_K_M.gguf", "m-assistant-Q4_K_M.gguf"], "hf:a/b"), "m-Q4_K_M.gguf")
        self.assertEqual(self.chosen(["README.md"], "hf:a/b"), "")

    def test_what_is_a_name(self):
        for path in (str(MODEL), "nowhere/model.gguf", "model.gguf", "/a/b", "a/b/c", "https://x/y"):
            self.assertIsNone(_hub.named(path), path)
        with mock.patch("os.path.exists", return_value=True):  # a path that is here goes first
            self.assertIsNone(_hub.named("a/b"))
            self.assertIsNotNone(_hub.named("hf:a/b"))

    def test_what_was_pulled_is_taken(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"KVASIR_MODELS": folder}):
            path = Path(folder, "a", "b", "m-Q8_0.gguf")
            path.parent.mkdir(parents=True)
            path.write_bytes(b"x")
            self.assertEqual(_hub.local("hf:a/b"), str(path))
            self.assertEqual(_hub.local("a/b:Q8_0"), str(path))

    def test_without_huggingface_hub_the_message_says_what_to_install(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, {"KVASIR_MODELS": folder}):
            with mock.patch.dict(sys.modules, {"huggingface_hub": None}):
                for name in ("Qwen/Qwen3-0.6B", "hf:Qwen/Qwen3-0.6B-GGUF:Q8_0", "hf:a/b"):
                    with self.assertRaisesRegex(kvasir.BadInput, r"pip install 'kvasir\[hub\]' \(or `kvasir pull hf:") as caught:
                        kvasir.Engine.from_pretrained(name)
                    self.assertIn(name, str(caught.exception))


class Handler(http.server.BaseHTTPRequestHandler):
    """As much of the Hub's API as huggingface_hub asks for."""

    protocol_version = "HTTP/1.1"
    repositories: dict[str, dict[str, bytes]] = {}

    def log_message(self, *unused):
        pass

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        parts = self.path.split("?")[0].strip("/").split("/")
        if parts[:2] == ["api", "models"]:
            files = self.repositories.get("/".join(parts[2:4]))
            if files is None:
                return self.answer(404, b'{"error":"Repository not found"}', X_Error_Code="RepoNotFound")
            if parts[4:5] == ["tree"]:
                rows = [{"type": "file", "path": f, "size": len(d), "oid": hashlib.sha1(d).hexdigest()} for f, d in files.items()]
                return self.answer(200, json.dumps(rows).encode(), Content_Type="application/json")
            info = {"id": "/".join(parts[2:4]), "sha": COMMIT, "siblings": [{"rfilename": f} for f in files]}
            return self.answer(200, json.dumps(info).encode(), Content_Type="application/json")
        data = self.repositories.get("/".join(parts[:2]), {}).get("/".join(parts[4:]))
        if data is None:
            return self.answer(404, X_Error_Code="EntryNotFound")
        self.answer(200, data, ETag=f'"{hashlib.sha256(data).hexdigest()}"', X_Repo_Commit=COMMIT)

    do_HEAD = do_GET


@unittest.skipUnless(find_spec("huggingface_hub"), "SKIPPED: huggingface_hub is not installed")
class Hub(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        Handler.repositories = {
            "a/gguf": {"README.md": b"x", "m-Q8_0.gguf": b"no model", "m-Q4_0.gguf": MODEL.read_bytes()},
            "a/folder": {
                "config.json": b"{}", "model.safetensors": b"w", "onnx/model.safetensors": b"deep", "consolidated.safetensors": b"twice",
                "tokenizer.json": b"{}", "pytorch_model.bin": b"no",
            },
            "a/empty": {"README.md": b"x"},
        }  # fmt: skip
        cls.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=cls.server.serve_forever, daemon=True).start()
        cls.folder = tempfile.TemporaryDirectory()

    @classmethod
    def tearDownClass(cls):
        cls.server.shutdown()
        cls.server.server_close()
        cls.folder.cleanup()

    def ask(self, code, **environment):
        """What a new process prints: huggingface_hub reads its environment when it is imported."""
        home = {"HF_HOME": self.folder.name, "KVASIR_MODELS": os.path.join(self.folder.name, "pulled")}
        hub = {"HF_ENDPOINT": f"http://127.0.0.1:{self.server.server_address[1]}", "HF_HUB_DISABLE_TELEMETRY": "1", "HF_HUB_DISABLE_XET": "1"}
        done = subprocess.run([sys.executable, "-c", "import kvasir\n" + code], capture_output=True, text=True, timeout=120,
                              env={**os.environ, **home, **hub, **environment})  # fmt: skip
        return done.stdout.strip(), done.stderr

    def test_a_gguf_file(self):
        code = "e = kvasir.Engine.from_pretrained('{}', threads=1, ctx=256)\nprint(e.generate('A cat', 3, temperature=0).tokens)"
        out, err = self.ask(code.format("a/gguf"), HF_HUB_DISABLE_PROGRESS_BARS="0", TQDM_POSITION="-1")
        self.assertEqual(out, "3", err)
        self.assertIn("m-Q4_0.gguf", err)  # the bar
        out, err = self.ask(code.format("hf:a/gguf:q4_0"), HF_HUB_OFFLINE="1")
        self.assertEqual(out, "3", err)

    def test_a_folder(self):
        out, err = self.ask("from kvasir import _hub; import os; print(sorted(os.listdir(_hub.local('a/folder', False))))")
        self.assertEqual(out, "['config.json', 'model.safetensors', 'tokenizer.json']", err)

    def test_what_is_not_there(self):
        for name, said in {"a/empty": "has neither GGUF files nor safetensors", "b/c": "hf:b/c: ", "a/gguf:Q2_K": "there is Q4_0, Q8_0"}.items():
            out, err = self.ask(f"try: kvasir.Engine('{name}')\nexcept kvasir.Error as e: print(e)")
            self.assertIn(said, out, err)

    def test_a_hub_that_does_not_answer_is_an_error_of_this_package(self):
        code = "try: kvasir.Engine('a/gguf')\nexcept kvasir.Error as e: print(type(e).__name__, e)"
        quick = "import huggingface_hub.utils._http as h; h.time.sleep = lambda s: None\n"  # it tries again and again
        out, err = self.ask(quick + code, HF_ENDPOINT="http://127.0.0.1:9")
        self.assertIn("IoError hf:a/gguf: ", out, err)


if __name__ == "__main__":
    unittest.main()
