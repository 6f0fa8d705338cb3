#include "unicode/normal.hpp"

#include <gtest/gtest.h>

#include <random>

#include "unicode/utf8.hpp"

namespace kvasir::unicode {
namespace {

std::string text_of(std::initializer_list<std::uint32_t> codes) {
  std::string text;
  for (const auto c : codes) append_utf8(text, c);
  return text;
}

// Forms of the cases in the standard's annex 15 and of what its data file lists as exceptions.
TEST(Normal, KnownForms) {
  struct Case {
    std::string text, c, d;
  };
  const Case cases[] = {
      {"", "", ""},
      {"plain", "plain", "plain"},
      {"cafe\xcc\x81", "caf\xc3\xa9", "cafe\xcc\x81"},
      {text_of({0x1e69}), text_of({0x1e69}), text_of({'s', 0x323, 0x307})},             // two steps
      {text_of({'s', 0x307, 0x323}), text_of({0x1e69}), text_of({'s', 0x323, 0x307})},  // out of order
      {text_of({0x212b}), text_of({0xc5}), text_of({'A', 0x30a})},                      // a singleton
      {text_of({0x958}), text_of({0x915, 0x93c}), text_of({0x915, 0x93c})},             // never composed
      {text_of({0xd55c}), text_of({0xd55c}), text_of({0x1112, 0x1161, 0x11ab})},        // Hangul
      {text_of({0x1112, 0x1161, 0x11ab}), text_of({0xd55c}), text_of({0x1112, 0x1161, 0x11ab})},
      {text_of({0xd558, 0x11a7}), text_of({0xd558, 0x11a7}), text_of({0x1112, 0x1161, 0x11a7})},  // no trail
      {text_of({'a', 0x5ae, 0x300, 0x315, 'b'}), text_of({0xe0, 0x5ae, 0x315, 'b'}),
       text_of({'a', 0x5ae, 0x300, 0x315, 'b'})},  // over a mark of another class
      {text_of({'a', 0x327, 0x334, 'b'}), text_of({'a', 0x334, 0x327, 'b'}), text_of({'a', 0x334, 0x327, 'b'})},
      {text_of({0x9c7, 0x9be}), text_of({0x9cb}), text_of({0x9c7, 0x9be})},   // starter with starter
      {text_of({0x301, 'a'}), text_of({0x301, 'a'}), text_of({0x301, 'a'})},  // a mark in front
      {text_of({0x1d15e}), text_of({0x1d157, 0x1d165}), text_of({0x1d157, 0x1d165})},
  };
  for (const auto& k : cases) {
    EXPECT_EQ(nfc(k.text), k.c) << k.text;
    EXPECT_EQ(nfd(k.text), k.d) << k.text;
    EXPECT_TRUE(is_nfc(k.c) || k.c.size() > 1);
    if (is_nfc(k.text)) {
      EXPECT_EQ(k.text, k.c);
    }
  }
  EXPECT_TRUE(is_nfc("caf\xc3\xa9 \xe4\xb8\xad\xe6\x96\x87 \xf0\x9f\x98\x81 \xff\xc3"));
  EXPECT_FALSE(is_nfc("cafe\xcc\x81"));
}

TEST(Normal, AnyBytesAreKeptAndFormsAreStable) {
  std::mt19937 random(5);
  const std::string atoms[] = {"a",        "s",        "\xcc\x81",     "\xcc\xa7",     "\xcc\x87",
                               "\xcc\xa3", "\xc3\xa9", "\xe1\x84\x92", "\xe1\x85\xa1", "\xe1\x86\xab",
                               "\xff",     "\xcc",     "\xed\x95\x98", "\xe0\xa5\x98"};
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (auto n = random() % 16; n > 0; --n) text += atoms[random() % std::size(atoms)];
    const auto c = nfc(text), d = nfd(text);
    ASSERT_EQ(nfc(c), c) << text;
    ASSERT_EQ(nfd(d), d) << text;
    ASSERT_EQ(nfc(d), c) << text;
    ASSERT_EQ(nfd(c), d) << text;
    if (is_nfc(text)) {
      ASSERT_EQ(c, text);
    }
  }
}

TEST(Normal, ManyMarksTakeNearlyLinearTime) {
  std::string text = "a";
  for (int i = 0; i < 100'000; ++i) text += i % 2 ? "\xcc\x81" : "\xcc\xa3";
  EXPECT_EQ(nfc(text).size(), text.size());  // "ạ" takes two bytes more than "a", and a mark is gone
}

}  // namespace
}  // namespace kvasir::unicode
