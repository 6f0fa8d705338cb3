// A prompt as token ids, and what is known of its text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "serve/turn_memory.hpp"

namespace kvasir::serve {

struct EncodedPrompt {
  std::vector<std::int32_t> ids;
  std::string text;  // empty for prompts that came as ids
  // Of a chat, with a memory: where its answer begins, and how many of the ids were remembered.
  std::optional<TurnPlace> place = std::nullopt;
  std::int64_t remembered = 0;
  std::int64_t keep = -1;                   // with a context shift: tokens at the beginning that stay
  std::int64_t dropped = 0;                 // and how many behind them are left out
  std::vector<std::int64_t> partings = {};  // numbers of tokens behind which other chats may go on differently
};

}  // namespace kvasir::serve
