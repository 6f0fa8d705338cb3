#include "serve/prompt.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "serve/context_shift.hpp"
#include "serve/infill.hpp"
#include "serve/pictures.hpp"
#include "serve/turns.hpp"
#include "text/prompt.hpp"

namespace kvasir::serve {
namespace {

[[noreturn]] void cannot(std::string message) {
  throw ApiException({.status = 501, .message = std::move(message), .code = "unsupported"});
}

// The first message that is not the first of all, and the last one: who shares a system message or a document has
// another question behind it.
std::vector<std::size_t> partings_of(const std::vector<std::size_t>& contents) {
  std::vector<std::size_t> places;
  if (contents.size() > 1) places.push_back(contents[1]);
  if (contents.size() > 2) places.push_back(contents.back());
  return places;
}

void prompt_check_length(std::size_t tokens, const PromptLimits& limits, const char* field) {
  const auto n = static_cast<std::int64_t>(tokens);
  if (n == 0) throw ApiException({.message = fmt::format("'{}': holds no token", field), .param = field});
  if (n >= limits.context)  // in the words that clients look for
    throw ApiException({.message = fmt::format("This model's maximum context length is {} tokens. However, '{}' has {} "
                                               "tokens{}. Please reduce its length.",
                                               limits.context, field, n,
                                               n == limits.context ? ", which leaves none for the answer" : ""),
                        .param = field,
                        .code = "context_length_exceeded"});
  if (limits.most > 0 && n > limits.most)
    throw ApiException(
        {.status = 413,
         .message = fmt::format("'{}' has {} tokens, this server takes at most {}", field, n, limits.most),
         .param = field,
         .code = "prompt_too_long"});
}

}  // namespace

namespace {

// Where each token ends in the text; rows of a picture end where it begins. Empty where the ids do not spell the text.
std::vector<std::size_t> ends_of(const text::Tokenizer& tokenizer, const EncodedPrompt& prompt) {
  std::vector<std::size_t> ends;
  std::size_t spelled = 0, added = 0;  // added: a BOS in front
  std::int32_t previous = -1;
  auto next = prompt.shown.begin();
  for (std::size_t i = 0; i < prompt.ids.size(); i = ends.size()) {
    if (next != prompt.shown.end() && std::cmp_equal(i, next->first_row)) {
      if (spelled < next->begin + next->before) return {};
      if (next == prompt.shown.begin()) added = spelled - next->begin - next->before;
      for (std::size_t& end : ends) end = std::min(end, next->begin + added);
      ends.resize(static_cast<std::size_t>(next->rows_end), next->begin + added);
      spelled = next->end - next->after + added;
      previous = -1;
      ++next;
      continue;
    }
    spelled += tokenizer.text_behind(std::exchange(previous, prompt.ids[i]), prompt.ids[i], true).size();
    ends.push_back(spelled);
  }
  if (spelled < prompt.text.size()) return {};
  if (prompt.shown.empty()) added = spelled - prompt.text.size();
  for (std::size_t& end : ends) end -= std::min(end, added);
  return ends;
}

}  // namespace

std::optional<std::size_t> byte_of_token(const text::Tokenizer& tokenizer, const EncodedPrompt& prompt,
                                         std::size_t index) {
  if (index > prompt.ids.size()) return std::nullopt;
  if (!prompt.shown.empty()) {
    const std::vector<std::size_t> ends = ends_of(tokenizer, prompt);
    if (ends.empty()) return std::nullopt;
    return index > 0 ? ends[index - 1] : 0;
  }
  const std::string all = tokenizer.decode(prompt.ids, true);
  const std::size_t added = all.size() - std::min(all.size(), prompt.text.size());  // a BOS in front
  if (std::string_view(all).substr(added) != prompt.text) return std::nullopt;
  const std::size_t before = tokenizer.decode(std::span(prompt.ids).first(index), true).size();
  return before - std::min(before, added);
}

namespace {

// How many tokens stand in front of each of `places`, ascending bytes of the text. None where the ids do not spell it.
std::vector<std::int64_t> tokens_before(const text::Tokenizer& tokenizer, const EncodedPrompt& prompt,
                                        std::span<const std::size_t> places) {
  const std::vector<std::size_t> ends = ends_of(tokenizer, prompt);
  if (ends.empty()) return {};
  std::vector<std::int64_t> counts;
  for (const std::size_t place : places)
    counts.push_back(std::upper_bound(ends.begin(), ends.end(), place) - ends.begin());
  return counts;
}

// The prompt of the first `n` messages, as it stands before others.
std::string first_messages(const ChatFormat& chat, const ChatInput& input, std::size_t n) {
  ChatInput head = input;
  head.messages = Json(input.messages.begin(), input.messages.begin() + static_cast<std::ptrdiff_t>(n));
  head.add_generation_prompt = head.continue_last = false;
  return chat.render(head);
}

std::vector<EncodedPrompt> encode_all(const ApiRequest& request, const text::Tokenizer* tokenizer,
                                      const ChatFormat* chat, const PromptLimits& limits, TurnMemory* memory,
                                      std::string_view tenant) {
  std::vector<EncodedPrompt> all;
  const auto encode = [&](std::string text, std::span<const std::size_t> plain = {},
                          std::span<const run::PicturePlace> places = {}) {
    run::PicturePrompt prompt;
    prompt.add(*tokenizer, text, 0, places, {.add_bos = tokenizer->add_bos(), .parse_special = true, .plain = plain});
    return EncodedPrompt{.ids = std::move(prompt.ids),
                         .text = std::move(text),
                         .runs = std::move(prompt.runs),
                         .shown = std::move(prompt.shown)};
  };
  const auto need_tokenizer = [&] {
    if (!tokenizer) cannot("this model has no tokenizer, expected token ids");
  };
  if (request.is_chat) {
    if (!chat) cannot("this model has no chat template");
    need_tokenizer();
    text::Prompt prompt = chat->prompt(request.chat, *tokenizer);
    const bool remembers = memory && memory->on();
    std::vector<std::size_t> contents = partings_of(prompt.contents);
    const std::vector<run::PicturePlace> places = places_of(prompt, request.chat);
    const History history{request.chat.messages, [&](std::size_t n) { return first_messages(*chat, request.chat, n); }};
    all.push_back(remembers ? encode_turns(std::move(prompt), *tokenizer, *memory, tenant, &history, places)
                            : encode(std::move(prompt.text), prompt.plain, places));
    for (std::size_t& at : contents) at = all.back().in_text(at);
    all.back().partings = tokens_before(*tokenizer, all.back(), contents);
    // Rows of pictures stay where they are: with them a full context ends the answer.
    if (request.shift.on && all.back().runs.empty()) fit_prompt(request, all.back(), tokenizer, limits.context);
    prompt_check_length(all.back().ids.size(), limits, "messages");
  }
  for (const Prompt& prompt : request.prompts) {
    if (!prompt.is_ids) need_tokenizer();
    all.push_back(prompt.is_ids ? EncodedPrompt{prompt.ids, {}}
                  : prompt.gap  ? EncodedPrompt{encode_gap(*tokenizer, *prompt.gap), {}}
                                : encode(prompt.text));
    if (request.shift.on) fit_prompt(request, all.back(), tokenizer, limits.context);
    prompt_check_length(all.back().ids.size(), limits, "prompt");
  }
  return all;
}

}  // namespace

std::vector<EncodedPrompt> encode_prompts(const ApiRequest& request, const text::Tokenizer* tokenizer,
                                          const ChatFormat* chat, const PromptLimits& limits, TurnMemory* memory,
                                          std::string_view tenant) {
  return request.names.run([&] { return encode_all(request, tokenizer, chat, limits, memory, tenant); });
}

std::vector<std::int32_t> shown_tokens(const ChatFormat& chat, const ChatInput& input,
                                       const text::Tokenizer& tokenizer) {
  std::vector<std::int32_t> shown;
  for (const std::string& mark : chat.marks(input)) {
    const std::int32_t id = tokenizer.find(mark);
    if (id >= 0 && tokenizer.is_control(id)) shown.push_back(id);
  }
  return shown;
}

std::string echo_text(const Prompt& prompt, const text::Tokenizer* tokenizer) {
  if (!prompt.is_ids) return prompt.text;
  return tokenizer ? tokenizer->decode(prompt.ids) : std::string();
}

}  // namespace kvasir::serve
