#!/usr/bin/env python3
"""Writes tests/golden/pretokenizers.json: texts, and how long the pieces are that Hugging Face tokenizers cuts them into.

Usage: tools/pretokenizers.py > tests/golden/pretokenizers.json   (pip install tokenizers)
The patterns are those of the models' own tokenizer.json or tokenization code. Each is applied to every part that the
ones before it left, matched or not. Keys are values of tokenizer.ggml.pre, one for each entry of src/text/pretokenizers.
"""
import json

from tokenizers import Regex
from tokenizers.pre_tokenizers import Sequence, Split

SUFFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"\s+(?!\S)|\s+"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|" + SPACES


def words(before=SUFFIX + "|", word=r"\p{L}+", digits=r"\p{N}{1,3}", signs=r" ?[^\s\p{L}\p{N}]+[\r\n]*", lines=r"\s*[\r\n]+"):
    return before + r"[^\r\n\p{L}\p{N}]?" + "|".join([word, digits, signs, lines, SPACES])


def cased(behind=SUFFIX + "?", digits=r"\p{N}{1,3}", signs=r" ?[^\s\p{L}\p{N}]+[\r\n/]*", but="", before=""):
    upper, lower = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}" + but + "]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}" + but + "]"
    first = r"[^\r\n\p{L}\p{N}]?"
    return before + "|".join([first + upper + "*" + lower + "+" + behind, first + upper + "+" + lower + "*" + behind, digits,
                              signs, r"\s*[\r\n]+", SPACES])


NAMED = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+"
SIGNS = NAMED + r"[\r\n]*|\s*[\r\n]+|" + SPACES
CJK = "[一-龥\u3040-ゟ゠-ヿ]+"
EAST = "[一-龥ࠀ-一가-\ud7ff]+"
THREES = r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))"
BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"
CASED_LETTERS = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373\u0376"
    "\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-"
    "\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a"
    "\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4"
    "\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc"
    "\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f"
    "\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b"
    "\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a"
    "\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2"
    "\U000118a0-\U000118df\U0001e900-\U0001e943"
)
YOUTU = "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|" + CJK
SCRIPTS = (
    "[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0e7f"
    "\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+"
)

PATTERNS = {
    "gpt-2": [GPT2],
    "olmo": [GPT2],
    "llama-bpe": [words()],
    "smollm3": [words()],
    "smaug-bpe": [words()],
    "qwen2": [words(digits=r"\p{N}")],
    "qwen35": [words(word=r"[\p{L}\p{M}]+", digits=r"\p{N}", signs=r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*")],
    "bailingmoe": [r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|" + SPACES],
    "seed-coder": [words(digits=r"\p{N}{1}", signs=r" ?[^\s\p{L}\p{N}\r\n]+")],
    "ufakzeka": [words(before="", digits=r"\p{N}")],
    "laguna": [r"[^\n]+|[\n]+", words(digits=r"\p{N}")],
    "exaone-moe": [words(word=r"(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+", digits=r"\p{N}", signs=r" ?[^\s\p{L}\p{N}]+[\r\n/]?",
                         lines=r"\s*[\r\n]")],
    "minicpm5": [r"\p{N}{1,3}", words(digits=r"\p{N}+")],
    "smollm": [r"\p{N}", GPT2],
    "command-r": [r"\p{N}", GPT2],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"],
    "default": [r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
    "deepseek-llm": [r"[\r\n]", r"\s?[" + CASED_LETTERS + "]+", r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", EAST, r"\p{N}+"],
    "deepseek-coder": [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", EAST, r"\p{N}"],
    "deepseek-v3": [r"\p{N}{1,3}", CJK, SIGNS],
    "spark2_5": [r"\p{N}{1,3}", CJK, NAMED + r"|[\r\n]|" + SPACES, r"\p{N}"],
    "afmoe": [THREES, SCRIPTS, SIGNS],
    "tekken": [cased(behind="", digits=r"\p{N}")],
    "gpt-4o": [cased()],
    "granite-embed-multi-97m": [cased()],
    "kimi-k2": [cased(before=r"[\p{Han}]+|", but=r"&&[^\p{Han}]", signs=r" ?[^\s\p{L}\p{N}]+[\r\n]*")],
    "youtu": [YOUTU, cased(digits=r"\p{N}")],
    "tiny_aya": [r"\d{1,3}(?=(?:\d{3})*\b)", cased()],
    "superbpe": [THREES],
    "bloom": [BLOOM],
    "viking": [BLOOM, r"\p{N}"],
}

TEXTS = [
    "Hello world's 123456 it'll  do\n\n x!?",
    "I'M You'RE we'Ve they'D it'S 'ſx o'clock 'tis",
    "  leading   and trailing   ",
    "tabs\tand\r\nnewlines\n\n\n  \n mixed \r\n\r\n end\n",
    "1234567890 12 345 6789 1,234.56 ½ ² Ⅻ ٣٤٥ 一二三 〇〇 ①②",
    "camelCase HTTPServer iPhoneXS ABCdef ǅabc ªAAAA Aª aʰBʰC İIıi",
    "naïve café cafe\u0301 Ångstrom A\u030a \u0301abc x\u0327\u0301y ё й\u0306",
    "\u0301ABC \u0301\u0301 a\u0301 B\u0301c !\u0301 7\u0301 \n\u0301",
    "Привет, мир! Ελληνικά Ωmega",
    "你好世界，今天天气很好。2024年 日本語カタカナひらがな 한국어 텍스트 ㄱㄴ ㄅㄆ",
    "⺀⺁々〇〡 漢字kanji漢字 Han！… “quotes” ‘x’ —：；",
    "हिन्दी में देवनागरी ภาษาไทย ខ្មែរ မြန်မာ বাংলা தமிழ்",
    "العربية، فارسی۔ עברית",
    "emoji 👩\u200d👩\u200d👧\u200d👦 🦙🦙 ❤️ flags 🇩🇪 :-) ;) <3",
    "code: for(int i=0;i<10;++i){a[i]+=b->c;} // comment\n/* x */ #include <y>\n",
    "path/to/file.txt //// http://x.y/z?a=b&c=d ...\n/ !\n/\n $x$ $$ a$b",
    "under_scores __init__ 1_000 a1b2 x123y 123abc 12-34 0x1F",
    "nbsp\u00a0here\u3000wide\u2003em\u200bzero\u0085next\u2028sep",
    "ctl\x01\x02a \x7f \x1b[0m\x0b\x0c x",
    "!!!??? ...--- «guillemets» ¿qué? ¡olé! €5 £6 ¥7 +−×÷=≠ ^~`|\\",
    "a  b   c    d     e\n\n  f\n g  \n",
    "don't DON'T can't've y'all'd'nt 'S 's '' 'll'",
    "ABC'S Abc's abc'LLx ÀÉ'd",
    "ﬁ ﬂ Ⓐ ⒜ ＡＢＣ　ａｂｃ １２３ ﾊﾝｶｸ",
    "q\u0307\u0323 q\u0323\u0307 \u1e0b\u0323 Å \ud55c\u1100\u1161\u11a8 \u0958 \u0344",
    "words,with.stops!and?more|pipes(parens) ।danda۔ ،comma 、。，",
    "Zz\u1c80 ℂℝℕ ⅅ Ↄ ꙀꙁꜢ Ꭰᏸ 𐐀𐐨 𝒳𝓎 🅰",
]


def sizes(patterns, text):
    cut = Sequence([Split(Regex(p), "isolated") for p in patterns])
    return [len(piece.encode()) for piece, _ in cut.pre_tokenize_str(text)]


def main():
    print('{"texts": [')
    print(",\n".join(json.dumps(t) for t in TEXTS))
    print('], "pieces": {')
    rows = []
    for name, patterns in sorted(PATTERNS.items()):
        rows.append(f'"{name}": [' + ",\n ".join(json.dumps(sizes(patterns, t), separators=(",", ":")) for t in TEXTS) + "]")
    print(",\n".join(rows))
    print("}}")


if __name__ == "__main__":
    main()
