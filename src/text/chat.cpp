#include "text/chat.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/file.hpp"
#include "text/blur.hpp"
#include "text/chat_adapt.hpp"
#include "text/conversation.hpp"

namespace kvasir::text {
namespace {

constexpr std::string_view kTemplateContext = "chat template";  // of errors that a template raises

std::string tool_name(const Json& tool) {
  if (!tool.is_object() || !tool.contains("function") || !tool["function"].is_object()) return "";
  return "'" + tool["function"].value("name", "") + "'";
}

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

std::string render_messages(const Json& messages, const Conversation& c, const ProbedTemplate& to) {
  if (!c.continue_last) return to.render(messages, c, c.add_generation_prompt);
  const Json& last = messages.back();
  const std::string where = fmt::format("messages[{}]", messages.size() - 1);
  if (last["role"] != "assistant") refuse_message(where + ".role", "only an assistant's message can be continued");
  std::string text = first_text(last["content"]);
  // Templates may trim it.
  text.erase(0, std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  if (text.empty()) refuse_message(where + ".content", "there is nothing to continue");
  std::string prompt = to.render(messages, c, false);
  const auto at = prompt.rfind(text);
  if (at == prompt.npos)
    refuse_message(where + ".content", "the chat template does not show it as it is: it cannot be continued");
  prompt.resize(at + text.size());
  return prompt;
}

// Says which tool or message it is that the template refuses, where one alone is to blame.
void blame(const Conversation& c, const Error& e, const ProbedTemplate& to) {
  if (e.code() != Code::kBadInput || !e.context().starts_with(kTemplateContext)) return;
  const auto renders = [&](const Json& messages, const Json& tools) {
    Conversation part{.messages = messages, .tools = tools, .add_generation_prompt = false, .extra = c.extra};
    try {
      to.render(adapt_messages(part, to).messages, part, false);
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

// The same, with what the template refuses named.
std::string render_or_blame(const Json& messages, const Conversation& c, const ProbedTemplate& to) {
  try {
    return render_messages(messages, c, to);
  } catch (const Error& e) {
    blame(c, e, to);
    throw;
  }
}

// A second conversation, whose texts spell no name, is rendered beside the first. Where both prompts agree the template
// speaks; where they do not the conversation does.
void find_plain(const Json& messages, const Conversation& c, const SpecialMatcher& names, const ProbedTemplate& to,
                Prompt& out) {
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
    text = render_messages(harmless, other, to);
  } catch (const Error&) {
  }
  if (text.size() != out.text.size())
    refuse_message("messages",
                   "hold the name of a control token where the chat template reads the text: it cannot be told "
                   "from the template's own");
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] != out.text[i]) out.plain.push_back(i);
}

// Two of the user's or of the assistant's in a row, but for calls and their results.
bool repeats_roles(const Json& messages) {
  std::string last;
  for (const Json& m : messages) {
    if (!m.is_object() || !m.contains("role") || (m["role"] != "user" && m["role"] != "assistant")) continue;
    if (has_calls(m)) continue;
    if (m["role"] == last) return true;
    last = m["role"].get<std::string>();
  }
  return false;
}

}  // namespace

void check_depths(const Conversation& c) {
  check_depth(c.messages, "messages");
  check_depth(c.tools, "tools");
  check_depth(c.extra, "chat_template_kwargs");
}

ChatTemplate::ChatTemplate(std::string_view source, std::string bos, std::string eos, jinja::RenderOptions options)
    : source_(source), template_(source, std::move(bos), std::move(eos), std::move(options)) {}

std::string ChatTemplate::render(const Conversation& c) const {
  check_depths(c);
  return render_or_blame(adapt_messages(c, template_).messages, c, template_);
}

Prompt ChatTemplate::prompt(const Conversation& c, const SpecialMatcher& names) const {
  check_depths(c);
  const Json messages = adapt_messages(c, template_).messages;
  Prompt out;
  out.text = render_or_blame(messages, c, template_);
  out.contents = contents_of(messages, out.text);
  find_plain(messages, c, names, template_, out);
  find_pictures(c, traits(), out);
  return out;
}

void ChatTemplate::learn_tokens(const std::function<bool(std::string_view)>& is_token) {
  TemplateTraits& t = template_.traits;
  if (!t.reasoning && t.tool_form->value->efforts.empty()) t.reasoning = find_reasoning_tokens(is_token);
}

void ChatTemplate::use_response(std::string_view json) {
  TemplateTraits& t = template_.traits;
  using Role = ResponseField::Role;
  try {
    auto response = ResponseTemplate::parse(json);
    const ResponseField *calls = response->find(Role::kCalls), *thought = response->find(Role::kReasoning),
                        *said = response->find(Role::kContent);
    const Entry<ToolForm>* form = calls ? response->same_form(t.tool_form) : nullptr;
    const auto same = [&](const ReasoningMarks& marks) { return response->same_marks(marks); };
    std::optional<ReasoningMarks> marks;
    if (thought) marks = t.reasoning && same(*t.reasoning) ? t.reasoning : find_known_marks(same);
    const bool whole = form && form->value->always;  // it tells all parts of an answer
    if ((!calls || form) && (whole || ((!thought || marks) && (!said || !said->open)))) {
      if (form) t.tool_form = form;
      if (!whole) t.reasoning = marks;
    } else {
      t.reasoning.reset();
      response_ = std::move(response);
    }
    t.knows_form = t.knows_form || calls;
    t.shows_thinking = thought != nullptr;
  } catch (const Error& e) {
    response_problem_ = e.what();
  }
}

std::vector<std::string> ChatTemplate::warnings(const Conversation& c) const {
  const TemplateTraits& t = traits();
  std::vector<std::string> all;
  if (const std::string known = t.effort(c); !known.empty() && c.extra["reasoning_effort"] != Json(known))
    all.push_back(fmt::format("reasoning_effort: this model knows {}; '{}' stands for what was asked",
                              fmt::join(t.tool_form->value->efforts, ", "), known));
  const bool off =
      c.extra.is_object() && c.extra.contains("enable_thinking") && c.extra["enable_thinking"] == Json(false);
  if (off && !t.tool_form->value->efforts.empty()) all.emplace_back("thinking cannot be switched off for this model");
  if (c.tools.is_array() && !c.tools.empty() && !t.shows_tools())
    all.emplace_back("tools: the chat template has no place for them, they are described in front of the conversation");
  if (c.tools.is_array() && !c.tools.empty() && t.shows_tools() && !t.knows_form)
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
  const std::string why = t.calls_refused.empty() ? "" : " (" + t.calls_refused + ")";
  if (!t.shows_calls && any("assistant", "tool_calls"))
    all.push_back("messages: the chat template does not show tool calls" + why +
                  ", they stand in the assistant's text");
  if (!t.shows_results && any("tool", nullptr))
    all.push_back("messages: the chat template does not show results of tools" + why +
                  ", they stand in messages of the user");
  if (t.alternates && repeats_roles(c.messages))
    all.emplace_back("messages: the chat template wants the user and the assistant in turns, so neighbours are joined");
  if (!t.shows_system && any("system", nullptr))
    all.emplace_back("messages: the chat template does not show system messages, they stand in front of the user's");
  return all;
}

std::string chat_template_text(const std::string& from_model, const std::string& path, const std::string& model) {
  if (!path.empty()) return read_text_file(path);
  if (!from_model.empty()) return from_model;
  throw Error(Code::kBadInput, "the model has no chat template; name a file that holds one with --chat-template",
              model);
}

}  // namespace kvasir::text
