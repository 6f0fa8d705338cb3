"""`kvasir ...` and `python -m kvasir ...`: the program that is in this package, in place of Python."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    """Becomes the program; returns only by SystemExit, when the package has none."""
    program = Path(__file__).parent / "bin" / "kvasir"
    if not program.exists():
        sys.exit(f"kvasir: {program} is missing; the library works without it. Install a wheel made by ./dev package")
    os.execv(program, [sys.argv[0], *sys.argv[1:]])


if __name__ == "__main__":
    main()
