// What a chat template takes and shows, found by rendering small conversations with it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

#include "base/error.hpp"
#include "text/arguments.hpp"
#include "text/chat.hpp"
#include "text/conversation.hpp"

namespace kvasir::text {

// "" when the template refuses it, with what it says in `why`.
std::string ChatTemplate::probe_with(const Json& messages, const Json& tools, std::string* why) const {
  Conversation c;
  c.tools = tools;
  try {
    return render_adapted(messages, c, false);
  } catch (const Error& e) {
    if (why) *why = e.what();
    return {};
  }
}

std::string ChatTemplate::probe(const Json& messages, bool tools, std::string* why) const {
  const Json parameters = {{"type", "object"}, {"properties", Json::object()}, {"required", Json::array()}};
  Json tool;
  if (tools)
    tool = {{{"type", "function"},
             {"function", {{"name", "kvasir_tool"}, {"description", "probe"}, {"parameters", parameters}}}}};
  return probe_with(messages, tool, why);
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
  const std::string one = probe({user, calls, result("probe0001", "kvasir-result")}, true, &calls_refused_);
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

// What the template takes of earlier answers, and under which names.
void ChatTemplate::probe_history() {
  const Json user{{"role", "user"}, {"content", "kvasir-question"}};
  const auto has = [](const std::string& text, const char* what) { return text.find(what) != text.npos; };
  const auto answer = [&](Json more, const Json& id, const Json& arguments) {
    Json call = {{"type", "function"}, {"function", {{"name", "kvasir_call"}, {"arguments", arguments}}}};
    Json message{{"role", "assistant"}, {"content", ""}};
    Json result{{"role", "tool"}, {"name", "kvasir_call"}, {"content", "kvasir-result"}};
    if (!id.is_null()) call["id"] = result["tool_call_id"] = id;
    message["tool_calls"] = Json::array({std::move(call)});
    message.update(more);
    return Json{user, std::move(message), std::move(result)};
  };
  const Json none = Json::object(), some = arguments_as_objects_ ? Json{{"key", 1}} : Json(R"({"key": 1})");
  const std::string fine = probe(answer(none, "probe0001", some), true);
  if (!fine.empty()) {
    const bool any = !probe(answer(none, "call_0123456789abcdef", some), true).empty();
    const bool missing = !probe(answer(none, nullptr, some), true).empty();
    if (!any || !missing) {
      ids_ = Ids::kShort;
    } else if (tool_form_->name == "kimi" && has(fine, "probe0001")) {
      ids_ = Ids::kNumbered;
    }
    const std::string broken = R"({"kvasir_key": "a)";
    shows_broken_ =
        arguments_as_objects_ && has(probe(answer(none, "probe0001", verbatim_json(broken)), true), broken.c_str());
  }
  for (const char* name : {"reasoning_content", "reasoning", "thinking", "thought"}) {
    const Json thought{{name, "kvasir-thought"}};
    Json said{{"role", "assistant"}, {"content", "kvasir-said"}};
    said.update(thought);
    if (!has(probe(answer(thought, "probe0001", some), true), "kvasir-thought") &&
        !has(probe({user, std::move(said)}, false), "kvasir-thought"))
      continue;
    reasoning_name_ = name;
    const Json both{{name, "kvasir-thought"}, {"content", "kvasir-said"}};
    content_or_thinking_ = !fine.empty() && probe(answer(both, "probe0001", some), true).empty();
    break;
  }
  const Json said{{"role", "assistant"}, {"content", "kvasir-said"}};
  alternates_ = probe({user, user}, false).empty() && !probe({user, said, user}, false).empty();
}

// Marks that the template writes around reasoning, where none of those that are known occur in it: behind the prompt,
// or around what was thought, which some show for calls alone.
void ChatTemplate::probe_reasoning() {
  const Json user{{"role", "user"}, {"content", "kvasir-question"}};
  if (!reasoning_ && tool_form_->value->efforts.empty()) {
    Conversation c;
    c.messages = Json::array({user});
    for (Json& m : c.messages) adapt_content(m, "messages");
    try {
      reasoning_ = find_open_reasoning(render_adapted(c.messages, c, true));
    } catch (const Error&) {  // a template that refuses the question
    }
    Json arguments = {{"key", 1}};
    if (!arguments_as_objects_) arguments = arguments.dump();
    const Json calls = Json::array({{{"id", "probe0001"},
                                     {"type", "function"},
                                     {"function", {{"name", "kvasir_call"}, {"arguments", arguments}}}}});
    for (const bool call : {false, true}) {
      Json said{{"role", "assistant"}, {"content", "kvasir-said"}}, thought = said;
      if (call) said["tool_calls"] = calls;
      thought = said;
      thought[reasoning_name_] = "kvasir-thought";
      if (!reasoning_)
        reasoning_ = marks_around(probe({user, thought}, true), probe({user, said}, true), "kvasir-thought");
    }
  }
  shows_thinking_ = reasoning_.has_value();
}

void ChatTemplate::learn_tokens(const std::function<bool(std::string_view)>& is_token) {
  if (!reasoning_ && tool_form_->value->efforts.empty()) reasoning_ = find_reasoning_tokens(is_token);
}

void ChatTemplate::use_response(std::string_view json) {
  using Role = ResponseField::Role;
  try {
    auto response = ResponseTemplate::parse(json);
    const ResponseField *calls = response->find(Role::kCalls), *thought = response->find(Role::kReasoning),
                        *said = response->find(Role::kContent);
    const Entry<ToolForm>* form = calls ? response->same_form(tool_form_) : nullptr;
    const auto same = [&](const ReasoningMarks& marks) { return response->same_marks(marks); };
    std::optional<ReasoningMarks> marks;
    if (thought) marks = reasoning_ && same(*reasoning_) ? reasoning_ : find_known_marks(same);
    const bool whole = form && form->value->always;  // it tells all parts of an answer
    if ((!calls || form) && (whole || ((!thought || marks) && (!said || !said->open)))) {
      if (form) tool_form_ = form;
      if (!whole) reasoning_ = marks;
    } else {
      reasoning_.reset();
      response_ = std::move(response);
    }
    knows_form_ = knows_form_ || calls;
    shows_thinking_ = thought != nullptr;
  } catch (const Error& e) {
    response_problem_ = e.what();
  }
}

// Which parts of a tool the template cannot do without.
void ChatTemplate::probe_schemas() {
  const Json user = Json::array({{{"role", "user"}, {"content", "kvasir-question"}}});
  const auto refuses = [&](const std::function<void(Json & function)>& change) {
    Json function = {{"name", "kvasir_tool"}, {"description", "probe"}};
    function["parameters"] = {{"type", "object"},
                              {"properties", {{"key", {{"type", "string"}, {"description", "probe"}}}}},
                              {"required", Json::array({"key"})}};
    change(function);
    return probe_with(user, Json::array({{{"type", "function"}, {"function", std::move(function)}}})).empty();
  };
  if (refuses([](Json&) {})) return;
  const auto parameters = [](const char* name) { return [name](Json& f) { f["parameters"].erase(name); }; };
  const auto property = [](const char* name) {
    return [name](Json& f) { f["parameters"]["properties"]["key"].erase(name); };
  };
  needs_.description = refuses([](Json& f) { f.erase("description"); });
  needs_.parameters = refuses([](Json& f) { f.erase("parameters"); });
  needs_.type = refuses(parameters("type"));
  needs_.properties = refuses(parameters("properties")) || refuses([](Json& f) { f["parameters"] = Json::object(); });
  needs_.required = refuses(parameters("required"));
  needs_.property_type = refuses(property("type"));
  needs_.property_description = refuses(property("description"));
}

namespace {

void set_missing(Json& object, const char* name, Json value) {
  if (!object.contains(name) || object[name].is_null()) object[name] = std::move(value);
}

}  // namespace

// Tools as the template takes them: what it cannot do without and what they leave out is empty.
Json ChatTemplate::filled_tools(const Json& tools) const {
  Json all = tools;
  const std::function<void(Json&)> fill = [&](Json& schema) {
    if (!schema.is_object()) return;
    const auto properties = schema.find("properties");
    if (properties != schema.end() && properties->is_object()) {
      for (auto& [name, property] : properties->items()) {
        if (!property.is_object()) continue;
        if (needs_.property_type) set_missing(property, "type", "string");
        if (needs_.property_description) set_missing(property, "description", "");
        fill(property);
      }
    }
    if (schema.contains("items")) fill(schema["items"]);
  };
  for (Json& tool : all) {
    if (!tool.is_object() || !tool.contains("function") || !tool["function"].is_object()) continue;
    Json& function = tool["function"];
    for (const char* name : {"description", "parameters", "strict"})  // null means left out
      if (function.contains(name) && function[name].is_null()) function.erase(name);
    if (needs_.description) set_missing(function, "description", "");
    if (needs_.parameters) set_missing(function, "parameters", Json::object());
    if (!function.contains("parameters") || !function["parameters"].is_object()) continue;
    Json& parameters = function["parameters"];
    if (needs_.type || (needs_.parameters && parameters.empty())) set_missing(parameters, "type", "object");
    if (needs_.properties || needs_.parameters) set_missing(parameters, "properties", Json::object());
    if (needs_.required) set_missing(parameters, "required", Json::array());
    fill(parameters);
  }
  return all;
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

namespace {

// Two of the user's or of the assistant's in a row, but for calls and their results.
bool repeats_roles(const Json& messages) {
  std::string last;
  for (const Json& m : messages) {
    if (!m.is_object() || !m.contains("role") || (m["role"] != "user" && m["role"] != "assistant")) continue;
    if (m.contains("tool_calls") && m["tool_calls"].is_array() && !m["tool_calls"].empty()) continue;
    if (m["role"] == last) return true;
    last = m["role"].get<std::string>();
  }
  return false;
}

}  // namespace

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
  if (c.tools.is_array() && !c.tools.empty() && shows_tools() && !knows_form_)
    all.emplace_back(
        "tools: the chat template shows no form of calls that is known; calls in the general form are read, and "
        "answers "
        "that are nothing but calls");
  if (!response_problem_.empty())
    all.push_back(response_problem_ + ", so answers are read in the forms that the chat template shows");
  if (!c.messages.is_array()) return all;
  const auto any = [&](const char* role, const char* with) {
    return std::any_of(c.messages.begin(), c.messages.end(), [&](const Json& m) {
      return m.is_object() && m.contains("role") && m["role"] == role &&
             (!with || (m.contains(with) && m[with].is_array() && !m[with].empty()));
    });
  };
  const std::string why = calls_refused_.empty() ? "" : " (" + calls_refused_ + ")";
  if (!shows_calls_ && any("assistant", "tool_calls"))
    all.push_back("messages: the chat template does not show tool calls" + why +
                  ", they stand in the assistant's text");
  if (!shows_results_ && any("tool", nullptr))
    all.push_back("messages: the chat template does not show results of tools" + why +
                  ", they stand in messages of the user");
  if (alternates_ && repeats_roles(c.messages))
    all.emplace_back("messages: the chat template wants the user and the assistant in turns, so neighbours are joined");
  if (!shows_system_ && any("system", nullptr))
    all.emplace_back("messages: the chat template does not show system messages, they stand in front of the user's");
  return all;
}

}  // namespace kvasir::text
