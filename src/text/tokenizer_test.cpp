#include "text/tokenizer.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "text/pretokenizer.hpp"
#include "text/vocabularies_fixture.hpp"

namespace kvasir::text {
namespace {

using Ids = std::vector<std::int32_t>;

std::vector<std::string> pieces(const Tokenizer& t, const Ids& ids) {
  std::vector<std::string> out;
  for (const auto id : ids) out.emplace_back(t.piece(id));
  return out;
}

std::vector<std::string> pieces(const Tokenizer& t, std::string_view text, EncodeOptions options = {}) {
  return pieces(t, t.encode(text, options));
}

using Pieces = std::vector<std::string>;

// Joins the best neighbours until none join, by looking at all of them each time.
// `cost(text)` is the cost of a token made by joining, infinite when there is none.
Pieces merge_naively(Pieces parts, const std::function<double(const std::string&, const std::string&)>& cost) {
  for (;;) {
    double best = std::numeric_limits<double>::infinity();
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      if (const double c = cost(parts[i], parts[i + 1]); c < best) best = c, at = i;
    }
    if (best == std::numeric_limits<double>::infinity()) return parts;
    parts[at] += parts[at + 1];
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

std::string random_text(std::mt19937& random) {
  static const Pieces atoms = {"a",  "aa", "the", "he", "l",        "ll",   "o",    " ",    "  ",
                               "\n", "12", "3",   "w",  "\xc3\xbc", "\xc3", "\xff", "<tag", "orld"};
  std::string text;
  for (auto n = random() % 24; n > 0; --n) text += atoms[random() % atoms.size()];
  return text;
}

TEST(ByteLevelBpe, Merges) {
  const auto t = make_tokenizer(byte_level_vocabulary("gpt-2"));
  EXPECT_EQ(pieces(*t, "hello the"), (Pieces{"hello", " the"}));
  EXPECT_EQ(pieces(*t, "the   x"), (Pieces{"the", "  ", " ", "x"}));  // " x" is one piece, but no merge
  EXPECT_EQ(pieces(*t, "\xc3\xbc\xc3\xa4"), (Pieces{"\xc3\xbc", "\xc3", "\xa4"}));
  EXPECT_EQ(pieces(*t, "aaaaa"), (Pieces{"aaaa", "a"}));
  EXPECT_EQ(t->encode(""), Ids{});
  EXPECT_EQ(t->encode(std::string_view("\0\xff", 2)), (Ids{0, 255}));
}

TEST(ByteLevelBpe, AgreesWithNaiveMerging) {
  const auto metadata = byte_level_vocabulary("gpt-2");
  const auto t = make_tokenizer(metadata);
  const auto& merges = *metadata.get_strings("tokenizer.ggml.merges");
  const auto rank = [&](const std::string& a, const std::string& b) {
    const auto at = std::find(merges.begin(), merges.end(), byte_level(a) + " " + byte_level(b));
    return at == merges.end() ? std::numeric_limits<double>::infinity() : static_cast<double>(at - merges.begin());
  };
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    const auto text = random_text(random);
    if (text.find("<tag>") != std::string::npos || text.find("\n\n\n") != std::string::npos) continue;
    Pieces expected;
    pretokenizer_for("gpt-2", "").split(text, [&](std::string_view piece) {
      Pieces bytes;
      for (const char c : piece) bytes.emplace_back(1, c);
      for (auto& p : merge_naively(bytes, rank)) expected.push_back(p);
    });
    ASSERT_EQ(pieces(*t, text), expected) << text;
  }
}

TEST(ByteLevelBpe, WholeWordsOnlyWhereThePretokenizerSaysSo) {
  auto metadata = byte_level_vocabulary("llama-bpe");
  auto tokens = *metadata.get_strings("tokenizer.ggml.tokens");
  tokens.push_back("xyz");  // a token that no merge makes
  auto types = *metadata.get_ints("tokenizer.ggml.token_type");
  types.push_back(1);
  metadata.set("tokenizer.ggml.tokens", tokens);
  metadata.set("tokenizer.ggml.token_type", types);
  EXPECT_EQ(pieces(*make_tokenizer(metadata), "xyz"), (Pieces{"xyz"}));
  metadata.set("tokenizer.ggml.pre", std::string("qwen2"));
  EXPECT_EQ(pieces(*make_tokenizer(metadata), "xyz"), (Pieces{"x", "y", "z"}));
}

TEST(ByteLevelBpe, BytesWithoutATokenAreUnknownOrNothing) {
  weights::Metadata m("tiny.gguf");
  m.set("tokenizer.ggml.model", std::string("gpt2"));
  m.set("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b", "ab", "<unk>"});
  m.set("tokenizer.ggml.merges", std::vector<std::string>{"a b"});
  EXPECT_EQ(make_tokenizer(m)->encode("abzb"), (Ids{2, 1}));
  m.set("tokenizer.ggml.unknown_token_id", std::int64_t{3});
  EXPECT_EQ(make_tokenizer(m)->encode("abzb"), (Ids{2, 3, 1}));
}

TEST(SentencePiece, MergesByScoreWithByteFallback) {
  const auto t = make_tokenizer(sentencepiece_vocabulary());
  EXPECT_EQ(pieces(*t, "hello world"), (Pieces{" hello", " world"}));
  EXPECT_EQ(t->encode("\n"), (Ids{t->find(" "), 3 + '\n'}));
  EXPECT_EQ(pieces(*t, "x\xff"), (Pieces{" ", "x", "\xff"}));
  EXPECT_EQ(t->encode(""), Ids{});
  EXPECT_EQ(t->decode(t->encode(" hello")), " hello");
  EXPECT_EQ(pieces(*t, "<s>"), (Pieces{" ", "<s", ">"}));  // "<s" and ">" do not make the control token
}

TEST(SentencePiece, AgreesWithNaiveMergingOfTheWholeText) {
  const auto metadata = sentencepiece_vocabulary();
  const auto t = make_tokenizer(metadata);
  const auto& scores = *metadata.get_floats("tokenizer.ggml.scores");
  const auto cost = [&](const std::string& a, const std::string& b) {
    const auto id = t->find(a + b);
    const bool word = id >= 3 + 256 && !t->is_special(id);
    return word ? -scores[static_cast<std::size_t>(id)] : std::numeric_limits<double>::infinity();
  };
  std::mt19937 random(9);
  for (int round = 0; round < 3000; ++round) {
    const auto text = random_text(random);
    if (text.empty() || text.find("<tag>") != std::string::npos) continue;
    Pieces parts;
    const std::string spaced = " " + text;
    for (std::size_t i = 0; i < spaced.size();) {
      const auto n = unicode::decode_char(std::string_view(spaced).substr(i)).size;
      parts.push_back(spaced.substr(i, n));
      i += n;
    }
    Pieces expected;
    for (const auto& p : merge_naively(parts, cost)) {
      const auto id = t->find(p);
      if (id >= 3 + 256) {
        expected.push_back(p);
      } else {
        for (const char c : p) expected.emplace_back(1, c);
      }
    }
    ASSERT_EQ(pieces(*t, text), expected) << text;
    ASSERT_EQ(t->decode(t->encode(text)), text);
  }
}

TEST(SentencePiece, WithoutByteTokensTheUnknownTokenStandsIn) {
  const auto t = make_tokenizer(sentencepiece_vocabulary(false));
  EXPECT_EQ(t->encode("z"), (Ids{t->find(" "), 0}));
}

TEST(SentencePiece, SpacePrefixCanBeOff) {
  auto metadata = sentencepiece_vocabulary();
  metadata.set("tokenizer.ggml.add_space_prefix", false);
  const auto t = make_tokenizer(metadata);
  EXPECT_FALSE(t->adds_space());
  EXPECT_EQ(pieces(*t, "hello"), (Pieces{"hello"}));
  EXPECT_EQ(t->decode(t->encode(" hello")), " hello");
}

TEST(ByteLevelBpe, ComposesCharactersWhereTheOriginalDoes) {
  for (const auto& [pre, composed] : {std::pair<const char*, bool>{"qwen2", true},
                                      {"qwen35", true},
                                      {"command-r", true},
                                      {"olmo", true},
                                      {"gpt-2", false},
                                      {"llama-bpe", false},
                                      {"deepseek-v3", false}}) {
    const auto t = make_tokenizer(byte_level_vocabulary(pre));
    const std::string apart = "u\xcc\x88 the", together = "\xc3\xbc the";
    EXPECT_EQ(t->decode(t->encode(apart)), composed ? together : apart) << pre;
    EXPECT_EQ(t->encode(apart) == t->encode(together), composed) << pre;
    EXPECT_EQ(t->decode(t->encode("\xff\xcc")), "\xff\xcc") << pre;
  }
}

TEST(RankedCharacters, MergeByRankWithByteFallback) {
  const auto t = make_tokenizer(ranked_vocabulary());
  EXPECT_FALSE(t->adds_space());
  EXPECT_TRUE(t->add_bos());
  EXPECT_EQ(pieces(*t, "hello hello"), (Pieces{"hello", " hello"}));
  EXPECT_EQ(pieces(*t, " world"), (Pieces{" w", "orld"}));  // no merge makes " world", though it is a token
  EXPECT_EQ(pieces(*t, "x\xff<tag>"), (Pieces{"x", "\xff", "<tag>"}));
  EXPECT_EQ(t->decode(t->encode("\xe4\xb8\xad  hell\n")), "\xe4\xb8\xad  hell\n");
}

TEST(RankedCharacters, AreMeantByThePretokenizerOfSomeFiles) {
  auto m = ranked_vocabulary();
  m.set("tokenizer.ggml.model", std::string("gpt2"));
  m.set("tokenizer.ggml.pre", std::string("sarvam-moe"));
  EXPECT_EQ(pieces(*make_tokenizer(m), "hello hello"), (Pieces{"hello", " hello"}));
}

TEST(SpecialTokens, Phi3TakesTheWhiteSpaceBehindThem) {
  auto m = sentencepiece_vocabulary();
  m.set("general.architecture", std::string("phi3"));
  const auto t = make_tokenizer(m);
  EXPECT_EQ(pieces(*t, "<tag>\n hello", {.parse_special = true}), (Pieces{"<tag>", " hello"}));
  EXPECT_EQ(pieces(*t, "<s> hello", {.parse_special = true}), (Pieces{"<s>", " ", " hello"}));
  EXPECT_EQ(pieces(*t, "<tag> \n", {.parse_special = true}), (Pieces{"<tag>"}));
}

// As tokenizers 0.23 has it: white space is Unicode's, and none is taken of what stands in front of an earlier token.
TEST(SpecialTokens, TakeWhiteSpaceAndWordsAsAddedTokensSay) {
  auto m = byte_level_vocabulary("gpt-2");
  const std::int64_t tag = make_tokenizer(m)->find("<tag>");
  const EncodeOptions special{.parse_special = true};
  m.set("tokenizer.kvasir.lstrip", std::vector{tag});
  EXPECT_EQ(pieces(*make_tokenizer(m), "a \n\u00a0<tag> b", special), (Pieces{"a", "<tag>", " ", "b"}));
  EXPECT_EQ(pieces(*make_tokenizer(m), "  <tag><tag>", special), (Pieces{"<tag>", "<tag>"}));
  m.set("tokenizer.kvasir.lstrip", std::vector<std::int64_t>());
  m.set("tokenizer.kvasir.rstrip", std::vector{tag});
  EXPECT_EQ(pieces(*make_tokenizer(m), "a <tag>\u3000 \nb", special), (Pieces{"a", " ", "<tag>", "b"}));
  EXPECT_EQ(pieces(*make_tokenizer(m), "<tag> ", special), (Pieces{"<tag>"}));
  m.set("tokenizer.kvasir.rstrip", std::vector<std::int64_t>());
  m.set("tokenizer.kvasir.single_word", std::vector{tag});
  const auto alone = make_tokenizer(m);
  for (const char* text : {"a<tag>", "<tag>b", "\u00e9<tag>", "<tag>_", "7<tag>"}) {
    for (const auto id : alone->encode(text, special)) EXPECT_NE(id, tag) << text;
    EXPECT_EQ(alone->decode(alone->encode(text, special), true), text);
  }
  for (const char* text : {"<tag>", " <tag> ", "-<tag>.", "\u3002<tag>"}) {
    const auto ids = alone->encode(text, special);
    EXPECT_NE(std::find(ids.begin(), ids.end(), tag), ids.end()) << text;
  }
  m.set("tokenizer.kvasir.single_word", std::vector<std::int64_t>{1 << 20});
  EXPECT_THROW(make_tokenizer(m), Error);
}

// GGUF files leave types out, so names tell; a tokenizer.json has every type.
TEST(SpecialTokens, AreNotGuessedByTheirNamesWhereTheFileTellsAll) {
  auto m = byte_level_vocabulary("gpt-2");
  auto tokens = *m.get_strings("tokenizer.ggml.tokens");
  auto types = *m.get_ints("tokenizer.ggml.token_type");
  tokens.emplace_back("<|piece|>");
  types.push_back(1);
  m.set("tokenizer.ggml.tokens", tokens);
  m.set("tokenizer.ggml.token_type", types);
  const auto guessed = make_tokenizer(m);
  EXPECT_TRUE(guessed->is_special(guessed->find("<|piece|>")));
  m.set("tokenizer.kvasir.types_told", true);
  const auto told = make_tokenizer(m);
  EXPECT_FALSE(told->is_special(told->find("<|piece|>")));
  EXPECT_EQ(told->note(), "");
}

TEST(SpecialTokens, InTheHarmonyFormatAMessagesEndIsNoAnswersEnd) {
  auto m = byte_level_vocabulary("gpt-4o");
  EXPECT_TRUE(make_tokenizer(m)->is_eog(make_tokenizer(m)->find("<|end|>")));
  auto tokens = *m.get_strings("tokenizer.ggml.tokens");
  auto types = *m.get_ints("tokenizer.ggml.token_type");
  for (const char* name : {"<|return|>", "<|call|>"}) {
    tokens.emplace_back(name);
    types.push_back(3);
  }
  m.set("tokenizer.ggml.tokens", tokens);
  m.set("tokenizer.ggml.token_type", types);
  const auto t = make_tokenizer(m);
  EXPECT_FALSE(t->is_eog(t->find("<|end|>")));
  EXPECT_TRUE(t->is_eog(t->find("<|return|>")) && t->is_eog(t->find("<|call|>")));
  EXPECT_EQ(t->eot(), -1);
}

TEST(SpecialTokens, OnlyWhereAskedAndTheLongestFirst) {
  const auto t = make_tokenizer(byte_level_vocabulary("gpt-2"));
  const EncodeOptions special{.parse_special = true};
  EXPECT_EQ(pieces(*t, "<|begin|>the<|end|>", special), (Pieces{"<|begin|>", "the", "<|end|>"}));
  for (const auto id : t->encode("<|begin|>the<|end|>")) EXPECT_FALSE(t->is_special(id));
  EXPECT_EQ(t->decode(t->encode("<|begin|>the<|end|>")), "<|begin|>the<|end|>");
  EXPECT_EQ(pieces(*t, "<tag><tag>>the"), (Pieces{"<tag>", "<tag>>", "the"}));  // user-defined: always
  EXPECT_EQ(pieces(*t, "<ta\n\n\n\n"), (Pieces{"<", "t", "a", "\n\n\n", "\n"}));
  EXPECT_EQ(pieces(*t, "<|end", special).size(), 5u);  // cut off: plain text
}

TEST(SpecialTokens, IdsAndPredicates) {
  const auto t = make_tokenizer(byte_level_vocabulary("gpt-2"));
  EXPECT_EQ(t->bos(), t->find("<|begin|>"));
  EXPECT_EQ(t->eos(), t->find("<|endoftext|>"));
  EXPECT_EQ(t->eot(), t->find("<|end|>"));
  EXPECT_EQ(t->unknown(), -1);
  EXPECT_TRUE(t->is_eog(t->eos()));
  EXPECT_TRUE(t->is_eog(t->eot()));
  EXPECT_FALSE(t->is_eog(t->bos()));
  EXPECT_TRUE(t->is_control(t->bos()));
  EXPECT_FALSE(t->is_control(t->find("<tag>")));
  EXPECT_TRUE(t->is_special(t->find("<tag>")));
  EXPECT_FALSE(t->is_special(t->find("the")));
  EXPECT_EQ(t->find("no such token"), -1);
  for (const std::int32_t id : {-1, t->size(), std::numeric_limits<std::int32_t>::max()}) {
    EXPECT_EQ(t->piece(id), "");
    EXPECT_FALSE(t->is_special(id) || t->is_control(id) || t->is_eog(id));
    EXPECT_EQ(t->decode(Ids{id}), "");
  }
}

TEST(SpecialTokens, BosAndEosRules) {
  auto metadata = byte_level_vocabulary("gpt-2");
  auto t = make_tokenizer(metadata);
  EXPECT_FALSE(t->add_bos());
  EXPECT_FALSE(t->add_eos());
  EXPECT_EQ(t->encode("a", {.add_bos = true, .add_eos = true}), (Ids{t->bos(), 'a', t->eos()}));
  EXPECT_EQ(t->decode(t->encode("a", {.add_bos = true, .add_eos = true})), "a");
  EXPECT_EQ(t->decode(t->encode("a", {.add_bos = true}), true), "<|begin|>a");
  EXPECT_TRUE(make_tokenizer(byte_level_vocabulary("llama-bpe"))->add_bos());
  EXPECT_TRUE(make_tokenizer(sentencepiece_vocabulary())->add_bos());
  metadata.set("tokenizer.ggml.add_bos_token", true);
  metadata.set("tokenizer.ggml.add_eos_token", true);
  t = make_tokenizer(metadata);
  EXPECT_TRUE(t->add_bos() && t->add_eos());
  metadata.set("tokenizer.ggml.bos_token_id", std::int64_t{0xffffffff});  // how writers say "none"
  EXPECT_THROW(make_tokenizer(metadata), Error);
  metadata.set("tokenizer.ggml.add_bos_token", false);
  EXPECT_THROW(make_tokenizer(metadata)->encode("a", {.add_bos = true}), Error);
}

TEST(SpecialTokens, SentencePiecePutsASpaceBehindThemAndDecodeTakesItOut) {
  const auto t = make_tokenizer(sentencepiece_vocabulary());
  const EncodeOptions special{.parse_special = true};
  const auto ids = t->encode("hello<s>hello<tag> hello", special);
  EXPECT_EQ(pieces(*t, ids), (Pieces{" hello", "<s>", " hello", "<tag>", " ", " hello"}));
  EXPECT_EQ(t->decode(ids, true), "hello<s>hello<tag> hello");
}

TEST(Tokenizer, AnyBytesSurvive) {
  std::mt19937 random(3);
  for (const auto& metadata : {byte_level_vocabulary("gpt-2"), byte_level_vocabulary("llama-bpe"),
                               byte_level_vocabulary("deepseek-llm"), sentencepiece_vocabulary()}) {
    const auto t = make_tokenizer(metadata);
    for (int round = 0; round < 500; ++round) {
      std::string text(random() % 64, ' ');
      for (char& c : text) c = static_cast<char>(random());
      ASSERT_EQ(t->decode(t->encode(text)), text);
      ASSERT_EQ(t->decode(t->encode(text, {.parse_special = true}), true), text);
    }
  }
}

// A quadratic merge of 100 kB would take minutes.
TEST(Tokenizer, LongWordsTakeLinearTime) {
  for (const auto& metadata : {byte_level_vocabulary("gpt-2"), byte_level_vocabulary("llama-bpe"),
                               byte_level_vocabulary("deepseek-llm"), sentencepiece_vocabulary()}) {
    const auto t = make_tokenizer(metadata);
    for (const std::string unit : {"a", "x", "hello", " ", "\n", "<tag", "\xff", "\xc3\xbc", "<"}) {
      std::string text;
      while (text.size() < 100'000) text += unit;
      const double start = thread_cpu_seconds();
      const auto ids = t->encode(text, {.parse_special = true});
      EXPECT_LT(thread_cpu_seconds() - start, 2.0) << unit;
      EXPECT_EQ(t->decode(ids, true), text) << unit;
    }
  }
}

TEST(MakeTokenizer, ModelsWithoutAVocabularyHaveNone) {
  weights::Metadata m("ids.gguf");
  EXPECT_EQ(make_tokenizer(m), nullptr);
  m.set("tokenizer.ggml.model", std::string("no_vocab"));
  EXPECT_EQ(make_tokenizer(m), nullptr);
}

// Calls make_tokenizer on `metadata` with `key` replaced and expects an error that names the file, the key and `part`.
void expect_refusal(weights::Metadata metadata, const std::string& key, weights::Value value, const std::string& part) {
  metadata.set(key, std::move(value));
  try {
    make_tokenizer(metadata);
    ADD_FAILURE() << key << " accepted";
  } catch (const Error& e) {
    const std::string what = e.what();
    EXPECT_NE(what.find(".gguf"), std::string::npos) << what;
    EXPECT_NE(what.find(key), std::string::npos) << what;
    EXPECT_NE(what.find(part), std::string::npos) << what;
  }
}

TEST(MakeTokenizer, RefusesWhatDoesNotFitTogether) {
  using Strings = std::vector<std::string>;
  using Ints = std::vector<std::int64_t>;
  const auto bpe = byte_level_vocabulary("gpt-2");
  const auto spm = sentencepiece_vocabulary();
  expect_refusal(bpe, "tokenizer.ggml.model", std::string("rwkv"), "unknown tokenizer 'rwkv', expected one of bert, ");
  expect_refusal(bpe, "tokenizer.ggml.model", std::string("gtp2"), "did you mean 'gpt2'?");
  expect_refusal(bpe, "tokenizer.ggml.pre", std::string("klingon"), "qwen2");
  expect_refusal(bpe, "tokenizer.ggml.pre", std::string("qwen36"), "did you mean 'qwen35'?");
  expect_refusal(bpe, "tokenizer.ggml.tokens", Strings{}, "empty");
  expect_refusal(bpe, "tokenizer.ggml.token_type", Ints{1, 2}, "one per token");
  auto types = *bpe.get_ints("tokenizer.ggml.token_type");
  types[5] = 7;
  expect_refusal(bpe, "tokenizer.ggml.token_type", types, "entry 5 is 7");
  expect_refusal(bpe, "tokenizer.ggml.bos_token_id", std::int64_t{100000}, "100000");
  expect_refusal(bpe, "tokenizer.ggml.eos_token_id", std::string("x"), "integer");
  expect_refusal(bpe, "tokenizer.ggml.merges", Strings{"t"}, "entry 0 is 't'");
  expect_refusal(bpe, "tokenizer.ggml.merges", Strings{"t "}, "entry 0");
  expect_refusal(bpe, "tokenizer.ggml.merges", Strings{""}, "entry 0");
  expect_refusal(bpe, "tokenizer.ggml.merges", Strings{"q q"}, "'q q'");
  expect_refusal(spm, "tokenizer.ggml.scores", std::vector<double>{1.0}, "one per token");
  auto scores = *spm.get_floats("tokenizer.ggml.scores");
  scores[7] = std::numeric_limits<double>::quiet_NaN();
  expect_refusal(spm, "tokenizer.ggml.scores", scores, "entry 7");
}

}  // namespace
}  // namespace kvasir::text
