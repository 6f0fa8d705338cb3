#include "text/json_schema.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "text/grammars_fixture.hpp"
#include "text/schema/pattern.hpp"

namespace kvasir::text {
namespace json_schema_test {

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
  EXPECT_EQ(refusal(R"({"type": "integer", "minimum": 3, "maximum": 2})"), "schema: allows no integer");
  check(R"({"type": "integer", "minimum": 1000000000000000000})", {"1000000000000000000", "9223372036854775807"},
        {"999999999999999999", "-1"});
  check(R"({"type": "integer", "minimum": 18446744073709551615})", {"18446744073709551615"}, {"18446744073709551614"});
  check(R"({"type": "integer", "minimum": 5, "exclusiveMinimum": true, "maximum": 7, "exclusiveMaximum": true})", {"6"},
        {"5", "7"});  // draft 4
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
  EXPECT_EQ(refusal(R"({"type": "object", "properties": {"zip": {"type": "string", "pattern": "(a)\\1"}}})"),
            "properties.zip.pattern: back references are not supported");
  EXPECT_EQ(refusal(R"({"type": "string", "pattern": "("})"), "pattern: ')' is missing");
  EXPECT_EQ(refusal(R"({"uniqueItems": true, "items": {}})"), "uniqueItems: items may be equal");
  EXPECT_EQ(refusal(R"({"anyOf": [{"type": "null"}], "type": "string"})"), "grammar: allows no text that ends");
  EXPECT_EQ(refusal(R"({"oneOf": [{"type": "integer"}, {"type": "number"}]})"),
            "oneOf: two of its alternatives may hold at the same time, it is read as anyOf");
  EXPECT_EQ(refusal(R"({"not": {"multipleOf": 3}})"), "not: its opposite cannot be said");
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
  EXPECT_EQ(refusal(R"({"$ref": "#"})"), "$ref: refers to itself before anything else");
  EXPECT_EQ(refusal(R"({"anyOf": [{"$ref": "#"}, {"type": "null"}]})"),
            "anyOf[0].$ref: refers to itself before anything else");
}

// Then they are as if they were not there, and the rest holds.
TEST(JsonSchema, WhatIsNotSupportedCanBeIgnored) {
  Warnings warnings;
  Matcher m(grammar_of_schema(Json::parse(R"({"properties": {"zip": {"type": "string", "pattern": "^(.)\\1$"},
      "list": {"uniqueItems": true, "items": {"type": "integer", "maximum": 1}}}})"),
                              Unknown::kIgnore, &warnings));
  EXPECT_TRUE(conforms(m, R"({"zip": "x", "list": [1, 1]})"));
  EXPECT_FALSE(conforms(m, R"({"zip": 1})"));
  EXPECT_FALSE(conforms(m, R"({"list": [2]})"));
  EXPECT_EQ(warnings, (Warnings{"properties.zip.pattern is not held: back references are not supported",
                                "properties.list.uniqueItems is not held: items may be equal"}));
  EXPECT_THROW(grammar_of_schema(Json::parse(R"({"type": "text"})"), Unknown::kIgnore), Error);
}

// Keywords beside each other all apply, wherever they come from.
TEST(JsonSchema, WordsApplyTogether) {
  const char* two = R"({"allOf": [{"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]},
                                  {"type": "object", "properties": {"b": {"type": "boolean"}}, "required": ["b"]}]})";
  check(two, {R"({"a": true, "b": false})"},
        {"null", "3.9e54", R"({"a": true})", R"({"b": true})", R"({"a": 1, "b": true})"});
  check(R"({"$ref": "#/$defs/n", "maximum": 5, "$defs": {"n": {"type": "integer", "minimum": 3}}})", {"3", "5"},
        {"2", "6", "\"3\""});
  check(R"({"type": "object", "required": ["k"], "anyOf": [{"properties": {"k": {"const": 1}}},
                                                           {"properties": {"k": {"type": "string"}}}]})",
        {R"({"k": 1})", R"({"k": "x"})"}, {"{}", R"({"k": 2})"});
  check(R"({"enum": ["a", "bb", 3], "type": "string", "minLength": 2})", {R"("bb")"}, {R"("a")", "3"});
  check(R"({"anyOf": [{"type": "integer"}, {"type": "string"}], "oneOf": [{"type": "string"}, {"type": "null"}]})",
        {R"("x")"}, {"1", "null"});
  check(
      R"({"properties": {"a": {"type": "integer"}}, "allOf": [{"properties": {"a": {"minimum": 10}}}], "required": ["a"]})",
      {R"({"a": 10})"}, {R"({"a": 9})", "{}"});
  check(R"({"allOf": [{"properties": {"a": true}, "additionalProperties": false}, {"properties": {"b": true}}]})",
        {R"({"a": 1})", "{}"}, {R"({"b": 1})"});
}

TEST(JsonSchema, Opposites) {
  check(R"({"type": "string", "not": {"const": "no"}})", {R"("nod")", R"("n")", R"("")"}, {R"("no")"});
  check(R"({"type": "string", "not": {"pattern": "^a"}})", {R"("b")", R"("")"}, {R"("a")", R"("ab")"});
  check(R"({"not": {"type": ["object", "array", "string", "number"]}})", {"null", "true"}, {"1", "{}", "[]", R"("")"});
  check(R"({"enum": [1, 2, 3], "not": {"enum": [2]}})", {"1", "3"}, {"2"});
  const char* branch = R"({"type": "object", "properties": {"kind": {"enum": ["a", "b"]}, "n": {"type": "integer"},
       "s": {"type": "string"}}, "required": ["kind"], "if": {"properties": {"kind": {"const": "a"}}, "required": ["kind"]},
       "then": {"required": ["n"]}, "else": {"required": ["s"]}})";
  check(branch, {R"({"kind": "a", "n": 1})", R"({"kind": "b", "s": "x"})"},
        {R"({"kind": "a"})", R"({"kind": "b", "n": 1})"});
  check(R"({"properties": {"a": true, "b": true}, "dependentRequired": {"a": ["b"]}})",
        {"{}", R"({"b": 1})", R"({"a": 1, "b": 1})"}, {R"({"a": 1})"});
  check(R"({"properties": {"a": true}, "dependencies": {"a": {"properties": {"c": {"const": 1}}, "required": ["c"]}}})",
        {"{}", R"({"a": 1, "c": 1})"}, {R"({"a": 1})", R"({"a": 1, "c": 2})"});
}

TEST(JsonSchema, ReferencesByName) {
  check(R"({"$ref": "#/definitions/Box%3Cint%3E", "definitions": {"Box<int>": {"const": 1}}})", {"1"}, {"2"});
  check(R"({"$id": "https://example.com/a.json", "$ref": "b.json", "$defs": {"x": {"$id": "b.json", "const": 1}}})",
        {"1"}, {"2"});
  check(R"({"$ref": "#item", "$defs": {"x": {"$anchor": "item", "const": 1}}})", {"1"}, {"2"});
  check(R"({"$defs": {"x": {"$id": "urn:x", "$defs": {"y": {"const": 1}}, "$ref": "#/$defs/y"}}, "$ref": "urn:x"})",
        {"1"}, {"2"});
  check(R"({"id": "http://x/root", "definitions": {"a": {"id": "#a", "type": "null"}}, "items": {"$ref": "#a"}})",
        {"[null]"}, {"[1]"});
}

TEST(JsonSchema, OlderDrafts) {
  check(R"({"type": "array", "items": [{"type": "boolean"}, {"type": "integer"}], "minItems": 2, "maxItems": 2})",
        {"[true, 1]"}, {"[true]", "[1, true]", "[true, 1, 2]"});
  check(R"({"items": [{"type": "boolean"}], "additionalItems": {"type": "null"}})", {"[true]", "[true, null]"},
        {"[true, 1]"});
  check(R"({"items": [{"type": "boolean"}], "additionalItems": false, "minItems": 1})", {"[true]"},
        {"[true, 1]", "[]"});
}

TEST(JsonSchema, Patterns) {
  const auto of = [](const char* pattern) { return Json{{"type", "string"}, {"pattern", pattern}}.dump(); };
  check(of("^[0-9]{5}(-[0-9]{4})?$").c_str(), {R"("12345")", R"("12345-6789")"},
        {R"("1234")", R"("123456")", R"("12345-")"});
  check(of("b+").c_str(), {R"("b")", R"("abbc")"}, {R"("ac")", R"("")"});
  check(of("^(?:GET|POST) /\\S*$").c_str(), {R"("GET /")", R"("POST /a/b")"}, {R"("PUT /")", R"("GET / x")"});
  check(of("^\\w+@\\w+\\.com$").c_str(), {R"("a@b.com")"}, {R"("a@b.org")"});
  check(of("^(?=.*[A-Z])(?=.*\\d).{4,}$").c_str(), {R"("aB3x")"}, {R"("ab3x")", R"("aBcx")", R"("B3")"});
  check(of("^\\u00e9\\\"$").c_str(), {"\"\u00e9\\\"\""}, {"\"e\\\"\""});
  check(of("^a|b$").c_str(), {R"("ax")", R"("xb")"}, {R"("xa")", R"("bx")"});
  check(of("").c_str(), {R"("")", R"("x")"}, {});
  check(R"({"type": "string", "pattern": "^a*$", "minLength": 2, "maxLength": 3})", {R"("aa")", R"("aaa")"},
        {R"("a")", R"("aaaa")", R"("ab")"});
  check(R"({"type": "object", "patternProperties": {"^x_": {"type": "integer"}}, "additionalProperties": false})",
        {"{}", R"({"x_a": 1})"}, {R"({"y": 1})", R"({"x_a": "1"})"});
  check(R"({"type": "object", "propertyNames": {"pattern": "^[a-z]+$"}, "additionalProperties": {"type": "null"}})",
        {R"({"ab": null})"}, {R"({"A": null})", R"({"ab": 1})"});
}

TEST(JsonSchema, Formats) {
  const auto of = [](const char* format) { return Json{{"type", "string"}, {"format", format}}.dump(); };
  check(of("date").c_str(), {R"("2026-11-25")"}, {R"("2026-13-01")", R"("2026-02-30")", R"("26-01-01")"});
  check(of("time").c_str(), {R"("12:30:00Z")", R"("23:59:59.5+01:00")"}, {R"("24:00:00Z")", R"("12:30")"});
  check(of("date-time").c_str(), {R"("2026-11-25T12:30:00Z")"}, {R"("2026-11-25")", R"("2026-11-25T25:00:00Z")"});
  check(of("duration").c_str(), {R"("P3D")", R"("PT5M")", R"("P1Y2M3DT4H")"}, {R"("P")", R"("3D")"});
  check(of("uuid").c_str(), {R"("123e4567-e89b-12d3-a456-426614174000")"}, {R"("123e4567")"});
  check(of("email").c_str(), {R"("a.b@example.com")"}, {R"("a@b")", R"("@b.com")", R"("a b@c.com")"});
  check(of("hostname").c_str(), {R"("a-b.example")"}, {R"("-a")", R"("a..b")"});
  check(of("ipv4").c_str(), {R"("127.0.0.1")"}, {R"("256.0.0.1")", R"("1.2.3")"});
  check(of("ipv6").c_str(), {R"("::1")", R"("2001:db8:0:0:0:0:0:1")"}, {R"("1::2::3")", R"("12345::")"});
  check(of("uri").c_str(), {R"("https://example.com/a?b=c#d")", R"("mailto:a@b.com")"},
        {R"("example.com")", R"("http://")"});
  check(of("x-unknown").c_str(), {R"("anything")"}, {});
}

TEST(JsonSchema, NumbersAndCounts) {
  check(R"({"type": "number", "minimum": 0.5, "exclusiveMaximum": 10})", {"0.5", "0.51", "9.999", "3"},
        {"0.49", "0", "10", "10.0", "-1", "11"});
  check(R"({"type": "number", "exclusiveMinimum": -1.25, "maximum": 0})", {"-1.2", "-0.5", "0", "-1"},
        {"-1.25", "-2", "0.1"});
  check(R"({"type": "number", "maximum": -2.5})", {"-2.5", "-3", "-100"}, {"-2.4", "0", "-2"});
  check(R"({"type": "integer", "multipleOf": 5})", {"0", "10", "-15"}, {"3", "-1"});
  check(R"({"type": "number", "multipleOf": 0.01, "minimum": 0})", {"1.25", "3", "0.5"}, {"1.234", "-1"});
  check(R"({"type": "integer", "multipleOf": 7, "minimum": 10, "maximum": 21})", {"14", "21"}, {"7", "15", "28"});
  check(
      R"({"type": "object", "properties": {"a": true, "b": true, "c": true}, "minProperties": 1, "maxProperties": 2})",
      {R"({"a": 1})", R"({"b": 1, "c": 2})"}, {"{}", R"({"a": 1, "b": 1, "c": 1})"});
  check(R"({"type": "array", "items": {"type": "integer"}, "contains": {"minimum": 10}, "maxItems": 2})",
        {"[10]", "[11, 1]"}, {"[]", "[1]"});
  check(R"({"type": "array", "items": {"enum": ["a", "b", "c"]}, "uniqueItems": true, "minItems": 1})",
        {R"(["a"])", R"(["a", "c"])"}, {"[]", R"(["a", "a"])"});
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

Warnings warnings_of(const Json& schema) {
  Warnings warnings;
  grammar_of_schema(schema, Unknown::kIgnore, &warnings);
  return warnings;
}

std::string refusal_of(const Json& schema) { return refusal(schema.dump().c_str()); }

// Without the bounds these took minutes to years, or gigabytes.
TEST(JsonSchema, ChecksOfValuesAreBounded) {
  const char* const kTooMuch = "schema: takes too much work to check";
  const char* branching = R"({"enum": [1], "not": {"$ref": "#/$defs/a"},
      "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}})";
  EXPECT_EQ(refusal(branching), kTooMuch);
  EXPECT_THROW(warnings_of(Json::parse(branching)), Error);
  EXPECT_EQ(refusal(R"({"type": "object", "required": ["x"], "unevaluatedProperties": false,
      "if": {"$ref": "#/$defs/a"}, "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]}}})"),
            kTooMuch);
  Json list = Json::array();
  for (int i = 0; i < 50000; ++i) list.push_back(i);
  EXPECT_EQ(refusal_of({{"enum", Json::array({list})}, {"uniqueItems", true}}), kTooMuch);
  for (const char* word : {"allOf", "anyOf"})
    EXPECT_EQ(refusal_of({{word, std::vector<Json>(1 << 20, Json::object())}, {"type", "null"}}), kTooMuch);
  // Long lists are not much work.
  Json words = Json::array();
  for (int i = 0; i < 20000; ++i) words.push_back("word " + std::to_string(i));
  EXPECT_EQ(refusal_of({{"enum", words}}), "");
}

TEST(JsonSchema, AlternativesAreBounded) {
  Json ways = Json::array();
  for (int g = 0; g < 5; ++g) {
    Json some = Json::array();
    for (int i = 0; i < 20; ++i)
      some.push_back({{"properties", {{"p" + std::to_string(20 * g + i), {{"type", "null"}}}}}});
    ways.push_back({{"anyOf", some}});
  }
  EXPECT_EQ(refusal_of({{"properties", {{"x", {{"allOf", ways}}}}}}),
            "properties.x: more than 1024 combinations of its alternatives");
  EXPECT_EQ(warnings_of({{"properties", {{"x", {{"allOf", ways}}}}}}),
            Warnings{"properties.x is not held: more than 1024 combinations of its alternatives"});
  Json kinds = Json::array();
  for (int i = 0; i < 300; ++i)
    kinds.push_back(
        {{"type", "object"}, {"properties", {{"kind", {{"const", i}}}}}, {"required", Json::array({"kind"})}});
  const Json twice = {{"oneOf", kinds}, {"anyOf", Json::parse(R"([{"minProperties": 0}, {"minProperties": 1}])")}};
  EXPECT_EQ(refusal_of(twice), "");
}

TEST(JsonSchema, PatternsAreBounded) {
  const auto of = [](const std::string& pattern) { return Json{{"type", "string"}, {"pattern", pattern}}; };
  const char* const kTooMany = "pattern: needs too many states";
  EXPECT_EQ(refusal_of(of("^(?:(?:a?){1000}){30}$")), kTooMany);
  EXPECT_EQ(refusal_of(of("^(?:(?:\\p{L}?){1000}){3}$")), kTooMany);
  EXPECT_EQ(refusal_of(of("^(?:\\p{L}{1000}){60}$")), kTooMany);
  EXPECT_EQ(refusal_of(of("^(?:(?:(?:){1000}){1000}){1000}$")), kTooMany);
  EXPECT_EQ(refusal_of(of("^(a{1000}){16}$")), "pattern: needs more than 4096 states");
  EXPECT_EQ(refusal_of(of(std::string(5000, 'a'))), "pattern: is longer than 4096 bytes");
  std::string letters = "^[";
  for (int i = 0; i < 800; ++i) letters += "\\p{L}";
  EXPECT_EQ(refusal_of(of(letters + "]$")), "");
  EXPECT_EQ(refusal_of(of("^(?:a|b)*a(?:a|b){11}$")), "");  // 4096 states
  Matcher m(grammar_of_schema({{"type", "string"}, {"pattern", "^[a-z]*$"}, {"maxLength", 4000}}, Unknown::kRefuse));
  EXPECT_TRUE(conforms(m, '"' + std::string(4000, 'a') + '"'));
  EXPECT_FALSE(conforms(m, '"' + std::string(4001, 'a') + '"'));
  // Each is allowed, all together are not.
  Json many = Json::object();
  for (int i = 0; i < 500; ++i)
    many["properties"]["p" + std::to_string(i)] = of("^(?:(?:a?){300}){3}b{" + std::to_string(i) + "}$");
  EXPECT_EQ(refusal_of(many), "schema: takes too much work to check");
}

// A pattern for the whole text is no text that is put between others.
TEST(JsonSchema, WholePatterns) {
  const Automaton of = automaton_of_whole_pattern("a|bc");
  EXPECT_TRUE(of.matches("a") && of.matches("bc"));
  EXPECT_FALSE(of.matches("ac") || of.matches("abc") || of.matches("xa") || of.matches(""));
  EXPECT_TRUE(automaton_of_whole_pattern("^(?!ab)[a-c]{2}").matches("ba"));
  EXPECT_FALSE(automaton_of_whole_pattern("^(?!ab)[a-c]{2}").matches("ab"));
  for (const char* pattern : {"a)|(b", "a)", "(a", "a\\", "[a", "a)$|^(?:b"})
    EXPECT_THROW(automaton_of_whole_pattern(pattern), Error) << pattern;
}

TEST(JsonSchema, NamesAreBounded) {
  Json parts = Json::object();
  for (int i = 0; i < 3000; ++i) parts["d" + std::to_string(i)] = Json::parse(R"({"a": {"b": {}}})");
  Json schema = {{"$id", "urn:" + std::string(2000, 'x')}, {"$defs", parts}, {"type", "null"}};
  EXPECT_EQ(refusal_of(schema), "");
  schema["$id"] = std::string(1 << 20, 'x');
  EXPECT_EQ(refusal_of(schema), "$id: is longer than 2048 bytes");
  EXPECT_EQ(refusal_of({{"$anchor", std::string(1 << 20, 'x')}}), "$anchor: is longer than 2048 bytes");
  const std::string key(1 << 20, 'k');
  EXPECT_EQ(refusal_of({{"properties", {{key, {{"properties", parts}}}}}}), "");  // paths are shortened
  const Json often = {{"properties", {{key, true}}}, {"anyOf", std::vector<Json>(600, {{"minProperties", 0}})}};
  EXPECT_EQ(refusal_of(often), "schema: takes too much work to check");
  // Each is short, and is long behind its base.
  Json own = Json::array();
  for (int i = 0; i < 4000; ++i) own.push_back({{"$id", std::to_string(i)}});
  EXPECT_EQ(refusal_of({{"$id", "urn:/" + std::string(2000, 'x') + "/"}, {"$defs", {{"a", own}}}}),
            "$id: names take more than 4 MiB together");
  // Many references into an object of many keys.
  Json defs = Json::object(), refs = Json::object();
  for (int i = 0; i < 20000; ++i) {
    defs["d" + std::to_string(i)] = true;
    refs["p" + std::to_string(i)] = {{"$ref", "#/$defs/d" + std::to_string(i)}};
  }
  EXPECT_EQ(refusal_of({{"properties", refs}, {"$defs", defs}}), "schema: takes too much work to check");
}

TEST(JsonSchema, Pointers) {
  const auto of = [](const char* ref) {
    Json schema = Json::parse(R"({"$defs": {"a/b": {"type": "null"}, "~": {"type": "null"}, "": {"type": "null"},
        "list": [{"type": "boolean"}, {"type": "null"}]}})");
    schema["$ref"] = ref;
    return refusal_of(schema);
  };
  for (const char* good : {"#/$defs/a~1b", "#/$defs/~0", "#/$defs/", "#/$defs/list/1"}) EXPECT_EQ(of(good), "") << good;
  for (const char* bad : {"#/$defs/a/b", "#/$defs/~", "#/$defs/~2", "#/$defs/list/01", "#/$defs/list/2",
                          "#/$defs/list/-", "#/$defs/list/", "#/$defs/list/0/type/x"})
    EXPECT_EQ(of(bad), std::string("$ref: '") + bad + "' is not in this schema");
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
    const auto grammar = grammar_of_schema(any ? Json{{"type", "object"}} : schema, Unknown::kRefuse);
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

}  // namespace json_schema_test
}  // namespace kvasir::text
