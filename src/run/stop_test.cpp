#include "run/stop.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace kvasir::run {
namespace {

// By definition: the whole text so far is searched anew after every byte.
struct Naive {
  std::vector<std::string> stops;
  std::string text;
  bool stopped = false;
  int which = -1;
  std::size_t visible = 0;  // bytes of text that may be shown

  void feed(char byte) {
    text += byte;
    std::size_t longest = 0;
    for (std::size_t s = 0; s < stops.size(); ++s) {
      if (text.ends_with(stops[s]) && stops[s].size() > longest) longest = stops[s].size(), which = static_cast<int>(s);
    }
    stopped = longest > 0;
    std::size_t held = longest;
    if (!stopped) {
      for (const std::string& stop : stops)
        for (std::size_t n = 1; n < stop.size(); ++n)
          if (text.ends_with(stop.substr(0, n))) held = std::max(held, n);
    }
    visible = text.size() - held;
  }
};

TEST(Stop, AgreesWithBruteForce) {
  std::mt19937 rng(5);
  int stopped = 0, held_to_the_end = 0;
  for (int round = 0; round < 20000; ++round) {
    const unsigned letters = 1 + rng() % 3;
    const auto random_text = [&](std::size_t n) {
      std::string s;
      for (std::size_t i = 0; i < n; ++i) s += static_cast<char>('a' + rng() % letters);
      return s;
    };
    std::vector<std::string> stops;
    for (unsigned i = rng() % 4; i > 0; --i) stops.push_back(random_text(1 + rng() % 8));
    const std::string text = random_text(rng() % 40);
    StopMatcher matcher(stops);
    Naive naive{stops};
    std::string shown;
    std::size_t at = 0;
    while (at < text.size() && !naive.stopped) {
      const std::size_t n = std::min<std::size_t>(rng() % 6, text.size() - at);
      const StopMatcher::Step step = matcher.feed(std::string_view(text).substr(at, n));
      for (std::size_t i = 0; i < n && !naive.stopped; ++i) naive.feed(text[at + i]);
      shown += step.text;
      ASSERT_EQ(step.stopped, naive.stopped);
      ASSERT_EQ(matcher.stopped(), naive.stopped);
      ASSERT_EQ(shown, naive.text.substr(0, naive.visible)) << "text " << text;  // correct and minimal
      if (step.stopped) {
        ASSERT_EQ(stops[static_cast<std::size_t>(step.which)], stops[static_cast<std::size_t>(naive.which)]);
      }
      at += n;
    }
    if (naive.stopped) {
      ++stopped;
      EXPECT_EQ(matcher.finish(), "");
    } else {
      held_to_the_end += shown != text;
      shown += matcher.finish();
      EXPECT_EQ(shown, text);
    }
  }
  EXPECT_GT(stopped, 1000);
  EXPECT_GT(held_to_the_end, 500);
}

TEST(Stop, SpansPieces) {
  StopMatcher m({"</answer>", "\n\n"});
  EXPECT_EQ(m.feed("42</ans").text, "42");
  EXPECT_EQ(m.feed("were> ").text, "</answere> ");
  EXPECT_EQ(m.feed("x\n").text, "x");
  const auto step = m.feed("\nrest");
  EXPECT_TRUE(step.stopped);
  EXPECT_EQ(step.which, 1);
  EXPECT_EQ(step.text, "");
}

TEST(Stop, TheFirstCompleteOneWinsThenTheLongest) {
  StopMatcher inner({"abcd", "bc"});
  const auto step = inner.feed("xabcd");
  EXPECT_TRUE(step.stopped);
  EXPECT_EQ(step.which, 1);
  EXPECT_EQ(step.text, "xa");
  StopMatcher nested({"c", "abc"});
  const auto longest = nested.feed("xabc");
  EXPECT_EQ(longest.which, 1);
  EXPECT_EQ(longest.text, "x");
}

TEST(Stop, WholeCharactersAreReleased) {
  StopMatcher m({"é!"});
  EXPECT_EQ(m.feed("caf\xC3\xA9").text, "caf");
  EXPECT_EQ(m.feed("s").text, "\xC3\xA9s");
}

TEST(Stop, EmptyStringsAreRefused) {
  try {
    StopMatcher m({"ok", ""});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kBadInput);
    EXPECT_STREQ(e.what(), "stop: stop string 2 of 2 is empty, expected at least one character");
  }
  StopMatcher none({});
  EXPECT_EQ(none.feed("all").text, "all");
  EXPECT_EQ(none.finish(), "");
}

}  // namespace
}  // namespace kvasir::run
