// X-Kvasir-Prefix: a name for the beginning of a conversation. Proxies use it to send all turns to the same server.
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

// The name is 64 bits of a hash that is keyed with a secret. So whoever sees the name in a log cannot test guesses
// about the conversation. Servers with the same secret give equal beginnings equal names.
class PrefixIds {
 public:
  // The secret is what `key_file` holds (at least 16 bytes, without the white space around them), or random when it is
  // "". Throws Error(kIo), Error(kBadInput) naming the file.
  PrefixIds(const std::string& key_file, const run::ModelCard& card);

  // For a chat the hash covers the tools and the messages up to the user's first one, which all turns have in common.
  // For other requests it covers the first page of the first prompt. `prompts` are the request's ids. A name that the
  // client sent back is returned unchanged. So a conversation keeps its name when its beginning changes: when it is cut
  // to fit, or was shorter than a page at first.
  std::string name(const HttpRequest& http, const ApiRequest& request, std::span<const EncodedPrompt> prompts) const;

 private:
  store::Key secret_;
  std::string model_;  // name and codecs
};

bool valid_prefix_id(std::string_view text);  // 16 digits of lower-case hexadecimal

}  // namespace kvasir::serve
