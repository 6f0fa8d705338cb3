#include "text/json_schema.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "text/grammars_fixture.hpp"

namespace kvasir::text {
namespace {

using Json = nlohmann::ordered_json;

void check(const char* schema, const std::vector<std::string>& good, const std::vector<std::string>& bad) {
  Matcher m(grammar_of_schema(Json::parse(schema), Unknown::kRefuse));
  for (const std::string& text : good) EXPECT_TRUE(conforms(m, text)) << schema << "\n" << text;
  for (const std::string& text : bad) EXPECT_FALSE(conforms(m, text)) << schema << "\n" << text;
}

std::string refusal(const char* schema) {
  try {
    grammar_of_schema(Json::parse(schema), Unknown::kRefuse);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), Code::kBadInput);
    return e.what();
  }
  return "";
}

TEST(JsonSchema, Types) {
  check(R"({"type": "string"})", {R"("")", R"( "a b")", R"("\n\"\\\/A")", "\"\xc3\xa9\xf0\x9f\x98\x80\""},
        {"", "a", "\"", "\"\n\"", R"("\x")", "1", R"("a" )", R"(  "a")", "\n\"a\""});
  check(R"({"type": "number"})", {"0", "-1", "1.5", "-0.25e10", "123456789012345678", "1E+5"},
        {"01", "+1", ".5", "1.", "1e", "--1", "1e100", "NaN", "\"1\""});
  check(R"({"type": "integer"})", {"0", "-1", "42", "999999999999999999"},
        {"1.0", "1e3", "007", "-0", "1000000000000000000"});
  check(R"({"type": "boolean"})", {"true", "false"}, {"True", "tru", "null", "0"});
  check(R"({"type": "null"})", {"null"}, {"nul", "0"});
  check(R"({"type": ["integer", "null"]})", {"3", "null"}, {"3.5", "\"null\""});
  check("true", {"1", R"({"a": [1, {"b": null}], "c": "d"})", "[]", "{}"}, {"", "{", "[1,]", "{a: 1}", "1 2"});
  check("{}", {"null", "[true]"}, {"nothing"});
  check(R"({"description": "any", "x-own": 3, "format": "date"})", {"1", "{}"}, {});
}

TEST(JsonSchema, StringsAreUtf8AndEscapesMakePairs) {
  check(R"({"type": "string"})", {R"("\ud83d\ude00")", "\"\xed\x9f\xbf\"", "\"\xee\x80\x80\"", "\"\xf4\x8f\xbf\xbf\""},
        {R"("\ud83d")", R"("\ude00")", R"("\ud83d\u0041")", "\"\xc0\x80\"", "\"\xed\xa0\x80\"", "\"\xf4\x90\x80\x80\"",
         "\"\x80\"", "\"\xe2\x82\"", "\"\xff\""});
}

TEST(JsonSchema, Lengths) {
  check(R"({"type": "string", "minLength": 2, "maxLength": 3})",
        {R"("ab")", "\"\xc3\xa9\xc3\xa9\xc3\xa9\"", R"("a\n\u0041")"}, {R"("")", R"("a")", R"("abcd")"});
  check(R"({"minLength": 1})", {R"("a")"}, {R"("")", "1"});
  check(R"({"maxLength": 0})", {R"("")"}, {R"("a")"});
}

TEST(JsonSchema, Integers) {
  const auto range = [](std::int64_t low, std::int64_t high) {
    const std::string schema = Json{{"type", "integer"}, {"minimum", low}, {"maximum", high}}.dump();
    Matcher m(grammar_of_schema(Json::parse(schema), Unknown::kRefuse));
    for (std::int64_t n = low - 130; n <= high + 130; ++n)
      EXPECT_EQ(conforms(m, std::to_string(n)), n >= low && n <= high) << schema << ' ' << n;
    EXPECT_EQ(conforms(m, "-0"), false);
    EXPECT_EQ(conforms(m, "00"), false);
  };
  for (const auto& [low, high] : std::vector<std::pair<int, int>>{{1, 5},
                                                                  {0, 0},
                                                                  {0, 9},
                                                                  {7, 13},
                                                                  {-5, 5},
                                                                  {-20, -3},
                                                                  {-1, 0},
                                                                  {99, 101},
                                                                  {95, 1234},
                                                                  {123, 129},
                                                                  {-1005, 987},
                                                                  {10, 99}})
    range(low, high);
  check(R"({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 3})", {"1", "2"}, {"0", "3"});
  check(R"({"type": "integer", "minimum": 0.5, "maximum": 2.5})", {"1", "2"}, {"0", "3"});
  check(
      R"({"type": "integer", "exclusiveMinimum": 1.0, "exclusiveMaximum": -1.0, "maximum": 3, "exclusiveMaximum": 2.5})",
      {"2"}, {"1", "3"});
  check(R"({"type": "integer", "minimum": -1e30, "maximum": 18446744073709551615})", {"-999999999999999999", "0"}, {});
  check(R"({"type": "integer", "minimum": 900719925474099300})", {"900719925474099300"}, {"900719925474099299"});
  check(R"({"type": "number", "minimum": 0})", {"0", "1.5"}, {"-1", "-0.5"});
  EXPECT_EQ(refusal(R"({"type": "integer", "minimum": 3, "maximum": 2})"),
            "schema: allows no integer of at most 18 digits");
  EXPECT_EQ(refusal(R"({"type": "integer", "minimum": 1e18})"), "schema: allows no integer of at most 18 digits");
  EXPECT_EQ(refusal(R"({"type": "integer", "minimum": 18446744073709551615})"),
            "schema: allows no integer of at most 18 digits");
}

TEST(JsonSchema, Objects) {
  const char* schema = R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"},
                           "c": {"type": "boolean"}}, "required": ["b"], "additionalProperties": false})";
  check(schema,
        {R"({"b": "x"})", R"({"a": 1, "b": "x"})", R"({"b": "x", "c": true})", R"({"a":1,"b":"","c":false})",
         "{\n  \"a\": 1,\n  \"b\": \"x\"\n}", "{ \"b\": \"x\" }"},
        {"{}", R"({"a": 1})", R"({"b": "x", "a": 1})", R"({"b": "x",})", R"({,"b": "x"})", R"({"b": "x" "c": true})",
         R"({"b": "x", "d": 1})", R"({"b": 1})", "{  \t \"b\": \"x\"}", R"({"b": "x"} )"});
  check(R"({"properties": {"a": {}, "b": {}}})", {"{}", R"({"a": null})", R"({"b": [1]})", R"({"a": 1, "b": 2})"},
        {R"({"c": 1})"});
  check(R"({"type": "object", "additionalProperties": {"type": "integer"}})", {"{}", R"({"x": 1, "y": 2})"},
        {R"({"x": "1"})"});
  check(R"({"type": "object", "additionalProperties": false})", {"{}", "{ }"}, {R"({"a": 1})"});
  check(R"({"type": "object"})", {"{}", R"({"any": {"thing": [1]}})"}, {"[]"});
  check(R"({"type": "object", "required": ["z", "z"], "properties": {"a": {"type": "null"}}})",
        {R"({"z": 3})", R"({"a": null, "z": []})"}, {"{}", R"({"a": null})", R"({"z": 1, "z": 2})"});
  check(R"({"properties": {"say \"hi\"\n": {"type": "null"}}, "required": ["say \"hi\"\n"]})",
        {R"({"say \"hi\"\n": null})"}, {});
}

TEST(JsonSchema, Arrays) {
  check(R"({"type": "array", "items": {"type": "integer"}})", {"[]", "[1]", "[1, 2,3]", "[\n\t1,\n\t2\n]"},
        {"[1,]", "[,1]", "[1 2]", "[\"1\"]"});
  check(R"({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3})", {"[1,2]", "[1,2,3]"},
        {"[]", "[1]", "[1,2,3,4]"});
  check(R"({"type": "array", "maxItems": 0})", {"[]"}, {"[1]"});
  check(R"({"prefixItems": [{"type": "string"}, {"type": "integer"}]})", {R"(["a", 1])"},
        {"[]", R"(["a"])", R"(["a", 1, 2])"});
  check(R"({"prefixItems": [{"type": "string"}], "items": {"type": "null"}, "minItems": 2})",
        {R"(["a", null])", R"(["a", null, null])"}, {R"(["a"])"});
  check(R"({"prefixItems": [{"type": "string"}, {"type": "null"}], "maxItems": 1})", {R"(["a"])"}, {R"(["a", null])"});
  check(R"({"items": false})", {"[]"}, {"[1]"});
}

TEST(JsonSchema, ConstantsAndAlternatives) {
  check(R"({"enum": ["red", "green", 3, null, {"a": [1]}]})", {R"("red")", "3", "null", R"({"a":[1]})"},
        {R"("re")", "red", "4"});
  check(R"({"type": "string", "enum": ["a", 1]})", {R"("a")"}, {"1"});
  check(R"({"const": "x\ty"})", {R"("x\ty")"}, {R"("x")"});
  check(
      R"({"anyOf": [{"type": "integer"}, {"type": "object", "properties": {"k": {"const": "v"}}, "required": ["k"]}]})",
      {"1", R"({"k": "v"})"}, {"{}", R"({"k": "w"})"});
  check(R"({"oneOf": [{"const": 1}, {"const": 12}], "description": "d", "default": 1})", {"1", "12"}, {"2", "121"});
  check(R"({"allOf": [{"type": "null"}]})", {"null"}, {"1"});
  check(R"({"anyOf": [false, {"type": "null"}]})", {"null"}, {"1"});
}

TEST(JsonSchema, References) {
  check(R"({"$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"anyOf":
             [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["v", "next"]}}, "$ref": "#/$defs/node"})",
        {R"({"v": 1, "next": null})", R"({"v": 1, "next": {"v": 2, "next": null}})"},
        {R"({"v": 1})", R"({"v": 1, "next": {}})"});
  check(R"({"type": "array", "items": {"$ref": "#"}})", {"[]", "[[], [[]]]"}, {"[1]"});
  check(R"({"properties": {"a": {"$ref": "#/definitions/x~1y"}}, "definitions": {"x/y": {"const": 1}}})",
        {R"({"a": 1})"}, {R"({"a": 2})"});
}

TEST(JsonSchema, WhatIsNotSupportedIsNamed) {
  EXPECT_EQ(refusal(R"({"type": "object", "properties": {"zip": {"type": "string", "pattern": "^[0-9]+$"}}})"),
            "properties.zip.pattern: is not supported");
  EXPECT_EQ(refusal(R"({"items": {"type": "number", "maximum": 1}})"),
            "items.maximum: is supported for integers alone, and as a minimum of 0");
  EXPECT_EQ(refusal(R"({"uniqueItems": true, "items": {}})"), "uniqueItems: is not supported");
  EXPECT_EQ(refusal(R"({"anyOf": [{"type": "null"}], "type": "string"})"), "type: is not supported beside 'anyOf'");
  EXPECT_EQ(refusal(R"({"allOf": [{}, {}]})"), "allOf: is supported for one schema");
  EXPECT_EQ(refusal(R"({"$ref": "other.json"})"), "$ref: 'other.json' is not in this schema");
  EXPECT_EQ(refusal(R"({"$ref": "#/$defs/a"})"), "$ref: '#/$defs/a' is not in this schema");
  EXPECT_EQ(refusal(R"({"$ref": "#x"})"), "$ref: '#x' is not in this schema");
  EXPECT_EQ(refusal(R"({"$ref": 3})"), "$ref: expected a string");
  EXPECT_EQ(refusal(R"({"type": "text"})"), "type: 'text' is not a type of JSON");
  EXPECT_EQ(refusal(R"({"type": 3})"), "type: expected a string or strings");
  EXPECT_EQ(refusal(R"({"type": []})"), "type: expected a string or strings");
  EXPECT_EQ(refusal(R"({"properties": []})"), "properties: expected an object");
  EXPECT_EQ(refusal(R"({"properties": {"a": 3}})"), "properties.a: expected an object or a boolean");
  EXPECT_EQ(refusal(R"({"required": "a"})"), "required: expected an array of strings");
  EXPECT_EQ(refusal(R"({"required": ["a"], "additionalProperties": false})"),
            "required: 'a' is no property, and others are forbidden");
  EXPECT_EQ(refusal(R"({"enum": []})"), "enum: expected an array that is not empty");
  EXPECT_EQ(refusal(R"({"type": "null", "enum": [1]})"), "enum: has no value of the type that is asked for");
  EXPECT_EQ(refusal(R"({"minItems": -1})"), "minItems: expected an integer from 0 to 1000000");
  EXPECT_EQ(refusal(R"({"minItems": 1e300})"), "minItems: expected an integer from 0 to 1000000");
  EXPECT_EQ(refusal(R"({"minLength": 3, "maxLength": 2})"), "maxLength: is less than minLength");
  EXPECT_EQ(refusal("3"), "schema: expected an object or a boolean");
  EXPECT_EQ(refusal("false"), "grammar: allows no text that ends");
  EXPECT_EQ(refusal(R"({"$ref": "#"})"), "grammar: allows no text that ends");
  EXPECT_EQ(refusal(R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})"),
            "grammar: refers to itself before anything else");
}

// Then they are as if they were not there, and the rest holds.
TEST(JsonSchema, WhatIsNotSupportedCanBeIgnored) {
  Matcher m(grammar_of_schema(Json::parse(R"({"properties": {"zip": {"type": "string", "pattern": "^[0-9]+$"},
      "share": {"type": "number", "maximum": 1}, "all": {"allOf": [{"type": "null"}, {}]},
      "one": {"anyOf": [{"type": "null"}], "type": "string"}, "list": {"uniqueItems": true, "items": {"const": 1}}}})"),
                              Unknown::kIgnore));
  EXPECT_TRUE(conforms(m, R"({"zip": "x", "share": 7, "all": 3, "one": null, "list": [1, 1]})"));
  EXPECT_FALSE(conforms(m, R"({"zip": 1})"));
  EXPECT_FALSE(conforms(m, R"({"list": [2]})"));
  EXPECT_THROW(grammar_of_schema(Json::parse(R"({"type": "text"})"), Unknown::kIgnore), Error);
}

TEST(JsonSchema, DeepAndLongOnesAreRefused) {
  Json chain = Json::object();  // $defs that each refer to the next
  for (int i = 0; i < 1000; ++i)
    chain["$defs"]["d" + std::to_string(i)] = {{"items", {{"$ref", "#/$defs/d" + std::to_string(i + 1)}}}};
  chain["$defs"]["d1000"] = {{"type", "null"}};
  chain["$ref"] = "#/$defs/d0";
  EXPECT_NE(refusal(chain.dump().c_str()).find("nests deeper than 256 schemas"), std::string::npos);
  chain["$ref"] = "#/$defs/d900";
  EXPECT_EQ(refusal(chain.dump().c_str()), "");
  Json wide = Json::object();
  for (int i = 0; i < 8000; ++i) wide["properties"]["p" + std::to_string(i)] = {{"type", "integer"}};
  EXPECT_EQ(refusal(wide.dump().c_str()), "grammar: needs more than 65536 parts");
}

// Whatever is allowed step by step is JSON in the end, of the schema's shape.
TEST(JsonSchema, RandomTextsParse) {
  const Json schema = Json::parse(R"({"type": "object", "properties": {
      "name": {"type": "string", "minLength": 1, "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 150},
      "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 3}, "more": true,
      "x": {"type": ["number", "null"]}}, "required": ["name", "age", "x"]})");
  std::uint64_t seed = 7;
  int with_more = 0;
  for (const bool any : {false, true}) {
    const auto grammar = any ? grammar_of_objects() : grammar_of_schema(schema, Unknown::kRefuse);
    for (int run = 0; run < 200; ++run) {
      Matcher m(grammar);
      Matcher::State state = m.start();
      std::string text;
      while (!m.ends(state) && text.size() < 4000) {
        const std::optional<std::uint8_t> byte = random_byte(m, state, seed);
        ASSERT_TRUE(byte) << text;
        state = m.next(state, *byte);
        text += static_cast<char>(*byte);
      }
      ASSERT_TRUE(m.ends(state)) << text;
      Json value;
      ASSERT_NO_THROW(value = Json::parse(text)) << text;
      ASSERT_TRUE(value.is_object());
      if (any) continue;
      EXPECT_TRUE(value.at("name").is_string());
      EXPECT_GE(value.at("age").get<int>(), 0);
      EXPECT_LE(value.at("age").get<int>(), 150);
      EXPECT_TRUE(value.at("x").is_null() || value.at("x").is_number());
      with_more += value.contains("more");
    }
  }
  EXPECT_GT(with_more, 0);
}

}  // namespace
}  // namespace kvasir::text
