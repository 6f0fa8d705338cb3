// The Responses API of OpenAI: https://platform.openai.com/docs/api-reference/responses. Its body becomes that of a
// chat.
#pragma once

#include "serve/request.hpp"

namespace kvasir::serve {

// Items become messages in their order: calls that follow each other, and the text and reasoning in front of them, are
// one message of the assistant. Kinds of items and tools that are the API's own are left out, and notes say so.
// previous_response_id puts a stored conversation in front. `dialect` of what is returned holds
//   response     the fields of a response object that repeat the request
//   store        whether the answer is to be stored, and then
//   messages     the conversation without instructions, in the internal form
//   input        the request's items
//   namespaces   of tools that came in one: their name to its name
//   encrypted    whether reasoning is wanted as encrypted_content
// Throws ApiException.
ApiRequest parse_responses(const Json& body, const RequestLimits& limits);

// A reasoning item's encrypted_content. It is not secret, only opaque: clients that may not keep reasoning as text send
// this back.
std::string seal_reasoning(std::string_view text);

}  // namespace kvasir::serve
