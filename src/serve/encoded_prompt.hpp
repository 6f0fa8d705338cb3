// A prompt as token ids, and what is known of its text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/rows.hpp"
#include "run/picture_prompt.hpp"
#include "serve/turn_memory.hpp"

namespace kvasir::serve {

struct EncodedPrompt {
  std::vector<std::int32_t> ids;
  std::string text;  // empty for prompts that came as ids
  // Of a chat, with a memory: where its answer begins, and how many of the ids were remembered.
  std::optional<TurnPlace> place = std::nullopt;
  std::int64_t remembered = 0;
  std::int64_t keep = -1;    // with a context shift: tokens at the beginning that stay
  std::int64_t dropped = 0;  // and how many behind them are left out
  // Where an earlier answer stands as it was generated, in the place of what the template makes of it: bytes of the
  // template's text and of `text`, ascending.
  struct Splice {
    std::size_t from, from_end, begin, end;
  };
  std::vector<Splice> splices = {};
  // The byte of the template's text that byte `at` of `text` stands for, and the other way round. Within a splice: its
  // begin.
  std::size_t in_template(std::size_t at) const;
  std::size_t in_text(std::size_t at) const;
  std::string for_people() const;  // `text` without marks of pictures

  std::vector<model::RowRun> runs = {};               // of pictures, whose ids stand in `ids`
  std::vector<run::PicturePrompt::Shown> shown = {};  // where they stand in `text`

  std::vector<std::int64_t> partings = {};  // numbers of tokens behind which other chats may go on differently
};

}  // namespace kvasir::serve
