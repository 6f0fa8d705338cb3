// Reasoning in answers: what a model thinks stands between marks that its chat template or its vocabulary knows.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace kvasir::text {

struct ReasoningMarks {
  std::string open, close;
  std::string label = {};  // a line behind `open` that says that this is reasoning
  // Control tokens, of which no text speaks: reasoning may stand anywhere in the answer, and one too many is nothing.
  bool anywhere = false;
  std::string said_open = {}, said_close = {};  // what the model may put around the rest
};

// The marks that occur in `chat_template`, of those that are known.
std::optional<ReasoningMarks> find_reasoning_marks(std::string_view chat_template);
// Of those that are known the first ones that fit.
std::optional<ReasoningMarks> find_known_marks(const std::function<bool(const ReasoningMarks&)>& fits);
// Of those that are known the ones that are tokens.
std::optional<ReasoningMarks> find_reasoning_tokens(const std::function<bool(std::string_view)>& is_token);
// Of those that are known the ones within which answers behind this prompt begin.
std::optional<ReasoningMarks> find_open_reasoning(std::string_view prompt);
// Marks that nobody knows yet, as they stand around `thought` in `with`: a rendered conversation, which is `without`
// where its answer has no thought.
std::optional<ReasoningMarks> marks_around(std::string_view with, std::string_view without, std::string_view thought);

// Whether an answer behind `prompt` begins within reasoning: the prompt ends with the opening mark.
bool ends_in_reasoning(const ReasoningMarks& marks, std::string_view prompt);

// Tells reasoning from the rest while the text is still being made. Reasoning stands at the answer's beginning: behind
// an opening mark, or from the first byte on when the prompt ended with one; an answer that begins with anything else
// has none, but for marks that may stand anywhere. The marks and the white space around them belong to neither.
// Whatever the pieces in which the text comes, the output is the same.
class ReasoningSplitter {
 public:
  // Without `marks` all text is content.
  ReasoningSplitter(std::optional<ReasoningMarks> marks, bool inside)
      : state_(!marks   ? State::kContent
               : inside ? State::kLabel
                        : State::kStart),
        marks_(std::move(marks)) {}

  void push(std::string_view text, std::string& reasoning, std::string& content);
  void finish(std::string& reasoning, std::string& content);  // the end of the text
  bool inside() const { return state_ == State::kInside || state_ == State::kLabel; }

 private:
  enum class State { kStart, kLabel, kInside, kBehind, kContent };

  bool step(bool end, std::string& reasoning, std::string& content);
  bool start(bool end);
  bool label(bool end);
  bool think(bool end, std::string& reasoning);
  bool behind(bool end);
  bool say(bool end, std::string& content);

  State state_;
  std::optional<ReasoningMarks> marks_;
  std::string held_;      // not yet told
  bool fresh_ = true;     // nothing but white space since the opening mark
  bool begun_ = false;    // some reasoning was given out
  bool said_ = false;     // some content was
  bool wrapped_ = false;  // the content stands between marks
  std::string space_;     // white space behind reasoning, which the closing mark may swallow
};

}  // namespace kvasir::text
