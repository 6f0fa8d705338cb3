#include "text/search_pattern.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace kvasir::text {
namespace {

// "at+size NAME=group ..." of the first match; "none".
std::string searched(std::string_view expression, std::string_view text, bool end = true) {
  const auto found = SearchPattern(expression).search(text, 0, end);
  if (!found.match) return end ? "none" : "none before " + std::to_string(found.sure);
  std::string all = std::to_string(found.match->at) + "+" + std::to_string(found.match->size);
  for (const auto& [name, group] : found.match->groups) all += " " + name + "=" + group;
  return all;
}

class SearchPatterns : public ::testing::Test {
  void SetUp() override {
    if (!SearchPattern::available()) GTEST_SKIP() << "SKIPPED: built without PCRE2";
  }
};

TEST_F(SearchPatterns, FindWhatPythonFinds) {
  EXPECT_EQ(searched("b", "abc"), "1+1");
  EXPECT_EQ(searched("a|bc|b", "xbc"), "1+2");
  EXPECT_EQ(searched("<f=(?P<name>[^>\\n]+)>", "a <f=b> c"), "2+5 name=b");
  EXPECT_EQ(searched("(?P<a>x*?)(?P<b>x+)y", "xxxy"), "0+4 a= b=xxx");
  EXPECT_EQ(searched("(?P<a>x*)(?P<b>x+)y", "xxxy"), "0+4 a=xx b=x");
  EXPECT_EQ(searched("a.*c", "a\nb c c"), "0+7");
  EXPECT_EQ(searched("a.*?c", "a\nb c c"), "0+5");
  EXPECT_EQ(searched("\\s*<\\|x\\|>", "a \n<|x|>"), "1+7");
  EXPECT_EQ(searched("x{2,3}", "xxxxx"), "0+3");
  EXPECT_EQ(searched("x{2}", "xx"), "0+2");
  EXPECT_EQ(searched("x{2,}?y", "xxxy"), "0+4");
  EXPECT_EQ(searched("x{a}", "x{a}"), "0+4");
  EXPECT_EQ(searched("(?:ab)+", "ababa"), "0+4");
  EXPECT_EQ(searched("(a*)*b", "aaab"), "0+4");
  EXPECT_EQ(searched("(a*)*b", "aaac"), "none");
  EXPECT_EQ(searched("a(?=b)", "acab"), "2+1");
  EXPECT_EQ(searched("a(?!b)", "abac"), "2+1");
  EXPECT_EQ(searched("\\bto\\b", "auto to"), "5+2");
  EXPECT_EQ(searched("\\w+", "-ü1_-"), "1+4");
  EXPECT_EQ(searched("[\\w.-]+", "!a.b-c!"), "1+5");
  EXPECT_EQ(searched("[^\\s]", " \tx"), "2+1");
  EXPECT_EQ(searched("[]a]+", "x]a"), "1+2");
  EXPECT_EQ(searched("x$", "x\n"), "0+1");
  EXPECT_EQ(searched("x\\Z", "x\n"), "none");
  EXPECT_EQ(searched("^b", "ab"), "none");
  EXPECT_EQ(searched("\\x41\\u00fc", "Aü"), "0+3");
  EXPECT_EQ(searched("<｜(?P<n>[^｜]+)｜>", "<｜ü｜>"), "0+10 n=ü");
  EXPECT_EQ(searched("(?P<q>['\"]).", "a'b"), "1+2 q='");
  EXPECT_EQ(searched("(?P<q>['\"]).*?(?P=q)", "a'b\"c'"), "1+5 q='");
  EXPECT_EQ(searched("x{,2}y", "xxxy"), "1+3");
  EXPECT_EQ(searched("[{,2}]+", "x{,}"), "1+3");
  EXPECT_EQ(searched("[[:a]+", "x[a:]"), "1+3");
  EXPECT_EQ(searched("[^]]+[$]", "]x$"), "1+2");
  EXPECT_EQ(searched("a\\vb", "a\nba\vb"), "3+3");
  EXPECT_EQ(searched("(?i)(?:ab)++c", "ABabC"), "0+5");
  EXPECT_EQ(searched("x.",
                     "\xff"
                     "x\xff"
                     "xy"),
            "3+2");  // what is no UTF-8 matches nothing
}

TEST_F(SearchPatterns, WaitForWhatMayComeYet) {
  EXPECT_EQ(searched("</x>", "ab</", false), "none before 2");
  EXPECT_EQ(searched("</x>", "ab</x>", false), "2+4");
  EXPECT_EQ(searched("\\s*</x>", "ab \n", false), "none before 2");
  EXPECT_EQ(searched("ab|abc", "ab", false), "0+2");
  EXPECT_EQ(searched("abc|ab", "ab", false), "none before 0");
  EXPECT_EQ(searched("x+", "ax", false), "none before 1");
  EXPECT_EQ(searched("x+", "axb", false), "1+1");
  EXPECT_EQ(searched("x(?!y)", "x", false), "none before 0");
  EXPECT_EQ(searched("y$", "y", false), "none before 0");
  EXPECT_EQ(searched("y$", "y\n", false), "none before 0");
  EXPECT_EQ(searched("y$", "y\nx", false), "none before 3");
  EXPECT_EQ(searched("x*", "ab", false), "0+0");
  EXPECT_EQ(searched("x*$", "ab", false), "none before 2");
  EXPECT_EQ(searched("<｜x", "ab<\xef\xbd", false), "none before 2");
  EXPECT_EQ(searched("[^a]", "a\xef\xbd", false), "none before 1");
  EXPECT_EQ(searched("<x>", "\xff<x", false), "none before 1");
  EXPECT_EQ(searched("(?P<q>['\"])b(?P=q)", "a'b", false), "none before 1");
  EXPECT_EQ(searched("\\bx\\b", "a x", false), "none before 2");
  const auto texts = SearchPattern::of_texts({"<a>", "<a>b", "(x)"});
  EXPECT_EQ(texts.search("1(x)", 0, false).match->size, 3u);
  EXPECT_EQ(texts.search("1<a>bc", 0, false).match->size, 4u);
  EXPECT_FALSE(texts.search("1<a>", 0, false).match);
}

TEST_F(SearchPatterns, RefuseWhatTheyCannotDo) {
  for (const char* bad : {"(a", "a)", "*a", "[a", "a\\", "(?P<>a)", "[b-a]", "\\x4", "\\xg0", "\\u00f"})
    EXPECT_THROW(SearchPattern{bad}, Error) << bad;
  for (const char* other : {"(?<=a)b", "(?<!a)b", "\\p{L}", "\\Qa\\E", "a\\Kb", "((a{1000}){1000}){1000}"}) {
    try {
      SearchPattern pattern{other};
      ADD_FAILURE() << other;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), Code::kUnsupported) << other;
    }
  }
  // What would take for ever ends without a match.
  EXPECT_EQ(searched("(x+x+)+[yz]", std::string(40, 'x')), "none");
  EXPECT_EQ(searched("(x+x+)+[yz]", std::string(40, 'x'), false), "none before 0");
  EXPECT_EQ(searched("x*+[yz]", std::string(1000000, 'x')), "none");
  EXPECT_EQ(searched("(?:.*.*)*[yz]$", std::string(3000, 'x')), "none");
}

}  // namespace
}  // namespace kvasir::text
