// Context shift, where a request asks for it: what is left out of a prompt that is longer than the context, and which
// tokens stay when an answer has filled it (run::Request::keep). What remains is computed from its beginning, so the
// answer is the one that the shorter text would get.
#pragma once

#include <cstdint>

#include "serve/encoded_prompt.hpp"
#include "serve/request.hpp"

namespace kvasir::serve {

// Leaves out the oldest messages behind the system's, up to a user's, until prompt and answer have room. They go in
// blocks of half the room, so that the next turns of a conversation begin alike and find their pages. The last message
// of the user stays. Says in request.shift and in the notes what went.
void fit_chat(ApiRequest& request, const ChatFormat& chat, const text::Tokenizer& tokenizer, std::int64_t context);

// Sets prompt.keep. Of a text that is too long the oldest tokens behind the kept ones go, in blocks of half the room as
// llama.cpp's server has it, and prompt.dropped counts them.
void fit_prompt(const ApiRequest& request, EncodedPrompt& prompt, const text::Tokenizer* tokenizer,
                std::int64_t context);

}  // namespace kvasir::serve
