#include "text/schema/asked.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.hpp"

namespace kvasir::text {
namespace {

class AskedTest : public ::testing::Test {
 protected:
  void read(const char* text) {
    schema_ = Json::parse(text);
    document_.emplace(schema_);
    checks_.emplace(*document_, work_);
    items_.clear();
    groups_.clear();
    AskedGatherer(*document_, *checks_).gather({.schema = &schema_}, items_, groups_);
  }

  Json schema_;
  Work work_;
  std::optional<SchemaDocument> document_;
  std::optional<Checks> checks_;
  AskedAll items_;
  std::vector<Alternatives> groups_;
};

TEST_F(AskedTest, ReferencesAndAllOfHoldBesideTheSchema) {
  read(R"({"$ref": "#/$defs/a", "allOf": [{"maximum": 3}, true], "$defs": {"a": {"type": ["integer", "string"]}}})");
  ASSERT_EQ(items_.size(), 3u);
  EXPECT_TRUE(groups_.empty());
  EXPECT_EQ(types_of_items(items_), kIntegerBit | kStringBit);
  EXPECT_TRUE(items_[2].word("maximum"));
  EXPECT_EQ(items_[2].path, "allOf[0]");
}

TEST_F(AskedTest, AlternativesBecomeGroups) {
  read(R"({"anyOf": [{"type": "null"}, {"const": 1}], "if": {"type": "string"}, "then": {"minLength": 2}})");
  ASSERT_EQ(groups_.size(), 2u);
  EXPECT_EQ(groups_[0].size(), 2u);
  EXPECT_TRUE(groups_[0][1][0].is_listed());
  EXPECT_EQ(groups_[1].size(), 2u) << "the test and what follows, or not the test";
  EXPECT_EQ(groups_[1][1][0].kind, Asked::Kind::kNot);
}

TEST_F(AskedTest, ListsAreWhatAllAllow) {
  read(R"({"enum": [1, "a", null, 2.5], "allOf": [{"type": ["number", "null"]}, {"not": {"const": 1}}]})");
  EXPECT_EQ(constant_texts(items_, *checks_), (std::vector<std::string>{"null", "2.5"}));
}

TEST_F(AskedTest, WhatExcludesEachOther) {
  read("{}");
  const auto apart = [&](const char* a, const char* b) { return exclusive(Json::parse(a), Json::parse(b), *checks_); };
  EXPECT_TRUE(apart(R"({"type": "string"})", R"({"type": "array"})"));
  EXPECT_TRUE(apart(R"({"enum": [1, 2]})", R"({"enum": [3]})"));
  EXPECT_FALSE(apart(R"({"type": "string"})", R"({"minLength": 2})"));
  EXPECT_TRUE(apart(R"({"type": "object", "properties": {"k": {"const": "a"}}, "required": ["k"]})",
                    R"({"type": "object", "properties": {"k": {"const": "b"}}, "required": ["k"]})"));
  EXPECT_FALSE(apart(R"({"type": "object", "properties": {"k": {"const": "a"}}, "required": ["k"]})",
                     R"({"type": "object", "properties": {"k": {"const": "b"}}})"));
}

TEST_F(AskedTest, CirclesAreRefused) {
  try {
    read(R"({"$ref": "#"})");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()), "$ref: refers to itself before anything else");
  }
}

}  // namespace
}  // namespace kvasir::text
