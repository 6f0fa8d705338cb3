// X-Kvasir-Prefix: a name of a conversation's beginning, by which proxies send all its turns to the same server.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "run/service.hpp"
#include "serve/http.hpp"
#include "serve/prompt.hpp"
#include "serve/request.hpp"
#include "store/key.hpp"

namespace kvasir::serve {

// The name is 64 bits of a hash keyed with a secret: who sees it in a log cannot try what the conversation may have
// been about. Servers that have the secret in common give equal beginnings equal names.
class PrefixIds {
 public:
  // The secret is what `key_file` holds (at least 16 bytes, without the white space around them), or random when it is
  // "". Throws Error(kIo), Error(kBadInput) naming the file.
  PrefixIds(const std::string& key_file, const run::ModelCard& card);

  // Of a chat: tools and messages up to the first of the user, which all its turns have in common. Of anything else:
  // the first page of the first prompt. `prompts` are the request's ids. A name that the client sent back is kept, so a
  // conversation keeps it when its beginning changes (was cut to fit, or was shorter than a page at first).
  std::string name(const HttpRequest& http, const ApiRequest& request, std::span<const EncodedPrompt> prompts) const;

 private:
  store::Key secret_;
  std::string model_;  // name and codecs
};

bool valid_prefix_id(std::string_view text);  // 16 digits of lower-case hexadecimal

}  // namespace kvasir::serve
