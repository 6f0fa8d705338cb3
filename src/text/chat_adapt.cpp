#include "text/chat_adapt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "text/arguments.hpp"
#include "text/conversation.hpp"
#include "text/pictures.hpp"

namespace kvasir::text {

void refuse_message(const std::string& where, const std::string& message) {
  throw Error(Code::kBadInput, message, where);
}

void check_depth(const Json& json, const std::string& where, int depth) {
  if (depth >= jinja::kMaxValueDepth)
    refuse_message(where, fmt::format("nested more than {} deep", jinja::kMaxValueDepth));
  if (!json.is_structured()) return;
  for (const auto& item : json) check_depth(item, where, depth + 1);
}

bool has_calls(const Json& message) {
  const auto calls = message.find("tool_calls");
  return calls != message.end() && calls->is_array() && !calls->empty();
}

const Json& function_of(const Json& call, const std::string& where) {
  if (!call.is_object() || !call.contains("function") || !call["function"].is_object())
    refuse_message(where + ".function", "expected an object");
  const Json& function = call["function"];
  if (!function.contains("name") || !function["name"].is_string())
    refuse_message(where + ".function.name", "expected a string");
  return function;
}

std::string first_text(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  for (const Json& part : content) {
    if (!part.contains("text")) break;
    text += (text.empty() ? "" : "\n") + part["text"].get<std::string>();
  }
  return text;
}

void AdaptedMessages::add(Json message, int from) {
  messages.push_back(std::move(message));
  origin.push_back(from);
}

namespace {

// The texts of all parts, one per line. Throws for parts that are no text.
std::string joined_parts(const Json& parts, const std::string& where) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const Json& part = parts[i];
    const std::string at = fmt::format("{}[{}]", where, i);
    if (!part.is_object()) refuse_message(at, "expected an object with type and text");
    const auto type = part.find("type"), value = part.find("text");
    if (type == part.end() || !type->is_string() || type->get_ref<const std::string&>() != "text") {
      refuse_message(at + ".type", "only parts of type 'text' are supported");
    }
    if (value == part.end() || !value->is_string()) refuse_message(at + ".text", "expected a string");
    if (i > 0) text += '\n';
    text += value->get_ref<const std::string&>();
  }
  return text;
}

std::string text_of(const Json& message, const std::string& where) {
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) return {};
  if (content->is_array()) return joined_parts(*content, where + ".content");
  if (!content->is_string()) refuse_message(where + ".content", "expected a string, an array of parts or null");
  return content->get<std::string>();
}

std::vector<ToolCall> calls_of(const Json& message, const std::string& where) {
  std::vector<ToolCall> all;
  for (std::size_t i = 0; i < message["tool_calls"].size(); ++i) {
    const Json& function = function_of(message["tool_calls"][i], fmt::format("{}.tool_calls[{}]", where, i));
    const Json arguments = function.contains("arguments") ? function["arguments"] : Json();
    all.push_back({function["name"].get<std::string>(), arguments.is_string()
                                                            ? mended_arguments(arguments.get<std::string>()).dump()
                                                        : arguments.is_null() ? "{}"
                                                                              : arguments.dump()});
  }
  return all;
}

}  // namespace

void adapt_content(Json& message, const std::string& where, const TemplateTraits& t) {
  Json& content = message["content"];
  if (content.is_null()) content = "";
  if (content.is_array()) {
    std::string text = joined_parts(content, where);
    if (t.content == TemplateTraits::Content::kText) content = std::move(text);
  } else if (!content.is_string()) {
    refuse_message(where, "expected a string, an array of parts or null");
  }
  if (!content.is_string()) return;
  if (!(t.picture_text.empty() && t.sound_text.empty()) && next_mark(content.get_ref<const std::string&>())) {
    content = picture_parts(content.get<std::string>(), t);
  } else if (t.content == TemplateTraits::Content::kParts) {
    Json part = {{"type", "text"}, {"text", std::move(content)}};
    content = Json::array({std::move(part)});
  }
}

namespace {

// Other roles than the usual ones are as good as the template makes them.
void check_role(const std::string& role, const std::string& where, const ProbedTemplate& to) {
  for (const char* known : {"system", "user", "assistant", "tool"})
    if (role == known) return;
  Conversation c;
  c.messages = {{{"role", "user"}, {"content", "kvasir-question"}}, {{"role", role}, {"content", "kvasir-shown"}}};
  try {
    Json messages = c.messages;
    for (Json& m : messages) adapt_content(m, where, to.traits);
    if (to.render(messages, c, false).find("kvasir-shown") != std::string::npos) return;
  } catch (const Error&) {
  }
  refuse_message(
      where, fmt::format("'{}', expected one of system, developer, user, assistant, tool: the chat template does not "
                         "show other roles",
                         role));
}

// The message `i`, and those behind it that go with it.
void adapt_message(const Json& messages, std::size_t& i, const TemplateTraits& t, AdaptedMessages& out) {
  const std::string where = fmt::format("messages[{}]", i);
  const auto at = static_cast<int>(i);
  Json message = messages[i];
  const std::string role = message["role"].get<std::string>();
  if (role == "assistant" && has_calls(message)) {
    if (!t.shows_calls) {
      const std::string text = text_of(message, where);
      message["content"] = text + (text.empty() ? "" : "\n") + write_tool_calls(*t.tool_form, calls_of(message, where));
      message.erase("tool_calls");
    } else if (!t.shows_several && message["tool_calls"].size() > 1) {
      return split_calls(messages, i, t, out);
    }
  }
  if (role == "tool" && !t.shows_results) {
    std::string text;
    for (; i < messages.size() && messages[i]["role"] == "tool"; ++i)
      text += (text.empty() ? "" : "\n") + std::string("<tool_response>\n") +
              text_of(messages[i], fmt::format("messages[{}]", i)) + "\n</tool_response>";
    --i;
    message = {{"role", "user"}, {"content", std::move(text)}};
  }
  if (role == "system" && !t.shows_system) {
    message["role"] = "user";
    if (i + 1 < messages.size() && messages[i + 1]["role"] == "user") {
      const std::string next = text_of(messages[i + 1], fmt::format("messages[{}]", i + 1));
      message["content"] = text_of(message, where) + "\n\n" + next;
      ++i;
    }
  }
  out.add(std::move(message), at);
}

// Text in front of the conversation: in the system message, or else in the user's first one.
void add_front(std::string text, const TemplateTraits& t, AdaptedMessages& out) {
  Json& first = out.messages[0];
  const std::string role = first["role"].get<std::string>();
  if (role == "system" || (!t.takes_system && role == "user")) {
    const std::string own = text_of(first, "messages[0]");
    first["content"] = role == "system" ? own + (own.empty() ? "" : "\n\n") + text : text + "\n\n" + own;
    return;
  }
  Json message{{"role", t.takes_system ? "system" : "user"}, {"content", std::move(text)}};
  out.messages.insert(out.messages.begin(), std::move(message));
  out.origin.insert(out.origin.begin(), -1);
}

}  // namespace

AdaptedMessages adapt_messages(const Conversation& c, const ProbedTemplate& to) {
  const TemplateTraits& t = to.traits;
  Json messages = c.messages;
  if (!messages.is_array() || messages.empty()) refuse_message("messages", "expected an array of at least one message");
  std::set<std::string, std::less<>> roles;  // checked
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const std::string where = fmt::format("messages[{}]", i);
    if (!messages[i].is_object()) refuse_message(where, "expected an object");
    const auto role = messages[i].find("role");
    if (role == messages[i].end() || !role->is_string()) refuse_message(where + ".role", "expected a string");
    if (roles.insert(role->get<std::string>()).second) check_role(role->get<std::string>(), where + ".role", to);
  }
  adapt_ids(messages, t.ids);
  for (Json& message : messages)
    if (message["role"] == "assistant") adapt_reasoning(message, t);
  AdaptedMessages out;
  for (std::size_t i = 0; i < messages.size(); ++i) adapt_message(messages, i, t, out);
  if (t.alternates) alternate(out);
  if (c.tools.is_array() && !c.tools.empty() && !t.shows_tools())
    add_front(tool_instructions(*t.tool_form, c.tools), t, out);
  for (std::size_t i = 0; i < out.messages.size(); ++i) {
    const std::string where = fmt::format("messages[{}]", std::max(out.origin[i], 0));
    adapt_content(out.messages[i], where + ".content", t);
    adapt_calls(out.messages[i], where + ".tool_calls", to);
  }
  return out;
}

}  // namespace kvasir::text
