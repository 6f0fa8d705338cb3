// Messages in the form that a template takes: contents, roles, calls, ids and reasoning, whoever made them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.hpp"
#include "text/template_traits.hpp"

namespace kvasir::text {

inline constexpr const char* kWhiteSpace = " \t\r\n\f\v";

// Messages as a template takes them, and which of the conversation's each one is (-1: none of them).
struct AdaptedMessages {
  Json messages = Json::array();
  std::vector<int> origin;

  void add(Json message, int from);
};

// Throws Error(kBadInput) that names the message and field.
AdaptedMessages adapt_messages(const Conversation& c, const ProbedTemplate& to);

// The parts of that. `where` names what is changed in messages of errors.
void adapt_content(Json& message, const std::string& where, const TemplateTraits& t);
void adapt_ids(Json& messages, CallIdForm form);
void adapt_reasoning(Json& message, const TemplateTraits& t);
void adapt_calls(Json& message, const std::string& where, const ProbedTemplate& to);
// For a template that shows one call per message: each call's results follow it. `i`: the message with the calls, and
// then the last that is done.
void split_calls(const Json& messages, std::size_t& i, const TemplateTraits& t, AdaptedMessages& out);
// For templates that refuse anything but the user and the assistant in turns: neighbours of one role become one
// message, and what stands between results and the user's next message is an empty answer.
void alternate(AdaptedMessages& all);
// Each picture behind a part that is its mark, so that it is found in the prompt.
Json picture_parts(std::string_view content, const TemplateTraits& t);
bool has_calls(const Json& message);
// The function of a call, checked; `where` names the call.
const Json& function_of(const Json& call, const std::string& where);
// Of a content as the template gets it: its text up to the first picture.
std::string first_text(const Json& content);

}  // namespace kvasir::text
