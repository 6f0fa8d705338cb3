#include "text/prompt.hpp"

namespace kvasir::text {

std::vector<std::int32_t> encode_prompt(const Tokenizer& tokenizer, std::string_view text, EncodeOptions options) {
  if (tokenizer.bos() >= 0 && options.parse_special && text.starts_with(tokenizer.piece(tokenizer.bos())))
    options.add_bos = false;
  return tokenizer.encode(text, options);
}

std::vector<std::int32_t> encode_prompt(const Tokenizer& tokenizer, const Prompt& prompt) {
  return encode_prompt(tokenizer, prompt.text,
                       {.add_bos = tokenizer.add_bos(), .parse_special = true, .plain = prompt.plain});
}

}  // namespace kvasir::text
