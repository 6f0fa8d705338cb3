// Prompts with pictures: rows in the place of bytes of a text, between the special tokens that their encoder wants.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/rows.hpp"
#include "text/tokenizer.hpp"

namespace kvasir::run {

// A picture as prompts hold it. Any thread; prompts may share one.
struct PromptPicture {
  struct Run {
    std::string before, after;  // texts of special tokens; empty: nothing
    std::shared_ptr<const model::RowBlock> block;
  };
  std::vector<Run> runs;
};

// A picture in the place of bytes [begin, end) of a text, behind `lead`, which is text of the model's.
struct PicturePlace {
  std::size_t begin, end;
  std::string lead;
  std::shared_ptr<const PromptPicture> picture;
};

struct PicturePrompt {
  std::vector<std::int32_t> ids;
  std::vector<model::RowRun> runs;
  // Of each picture: its bytes of the text, those that its tokens in front of its first row and behind its last one
  // spell, and its rows among the ids.
  struct Shown {
    std::size_t begin, end, before, after;
    std::int64_t first_row, rows_end;
  };
  std::vector<Shown> shown;

  // Appends the text, whose byte 0 is byte `at` of the whole; `places` and `how.plain` count bytes of `text`. What
  // stands between two pictures is one text for the tokenizer, so that it has the tokens of the model's own prompts.
  void add(const text::Tokenizer& tokenizer, std::string_view text, std::size_t at,
           std::span<const PicturePlace> places, const text::EncodeOptions& how);
};

}  // namespace kvasir::run
