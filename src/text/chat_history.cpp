// Earlier answers in the form that a template takes: arguments, ids and reasoning, whoever made them.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/splitmix.hpp"
#include "text/arguments.hpp"
#include "text/chat_adapt.hpp"
#include "text/conversation.hpp"

namespace kvasir::text {
namespace {

constexpr std::string_view kIdLetters = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

std::string text_field(const Json& object, const char* name) {
  const auto at = object.find(name);
  return at != object.end() && at->is_string() ? at->get<std::string>() : std::string();
}

// The template's ids of the calls of a conversation.
class CallIds {
 public:
  explicit CallIds(CallIdForm style) : style_(style) {}

  void call(Json& call) {
    const std::string given = text_field(call, "id");
    const auto function = call.find("function");
    const std::string name =
        function != call.end() && function->is_object() ? text_field(*function, "name") : std::string();
    std::string id = style_ == CallIdForm::kNumbered ? numbered(given, name) : short_id(given);
    if (!given.empty()) known_[given] = id;
    open_.emplace_back(name, id);
    call["id"] = std::move(id);
    ++count_;
  }
  void answer() { open_.clear(); }  // another message of the assistant begins

  void result(Json& message) {
    const std::string given = text_field(message, "tool_call_id"), name = text_field(message, "name");
    const auto known = known_.find(given);
    std::string id;
    if (given.empty() || known == known_.end()) {
      auto at = std::find_if(open_.begin(), open_.end(), [&](const auto& call) { return call.first == name; });
      if (at == open_.end()) at = open_.begin();
      const bool ours = given.empty() && at != open_.end();
      id = ours ? at->second : short_id(given);
      if (ours) open_.erase(at);
    } else {
      id = known->second;
      std::erase_if(open_, [&](const auto& call) { return call.second == id; });
    }
    message["tool_call_id"] = std::move(id);
  }

 private:
  // Nine letters or digits: the client's, or such as its text decides, so that they are the same in the next turn.
  std::string short_id(const std::string& given) {
    if (given.size() == kShortId) return given;  // templates look at the length alone
    std::uint64_t state = given.empty() ? count_ : 0;
    for (const char c : given) state = splitmix64(state) ^ static_cast<unsigned char>(c);
    std::string id;
    do {
      std::uint64_t bits = splitmix64(state);
      id.clear();
      for (std::size_t i = 0; i < kShortId; ++i, bits /= kIdLetters.size()) id += kIdLetters[bits % kIdLetters.size()];
    } while (!taken_.insert(id).second);
    return id;
  }

  // As Kimi K2 writes them: functions.NAME:0, counted through the conversation.
  std::string numbered(const std::string& given, const std::string& name) const {
    constexpr std::string_view kSpace = "functions.";
    if (given.starts_with(kSpace)) return given;
    return fmt::format("{}{}:{}", name.starts_with(kSpace) ? "" : kSpace, name, count_);
  }

  const CallIdForm style_;
  std::map<std::string, std::string> known_;               // the client's id: the template's
  std::vector<std::pair<std::string, std::string>> open_;  // name and id of calls without a result
  std::set<std::string> taken_;
  std::uint64_t count_ = 0;
};

}  // namespace

// What the model thought, under the name that the template reads.
void adapt_reasoning(Json& message, const TemplateTraits& t) {
  const auto thought = message.find("reasoning_content");
  if (thought == message.end() || !thought->is_string()) return;
  std::string text = thought->get<std::string>();
  const auto said = message.find("content");
  if (has_calls(message) && t.content_or_thinking && !text.empty() && said != message.end() && said->is_string() &&
      *said != "") {
    text += "\n\n" + said->get<std::string>();
    message["content"] = "";
  }
  if (t.reasoning_name != "reasoning_content") message.erase("reasoning_content");
  message[t.reasoning_name] = std::move(text);
}

void adapt_ids(Json& messages, CallIdForm form) {
  if (form == CallIdForm::kAny) return;
  CallIds ids(form);
  for (Json& message : messages) {
    if (!message.is_object() || !message.contains("role")) continue;
    if (message["role"] == "tool") ids.result(message);
    if (message["role"] != "assistant") continue;
    ids.answer();
    const auto calls = message.find("tool_calls");
    if (calls == message.end() || !calls->is_array()) continue;
    for (Json& call : *calls)
      if (call.is_object()) ids.call(call);
  }
}

namespace {

// A call whose arguments are no JSON text of an object is one that the model broke, or that was cut: it is shown as it
// came where the template can, and else what can be read of it.
void adapt_arguments(Json& arguments, const std::string& at, const ProbedTemplate& to) {
  const TemplateTraits& t = to.traits;
  if (arguments.is_null()) arguments = Json::object();
  if (arguments.is_string() &&
      arguments.get_ref<const std::string&>().find_first_not_of(kWhiteSpace) == std::string::npos)
    arguments = Json::object();
  if (arguments.is_string() && t.arguments_as_objects) {
    const std::string text = arguments.get<std::string>();
    Json parsed = Json::parse(text, nullptr, false);
    check_depth(parsed, at);
    arguments = parsed.is_object() ? std::move(parsed) : t.shows_broken ? verbatim_json(text) : mended_arguments(text);
  } else if (arguments.is_object() && !t.arguments_as_objects) {
    std::string text;
    jinja::Meter meter(to.options.limits);
    jinja::append_json(text, jinja::from_json(arguments, meter, at), {}, meter);
    arguments = std::move(text);
  }
}

}  // namespace

void adapt_calls(Json& message, const std::string& where, const ProbedTemplate& to) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end()) return;
  // Templates ask whether there is such a field at all.
  if (calls->is_null() || (calls->is_array() && calls->empty())) {
    message.erase("tool_calls");
    return;
  }
  if (!calls->is_array()) refuse_message(where, "expected an array");
  for (std::size_t i = 0; i < calls->size(); ++i) {
    const std::string at = fmt::format("{}[{}]", where, i);
    function_of((*calls)[i], at);
    adapt_arguments((*calls)[i]["function"]["arguments"], at + ".function.arguments", to);
  }
}

void split_calls(const Json& messages, std::size_t& i, const TemplateTraits& t, AdaptedMessages& out) {
  const std::size_t first = i;
  std::size_t end = i + 1;
  while (end < messages.size() && messages[end]["role"] == "tool") ++end;
  std::vector<char> used(end - first);
  const Json& calls = messages[first]["tool_calls"];
  const auto add = [&](Json message, std::size_t from) { out.add(std::move(message), static_cast<int>(from)); };
  for (std::size_t k = 0; k < calls.size(); ++k) {
    Json one = messages[first];
    one["tool_calls"] = Json::array({calls[k]});
    if (k > 0) {
      one["content"] = "";
      one.erase(t.reasoning_name);
    }
    add(std::move(one), first);
    const Json id = calls[k].is_object() ? calls[k].value("id", Json()) : Json();
    for (std::size_t j = first + 1; j < end; ++j) {
      const Json of = messages[j].value("tool_call_id", Json());
      const bool his = !of.is_null() && !id.is_null() ? of == id : j - first - 1 == k;
      if (!his || std::exchange(used[j - first], 1)) continue;
      add(messages[j], j);
    }
  }
  for (std::size_t j = first + 1; j < end; ++j)
    if (!used[j - first]) add(messages[j], j);
  i = end - 1;
}

namespace {

std::string plain_text(const Json& message) {
  const auto content = message.find("content");
  if (content == message.end() || content->is_null()) return {};
  if (content->is_string()) return content->get<std::string>();
  std::string text;
  for (const Json& part : *content)
    if (part.is_object()) text += (text.empty() ? "" : "\n") + text_field(part, "text");
  return text;
}

}  // namespace

void alternate(AdaptedMessages& out) {
  AdaptedMessages all;
  std::string last;  // role of the last message that counts
  for (std::size_t i = 0; i < out.messages.size(); ++i) {
    Json& message = out.messages[i];
    const std::string role = message["role"].get<std::string>();
    const bool counts = role == "user" || (role == "assistant" && !message.contains("tool_calls"));
    if (counts && role == last) {
      Json& before = all.messages.back();
      if (before["role"] == role && !before.contains("tool_calls")) {
        const std::string text = plain_text(before), more = plain_text(message);
        before["content"] = text + (text.empty() || more.empty() ? "" : "\n\n") + more;
        continue;
      }
      all.add({{"role", role == "user" ? "assistant" : "user"}, {"content", ""}}, out.origin[i]);
    }
    if (counts && last.empty() && role == "assistant") all.add({{"role", "user"}, {"content", ""}}, out.origin[i]);
    if (counts) last = role;
    all.add(std::move(message), out.origin[i]);
  }
  out = std::move(all);
}

}  // namespace kvasir::text
