// Reasoning in answers: what a model thinks stands between marks that its chat template knows.
#pragma once

#include <string>
#include <string_view>

namespace kvasir::text {

struct ReasoningMarks {
  std::string_view open, close;
};

// The marks that occur in `chat_template`; null: it has none that are known.
const ReasoningMarks* find_reasoning_marks(std::string_view chat_template);

// Whether an answer behind `prompt` begins within reasoning: the prompt ends with the opening mark.
bool ends_in_reasoning(const ReasoningMarks& marks, std::string_view prompt);

// Tells reasoning from the rest while the text is still being made. Reasoning stands at the answer's beginning: behind
// an opening mark, or from the first byte on when the prompt ended with one; an answer that begins with anything else
// has none. The marks and the white space around them belong to neither. Whatever the pieces in which the text comes,
// the output is the same.
class ReasoningSplitter {
 public:
  // `marks` null: all text is content.
  ReasoningSplitter(const ReasoningMarks* marks, bool inside)
      : marks_(marks),
        state_(!marks   ? State::kContent
               : inside ? State::kInside
                        : State::kStart) {}

  void push(std::string_view text, std::string& reasoning, std::string& content);
  void finish(std::string& reasoning, std::string& content);  // the end of the text
  bool inside() const { return state_ == State::kInside; }

 private:
  enum class State { kStart, kInside, kBehind, kContent };

  bool step(bool end, std::string& reasoning, std::string& content);
  bool start(bool end);
  bool think(bool end, std::string& reasoning);

  const ReasoningMarks* marks_;
  State state_;
  std::string held_;    // not yet told
  bool begun_ = false;  // some reasoning was given out
  std::string space_;   // white space behind it, which the closing mark may swallow
};

}  // namespace kvasir::text
