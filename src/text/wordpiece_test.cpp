#include <gtest/gtest.h>

#include "text/tokenizer.hpp"
#include "text/vocabularies_fixture.hpp"

namespace kvasir::text {
namespace wordpiece_test {

using Pieces = std::vector<std::string>;

Pieces pieces(const Tokenizer& t, std::string_view text, EncodeOptions options = {}) {
  Pieces out;
  for (const auto id : t.encode(text, options)) out.emplace_back(t.piece(id));
  return out;
}

TEST(WordPiece, TakesTheLongestFromTheLeft) {
  const auto t = make_tokenizer(wordpiece_vocabulary());
  EXPECT_EQ(pieces(*t, "unaffable"), (Pieces{" unaff", "able"}));
  EXPECT_EQ(pieces(*t, "hello the"), (Pieces{" hello", " the"}));
  EXPECT_EQ(pieces(*t, "aab"), (Pieces{" a", "ab"}));
  EXPECT_EQ(pieces(*t, "unx hello"), (Pieces{"[UNK]", " hello"}));  // a word is unknown as a whole
  EXPECT_EQ(pieces(*t, ""), Pieces{});
  EXPECT_EQ(t->decode(t->encode("hello unaffable")), "hello unaffable");
}

TEST(WordPiece, NormalisesAsTheOriginal) {
  const auto t = make_tokenizer(wordpiece_vocabulary());
  EXPECT_EQ(pieces(*t, "HELLO,the!"), (Pieces{" hello", " ,", " the", " !"}));
  EXPECT_EQ(pieces(*t, "caf\xc3\xa9 cafe\xcc\x81"), (Pieces{" cafe", " cafe"}));  // without accents
  EXPECT_EQ(pieces(*t,
                   "the\xe4\xb8\xad"
                   "a"),
            (Pieces{" the", " \xe4\xb8\xad", " a"}));
  EXPECT_EQ(pieces(*t,
                   "a\xe2\x80\x8b\x01"
                   "b"),
            (Pieces{" a", "b"}));  // what stands for nothing
  EXPECT_EQ(pieces(*t, "a\xc2\xa0\t\nb\xff$"), (Pieces{" a", " b", " $"}));
  EXPECT_EQ(pieces(*t, std::string(101, 'a')), (Pieces{"[UNK]"}));
  EXPECT_EQ(pieces(*t, std::string(100, 'a')).size(), 100u);
}

TEST(WordPiece, CaseAndAccentsCanStay) {
  auto m = wordpiece_vocabulary();
  m.set("tokenizer.ggml.normalizer.lowercase", false);
  EXPECT_EQ(pieces(*make_tokenizer(m), "Hello hello caf\xc3\xa9"), (Pieces{"[UNK]", " hello", "[UNK]"}));
  m.set("tokenizer.ggml.normalizer.strip_accents", true);
  EXPECT_EQ(pieces(*make_tokenizer(m), "caf\xc3\xa9"), (Pieces{" cafe"}));
}

TEST(WordPiece, TextsStandBetweenTheirMarks) {
  const auto t = make_tokenizer(wordpiece_vocabulary());
  EXPECT_TRUE(t->add_bos() && t->add_eos());
  EXPECT_EQ(pieces(*t, "the", {.add_bos = true, .add_eos = true}), (Pieces{"[CLS]", " the", "[SEP]"}));
}

}  // namespace wordpiece_test
}  // namespace kvasir::text
