#!/usr/bin/env python3
"""Writes src/unicode/case.inc: upper and lower case of all characters above ASCII.

Usage: tools/unicode_case.py > src/unicode/case.inc   (the Unicode version is that of Python's unicodedata)
"""
import unicodedata


def ranges(single):
    """[first, last, delta, stride]: code points with the same difference, in steps of 1 or 2; none overlap."""
    out = []
    for code, to in single:
        delta = to - code
        if out:
            first, last, d, stride = out[-1]
            step = code - last
            if d == delta and step in (1, 2) and (first == last or step == stride):
                out[-1] = [first, code, d, step]
                continue
        out.append([code, code, delta, 1])
    return out


def write(name, items):
    print(name + "[] = {")
    line = "   "
    for item in items:
        if len(line) + len(item) + 1 > 120:
            print(line)
            line = "   "
        line += " " + item
    print(line + "\n};")


print(f"// Written by tools/unicode_case.py from Unicode {unicodedata.unidata_version}; do not edit.")
for name, method in ("Upper", str.upper), ("Lower", str.lower):
    single, several = [], []
    for code in range(0x80, 0x110000):
        to = method(chr(code))
        if to == chr(code) or 0xD800 <= code <= 0xDFFF:
            continue
        if len(to) == 1:
            single.append((code, ord(to)))
        else:
            several.append((code, "".join(f"\\x{byte:02x}" for byte in to.encode())))
    # A range of stride 2 must not reach over a code point that maps otherwise: ranges are searched by their ends.
    write(f"constexpr CaseRange k{name}Cases", [f"{{0x{f:x}, 0x{l:x}, {d}, {s}}}," for f, l, d, s in ranges(single)])
    write(f"constexpr CaseString k{name}Strings", [f'{{0x{code:x}, "{text}"}},' for code, text in several])
