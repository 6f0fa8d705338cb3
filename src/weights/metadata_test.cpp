#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "weights/model_file.hpp"

namespace kvasir::weights {
namespace {

constexpr auto kMin = std::numeric_limits<std::int64_t>::min();
constexpr auto kMax = std::numeric_limits<std::int64_t>::max();

Metadata sample() {
  Metadata m("some.gguf");
  m.set("flag", true);
  m.set("int", std::int64_t{-7});
  m.set("big", std::uint64_t{1} << 63);
  m.set("float", 0.5);
  m.set("nan", std::numeric_limits<double>::quiet_NaN());
  m.set("inf", std::numeric_limits<double>::infinity());
  m.set("string", std::string("text"));
  m.set("strings", std::vector<std::string>{"a", "b"});
  m.set("ints", std::vector<std::int64_t>{1, 2, 3});
  m.set("floats", std::vector<double>{1.5});
  return m;
}

// Calls f and expects Error(kBadInput) whose text names the file, the key and `expectation`.
template <class F>
void expect_refusal(const std::string& key, const std::string& expectation, F f) {
  try {
    f();
    ADD_FAILURE() << key << ": accepted";
  } catch (const Error& e) {
    const std::string what = e.what();
    EXPECT_EQ(e.code(), Code::kBadInput);
    EXPECT_NE(what.find("some.gguf"), std::string::npos) << what;
    EXPECT_NE(what.find(key), std::string::npos) << what;
    EXPECT_NE(what.find(expectation), std::string::npos) << what;
  }
}

TEST(Metadata, FindsAndReplaces) {
  auto m = sample();
  EXPECT_EQ(m.path(), "some.gguf");
  EXPECT_TRUE(m.has("flag"));
  EXPECT_FALSE(m.has("fla"));
  EXPECT_EQ(m.find("absent"), nullptr);
  ASSERT_NE(m.find("string"), nullptr);
  EXPECT_EQ(std::get<std::string>(*m.find("string")), "text");
  m.set("string", std::int64_t{3});
  EXPECT_EQ(m.require_int("string", 0, 9), 3);
  EXPECT_EQ(m.all().size(), 10u);
}

TEST(Metadata, ReadsEachType) {
  const auto m = sample();
  EXPECT_EQ(m.require_int("int", -7, -7), -7);
  EXPECT_EQ(m.get_int("int", kMin, kMax), -7);
  EXPECT_EQ(m.require_float("float"), 0.5);
  EXPECT_EQ(m.get_float("int"), -7.0);
  EXPECT_EQ(m.require_float("big"), 0x1p63);
  EXPECT_EQ(m.require_string("string"), "text");
  EXPECT_EQ(m.get_string("string"), "text");
  EXPECT_EQ(m.get_bool("flag"), true);
  EXPECT_EQ(*m.get_strings("strings"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(*m.get_ints("ints"), (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(*m.get_floats("floats"), (std::vector<double>{1.5}));
}

TEST(Metadata, AbsentIsEmptyOrAnError) {
  const auto m = sample();
  EXPECT_EQ(m.get_int("no", 0, 1), std::nullopt);
  EXPECT_EQ(m.get_float("no"), std::nullopt);
  EXPECT_EQ(m.get_string("no"), std::nullopt);
  EXPECT_EQ(m.get_bool("no"), std::nullopt);
  EXPECT_EQ(m.get_strings("no"), nullptr);
  EXPECT_EQ(m.get_ints("no"), nullptr);
  EXPECT_EQ(m.get_floats("no"), nullptr);
  expect_refusal("no.such", "missing", [&] { m.require_int("no.such", 0, 1); });
  expect_refusal("no.such", "missing", [&] { m.require_float("no.such"); });
  expect_refusal("no.such", "missing", [&] { m.require_string("no.such"); });
}

TEST(Metadata, OutsideTheRangeIsAnError) {
  const auto m = sample();
  expect_refusal("int", "expected 0 to 10", [&] { m.get_int("int", 0, 10); });
  expect_refusal("int", "expected -20 to -8", [&] { m.require_int("int", -20, -8); });
  expect_refusal("big", "9223372036854775808", [&] { m.get_int("big", kMin, kMax); });
  expect_refusal("nan", "finite", [&] { m.get_float("nan"); });
  expect_refusal("inf", "finite", [&] { m.require_float("inf"); });
}

TEST(Metadata, AnotherTypeIsAnError) {
  const auto m = sample();
  expect_refusal("string", "is a string, expected an integer", [&] { m.get_int("string", 0, 1); });
  expect_refusal("float", "is a float, expected an integer", [&] { m.require_int("float", 0, 1); });
  expect_refusal("flag", "is a boolean, expected a number", [&] { m.get_float("flag"); });
  expect_refusal("int", "is an integer, expected a string", [&] { m.require_string("int"); });
  expect_refusal("ints", "is an array of integers, expected a string", [&] { m.get_string("ints"); });
  expect_refusal("int", "expected a boolean", [&] { m.get_bool("int"); });
  expect_refusal("ints", "expected an array of strings", [&] { m.get_strings("ints"); });
  expect_refusal("floats", "expected an array of integers", [&] { m.get_ints("floats"); });
  expect_refusal("ints", "expected an array of floats", [&] { m.get_floats("ints"); });
}

}  // namespace
}  // namespace kvasir::weights
