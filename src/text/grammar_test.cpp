#include "text/grammar.hpp"

#include <gtest/gtest.h>

#include <string_view>

#include "base/error.hpp"
#include "text/grammars_fixture.hpp"

namespace kvasir::text {
namespace {

bool begins(Matcher& m, std::string_view text) { return behind(m, text) != Matcher::kDead; }

template <class F>
Matcher matcher(const F& build) {
  auto g = std::make_shared<Grammar>();
  g->finish(build(*g));
  return Matcher(g);
}
template <class F>
std::string refusal(const F& build) {
  try {
    matcher(build);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kBadInput);
    return e.what();
  }
  return "";
}

TEST(Grammar, TextsAndBytes) {
  Matcher m = matcher([](Grammar& g) {
    return g.sequence({g.text("ab"), g.byte({{'0', '9'}, {0xff, 0xff}}), g.text(""), g.text("c")});
  });
  EXPECT_TRUE(conforms(m, "ab7c"));
  EXPECT_TRUE(conforms(m,
                       "ab\xff"
                       "c"));
  for (const char* text : {"", "a", "ab", "ab7"}) EXPECT_TRUE(begins(m, text) && !conforms(m, text)) << text;
  for (const char* text : {"b", "aa", "abc", "ab7cc"}) EXPECT_FALSE(begins(m, text)) << text;
  EXPECT_TRUE(m.ends(behind(m, "ab7c")));
}

TEST(Grammar, AnEmptyTextIsOne) {
  Matcher m = matcher([](Grammar& g) { return g.text(""); });
  EXPECT_TRUE(m.accepts(m.start()));
  EXPECT_TRUE(m.ends(m.start()));
  EXPECT_FALSE(begins(m, "x"));
}

TEST(Grammar, ChoicesAreFollowedTogether) {
  Matcher m = matcher([](Grammar& g) { return g.choice({g.text("abc"), g.text("abd"), g.text("ab")}); });
  EXPECT_TRUE(conforms(m, "ab") && conforms(m, "abc") && conforms(m, "abd"));
  EXPECT_FALSE(m.ends(behind(m, "ab")));
  EXPECT_FALSE(begins(m, "abe"));
}

TEST(Grammar, Repetitions) {
  struct Case {
    std::int32_t least, most;
    const char* good;  // numbers of parts as digits
    const char* bad;
  };
  for (const Case& c : {Case{0, 0, "0", "1"}, Case{0, 1, "01", "2"}, Case{2, 2, "2", "013"}, Case{1, 3, "123", "04"},
                        Case{0, -1, "0129", ""}, Case{3, -1, "349", "012"}}) {
    Matcher m = matcher([&](Grammar& g) { return g.sequence({g.repeat(g.text("xy"), c.least, c.most), g.text(".")}); });
    const auto text = [](char n) {
      std::string s;
      for (int i = 0; i < n - '0'; ++i) s += "xy";
      return s + ".";
    };
    for (const char* n = c.good; *n; ++n) EXPECT_TRUE(conforms(m, text(*n))) << c.least << ' ' << c.most << ' ' << *n;
    for (const char* n = c.bad; *n; ++n) EXPECT_FALSE(conforms(m, text(*n))) << c.least << ' ' << c.most << ' ' << *n;
  }
}

// However long: a list makes no states that are new, nesting does.
TEST(Grammar, ListsDoNotGrow) {
  Matcher m = matcher([](Grammar& g) {
    const Grammar::Node value = g.declare();
    const Grammar::Node items = g.repeat(g.sequence({g.text(","), value}), 0);
    g.define(value, g.choice({g.text("1"), g.sequence({g.text("["), value, items, g.text("]")})}));
    return value;
  });
  std::string list = "[1";
  for (int i = 0; i < 5; ++i) list += ",1";
  behind(m, list);
  const std::size_t states = m.states();
  for (int i = 0; i < 5000; ++i) list += ",1";
  EXPECT_TRUE(conforms(m, list + "]"));
  EXPECT_LE(m.states(), states + 1);
  const std::string deep(3000, '[');
  EXPECT_TRUE(conforms(m, deep + "1" + std::string(3000, ']')));
  EXPECT_FALSE(begins(m, deep + "1" + std::string(3001, ']')));
  EXPECT_GT(m.states(), 3000u);
}

TEST(Grammar, CompactingKeepsTheStateAlone) {
  Matcher m = matcher([](Grammar& g) {
    const Grammar::Node value = g.declare();
    g.define(value, g.choice({g.text("1"), g.sequence({g.text("["), value, g.text("]")})}));
    return value;
  });
  Matcher::State state = behind(m, std::string(100, '['));
  behind(m, std::string(500, '['));
  const std::size_t before = m.states();
  state = m.compact(state);
  EXPECT_LT(m.states(), before);
  EXPECT_EQ(m.states(), 2u);
  state = m.next(state, '1');
  for (int i = 0; i < 100; ++i) {
    ASSERT_NE(state, Matcher::kDead) << i;
    EXPECT_FALSE(m.accepts(state));
    state = m.next(state, ']');
  }
  ASSERT_NE(state, Matcher::kDead);
  EXPECT_TRUE(m.ends(state));
  EXPECT_EQ(m.compact(m.start()), m.start());
  EXPECT_EQ(m.states(), 1u);
}

// Many ways to say the same: what is followed stays bounded, and whatever is allowed is a text of the grammar.
TEST(Grammar, AmbiguityIsBounded) {
  Matcher m = matcher([](Grammar& g) {
    const Grammar::Node value = g.declare();
    const auto nest = [&] { return g.sequence({g.text("["), value, g.text("]")}); };
    g.define(value, g.choice({g.text("1"), nest(), nest(), nest()}));
    return value;
  });
  EXPECT_TRUE(conforms(m, std::string(40, '[') + "1" + std::string(40, ']')));
  EXPECT_FALSE(conforms(m, std::string(40, '[') + "1" + std::string(39, ']')));
}

TEST(Grammar, WhatCannotEndIsLeftOutOrRefused) {
  Matcher m = matcher([](Grammar& g) {
    const Grammar::Node forever = g.declare();
    g.define(forever, g.sequence({g.text("x"), forever}));
    return g.choice({g.sequence({g.text("a"), forever}), g.text("b"), g.choice({}), g.byte({})});
  });
  EXPECT_TRUE(conforms(m, "b"));
  EXPECT_FALSE(begins(m, "a"));
  const auto endless = [](Grammar& g) {
    const Grammar::Node forever = g.declare();
    g.define(forever, g.sequence({g.text("x"), forever}));
    return forever;
  };
  EXPECT_EQ(refusal(endless), "grammar: allows no text that ends");
  EXPECT_EQ(refusal([](Grammar& g) { return g.choice({}); }), "grammar: allows no text that ends");
  EXPECT_EQ(refusal([](Grammar& g) { return g.repeat(g.choice({}), 1); }), "grammar: allows no text that ends");
  Matcher none = matcher([](Grammar& g) { return g.repeat(g.choice({}), 0); });
  EXPECT_TRUE(none.ends(none.start()));
}

TEST(Grammar, WhatBeginsWithItselfIsRefused) {
  const auto left = [](Grammar& g) {
    const Grammar::Node a = g.declare(), b = g.declare();
    g.define(a, g.choice({g.text("x"), b}));
    g.define(b, g.sequence({g.optional(g.text("-")), a}));
    return a;
  };
  EXPECT_EQ(refusal(left), "grammar: refers to itself before anything else");
  EXPECT_EQ(refusal([](Grammar& g) {
              const Grammar::Node a = g.declare();
              g.define(a, g.choice({g.text("x"), g.sequence({g.text("y"), a})}));
              return a;
            }),
            "");
}

TEST(Grammar, TooLargeOnesAreRefused) {
  Grammar g;
  EXPECT_THROW(
      {
        for (std::size_t i = 0; i <= Grammar::kMostNodes; ++i) g.text("x");
      },
      Error);
}

}  // namespace
}  // namespace kvasir::text
