// What a chat template takes and shows, found by rendering small conversations with it (chat_probe.cpp), and the
// template together with that. What messages become for a template (chat_adapt.hpp) depends on nothing else.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/json.hpp"
#include "text/jinja/jinja.hpp"
#include "text/reasoning.hpp"
#include "text/tool_form.hpp"

namespace kvasir::text {

struct Conversation;  // text/conversation.hpp

// The ids of calls that a template takes: nine letters or digits, as Mistral's, functions.NAME:0 as Kimi's, or any.
// Others are brought into that form.
enum class CallIdForm { kAny, kShort, kNumbered };
inline constexpr std::size_t kShortId = 9;

struct TemplateTraits {
  const Entry<ToolForm>* tool_form = nullptr;  // how the model writes calls: as the template does, or the generic form
  bool knows_form = true;                      // the template shows how calls are written
  std::optional<ReasoningMarks> reasoning;     // between which the model thinks; none: not known
  bool shows_thinking = false;

  enum class Content { kText, kParts, kEither } content = Content::kText;
  std::string picture_type, picture_text;  // of a part that is a picture; what it writes for it, without blanks
  std::string sound_type, sound_text;      // the same of a sound
  bool arguments_as_objects = true;
  std::string tools_name = "tools";  // the variable that it shows tools of; empty: none
  bool shows_tools() const { return !tools_name.empty(); }
  bool shows_calls = true, shows_results = true, shows_several = true, shows_system = true;
  bool takes_system = true;   // and does not refuse it
  std::string calls_refused;  // why it shows no calls: what it says to the probe
  CallIdForm ids = CallIdForm::kAny;
  std::string reasoning_name = "reasoning_content";  // the field of messages in which it reads reasoning
  bool content_or_thinking = false;                  // it refuses both in a message with calls
  bool shows_broken = false;                         // arguments that are no JSON, as they are
  bool alternates = false;                           // it refuses two messages of one role in a row
  // What of a tool it cannot do without.
  struct Needs {
    bool description = false, parameters = false, type = false, properties = false, required = false,
         property_type = false, property_description = false;
  } needs;

  // Tools as the template takes them: what it cannot do without and what they leave out is empty.
  Json filled_tools(const Json& tools) const;
  // The word for the model where it knows a few: the nearest to what `c` asks for. "" when nothing is asked for.
  std::string effort(const Conversation& c) const;
};

struct ProbedTemplate {
  // Throws Error(kBadInput) that names the template's line.
  ProbedTemplate(std::string_view source, std::string bos, std::string eos, jinja::RenderOptions options);

  // The prompt of messages that are in the template's own form.
  std::string render(const Json& messages, const Conversation& c, bool generation_prompt) const;

  jinja::Template jinja;
  jinja::RenderOptions options;
  std::string bos, eos;
  TemplateTraits traits;
};

}  // namespace kvasir::text
