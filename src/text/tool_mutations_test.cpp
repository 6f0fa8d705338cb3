// Answers whose tags are cut, doubled and dropped, in every form. KVASIR_MUTATIONS=N runs N for each, and
// KVASIR_MUTATIONS_FROM is the first one's seed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "text/tool_mutations_fixture.hpp"

namespace kvasir::text {
namespace {

std::uint64_t number_from(const char* name, std::uint64_t other) {
  const char* text = std::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : other;
}

// What runs of many mutations found, a case of each kind: content, then the calls.
TEST(ToolMutations, FoundOnce) {
  const auto read = [](std::string_view name, std::string_view text, std::size_t piece, bool cut = false) {
    std::string all;
    for (const auto& form : tool_forms()) {
      if (form.name != name) continue;
      ToolOutput out;
      const auto parser = make_tool_parser(&form, &mutation_tools());
      for (std::size_t i = 0; i < text.size(); i += piece) parser->push(text.substr(i, piece), out);
      parser->finish(out, cut);
      all += out.content;
      for (const ToolCall& call : out.calls) all += "|" + call.name + " " + call.arguments;
    }
    return all;
  };
  for (const std::size_t piece : {1, 7, 1000}) {
    // A key that lost a quote ends at the next mark of the form, and so does a string between the form's own quotes.
    EXPECT_EQ(
        read("functionary", "<function=look_up>{\"day:-9}</function>\n<function=look_up>{\"day\":9}</function>", piece),
        "|look_up {\"day:-9}|look_up {\"day\":9}");
    EXPECT_EQ(read("mistral", "[TOOL_CALLS]look_up[ARGS]{\"day\"7}look_up[ARGS]{\"day\":9}", piece),
              "{\"day\":9}|look_up {\"day\\\"7}look_up");
    EXPECT_EQ(read("mistral", "[TOOL_CALLS]look_up[ARGS]{\"tags\":[\"a\",b\"]}look_up[ARGS]{\"note\":\"c\"}", piece),
              "{\"note\":\"c\"}|look_up {\"tags\":[\"a\",\"b\", \"]}look_up");
    // The same where the first mark is missing, too.
    EXPECT_EQ(
        read("gemma4", "call:look_up{note:<|\"|>a}<tool_call|><|tool_call>call:look_up{note:<|\"|>b<|\"|>}", piece),
        "|look_up {\"note\": \"a}|look_up {\"note\": \"b\"}");
    EXPECT_EQ(read("gemma4", "call:look_up{more:{day:1}<tool_call|><|tool_call>call:look_up{day:2}", piece),
              "|look_up {\"more\": {\"day\": 1}|look_up {\"day\": 2}");
    EXPECT_EQ(read("mistral", "[look_up[ARGS]{\"note\":\"a\"[TOOL_CALLS]look_up[ARGS]{\"day\":2}", piece),
              "|look_up {\"note\":\"a\"|look_up {\"day\":2}");
    // A mark behind a blank is of a sentence only where the sentence goes on.
    EXPECT_EQ(read("gemma4", "call:look_up day:1,note:[1, <|\"|>,any:2}", piece),
              "call:look_up day:1,note:[1, ,any:2}");
    EXPECT_EQ(read("gemma4", "Then comes <|\"|>, or <|\"|> and <|tool_call>.", piece),
              "Then comes <|\"|>, or <|\"|> and <|tool_call>.");
    // A value may speak of marks.
    EXPECT_EQ(read("kimi", "look_up<|tool_call_argument_begin|>{\"note\":\"<|tool_call_end|>\"}", piece),
              "|look_up {\"note\":\"<|tool_call_end|>\"}");
    // Text behind a tag of which nothing came.
    EXPECT_EQ(read("glm", "<tool_call>now\n<arg_key>\nDone", piece), "Done|now {}");
    // An object that is damaged ends at a mark, though a string of it seems to go on.
    EXPECT_EQ(read("qwen3_coder", "<tool_call>\n<function=look_up>\n{\"more\":\"\",n\":[1]}</function>", piece),
              "|look_up {\"more\":\"\",\"n\"\":[1]}");
    EXPECT_EQ(read("mistral", "look_up[ARGS]{exact\":true}[TOOL_CALLS]look_up[ARGS]{\"day\":42}", piece),
              "|look_up {\"exact\"\":true}|look_up {\"day\":42}");
    EXPECT_EQ(read("hermes",
                   "\n{\"name\": \"look_up\", \"arguments\": {\"tags\":[\"a]}}</tool_call>\n<tool_call>\n"
                   "{\"name\": \"look_up\", \"arguments\": {\"day\":8}}\n</tool_call>",
                   piece),
              "|look_up {\"tags\":[\"a]}}|look_up {\"day\": 8}");
    // A text that lost its end, where the next tag is damaged, or one that cannot stand in a text.
    EXPECT_EQ(read("minimax",
                   "<invoke name=\"look_up\">\n<parameter name=\"note\">a\n</invoke>\n\n<arameter "
                   "name=\"exact\">true</parameter>\n</invoke>",
                   piece),
              "<arameter name=\"exact\">true\n|look_up {\"note\": \"a\"}");
    EXPECT_EQ(read("glm",
                   "<tool_call>look_up\n<arg_key>note</arg_key>\n<arg_value>a</tool_call>look_up\nday</arg_key>\n"
                   "<arg_value>-11</arg_value>\n</tool_call>",
                   piece),
              "look_up\nday\n-11\n|look_up {\"note\": \"a\"}");
    // Text behind a parameter that is there twice, and behind brackets that lost their end.
    EXPECT_EQ(read("minimax",
                   "<invoke name=\"look_up\">\n<parameter name=\"note\">a</parameter>\n<parameter name=\"note\">\nDone",
                   piece),
              "Done|look_up {\"note\": \"a\"}");
    EXPECT_EQ(read("gemma4", "<|tool_call>call:look_up{more:{day:1}\nDone", piece),
              "Done|look_up {\"more\": {\"day\": 1}");
    // What only looks like a call in its first bytes.
    EXPECT_EQ(read("deepseek", "<｜tool▁call▁begin｜>{\"note\":\"a", piece, true), "{\"note\":\"a");
    const std::string_view list = "[{\"name\": \"now\", \"arguments\": {}}, {\"nam\": \"now\", \"a";
    EXPECT_EQ(read("granite", list, piece, true), list);
  }
}

TEST(ToolMutations, NothingLeaksAndStreamsAreAsWholeAnswers) {
  const std::uint64_t runs = number_from("KVASIR_MUTATIONS", 500), from = number_from("KVASIR_MUTATIONS_FROM", 1);
  const char* only = std::getenv("KVASIR_MUTATIONS_FORM");
  std::uint64_t all = 0;
  for (const auto& form : tool_forms()) {
    if (only && form.name != only) continue;
    int faults = 0;
    for (std::uint64_t seed = from; seed < from + runs && faults < 4; ++seed, ++all) {
      AnswerMutator answer(form, seed);
      const std::string fault = answer.fault();
      faults += !fault.empty();
      EXPECT_EQ(fault, "") << form.name << ", seed " << seed << "\n"
                           << answer.text() << "\n  made of\n"
                           << answer.original();
    }
  }
  std::printf("%llu answers\n", static_cast<unsigned long long>(all));
}

}  // namespace
}  // namespace kvasir::text
