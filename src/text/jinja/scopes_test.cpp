#include "text/jinja/scopes.hpp"

#include <gtest/gtest.h>

#include "text/jinja/meter.hpp"

namespace kvasir::text::jinja {
namespace {

Value number(std::int64_t i) { return Value(i); }

TEST(Scopes, BlocksHideAndForget) {
  Meter meter{Limits{}};
  Scopes scopes(meter);
  scopes.add_global(number(7));
  const Scopes::Frame outer(scopes, nullptr);
  EXPECT_EQ(scopes.find(0).integer(), 7);
  scopes.set(0, number(1));
  {
    const Scopes::Frame inner(scopes, scopes.now());
    EXPECT_EQ(scopes.find(0).integer(), 1);
    scopes.set(0, number(2));
    scopes.set(0, number(3));
    EXPECT_EQ(scopes.find(0).integer(), 3);
  }
  EXPECT_EQ(scopes.find(0).integer(), 1);
}

TEST(Scopes, WhatIsKeptStaysAndOthersAreUsedAgain) {
  Meter meter{Limits{}};
  Scopes scopes(meter);
  scopes.add_global(number(0));
  const Scopes::Frame outer(scopes, nullptr);
  Scope* kept = nullptr;
  Scope* first = nullptr;
  {
    const Scopes::Frame frame(scopes, scopes.now());
    first = scopes.now();
  }
  {
    const Scopes::Frame frame(scopes, scopes.now());
    EXPECT_EQ(scopes.now(), first);
    kept = scopes.now();
    scopes.set(0, number(5));
    scopes.keep();
  }
  const Scopes::Frame frame(scopes, scopes.now());
  EXPECT_NE(scopes.now(), kept);
  EXPECT_EQ(scopes.find(0).integer(), 0);
  Scope* const left = scopes.enter(kept);
  EXPECT_EQ(scopes.find(0).integer(), 5);
  scopes.enter(left);
}

}  // namespace
}  // namespace kvasir::text::jinja
