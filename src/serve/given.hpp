// What a client was given as an answer, and whether a message that it sends is that answer.
#pragma once

#include <string>
#include <string_view>

#include "serve/chat.hpp"

namespace kvasir::serve {

// The answer as one text.
std::string given_message(const ChatDelta& answer);

// Whether `message` of a conversation says what the answer said: reasoning, content and calls, in their order. White
// space around texts and in arguments does not count, nor do ids, which some clients make anew. Arguments that are no
// JSON object are {} in some APIs.
bool is_given(const std::string& given, const Json& message);

// Whether `shown`, what a template makes of the answer, has its reasoning and its calls, and by the ids that the model
// wrote (`written`) where both have some: results that follow name them.
bool shows_given(const std::string& given, std::string_view shown, std::string_view written);

}  // namespace kvasir::serve
