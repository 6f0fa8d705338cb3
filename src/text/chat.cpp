#include "text/chat.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "text/arguments.hpp"
#include "text/blur.hpp"
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

namespace {

void check_depths(const Conversation& c) {
  check_depth(c.messages, "messages");
  check_depth(c.tools, "tools");
  check_depth(c.extra, "chat_template_kwargs");
}

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

// Of a content as the template gets it: its text up to the first picture.
std::string first_text(const Json& content) {
  if (content.is_string()) return content.get<std::string>();
  std::string text;
  for (const Json& part : content) {
    if (!part.contains("text")) break;
    text += (text.empty() ? "" : "\n") + part["text"].get<std::string>();
  }
  return text;
}

std::size_t common_prefix(std::string_view a, std::string_view b) {
  const auto n = std::min(a.size(), b.size());
  return static_cast<std::size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(n), b.begin()).first - a.begin());
}

constexpr const char* kWhiteSpace = " \t\r\n\f\v";

// Text that differs from `text` from the first character on that is not white space.
std::string other_text(const std::string& text) {
  const auto first = text.find_first_not_of(kWhiteSpace);
  return first != text.npos && text[first] == 'x' ? "y" : "x";
}

constexpr std::string_view kTemplateContext = "chat template";  // of errors that a template raises

std::string tool_name(const Json& tool) {
  if (!tool.is_object() || !tool.contains("function") || !tool["function"].is_object()) return "";
  return "'" + tool["function"].value("name", "") + "'";
}

// The message with other content and other names of functions.
Json altered(const Json& message) {
  Json m = message;
  Json& content = m["content"];
  if (content.is_array()) {
    for (Json& part : content)
      if (part.contains("text") && part["text"].is_string()) part["text"] = other_text(part["text"].get<std::string>());
  } else {
    content = other_text(content.is_string() ? content.get<std::string>() : std::string());
  }
  if (m.contains("tool_calls") && m["tool_calls"].is_array()) {
    for (Json& call : m["tool_calls"]) call["function"]["name"] = other_text(call["function"].value("name", ""));
  }
  return m;
}

}  // namespace

ChatTemplate::ChatTemplate(std::string_view source, std::string bos, std::string eos, jinja::RenderOptions options)
    : template_(source),
      options_(std::move(options)),
      source_(source),
      bos_(std::move(bos)),
      eos_(std::move(eos)),
      tool_form_(find_tool_form(source)),
      reasoning_(find_reasoning_marks(source)) {
  if (!tool_form_) {
    tool_form_ = generic_tool_form();
    knows_form_ = false;
  }
  probe_content();
  probe_pictures();
  probe_arguments();
  probe_tools();
  probe_history();
  probe_schemas();
  probe_reasoning();
}

void ChatTemplate::adapt_content(Json& message, const std::string& where) const {
  Json& content = message["content"];
  if (content.is_null()) content = "";
  if (content.is_array()) {
    std::string text = joined_parts(content, where);
    if (content_ == Content::kText) content = std::move(text);
  } else if (!content.is_string()) {
    refuse_message(where, "expected a string, an array of parts or null");
  }
  if (!content.is_string()) return;
  if (!picture_text_.empty() && next_mark(content.get_ref<const std::string&>())) {
    content = picture_parts(content.get<std::string>());
  } else if (content_ == Content::kParts) {
    Json part = {{"type", "text"}, {"text", std::move(content)}};
    content = Json::array({std::move(part)});
  }
}

// Other roles than the usual ones are as good as the template makes them.
void ChatTemplate::check_role(const std::string& role, const std::string& where) const {
  for (const char* known : {"system", "user", "assistant", "tool"})
    if (role == known) return;
  Conversation c;
  c.messages = {{{"role", "user"}, {"content", "kvasir-question"}}, {{"role", role}, {"content", "kvasir-shown"}}};
  try {
    Json messages = c.messages;
    for (Json& m : messages) adapt_content(m, where);
    if (render_adapted(messages, c, false).find("kvasir-shown") != std::string::npos) return;
  } catch (const Error&) {
  }
  refuse_message(
      where, fmt::format("'{}', expected one of system, developer, user, assistant, tool: the chat template does not "
                         "show other roles",
                         role));
}

namespace {

// Templates that show messages in order show each content behind the one before.
std::vector<std::size_t> contents_of(const Json& messages, const std::string& prompt) {
  std::vector<std::size_t> begins;
  std::size_t from = 0;
  for (const Json& m : messages) {
    std::string text = first_text(m["content"]);
    const std::size_t first = text.find_first_not_of(kWhiteSpace);
    if (first == text.npos) continue;
    text = text.substr(first, text.find_last_not_of(kWhiteSpace) + 1 - first);
    const std::size_t at = prompt.find(text, from);
    if (at == prompt.npos) continue;
    begins.push_back(at);
    from = at + text.size();
  }
  return begins;
}

std::string text_of(const Json& message, const std::string& where) {
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) return {};
  if (content->is_array()) return joined_parts(*content, where + ".content");
  if (!content->is_string()) refuse_message(where + ".content", "expected a string, an array of parts or null");
  return content->get<std::string>();
}

bool has_calls(const Json& message) {
  const auto calls = message.find("tool_calls");
  return calls != message.end() && calls->is_array() && !calls->empty();
}

std::vector<ToolCall> calls_of(const Json& message, const std::string& where) {
  std::vector<ToolCall> all;
  for (std::size_t i = 0; i < message["tool_calls"].size(); ++i) {
    const Json& call = message["tool_calls"][i];
    const std::string at = fmt::format("{}.tool_calls[{}].function", where, i);
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object())
      refuse_message(at, "expected an object");
    const Json& function = call["function"];
    if (!function.contains("name") || !function["name"].is_string()) refuse_message(at + ".name", "expected a string");
    const Json arguments = function.contains("arguments") ? function["arguments"] : Json();
    all.push_back({function["name"].get<std::string>(), arguments.is_string()
                                                            ? mended_arguments(arguments.get<std::string>()).dump()
                                                        : arguments.is_null() ? "{}"
                                                                              : arguments.dump()});
  }
  return all;
}

}  // namespace

// The message `i`, and those behind it that go with it.
void ChatTemplate::adapt_message(const Json& messages, std::size_t& i, Adapted& out) const {
  const std::string where = fmt::format("messages[{}]", i);
  const auto at = static_cast<int>(i);
  Json message = messages[i];
  const std::string role = message["role"].get<std::string>();
  if (role == "assistant" && has_calls(message)) {
    if (!shows_calls_) {
      const std::string text = text_of(message, where);
      message["content"] = text + (text.empty() ? "" : "\n") + write_tool_calls(*tool_form_, calls_of(message, where));
      message.erase("tool_calls");
    } else if (!shows_several_ && message["tool_calls"].size() > 1) {
      return split_calls(messages, i, out);
    }
  }
  if (role == "tool" && !shows_results_) {
    std::string text;
    for (; i < messages.size() && messages[i]["role"] == "tool"; ++i)
      text += (text.empty() ? "" : "\n") + std::string("<tool_response>\n") +
              text_of(messages[i], fmt::format("messages[{}]", i)) + "\n</tool_response>";
    --i;
    message = {{"role", "user"}, {"content", std::move(text)}};
  }
  if (role == "system" && !shows_system_) {
    message["role"] = "user";
    if (i + 1 < messages.size() && messages[i + 1]["role"] == "user") {
      const std::string next = text_of(messages[i + 1], fmt::format("messages[{}]", i + 1));
      message["content"] = text_of(message, where) + "\n\n" + next;
      ++i;
    }
  }
  out.messages.push_back(std::move(message));
  out.origin.push_back(at);
}

// Text in front of the conversation: in the system message, or else in the user's first one.
void ChatTemplate::add_front(std::string text, Adapted& out) const {
  Json& first = out.messages[0];
  const std::string role = first["role"].get<std::string>();
  if (role == "system" || (!takes_system_ && role == "user")) {
    const std::string own = text_of(first, "messages[0]");
    first["content"] = role == "system" ? own + (own.empty() ? "" : "\n\n") + text : text + "\n\n" + own;
    return;
  }
  Json message{{"role", takes_system_ ? "system" : "user"}, {"content", std::move(text)}};
  out.messages.insert(out.messages.begin(), std::move(message));
  out.origin.insert(out.origin.begin(), -1);
}

ChatTemplate::Adapted ChatTemplate::adapt(const Conversation& c) const {
  Json messages = c.messages;
  if (!messages.is_array() || messages.empty()) refuse_message("messages", "expected an array of at least one message");
  std::set<std::string, std::less<>> roles;  // checked
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const std::string where = fmt::format("messages[{}]", i);
    if (!messages[i].is_object()) refuse_message(where, "expected an object");
    const auto role = messages[i].find("role");
    if (role == messages[i].end() || !role->is_string()) refuse_message(where + ".role", "expected a string");
    if (roles.insert(role->get<std::string>()).second) check_role(role->get<std::string>(), where + ".role");
  }
  adapt_ids(messages);
  for (Json& message : messages)
    if (message["role"] == "assistant") adapt_reasoning(message);
  Adapted out;
  for (std::size_t i = 0; i < messages.size(); ++i) adapt_message(messages, i, out);
  if (alternates_) alternate(out);
  if (c.tools.is_array() && !c.tools.empty() && !shows_tools()) add_front(tool_instructions(*tool_form_, c.tools), out);
  for (std::size_t i = 0; i < out.messages.size(); ++i) {
    const std::string where = fmt::format("messages[{}]", std::max(out.origin[i], 0));
    adapt_content(out.messages[i], where + ".content");
    adapt_calls(out.messages[i], where + ".tool_calls");
  }
  return out;
}

// Which message of the conversation an adapted one is.
int ChatTemplate::original(const Adapted& adapted, int message, const Conversation& c) const {
  if (message < 0) return -1;
  const auto i = static_cast<std::size_t>(message);
  return i < adapted.origin.size() ? adapted.origin[i] : static_cast<int>(c.messages.size());
}

std::string ChatTemplate::render_adapted(const Json& messages, const Conversation& c, bool generation_prompt) const {
  if (!c.extra.is_object()) refuse_message("chat_template_kwargs", "expected an object");
  if (!c.tools.is_null() && !c.tools.is_array()) refuse_message("tools", "expected an array");
  Json context = c.extra;
  if (std::string known = effort(c); !known.empty()) context["reasoning_effort"] = std::move(known);
  context["messages"] = messages;
  // Templates ask whether tools are defined, or none, or empty: without tools they are not defined.
  if (c.tools.is_array() && !c.tools.empty() && !context.contains(tools_name_))
    context[shows_tools() ? tools_name_ : "tools"] = filled_tools(c.tools);
  context["add_generation_prompt"] = generation_prompt;
  context["bos_token"] = bos_;
  context["eos_token"] = eos_;
  return template_.render(context, options_);
}

std::string ChatTemplate::render(const Conversation& c) const {
  check_depths(c);
  const Json messages = adapt(c).messages;
  try {
    return render_messages(messages, c);
  } catch (const Error& e) {
    blame(c, e);
    throw;
  }
}

// Says which tool or message it is that the template refuses, where one alone is to blame.
void ChatTemplate::blame(const Conversation& c, const Error& e) const {
  if (e.code() != Code::kBadInput || !e.context().starts_with(kTemplateContext)) return;
  const auto renders = [&](const Json& messages, const Json& tools) {
    Conversation part{.messages = messages, .tools = tools, .add_generation_prompt = false, .extra = c.extra};
    try {
      render_adapted(adapt(part).messages, part, false);
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  const auto say = [&](const std::string& where, const std::string& what) {
    throw Error(Code::kBadInput, fmt::format("the {} refuses {}: {}", e.context(), what, e.message()), where);
  };
  const Json user = Json::array({{{"role", "user"}, {"content", "kvasir-question"}}});
  if (c.tools.is_array() && !c.tools.empty() && renders(user, nullptr)) {
    for (std::size_t i = 0; i < c.tools.size(); ++i)
      if (!renders(user, Json::array({c.tools[i]})))
        say(fmt::format("tools[{}]", i), "the tool " + tool_name(c.tools[i]));
  }
  std::size_t below = 0, above = c.messages.size();  // the first `above` messages are refused
  const auto first = [&](std::size_t n) {
    return Json(c.messages.begin(), c.messages.begin() + static_cast<std::ptrdiff_t>(n));
  };
  while (above - below > 1) {
    const std::size_t middle = below + (above - below) / 2;
    (renders(first(middle), c.tools) ? below : above) = middle;
  }
  if (below == 0 && c.messages.size() > 1) return;  // not even the beginning is taken
  if (!renders(first(above), c.tools)) say(fmt::format("messages[{}]", above - 1), "this message");
}

std::string ChatTemplate::render_messages(const Json& messages, const Conversation& c) const {
  if (!c.continue_last) return render_adapted(messages, c, c.add_generation_prompt);
  const Json& last = messages.back();
  const std::string where = fmt::format("messages[{}]", messages.size() - 1);
  if (last["role"] != "assistant") refuse_message(where + ".role", "only an assistant's message can be continued");
  std::string text = first_text(last["content"]);
  // Templates may trim it.
  text.erase(0, std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  if (text.empty()) refuse_message(where + ".content", "there is nothing to continue");
  std::string prompt = render_adapted(messages, c, false);
  const auto at = prompt.rfind(text);
  if (at == prompt.npos)
    refuse_message(where + ".content", "the chat template does not show it as it is: it cannot be continued");
  prompt.resize(at + text.size());
  return prompt;
}

Prompt ChatTemplate::prompt(const Conversation& c, const SpecialMatcher& names) const {
  check_depths(c);
  const Json messages = adapt(c).messages;
  Prompt out;
  try {
    out.text = render_messages(messages, c);
  } catch (const Error& e) {
    blame(c, e);
    throw;
  }
  out.contents = contents_of(messages, out.text);
  find_plain(messages, c, names, out);
  find_pictures(c, out);
  return out;
}

// A second conversation, whose texts spell no name, is rendered beside the first. Where both prompts agree the template
// speaks; where they do not the conversation does.
void ChatTemplate::find_plain(const Json& messages, const Conversation& c, const SpecialMatcher& names,
                              Prompt& out) const {
  Json harmless = messages;
  Conversation other;
  other.tools = c.tools;
  other.extra = c.extra;
  other.add_generation_prompt = c.add_generation_prompt;
  other.continue_last = c.continue_last;
  bool found = blur_names(other.tools, names) | blur_names(other.extra, names);
  for (Json& message : harmless) found |= blur_names(message, names, true);
  if (!found) return;
  std::string text;
  try {
    text = render_messages(harmless, other);
  } catch (const Error&) {
  }
  if (text.size() != out.text.size())
    refuse_message("messages",
                   "hold the name of a control token where the chat template reads the text: it cannot be told "
                   "from the template's own");
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] != out.text[i]) out.plain.push_back(i);
}

int ChatTemplate::message_at(const Conversation& c, std::size_t at) const {
  check_depths(c);
  const Adapted adapted = adapt(c);
  const std::string full = render_adapted(adapted.messages, c, c.add_generation_prompt);
  return original(adapted, locate(c, adapted.messages, full, at).message, c);
}

Place ChatTemplate::place_at(const Conversation& c, std::size_t at) const {
  check_depths(c);
  const Adapted adapted = adapt(c);
  const Json& messages = adapted.messages;
  const std::string full = render_adapted(messages, c, c.add_generation_prompt);
  const Located found = locate(c, messages, full, at);
  Place place{.message = original(adapted, found.message, c), .messages = static_cast<int>(c.messages.size())};
  if (place.message < 0 || place.message >= place.messages) return place;
  const Json& message = messages[static_cast<std::size_t>(found.message)];
  place.role = message["role"].get<std::string>();
  const std::string content = first_text(message["content"]);
  // `begin` is where the content begins, or what is left of it when the template trims; up to `at` it has to stand
  // there as it is, and at least up to its first character that is not white space.
  const std::size_t first = content.find_first_not_of(kWhiteSpace);
  if (first == content.npos || at < found.begin) return place;
  for (const std::size_t start : {std::size_t{0}, first}) {
    const std::size_t n = std::max(at - found.begin, first - start + 1);
    if (start + (at - found.begin) > content.size() || full.compare(found.begin, n, content, start, n) != 0) continue;
    place.byte = static_cast<std::int64_t>(start + (at - found.begin));
    break;
  }
  return place;
}

ChatTemplate::Located ChatTemplate::locate(const Conversation& c, const Json& messages, const std::string& full,
                                           std::size_t at) const {
  const int n = static_cast<int>(messages.size());
  // Where the content of message k begins; the end of the prompt where the template refuses the question.
  const auto content_begin = [&](int k) {
    Json changed = messages;
    changed[static_cast<std::size_t>(k)] = altered(changed[static_cast<std::size_t>(k)]);
    try {
      return common_prefix(full, render_adapted(changed, c, c.add_generation_prompt));
    } catch (const Error&) {
      return full.size();
    }
  };
  int below = -1, above = n;  // content_begin(below) <= at < content_begin(above)
  std::size_t begin = 0;
  while (above - below > 1) {
    const int middle = below + (above - below) / 2;
    const std::size_t b = content_begin(middle);
    if (b <= at) {
      below = middle;
      begin = b;
    } else {
      above = middle;
    }
  }
  if (below < 0) return {-1, full.size()};
  // The header of the next message belongs to it: the conversation that ends before it does not have it.
  try {
    const Json head(messages.begin(), messages.begin() + below + 1);
    const std::size_t end = common_prefix(full, render_adapted(head, c, false));
    if (end > begin && at >= end) return {below + 1, full.size() + 1};
  } catch (const Error&) {
  }
  return {below, begin};
}

std::string describe(const Place& place) {
  if (place.message < 0) return "in front of the first message";
  if (place.message >= place.messages) return "behind the last message";
  if (place.byte < 0) return fmt::format("in the frame of messages[{}] ({})", place.message, place.role);
  return fmt::format("byte {} of messages[{}].content ({})", place.byte, place.message, place.role);
}

std::string chat_template_text(const std::string& from_model, const std::string& path, const std::string& model) {
  if (!path.empty()) return read_text_file(path);
  if (!from_model.empty()) return from_model;
  throw Error(Code::kBadInput, "the model has no chat template; name a file that holds one with --chat-template",
              model);
}

}  // namespace kvasir::text
