// What the server gave out goes back: every chat template, kind of answer and API. The second prompt holds the first
// answer, token for token, wherever the template shows it.
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>

#include "base/file.hpp"
#include "base/test_data_fixture.hpp"
#include "serve/client_fixture.hpp"
#include "serve/template_chat.hpp"
#include "text/tool_form.hpp"

namespace kvasir::serve {
namespace {

const std::string kShared = fixture::test_data("templates");

// Own templates in the manner of published ones: JSON in tags with thinking, ids of nine letters, a list that grows,
// channels, and tags around parameters.
const std::map<std::string, std::string> kOwn = {
    {"hermes",
     "{% if tools %}<|im_start|>system\n<tools>{{ tools | tojson }}</tools> <tool_call></tool_call><|im_end|>\n"
     "{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.reasoning_content %}<think>\n"
     "{{ m.reasoning_content }}\n</think>\n\n{% endif %}{{ m.content }}{% for c in m.tool_calls or [] %}\n<tool_call>\n"
     "{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}\n</tool_call>"
     "{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"},
    {"nine",
     "{% for m in messages %}{% if m.role == 'user' %}{% if tools and loop.first %}[AVAILABLE_TOOLS]{{ tools | tojson "
     "}}"
     "[/AVAILABLE_TOOLS]{% endif %}[INST]{{ m.content }}[/INST]{% elif m.role == 'tool' %}{% if m.tool_call_id|length "
     "!= 9 %}"
     "{{ raise_exception('nine letters') }}{% endif %}[TOOL_RESULTS]{{ m.tool_call_id + m.content }}[/TOOL_RESULTS]"
     "{% elif m.tool_calls %}{% for c in m.tool_calls %}{% if c.id|length != 9 %}{{ raise_exception('nine letters') }}"
     "{% endif %}[TOOL_CALLS]{{ c.function.name }}[CALL_ID]{{ c.id }}[ARGS]{{ c.function.arguments | tojson }}"
     "{% endfor %}</s>{% else %}{{ m.content }}</s>{% endif %}{% endfor %}"},
    {"grows",
     "{% set ns = namespace(ids=[]) %}{% if tools %}<|im_system|>{{ tools | tojson }}<|im_end|>{% endif %}"
     "{% for m in messages %}<|im_{{ m.role }}|>{% if m.role == 'tool' %}## Return of {{ ns.ids.pop(0) }}\n{% endif %}"
     "{{ m.content }}{% if m.tool_calls %}<|tool_calls_section_begin|>{% for c in m.tool_calls %}"
     "{% set id = 'functions.' ~ c.function.name ~ ':' ~ loop.index0 %}{% do ns.ids.append(id) %}<|tool_call_begin|>{{ "
     "id }}"
     "<|tool_call_argument_begin|>{{ c.function.arguments | tojson }}<|tool_call_end|>{% endfor %}"
     "<|tool_calls_section_end|>{% endif %}<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_assistant|>{% "
     "endif %}"},
    {"tags",
     "{% for t in tools or [] %}<tool>{{ t.function.name + t.function.description }}{% for k, v in "
     "t.function.parameters.properties.items() %}{{ k }}{% endfor %}</tool>{% endfor %}<tool_call>\n<function=x>\n"
     "<parameter=y>{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}\n"
     "<tool_call>\n<function={{ c.function.name }}>\n{% for k, v in c.function.arguments.items() %}<parameter={{ k "
     "}}>\n"
     "{{ v }}\n</parameter>\n{% endfor %}</function>\n</tool_call>{% endfor %}<|im_end|>\n{% endfor %}"
     "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"},
};

const char* const kResult = "result!";
const Json kTools = Json::parse(R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object",
    "properties": {"day": {"type": "integer"}, "note": {"type": "string"}}}}}])");

std::string end_token(const std::string& source) {
  for (const char* name : {"<|im_end|>", "<|call|>", "<|eot_id|>", "<turn|>", "<end_of_turn>", "<|end|>",
                           "<|observation|>", "<｜end▁of▁sentence｜>", "<|assistant_end|>", "<|end_of_text|>", "</s>"})
    if (source.find(name) != source.npos) return name;
  return "</s>";
}

// Bytes, and what looks like a control token of some family in `texts`.
weights::Metadata vocabulary_of(const std::string& texts, const std::string& end) {
  weights::Metadata m = text::byte_level_vocabulary("gpt-2");
  std::vector<std::string> tokens = *m.get_strings("tokenizer.ggml.tokens");
  std::vector<std::int64_t> types = *m.get_ints("tokenizer.ggml.token_type");
  const std::regex mark(
      R"(<\|[^<>| ]{1,40}\|?>|<[^<>| ]{1,40}\|>|<｜[^<>｜]{1,60}｜>|</?(think|tool_call|arg_key|arg_value)>|\[/?[A-Z_]{3,20}\]|</?s>|<[be]os>)");
  std::set<std::string> marks{end, "<s>", "</s>"};
  for (std::sregex_iterator i(texts.begin(), texts.end(), mark), none; i != none; ++i) marks.insert(i->str());
  for (const std::string& one : marks) {
    if (std::find(tokens.begin(), tokens.end(), one) != tokens.end()) continue;
    const bool known = one.starts_with("<th") || one.starts_with("</th") || one.starts_with("<to") ||
                       one.starts_with("</to") || one.starts_with("<arg") || one.starts_with("</arg");
    tokens.push_back(one);
    types.push_back(known ? 4 : 3);
    if (one == end) m.set("tokenizer.ggml.eos_token_id", std::int64_t(tokens.size() - 1));
  }
  m.set("tokenizer.ggml.tokens", tokens);
  m.set("tokenizer.ggml.token_type", types);
  return m;
}

// What a client makes of an answer.
struct Told {
  std::string content, reasoning;
  std::vector<text::ToolCall> calls;
};

struct Kind {
  const char* name;
  std::string answer;
  bool cut = false;
  std::optional<Told> told = {};  // without: it is broken, or cut
};

std::vector<Kind> answers_of(const text::ChatTemplate& chat) {
  const Entry<text::ToolForm>& form = *chat.tool_form();
  const std::vector<text::ToolCall> calls = {{"f", R"({"day":3,"note":"a b"})"}, {"f", R"({"day":4})"}};
  const std::string one = text::write_tool_calls(form, std::span(calls).first(1));
  const std::vector<text::ToolCall> first(calls.begin(), calls.begin() + 1);
  std::string tight = one;  // with other blanks than tojson's
  for (std::size_t at = 0; (at = tight.find("\": ", at)) != tight.npos; ++at) tight.erase(at + 2, 1);
  std::string broken = tight;
  if (const std::size_t brace = broken.rfind('}'); brace != broken.npos) broken.erase(brace, 1);
  std::string thought;
  if (form.name == "gpt_oss") {
    thought = "<|channel|>analysis<|message|>Hm, hm.<|end|><|start|>assistant";
  } else if (const text::ReasoningMarks* marks = chat.reasoning()) {
    thought = marks->label.empty() ? marks->open + "\nHm, hm.\n" + marks->close + "\n\n"
                                   : marks->open + marks->label + "\nHm, hm.\n" + marks->close;
  }
  const std::string hm = thought.empty() ? "" : "Hm, hm.";
  std::vector<Kind> all = {{"one call", "I look.\n" + tight}, {"bare call", one, false, Told{"", "", first}}};
  if (!form.value->bare) all[0].told = Told{"I look.", "", first};
  const bool channels = form.name == "gpt_oss";  // whose answer ends with its first call
  all.push_back({"two calls", text::write_tool_calls(form, calls), false, Told{"", "", channels ? first : calls}});
  all.push_back({"call with reasoning", thought + tight, false, Told{"", hm, first}});
  if (!thought.empty())
    all.push_back(
        {"reasoning", thought + (channels ? "<|channel|>final<|message|>" : "") + "Yes.", false, Told{"Yes.", hm, {}}});
  all.push_back({"broken call", broken});
  all.push_back({"cut call", tight, true});
  return all;
}

class RoundTrip {
 public:
  RoundTrip(const std::string& name, const std::string& source) : name_(name), end_(end_token(source)) {
    const text::ChatTemplate chat(source, "<s>", end_);
    kinds_ = answers_of(chat);
    format_form_ = chat.tool_form()->value;
    std::string texts = source;
    for (const Kind& kind : kinds_) texts += kind.answer;
    vocabulary_ = vocabulary_of(texts, end_);
    format_ = std::make_unique<TemplateChat>(text::ChatTemplate(source, "<s>", end_));
  }

  void run() {
    FakeOptions fake{.context = 1 << 20};
    fake.vocabulary = vocabulary_;
    fake.answer = [this](const run::Request&) { return ids_; };
    TestServer s(std::move(fake), {}, false, format_.get());
    server_ = &s;
    for (const Kind& kind : kinds_)
      for (const char* path : {"/v1/chat/completions", "/v1/responses", "/v1/messages", "/api/chat"})
        for (const bool stream : {false, true}) one(kind, path, stream);
  }

  int exact = 0, shown = 0;

 private:
  const text::Tokenizer& tokenizer() const { return *server_->service.tokenizer(); }

  // Text in single bytes: no text is encoded so.
  std::vector<std::int32_t> ids_of(const std::string& text) const {
    std::vector<std::int32_t> ids;
    for (std::size_t at = 0; at < text.size();) {
      const auto match = marks(text, at);
      const std::size_t end = match.first < 0 ? text.size() : match.second;
      for (; at < end; ++at) ids.push_back(static_cast<unsigned char>(text[at]));
      if (match.first < 0) break;
      ids.push_back(match.first);
      at += tokenizer().piece(match.first).size();
    }
    return ids;
  }
  // The first mark of `text` from `at` on, and where.
  std::pair<std::int32_t, std::size_t> marks(const std::string& text, std::size_t at) const {
    std::pair<std::int32_t, std::size_t> best{-1, text.size()};
    for (std::int32_t id = 256; id < tokenizer().size(); ++id) {
      const std::string_view piece = tokenizer().piece(id);
      if (piece.size() < 3 || (piece[0] != '<' && piece[0] != '[')) continue;
      const std::size_t found = text.find(piece, at);
      if (found < best.second || (found == best.second && best.first >= 0 && found != text.npos &&
                                  piece.size() > tokenizer().piece(best.first).size()))
        best = {id, found};
    }
    return best;
  }

  Json ask(const char* path, const Json& body, const std::string& where) {
    const Reply reply = server_->ask("POST", path, dump(body));
    EXPECT_EQ(reply.status, 200) << where << "\n" << reply.body << "\n" << dump(body);
    if (reply.status != 200) return {};
    return body.value("stream", false) ? Json(reply.body) : reply.json();
  }

  void one(const Kind& kind, const std::string& path, bool stream) {
    const std::string where = name_ + ", " + kind.name + ", " + path + (stream ? ", streamed" : "");
    const Json user{{"role", "user"}, {"content", "hi " + where}};
    ids_ = ids_of(kind.answer);
    const std::size_t most = ids_.size() * 6 / 10;
    ids_.push_back(tokenizer().eos());
    Json body = first_body(path, user);
    const char* limit = path == "/v1/responses" ? "max_output_tokens" : "max_tokens";
    if (kind.cut && path == "/api/chat") body["options"] = {{"num_predict", most}};
    if (kind.cut && path != "/api/chat") body[limit] = most;
    if (!kind.cut && path == "/v1/messages") body[limit] = 4096;
    if (stream) {  // what clients make of it is that of the whole answer, which comes next
      body["stream"] = true;
      ask(path.c_str(), body, where);
    }
    body["stream"] = false;
    const Json first = ask(path.c_str(), body, where);
    if (first.is_null()) return;
    check_told(kind, told(path, first), first, where);
    const auto prompt = server_->service.requests().back().request.prompt;
    const Json second = second_body(path, body, first);
    ask(path.c_str(), second, where);
    std::vector<std::int32_t> answer(ids_.begin(), ids_.end() - 1);
    if (kind.cut) answer.resize(most);
    const auto end =
        std::find_if(answer.begin(), answer.end(), [&](std::int32_t id) { return tokenizer().is_eog(id); });
    answer.erase(end, answer.end());
    const auto again = server_->service.requests().back().request.prompt;
    check(prompt, answer, again, where, kind.answer);
  }

  static Told told(const std::string& path, const Json& answer) {
    Told t;
    const auto take = [&](const Json& function) {
      const Json& a = function.contains("arguments") ? function["arguments"] : function["input"];
      t.calls.push_back({function["name"].get<std::string>(), a.is_string() ? a.get<std::string>() : a.dump()});
    };
    if (path == "/v1/responses") {
      for (const Json& item : answer["output"]) {
        if (item["type"] == "function_call") take(item);
        for (const char* key : {"summary", "content"})
          for (const Json& part : item.value(key, Json::array()))
            (item["type"] == "reasoning" ? t.reasoning : t.content) += part["text"].get<std::string>();
      }
    } else if (path == "/v1/messages") {
      for (const Json& block : answer["content"]) {
        if (block["type"] == "thinking") t.reasoning += block["thinking"].get<std::string>();
        if (block["type"] == "text") t.content += block["text"].get<std::string>();
        if (block["type"] == "tool_use") take(block);
      }
    } else {
      const Json& message = path == "/api/chat" ? answer["message"] : answer["choices"][0]["message"];
      const Json thought = message.value(path == "/api/chat" ? "thinking" : "reasoning_content", Json(""));
      if (message["content"].is_string()) t.content = message["content"].get<std::string>();
      if (thought.is_string()) t.reasoning = thought.get<std::string>();
      for (const Json& call : message.value("tool_calls", Json::array())) take(call["function"]);
    }
    return t;
  }

  void check_told(const Kind& kind, const Told& is, const Json& answer, const std::string& where) const {
    for (const std::string_view mark : format_form_->marks)
      EXPECT_EQ(is.content.find(mark), std::string::npos) << where << ": " << is.content;
    if (!kind.told) return;
    EXPECT_EQ(is.content, kind.told->content) << where << "\n" << kind.answer;
    EXPECT_EQ(is.reasoning, kind.told->reasoning) << where << "\n" << kind.answer;
    EXPECT_FALSE(answer["kvasir"].contains("warnings") && !is.calls.empty() &&
                 dump(answer["kvasir"]["warnings"]).find("broken") != std::string::npos)
        << where << "\n"
        << dump(answer["kvasir"]);
    ASSERT_EQ(is.calls.size(), kind.told->calls.size()) << where << "\n" << kind.answer;
    for (std::size_t i = 0; i < is.calls.size(); ++i) {
      EXPECT_EQ(is.calls[i].name, kind.told->calls[i].name) << where;
      EXPECT_EQ(Json::parse(is.calls[i].arguments, nullptr, false), Json::parse(kind.told->calls[i].arguments))
          << where;
    }
  }

  // The template shows the answer where the conversation's beginning is that of the first prompt and, if the answer has
  // reasoning, shows that; and if it has two calls, shows both in one message, not each with its result behind it.
  void check(const std::vector<std::int32_t>& prompt, std::vector<std::int32_t> answer,
             const std::vector<std::int32_t>& again, const std::string& where, const std::string& text) {
    const bool same = again.size() > prompt.size() && std::equal(prompt.begin(), prompt.end(), again.begin());
    const bool thought = text.find("Hm, hm.") != text.npos;
    if (!same) return;
    const std::string rest = tokenizer().decode(std::span(again).subspan(prompt.size()), true);
    if (thought && rest.find("Hm, hm.") == rest.npos) return;
    const std::size_t last_call = text.find("day", text.find("day") + 1) == text.npos ? 0 : rest.rfind("day");
    if (rest.find(kResult) < last_call) return;
    ++shown;
    answer.insert(answer.begin(), prompt.begin(), prompt.end());
    const bool all = again.size() >= answer.size() && std::equal(answer.begin(), answer.end(), again.begin());
    exact += all;
    if (!all) missed += where + "\n  wrote " + text + "\n  shown " + rest.substr(0, 300) + "\n";
  }

 public:
  std::string missed;

 private:
  static Json first_body(const std::string& path, const Json& user) {
    Json body{{"model", "org/fake-model"}};
    Json tools = kTools;
    if (path == "/v1/responses") {
      body["input"] = Json::array({user});
      body["tools"] = Json::array({kTools[0]["function"]});
      body["tools"][0]["type"] = "function";
      return body;
    }
    if (path == "/v1/messages")
      tools = Json::array({{{"name", "f"}, {"input_schema", kTools[0]["function"]["parameters"]}}});
    body["messages"] = Json::array({user});
    body["tools"] = std::move(tools);
    return body;
  }

  // The conversation with the answer and a result of each of its calls.
  static Json second_body(const std::string& path, Json body, const Json& first) {
    Json& list = body[path == "/v1/responses" ? "input" : "messages"];
    if (path == "/v1/chat/completions") {
      const Json& message = first["choices"][0]["message"];
      list.push_back(message);
      for (const Json& call : message.value("tool_calls", Json::array()))
        list.push_back({{"role", "tool"}, {"tool_call_id", call["id"]}, {"content", kResult}});
    } else if (path == "/v1/responses") {
      for (const Json& item : first["output"]) list.push_back(item);
      for (const Json& item : first["output"])
        if (item["type"] == "function_call")
          list.push_back({{"type", "function_call_output"}, {"call_id", item["call_id"]}, {"output", kResult}});
    } else if (path == "/v1/messages") {
      list.push_back({{"role", "assistant"}, {"content", first["content"]}});
      Json results = Json::array();
      for (const Json& block : first["content"])
        if (block["type"] == "tool_use")
          results.push_back({{"type", "tool_result"}, {"tool_use_id", block["id"]}, {"content", kResult}});
      if (!results.empty()) list.push_back({{"role", "user"}, {"content", std::move(results)}});
    } else {
      list.push_back(first["message"]);
      for (const Json& call : first["message"].value("tool_calls", Json::array()))
        list.push_back({{"role", "tool"}, {"tool_name", call["function"]["name"]}, {"content", kResult}});
    }
    const Json& last = list.back();
    if (last.value("role", "") == "assistant" || last.value("type", "") == "message" ||
        last.value("type", "") == "reasoning")
      list.push_back({{"role", "user"}, {"content", "go on"}});
    return body;
  }

  const std::string name_, end_;
  std::vector<Kind> kinds_;
  const text::ToolForm* format_form_ = nullptr;
  weights::Metadata vocabulary_{"test"};
  std::unique_ptr<TemplateChat> format_;
  TestServer* server_ = nullptr;
  std::vector<std::int32_t> ids_;
};

void check_all(const std::map<std::string, std::string>& templates) {
  int exact = 0, shown = 0;
  for (const auto& [name, source] : templates) {
    RoundTrip trip(name, source);
    trip.run();
    EXPECT_EQ(trip.exact, trip.shown) << trip.missed;
    exact += trip.exact;
    shown += trip.shown;
  }
  EXPECT_GT(exact, static_cast<int>(templates.size()) * 20) << "of " << shown;
  std::printf("%d of %d answers stand in the next prompt as they were written\n", exact, shown);
}

TEST(RoundTrips, OfOwnTemplates) { check_all(kOwn); }

TEST(RoundTrips, OfPublishedTemplates) {
  if (!std::filesystem::exists(kShared)) GTEST_SKIP() << kShared << " is not there";
  std::map<std::string, std::string> all;
  for (const auto& file : std::filesystem::directory_iterator(kShared)) {
    const Json json = Json::parse(read_text_file(file.path().string()));
    all[json["name"].get<std::string>()] = json["template"].get<std::string>();
  }
  check_all(all);
}

}  // namespace
}  // namespace kvasir::serve
