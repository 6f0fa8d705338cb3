#include "serve/context_shift.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "serve/pictures.hpp"

namespace kvasir::serve {
namespace {

constexpr std::int64_t kAnswerRoom = 256;  // for an answer without a limit

std::int64_t answer_room(const ApiRequest& request, std::int64_t context) {
  const std::int64_t most = request.service.request.max_tokens;
  return std::min(most < 0 ? kAnswerRoom : most, context / 4);
}

bool is_system(const Json& message) { return message["role"] == "system" || message["role"] == "developer"; }

// The conversation without messages [first, end).
ChatInput without(const ChatInput& chat, std::size_t first, std::size_t end) {
  ChatInput out = chat;
  out.messages.erase(out.messages.begin() + static_cast<std::ptrdiff_t>(first),
                     out.messages.begin() + static_cast<std::ptrdiff_t>(end));
  return out;
}

// How many tokens have to go, at least: whole blocks.
std::int64_t in_blocks(std::int64_t excess, std::int64_t room) {
  const std::int64_t block = std::max<std::int64_t>(1, room / 2);
  return (excess + block - 1) / block * block;
}

}  // namespace

void fit_chat(ApiRequest& request, const ChatFormat& chat, const text::Tokenizer& tokenizer, std::int64_t context) {
  const auto tokens = [&](const ChatInput& input) {
    const text::Prompt prompt = chat.prompt(input, tokenizer);
    run::PicturePrompt encoded;
    encoded.add(tokenizer, prompt.text, 0, places_of(prompt, input),
                {.add_bos = tokenizer.add_bos(), .parse_special = true, .plain = prompt.plain});
    return std::ssize(encoded.ids);
  };
  const std::int64_t all = tokens(request.chat);
  const std::int64_t room = context - 1 - answer_room(request, context);
  if (all <= room) return;
  const Json& messages = request.chat.messages;
  std::size_t first = 0;
  while (first < messages.size() && is_system(messages[first])) ++first;
  std::vector<std::size_t> ends;  // a conversation may begin there
  for (std::size_t i = first + 1; i < messages.size(); ++i)
    if (messages[i]["role"] == "user") ends.push_back(i);
  if (ends.empty()) return;
  const std::int64_t wanted = std::max<std::int64_t>(0, all - in_blocks(all - room, room));
  auto end = std::partition_point(ends.begin(), ends.end(),
                                  [&](std::size_t i) { return tokens(without(request.chat, first, i)) > wanted; });
  if (end == ends.end()) --end;  // the last question and what follows it
  request.chat = without(request.chat, first, *end);
  request.shift.dropped_messages = static_cast<std::int64_t>(*end - first);
  request.shift.dropped_tokens = all - tokens(request.chat);
  request.notes.push_back(fmt::format("the oldest {} messages ({} tokens) are left out: the context holds {} tokens",
                                      request.shift.dropped_messages, request.shift.dropped_tokens, context));
}

void fit_prompt(const ApiRequest& request, EncodedPrompt& prompt, const text::Tokenizer* tokenizer,
                std::int64_t context) {
  const auto size = static_cast<std::int64_t>(prompt.ids.size());
  std::int64_t keep = request.shift.keep;
  if (keep == -1) keep = size;
  if (keep == -2) {  // of a chat what stands in front of the first message behind the system's
    const bool system = request.is_chat && request.chat.messages.size() > 1 && is_system(request.chat.messages[0]);
    keep = system && !prompt.partings.empty() ? prompt.partings.front() : 0;
  }
  const bool begins = tokenizer && tokenizer->add_bos() && size > 0 && prompt.ids[0] == tokenizer->bos();
  prompt.keep = std::clamp<std::int64_t>(keep, begins, std::min(size, context / 2));
  const std::int64_t room = context - 1 - answer_room(request, context);
  if (request.is_chat || size <= room) return;
  prompt.dropped = std::min(in_blocks(size - room, room - prompt.keep), size - prompt.keep - 1);
  prompt.ids.erase(prompt.ids.begin() + prompt.keep, prompt.ids.begin() + prompt.keep + prompt.dropped);
  prompt.text.clear();  // its ids no longer spell it
}

}  // namespace kvasir::serve
