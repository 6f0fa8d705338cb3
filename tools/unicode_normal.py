#!/usr/bin/env python3
"""Writes src/unicode/normal.inc: canonical decompositions and combining classes.

Usage: tools/unicode_normal.py > src/unicode/normal.inc   (the Unicode version is that of Python's unicodedata)
"""
import unicodedata


def write(name, items):
    print(f"constexpr {name}[] = {{")
    line = "   "
    for item in items:
        if len(line) + len(item) + 1 > 120:
            print(line)
            line = "   "
        line += " " + item
    print(line + "\n};")


def decompositions():
    """{code, first, second, composes}: one step; second is 0 where it is one character."""
    for code in range(0x110000):
        parts = unicodedata.decomposition(chr(code)).split()
        if not parts or parts[0].startswith("<"):
            continue
        first, second = int(parts[0], 16), int(parts[1], 16) if len(parts) > 1 else 0
        composes = unicodedata.normalize("NFC", chr(code)) == chr(code)
        yield f"{{0x{code:x}, 0x{first:x}, 0x{second:x}, {str(composes).lower()}}},"


def classes():
    """[first, last, class] of the characters whose combining class is not 0."""
    out = []
    for code in range(0x110000):
        value = unicodedata.combining(chr(code))
        if not value:
            continue
        if out and out[-1][1] == code - 1 and out[-1][2] == value:
            out[-1][1] = code
        else:
            out.append([code, code, value])
    return out


print(f"// Written by tools/unicode_normal.py from Unicode {unicodedata.unidata_version}; do not edit.")
write("Decomposition kDecompositions", decompositions())
write("ClassRange kClasses", [f"{{0x{f:x}, 0x{l:x}, {c}}}," for f, l, c in classes()])
