#include "text/stream.hpp"

#include <algorithm>
#include <utility>

#include "unicode/utf8.hpp"

namespace kvasir::text {

std::string TextStream::push(std::int32_t id) {
  pending_ += tokenizer_.text_behind(previous_, id,
                                     show_control_ || std::find(shown_.begin(), shown_.end(), id) != shown_.end());
  previous_ = id;
  const std::size_t complete = pending_.size() - unicode::incomplete_tail(pending_);
  std::string text = unicode::to_valid_utf8(std::string_view(pending_).substr(0, complete));
  pending_.erase(0, complete);
  return text;
}

std::string TextStream::flush() { return unicode::to_valid_utf8(std::exchange(pending_, {})); }

}  // namespace kvasir::text
