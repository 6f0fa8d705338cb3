#!/usr/bin/env python3
"""Writes src/unicode/ranges.inc: the code point ranges of the general categories that pre-tokenizers ask for.

Usage: tools/unicode_ranges.py > src/unicode/ranges.inc   (the Unicode version is that of Python's unicodedata)
"""
import unicodedata

GROUPS = {"kLetterRanges": ("Lm", "Lo"), "kUpperRanges": ("Lu", "Lt"), "kLowerRanges": ("Ll",),
          "kNumberRanges": ("Nl", "No"), "kDigitRanges": ("Nd",), "kPunctuationRanges": ("Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po"),
          "kSymbolRanges": ("Sm", "Sc", "Sk", "So"), "kAccentRanges": ("Mn",), "kMarkRanges": ("Mc", "Me")}


def ranges(group):
    out = []
    for code in range(0x110000):
        if unicodedata.category(chr(code)) in group:
            if out and out[-1][1] == code - 1:
                out[-1][1] = code
            else:
                out.append([code, code])
    return out


print(f"// Written by tools/unicode_ranges.py from Unicode {unicodedata.unidata_version}; do not edit. First and last code points.")
for name, group in GROUPS.items():
    print(f"constexpr CodeRange {name}[] = {{")
    line = "   "
    for first, last in ranges(group):
        item = f" {{0x{first:x}, 0x{last:x}}},"
        if len(line) + len(item) > 120:
            print(line)
            line = "   "
        line += item
    print(line + "\n};")
