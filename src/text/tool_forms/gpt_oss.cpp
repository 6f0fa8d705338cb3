// gpt-oss (harmony): an answer is a row of messages, each with a channel, a call's with a recipient:
//   <|channel|>analysis<|message|>thinking<|end|><|start|>assistant<|channel|>final<|message|>text<|return|>
//   <|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>
//   to=functions.f<|channel|>commentary json<|message|>{"a": 1}<|call|>
// The prompt ends with <|start|>assistant. Text without a channel is content.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "text/tool_json.hpp"

namespace kvasir::text::tool_forms_gpt_oss {
namespace {

constexpr std::string_view kChannel = "<|channel|>", kMessage = "<|message|>", kEnd = "<|end|>", kStart = "<|start|>",
                           kCall = "<|call|>", kReturn = "<|return|>", kConstrain = "<|constrain|>", kTo = "to=";
constexpr std::array<std::string_view, 3> kChannels = {"analysis", "commentary", "final"};
constexpr std::size_t kLongestHeader = 512;

int match(std::string_view t) { return has(t, kChannel) && has(t, kMessage) ? 4 : 0; }

class Parser final : public StepParser {
  enum class State { kHeader, kContent, kReasoning, kArguments };

  bool step(bool end, bool cut, ToolOutput& out) override {
    return state_ == State::kHeader ? header(end, cut, out) : body(end, cut, out);
  }

  bool header(bool end, bool cut, ToolOutput& out) {
    const std::string_view text = buffer_;
    const std::size_t space = count_space(text);
    const std::string_view rest = text.substr(space);
    if (rest.empty()) {
      if (end && first_) writer_.write(text, out);
      if (end) buffer_.clear();
      return false;
    }
    const std::size_t message = text.find(kMessage);
    const bool marked = rest[0] == '<' || kTo.starts_with(rest.substr(0, kTo.size())) || !first_ ||
                        unmarked(rest.substr(0, rest.find('<')));
    if (marked && message != text.npos && message <= kLongestHeader) {
      enter(std::string(text.substr(0, message)), out);
      buffer_.erase(0, message + kMessage.size());
      return true;
    }
    const auto begins = [&](std::string_view mark) { return rest.starts_with(mark) || mark.starts_with(rest); };
    const bool may_come =
        !first_ || begins(kChannel) || begins(kTo) || begins(kStart) || unmarked(rest.substr(0, rest.find('<')));
    if (may_come && text.size() <= kLongestHeader + kMessage.size()) {
      if (!end) return false;
      // A header without a message says nothing, but what is none is content.
      const std::string_view words = behind_marks(rest);
      if (cut || is_header(words)) return buffer_.clear(), false;
      buffer_.erase(0, text.size() - words.size());
    }
    first_ = false;
    state_ = State::kContent;
    return true;
  }

  static std::string_view behind_marks(std::string_view text) {
    for (bool more = true; more;) {
      more = false;
      for (const std::string_view mark : {kStart, kChannel, kConstrain, kEnd, kCall}) {
        if (!text.starts_with(mark)) continue;
        text.remove_prefix(mark.size() + count_space(text.substr(mark.size())));
        more = true;
      }
    }
    return text;
  }
  static bool is_header(std::string_view text) {
    for (const std::string_view word : {"assistant", "functions.", "to=", "analysis", "commentary", "final", "<|"})
      if (text.starts_with(word) || word.starts_with(text)) return true;
    return false;
  }

  // A header, or its beginning, without the mark in front: "commentary to=functions.f ".
  static bool unmarked(std::string_view text) {
    constexpr std::size_t kLongest = 160;
    if (text.size() > kLongest || text.find('\n') != text.npos) return false;
    return std::any_of(kChannels.begin(), kChannels.end(),
                       [&](std::string_view word) { return text.starts_with(word) || word.starts_with(text); });
  }

  void enter(const std::string& head, ToolOutput& out) {
    first_ = false;
    const std::size_t to = head.find(kTo);
    std::string recipient;
    if (to != head.npos) {
      const std::size_t begin = to + kTo.size();
      recipient = head.substr(begin, std::min(head.find_first_of(" <\n", begin), head.size()) - begin);
      if (recipient.starts_with("functions.")) recipient.erase(0, 10);
    }
    const std::size_t channel = head.find(kChannel);
    const std::size_t word = channel == head.npos ? count_space(head) : channel + kChannel.size();
    const bool thinks = head.compare(word, kChannels[0].size(), kChannels[0]) == 0;
    if (!recipient.empty()) {
      state_ = State::kArguments;
      writer_.after_call(out);
      out.calls.push_back({std::move(recipient), {}});
      json_ = LooseJson();
      written_.clear();
    } else {
      state_ = thinks ? State::kReasoning : State::kContent;
    }
  }

  bool body(bool end, bool cut, ToolOutput& out) {
    constexpr std::array kStops = {kEnd, kCall, kReturn, kStart, kChannel, kMessage, kConstrain};
    std::size_t at = std::string::npos, size = 0, keep = 0;
    for (const std::string_view mark : kStops) {
      const std::size_t found = buffer_.find(mark);
      if (found < at) at = found, size = mark.size();
      keep = std::max(keep, partial_tag(buffer_, mark));
    }
    const bool stops = at != std::string::npos;
    const bool drop = end && cut && keep > (state_ == State::kArguments ? 0u : 1u);
    const std::size_t until = stops ? at : buffer_.size() - (end && !drop ? 0 : keep);
    const bool last = stops && buffer_.compare(at, size, kMessage) != 0 && buffer_.compare(at, size, kConstrain) != 0;
    give(std::string_view(buffer_).substr(0, until), last || end, out);
    if (!stops) {
      buffer_.erase(0, drop ? buffer_.size() : until);
      if (end && state_ == State::kArguments && out.calls.back().arguments.empty() && !cut)
        out.calls.back().arguments = "{}";
      return false;
    }
    if (const std::string_view mark = std::string_view(buffer_).substr(at, size);
        mark == kMessage || mark == kConstrain) {
      if (state_ == State::kContent) writer_.mark(mark, out);  // one too many
      buffer_.erase(0, at + size);
      return true;
    }
    const bool again =
        buffer_.compare(at, kChannel.size(), kChannel) == 0 || buffer_.compare(at, kStart.size(), kStart) == 0;
    if (state_ == State::kArguments && out.calls.back().arguments.empty()) out.calls.back().arguments = "{}";
    buffer_.erase(0, again ? at : at + size);
    state_ = State::kHeader;
    return true;
  }

  void give(std::string_view text, bool last, ToolOutput& out) {
    if (state_ == State::kContent) return writer_.write(text, out);
    if (state_ == State::kReasoning) {
      out.reasoning += text;
      return;
    }
    // White space around the object is not part of it, nor are brackets too many behind it.
    std::string& arguments = out.calls.back().arguments;
    if (written_.empty()) text.remove_prefix(count_space(text));
    written_ += text;
    if (written_.empty() || json_.done()) return;
    if (written_[0] == '{') {
      json_.convert(written_, last, arguments);
    } else {  // code of a tool that takes it as it is
      arguments = written_.substr(0, written_.find_last_not_of(" \t\r\n") + 1);
    }
  }

  std::string written_;  // arguments as they came
  LooseJson json_;
  State state_ = State::kHeader;
  bool first_ = true;
};

std::unique_ptr<ToolParser> make(const Json*) { return std::make_unique<Parser>(); }

// The grammar ends where the model would end the message.
Grammar::Node call(const CallParts& p) {
  Grammar& g = p.grammar;
  return g.sequence(
      {g.text("<|channel|>commentary to=functions." + p.name + " <|constrain|>json<|message|>"), p.arguments()});
}

std::string write(const std::string& name, const Json& arguments) {
  return "<|channel|>commentary to=functions." + name + " <|constrain|>json<|message|>" + arguments.dump() + "<|call|>";
}

constexpr std::string_view kEfforts[] = {"low", "medium", "high"};
constexpr std::string_view kMarks[] = {kChannel, kMessage, kEnd, kStart, kCall, kReturn, kConstrain};

constexpr std::string_view kOpens[] = {"to=functions."};

}  // namespace

const ToolForm entry{.match = match,
                     .make = make,
                     .call = call,
                     .separator = "<|call|><|start|>assistant",
                     .write = write,
                     .marks = kMarks,
                     .always = true,
                     .opens = kOpens,
                     .efforts = kEfforts};

}  // namespace kvasir::text::tool_forms_gpt_oss
