// Where the reuse of a prompt ended, in the client's own terms.
#pragma once

#include "serve/prompt.hpp"

namespace kvasir::serve {

// {"token", "byte"} for a text; for a chat {"token", "message", "role", "byte"}, of which those that are known: byte is
// that of the message's content. Null when the token's bytes cannot be told (prompts of ids). `words` becomes "byte 17
// of messages[3].content (user)", or "".
Json locate_token(const ApiRequest& request, const EncodedPrompt& prompt, std::int64_t token,
                  const text::Tokenizer* tokenizer, const ChatFormat* chat, std::string* words);

}  // namespace kvasir::serve
