// Ids in, text out, while the ids are still being made.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "text/tokenizer.hpp"

namespace kvasir::text {

// What push and flush return, joined, is Tokenizer::decode of the pushed ids with ill-formed bytes replaced as
// to_valid_utf8 does. Every returned string is valid UTF-8: the bytes of a character that is not complete are held
// back.
class TextStream {
 public:
  // `previous` is the id in front of the first one that will be pushed (the prompt's last), -1 when there is none: it
  // decides whether a leading space was put there by encode. `tokenizer` must outlive this.
  // Of control tokens those in `shown` are text, with `show_control` all.
  explicit TextStream(const Tokenizer& tokenizer, std::int32_t previous = -1, bool show_control = false,
                      std::vector<std::int32_t> shown = {})
      : tokenizer_(tokenizer), previous_(previous), show_control_(show_control), shown_(std::move(shown)) {}

  // The text that became complete with `id`; often empty.
  std::string push(std::int32_t id);

  // The end of the text: what was held back can no longer become a character and is replaced by U+FFFD.
  std::string flush();

  // Bytes held back, 0 to 3.
  std::size_t pending() const { return pending_.size(); }

 private:
  const Tokenizer& tokenizer_;
  std::int32_t previous_;
  bool show_control_;
  std::vector<std::int32_t> shown_;
  std::string pending_;  // the beginning of a character
};

}  // namespace kvasir::text
