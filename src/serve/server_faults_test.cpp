// What users of other servers reported, tried on this one with a model behind: each test stands for a kind of fault.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/splitmix.hpp"
#include "run/fingerprint.hpp"
#include "run/scheduler.hpp"
#include "serve/client_fixture.hpp"
#include "serve/template_chat.hpp"
#include "store/open.hpp"

namespace kvasir::serve {
namespace server_faults_test {

// Every role is shown; there is no place for tools.
constexpr const char* kPlain =
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}";
// Tools and calls as Hermes and Qwen have them; other roles than the four are not shown.
constexpr const char* kHermes =
    "{% if tools %}<|tools|>{{ tools | tojson }} <tool_call>{\"name\": ..., \"arguments\": ...}</tool_call>\n{% endif "
    "%}"
    "{% for m in messages %}{% if m.role in ['system', 'user', 'assistant'] %}<|{{ m.role }}|>{{ m.content }}"
    "{% if m.tool_calls %}{% for c in m.tool_calls %}\n<tool_call>\n{\"name\": \"{{ c.function.name }}\", "
    "\"arguments\": "
    "{{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}{% endif %}\n{% elif m.role == 'tool' %}"
    "<|result|>{{ m.content }}\n{% endif %}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}";

class ModelServer {
 public:
  explicit ModelServer(const char* chat_template, std::int32_t ctx = 2048) {
    run::EngineOptions o;
    o.model = std::string(KVASIR_SOURCE_DIR) + "/models/kvasir-books-4m.gguf";
    o.ctx = ctx;
    o.threads = 2;
    engine_ = std::make_unique<run::Engine>(o, run::Engine::Needs{.sequences = 2, .pool_tokens = 2 * ctx, .logits = 2});
    std::vector<std::shared_ptr<store::Tier>> tiers;
    tiers.push_back(store::open_tier("ram:?size=256MiB"));
    library_.emplace(engine_->cache(), store::fingerprint_of(run::describe_cache(*engine_)), std::move(tiers));
    scheduler_.emplace(*engine_, run::SchedulerOptions{.running = 2}, "model", &*library_);
    chat_.emplace(text::ChatTemplate(chat_template, "", ""));
    ServerOptions options;
    options.port = 0;
    server_.emplace(std::move(options), *scheduler_, &*chat_);
    thread_ = std::thread([this] { server_->run(); });
  }
  ~ModelServer() {
    server_->stop();
    server_->stop();
    thread_.join();
  }

  Reply ask(std::string_view path, const Json& body) {
    Client client(server_->port());
    client.send(http_text("POST", path, dump(body)));
    return client.read();
  }
  Reply chat(const Json& more) {
    Json body{{"messages", {{{"role", "user"}, {"content", "hi"}}}}, {"max_tokens", 100}};
    for (const auto& [key, value] : more.items()) body[key] = value;
    return ask("/v1/chat/completions", body);
  }
  Json answer(const Json& more) {
    const Reply reply = chat(more);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return reply.json();
  }
  // "param: message", with the status in front.
  std::string refusal(const Json& more) {
    const Reply reply = chat(more);
    if (reply.status == 200) return "200";
    const Json error = reply.json()["error"];
    return fmt::format("{} {}: {}", reply.status, error["param"].is_string() ? error["param"].get<std::string>() : "",
                       error["message"].get<std::string>());
  }

  std::uint16_t port() const { return server_->port(); }

 private:
  std::unique_ptr<run::Engine> engine_;
  std::optional<store::Library> library_;
  std::optional<run::Scheduler> scheduler_;
  std::optional<TemplateChat> chat_;
  std::optional<Server> server_;
  std::thread thread_;
};

Json tool(const Json& parameters) {
  Json function{{"name", "now"}};
  if (!parameters.is_null()) function["parameters"] = parameters;
  return Json::array({{{"type", "function"}, {"function", function}}});
}

// Report 1, 10: whatever the schema, a forced call's arguments are an object, and the call is found.
TEST(ServerFaults, ForcedCallsHaveObjects) {
  ModelServer s(kHermes);
  for (const char* parameters :
       {"{}", R"({"description": "x"})", R"({"type": ["object", "null"]})", R"({"type": "object"})", "null",
        R"({"allOf": [{"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]},
                      {"type": "object", "properties": {"b": {"type": "boolean"}}, "required": ["b"]}]})"})
    for (int seed = 1; seed <= 3; ++seed) {
      const Json reply = s.answer({{"seed", seed},
                                   {"max_tokens", 300},
                                   {"tool_choice", "required"},
                                   {"parallel_tool_calls", false},
                                   {"tools", tool(Json::parse(parameters))}});
      const Json& choice = reply["choices"][0];
      ASSERT_TRUE(choice["message"].contains("tool_calls")) << parameters << reply.dump();
      EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["name"], "now");
      if (choice["finish_reason"] == "length") continue;  // arguments of any size
      EXPECT_EQ(choice["finish_reason"], "tool_calls");
      const auto arguments =
          Json::parse(choice["message"]["tool_calls"][0]["function"]["arguments"].get<std::string>(), nullptr, false);
      ASSERT_TRUE(arguments.is_object()) << reply.dump();
      if (std::string_view(parameters).find("allOf") != std::string_view::npos) {
        EXPECT_TRUE(arguments["a"].is_boolean() && arguments["b"].is_boolean()) << reply.dump();
      }
    }
}

// Report 3: beside a format a call is still possible, and an answer of the format, too.
TEST(ServerFaults, CallsBesideAFormat) {
  ModelServer s(kHermes);
  const Json tokens = s.ask("/tokenize", {{"content", "<"}}).json()["tokens"];
  ASSERT_EQ(tokens.size(), 1u);
  const Json biased{{tokens[0].dump(), 100}};
  const Json ask{{"temperature", 0},
                 {"max_tokens", 1},
                 {"logit_bias", biased},
                 {"tools", tool({})},
                 {"response_format", {{"type", "json_object"}}},
                 {"logprobs", true}};
  EXPECT_EQ(s.answer(ask)["choices"][0]["logprobs"]["content"][0]["token"], "<");
  Json plain = ask;
  plain.erase("logit_bias");
  plain["max_tokens"] = 200;
  plain["temperature"] = 1;
  for (int seed = 0; seed < 3; ++seed) {
    plain["seed"] = seed;
    const Json choice = s.answer(plain)["choices"][0];
    const Json content = choice["message"]["content"];
    EXPECT_TRUE(choice["finish_reason"] != "stop" || Json::parse(content.get<std::string>()).is_object());
  }
  Json both = ask;
  both.erase("logit_bias");
  both["tool_choice"] = "required";
  EXPECT_NE(s.answer(both)["kvasir"]["warnings"].dump().find("response_format"), std::string::npos);
}

// Report 4: nothing of a call that is cut is content, whole and streamed; arguments come as they are generated.
TEST(ServerFaults, CutCallsLeaveNoMarkup) {
  ModelServer s(kHermes);
  const Json base{
      {"seed", 1},
      {"tool_choice", "required"},
      {"tools", tool(Json::parse(R"({"type": "object", "properties": {"text": {"type": "string", "minLength": 40,
                      "maxLength": 60}}, "required": ["text"]})"))}};
  int cut_calls = 0;
  for (int most = 1; most < 60; most += 3) {
    Json body = base;
    body["max_tokens"] = most;
    const Json choice = s.answer(body)["choices"][0];
    EXPECT_TRUE(choice["message"]["content"].is_null() || choice["message"]["content"] == "") << choice.dump();
    if (choice["message"].contains("tool_calls")) {
      const auto text = choice["message"]["tool_calls"][0]["function"]["arguments"].get<std::string>();
      cut_calls += choice["finish_reason"] == "length";
      EXPECT_TRUE(text.empty() || text[0] == '{') << text;
    }
  }
  EXPECT_GT(cut_calls, 3);
  Json body = base;
  body["stream"] = true;
  body["parallel_tool_calls"] = false;
  body["max_tokens"] = 300;
  const Reply reply = s.chat(body);
  std::string arguments, name, content;
  int parts = 0;
  for (const Json& e : events_of(reply.body)) {
    if (e["choices"].empty()) continue;
    const Json& delta = e["choices"][0]["delta"];
    content += delta.value("content", "");
    if (!delta.contains("tool_calls")) continue;
    const Json& call = delta["tool_calls"][0];
    EXPECT_EQ(call["index"], 0);
    name += call["function"].value("name", "");
    arguments += call["function"].value("arguments", "");
    ++parts;
  }
  EXPECT_EQ(name, "now");
  EXPECT_EQ(content, "");
  EXPECT_TRUE(Json::parse(arguments, nullptr, false).is_object()) << arguments;
  EXPECT_GE(parts, 5);
}

// Report 5: a model whose template has no place for tools gets them in words, and the answer says so.
TEST(ServerFaults, ToolsWithoutAPlace) {
  ModelServer s(kPlain);
  const Json with = s.answer({{"max_tokens", 1}, {"tools", tool({})}}), without = s.answer({{"max_tokens", 1}});
  EXPECT_GT(with["usage"]["prompt_tokens"].get<int>(), without["usage"]["prompt_tokens"].get<int>() + 20);
  EXPECT_NE(with["kvasir"]["warnings"][0].get<std::string>().find("tools"), std::string::npos);
  EXPECT_FALSE(without["kvasir"].contains("warnings"));
  const Json forced = s.answer({{"tools", tool({})}, {"tool_choice", "required"}, {"parallel_tool_calls", false}});
  EXPECT_EQ(forced["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "now");
}

// Report 7, 24: histories as clients keep them.
TEST(ServerFaults, Histories) {
  ModelServer s(kHermes);
  for (const char* arguments : {"", " ", "{}"}) {
    const Json call{{"id", "c1"}, {"type", "function"}, {"function", {{"name", "now"}, {"arguments", arguments}}}};
    s.answer({{"max_tokens", 1},
              {"messages",
               {{{"role", "user"}, {"content", "hi"}},
                {{"role", "assistant"}, {"content", nullptr}, {"tool_calls", {call}}},
                {{"role", "tool"}, {"tool_call_id", "c1"}, {"content", "12:00"}}}}});
  }
  const auto role = [&](const char* name) {
    return s.refusal({{"max_tokens", 1},
                      {"messages", {{{"role", "user"}, {"content", "hi"}}, {{"role", name}, {"content", "12:00"}}}}});
  };
  EXPECT_EQ(
      role("function"),
      "400 messages[1].role: messages[1].role: 'function', expected one of system, developer, user, assistant, tool: "
      "the chat template does not show other roles");
  EXPECT_EQ(role("assistant"), "200");
  const Reply responses = s.ask(
      "/v1/responses", {{"instructions", "i"},
                        {"input", {{{"role", "user"}, {"content", "hi"}}, {{"role", "function"}, {"content", "x"}}}}});
  EXPECT_EQ(responses.status, 400) << responses.body;
  EXPECT_EQ(responses.json()["error"]["param"], "input[1].role");
  EXPECT_EQ(responses.json()["error"]["message"].get<std::string>().find("input[1].role: 'function'"), 0u);
  EXPECT_EQ(ModelServer(kPlain).refusal({{"messages", {{{"role", "narrator"}, {"content", "x"}}}}}), "200");
}

// Report 11, 12, 13, 26, 30: schemas hold wherever they stand, and what is asked for twice or not there is refused.
TEST(ServerFaults, Schemas) {
  ModelServer s(kPlain);
  const Json k = Json::parse(R"({"type": "object", "properties": {"k": {"type": "boolean"}}, "required": ["k"]})");
  const auto content = [&](const Json& more) {
    Json body = more;
    body["seed"] = 1;
    return s.answer(body)["choices"][0]["message"]["content"].get<std::string>();
  };
  for (const Json& ask :
       {Json{{"response_format", {{"type", "json_object"}, {"schema", k}}}}, Json{{"guided_json", k}},
        Json{{"json_schema", k}}, Json{{"guided_json", k.dump()}}, Json{{"structured_outputs", {{"json", k}}}}})
    EXPECT_TRUE(Json::parse(content(ask))["k"].is_boolean()) << ask.dump();
  EXPECT_EQ(content({{"guided_choice", {"yes"}}}), "yes");
  EXPECT_EQ(content({{"guided_regex", "(ab){2}"}}), "abab");
  EXPECT_EQ(content({{"guided_regex", "^(?=a)[a-z]{1}$"}}), "a");
  EXPECT_EQ(s.refusal({{"guided_regex", "a)|(b"}}).substr(0, 17), "400 guided_regex:");
  const auto of = [&](const char* schema, bool strict = false) {
    return Json{{"response_format",
                 {{"type", "json_schema"},
                  {"json_schema", {{"name", "x"}, {"strict", strict}, {"schema", Json::parse(schema)}}}}}};
  };
  EXPECT_TRUE(Json::parse(content(of(R"({"$ref": "#/definitions/Box%3Cint%3E", "definitions": {"Box<int>":
      {"type": "object", "properties": {"v": {"type": "boolean"}}, "required": ["v"]}}})")))["v"]
                  .is_boolean());
  const Json pair = Json::parse(content(
      of(R"({"type": "array", "items": [{"type": "boolean"}, {"type": "integer"}], "minItems": 2, "maxItems": 2})")));
  EXPECT_TRUE(pair.size() == 2 && pair[0].is_boolean() && pair[1].is_number_integer());
  EXPECT_TRUE(
      Json::parse(content(of(R"({"type": "string", "pattern": "^[0-9]{3}-[a-f]$"})"))).get<std::string>().find('-') ==
      3);
  const Json loose =
      s.answer(of(R"({"type": "array", "uniqueItems": true, "items": {"type": "boolean"}, "maxItems": 2})"));
  EXPECT_EQ(loose["kvasir"]["warnings"][0],
            "response_format.json_schema.schema: uniqueItems is not held: items may be equal");
  EXPECT_NE(s.refusal(of(R"({"type": "array", "uniqueItems": true, "items": {"type": "boolean"}})", true)).find("400"),
            std::string::npos);
  EXPECT_EQ(s.refusal({{"grammar", "root ::= \"a\""}}).substr(0, 12), "400 grammar:");
  EXPECT_NE(s.refusal({{"guided_json", k}, {"guided_choice", {"a"}}}).find("stands beside"), std::string::npos);
}

// Report 21, 22, 25 and what was met beside: fields and their bounds.
TEST(ServerFaults, FieldsAndBounds) {
  ModelServer s(kPlain, 512);
  EXPECT_EQ(s.answer({{"seed", -5}, {"max_tokens", 3}})["choices"][0]["message"]["content"],
            s.answer({{"seed", -5}, {"max_tokens", 3}})["choices"][0]["message"]["content"]);
  EXPECT_EQ(s.refusal({{"temperature", -9}}), "400 temperature: 'temperature': -9, expected a number from 0");
  const auto completion = [&](int tokens, int most) {
    return s.ask("/v1/completions", {{"prompt", std::vector<int>(static_cast<std::size_t>(tokens), 100)},
                                     {"max_tokens", most},
                                     {"ignore_eos", true}});
  };
  const Json error = completion(512, 1).json()["error"];
  EXPECT_EQ(error["code"], "context_length_exceeded");
  EXPECT_EQ(
      error["message"],
      "This model's maximum context length is 512 tokens. However, 'prompt' has 512 tokens, which leaves none for the "
      "answer. Please reduce its length.");
  for (const int tokens : {509, 510, 511}) {
    const Json usage = completion(tokens, 50).json()["usage"];
    EXPECT_EQ(usage["total_tokens"], 512) << tokens;
  }
  const Json pieces = s.ask("/tokenize", {{"content", "\U0001f999"}, {"with_pieces", true}}).json()["tokens"];
  std::string bytes;
  for (const Json& t : pieces) {
    if (t["piece"].is_string())
      bytes += t["piece"].get<std::string>();
    else
      for (const Json& b : t["piece"]) bytes += static_cast<char>(b.get<int>());
  }
  EXPECT_EQ(bytes, "\U0001f999");
}

// Report 31: tools that may be called are named.
TEST(ServerFaults, AllowedTools) {
  ModelServer s(kHermes);
  Json tools = tool({});
  tools.push_back({{"type", "function"}, {"function", {{"name", "later"}}}});
  const auto allowed = [&](const char* mode, const char* name) {
    return Json{
        {"tools", tools},
        {"parallel_tool_calls", false},
        {"tool_choice",
         {{"type", "allowed_tools"},
          {"allowed_tools", {{"mode", mode}, {"tools", {{{"type", "function"}, {"function", {{"name", name}}}}}}}}}}};
  };
  for (int seed = 0; seed < 3; ++seed) {
    Json body = allowed("required", "later");
    body["seed"] = seed;
    EXPECT_EQ(s.answer(body)["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "later");
  }
  EXPECT_NE(s.refusal(allowed("auto", "never")).find("is none of the tools"), std::string::npos);
}

// Words that are made up, so that nothing is shared but what is meant to be.
std::string words(std::size_t count, std::uint64_t seed) {
  constexpr const char* kWords[] = {"river", "stone", "lamp",  "winter", "horse", "letter", "garden", "silver",
                                    "road",  "bread", "music", "glass",  "cloud", "island", "paper",  "forest"};
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += std::string(i > 0 ? " " : "") + kWords[splitmix64(seed) % 16];
  return text;
}

// Report 15: a shared system message is reused by the second request, whatever its length.
TEST(ServerFaults, SharedSystemMessage) {
  ModelServer s(kPlain, 8192);
  for (const int length : {50, 100, 200, 300, 400, 500, 600, 700, 800, 1000, 1500, 2000, 2500, 3000, 4000}) {
    std::string system = words(static_cast<std::size_t>(length), 1000 + static_cast<std::uint64_t>(length));
    const auto chat = [&](const char* question) {
      return Json{{"messages", {{{"role", "system"}, {"content", system}}, {{"role", "user"}, {"content", question}}}}};
    };
    const auto tokens = [&](const char* question) {
      return s.ask("/tokenize", chat(question)).json()["tokens"].get<std::vector<int>>();
    };
    // About so many tokens.
    while (static_cast<int>(tokens("Who is Anna?").size()) > length + 12 && system.size() > 40) {
      const double part = static_cast<double>(length) / static_cast<double>(tokens("Who is Anna?").size());
      system.resize(static_cast<std::size_t>(static_cast<double>(system.size()) * std::min(part + 0.01, 0.99)));
    }
    const std::vector<int> first = tokens("Who is Anna?"), second = tokens("What happened then?");
    const auto differ = std::mismatch(first.begin(), first.end(), second.begin(), second.end());
    const auto shared = differ.first - first.begin();
    Json body = chat("Who is Anna?");
    body["max_tokens"] = 1;
    s.answer(body);
    body = chat("What happened then?");
    body["max_tokens"] = 1;
    const Json reply = s.answer(body);
    const auto cached = reply["usage"]["prompt_tokens_details"]["cached_tokens"].get<std::int64_t>();
    EXPECT_GE(cached * 100, shared * 95) << length << " tokens, " << shared << " shared: " << reply["kvasir"].dump();
  }
}

// A client that leaves at half of a prompt of 16K tokens leaves what was computed: the retry computes the rest.
TEST(ServerFaults, DisconnectLeavesPages) {
  ModelServer s(kPlain, 20000);
  const Json body{{"messages", {{{"role", "user"}, {"content", words(14500, 7)}}}},
                  {"max_tokens", 1},
                  {"stream", true},
                  {"return_progress", true}};
  std::int64_t total = 0, processed = 0;
  {
    Client client(s.port());
    client.send(http_text("POST", "/v1/chat/completions", dump(body)));
    // The last event of progress that has come whole.
    const auto number = [&](const char* name) {
      const std::size_t at = client.input().rfind(name);
      return at == std::string::npos ? 0 : std::atoll(client.input().c_str() + at + std::strlen(name));
    };
    while (total == 0 || 2 * processed < total) {
      ASSERT_TRUE(client.fill()) << client.input();
      if (client.input().rfind("remaining_ms") == std::string::npos) continue;
      total = number("\"total\":");
      processed = number("\"processed\":");
    }
  }
  ASSERT_GT(total, 16000);
  Json again = body;
  again["stream"] = false;
  const Json receipt = s.ask("/v1/chat/completions", again).json()["kvasir"];
  const auto computed = total - receipt["reused_tokens"].get<std::int64_t>();
  EXPECT_LE(computed * 100, total * 55) << total << ", left after " << processed << ": " << receipt.dump();
}

// Report 19, 20 and what SDKs met: encodings, targets in absolute form, connections that go on.
TEST(ServerFaults, Http) {
  TestServer s;
  const auto raw = [&](const std::string& request) {
    Client client(s.port());
    client.send(request);
    return client.read();
  };
  const Reply zipped = raw(http_text("POST", "/v1/completions", "\x1f\x8b\x08", "Content-Encoding: gzip\r\n"));
  EXPECT_EQ(zipped.status, 415);
  EXPECT_NE(zipped.json()["error"]["message"].get<std::string>().find("gzip"), std::string::npos);
  EXPECT_EQ(raw(http_text("POST", "/v1/completions", R"({"prompt": "a"})", "Content-Encoding: identity\r\n")).status,
            200);
  EXPECT_EQ(raw("GET http://localhost/v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 200);
  EXPECT_EQ(raw("GET HTTP://127.0.0.1:80/v1/models?x=1 HTTP/1.1\r\nHost: other\r\n\r\n").status, 200);
  EXPECT_EQ(raw("GET http://attacker.example/v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 403);
  EXPECT_EQ(raw("GET http:///v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n").status, 400);
  // What is answered before its body is read does not stand in the way of the next request.
  for (const char* path : {"/nothing", "/health", "/v1/models"}) {
    Client client(s.port());
    client.send(http_text("POST", path, std::string(20000, 'x')));
    const Reply first = client.read();
    EXPECT_TRUE(first.status == 404 || first.status == 405) << path << first.status;
    EXPECT_EQ(first.header("connection"), "");
    client.send(http_text("GET", "/v1/models"));
    EXPECT_EQ(client.read().status, 200) << path;
  }
  // A long one, and one of unknown length, end the connection and say so.
  for (const std::string& head :
       {std::string("Content-Length: 1000000\r\n"), std::string("Transfer-Encoding: chunked\r\n")}) {
    const Reply r = raw("POST /nothing HTTP/1.1\r\nHost: localhost\r\n" + head + "\r\n");
    EXPECT_EQ(r.status, 404);
    EXPECT_EQ(r.header("connection"), "close") << head;
  }
}

}  // namespace server_faults_test
}  // namespace kvasir::serve
