#!/usr/bin/env python3
"""Writes Kvasir as two files, kvasir.h and kvasir.cpp, which a program compiles with its own sources.

    tools/amalgamate.py [--codecs NAME,...|all] [--source DIR] OUT-DIR
    c++ -O2 -std=c++20 app.cpp OUT-DIR/kvasir.cpp -pthread

In them are the public headers and what they need of src: GGUF and folders, tokenizers, chat templates, models, the
compressed cache, sampling and reuse in memory, for every instruction set. fmt, nlohmann/json and xxHash, which are
headers, are copied from this machine with their licences; BLAKE2b is tools/amalgamation/sodium.h. What needs another
library says so when it is asked for.

How one translation unit is made of many:
  * every header once, in the order of its includes; then per instruction set the kernels and entries, which have its
    namespace, in a region of its target; then every source file.
  * namespace kvasir::X becomes kvasir::(unnamed)::X, but for the public classes: nothing else has external linkage.
  * a name of one source file alone (unnamed namespace, static, using) that any other file uses too gets the file's
    name behind it.
"""
import argparse
import pathlib
import re
import subprocess
import sys

LAYERS = "base unicode simd tensor kernel cpu weights hub kv select store model text run api".split()
FOLDERS = ["weights/safetensors", "model/forward", "text/jinja", "text/schema", "run/schedule"]  # of layers, with sources; families are found
# Nothing that runs a model calls these: writers of models, checks of downloads, tools.
LEFT_OUT = """base/sha256 model/synth model/synth_shapes weights/requantise weights/gguf_writer weights/fit
weights/importance weights/mixes weights/rounded_file store/archive store/inventory run/pictures
hub/vision_folder hub/vision_names""".split()
# Options of CMake that are off here, as those of tiers are: their parts are dropped from the text.
ABSENT = {"KVASIR_URING", "KVASIR_CAIRO", "KVASIR_PCRE2", "KVASIR_EMULATE_AVX512", "KVASIR_AVX_VNNI_BY_AVX512"}
# What the presets, the policies that share bytes out among the layers, and KIVI need. docs/library.md lists them.
CODECS = "f32 f16 bf16 int2_channel int2_token int4_channel int4_token int8_token rq2 rq3 rq4 rq5 rq8".split()
# Formats of weights but those that few files have and that take longest to compile.
NO_QUANTS = "iq1_m iq1_s iq2_s iq2_xs iq2_xxs iq3_s iq3_xxs nvfp4 q1_0 q2_0 tq1_0 tq2_0".split()
# What floats of a folder become. Other formats are read and never written (tools/amalgamation/absent.cpp).
WRITTEN = ("/f32.cpp", "/f16.cpp", "/bf16.cpp")
# As cmake/isa.cmake compiles them, but for BF16 and AMX, which there a few files of that copy have; GCC and Clang spell targets of x86
# alike.
TARGETS = {
    "avx2": "avx2,fma,f16c,bmi,bmi2",
    "avxvnni": "avx2,fma,f16c,bmi,bmi2,avxvnni",
    "avx512vnni": "avx2,fma,f16c,bmi,bmi2,avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx512bf16,amx-tile,amx-int8,amx-bf16,prefer-vector-width=512",
    "neon": "arch=armv8-a",
    "neondot": "arch=armv8.2-a+dotprod",
    "neoni8mm": "arch=armv8.2-a+dotprod+i8mm+bf16",
}
MACHINES = {"X86": "defined(__x86_64__)", "ARM": "defined(__aarch64__)"}
# System headers of one processor.
OF_MACHINE = {"immintrin.h": "X86", "cpuid.h": "X86", "arm_neon.h": "ARM"}
BUNDLED = {"fmt/format.h", "fmt/ranges.h", "fmt/core.h", "nlohmann/json.hpp", "nlohmann/json_fwd.hpp", "xxhash.h", "sodium.h"}

TOKEN = re.compile(
    r'(?P<space>\s+)|(?P<comment>//[^\n]*|/\*.*?\*/)|(?P<raw>R"(?P<d>[^(\s]*)\(.*?\)(?P=d)")'
    r'|(?P<string>"(?:\\.|[^"\\\n])*")|(?P<char>\'(?:\\.|[^\'\\\n])+\')|(?P<word>[A-Za-z_]\w*)'
    r"|(?P<number>\.?\d(?:[eEpP][+-]|'\w|[\w.])*)|(?P<mark>::|->|.)",
    re.S,
)


def fail(text):
    sys.exit(f"amalgamate: {text}")


class Token:
    __slots__ = ("kind", "text")

    def __init__(self, kind, text):
        self.kind, self.text = kind, text


def tokens_of(text):
    """Directives are tokens of the kind "line"; everything else as the compiler sees it."""
    out, at = [], 0
    begins = True  # of a line, but for blanks
    while at < len(text):
        if begins and text[at] == "#":
            end = at
            while True:
                end = text.find("\n", end)
                if end < 0:
                    end = len(text)
                if text[end - 1] != "\\":
                    break
                end += 1
            out.append(Token("line", text[at:end]))
            at = end
            continue
        m = TOKEN.match(text, at)
        kind = m.lastgroup if m.lastgroup != "d" else "raw"
        out.append(Token(kind, m.group()))
        at = m.end()
        if kind == "space":
            begins = begins or "\n" in m.group()
        elif kind != "comment":
            begins = False
    return out


def without_absent(text, path):
    """The text without what #ifdef of an absent option guards."""
    out, stack = [], []  # of a conditional: None, or whether its current part is kept
    for line in text.split("\n"):
        m = re.match(r"\s*#\s*(ifdef|ifndef|if|elif|else|endif)\b\s*(.*)", line)
        kept = all(s is not False for s in stack)
        if m:
            word, rest = m.groups()
            name = re.sub(r"^!?defined\(?\s*|\)?\s*(//.*)?$", "", rest)
            if word in ("if", "ifdef", "ifndef"):
                ours = name in ABSENT
                stack.append((word == "ifndef" or rest.startswith("!")) if ours else None)
                if ours:
                    continue
            elif word == "else" and stack[-1] is not None:
                stack[-1] = not stack[-1]
                continue
            elif word == "elif" and stack[-1] is not None:
                fail(f"{path}: #elif behind {sorted(ABSENT)}")
            elif word == "endif" and stack.pop() is not None:
                continue
        if kept:
            out.append(line)
    return "\n".join(out)


class File:
    """A file of src or include: its includes, what is defined in it for itself alone, its text."""

    def __init__(self, root, path):
        self.path = path  # "kv/fold.cpp", "kvasir/engine.hpp"
        self.public = path.startswith("kvasir/")
        text = (root / ("include" if self.public else "src") / path).read_text()
        text = without_absent(text, path)
        self.system, self.project = [], []  # included, in order
        self.tokens = []
        depth = 0
        for t in tokens_of(text):
            if t.kind == "line":
                word = re.match(r"#\s*(\w+)", t.text).group(1)
                if word in ("if", "ifdef", "ifndef"):
                    depth += 1
                elif word == "endif":
                    depth -= 1
                elif t.text.startswith("#pragma once") or re.match(r"#define XXH_INLINE_ALL", t.text):
                    continue
                elif word == "include":
                    m = re.match(r'#\s*include\s*([<"])([^>"]+)[>"]', t.text)
                    if not m:  # KVASIR_SHIMS: replaced where the text is written
                        self.tokens.append(t)
                        continue
                    quoted, name = m.group(1) == '"', m.group(2)
                    if name.endswith(".inc"):
                        self.tokens += tokens_of((root / "src" / name).read_text().rstrip("\n"))
                        continue
                    if quoted:
                        self.project.append(name)
                        continue
                    if not depth or name in OF_MACHINE or name in BUNDLED:
                        self.system.append(name)
                        continue
            self.tokens.append(t)
        self.macros = {m.group(1) for t in self.tokens if t.kind == "line"
                       for m in [re.match(r"#\s*define\s+(\w+)", t.text)] if m}
        self.words = set()
        for t in self.tokens:
            if t.kind == "word":
                self.words.add(t.text)
            elif t.kind == "line" and not t.text.startswith("#error"):
                self.words.update(re.findall(r"[A-Za-z_]\w*", t.text))

    def per_isa(self):
        return any(w.startswith("KVASIR_TARGET") or w in ("KVASIR_INLINE", "KVASIR_UNROLL") for w in self.words)


# --- names of one file alone ---------------------------------------------------------------------------------------

OPEN, CLOSE = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}
SPECIFIERS = {"static", "inline", "constexpr", "const", "extern", "thread_local", "consteval", "constinit", "KVASIR_INLINE",
              "volatile", "explicit", "virtual"}


def closing(code, at):
    """The index of the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(code)):
        if code[i].text in OPEN and code[i].kind == "mark":
            depth += 1
        elif code[i].text in CLOSE and code[i].kind == "mark":
            depth -= 1
            if depth == 0:
                return i
    fail("a bracket is never closed")


def skip_angles(words, at):
    """Behind the > that closes the < at `at`."""
    depth = 0
    while at < len(words):
        if words[at] in OPEN:
            inner, at = 1, at + 1
            while inner:
                inner += (words[at] in OPEN) - (words[at] in CLOSE)
                at += 1
            continue
        depth += (words[at] == "<") - (words[at] == ">")
        at += 1
        if depth == 0:
            return at
    return at


def declared(head):
    """The names that a declaration at namespace level makes; head: its words up to its body or end."""
    words = list(head)
    while words:
        if words[0] == "template" and len(words) > 1 and words[1] == "<":
            words = words[skip_angles(words, 1):]
        elif words[0] in ("requires", "alignas", "__attribute__") and len(words) > 1 and words[1] == "(":
            depth, i = 0, 1
            while True:
                depth += (words[i] == "(") - (words[i] == ")")
                i += 1
                if depth == 0:
                    break
            words = words[i:]
        elif words[0] == "[":
            words = words[words.index("]", words.index("]") + 1 if words[1] == "[" else 0) + 1:]
        elif words[0] in SPECIFIERS:
            words = words[1:]
        else:
            break
    if not words or words[0] in ("static_assert", "friend", "namespace", "asm"):
        return []
    if words[0] == "using":
        return [words[1]] if "=" in words[2:3] else []
    if words[0] == "typedef":
        return [words[-1]]
    if words[0] == "concept":
        return [words[1]]
    if words[0] in ("struct", "class", "union", "enum"):
        i = 1
        while i < len(words) and words[i] in ("class", "struct", "alignas", "("):
            i = i + 1 if words[i] != "(" else words.index(")", i) + 1
        if i < len(words) and (i + 1 == len(words) or words[i + 1] in (":", "final", "<")):
            return [words[i]]
    names, i, ended = [], 0, False
    while i < len(words):
        w = words[i]
        if w == "operator":
            return []
        if w == "<" and re.match(r"\w", words[i - 1]):
            i = skip_angles(words, i)
            continue
        if w == "(":
            # A function, when a name stands in front.
            if re.match(r"[A-Za-z_]", words[i - 1]) and words[i - 2:i - 1] != ["::"]:
                return [words[i - 1]] if i >= 2 else []
            return []
        if w in ("=", "[", ",") and re.match(r"[A-Za-z_]", words[i - 1]) and words[i - 2:i - 1] != ["::"]:
            names.append(words[i - 1])
        if w == ",":
            ended = False
        if w in ("=", "["):
            ended = True
            # To the next declarator.
            while i < len(words) and words[i] != ",":
                if words[i] in OPEN:
                    inner, i = 1, i + 1
                    while inner and i < len(words):
                        inner += (words[i] in OPEN) - (words[i] in CLOSE)
                        i += 1
                else:
                    i += 1
            continue
        i += 1
    if not ended and re.match(r"[A-Za-z_]", words[-1]) and words[-2:-1] != ["::"] and len(words) > 1:
        names.append(words[-1])
    return names


def own_names(tokens):
    """Names of namespace level that no other file can mean, as {name: innermost namespace with a name}: those in an unnamed
    namespace, static, constexpr, using."""
    code = [t for t in tokens if t.kind not in ("space", "comment", "line")]
    names = {}

    def walk(at, end, unnamed, space):
        while at < end:
            w = code[at].text
            if w == "namespace" or (w == "inline" and code[at + 1].text == "namespace"):
                i = at + 1
                name = ""
                while code[i].text not in ("{", ";"):
                    if code[i].kind == "word" and code[i].text != "namespace":
                        name = code[i].text
                    i += 1
                if code[i].text == ";":  # an alias
                    at = i + 1
                    continue
                close = closing(code, i)
                walk(i + 1, close, unnamed or not name, name or space)
                at = close + 1
                continue
            if w == "extern" and code[at + 1].kind == "string":
                at = closing(code, at + 2) + 1 if code[at + 2].text == "{" else at + 2
                continue
            if w == ";":
                at += 1
                continue
            # A declaration: to its ; or behind its body.
            begin, head_end, assigned = at, None, False
            parens = False
            while at < end:
                x = code[at].text if code[at].kind in ("mark", "word") else ""
                if x == ";":
                    break
                if x == "=" and code[at - 1].text != "operator":
                    assigned = True
                if x == "{":
                    if head_end is None:
                        head_end = at
                    close = closing(code, at)
                    words = [c.text for c in code[begin:at]]
                    kinds = set(words) & {"struct", "class", "union", "enum"}
                    at = close
                    if not assigned and parens and not (kinds and words[0] in kinds) and code[at + 1].text not in (",", "{"):
                        break  # of a function; a brace or a comma goes on with a constructor's members
                elif x in OPEN:
                    parens = parens or x == "("
                    at = closing(code, at)
                at += 1
            if head_end is None:
                head_end = at
            head = [c.text for c in code[begin:head_end]]
            mine = unnamed or head[0] in ("static", "using") or "constexpr" in head[:2] and "inline" not in head[:3]
            if head[0] == "template" and not unnamed:
                mine = "static" in head[skip_angles(head, 1):][:2]
            if mine:
                names.update((n, space) for n in declared(head))
            at += 1

    walk(0, len(code), False, "")
    return names


CLASSES = ("struct", "class", "union", "enum")
NO_TYPES = {"return", "explicit", "inline", "virtual", "constexpr", "const", "static", "using", "typename", "public", "else", "case",
            "new", "throw", *CLASSES}


def declares_member(before, behind):
    """Whether a word in a class, between the words `before` and `behind`, is a member's name in its declaration."""
    return re.match(r"[\w>*&]", before or " ") and before not in NO_TYPES and behind in (";", "=", "{", "(", ",", "[", ":")


def renamed(tokens, names, suffix):
    """The tokens with `names` (as of own_names) made those of one file. What a class declares by such a name keeps it."""
    if not names:
        return tokens
    pattern = re.compile(r"\b(" + "|".join(sorted(names)) + r")\b")
    code = [i for i, t in enumerate(tokens) if t.kind not in ("space", "comment", "line")]
    words = ["", ""] + [tokens[i].text for i in code] + [""]
    # Per word the class that it stands in, as the set of names that are members there.
    inside, scopes, head = [], [None], []
    for n, i in enumerate(code):
        w = tokens[i].text
        inside.append([s for s in scopes if s is not None])
        if scopes[-1] is not None and w in names and declares_member(words[n + 1], words[n + 3]):
            scopes[-1].add(w)
        if tokens[i].kind == "mark" and w == "{":
            scopes.append(set() if any(k in head for k in CLASSES) and "(" not in head and "=" not in head else None)
            head = []
        elif tokens[i].kind == "mark" and w == "}":
            scopes.pop()
            head = []
        elif w == ";":
            head = []
        else:
            head.append(w)
    out = list(tokens)
    for n, i in enumerate(code):
        w = tokens[i].text
        if tokens[i].kind != "word" or w not in names or any(w in members for members in inside[n]):
            continue
        qualifier, before = words[n], words[n + 1]
        if before in (".", "->") or before == "::" and qualifier not in (w, names[w]):
            continue
        out[i] = Token("word", w + suffix)
    for i, t in enumerate(tokens):
        if t.kind == "line" and not t.text.startswith(("#include", "#error")):
            out[i] = Token("line", pattern.sub(lambda m: m.group(1) + suffix, t.text))
    return out


def entry_renamed(tokens, kind):
    """The tokens of an entry per instruction set with its variable, behind `const KIND`, called NAME_entry: entries and functions
    share names."""
    code = [i for i, t in enumerate(tokens) if t.kind not in ("space", "comment", "line")]
    out = list(tokens)
    for a, b, c in zip(code, code[1:], code[2:]):
        if tokens[a].text == "const" and tokens[b].text == kind and tokens[c].kind == "word":
            out[c] = Token("word", tokens[c].text + "_entry")
    return out


def internal(tokens, api):
    """The tokens with everything of namespace kvasir in an unnamed namespace inside it. In the files of api only
    kvasir::api, at any level."""
    out, stack = [], []
    i = 0
    while i < len(tokens):
        t = tokens[i]
        if t.kind == "word" and t.text == "namespace" and not (out and out[-1].text == "using"):
            j, words = i + 1, []
            while tokens[j].text not in ("{", ";"):
                if tokens[j].kind not in ("space", "comment"):
                    words.append(tokens[j].text)
                j += 1
            before = [x.text for x in out if x.kind not in ("space", "comment")][-1:]
            if tokens[j].text == "{" and before != ["using"]:
                name = "".join(words)
                more = 0
                if name == "kvasir" and not api:
                    text, more = "namespace kvasir { namespace {", 1
                elif name.startswith("kvasir::"):
                    rest = name[len("kvasir::"):]
                    text, more = f"namespace kvasir {{ namespace {{ namespace {rest} {{", 2
                elif api and name == "api":
                    text, more = "namespace { namespace api {", 1
                else:
                    text = f"namespace {name} {{" if name else "namespace {"
                out.append(Token("mark", text))
                stack.append(more)
                i = j + 1
                continue
        if t.kind == "mark" and t.text == "{":
            stack.append(0)
        elif t.kind == "mark" and t.text == "}":
            out.append(Token("mark", "}" + " }" * stack.pop()))
            i += 1
            continue
        out.append(t)
        i += 1
    return out


def one_column(text):
    """kernel/matmul.hpp with one column at most past which weights are streamed: one shape of simd/shapes.hpp."""
    text, n = re.subn(r"(constexpr int kGemvColumns = )4;", r"\g<1>1;", text)
    if n != 1:
        fail("kernel/matmul.hpp: where is kGemvColumns?")
    return text


def text_of(tokens, comments=True):
    text = "".join(t.text for t in tokens if comments or t.kind != "comment")
    lines = [line.rstrip() for line in text.split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n") + "\n"


# --- libraries that are headers --------------------------------------------------------------------------------------


class Bundle:
    """Headers of other projects, each inlined at its first include."""

    def __init__(self, root):
        self.root, self.seen = root, set()
        cpp = subprocess.run(["c++", "-E", "-x", "c++", "-v", "/dev/null"], capture_output=True, text=True)
        inside = cpp.stderr.split("#include <...> search starts here:")[-1].split("End of search list")[0]
        self.paths = [pathlib.Path(p.strip()) for p in inside.strip().split("\n")]

    def find(self, name):
        if name == "sodium.h":
            return self.root / "tools/amalgamation/sodium.h"
        for p in self.paths:
            if (p / name).is_file():
                return p / name
        fail(f"<{name}> is on none of {', '.join(map(str, self.paths))}")

    def text(self, path):
        path = path.resolve()
        if path in self.seen:
            return ""
        self.seen.add(path)
        out = []
        for line in path.read_text().split("\n"):
            m = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
            if m:
                near = path.parent / m.group(2)
                if near.is_file() and (m.group(1) == '"' or path.parent.name == "fmt"):
                    out.append(self.text(near))
                    continue
                if m.group(2).startswith(("fmt/", "nlohmann/")):
                    out.append(self.text(self.find(m.group(2))))
                    continue
            if re.match(r"\s*#\s*pragma once", line):
                continue
            out.append(line)
        return "\n".join(out)


# --- the two files ---------------------------------------------------------------------------------------------------


def banner(text):
    return f"\n// ---- {text} {'-' * max(3, 112 - len(text))}\n"


class Amalgamation:
    def __init__(self, root, codecs):
        self.root = root
        ABSENT.update(f"KVASIR_{p.stem.upper().replace('-', '_')}" for p in (root / "src/store/tiers").glob("*.cpp"))
        self.files = {}
        self.codecs = codecs
        self.read_isas()
        self.read_registries()

    def file(self, path):
        if path not in self.files:
            self.files[path] = File(self.root, path)
        return self.files[path]

    def read_isas(self):
        """Rows of simd/isas.hpp: [machine, set, copy, shims]."""
        self.isas, machine = [], ""
        for line in (self.root / "src/simd/isas.hpp").read_text().split("\n"):
            if m := re.match(r"#define KVASIR_ISAS_(\w+)", line):
                machine = m.group(1)
            elif m := re.match(r"\s*X\(k\w+,\s*(\w+),\s*(\w+),\s*(\w+),", line):
                self.isas.append([machine, *m.groups()])
        self.copies = [(m, s, shims) for m, s, c, shims in self.isas if s == c]

    def read_registries(self):
        """Those of the library, from CMakeLists.txt."""
        self.registries = []
        for m in re.finditer(r"^kvasir_registry\((.*)\)$", (self.root / "CMakeLists.txt").read_text(), re.M):
            words = m.group(1).split()
            r = {words[i]: words[i + 1] for i in range(0, len(words) - 1) if words[i].isupper() and words[i] != "PER_ISA"}
            r["PER_ISA"] = "PER_ISA" in words
            if r["FOLDER"].split("/")[0] not in LAYERS:
                continue
            stems = sorted(p.stem for p in (self.root / "src" / r["FOLDER"]).glob("*.cpp")
                           if not re.search(r"_(test|bench|fuzz)$", p.stem))
            if r["FUNCTION"] == "codecs" and self.codecs:
                unknown = set(self.codecs) - set(stems)
                if unknown:
                    fail(f"no codec is called {', '.join(sorted(unknown))}; there are {', '.join(stems)}")
                stems = [s for s in stems if s in self.codecs]
            if r["FUNCTION"] == "quants" and self.codecs:
                stems = [s for s in stems if s not in NO_QUANTS]
            if r["FUNCTION"] == "presets" and self.codecs:
                stems = [s for s in stems if not self.missing(r["FOLDER"], s)]
            r["STEMS"] = stems
            self.registries.append(r)

    def missing(self, folder, preset):
        """Codecs that a preset names and that are left out."""
        all_of_them = {p.stem for p in (self.root / "src/kv/codecs").glob("*.cpp")}
        text = (self.root / "src" / folder / f"{preset}.cpp").read_text()
        return {n for n in re.findall(r'"(\w+)(?::\w+)?"', text)} & all_of_them - set(self.codecs)

    def sources(self):
        """(compiled once, compiled per instruction set)"""
        src, once, kernels = self.root / "src", [], []
        folders = LAYERS + FOLDERS + sorted(
            str(p.relative_to(src)) for layer in LAYERS for p in (src / layer).glob("families/**") if p.is_dir())
        for folder in folders:
            for p in sorted((src / folder).glob("*.cpp")):
                path = str(p.relative_to(src))
                if re.search(r"_(test|bench|fuzz)(\.simd)?\.cpp$", path) or path[:-4] in LEFT_OUT:
                    continue
                (kernels if path.endswith(".simd.cpp") else once).append(path)
        for r in self.registries:
            paths = [f"{r['FOLDER']}/{s}.cpp" for s in r["STEMS"]]
            (kernels if r["PER_ISA"] else once).extend(paths)
        return once, kernels

    def ordered(self, paths, wanted):
        """Headers that `paths` include, each behind those that it includes, where wanted(file)."""
        out, seen = [], set()

        def visit(path):
            if path in seen:
                return
            seen.add(path)
            f = self.file(path)
            for p in f.project:
                visit(p)
            if path.endswith((".hpp", ".h")) and wanted(f):
                out.append(path)

        for p in paths:
            visit(p)
        return out

    def shims(self, name):
        return f"simd/vec_{name}.hpp"

    def registry_text(self, r):
        """As cmake/registry.cmake writes it."""
        space, function, kind = r["NAMESPACE"], r["FUNCTION"], r["TYPE"]
        inner = space[len("kvasir::"):]
        rows = [(re.sub("^entry_", "", s), s.replace("-", "_")) for s in r["STEMS"]]
        out = [banner(f"the registry {r['FOLDER']}"), f"namespace kvasir {{ namespace {{ namespace {inner} {{\n"]
        machines = ["ANY", "X86", "ARM"] if r["PER_ISA"] else [None]
        for machine in machines:
            copies = [s for m, s, _ in self.copies if m == machine] if machine else [None]
            if machine in MACHINES:
                out.append(f"#if {MACHINES[machine]}\n")
            for copy in copies:
                out.append(f"const Entry<{kind}> k_{function}_{copy or 'entries'}[] = {{\n")
                out += [f'    {{"{public}", &entries::{function}::{copy}::{stem}_entry}},\n' if copy else
                        f'    {{"{public}", &{function}_{stem}::entry}},\n' for public, stem in rows]
                out.append("};\n")
            if machine in MACHINES:
                out.append("#endif\n")
        out.append(f"std::span<const Entry<{kind}>> {function}() {{\n")
        if r["PER_ISA"]:
            out.append(f"  static const std::span<const Entry<{kind}>> all[] = {{\n")
            for machine in machines:
                if machine in MACHINES:
                    out.append(f"#if {MACHINES[machine]}\n")
                out += [f"      k_{function}_{c},\n" for m, _, c, _ in self.isas if m == machine]
                if machine in MACHINES:
                    out.append("#endif\n")
            out.append("  };\n  return all[static_cast<int>(simd::active())];\n}\n")
        else:
            out.append(f"  return k_{function}_entries;\n}}\n")
        out.append("} } }\n")
        return "".join(out)

    def write(self, out):
        version = re.search(r"project\(kvasir VERSION (\S+)", (self.root / "CMakeLists.txt").read_text()).group(1)
        once, kernels = self.sources()
        public = ["kvasir/kvasir.h", "kvasir/options.hpp", "kvasir/codecs.hpp", "kvasir/engine.hpp", "kvasir/kivi.hpp", "kvasir/kv_cache.hpp"]
        shims = sorted({self.shims(s) for _, _, s in self.copies})
        everything = once + kernels + shims
        isa_cache = {}

        def per_isa(f):
            if f.path not in isa_cache:
                isa_cache[f.path] = False
                isa_cache[f.path] = not f.path.startswith("kvasir/") and (
                    f.per_isa() or any(per_isa(self.file(p)) for p in f.project if p.endswith(".hpp")))
            return isa_cache[f.path]

        headers = self.ordered(everything, lambda f: not f.public and not per_isa(f))
        for h in headers:
            for p in self.file(h).project:
                if per_isa(self.file(p)):
                    fail(f"{h} includes {p}, which is compiled once per instruction set")
        used = [self.file(p) for p in self.ordered(everything, lambda f: True) + everything]

        # Which files have a word.
        holders = {}
        for f in used:
            for w in f.words:
                holders.setdefault(w, set()).add(f.path)
        self.renames = {}
        kinds = {f"{r['FOLDER']}/{s}.cpp": r["TYPE"] for r in self.registries if r["PER_ISA"] for s in r["STEMS"]}
        for p in once + kernels:
            f = self.file(p)
            suffix = "_" + re.sub(r"\W", "_", re.sub(r"(\.simd)?\.cpp$", "", p))
            shared = {n: space for n, space in own_names(f.tokens).items() if len(holders[n]) > 1}
            self.renames[p] = (shared, suffix)

        def body(path):
            f = self.file(path)
            tokens = f.tokens
            if path == "kernel/matmul.hpp":
                tokens = tokens_of(one_column(text_of(tokens)))
            if path in self.renames:
                tokens = renamed(tokens, *self.renames[path])
            if path in kinds:
                tokens = entry_renamed(tokens, kinds[path])
            return internal(tokens, path.startswith("api/"))

        (out / "kvasir.h").write_text(self.header_text(public, version))

        bundle = Bundle(self.root)
        parts = [self.preamble(version)]
        system = sorted({n for f in used for n in f.system} - BUNDLED)
        for n in system:
            if n not in OF_MACHINE:
                parts.append(f"#include <{n}>\n")
        for n in sorted(OF_MACHINE):
            parts.append(f"#if {MACHINES[OF_MACHINE[n]]}\n#include <{n}>\n#endif\n")
        parts.append((self.root / "tools/amalgamation/before.hpp").read_text())
        asked = {n for f in used for n in f.system} & BUNDLED
        for n in ["fmt/format.h", "fmt/ranges.h", "nlohmann/json.hpp", "xxhash.h", "sodium.h"]:
            if n in asked:
                parts += [banner(f"<{n}>, copied"), bundle.text(bundle.find(n))]
        # Kernels see what they see alone: they have names, such as store, that are namespaces of layers above them.
        below = self.ordered(kernels + shims, lambda f: not f.public and not per_isa(f))
        for h in below:
            parts += [banner(h), text_of(body(h))]

        first = True
        for machine, isa, shim in self.copies:
            files = self.ordered([self.shims(shim)] + kernels, lambda f: per_isa(f))
            # vec.hpp includes the shims in its middle.
            files.remove(self.shims(shim))
            shims_text = text_of(body(self.shims(shim)), comments=first)
            parts.append(banner(f"the instruction set {isa}"))
            if machine in MACHINES:
                parts.append(f"#if {MACHINES[machine]}\n")
            parts.append(f"#define KVASIR_TARGET {isa}\n#define KVASIR_TARGET_{isa} 1\n")
            if "avx512bf16" in TARGETS.get(isa, ""):
                parts.append("#define KVASIR_WITH_BF16 1\n")
            if "amx-int8" in TARGETS.get(isa, ""):
                parts.append("#define KVASIR_WITH_AMX 1\n")
            if isa == "scalar":  # the reference, for processors without anything better
                parts.append("#if !defined(__clang__)\n#pragma GCC push_options\n#endif\n")
            else:
                parts.append('#if defined(__clang__)\n'
                             f'#pragma clang attribute push(__attribute__((target("{TARGETS[isa].replace(",prefer-vector-width=512", "")}"))), apply_to = function)\n'
                             f'#else\n#pragma GCC push_options\n#if defined(__OPTIMIZE__)\n#pragma GCC optimize("O2")\n#endif\n'
                             f'#pragma GCC target("{TARGETS[isa]}")\n#endif\n')
            for p in files + kernels:
                text = re.sub(r"#include KVASIR_SHIMS.*", lambda _: shims_text, text_of(body(p), comments=first))
                if isa == "scalar":  # inlined, the loops that are its vectors take half of the compiler's time
                    text = text.replace("KVASIR_INLINE static inline __attribute__((always_inline))", "KVASIR_INLINE static inline")
                if p.startswith("weights/quants/") and not p.endswith(WRITTEN):  # nothing here writes blocks
                    text = re.sub(r"\s*\.quantise = [^,]*,", "", text)
                parts += [banner(f"{p}, {isa}"), text]
                for m in sorted(self.file(p).macros) if p in kernels else []:
                    parts.append(f"#undef {m}\n")
            for m in sorted({m for p in files + [self.shims(shim)] for m in self.file(p).macros} |
                            {"KVASIR_TARGET", f"KVASIR_TARGET_{isa}", "KVASIR_WITH_BF16", "KVASIR_WITH_AMX"}):
                parts.append(f"#undef {m}\n")
            parts.append("#if !defined(__clang__)\n#pragma GCC pop_options\n#endif\n" if isa == "scalar" else
                         "#if defined(__clang__)\n#pragma clang attribute pop\n#else\n#pragma GCC pop_options\n#endif\n")
            if machine in MACHINES:
                parts.append("#endif\n")
            first = False
        for h in headers:
            if h not in below:
                parts += [banner(h), text_of(body(h))]
        for p in once:
            parts += [banner(p), text_of(body(p))]
            parts += [f"#undef {m}\n" for m in sorted(self.file(p).macros)]
        parts += [self.registry_text(r) for r in self.registries]
        parts += [banner("tools/amalgamation/absent.cpp"), text_of(internal(tokens_of(
            (self.root / "tools/amalgamation/absent.cpp").read_text()), False))]
        (out / "kvasir.cpp").write_text("".join(parts))

    def preamble(self, version):
        text = (self.root / "tools/amalgamation/preamble.hpp").read_text()
        return text.replace("@VERSION@", version)

    def header_text(self, public, version):
        parts = [f"/* Kvasir {version} in two files: kvasir.h and kvasir.cpp, written by tools/amalgamate.py. C has the first part\n"
                 " * of this header, C++20 all of it. Copyright: see kvasir.cpp. */\n"]
        c = (self.root / "include" / public[0]).read_text()
        parts.append(c)
        parts.append("\n#if defined(__cplusplus) && !defined(KVASIR_HPP)\n#define KVASIR_HPP\n")
        system = sorted({n for p in public[1:] for n in self.file(p).system})
        parts += [f"#include <{n}>\n" for n in system]
        for p in public[1:]:
            parts += [banner(p), text_of(self.file(p).tokens)]
        parts.append("\n#endif\n")
        return "".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--source", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--codecs", default=",".join(CODECS), help="names, or 'all'")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    codecs = [] if args.codecs == "all" else args.codecs.split(",")
    Amalgamation(args.source, codecs).write(args.out)
    for name in ("kvasir.h", "kvasir.cpp"):
        text = (args.out / name).read_text()
        print(f"{args.out / name}: {text.count(chr(10))} lines, {len(text.encode())} bytes")


if __name__ == "__main__":
    main()
