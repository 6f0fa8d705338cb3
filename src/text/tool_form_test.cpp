#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "text/tool_form_fixture.hpp"

namespace kvasir::text {
namespace {

TEST(ToolForm, Hermes) {
  check("hermes",
        {
            {"Hello, world.\n", "Hello, world.\n"},
            {"", ""},
            {"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\":1,\"b\":[1.0,\"x\"]}}\n</tool_call>",
             "\n-> f {\"a\":1,\"b\":[1.0,\"x\"]}"},
            {"Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": "
             "\"g\", \"arguments\": {\"q\": \"ü\"}}\n</tool_call>\n",
             "Let me see.\n-> f {}\n-> g {\"q\": \"ü\"}"},
            {"a <tool_call>{\"name\":\"f\"}</tool_call> b", "a b\n-> f {}"},
            {"<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"a\\\": 2}\"}</tool_call>", "\n-> f {\"a\": 2}"},
            // The end tag within a string is no end, and a missing one at the end of the text is forgiven.
            {"<tool_call>{\"name\":\"f\",\"arguments\":{\"s\":\"}</tool_call>{\\\"\"}}</tool_call>",
             "\n-> f {\"s\":\"}</tool_call>{\\\"\"}"},
            {"<tool_call>{\"name\":\"f\",\"arguments\":{\"s\":\"a</tool_call>\n<tool_call>b\"}}</tool_call>",
             "\n-> f {\"s\":\"a</tool_call>\\n<tool_call>b\"}"},
            {"<tool_call>\n{\"name\":\"f\",\"arguments\":{}}", "\n-> f {}"},
            {"<tool_call>\n{\"name\":\"f\",\"arguments\":{}}\n</tool_", "\n-> f {}"},
            // What is no call is content.
            {"<tool_call>nothing</tool_call>", "nothing"},
            {"<tool_call>{\"nam\":\"f\"}</tool_call>", "{\"nam\":\"f\"}"},
            {"<tool_call>{\"name\":\"\"}</tool_call>", "{\"name\":\"\"}"},
            {"<tool_call>{\"name\":\"f\",\"arguments\":[1]}</tool_call>", "{\"name\":\"f\",\"arguments\":[1]}"},
            {"Models write `<tool_call>` then.", "Models write `<tool_call>` then."},
            // A bracket too many, brackets twice, and marks that end a broken call.
            {"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"day\": 3}}}\n</tool_call>", "\n-> f {\"day\": 3}"},
            {"<tool_call>{{\"name\": \"f\", \"arguments\": {\"day\": 3}}}</tool_call>", "\n-> f {\"day\": 3}"},
            {"<tool_call>\n{\"name\": \"f\", \"arguments\": {\"day\": 3\n</tool_call>", "\n-> f {\"day\": 3"},
            {"<tool_call>{'name': 'f', 'arguments': {'a': True, 'b': None,}}</tool_call>",
             "\n-> f {\"a\": true, \"b\": null}"},
            {"<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"say \"hi\" now\"}}</tool_call>",
             "\n-> f {\"a\": \"say \\\"hi\\\" now\"}"},
            // What stands behind a call is content.
            {"<tool_call>{\"name\":\"f\",\"arguments\":{}} and </tool_call>", "and \n-> f {}"},
            {"<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":", "\n-> f {\"a\":"},
            {"<tool_call>{\"arguments\":{\"a\":1},\"name\":\"f\"}</tool_call>", "\n-> f {\"a\": 1}"},
            {"<tool_call>{\"name\":\"f\",\"arguments\":{\"s\":\"a\nb\"}}</tool_call>", "\n-> f {\"s\":\"a\\nb\"}"},
            {"<tool_call>{\"name\":\"f\",\"argum", "{\"name\":\"f\",\"argum"},
            {"<tool_call>{\"name\":'f'}</tool_call>", "\n-> f {}"},
            {"a <tool_cal", "a <tool_cal"},
            {"a <tool_call>", "a "},
            {"a < b <t <tool_callx>", "a < b <t <tool_callx>"},
            {"<tool_call>x<tool_call>{\"name\":\"f\"}</tool_call>", "x\n-> f {}"},
        });
}

TEST(ToolForm, Llama3) {
  check("llama3",
        {
            {"Hello {\"name\": \"f\", \"parameters\": {}}", "Hello {\"name\": \"f\", \"parameters\": {}}"},
            {"{\"name\": \"f\", \"parameters\": {\"a\": 1}}", "\n-> f {\"a\": 1}"},
            {" \n{\"name\": \"f\", \"parameters\": {}} ", "\n-> f {}"},
            {"<|python_tag|>{\"name\": \"f\", \"parameters\": {}}", "\n-> f {}"},
            {"{\"type\": \"function\", \"name\": \"f\", \"parameters\": {}}", "\n-> f {}"},
            {"{\"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": {}}}", "\n-> f {}"},
            {"{\"function\": \"f\", \"parameters\": {}}", "\n-> f {}"},
            {"{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"g\", \"parameters\": {}};", "\n-> f {}\n-> g {}"},
            {"Well. <|python_tag|>{\"name\": \"f\", \"parameters\": {}}", "Well.\n-> f {}"},
            {"{\"name\": \"Bob\", \"age\": 3}", "{\"name\": \"Bob\", \"age\": 3}"},
            {"{\"city\": \"X\", \"name\": \"f\", \"parameters\": {}}",
             "{\"city\": \"X\", \"name\": \"f\", \"parameters\": {}}"},
            {"{\"name\": \"f\", \"parameters\": {", "\n-> f {"},
            {"{\"name\": \"f\", \"parameters\": 3}", "{\"name\": \"f\", \"parameters\": 3}"},
            {"<|python_tag|>print(1)", "print(1)"},
            {"<|python_tag|>", ""},
            {"<|pyth", "<|pyth"},
            {"{", "{"},
            {"", ""},
            {"{\"name\": \"f\", \"parameters\": {}} done", "done\n-> f {}"},
        });
}

TEST(ToolForm, Mistral) {
  check("mistral",
        {
            {"[TOOL_CALLS]f[ARGS]{\"a\": 1}", "\n-> f {\"a\": 1}"},
            {"Hm [TOOL_CALLS]f[CALL_ID]abc[ARGS]{}[TOOL_CALLS]g[ARGS]{\"b\": 2}", "Hm\n-> f {}\n-> g {\"b\": 2}"},
            {"[TOOL_CALLS]f{\"a\": 1}", "\n-> f {\"a\": 1}"},
            {"[NOT]", "[NOT]"},
        });
  check("mistral_list",
        {
            {"[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\", \"arguments\": {}}]",
             "\n-> f {\"a\": 1}\n-> g {}"},
            {"[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {}, \"id\": \"abcdefghi\"}]", "\n-> f {}"},
        });
}

TEST(ToolForm, Granite) {
  check("granite", {{"<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]", "\n-> f {\"a\": 1}"},
                    {"<tool_call>[{\"name\": \"f\", \"arguments\": {}}]</tool_call>", "\n-> f {}"},
                    {"text", "text"}});
}

TEST(ToolForm, Apertus) {
  check("apertus",
        {{"<|tools_prefix|>[{\"f\": {\"a\": 1}}, {\"g\": {}}]<|tools_suffix|>", "\n-> f {\"a\": 1}\n-> g {}"}});
}

TEST(ToolForm, Command) {
  check("command",
        {{"<|START_ACTION|>[\n  {\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\": {\"a\": 1}}\n]"
          "<|END_ACTION|>",
          "\n-> f {\"a\": 1}"}});
}

TEST(ToolForm, DeepSeek) {
  check("deepseek", {
                        {"Hm.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": "
                         "1}<｜tool▁call▁end｜><｜tool▁call▁begin｜>g"
                         "<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
                         "Hm.\n-> f {\"a\": 1}\n-> g {}"},
                        {"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\": "
                         "1}\n```<｜tool▁call▁end｜>"
                         "<｜tool▁calls▁end｜>",
                         "\n-> f {\"a\": 1}"},
                    });
}

TEST(ToolForm, Kimi) {
  check("kimi", {{"<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\": 1}"
                  "<|tool_call_end|><|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
                  "<|tool_calls_section_end|>",
                  "\n-> f {\"a\": 1}\n-> g {}"}});
}

TEST(ToolForm, Functionary) {
  check("functionary", {{"<function=f>{\"a\": 1}</function><function=g>{}</function>", "\n-> f {\"a\": 1}\n-> g {}"},
                        {"a <function", "a <function"}});
  check("functionary_recipient",
        {{"all\nHello", "Hello"},
         {"f\n{\"a\": 1}", "\n-> f {\"a\": 1}"},
         {"all\nLet me see.>>>f\n{\"a\": 1}>>>g\n{}", "Let me see.\n-> f {\"a\": 1}\n-> g {}"}});
}

TEST(ToolForm, Gemma4) {
  check("gemma4", {
                      {"<|tool_call>call:f{s:<|\"|>a, \"b\"<|\"|>,n:1.5,l:[true,{k:<|\"|>v<|\"|>}],z:null}<tool_call|>",
                       "\n-> f {\"s\": \"a, \\\"b\\\"\", \"n\": 1.5, \"l\": [true, {\"k\": \"v\"}], \"z\": null}"},
                      {"Hi <|tool_call>call:f{}<tool_call|>", "Hi\n-> f {}"},
                      {"<|tool_call>what", "what"},
                  });
}

// An answer that is nothing but calls of offered tools is calls in every form.
TEST(ToolForm, NothingButCalls) {
  const char* const call = "\n-> f {\"n\": 3}";
  for (const auto& entry : tool_forms())
    check(entry.name,
          {{"{\"name\": \"f\", \"arguments\": {\"n\": 3}}", call},
           {"```json\n{\"name\": \"f\", \"arguments\": {\"n\": 3}}\n```", call},
           {"<tools>\n{\"name\": \"f\", \"arguments\": {\"n\": 3}}\n</tools>", call},
           {"{{\"name\": \"f\", \"arguments\": {\"n\": 3}}}", call},
           {"[{\"name\": \"f\", \"arguments\": {\"n\": 3}}]", call},
           {"{\"name\": \"Bob\", \"age\": 3}", "{\"name\": \"Bob\", \"age\": 3}"},
           {"{\"n\": 3}", "{\"n\": 3}"}},
          &kTools);
  check("hermes", {{"f(n=3)", call}, {"fine", "fine"}, {"```\ncode\n```", "```\ncode\n```"}}, &kTools);
  // Of a format, where a call is one in its form alone.
  const std::string json = "{\"name\": \"f\", \"arguments\": {\"n\": 3}}";
  ToolOutput out;
  const auto parser = make_tool_parser(form("hermes"), &kTools, false);
  parser->push(json, out);
  parser->finish(out, false);
  EXPECT_EQ(flat(out), json);
}

TEST(ToolForm, Lfm2) {
  check("lfm2", {
                    {"<|tool_call_start|>[f(s=\"a, b\", n=1, t=True, o={'k': [1, None]}), g()]<|tool_call_end|>",
                     "\n-> f {\"s\": \"a, b\", \"n\": 1, \"t\": true, \"o\": {\"k\": [1, null]}}\n-> g {}"},
                    {"<|tool_call_start|>[f(s='it\\'s')]<|tool_call_end|> Done.", "Done.\n-> f {\"s\": \"it's\"}"},
                });
}

TEST(ToolForm, GptOss) {
  check(
      "gpt_oss",
      {
          {"<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hello.<|return|>",
           "Hello."},
          {"<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": 1}<|call|>", "\n-> f {\"a\": 1}"},
          {" to=functions.f<|channel|>commentary json<|message|>{\"a\": 1}", "\n-> f {\"a\": 1}"},
          {"plain text", "plain text"},
      });
  EXPECT_EQ(parse_tool_calls(form("gpt_oss"), "<|channel|>analysis<|message|>Hm.<|end|>").reasoning, "Hm.");
}

TEST(ToolForm, Generic) {
  check("generic",
        {{"<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>", "\n-> f {}"},
         {"{\"name\": \"f\", \"parameters\": {\"n\": 1}}", "\n-> f {\"n\": 1}"},
         {"{\"name\": \"Bob\", \"parameters\": {}}", "{\"name\": \"Bob\", \"parameters\": {}}"}},
        &kTools);
}

// Every form reads what it writes, and what its grammar makes.
TEST(ToolForm, ReadsWhatItWrites) {
  const ToolCall call{"f", R"({"s":"a b","n":3})"};
  for (const auto& entry : tool_forms()) {
    const std::string text = write_tool_calls(entry, {&call, 1});
    const ToolOutput out = parse_tool_calls(&entry, text, &kTools);
    ASSERT_EQ(out.calls.size(), 1u) << entry.name << ": " << text;
    EXPECT_EQ(out.calls[0].name, "f") << entry.name;
    EXPECT_EQ(Json::parse(out.calls[0].arguments), Json::parse(call.arguments)) << entry.name;
    EXPECT_EQ(out.content, "") << entry.name;
  }
}

// A call that is cut is there as far as it came, and nothing of its marks is content.
TEST(ToolForm, CutCalls) {
  const ToolCall calls[] = {{"f", R"({"s":"a b"})"}, {"f", R"({"s":"c"})"}};
  for (const auto& entry : tool_forms()) {
    const std::string text = write_tool_calls(entry, calls);
    const ToolOutput whole = parse_tool_calls(&entry, text, &kTools);
    for (std::size_t n = 2; n <= text.size(); ++n) {
      if (n < text.size() && (static_cast<unsigned char>(text[n]) & 0xc0) == 0x80) continue;
      ToolOutput out;
      const auto parser = make_tool_parser(&entry, &kTools);
      parser->push(std::string_view(text).substr(0, n), out);
      parser->finish(out, true);
      // The first bytes may be any text: what is no mark yet, or a form without marks.
      if (n > 8 && entry.name != "functionary_recipient") {
        EXPECT_EQ(out.content, "") << entry.name << ": " << text.substr(0, n);
      }
      ASSERT_LE(out.calls.size(), 2u);
      for (std::size_t i = 0; i < out.calls.size(); ++i)
        EXPECT_TRUE(whole.calls.size() > i && whole.calls[i].arguments.starts_with(out.calls[i].arguments))
            << entry.name << ": " << text.substr(0, n) << "\n"
            << out.calls[i].arguments;
    }
  }
}

// The beginning of a mark is nothing when the answer is cut there.
TEST(ToolForm, CutText) {
  ToolOutput out;
  const auto parser = make_tool_parser(form("hermes"), &kTools);
  parser->push("a <", out);
  parser->finish(out, true);
  EXPECT_EQ(out.content, "a ");
}

// What may be shown while the text is being made.
TEST(ToolForm, HoldsBackWhatMayBecomeACall) {
  const auto shown = [](const char* name, std::string_view text) {
    ToolOutput out;
    make_tool_parser(form(name))->push(text, out);
    return out.content;
  };
  EXPECT_EQ(shown("hermes", "Hi there"), "Hi there");
  EXPECT_EQ(shown("hermes", "Hi there. \n"), "Hi there.");
  EXPECT_EQ(shown("hermes", "a < b and <tool"), "a < b and");
  EXPECT_EQ(shown("hermes", "a <toot"), "a <toot");
  EXPECT_EQ(shown("hermes", "a\n<tool_call>\n{\"name\": \"f\""), "a");
  EXPECT_EQ(shown("hermes", "a\n<tool_call>\nno"), "a\n\nno");
  EXPECT_EQ(shown("llama3", "Hi <|py"), "Hi");
  EXPECT_EQ(shown("llama3", "{\"na"), "");
  EXPECT_EQ(shown("llama3", "{\"name\": \"f\", "), "");
  EXPECT_EQ(shown("llama3", "{\"answer\": 4"), "{\"answer\": 4");
  EXPECT_EQ(shown("llama3", "[1"), "[1");
}

// Text that looks like calls again and again takes linear time, and deep nesting is content.
TEST(ToolForm, HostileText) {
  std::string tags, open = "<tool_call>{\"name\":\"f\",\"arguments\":";
  for (int i = 0; i < 100000; ++i) tags += "<tool_call>{";
  EXPECT_EQ(parse_tool_calls(form("hermes"), tags).content.find("<tool_call>"), std::string::npos);
  for (int i = 0; i < 100000; ++i) open += "{\"a\":";
  EXPECT_EQ(parse_tool_calls(form("hermes"), open).calls.at(0).arguments.size(), 500000u);
  open += "1";
  for (int i = 0; i < 100001; ++i) open += "}";
  open += "</tool_call>";
  EXPECT_EQ(parse_tool_calls(form("hermes"), open).calls.at(0).arguments.size(), 600001u);
  for (const char* object : {"{\"a\":\"", "{a:\"", "{\"a\":'"}) {
    std::string calls;
    for (int i = 0; i < 10000; ++i) calls += std::string("[TOOL_CALLS]f[ARGS]") + object;
    EXPECT_EQ(parse_tool_calls(form("mistral"), calls).calls.size(), 10000u);
  }
  std::string python;
  for (int i = 0; i < 100000; ++i) python += "<|python_tag|>{\"name\"";
  EXPECT_EQ(parse_tool_calls(form("llama3"), python).content.find("<|python_tag|>"), std::string::npos);
}

TEST(ToolForm, IsChosenByTheTemplate) {
  const auto name = [](std::string_view source) {
    const auto* found = find_tool_form(source);
    return found ? std::string(found->name) : std::string("none");
  };
  EXPECT_EQ(name("<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call>"),
            "hermes");
  EXPECT_EQ(name("'<tool_call>\\n<function=' + tool_call.name + '<parameter='"), "qwen3_coder");
  EXPECT_EQ(name("<tool_call>{name}<arg_key> tc.arguments"), "glm");
  EXPECT_EQ(name("{{ '{\"name\": \"' + tool_call.name }} {{ '\"parameters\": ' }}"), "llama3");
  EXPECT_EQ(name("{{ '<|python_tag|>' }}"), "llama3");
  EXPECT_EQ(name("{% for m in messages %}{{ m.content }}{% endfor %}"), "none");
  EXPECT_EQ(flat(parse_tool_calls(nullptr, "<tool_call> a \n")), "<tool_call> a \n");
}

}  // namespace
}  // namespace kvasir::text
