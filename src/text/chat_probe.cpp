// What a chat template takes and shows, found by rendering small conversations with it.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/error.hpp"
#include "text/arguments.hpp"
#include "text/chat_adapt.hpp"
#include "text/conversation.hpp"
#include "text/pictures.hpp"

namespace kvasir::text {
namespace {

// Of what a template writes for a picture the special tokens: without blanks and words around them.
std::string tokens_of(std::string_view text) {
  const std::size_t first = text.find_first_of("<["), last = text.find_last_of(">]");
  if (first != text.npos && last != text.npos && first < last) return std::string(text.substr(first, last + 1 - first));
  const std::size_t begin = std::min(text.find_first_not_of(kWhiteSpace), text.size());
  return std::string(text.substr(begin, text.find_last_not_of(kWhiteSpace) + 1 - begin));
}

class TemplateProbe {
 public:
  explicit TemplateProbe(ProbedTemplate& to) : to_(to), t_(to.traits) {}

  // Each looks with what those before it found.
  void find_all() {
    find_content();
    find_pictures();
    find_arguments();
    find_tools();
    find_history();
    find_schemas();
    find_reasoning();
  }

 private:
  // "" when the template refuses it, with what it says in `why`.
  std::string probe_with(const Json& messages, const Json& tools, std::string* why = nullptr) const {
    Conversation c;
    c.tools = tools;
    try {
      return to_.render(messages, c, false);
    } catch (const Error& e) {
      if (why) *why = e.what();
      return {};
    }
  }

  std::string probe(const Json& messages, bool tools, std::string* why = nullptr) const {
    const Json parameters = {{"type", "object"}, {"properties", Json::object()}, {"required", Json::array()}};
    Json tool;
    if (tools)
      tool = {{{"type", "function"},
               {"function", {{"name", "kvasir_tool"}, {"description", "probe"}, {"parameters", parameters}}}}};
    return probe_with(messages, tool, why);
  }

  // A template that takes parts shows the text of one bare; printing the list would show it quoted.
  void find_content() {
    constexpr const char* kText = "kvasir-probe";
    const auto shown = [&](const Json& content) {
      const std::string text = probe({{{"role", "user"}, {"content", content}}}, false);
      return text.find(kText) != text.npos && text.find(fmt::format("'{}'", kText)) == text.npos &&
             text.find(fmt::format("\"{}\"", kText)) == text.npos;
    };
    const bool text = shown(kText), parts = shown({{{"type", "text"}, {"text", kText}}});
    t_.content = parts ? (text ? TemplateTraits::Content::kEither : TemplateTraits::Content::kParts)
                       : TemplateTraits::Content::kText;
  }

  // Objects, unless the template would print them as Python does, and shows JSON text as it is.
  void find_arguments() {
    const auto shown = [this](const Json& arguments) {
      return probe({{{"role", "user"}, {"content", "probe"}},
                    {{"role", "assistant"},
                     {"content", ""},
                     {"tool_calls",
                      {{{"id", "probe0001"},
                        {"type", "function"},
                        {"function", {{"name", "probe"}, {"arguments", arguments}}}}}}},
                    {{"role", "tool"}, {"name", "probe"}, {"tool_call_id", "probe0001"}, {"content", "probe"}}},
                   true);
    };
    const std::string object = shown({{"kvasir_key", 1}}), text = shown(R"({"kvasir_key": 1})");
    const bool object_works = object.find("kvasir_key") != object.npos && object.find("'kvasir_key'") == object.npos;
    t_.arguments_as_objects = object_works || text.find(R"({"kvasir_key": 1})") == text.npos;
  }

  // What of tools the template shows, and whether it shows what the system says. What it refuses counts as shown, so
  // that the refusal is what clients hear, unless there is another way.
  void find_tools() {
    const Json user{{"role", "user"}, {"content", "kvasir-question"}};
    const auto shows = [](const std::string& text, const char* what) { return text.find(what) != text.npos; };
    const std::string plain = probe(Json::array({user}), false);
    for (const char* name : {"tools", "xml_tools"}) {
      t_.tools_name = name;
      const std::string with = probe(Json::array({user}), true);
      if (plain.empty() || with.empty() || with != plain) break;
      t_.tools_name.clear();
    }
    if (plain.empty()) return;
    const auto call = [&](const char* name, const char* id) {
      Json arguments = {{name, 1}};  // some templates show these alone
      if (!t_.arguments_as_objects) arguments = arguments.dump();
      return Json{{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}};
    };
    const auto result = [](const char* id, const char* text) {
      return Json{{"role", "tool"}, {"name", "kvasir_call"}, {"tool_call_id", id}, {"content", text}};
    };
    Json calls{{"role", "assistant"}, {"content", ""}, {"tool_calls", {call("kvasir_call", "probe0001")}}};
    const std::string one = probe({user, calls, result("probe0001", "kvasir-result")}, true, &t_.calls_refused);
    t_.shows_calls = shows(one, "kvasir_call");
    t_.shows_results = shows(one, "kvasir-result");
    if (t_.shows_calls) {
      calls["tool_calls"].push_back(call("kvasir_other", "probe0002"));
      const std::string two =
          probe({user, calls, result("probe0001", "kvasir-result"), result("probe0002", "kvasir-second")}, true);
      t_.shows_several = shows(two, "kvasir_call") && shows(two, "kvasir_other");
    }
    const std::string system = probe({{{"role", "system"}, {"content", "kvasir-system"}}, user}, false);
    t_.takes_system = shows(system, "kvasir-system");
    t_.shows_system = system.empty() || t_.takes_system;
  }

  // What the template takes of earlier answers, and under which names.
  void find_history() {
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
    const Json none = Json::object(), some = t_.arguments_as_objects ? Json{{"key", 1}} : Json(R"({"key": 1})");
    const std::string fine = probe(answer(none, "probe0001", some), true);
    if (!fine.empty()) {
      const bool any = !probe(answer(none, "call_0123456789abcdef", some), true).empty();
      const bool missing = !probe(answer(none, nullptr, some), true).empty();
      if (!any || !missing) {
        t_.ids = CallIdForm::kShort;
      } else if (t_.tool_form->name == "kimi" && has(fine, "probe0001")) {
        t_.ids = CallIdForm::kNumbered;
      }
      const std::string broken = R"({"kvasir_key": "a)";
      t_.shows_broken =
          t_.arguments_as_objects && has(probe(answer(none, "probe0001", verbatim_json(broken)), true), broken.c_str());
    }
    for (const char* name : {"reasoning_content", "reasoning", "thinking", "thought"}) {
      const Json thought{{name, "kvasir-thought"}};
      Json said{{"role", "assistant"}, {"content", "kvasir-said"}};
      said.update(thought);
      if (!has(probe(answer(thought, "probe0001", some), true), "kvasir-thought") &&
          !has(probe({user, std::move(said)}, false), "kvasir-thought"))
        continue;
      t_.reasoning_name = name;
      const Json both{{name, "kvasir-thought"}, {"content", "kvasir-said"}};
      t_.content_or_thinking = !fine.empty() && probe(answer(both, "probe0001", some), true).empty();
      break;
    }
    const Json said{{"role", "assistant"}, {"content", "kvasir-said"}};
    t_.alternates = probe({user, user}, false).empty() && !probe({user, said, user}, false).empty();
  }

  // Marks that the template writes around reasoning, where none of those that are known occur in it: behind the prompt,
  // or around what was thought, which some show for calls alone.
  void find_reasoning() {
    const Json user{{"role", "user"}, {"content", "kvasir-question"}};
    if (!t_.reasoning && t_.tool_form->value->efforts.empty()) {
      Conversation c;
      c.messages = Json::array({user});
      for (Json& m : c.messages) adapt_content(m, "messages", t_);
      try {
        t_.reasoning = find_open_reasoning(to_.render(c.messages, c, true));
      } catch (const Error&) {  // a template that refuses the question
      }
      Json arguments = {{"key", 1}};
      if (!t_.arguments_as_objects) arguments = arguments.dump();
      const Json calls = Json::array({{{"id", "probe0001"},
                                       {"type", "function"},
                                       {"function", {{"name", "kvasir_call"}, {"arguments", arguments}}}}});
      for (const bool call : {false, true}) {
        Json said{{"role", "assistant"}, {"content", "kvasir-said"}}, thought = said;
        if (call) said["tool_calls"] = calls;
        thought = said;
        thought[t_.reasoning_name] = "kvasir-thought";
        if (!t_.reasoning)
          t_.reasoning = marks_around(probe({user, thought}, true), probe({user, said}, true), "kvasir-thought");
      }
    }
    t_.shows_thinking = t_.reasoning.has_value();
  }

  // Which parts of a tool the template cannot do without.
  void find_schemas() {
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
    t_.needs.description = refuses([](Json& f) { f.erase("description"); });
    t_.needs.parameters = refuses([](Json& f) { f.erase("parameters"); });
    t_.needs.type = refuses(parameters("type"));
    t_.needs.properties =
        refuses(parameters("properties")) || refuses([](Json& f) { f["parameters"] = Json::object(); });
    t_.needs.required = refuses(parameters("required"));
    t_.needs.property_type = refuses(property("type"));
    t_.needs.property_description = refuses(property("description"));
  }

  // What it writes for a part that is a picture, or a sound, behind a part that is text.
  void find_pictures() {
    if (t_.content == TemplateTraits::Content::kText) return;
    const std::string mark = picture_mark("kvasir-probe");
    const auto text = [](const std::string& value) { return Json{{"type", "text"}, {"text", value}}; };
    const auto behind_mark = [&](const Json& parts) -> std::optional<std::string> {
      const std::string shown = probe(Json::array({{{"role", "user"}, {"content", parts}}}), false);
      const std::size_t at = shown.find(mark), end = at == shown.npos ? at : shown.find("kvasir-behind", at);
      if (end == shown.npos) return std::nullopt;
      return shown.substr(at + mark.size(), end - at - mark.size());
    };
    const Json before = text(mark), behind = text("kvasir-behind");
    const std::optional<std::string> without = behind_mark(Json::array({before, behind}));
    const auto find = [&](std::initializer_list<const char*> types, std::string& found, std::string& written) {
      for (const char* type : types) {
        const std::optional<std::string> with = behind_mark(Json::array({before, {{"type", type}}, behind}));
        if (!without || !with || *with == *without) continue;
        found = type;
        written = tokens_of(*with);
        return;
      }
    };
    find({"image", "image_url"}, t_.picture_type, t_.picture_text);
    find({"audio", "input_audio", "audio_url"}, t_.sound_type, t_.sound_text);
    // A template that writes the same for both looks for no sounds: it shows a part that is no text.
    if (t_.sound_text == t_.picture_text) t_.sound_type = t_.sound_text = {};
  }

  ProbedTemplate& to_;
  TemplateTraits& t_;
};

}  // namespace

ProbedTemplate::ProbedTemplate(std::string_view source, std::string bos_text, std::string eos_text,
                               jinja::RenderOptions of)
    : jinja(source), options(std::move(of)), bos(std::move(bos_text)), eos(std::move(eos_text)) {
  traits.tool_form = find_tool_form(source);
  traits.reasoning = find_reasoning_marks(source);
  if (!traits.tool_form) {
    traits.tool_form = generic_tool_form();
    traits.knows_form = false;
  }
  TemplateProbe(*this).find_all();
}

}  // namespace kvasir::text
