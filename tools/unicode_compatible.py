#!/usr/bin/env python3
"""Writes src/unicode/compatible.inc: what characters become in normalisation form KD and not in form D.

Usage: tools/unicode_compatible.py > src/unicode/compatible.inc   (the Unicode version is that of Python's unicodedata)
"""
import unicodedata

print(f"// Written by tools/unicode_compatible.py from Unicode {unicodedata.unidata_version}; do not edit.")
print("constexpr Compatible kCompatible[] = {")
line = "   "
for code in range(0x110000):
    if 0xd800 <= code < 0xe000:
        continue
    plain = unicodedata.normalize("NFKD", chr(code))
    if plain == unicodedata.normalize("NFD", chr(code)):
        continue
    text = "".join(c if " " <= c < "\x7f" and c not in "\"\\?" else "".join(f"\\{b:03o}" for b in c.encode()) for c in plain)
    item = f' {{0x{code:x}, "{text}"}},'
    if len(line) + len(item) > 120:
        print(line)
        line = "   "
    line += item
print(line + "\n};")
