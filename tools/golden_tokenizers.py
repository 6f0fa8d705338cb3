#!/usr/bin/env python3
"""Golden ids of tokenizer.json files with Unigram, WordPiece and BPE, by Hugging Face's tokenizers 0.23.

usage: golden_tokenizers.py OUT.json [FUZZED]

Small tokenizers are trained here, with the normalizers, pre-tokenizers and models that published files have. FUZZED: how many
texts of random characters follow the odd ones (40).
"""
import base64
import json
import random
import struct
import sys

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ODD = ["", " ", "  ", "Hello world!", " leading and trailing ", "a\tb\nc\r\nd", "two  spaces   three", "don't can't we'll I'm",
       "naïve café Ünïcödé Ａｂｃ ﬁne ①②③ ½ ™", "e\u0301 a\u030a o\u0308\u0301 \u0301x", "日本語テキスト 中文字符 한국어 각", "안녕하세요 ᄒ\u1161\u11ab",
       "Привет, мир! ΑΒΓ Σίσυφος ΤΕΛΟΣ", "İstanbul ıI ß ẞ ŉ", "שלום עולם مرحبا ١٢٣", "हिन्दी कि क्षेत्र", "🙂🙃👍🏽 👨‍👩‍👧 🇩🇪", "x=1+2*3; y_z-w/q",
       "1234567890 3.14 1,000,000 v2.0", "\u2581already\u2581marked \u2581", "zero\u200bwidth\u200djoin\ufefffeff", "nul\x00 bell\x07 del\x7f c1\x85 x",
       "nbsp\u00a0thin\u2009wide\u3000end", "line\u2028sep\u2029par", "``quoted'' \"text\" “curly” «guillemets»", "(brackets) [square] {curly} <angle>",
       "http://example.com/a?b=c&d=%20#f", "CamelCaseWords snake_case_words", "<s>special</s> [CLS] x [SEP] [MASK]", "a" * 120, "ab " * 12,
       "…—–-‐‑ ¿¡ §¶†‡", "ǅ ǆ Ǆ ﬀ ﬃ ℌ ℵ Å K Ω", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚𝟛 𐐀𐐨", "\u0958 \u09dc \u0f43 \u2adc \ufb1d", "x\u0323\u0307 \u0344 q\u0307\u0323", "Ⅷ ⅷ Ⓐ ⓐ 〇 〡"]
WORDS = ("the of and to in that is was he for it with as his on be at by had not are but from or have an they which one you were all "
         "her she there would their we him been has when who will no more if out so up said what its about than into them can only other "
         "time new some could these two may first then do any like my now over such our man me even most made after also did many off "
         "before must well back through years where much your way down should because long each just state those people too mr how "
         "little good world make very year still see own work men day get here old life both between being under three never know").split()


def corpus():
    source = random.Random(5)
    lines = []
    for _ in range(400):
        line = [source.choice(WORDS) for _ in range(source.randint(3, 14))]
        lines.append(" ".join(line).capitalize() + source.choice([".", "!", "?", ", 12", " 3.5", "…"]))
    return lines + ODD * 2


def fuzzed(count):
    source = random.Random(9)
    alphabets = [range(0x20, 0x7f), range(0xa0, 0x250), range(0x300, 0x370), range(0x370, 0x530), range(0x590, 0x700),
                 range(0x900, 0xa00), range(0x1100, 0x1200), range(0x1e00, 0x2000), range(0x2000, 0x2070), range(0x2100, 0x2200),
                 range(0x2460, 0x2500), range(0x3000, 0x3100), range(0x4e00, 0x4e80), range(0xac00, 0xad00), range(0xfb00, 0xfb50),
                 range(0xff00, 0xffef), range(0x1d400, 0x1d450), range(0x1f600, 0x1f650), range(0, 0x20)]
    out = []
    for _ in range(count):
        chosen = [range(0x20, 0x7f)] + source.sample(alphabets, 2)
        text = "".join(chr(source.choice(source.choice(chosen))) if source.random() < 0.8 else source.choice([" ", "the", "\u2581", "  "])
                       for _ in range(source.randint(1, 40)))
        out.append(text)
    return out


def charsmap(table):
    """A precompiled table of characters: a double array (darts-clone) over the keys' bytes, then the texts."""
    texts, places = b"", {}
    for key, value in table.items():
        places[key.encode()] = len(texts)
        texts += value.encode() + b"\0"
    root = {}
    for key, place in places.items():
        node = root
        for byte in key:
            node = node.setdefault(byte, {})
        node[None] = place
    units, taken = {0: 0}, {0}
    work = [(0, root)]
    while work:
        at, node = work.pop()
        labels = [0 if label is None else label for label in node]
        base = 1
        while any(base ^ label in taken for label in labels) or (at ^ base) >= 1 << 21:
            base += 1
        taken.update(base ^ label for label in labels)
        units[at] |= (at ^ base) << 10 | (0x100 if None in node else 0)
        for label, child in node.items():
            if label is None:
                units[base] = 1 << 31 | child
            else:
                units[base ^ label] = label
                work.append((base ^ label, child))
    size = (max(units) | 255) + 257  # a walk may look as far
    tree = b"".join(struct.pack("<I", units.get(i, 0xff)) for i in range(size))
    return base64.b64encode(struct.pack("<I", len(tree)) + tree + texts).decode()


TABLE = {"\t": " ", "\n": " ", "\r": " ", "\u00a0": " ", "\u3000": " ", "ﬁ": "fi", "ﬀ": "ff", "①": "1", "②": "2", "Ａ": "A", "ｂ": "b", "ｃ": "c",
         "e\u0301": "é", "o\u0308": "ö", "™": "TM", "½": "1⁄2", "…": "...", "\u200b": " ", "\u00ad": "", "\u0085": "", "℃": "°C", "Å": "Å", "\u0958": "क़"}


def precompiled():
    return {"type": "Precompiled", "precompiled_charsmap": charsmap(TABLE)}


SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
WORDS_OF = SUFFIX + r"|[^\r\n\p{{L}}\p{{N}}]?{word}|{digits}|{signs}|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{{Lu}}\p{{Lt}}\p{{Lm}}\p{{Lo}}\p{{M}}]", r"[\p{{Ll}}\p{{Lm}}\p{{Lo}}\p{{M}}]"
CASED = (r"[^\r\n\p{{L}}\p{{N}}]?" + UPPER + "*" + LOWER + r"+{behind}|[^\r\n\p{{L}}\p{{N}}]?" + UPPER + "+" + LOWER +
         r"*{behind}|{digits}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
HAN_OR_KANA, EAST = "[一-龥\u3040-ゟ゠-ヿ]+", "[一-龥ࠀ-一가-\ud7ff]+"
SIGNS = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def kinds():
    """(name, model, normalizer, pre-tokenizer); a normalizer that the package cannot make by name is JSON."""
    n, p = normalizers, pre_tokenizers
    meta = p.Metaspace
    yield "t5", "unigram", [precompiled()], p.Sequence([p.WhitespaceSplit(), meta()])
    yield "xlm-roberta", "unigram", [precompiled(), n.Replace(Regex(" {2,}"), " ")], meta()
    yield "albert", "unigram", [n.Replace("``", '"'), n.Replace("''", '"'), n.NFKD(), n.StripAccents(), n.Lowercase(), precompiled()], \
        p.Sequence([p.WhitespaceSplit(), meta(prepend_scheme="always")])
    yield "bytes", "unigram-bytes", [n.NFKC()], meta(prepend_scheme="first", split=False)
    yield "first", "unigram", [n.NFC()], meta(prepend_scheme="first")
    yield "digits", "unigram", [n.Nmt(), n.NFKC()], p.Sequence([p.Punctuation(), p.Digits(individual_digits=True), meta(prepend_scheme="never")])
    yield "split", "unigram", [n.Strip(), n.Prepend("\u2581"), n.Replace(" ", "\u2581")], p.Split("\u2581", "merged_with_next")
    yield "bert", "wordpiece", [n.BertNormalizer()], p.BertPreTokenizer()
    yield "bert-cased", "wordpiece", [n.BertNormalizer(lowercase=False)], p.BertPreTokenizer()
    yield "whitespace", "wordpiece", [n.NFD(), n.Lowercase(), n.StripAccents()], p.Whitespace()
    yield "numbers", "wordpiece", [n.NFKD()], p.Sequence([p.Split(Regex(r"\d"), "isolated"), p.WhitespaceSplit(), p.Digits()])
    yield "contiguous", "wordpiece", [], p.Sequence([p.Punctuation("contiguous"), p.Split(Regex(r"\s+"), "removed")])
    yield "previous", "wordpiece", [n.Strip(left=False)], p.Sequence([p.Punctuation("merged_with_previous"), p.WhitespaceSplit()])
    yield "byte-level", "wordpiece", [], p.Sequence([p.ByteLevel(add_prefix_space=True), p.Punctuation("removed")])
    yield "delimiter", "wordpiece", [n.ByteLevel()], p.CharDelimiterSplit("e")
    yield "inverted", "wordpiece", [], p.Split(Regex(r"\p{N}{1,3}"), "removed", invert=True)
    # BPE: of published families, and steps that none of those has.
    level, last = p.ByteLevel, p.ByteLevel(add_prefix_space=False, use_regex=False)

    def cut(*patterns):
        return p.Sequence([p.Split(Regex(x), "isolated") for x in patterns] + [last])

    yield "gpt-2", "bpe", [], level(add_prefix_space=False)
    yield "prefix", "bpe", [], level(add_prefix_space=True)
    yield "lowercase", "bpe", [n.NFKC(), n.Lowercase()], level(add_prefix_space=False)
    yield "normalized", "bpe", [n.NFC(), n.Strip(), n.ByteLevel()], p.Split("Ġ", "merged_with_next")
    yield "falcon", "bpe", [], p.Sequence([p.Punctuation("contiguous"), level(add_prefix_space=False), p.Digits(),
                                           p.Split(Regex("[0-9][0-9][0-9]"), "isolated")])
    yield "bloom", "bpe", [], cut(r" ?[^(\s|[.,!?…。，、।۔،])]+")
    yield "deepseek-v3", "bpe", [], cut(r"\p{N}{1,3}", HAN_OR_KANA, SIGNS)
    yield "deepseek-coder", "bpe", [], p.Sequence([p.Split(Regex(x), "isolated") for x in (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", EAST)] +
                                                  [p.Digits(individual_digits=True), last])
    yield "qwen35", "bpe", [n.NFC()], cut(WORDS_OF.format(word=r"[\p{L}\p{M}]+", digits=r"\p{N}", signs=r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"))
    yield "words-nfc", "bpe-whole", [n.NFC()], cut(WORDS_OF.format(word=r"\p{L}+", digits=r"\p{N}{1,3}", signs=r" ?[^\s\p{L}\p{N}]+[\r\n]*"))
    yield "tekken", "bpe-whole", [], cut(CASED.format(behind="", digits=r"\p{N}"))
    yield "tekken-apart", "bpe", [], cut(CASED.format(behind="", digits=r"\p{N}"))
    yield "gpt-4o", "bpe", [], cut(CASED.format(behind=SUFFIX + "?", digits=r"\p{N}{1,3}"))
    yield "gpt-4o-nfkc", "bpe", [n.NFKC()], cut(CASED.format(behind=SUFFIX + "?", digits=r"\p{N}{1,3}"))
    yield "llama-2", "bpe-characters", [n.Prepend("\u2581"), n.Replace(" ", "\u2581")], None
    yield "mistral", "bpe-characters", [], meta(prepend_scheme="first", split=False)
    yield "metaspace", "bpe-characters", [], meta(prepend_scheme="always", split=False)
    yield "metaspace-split", "bpe-characters", [n.NFC()], meta(prepend_scheme="always")
    yield "characters", "bpe-characters", [n.NFKC(), n.Replace(Regex(" {2,}"), " ")], \
        p.Sequence([meta(prepend_scheme="first", split=False), p.Digits(individual_digits=True), p.Punctuation()])
    yield "unknown", "bpe-unknown", [n.Lowercase()], p.Whitespace()
    yield "unknown-fused", "bpe-fused", [], p.WhitespaceSplit()


def plain(step):
    if isinstance(step, dict):
        return step
    empty = Tokenizer(models.WordPiece({"[UNK]": 0}))
    empty.normalizer = step
    return json.loads(empty.to_str())["normalizer"]


def make(model, steps, cut):
    special = ["[UNK]", "[CLS]", "[SEP]", "[MASK]"] if model == "wordpiece" else ["<unk>", "<s>", "</s>"]
    tokenizer = Tokenizer(models.Unigram() if model.startswith("unigram") else models.WordPiece(unk_token="[UNK]") if model == "wordpiece"
                          else models.BPE())
    if cut:
        tokenizer.pre_tokenizer = cut
    written = json.loads(tokenizer.to_str())
    written["normalizer"] = {"type": "Sequence", "normalizers": [plain(s) for s in steps]} if steps else None
    tokenizer = Tokenizer.from_str(json.dumps(written))
    if model.startswith("unigram"):
        trainer = trainers.UnigramTrainer(vocab_size=300, special_tokens=special, unk_token="<unk>", show_progress=False)
    elif model.startswith("bpe"):
        letters = pre_tokenizers.ByteLevel.alphabet() if model in ("bpe", "bpe-whole") else []
        trainer = trainers.BpeTrainer(vocab_size=400 if letters else 300, special_tokens=special if not letters else [], show_progress=False,
                                      initial_alphabet=sorted(letters), **({} if letters else {"limit_alphabet": 60}))
    else:
        trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    written = json.loads(tokenizer.to_str())
    if model == "unigram-bytes":
        for byte in range(256):
            written["model"]["vocab"].append([f"<0x{byte:02X}>", -20.0])
        written["model"]["byte_fallback"] = True
    if model == "bpe-characters":
        for byte in range(256):
            written["model"]["vocab"][f"<0x{byte:02X}>"] = len(written["model"]["vocab"])
    if model.startswith("bpe"):
        written["model"] |= {"byte_fallback": model == "bpe-characters", "ignore_merges": model == "bpe-whole", "fuse_unk": model == "bpe-fused",
                             "unk_token": None if model in ("bpe", "bpe-whole") else "<unk>"}
    return written


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    texts = ODD + fuzzed(int(sys.argv[2]) if len(sys.argv) > 2 else 40)
    out = []
    for name, model, steps, cut in kinds():
        written = make(model, steps, cut)
        tokenizer = Tokenizer.from_str(json.dumps(written))
        out.append({"name": name, "tokenizer": written, "ids": [tokenizer.encode(t, add_special_tokens=False).ids for t in texts]})
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        lines = ",\n".join(json.dumps(t, separators=(",", ":")) for t in out)
        file.write(f'{{"texts": {json.dumps(texts)},\n"tokenizers": [\n{lines}\n]}}\n')
    print(f"{len(out)} tokenizers, {len(texts)} texts")


main()
