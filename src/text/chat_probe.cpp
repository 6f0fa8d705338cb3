// What a chat template takes and shows, found by rendering small conversations with it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"
#include "text/chat.hpp"
#include "text/conversation.hpp"

namespace kvasir::text {

// "" when the template refuses it.
std::string ChatTemplate::probe(const Json& messages, bool tools) const {
  Conversation c;
  if (tools) {
    c.tools = {{{"type", "function"},
                {"function",
                 {{"name", "kvasir_tool"},
                  {"description", "probe"},
                  {"parameters", {{"type", "object"}, {"properties", Json::object()}, {"required", Json::array()}}}}}}};
  }
  try {
    return render_adapted(messages, c, false);
  } catch (const Error&) {
    return {};
  }
}

// A template that takes parts shows the text of one bare; printing the list would show it quoted.
void ChatTemplate::probe_content() {
  constexpr const char* kText = "kvasir-probe";
  const auto shown = [&](const Json& content) {
    const std::string text = probe({{{"role", "user"}, {"content", content}}}, false);
    return text.find(kText) != text.npos && text.find(fmt::format("'{}'", kText)) == text.npos &&
           text.find(fmt::format("\"{}\"", kText)) == text.npos;
  };
  const bool text = shown(kText), parts = shown({{{"type", "text"}, {"text", kText}}});
  content_ = parts ? (text ? Content::kEither : Content::kParts) : Content::kText;
}

// Objects, unless the template would print them as Python does, and shows JSON text as it is.
void ChatTemplate::probe_arguments() {
  const auto shown = [this](const Json& arguments) {
    return probe(
        {{{"role", "user"}, {"content", "probe"}},
         {{"role", "assistant"},
          {"content", ""},
          {"tool_calls",
           {{{"id", "probe0001"}, {"type", "function"}, {"function", {{"name", "probe"}, {"arguments", arguments}}}}}}},
         {{"role", "tool"}, {"name", "probe"}, {"tool_call_id", "probe0001"}, {"content", "probe"}}},
        true);
  };
  const std::string object = shown({{"kvasir_key", 1}}), text = shown(R"({"kvasir_key": 1})");
  const bool object_works = object.find("kvasir_key") != object.npos && object.find("'kvasir_key'") == object.npos;
  arguments_as_objects_ = object_works || text.find(R"({"kvasir_key": 1})") == text.npos;
}

// What of tools the template shows, and whether it shows what the system says. What it refuses counts as shown, so that
// the refusal is what clients hear, unless there is another way.
void ChatTemplate::probe_tools() {
  const Json user{{"role", "user"}, {"content", "kvasir-question"}};
  const auto shows = [](const std::string& text, const char* what) { return text.find(what) != text.npos; };
  const std::string plain = probe(Json::array({user}), false);
  for (const char* name : {"tools", "xml_tools"}) {
    tools_name_ = name;
    const std::string with = probe(Json::array({user}), true);
    if (plain.empty() || with.empty() || with != plain) break;
    tools_name_.clear();
  }
  if (plain.empty()) return;
  const auto call = [&](const char* name, const char* id) {
    Json arguments = {{name, 1}};  // some templates show these alone
    if (!arguments_as_objects_) arguments = arguments.dump();
    return Json{{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}};
  };
  const auto result = [](const char* id, const char* text) {
    return Json{{"role", "tool"}, {"name", "kvasir_call"}, {"tool_call_id", id}, {"content", text}};
  };
  Json calls{{"role", "assistant"}, {"content", ""}, {"tool_calls", {call("kvasir_call", "probe0001")}}};
  const std::string one = probe({user, calls, result("probe0001", "kvasir-result")}, true);
  shows_calls_ = shows(one, "kvasir_call");
  shows_results_ = shows(one, "kvasir-result");
  if (shows_calls_) {
    calls["tool_calls"].push_back(call("kvasir_other", "probe0002"));
    const std::string two =
        probe({user, calls, result("probe0001", "kvasir-result"), result("probe0002", "kvasir-second")}, true);
    shows_several_ = shows(two, "kvasir_call") && shows(two, "kvasir_other");
  }
  const std::string system = probe({{{"role", "system"}, {"content", "kvasir-system"}}, user}, false);
  takes_system_ = shows(system, "kvasir-system");
  shows_system_ = system.empty() || takes_system_;
}

// The word for the model where it knows a few: the nearest to what `c` asks for. "" when nothing is asked for.
std::string ChatTemplate::effort(const Conversation& c) const {
  const auto words = tool_form_->value->efforts;
  if (words.empty() || !c.extra.is_object()) return {};
  const auto asked = c.extra.find("reasoning_effort");
  if (asked == c.extra.end() || !asked->is_string()) return {};
  const std::string& word = asked->get_ref<const std::string&>();
  if (std::find(words.begin(), words.end(), word) != words.end()) return word;
  return std::string(word == "xhigh" || word == "max" ? words.back() : words.front());
}

std::vector<std::string> ChatTemplate::warnings(const Conversation& c) const {
  std::vector<std::string> all;
  if (const std::string known = effort(c); !known.empty() && c.extra["reasoning_effort"] != Json(known))
    all.push_back(fmt::format("reasoning_effort: this model knows {}; '{}' stands for what was asked",
                              fmt::join(tool_form_->value->efforts, ", "), known));
  const bool off =
      c.extra.is_object() && c.extra.contains("enable_thinking") && c.extra["enable_thinking"] == Json(false);
  if (off && !tool_form_->value->efforts.empty()) all.emplace_back("thinking cannot be switched off for this model");
  if (c.tools.is_array() && !c.tools.empty() && !shows_tools())
    all.emplace_back("tools: the chat template has no place for them, they are described in front of the conversation");
  if (!c.messages.is_array()) return all;
  const auto any = [&](const char* role, const char* with) {
    return std::any_of(c.messages.begin(), c.messages.end(), [&](const Json& m) {
      return m.is_object() && m.contains("role") && m["role"] == role &&
             (!with || (m.contains(with) && m[with].is_array() && !m[with].empty()));
    });
  };
  if (!shows_calls_ && any("assistant", "tool_calls"))
    all.emplace_back("messages: the chat template does not show tool calls, they stand in the assistant's text");
  if (!shows_results_ && any("tool", nullptr))
    all.emplace_back("messages: the chat template does not show results of tools, they stand in messages of the user");
  if (!shows_system_ && any("system", nullptr))
    all.emplace_back("messages: the chat template does not show system messages, they stand in front of the user's");
  return all;
}

}  // namespace kvasir::text
