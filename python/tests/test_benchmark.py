"""python -m kvasir.benchmark: what cannot be measured is refused before a model is read."""

import contextlib
import io
import sys
import unittest
from unittest import mock

import kvasir

try:
    from kvasir import benchmark, kivi  # noqa: F401
except ImportError as e:
    raise unittest.SkipTest(f"SKIPPED: {e}")


class BenchmarkOptions(unittest.TestCase):
    def refusal(self, *arguments):
        error = io.StringIO()
        with mock.patch.object(sys, "argv", ["benchmark", "nowhere", *arguments]), contextlib.redirect_stderr(error):
            with self.assertRaises(SystemExit) as caught:
                benchmark.main()
        self.assertEqual(caught.exception.code, 2)
        return error.getvalue()

    def test_sizes_are_checked_first(self):
        self.assertIn("--R 0", self.refusal("--R", "0"))
        self.assertIn("residual_length: 0, expected at least 32", self.refusal("--R", "0"))
        self.assertIn("group_size: 6", self.refusal("--G", "6"))
        for option in ("--tokens", "--prompt-tokens", "--repeat"):
            self.assertIn(f"{option}: 0, expected at least 1", self.refusal(option, "0"))


if __name__ == "__main__":
    unittest.main()
