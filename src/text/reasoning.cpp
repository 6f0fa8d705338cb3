#include "text/reasoning.hpp"

#include <algorithm>

namespace kvasir::text {
namespace {

constexpr std::string_view kSpace = " \t\r\n\f\v";

// The most specific ones first: a template that shows `[THINK]` may speak of <think> in words.
constexpr ReasoningMarks kMarks[] = {
    {"<|START_THINKING|>", "<|END_THINKING|>"},  // Command
    {"<seed:think>", "</seed:think>"},           // Seed-OSS
    {"[THINK]", "[/THINK]"},                     // Magistral
    {"<think>", "</think>"},                     // Qwen, DeepSeek, GLM, SmolLM, Granite, ...
    {"<thinking>", "</thinking>"},
};

// How many bytes at the end of `text` may be the beginning of `mark`.
std::size_t partial(std::string_view text, std::string_view mark) {
  for (std::size_t n = std::min(text.size(), mark.size() - 1); n > 0; --n)
    if (text.ends_with(mark.substr(0, n))) return n;
  return 0;
}

}  // namespace

const ReasoningMarks* find_reasoning_marks(std::string_view chat_template) {
  for (const ReasoningMarks& marks : kMarks)
    if (chat_template.find(marks.open) != chat_template.npos && chat_template.find(marks.close) != chat_template.npos)
      return &marks;
  return nullptr;
}

bool ends_in_reasoning(const ReasoningMarks& marks, std::string_view prompt) {
  const std::size_t last = prompt.find_last_not_of(kSpace);
  return last != prompt.npos && prompt.substr(0, last + 1).ends_with(marks.open);
}

void ReasoningSplitter::push(std::string_view text, std::string& reasoning, std::string& content) {
  if (state_ == State::kContent) {
    content += text;
    return;
  }
  held_ += text;
  while (step(false, reasoning, content)) {
  }
}

void ReasoningSplitter::finish(std::string& reasoning, std::string& content) {
  while (step(true, reasoning, content)) {
  }
}

// True: what is held may have more to tell.
bool ReasoningSplitter::step(bool end, std::string& reasoning, std::string& content) {
  switch (state_) {
    case State::kStart:
      return start(end);
    case State::kInside:
      return think(end, reasoning);
    case State::kBehind:
      held_.erase(0, std::min(held_.find_first_not_of(kSpace), held_.size()));
      if (held_.empty()) return false;
      state_ = State::kContent;
      return true;
    case State::kContent:
      content += held_;
      held_.clear();
      return false;
  }
  return false;
}

bool ReasoningSplitter::start(bool end) {
  const std::size_t first = std::min(held_.find_first_not_of(kSpace), held_.size());
  const std::string_view text = std::string_view(held_).substr(first);
  if (text.starts_with(marks_->open)) {
    held_.erase(0, first + marks_->open.size());
    state_ = State::kInside;
    return true;
  }
  if (!end && marks_->open.starts_with(text)) return false;  // white space alone, too
  state_ = State::kContent;
  return true;
}

bool ReasoningSplitter::think(bool end, std::string& reasoning) {
  const std::size_t close = held_.find(marks_->close);
  const bool closed = close != held_.npos;
  const std::size_t told = closed ? close : held_.size() - (end ? 0 : partial(held_, marks_->close));
  std::string_view text = std::string_view(held_).substr(0, told);
  if (!begun_) text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  if (const std::size_t last = text.find_last_not_of(kSpace); last != text.npos) {
    reasoning += space_;
    reasoning += text.substr(0, last + 1);
    space_ = text.substr(last + 1);
    begun_ = true;
  } else if (begun_) {
    space_ += text;
  }
  held_.erase(0, told + (closed ? marks_->close.size() : 0));
  if (closed) state_ = State::kBehind;
  return closed;
}

}  // namespace kvasir::text
