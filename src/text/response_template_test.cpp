#include "text/response_template.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"

namespace kvasir::text {
namespace response_template_test {

const Json kResponseTools =
    Json::parse(R"x([{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
    "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}}}}])x");

std::string told(const ToolOutput& out) {
  std::string text = out.reasoning + "|" + out.content;
  for (const ToolCall& call : out.calls) text += "|" + call.name + " " + call.arguments;
  return text;
}

// At once and in pieces: reasoning | content | calls.
std::string answer(const ResponseTemplate& response, std::string_view text, std::string_view prompt = "",
                   bool cut = false) {
  std::string all;
  for (const std::size_t size : {text.size() + 1, std::size_t{1}, std::size_t{5}}) {
    const auto parser = response.parser(prompt, &kResponseTools);
    ToolOutput out;
    for (std::size_t i = 0; i < text.size(); i += size) parser->push(text.substr(i, size), out);
    parser->finish(out, cut);
    if (all.empty()) all = told(out);
    EXPECT_EQ(told(out), all) << text << " by " << size;
  }
  return all;
}

class ResponseTemplates : public ::testing::Test {
  void SetUp() override {
    if (!SearchPattern::available()) GTEST_SKIP() << "SKIPPED: built without PCRE2";
  }
};

// Own ones, in the manner of those that models come with.
constexpr const char* kPlain = R"x({"defaults": {"role": "assistant"}, "start_anchor": "<|a|>\n", "fields": {
  "thinking": {"open": "<ponder>", "close": "</ponder>"},
  "tool_calls": {"open_pattern": "\\s*<do>", "close": "</do>", "repeats": true, "content": "json",
                 "transform": {"type": "function", "function": "{content}"}},
  "content": {"close": ["<|e|>", "<|eot|>"]}}})x";

TEST_F(ResponseTemplates, TellsFieldsApart) {
  const auto plain = ResponseTemplate::parse(kPlain);
  EXPECT_EQ(answer(*plain, "<ponder>\nHm.\n</ponder>\n\nYes."), "Hm.|Yes.");
  EXPECT_EQ(answer(*plain, "Yes. <b>"), "|Yes. <b>");
  EXPECT_EQ(
      answer(*plain, "Look.\n<do>{\"name\": \"f\", \"arguments\": {\"n\": 3}}</do>\n<do>{\"name\": \"f\"}</do><|e|>\n"),
      "|Look.|f {\"n\": 3}|f {}");
  EXPECT_EQ(answer(*plain, "Hm.</ponder>Yes.", "<|a|>\nold<|e|><|a|>\n<ponder>\n"), "Hm.|Yes.");
  EXPECT_EQ(answer(*plain, "Yes.", "<ponder> is no prompt of this"), "|Yes.");
  // A value of another type than the schema says, and calls that are broken or cut.
  EXPECT_EQ(answer(*plain, "<do>{\"name\": \"f\", \"arguments\": {\"n\": \"3\", \"s\": \"4\"}}</do>"),
            "||f {\"n\":3,\"s\":\"4\"}");
  EXPECT_EQ(answer(*plain, "<do>{\"name\": \"f\", \"arguments\": {\"n\": 3</do>"), "||f {\"n\": 3");
  EXPECT_EQ(answer(*plain, "<do>{\"name\": \"f\", \"arguments\": {\"n\": ", "", true), "||f {\"n\":");
  EXPECT_EQ(answer(*plain, "<do>nothing</do>"), "|nothing");
  EXPECT_EQ(answer(*plain, "a <d", "", true), "|a");
}

TEST_F(ResponseTemplates, ReadsContentsOfAllKinds) {
  const auto with = [](const std::string& calls) {
    return ResponseTemplate::parse(R"x({"start_anchor": "x", "fields": {"content": {}, "tool_calls": )x" + calls +
                                   "}}");
  };
  const char* named =
      R"x("transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}})x";
  const std::string tags = R"x({"open_pattern": "<call:(?P<name>\\w+)>", "close": "</call>", "content": "xml-inline",
    "content_args": {"tag_pattern": "<(?P<key>\\w+)>(?P<value>.*?)</"}, )x";
  EXPECT_EQ(answer(*with(tags + named + "}"), "Hi <call:f><n>3</n><s>4</s><o>5</o></call>"),
            "|Hi|f {\"n\": 3, \"s\": \"4\", \"o\": \"5\"}");
  const std::string quoted = R"x({"open_pattern": "<call:(?P<name>\\w+)", "close": ">", "content": "json",
    "content_args": {"unquoted_keys": true, "string_delims": [["~", "~"]]}, )x";
  EXPECT_EQ(answer(*with(quoted + named + "}"), "<call:f{s:~a \"b\"~,n:3}>"), "||f {\"s\": \"a \\\"b\\\"\", \"n\": 3}");
  const std::string each = R"x({"open": "<acts>", "close": "</acts>", "content": "json", "transform_each": true,
    "transform": {"function": {"name": "{tool}", "arguments": "{in.args}"}}})x";
  EXPECT_EQ(answer(*with(each), "<acts>[{\"tool\": \"f\", \"in\": {\"args\": {\"n\": 1}}}, {\"tool\": \"f\"}]</acts>"),
            "||f {\"n\": 1}|f {}");
  const std::string lines = R"x({"open_pattern": "@(?P<name>\\w+)\\n", "close": "\n\n", "content": "kv-lines", )x";
  EXPECT_EQ(answer(*with(lines + named + "}"), "@f\nn: 3\ns: a: b\n\nDone."), "|Done.|f {\"n\": 3, \"s\": \"a: b\"}");
  EXPECT_EQ(answer(*with(R"x({"open": "<py>", "close": "</py>", "content": "python-call-list",
    "transform_each": true, "transform": {"function": {"name": "{name}", "arguments": "{arguments}"}}})x"),
                   "<py>[f(n=1, s='a'), f()]</py>"),
            "||f {\"n\": 1, \"s\": \"a\"}|f {}");
}

TEST_F(ResponseTemplates, RefusesWhatItDoesNotKnow) {
  for (const char* bad :
       {"[]", "{}", R"x({"fields": {}})x", R"x({"fields": {"content": {"opens": "x"}}})x",
        R"x({"fields": {"a": {}, "b": {}}})x", R"x({"version": 2, "fields": {"content": {}}})x",
        R"x({"fields": {"content": {"open": ""}}})x",
        R"x({"fields": {"content": {"open": "a", "open_pattern": "b"}}})x",
        R"x({"fields": {"content": {"content": "yaml"}}})x", R"x({"fields": {"content": {"close_pattern": "(a"}}})x",
        R"x({"fields": {"tool_calls": {"open": "x", "content": "xml-inline"}}})x",
        R"x({"more": 1, "fields": {"content": {}}})x"})
    EXPECT_THROW(ResponseTemplate::parse(bad), Error) << bad;
}

// Forms and marks that are known are told by what the template makes of them.
TEST_F(ResponseTemplates, KnowsFormsByWhatItReads) {
  const auto qwen = ResponseTemplate::parse(R"x({"start_anchor": "<|im_start|>assistant\n", "fields": {
    "reasoning_content": {"open": "<think>", "close": "</think>"},
    "tool_calls": {"open_pattern": "\\s*<tool_call>\\s*<function=(?P<name>[^>\\n]+)>",
      "close_pattern": "</function>\\s*</tool_call>", "repeats": true, "content": "xml-inline",
      "content_args": {"tag_pattern": "<parameter=(?P<key>[^>\\n]+)>\\s*(?P<value>.*?)\\s*</parameter>"},
      "transform": {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}},
    "content": {"close_pattern": "\\s*(?:<\\|im_end\\|>)"
}
}
})x");
  ASSERT_NE(qwen->same_form(nullptr), nullptr);
  EXPECT_EQ(qwen->same_form(nullptr)->name, "qwen3_coder");
  EXPECT_TRUE(qwen->same_marks({.open = "<think>", .close = "</think>"}));
  EXPECT_FALSE(qwen->same_marks({.open = "[THINK]", .close = "[/THINK]"}));
  const auto gemma = ResponseTemplate::parse(R"x({"start_anchor": ["<|turn>model\n", "<tool_response|>"], "fields": {
    "reasoning_content": {"open": "<|channel>thought\n", "close": "<channel|>"},
    "tool_calls": {"open_pattern": "<\\|tool_call>call:(?P<name>\\w+)", "close": "<tool_call|>", "repeats": true,
      "content": "json", "content_args": {"unquoted_keys": true, "string_delims": [["<|\"|>", "<|\"|>"]]},
      "transform": {
  "type" : "function", "function" : { "name" : "{name}", "arguments" : "{content}" }}
  }
  , "content" : { "close" : ["<turn|>"] }
  }
  })x");
  EXPECT_EQ(gemma->same_form(nullptr)->name, "gemma4");
  EXPECT_TRUE(gemma->same_marks(*find_reasoning_marks("<|channel><channel|>")));
  EXPECT_EQ(ResponseTemplate::parse(kPlain)->same_form(nullptr), nullptr);
}

}  // namespace response_template_test
}  // namespace kvasir::text
