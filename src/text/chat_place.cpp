// Bytes of a prompt in terms of the conversation.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "text/chat.hpp"
#include "text/chat_adapt.hpp"
#include "text/conversation.hpp"

namespace kvasir::text {
namespace {

struct Located {
  int message;
  std::size_t begin;  // of the message's content; of nothing outside of contents
};

std::size_t common_prefix(std::string_view a, std::string_view b) {
  const auto n = std::min(a.size(), b.size());
  return static_cast<std::size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(n), b.begin()).first - a.begin());
}

// Text that differs from `text` from the first character on that is not white space.
std::string other_text(const std::string& text) {
  const auto first = text.find_first_not_of(kWhiteSpace);
  return first != text.npos && text[first] == 'x' ? "y" : "x";
}

// The message with other content and other names of functions.
Json altered(const Json& message) {
  Json m = message;
  Json& content = m["content"];
  if (content.is_array()) {
    for (Json& part : content)
      if (part.contains("text") && part["text"].is_string()) part["text"] = other_text(part["text"].get<std::string>());
  } else {
    content = other_text(content.is_string() ? content.get<std::string>() : std::string());
  }
  if (m.contains("tool_calls") && m["tool_calls"].is_array()) {
    for (Json& call : m["tool_calls"]) call["function"]["name"] = other_text(call["function"].value("name", ""));
  }
  return m;
}

Located locate(const Conversation& c, const Json& messages, const std::string& full, std::size_t at,
               const ProbedTemplate& to) {
  const int n = static_cast<int>(messages.size());
  // Where the content of message k begins; the end of the prompt where the template refuses the question.
  const auto content_begin = [&](int k) {
    Json changed = messages;
    changed[static_cast<std::size_t>(k)] = altered(changed[static_cast<std::size_t>(k)]);
    try {
      return common_prefix(full, to.render(changed, c, c.add_generation_prompt));
    } catch (const Error&) {
      return full.size();
    }
  };
  int below = -1, above = n;  // content_begin(below) <= at < content_begin(above)
  std::size_t begin = 0;
  while (above - below > 1) {
    const int middle = below + (above - below) / 2;
    const std::size_t b = content_begin(middle);
    if (b <= at) {
      below = middle;
      begin = b;
    } else {
      above = middle;
    }
  }
  if (below < 0) return {-1, full.size()};
  // The header of the next message belongs to it: the conversation that ends before it does not have it.
  try {
    const Json head(messages.begin(), messages.begin() + below + 1);
    const std::size_t end = common_prefix(full, to.render(head, c, false));
    if (end > begin && at >= end) return {below + 1, full.size() + 1};
  } catch (const Error&) {
  }
  return {below, begin};
}

// Which message of the conversation an adapted one is.
int original(const AdaptedMessages& adapted, int message, const Conversation& c) {
  if (message < 0) return -1;
  const auto i = static_cast<std::size_t>(message);
  return i < adapted.origin.size() ? adapted.origin[i] : static_cast<int>(c.messages.size());
}

}  // namespace

int ChatTemplate::message_at(const Conversation& c, std::size_t at) const {
  check_depths(c);
  const AdaptedMessages adapted = adapt_messages(c, template_);
  const std::string full = template_.render(adapted.messages, c, c.add_generation_prompt);
  return original(adapted, locate(c, adapted.messages, full, at, template_).message, c);
}

Place ChatTemplate::place_at(const Conversation& c, std::size_t at) const {
  check_depths(c);
  const AdaptedMessages adapted = adapt_messages(c, template_);
  const Json& messages = adapted.messages;
  const std::string full = template_.render(messages, c, c.add_generation_prompt);
  const Located found = locate(c, messages, full, at, template_);
  Place place{.message = original(adapted, found.message, c), .messages = static_cast<int>(c.messages.size())};
  if (place.message < 0 || place.message >= place.messages) return place;
  const Json& message = messages[static_cast<std::size_t>(found.message)];
  place.role = message["role"].get<std::string>();
  const std::string content = first_text(message["content"]);
  // `begin` is where the content begins, or what is left of it when the template trims; up to `at` it has to stand
  // there as it is, and at least up to its first character that is not white space.
  const std::size_t first = content.find_first_not_of(kWhiteSpace);
  if (first == content.npos || at < found.begin) return place;
  for (const std::size_t start : {std::size_t{0}, first}) {
    const std::size_t n = std::max(at - found.begin, first - start + 1);
    if (start + (at - found.begin) > content.size() || full.compare(found.begin, n, content, start, n) != 0) continue;
    place.byte = static_cast<std::int64_t>(start + (at - found.begin));
    break;
  }
  return place;
}

std::string describe(const Place& place) {
  if (place.message < 0) return "in front of the first message";
  if (place.message >= place.messages) return "behind the last message";
  if (place.byte < 0) return fmt::format("in the frame of messages[{}] ({})", place.message, place.role);
  return fmt::format("byte {} of messages[{}].content ({})", place.byte, place.message, place.role);
}

}  // namespace kvasir::text
