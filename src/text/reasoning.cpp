#include "text/reasoning.hpp"

#include <algorithm>
#include <vector>

namespace kvasir::text {
namespace {

constexpr std::string_view kSpace = " \t\r\n\f\v";
constexpr std::size_t kLongestMark = 64;

struct KnownMarks {
  std::string_view open, close, label = {}, said_open = {}, said_close = {};
  bool anywhere = false;
};

// The most specific ones first: a template that shows `[THINK]` may speak of <think> in words.
constexpr KnownMarks kKnown[] = {
    {.open = "<|START_THINKING|>", .close = "<|END_THINKING|>", .anywhere = true},                     // Command
    {.open = "<|channel>", .close = "<channel|>", .label = "thought", .anywhere = true},               // Gemma 4
    {.open = "<|inner_prefix|>", .close = "<|inner_suffix|>", .anywhere = true},                       // Apertus
    {.open = "<seed:think>", .close = "</seed:think>"},                                                // Seed-OSS
    {.open = "[THINK]", .close = "[/THINK]"},                                                          // Magistral
    {.open = "◁think▷", .close = "◁/think▷"},                                                          // Kimi-VL
    {.open = "<think>", .close = "</think>", .said_open = "<response>", .said_close = "</response>"},  // Granite, ERNIE
    {.open = "<think>", .close = "</think>", .said_open = "<answer>", .said_close = "</answer>"},      // Hunyuan
    {.open = "<think>", .close = "</think>"},  // Qwen, DeepSeek, GLM, SmolLM, ...
    {.open = "<thinking>", .close = "</thinking>"},
    {.open = "<thought>", .close = "</thought>"},  // EXAONE Deep
    {.open = "<reasoning>", .close = "</reasoning>"},
    {.open = "Here is my thought process:", .close = "Here is my response:"},  // Granite 3.2
};

ReasoningMarks marks_of(const KnownMarks& known) {
  return {.open = std::string(known.open),
          .close = std::string(known.close),
          .label = std::string(known.label),
          .anywhere = known.anywhere,
          .said_open = std::string(known.said_open),
          .said_close = std::string(known.said_close)};
}

std::string_view rtrim(std::string_view text) { return text.substr(0, text.find_last_not_of(kSpace) + 1); }
std::string_view ltrim(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  return text;
}

// How many bytes at the end of `text` may be the beginning of `mark`.
std::size_t partial(std::string_view text, std::string_view mark) {
  for (std::size_t n = std::min(text.size(), mark.size() - 1); n > 0; --n)
    if (text.ends_with(mark.substr(0, n))) return n;
  return 0;
}

std::size_t count(std::string_view text, std::string_view what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what, at + what.size())) ++n;
  return n;
}

// The mark that ends `text`: <...>, [...] or |...|; empty: none.
std::string_view mark_at_end(std::string_view text) {
  if (text.empty()) return {};
  const char close = text.back(), open = close == '>' ? '<' : close == ']' ? '[' : '\0';
  const std::size_t at = open == '\0' ? text.npos : text.rfind(open);
  if (at == text.npos || text.size() - at < 3 || text.size() - at > kLongestMark) return {};
  const std::string_view mark = text.substr(at);
  return mark.find_first_of(kSpace) == mark.npos ? mark : std::string_view();
}

std::string_view mark_at_begin(std::string_view text) {
  if (text.empty() || (text[0] != '<' && text[0] != '[')) return {};
  const std::size_t close = text.find(text[0] == '<' ? '>' : ']');
  return close < kLongestMark ? mark_at_end(text.substr(0, close + 1)) : std::string_view();
}

}  // namespace

std::optional<ReasoningMarks> find_reasoning_marks(std::string_view chat_template) {
  const auto has = [&](std::string_view what) { return chat_template.find(what) != chat_template.npos; };
  for (const KnownMarks& marks : kKnown)
    if (has(marks.open) && has(marks.close) && has(marks.said_open) && has(marks.said_close)) return marks_of(marks);
  return {};
}

std::optional<ReasoningMarks> find_known_marks(const std::function<bool(const ReasoningMarks&)>& fits) {
  for (const KnownMarks& known : kKnown)
    if (ReasoningMarks marks = marks_of(known); fits(marks)) return marks;
  return {};
}

std::optional<ReasoningMarks> find_reasoning_tokens(const std::function<bool(std::string_view)>& is_token) {
  return find_known_marks(
      [&](const ReasoningMarks& m) { return m.said_open.empty() && is_token(m.open) && is_token(m.close); });
}

std::optional<ReasoningMarks> find_open_reasoning(std::string_view prompt) {
  return find_known_marks([&](const ReasoningMarks& m) { return m.said_open.empty() && ends_in_reasoning(m, prompt); });
}

std::optional<ReasoningMarks> marks_around(std::string_view with, std::string_view without, std::string_view thought) {
  const std::size_t at = with.find(thought);
  if (at == with.npos || without.find(thought) != without.npos) return {};
  std::string_view before = rtrim(with.substr(0, at));
  std::string_view label;
  if (mark_at_end(before).empty()) {  // a word on the mark's line
    const std::size_t word = before.find_last_of(">]");
    label = word == before.npos ? std::string_view() : before.substr(word + 1);
    if (label.empty() || label.find_first_not_of("abcdefghijklmnopqrstuvwxyz") != label.npos) return {};
    before.remove_suffix(label.size());
  }
  const std::string_view open = mark_at_end(before), close = mark_at_begin(ltrim(with.substr(at + thought.size())));
  if (open.empty() || close.empty() || open == close) return {};
  // What stands without the thought as well marks messages, unless there it is empty reasoning.
  const auto only_here = [&](std::string_view mark) { return count(with, mark) > count(without, mark); };
  const std::size_t begin = without.rfind(open);
  const bool empty =
      begin != without.npos && ltrim(without.substr(begin + open.size() + label.size())).starts_with(close);
  if (!empty && (!only_here(open) || !only_here(close) || without.find(close) != without.npos)) return {};
  return ReasoningMarks{.open = std::string(open), .close = std::string(close), .label = std::string(label)};
}

bool ends_in_reasoning(const ReasoningMarks& marks, std::string_view prompt) {
  prompt = rtrim(prompt);
  return prompt.ends_with(marks.open) || (!marks.label.empty() && prompt.ends_with(marks.open + marks.label));
}

void ReasoningSplitter::push(std::string_view text, std::string& reasoning, std::string& content) {
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
    case State::kLabel:
      return label(end);
    case State::kInside:
      return think(end, reasoning);
    case State::kBehind:
      return behind(end);
    case State::kContent:
      return say(end, content);
  }
  return false;
}

bool ReasoningSplitter::start(bool end) {
  const std::string_view text = ltrim(held_);
  if (text.starts_with(marks_->open)) {
    held_.erase(0, held_.size() - text.size() + marks_->open.size());
    state_ = State::kLabel;
    return true;
  }
  const bool wrapped = !marks_->said_open.empty() && text.starts_with(marks_->said_open);
  // White space alone may become either, too.
  if (!end && !wrapped && (marks_->open.starts_with(text) || marks_->said_open.starts_with(text))) return false;
  state_ = wrapped ? State::kBehind : State::kContent;
  return true;
}

bool ReasoningSplitter::label(bool end) {
  const std::string& word = marks_->label;
  if (!word.empty()) {
    const bool here = held_.starts_with(word);
    const std::string_view behind = here ? std::string_view(held_).substr(word.size()) : std::string_view();
    if (!end && (here ? marks_->close.starts_with(behind) && behind != marks_->close : word.starts_with(held_)))
      return false;
    if (here && (behind.empty() || behind[0] == '\n' || behind.starts_with(marks_->close))) held_.erase(0, word.size());
  }
  state_ = State::kInside;
  if (begun_) space_ = "\n\n";
  fresh_ = true;
  return true;
}

bool ReasoningSplitter::think(bool end, std::string& reasoning) {
  const std::size_t close = held_.find(marks_->close);
  const bool closed = close != held_.npos;
  const std::size_t told = closed ? close : held_.size() - (end ? 0 : partial(held_, marks_->close));
  std::string_view text = std::string_view(held_).substr(0, told);
  if (fresh_) text = ltrim(text);
  if (const std::size_t last = text.find_last_not_of(kSpace); last != text.npos) {
    reasoning += space_;
    reasoning += text.substr(0, last + 1);
    space_ = text.substr(last + 1);
    begun_ = true;
    fresh_ = false;
  } else if (!fresh_) {
    space_ += text;
  }
  held_.erase(0, told + (closed ? marks_->close.size() : 0));
  if (closed) state_ = State::kBehind;
  return closed;
}

bool ReasoningSplitter::behind(bool end) {
  if (!said_) held_.erase(0, held_.size() - ltrim(held_).size());
  if (held_.empty()) return false;
  if (!marks_->said_open.empty() && !said_ && !wrapped_) {
    if (held_.size() < marks_->said_open.size() && marks_->said_open.starts_with(held_) && !end) return false;
    if (held_.starts_with(marks_->said_open)) {
      held_.erase(0, marks_->said_open.size());
      return wrapped_ = true;
    }
  }
  state_ = State::kContent;
  return true;
}

bool ReasoningSplitter::say(bool end, std::string& content) {
  std::vector<std::string_view> watched;
  if (marks_ && marks_->anywhere) watched = {marks_->open, marks_->close};
  if (wrapped_) watched.emplace_back(marks_->said_close);
  std::size_t at = held_.npos, held = 0;
  std::string_view mark;
  for (const std::string_view one : watched) {
    if (const std::size_t found = held_.find(one); found < at) at = found, mark = one;
    held = std::max(held, partial(held_, one));
  }
  std::string_view text = std::string_view(held_).substr(0, mark.empty() ? held_.size() - (end ? 0 : held) : at);
  const std::size_t told = text.size();
  if (wrapped_ && (!end || !mark.empty())) text = rtrim(text);
  content += text;
  said_ = said_ || !text.empty();
  const std::size_t given = text.size();
  if (mark.empty()) {
    held_.erase(0, end ? held_.size() : given);
    return false;
  }
  state_ = mark == marks_->open && marks_->anywhere ? State::kLabel : State::kBehind;
  if (wrapped_ && mark == marks_->said_close) wrapped_ = said_ = false;
  held_.erase(0, told + mark.size());
  return true;
}

}  // namespace kvasir::text
