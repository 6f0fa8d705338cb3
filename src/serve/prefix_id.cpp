#include "serve/prefix_id.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "base/error.hpp"
#include "base/file.hpp"
#include "kv/page.hpp"

namespace kvasir::serve {
namespace {

constexpr std::size_t kDigits = 16;
constexpr std::size_t kLeastSecret = 16;

std::string secret_text(const std::string& key_file) {
  if (key_file.empty()) {
    std::random_device source;
    std::string text;
    for (int i = 0; i < 8; ++i) text += fmt::format("{:08x}", source());
    return text;
  }
  const std::string text = read_text_file(key_file);
  const std::size_t begin = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  const std::string secret = text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
  if (secret.size() < kLeastSecret)
    throw Error(Code::kBadInput, fmt::format("expected a secret of at least {} bytes", kLeastSecret), key_file);
  return secret;
}

// What all turns of a chat begin with. Only what every client repeats: role and text.
std::string beginning_of(const ChatInput& chat) {
  Json beginning = Json::array({chat.tools});
  for (const Json& message : chat.messages) {
    beginning.push_back({message["role"], message["content"]});
    if (message["role"] == "user") break;
  }
  return dump(beginning);
}

}  // namespace

PrefixIds::PrefixIds(const std::string& key_file, const run::ModelCard& card)
    : secret_(store::root_key({}, secret_text(key_file))),
      model_(fmt::format("{}\n{}\n{}\n", card.name, card.k_codec, card.v_codec)) {}

std::string PrefixIds::name(const HttpRequest& http, const ApiRequest& request,
                            std::span<const EncodedPrompt> prompts) const {
  if (const std::string_view sent = http.header("x-kvasir-prefix"); valid_prefix_id(sent)) return std::string(sent);
  const store::Fingerprint scope = store::fingerprint_of(model_ + http.tenant);
  store::Key key;
  if (request.is_chat) {
    const std::string text = beginning_of(request.chat);
    key = store::prefix_key(secret_, scope, std::as_bytes(std::span(text)));
  } else {
    const std::span<const std::int32_t> ids = prompts.front().ids;
    key =
        store::prefix_key(secret_, scope, std::as_bytes(ids.first(std::min(ids.size(), std::size_t{kv::kPageTokens}))));
  }
  return store::to_hex(std::span(key.bytes).first(kDigits / 2));
}

bool valid_prefix_id(std::string_view text) {
  return text.size() == kDigits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace kvasir::serve
