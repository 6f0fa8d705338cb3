#include "base/options.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/nearest.hpp"

namespace kvasir {
namespace {

struct Example {
  bool exact = false;
  std::int32_t threads = 2;
  std::int64_t seed = 7;
  float top_p = 0.8f;
  double temperature = 0.5;
  std::string codec = "f16";
  std::vector<std::string> stop;
};

const OptionTable<Example>& table() {
  static const OptionTable<Example> t{
      "example",
      {{"exact", &Example::exact, {.help = "compute in f32"}},
       {"threads", &Example::threads, {.help = "threads", .letter = 't', .low = 1, .high = 512}},
       {"seed", &Example::seed, {.help = "of the random numbers"}},
       {"top_p", &Example::top_p, {.help = "a|b", .low = 0, .high = 1}},
       {"temperature", &Example::temperature, {.help = "0 is greedy", .unit = "nats", .low = 0}},
       {"codec", &Example::codec, {.help = "of the cache", .choices = {"f32", "f16", "bf16"}}},
       {"stop", &Example::stop, {.help = "end before this text"}}}};
  return t;
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kBadInput);
    return e.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

std::string json_message(const std::string& text) {
  return message_of([&] {
    Example e;
    table().from_json(e, parse_json(text, "config"));
  });
}

std::string text_message(std::size_t option, const std::string& text) {
  return message_of([&] {
    Example e;
    table().set_text(e, option, text);
  });
}

TEST(Options, JsonRoundTripKeepsEveryField) {
  Example a{.exact = true,
            .threads = 3,
            .seed = -9007199254740993,
            .top_p = 0.1f,
            .temperature = 1.25,
            .codec = "bf16",
            .stop = {"a", ""}};
  const auto dumped = table().to_json(a);
  EXPECT_EQ(dumped.dump(), R"({"exact":true,"threads":3,"seed":-9007199254740993,"top_p":0.1,"temperature":1.25,)"
                           R"("codec":"bf16","stop":["a",""]})");
  Example b;
  table().from_json(b, parse_json(dumped.dump(), "x"));
  EXPECT_EQ(table().values(a), table().values(b));
  EXPECT_EQ(b.top_p, 0.1f);
}

TEST(Options, JsonLeavesUnnamedFieldsAlone) {
  Example e{.threads = 9};
  table().from_json(e, parse_json(R"({"temperature": 1})", "x"));
  EXPECT_EQ(e.threads, 9);
  EXPECT_EQ(e.temperature, 1.0);
}

TEST(Options, JsonErrorsNameFieldAndExpectation) {
  EXPECT_EQ(json_message(R"({"threads":0})"), "example.threads: expected an integer from 1 to 512, found '0'");
  EXPECT_EQ(json_message(R"({"threads":"2"})"), "example.threads: expected an integer from 1 to 512, found '\"2\"'");
  EXPECT_EQ(json_message(R"({"threads":2.5})"), "example.threads: expected an integer from 1 to 512, found '2.5'");
  EXPECT_EQ(json_message(R"({"seed":9223372036854775808})"),
            "example.seed: expected an integer, found '9223372036854775808'");
  EXPECT_EQ(json_message(R"({"temperature":-0.1})"),
            "example.temperature: expected a number of at least 0, found '-0.1'");
  EXPECT_EQ(json_message(R"({"exact":1})"), "example.exact: expected true or false, found '1'");
  EXPECT_EQ(json_message(R"({"codec":"f61"})"),
            "example.codec: expected one of f32, f16, bf16, found 'f61' (did you mean 'f16'?)");
  EXPECT_EQ(json_message(R"({"stop":"x"})"), "example.stop: expected a list of strings, found '\"x\"'");
  EXPECT_EQ(json_message(R"({"stop":["x",1]})"), "example.stop: expected a list of strings, found '1'");
  EXPECT_EQ(json_message(R"({"temprature":1})"), "example: unknown option 'temprature' (did you mean 'temperature'?)");
  EXPECT_EQ(json_message("[]"), "example: expected an object, found an array");
  EXPECT_EQ(json_message("{\"seed\":" + std::string(200000, '[') + std::string(200000, ']') + "}"),
            "example.seed: expected an integer, found 'an array'");
  EXPECT_NE(json_message("{\"a\":\n x}").find("line 2, column 2"), std::string::npos);
}

TEST(Options, AFailedJsonChangesNothing) {
  Example e;
  EXPECT_THROW(table().from_json(e, parse_json(R"({"exact":true,"top_p":2})", "x")), Error);
  EXPECT_FALSE(e.exact);
}

TEST(Options, TextSetsEveryKind) {
  Example e;
  const char* texts[] = {"true", "512", "-9223372036854775808", "1", "1e3", "f32", "one"};
  for (std::size_t i = 0; i < 7; ++i) table().set_text(e, i, texts[i]);
  table().set_text(e, 6, "two");
  EXPECT_TRUE(e.exact);
  EXPECT_EQ(e.threads, 512);
  EXPECT_EQ(e.seed, INT64_MIN);
  EXPECT_EQ(e.top_p, 1.0f);
  EXPECT_EQ(e.temperature, 1000.0);
  EXPECT_EQ(e.codec, "f32");
  EXPECT_EQ(e.stop, (std::vector<std::string>{"one", "two"}));
}

TEST(Options, CountsHaveUnits) {
  const auto read = [](std::string_view text) {
    std::int64_t n = -7;
    return parse_count(text, &n) ? n : -7;
  };
  EXPECT_EQ(read("128K"), 131072);
  EXPECT_EQ(read("1m"), 1048576);
  EXPECT_EQ(read("-1"), -1);
  EXPECT_EQ(read("9223372036854775807"), INT64_MAX);
  for (const char* bad : {"", "K", "1KB", "1 K", "1.5K", "9223372036854775807K", "1G"}) EXPECT_EQ(read(bad), -7) << bad;
}

TEST(Options, TextErrorsNameFlagAndRange) {
  EXPECT_EQ(text_message(1, "513"), "--threads: expected an integer from 1 to 512, found '513'");
  for (const char* bad : {"", " 1", "1 ", "1.0", "0x10", "99999999999999999999", "4294967297"})
    EXPECT_NE(text_message(1, bad).find("--threads: expected an integer from 1 to 512"), std::string::npos) << bad;
  for (const char* bad : {"nan", "inf", "-1", "1e999", "x", "0.5x"})
    EXPECT_NE(text_message(3, bad).find("--top-p: expected a number from 0 to 1"), std::string::npos) << bad;
  EXPECT_EQ(text_message(5, "q8"), "--codec: expected one of f32, f16, bf16, found 'q8'");
  EXPECT_LT(text_message(5, std::string(100000, 'x')).size(), 200u);
}

TEST(Options, MarkdownListsEveryOptionWithItsDefault) {
  const std::string m = table().markdown();
  EXPECT_NE(m.find("| `-t` `--threads` | `threads` | an integer from 1 to 512 | `2` | threads |"), std::string::npos)
      << m;
  EXPECT_NE(m.find("| `--top-p` | `top_p` | a number from 0 to 1 | `0.8` | a\\|b |"), std::string::npos) << m;
  EXPECT_NE(m.find("a number of at least 0 (nats) | `0.5`"), std::string::npos) << m;
}

TEST(Options, ProgrammingErrorsAreCaught) {
  using Rows = std::vector<OptionTable<Example>::Row>;
  EXPECT_THROW(OptionTable<Example>("x", Rows{{"a", &Example::exact}, {"a", &Example::seed}}), std::logic_error);
  EXPECT_THROW(OptionTable<Example>("x", Rows{{"threads", &Example::threads, {.low = 3}}}), Error);  // default 2
  Example e{.threads = 0};
  EXPECT_THROW(table().validate(e), Error);
}

TEST(Nearest, SuggestsOnlyWhatIsNear) {
  const std::vector<std::string> names{"run", "bench", "tokenize", "logits"};
  EXPECT_EQ(nearest("rnu", names), "run");
  EXPECT_EQ(nearest("tokenise", names), "tokenize");
  EXPECT_EQ(nearest("xyz", names), "");
  EXPECT_EQ(nearest("", names), "");
  EXPECT_EQ(nearest(std::string(1000, 'a'), names), "");
}

}  // namespace
}  // namespace kvasir
