// What clients ask of a model's thinking, as the variables that chat templates read. What the client says under
// chat_template_kwargs itself is left alone.
#pragma once

#include <string>

#include "base/json.hpp"
#include "serve/encoded_prompt.hpp"
#include "serve/request.hpp"

namespace kvasir::serve {

void ask_thinking(Json& kwargs, bool on);  // enable_thinking, thinking

// "none" switches thinking off; "minimal", "low", "medium", "high", "xhigh" and "max" switch it on and are given to the
// template as reasoning_effort. Throws ApiException(400) that names `field` for other words.
void ask_effort(Json& kwargs, const std::string& effort, const std::string& field);

// Makes of the request's budget what the sampler holds: at so many tokens the end of thinking follows, as the template
// writes it. Warns where that cannot be.
void bound_thinking(const ChatFormat& chat, const text::Tokenizer& tokenizer, const EncodedPrompt& prompt,
                    ApiRequest& request);

}  // namespace kvasir::serve
