#!/usr/bin/env python3
"""Writes tests/golden/vocabularies.expected: what other implementations make of texts under real vocabularies.

Usage: tools/vocabularies.py VOCABULARIES TEXTS > tests/golden/vocabularies.expected
       (pip install tokenizers sentencepiece protobuf; VOCABULARIES: tools/get_vocabularies.sh; TEXTS: a folder of .txt)
Per vocabulary and text: number of ids and FNV-1a (64 bits, over the ids as little-endian int32). SentencePiece's BPE
is sentencepiece, the others are Hugging Face tokenizers, each made of what the GGUF file says. (sentencepiece sums the
scores of Unigram in float, which is too coarse for a book.)
"""
import pathlib
import struct
import sys

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

from pretokenizers import PATTERNS

FORMATS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
SAME = {"starcoder": "smollm", "refact": "smollm", "mpt": "olmo"}
COMPOSED = {"qwen2", "qwen35", "command-r", "mpt", "olmo", "tiny_aya"}
WHOLE_WORDS = {"llama-bpe", "tekken", "smollm3", "youtu", "minicpm5", "granite-embed-multi-97m"}


def metadata(path):
    data, at = pathlib.Path(path).read_bytes(), 8

    def number(form):
        nonlocal at
        value = struct.unpack_from("<" + form, data, at)[0]
        at += struct.calcsize("<" + form)
        return value

    def value(kind):
        nonlocal at
        if kind == 8:
            size = number("Q")
            at += size
            return data[at - size:at].decode("utf8", "surrogateescape")
        if kind == 9:
            element, count = number("I"), number("Q")
            return [value(element) for _ in range(count)]
        return number(FORMATS[kind])

    number("Q")
    pairs = {}
    for _ in range(number("Q")):
        key, kind = value(8), number("I")
        pairs[key] = value(kind)
    return {key.removeprefix("tokenizer.ggml."): v for key, v in pairs.items()}


def encoder(tokenizer, m):
    tagged = [AddedToken(t, normalized=False) for t, kind in zip(m["tokens"], m["token_type"]) if kind == 4]
    tokenizer.add_tokens(tagged)
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


def merges(m):
    return [(line[:cut], line[cut + 1:]) for line in m["merges"] for cut in [line.index(" ", 1)]]


def byte_level(m):
    pre = m.get("pre", "default")
    vocabulary = {t: i for i, t in enumerate(m["tokens"])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges(m), ignore_merges=pre in WHOLE_WORDS))
    if pre in COMPOSED:
        tokenizer.normalizer = normalizers.NFC()
    cuts = [pre_tokenizers.Split(Regex(p), "isolated") for p in PATTERNS[SAME.get(pre, pre)]]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        cuts + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return encoder(tokenizer, m)


def gemma4(m):
    vocabulary = {t: i for i, t in enumerate(m["tokens"])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges(m), fuse_unk=True, unk_token="<unk>", byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    return encoder(tokenizer, m)


def wordpiece(m):
    def original(token, kind):
        if kind == 3 or token.startswith("[unused"):
            return token
        return token[1:] if token.startswith("\u2581") else "##" + token

    vocabulary = {original(t, k): i for i, (t, k) in enumerate(zip(m["tokens"], m["token_type"]))}
    tokenizer = Tokenizer(models.WordPiece(vocab=vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return encoder(tokenizer, m)


def unigram(m):
    pieces = list(zip(m["tokens"], m["scores"]))
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=m["unknown_token_id"], byte_fallback=6 in m["token_type"]))
    tokenizer.normalizer = normalizers.Precompiled(bytes(x & 255 for x in m["precompiled_charsmap"]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")])
    return encoder(tokenizer, m)


def sentencepiece(m):
    import sentencepiece as spm
    from sentencepiece import sentencepiece_model_pb2 as pb

    proto, unknown = pb.ModelProto(), m.get("unknown_token_id", 0)
    proto.trainer_spec.model_type = 2  # BPE
    proto.trainer_spec.byte_fallback = 6 in m["token_type"]
    proto.trainer_spec.vocab_size = len(m["tokens"])
    proto.trainer_spec.unk_id, proto.trainer_spec.unk_piece = unknown, m["tokens"][unknown]
    proto.trainer_spec.bos_id, proto.trainer_spec.eos_id = m["bos_token_id"], m["eos_token_id"]
    proto.trainer_spec.pad_id = -1
    for i, (token, score, kind) in enumerate(zip(m["tokens"], m["scores"], m["token_type"])):
        piece = proto.pieces.add()
        piece.piece = token.replace(" ", "\u2581") if kind == 4 else token
        piece.score = score
        piece.type = 2 if i == unknown else 3 if kind == 2 else kind
    proto.normalizer_spec.name = "given"
    proto.normalizer_spec.add_dummy_prefix = m.get("add_space_prefix", True)
    proto.normalizer_spec.remove_extra_whitespaces = m.get("remove_extra_whitespaces", False)
    processor = spm.SentencePieceProcessor()
    processor.LoadFromSerializedProto(proto.SerializeToString())
    return processor.EncodeAsIds


KINDS = {"gpt2": byte_level, "gemma4": gemma4, "bert": wordpiece, "llama": sentencepiece, "t5": unigram}


def fnv(ids):
    h = 1469598103934665603
    for byte in struct.pack(f"<{len(ids)}i", *ids):
        h = ((h ^ byte) * 0x100000001B3) & (2**64 - 1)
    return f"{h:016x}"


def main():
    vocabularies, texts = sys.argv[1:]
    for path in sorted(pathlib.Path(vocabularies).glob("*.gguf")):
        m = metadata(path)
        encode = KINDS[m["model"]](m)
        for text in sorted(pathlib.Path(texts).glob("*.txt")):
            ids = encode(text.read_bytes().decode("utf8"))
            print(path.stem, text.stem, len(ids), fnv(ids), flush=True)


if __name__ == "__main__":
    main()
