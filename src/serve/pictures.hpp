// Pictures and sounds of chats, from files to rows.
#pragma once

#include <vector>

#include "serve/request.hpp"

namespace kvasir::run {
class Pictures;
}

namespace kvasir::serve {

// Decodes the pictures of a request that were not yet. REQUIRES: `pictures`, where the request has some. Throws
// ApiException(400) naming the part for what is no picture or sound, and for those that the model or this build cannot
// read.
void read_pictures(ApiRequest& request, run::Pictures* pictures);
void read_pictures(ChatInput& chat, run::Pictures* pictures);  // names parts as `chat` does

// Where the pictures of a chat, which were read, stand in its prompt.
std::vector<run::PicturePlace> places_of(const text::Prompt& prompt, const ChatInput& chat);

}  // namespace kvasir::serve
