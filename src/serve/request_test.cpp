// From bodies to requests, without a network.
#include "serve/request.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "serve/body.hpp"
#include "serve/dialect.hpp"
#include "serve/log.hpp"
#include "serve/metrics.hpp"
#include "serve/route.hpp"

namespace kvasir::serve {
namespace request_test {

const RequestLimits kLimits{.vocabulary = 100, .choices = 8, .model = "m"};

// "param code" of what a body is refused with; "" when it is not.
template <class F>
std::string refusal(F f) {
  try {
    f();
  } catch (const ApiException& e) {
    EXPECT_FALSE(e.error().message.empty());
    EXPECT_GE(e.error().status, 400);
    return e.error().param + " " + e.error().code;
  }
  return "";
}

std::string chat(const std::string& fields) {
  return refusal(
      [&] { parse_chat(parse_body(R"({"messages": [{"role": "user", "content": "x"}], )" + fields + "}"), kLimits); });
}

std::string completion(const std::string& fields) {
  return refusal([&] { parse_completion(parse_body(R"({"prompt": "x", )" + fields + "}"), kLimits); });
}

// Of any API: what the body leaves out is as the model's file recommends it, and else as the API has it.
TEST(Request, TheModelsFileRecommendsSampling) {
  RequestLimits limits = kLimits;
  limits.sampling.values = {{"temperature", 0.3}, {"top_k", 7}, {"repetition_penalty", 1.2}};
  const auto sampling = [&](const char* path, const std::string& body, const RequestLimits& of) {
    return find_dialect(path)->parse(parse_body(body), of).service.request.sampling;
  };
  for (const auto& [path, body] :
       {std::pair{"/v1/chat/completions", R"({"messages": [{"role": "user", "content": "x"}], "top_p": 0.5)"},
        {"/v1/completions", R"({"prompt": "x", "top_p": 0.5)"},
        {"/v1/messages", R"({"max_tokens": 3, "messages": [{"role": "user", "content": "x"}], "top_p": 0.5)"},
        {"/v1/responses", R"({"input": "x", "top_p": 0.5)"},
        {"/completion", R"({"prompt": "x", "top_p": 0.5)"},
        {"/api/generate", R"({"model": "m", "prompt": "x", "options": {"top_p": 0.5})"}}) {
    SCOPED_TRACE(path);
    const run::SamplingOptions s = sampling(path, std::string(body) + "}", limits);
    EXPECT_EQ(s.temperature, 0.3f);
    EXPECT_EQ(s.top_k, 7);
    EXPECT_EQ(s.repetition_penalty, 1.2f);
    EXPECT_EQ(s.top_p, 0.5f);
    EXPECT_NE(sampling(path, std::string(body) + "}", kLimits).temperature, 0.3f);
  }
  const char* given = R"({"messages": [{"role": "user", "content": "x"}], "temperature": 1, "top_k": 0})";
  EXPECT_EQ(sampling("/v1/chat/completions", given, limits).temperature, 1.0f);
  EXPECT_EQ(sampling("/v1/chat/completions", given, limits).top_k, 0);
}

TEST(Request, EveryFieldHasAType) {
  for (const char* name :
       {"temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty", "top_k", "seed",
        "n", "max_tokens", "max_completion_tokens", "penalty_last_n"}) {
    EXPECT_EQ(chat(fmt::format(R"("{}": "1")", name)), std::string(name) + " invalid_type");
    EXPECT_EQ(chat(fmt::format(R"("{}": true)", name)), std::string(name) + " invalid_type");
    // Seeds are any whole number of 64 bits.
    EXPECT_EQ(chat(fmt::format(R"("{}": -1000)", name)),
              name == std::string_view("seed") ? "" : std::string(name) + " invalid_value");
    EXPECT_EQ(chat(fmt::format(R"("{}": null)", name)), "");
    EXPECT_EQ(chat(fmt::format(R"("{}": 1)", name)), "");
    EXPECT_EQ(chat(fmt::format(R"("{}": 1.0)", name)), "");
  }
  for (const char* name : {"stream", "logprobs", "ignore_eos", "reuse", "cache_prompt", "add_generation_prompt"})
    EXPECT_EQ(chat(fmt::format(R"("{}": 1)", name)), std::string(name) + " invalid_type");
  for (const char* name : {"logit_bias", "stream_options", "response_format", "chat_template_kwargs"})
    EXPECT_EQ(chat(fmt::format(R"("{}": [1])", name)), std::string(name) + " invalid_type");
  EXPECT_EQ(chat(R"("max_tokens": 1.5)"), "max_tokens invalid_type");
  EXPECT_EQ(chat(R"("seed": 18446744073709551615)"), "seed invalid_value");
  EXPECT_EQ(chat(R"("temperature": 1e400)"), " invalid_json");
  EXPECT_EQ(chat(R"("stream_options": {"include_usage": 1})"), "stream_options.include_usage invalid_type");
  EXPECT_EQ(chat(R"("model": 3)"), "model invalid_type");
  EXPECT_EQ(chat(R"("model": "other")"), "model model_not_found");
  EXPECT_EQ(chat(R"("model": "m")"), "");
}

TEST(Request, RangesAndCombinations) {
  EXPECT_EQ(chat(R"("n": 9)"), "n invalid_value");
  EXPECT_EQ(chat(R"("top_logprobs": 3)"), "top_logprobs invalid_value");
  EXPECT_EQ(chat(R"("logprobs": true, "top_logprobs": 21)"), "top_logprobs invalid_value");
  EXPECT_EQ(chat(R"("max_tokens": 0)"), "max_tokens invalid_value");
  EXPECT_EQ(completion(R"("max_tokens": 0)"), "");
  EXPECT_EQ(completion(R"("logprobs": true)"), "logprobs invalid_type");
  EXPECT_EQ(completion(R"("logprobs": 5, "echo": true, "suffix": "x")"), "logprobs unsupported_parameter");
  EXPECT_EQ(completion(R"("max_tokens": -2)"), "max_tokens invalid_value");
  EXPECT_EQ(completion(R"("n_keep": -3)"), "n_keep invalid_value");
  EXPECT_EQ(completion(R"("truncation": 1)"), "truncation invalid_type");
  EXPECT_EQ(completion(R"("best_of": 2)"), "best_of unsupported_parameter");
  EXPECT_EQ(completion(R"("best_of": 2, "n": 2)"), "");
  EXPECT_EQ(refusal([] { parse_completion(parse_body(R"({"prompt": ["a", "b", "c"], "n": 3})"), kLimits); }),
            "n invalid_value");
}

TEST(Request, ResponseFormats) {
  const auto grammar = [](const std::string& format) {
    const std::string body = R"({"messages": [{"role": "user", "content": "x"}], "response_format": )" + format + "}";
    return parse_chat(parse_body(body), kLimits).service.request.grammar;
  };
  EXPECT_FALSE(grammar(R"({"type": "text"})"));
  EXPECT_TRUE(grammar(R"({"type": "json_object"})"));
  EXPECT_TRUE(grammar(R"({"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}})"));
  const auto refused = [](const std::string& format) { return chat("\"response_format\": " + format); };
  EXPECT_EQ(refused("{}"), "response_format.type missing_required_parameter");
  EXPECT_EQ(refused(R"({"type": "xml"})"), "response_format.type invalid_value");
  EXPECT_EQ(refused(R"({"type": 3})"), "response_format.type invalid_type");
  EXPECT_EQ(refused(R"({"type": "json_schema"})"), "response_format.json_schema missing_required_parameter");
  EXPECT_EQ(refused(R"({"type": "json_schema", "json_schema": {"name": "n"}})"),
            "response_format.json_schema.schema missing_required_parameter");
  EXPECT_EQ(refused(R"({"type": "json_schema", "json_schema": {"schema": {"type": "text"}}})"),
            "response_format.json_schema.schema invalid_json_schema");
  EXPECT_EQ(refused(R"({"type": "json_schema", "json_schema": {"schema": {"type": "string", "pattern": "a"}}})"), "");
  EXPECT_EQ(refused(R"({"type": "json_schema", "json_schema": {"strict": true, "schema": {"pattern": "(a)\\1"}}})"),
            "response_format.json_schema.schema invalid_json_schema");
}

TEST(Request, StopsAndBias) {
  EXPECT_EQ(chat(R"("stop": 1)"), "stop invalid_type");
  EXPECT_EQ(chat(R"("stop": [1])"), "stop invalid_type");
  EXPECT_EQ(chat(R"("stop": "")"), "stop invalid_value");
  EXPECT_EQ(chat(R"("stop": ["1","2","3","4","5","6","7","8","9","a","b","c","d","e","f","g","h"])"),
            "stop invalid_value");
  for (const char* bias :
       {R"({"100": 1})", R"({"x": 1})", R"({"-1": 1})", R"({"1 ": 1})", R"({"": 1})", R"({"1": 101})"})
    EXPECT_EQ(chat(fmt::format(R"("logit_bias": {})", bias)), "logit_bias invalid_value") << bias;
  EXPECT_EQ(chat(R"("logit_bias": {"1": "x"})"), "logit_bias invalid_type");
  const ApiRequest r = parse_chat(parse_body(R"({"messages": [{"role": "user", "content": "x"}],
    "stop": "END", "logit_bias": {"3": -1.5}})"),
                                  kLimits);
  EXPECT_EQ(r.service.request.stop, std::vector<std::string>{"END"});
  EXPECT_EQ(r.service.request.sampling.logit_bias.at(3), -1.5f);
}

TEST(Request, Adapters) {
  const auto lora = [](const char* value) {
    const std::string body = fmt::format(R"({{"prompt": "x", "lora": {}}})", value);
    return parse_completion(parse_body(body), kLimits).service.request.lora;
  };
  EXPECT_EQ(lora("null"), "");
  EXPECT_EQ(lora(R"("a=0.5,b")"), "a=0.5,b");
  EXPECT_EQ(lora(R"(["a=0.5", "b"])"), "a=0.5,b");
  EXPECT_EQ(lora("[]"), "none");
  EXPECT_EQ(lora(R"([{"id": 0, "scale": 0.25}, {"id": 12}])"), "0=0.25,12=1");
  EXPECT_EQ(completion(R"("lora": 3)"), "lora invalid_type");
  EXPECT_EQ(completion(R"("lora": ["a", 3])"), "lora[1] invalid_type");
  EXPECT_EQ(completion(R"("lora": [{"scale": 1}])"), "lora[0].id missing_required_parameter");
  EXPECT_EQ(completion(R"("lora": [{"id": -1}])"), "lora[0].id invalid_value");
  EXPECT_EQ(completion(R"("lora": [{"id": 0, "scale": "1"}])"), "lora[0].scale invalid_type");
}

TEST(Request, Prompts) {
  const auto prompt = [](const char* text) {
    return refusal([&] { parse_completion(parse_body(fmt::format(R"({{"prompt": {}}})", text)), kLimits); });
  };
  EXPECT_EQ(prompt("\"\""), "");
  EXPECT_EQ(prompt("[\"a\", \"b\"]"), "");
  EXPECT_EQ(prompt("[1, 2]"), "");
  EXPECT_EQ(prompt("[[1], [2]]"), "");
  EXPECT_EQ(prompt("[]"), "prompt invalid_value");
  EXPECT_EQ(prompt("true"), "prompt invalid_type");
  EXPECT_EQ(prompt("[true]"), "prompt[0] invalid_type");
  EXPECT_EQ(prompt("[\"a\", 1]"), "prompt[1] invalid_type");
  EXPECT_EQ(prompt("[1, \"a\"]"), "prompt[1] invalid_type");
  EXPECT_EQ(prompt("[1, 100]"), "prompt[1] invalid_value");
  EXPECT_EQ(prompt("[-1]"), "prompt[0] invalid_value");
  EXPECT_EQ(prompt("[1.5]"), "prompt[0] invalid_type");
  EXPECT_EQ(prompt("[99999999999999999999]"), "prompt[0] invalid_type");
  EXPECT_EQ(prompt("[[1], [[2]]]"), "prompt[1][0] invalid_type");
  EXPECT_EQ(prompt("null"), "prompt missing_required_parameter");
}

TEST(Request, Messages) {
  const auto messages = [](const char* text) { return refusal([&] { parse_messages(parse_body(text)); }); };
  EXPECT_EQ(messages(R"({"messages": [1]})"), "messages[0] invalid_type");
  EXPECT_EQ(messages(R"({"messages": [{"content": "x"}]})"), "messages[0].role missing_required_parameter");
  EXPECT_EQ(messages(R"({"messages": [{"role": 1, "content": "x"}]})"), "messages[0].role invalid_type");
  EXPECT_EQ(messages(R"({"messages": [{"role": "user", "content": 1}]})"), "messages[0].content invalid_type");
  EXPECT_EQ(messages(R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})"),
            "messages[0].content[0] unsupported_parameter");
  EXPECT_EQ(messages(R"({"messages": [{"role": "assistant", "tool_calls": [{}]}]})"),
            "messages[0].tool_calls[0].function missing_required_parameter");
  EXPECT_EQ(messages(R"({"messages": [{"role": "user", "content": ""}], "tools": [{"type": "function"}]})"),
            "tools[0].function missing_required_parameter");
  EXPECT_EQ(messages(R"({"messages": [{"role": "user", "content": ""}], "functions": []})"),
            "functions unsupported_parameter");
  const auto choice = [&](const std::string& with) {
    const std::string body = R"({"messages": [{"role": "user", "content": ""}], )" + with + "}";
    return messages(body.c_str());
  };
  const std::string tools = R"("tools": [{"function": {"name": "f"}}, {"function": {"name": "g"}}], )";
  EXPECT_EQ(choice(tools + R"("tool_choice": "required")"), "");
  EXPECT_EQ(choice(tools + R"("tool_choice": {"type": "function", "function": {"name": "g"}})"), "");
  EXPECT_EQ(choice(tools + R"("tool_choice": "any")"), "tool_choice invalid_value");
  EXPECT_EQ(choice(tools + R"("tool_choice": 3)"), "tool_choice invalid_value");
  EXPECT_EQ(choice(tools + R"("tool_choice": {"type": "custom"})"), "tool_choice.type unsupported_parameter");
  EXPECT_EQ(choice(tools + R"("tool_choice": {})"), "tool_choice.function missing_required_parameter");
  EXPECT_EQ(choice(tools + R"("tool_choice": {"function": {}})"),
            "tool_choice.function.name missing_required_parameter");
  EXPECT_EQ(choice(tools + R"("tool_choice": {"function": {"name": "h"}})"), "tool_choice.function.name invalid_value");
  EXPECT_EQ(choice(R"("tools": [{"function": {"name": "f", "strict": "yes"}}])"),
            "tools[0].function.strict invalid_type");
  EXPECT_EQ(choice(R"("tool_choice": "required")"), "tool_choice invalid_value");
  EXPECT_EQ(choice(R"("tool_choice": "none")"), "");
  EXPECT_EQ(choice(tools + R"("parallel_tool_calls": false)"), "");
  for (const std::string& before : {std::string(), tools, tools + R"("tool_choice": "none", )"})
    EXPECT_EQ(choice(before + R"("parallel_tool_calls": "no")"), "parallel_tool_calls invalid_type") << before;
  const ChatInput chat_input = parse_messages(parse_body(R"({"messages": [
    {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "name": "n"},
    {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]},
    {"role": "assistant"}]})"));
  EXPECT_EQ(chat_input.messages[0].dump(), R"({"role":"system","content":"ab","name":"n"})");
  EXPECT_TRUE(chat_input.messages[1]["content"].is_null());
  EXPECT_EQ(chat_input.messages[2]["content"], "");
  EXPECT_TRUE(chat_input.add_generation_prompt);
}

TEST(Request, BodiesAreBounded) {
  const auto body = [](const std::string& text) { return refusal([&] { parse_body(text); }); };
  EXPECT_EQ(body(std::string(kDeepestJson, '[') + std::string(kDeepestJson, ']')), "");
  EXPECT_EQ(body(std::string(kDeepestJson + 1, '[') + std::string(kDeepestJson + 1, ']')), " invalid_json");
  EXPECT_EQ(body("[\"" + std::string(1000, '[') + "\\\"" + std::string(1000, '{') + "\"]"), "");
  std::string keys = "{\"a\": 1";
  for (int i = 0; i < 5000; ++i) keys += fmt::format(", \"{}\": 1", i);
  EXPECT_EQ(body(keys + "}"), "");
  for (int i = 0; i < 5000; ++i) keys += fmt::format(", \"x{}\": 1", i);
  EXPECT_EQ(body(keys + "}"), " invalid_json");
  for (const char* bad : {"", " ", "{", "{]", "nul", "{\"a\": \"\xff\"}", "\"\\ud800\"", "1 2"})
    EXPECT_EQ(body(bad), " invalid_json") << bad;
}

TEST(Http, PathsAndHosts) {
  std::string path, query;
  EXPECT_TRUE(split_target("/v1/a%20b?x=%00", path, query));
  EXPECT_EQ(path, "/v1/a b");
  EXPECT_EQ(query, "x=%00");
  for (const char* bad : {"", "*", "v1", "/%", "/%4", "/%4?1", "/%zz", "/%00", "http://x/"})
    EXPECT_FALSE(split_target(bad, path, query)) << bad;
  std::string parameter;
  EXPECT_TRUE(match_path("/v1/models/{id}", "/v1/models/a/b", &parameter));
  EXPECT_EQ(parameter, "a/b");
  EXPECT_FALSE(match_path("/v1/models/{id}", "/v1/models/", &parameter));
  EXPECT_TRUE(host_allowed("LOCALHOST:1", {}));
  EXPECT_FALSE(host_allowed("localhost.example", {}));
  EXPECT_FALSE(host_allowed("[::2]:1", {}));
}

TEST(Log, ValuesAreOneLineOfUtf8) {
  EXPECT_EQ(log_value("abc"), "abc");
  EXPECT_EQ(log_value(""), "\"\"");
  EXPECT_EQ(log_value("a b"), "\"a b\"");
  EXPECT_EQ(log_value("a\nb\x1b\x7f\"\t"), "a?b????");
  EXPECT_EQ(log_value("\xc3\xa4\xff\xc3|\xc2\x9b|\xed\xa0\x80"), "\xc3\xa4??|?|???");
  EXPECT_EQ(log_value(std::string(1000, 'x')).size(), 200u);
  const std::string cut = log_value(std::string(199, 'x') + "\xe4\xbd\xa0");
  EXPECT_EQ(cut, std::string(199, 'x'));
}

// What every entry must keep to, so that a new one is checked without being named here.
TEST(Routes, Conform) {
  for (const auto& entry : routes()) {
    const Route& route = *entry.value;
    SCOPED_TRACE(entry.name);
    EXPECT_TRUE(route.method == "GET" || route.method == "POST" || route.method == "DELETE");
    EXPECT_TRUE(route.path.starts_with("/"));
    const std::size_t brace = route.path.find('{');
    EXPECT_TRUE(brace == std::string_view::npos || (route.path.ends_with('}') && route.path[brace - 1] == '/'));
    ASSERT_NE(route.handle, nullptr);
    std::string parameter;
    const RouteMatch found = find_route(route.method, route.path, &parameter);
    EXPECT_EQ(found.entry->name, entry.name) << "another entry has the same method and path";
    EXPECT_TRUE(found.method_allowed);
    EXPECT_FALSE(find_route("PATCH", route.path, &parameter).method_allowed);
  }
  EXPECT_EQ(find_route("GET", "/nowhere", nullptr).entry, nullptr);
}

TEST(Metrics, Histogram) {
  Histogram h;
  EXPECT_EQ(h.quantile(0.5), 0);
  h.observe(0.0001);
  h.observe(0.002, 3);
  h.observe(5000);
  std::string text;
  h.write(text, "x", "help.");
  EXPECT_NE(text.find("x_bucket{le=\"0.0001\"} 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("x_bucket{le=\"0.003\"} 4\n"), std::string::npos) << text;
  EXPECT_NE(text.find("x_bucket{le=\"1000\"} 4\n"), std::string::npos) << text;
  EXPECT_NE(text.find("x_bucket{le=\"+Inf\"} 5\n"), std::string::npos) << text;
  EXPECT_NE(text.find("x_count 5\n"), std::string::npos) << text;
  EXPECT_DOUBLE_EQ(h.sum(), 5000.0061);
  EXPECT_NEAR(h.quantile(0.5), 0.001 + 0.002 * (2.5 - 1) / 3, 1e-12);
  EXPECT_EQ(h.quantile(0.1), 0.00005);
  EXPECT_EQ(h.quantile(0.9), 1000);  // what is above all bounds is shown as the last one
}

}  // namespace request_test
}  // namespace kvasir::serve
