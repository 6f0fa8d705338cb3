#include "unicode/utf8.hpp"

#include <gtest/gtest.h>

#include "unicode/classes.hpp"

namespace kvasir::unicode {
namespace {

using namespace std::string_literals;

TEST(Utf8, EveryScalarValueSurvives) {
  for (std::uint32_t code = 0; code < 0x110000; ++code) {
    std::string text;
    append_utf8(text, code);
    const Char c = decode_char(text);
    if (code >= 0xd800 && code < 0xe000) {  // surrogates are no scalar values
      ASSERT_EQ(c.code, kInvalidByte + 0xed);
      ASSERT_EQ(c.size, 1u);
      continue;
    }
    ASSERT_EQ(c.code, code);
    ASSERT_EQ(c.size, text.size());
    ASSERT_EQ(incomplete_tail(text), 0u);
    for (std::size_t n = 1; n < text.size(); ++n) {
      const auto part = std::string_view(text).substr(0, n);
      ASSERT_EQ(decode_char(part).code, kInvalidByte + static_cast<unsigned char>(text[0]));
      ASSERT_EQ(incomplete_tail(part), n);
    }
  }
}

TEST(Utf8, IllFormedBytesAreOneCharEach) {
  for (const auto& text : {"\x80"s, "\xc0\xaf"s, "\xc1\xbf"s, "\xe0\x80\x80"s, "\xf0\x80\x80\x80"s, "\xf4\x90\x80\x80"s,
                           "\xf5\x80\x80\x80"s, "\xff"s, "\xe2\x82"s, "\xc3("s}) {
    const Char c = decode_char(text);
    EXPECT_EQ(c.code, kInvalidByte + static_cast<unsigned char>(text[0]));
    EXPECT_EQ(c.size, 1u);
  }
}

TEST(Utf8, IncompleteTailSeesOnlyWhatMayStillBecomeACharacter) {
  EXPECT_EQ(incomplete_tail(""), 0u);
  EXPECT_EQ(incomplete_tail("a\xe2\x82"), 2u);
  EXPECT_EQ(incomplete_tail("\xf0\x9f\x98"), 3u);
  EXPECT_EQ(incomplete_tail("\xe0\x80"), 0u);      // overlong: never well formed
  EXPECT_EQ(incomplete_tail("\xed\xa0"), 0u);      // surrogate
  EXPECT_EQ(incomplete_tail("\x80\x80\x80"), 0u);  // no lead
  EXPECT_EQ(incomplete_tail("\xff"), 0u);
}

TEST(Utf8, ReplacesMaximalSubparts) {
  const std::string r = "\xef\xbf\xbd";
  EXPECT_EQ(to_valid_utf8("plain \xc3\xbc"), "plain \xc3\xbc");
  // The example of the Unicode standard, table 3-11.
  EXPECT_EQ(to_valid_utf8("\xf1\x80\x80\xe1\x80\xc2"
                          "b\x80"
                          "c\x80\xbf"
                          "d"),
            r + r + r + "b" + r + "c" + r + r + "d");
  EXPECT_EQ(to_valid_utf8("\xe2\x82"), r);
  EXPECT_EQ(to_valid_utf8("\xc0\xaf"), r + r);
}

TEST(CharClasses, KnownCharacters) {
  EXPECT_EQ(char_class('a'), CharClass::kLower);
  EXPECT_EQ(char_class('Z'), CharClass::kUpper);
  EXPECT_EQ(char_class(0x1c5), CharClass::kUpper);  // title case
  EXPECT_EQ(char_class(0x4e2d), CharClass::kLetter);
  EXPECT_EQ(char_class(0x10ffff), CharClass::kOther);
  EXPECT_EQ(char_class('7'), CharClass::kDigit);
  EXPECT_EQ(char_class(0xbd), CharClass::kNumber);  // one half
  EXPECT_EQ(char_class('_'), CharClass::kPunctuation);
  EXPECT_EQ(char_class('$'), CharClass::kSymbol);
  EXPECT_EQ(char_class(0x301), CharClass::kAccent);  // a combining mark
  EXPECT_EQ(char_class(0x903), CharClass::kMark);    // a spacing mark
  EXPECT_TRUE(is_mark(CharClass::kMark) && is_mark(CharClass::kAccent) && !is_mark(CharClass::kLower));
  EXPECT_EQ(char_class(0x85), CharClass::kSpace);
  EXPECT_EQ(char_class(0x3000), CharClass::kSpace);
  EXPECT_EQ(char_class(0x200b), CharClass::kOther);  // zero width space is no white space
  EXPECT_EQ(char_class(kInvalidByte + 0xff), CharClass::kOther);
  EXPECT_EQ(char_class(0xffffffff), CharClass::kOther);
}

}  // namespace
}  // namespace kvasir::unicode
