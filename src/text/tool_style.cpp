// The parser of forms whose arguments are an object, by their style.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "text/tool_json.hpp"

namespace kvasir::text {
namespace {

// So many calls that are none, and the rest is taken as content: text that repeats the opening mark would cost
// quadratic time.
constexpr int kMaxFailures = 64;
constexpr std::size_t kLongestName = 256;

struct Found {
  std::size_t at = std::string_view::npos;
  std::string_view mark = {};
};

// The first mark in the text; of those that begin at one place the longest.
Found first_of(std::string_view text, const std::vector<std::string_view>& marks) {
  Found found;
  for (const std::string_view mark : marks) {
    const std::size_t at = text.find(mark);
    if (at < found.at || (at == found.at && at != text.npos && mark.size() > found.mark.size())) found = {at, mark};
  }
  return found;
}

// Bytes at the end that may become one of the marks.
std::size_t partial_of(std::string_view text, const std::vector<std::string_view>& marks) {
  std::size_t most = 0;
  for (const std::string_view mark : marks) most = std::max(most, partial_tag(text, mark));
  return most;
}

// What models of other families put around calls: around a call of an offered tool it counts.
constexpr std::string_view kGuests[] = {"<tools>", "<tool_call>", "<function_call>", "<|tool_call|>", "<tool_calls>"};
constexpr std::string_view kGuestEnds[] = {"</tools>", "</tool_call>", "</function_call>", "</tool_calls>"};

std::vector<std::string_view> all_marks(const CallStyle& style) {
  std::vector<std::string_view> all = style.open;
  all.insert(all.end(), style.close.begin(), style.close.end());
  all.insert(all.end(), style.also.begin(), style.also.end());
  for (const std::string_view mark : {style.middle, style.notation.quote})
    if (mark.size() > 3) all.push_back(mark);
  std::erase_if(all, [](std::string_view mark) { return mark.find_first_of("<[") == mark.npos; });
  return all;
}

class StyleParser final : public StepParser {
 public:
  StyleParser(CallStyle style, const Json* tools)
      : StepParser(all_marks(style)), style_(std::move(style)), tools_(tools), reader_(false, false) {
    openers_ = marks_ = style_.open;
    openers_.insert(openers_.end(), std::begin(kGuests), std::end(kGuests));
    marks_.insert(marks_.end(), style_.close.begin(), style_.close.end());
    // What ends a broken call: not what may stand in any string.
    std::erase_if(marks_, [](std::string_view mark) { return mark.find_first_of("<[") == mark.npos; });
    style_.notation.stops = all_marks(style_);
    std::erase(style_.notation.stops, style_.notation.quote);
    closers_ = style_.close;
    closers_.insert(closers_.end(), std::begin(kGuestEnds), std::end(kGuestEnds));
    if (style_.at_start) state_ = State::kCalls;
  }

 private:
  enum class State { kContent, kCalls, kObject };

  bool step(bool end, bool cut, ToolOutput& out) override {
    switch (state_) {
      case State::kContent:
        return content(end, cut, out);
      case State::kCalls:
        return calls(end, cut, out);
      case State::kObject:
        return object(end, cut, out);
    }
    return false;
  }

  bool content(bool end, bool cut, ToolOutput& out) {
    std::vector<std::string_view> marks = openers_;
    if (called_) marks.insert(marks.end(), closers_.begin(), closers_.end());
    const Found found = failures_ < kMaxFailures ? first_of(buffer_, marks) : Found{};
    if (found.at == std::string::npos) {
      const std::size_t partial = failures_ < kMaxFailures ? partial_of(buffer_, marks) : 0;
      const std::size_t size = buffer_.size() - (end && !cut ? 0 : partial);
      writer_.write(std::string_view(buffer_).substr(0, size), out);
      buffer_.erase(0, end ? buffer_.size() : size);
      return false;
    }
    writer_.write(std::string_view(buffer_).substr(0, found.at), out);
    buffer_.erase(0, found.at + found.mark.size());
    if (std::find(openers_.begin(), openers_.end(), found.mark) == openers_.end()) {
      writer_.mark(found.mark, out);  // a closing one
      return true;
    }
    refused_ = found.mark;
    guest_ = std::find(style_.open.begin(), style_.open.end(), found.mark) == style_.open.end();
    any_ = false;
    state_ = State::kCalls;
    return true;
  }

  // Behind an opening mark, at the start, and behind a call.
  bool calls(bool end, bool cut, ToolOutput& out) {
    if (!look_over(end)) {
      if (!end) return false;
      if (any_) return buffer_.clear(), false;  // a closing mark that is not complete
      return nothing(cut, out);
    }
    const std::size_t space = count_space(buffer_);
    const std::string_view rest = std::string_view(buffer_).substr(space);
    const bool marked = !refused_.empty();
    if (rest[0] == '{') {
      const std::size_t inner = 1 + count_space(rest.substr(1));
      if (inner == rest.size() && !end) return false;
      const bool doubled = inner < rest.size() && rest[inner] == '{';
      const bool sure = (marked || any_) && (doubled || !style_.middle.starts_with("{"));
      const int begins = sure ? 1 : begins_call(doubled ? rest.substr(inner) : rest);
      if (begins < 0 && !end) return false;
      if (doubled && begins != 0) return buffer_.erase(0, space + 1), true;
      if (begins != 0 && (marked || any_ || style_.middle.empty())) return enter(space, {}, out);
      if (!style_.middle.empty() || !marked) return nothing(false, out);
    }
    if (style_.middle.empty() || !(marked || any_) || guest_) return nothing(false, out);
    // A name, what stands behind it, and the object; forms that read names themselves may leave the middle out.
    const std::size_t middle = rest.find(style_.middle);
    const char first = style_.notation.call ? '(' : '{';
    const std::size_t brace = style_.name ? rest.find(first) : rest.npos;
    const std::size_t stop = std::min(middle, brace);
    if (stop == rest.npos) {
      const bool may_come = rest.size() <= kLongestName && first_of(rest, marks_).at == rest.npos;
      return may_come && !end ? false : nothing(cut && may_come, out);
    }
    if (first_of(rest.substr(0, stop), marks_).at != rest.npos) return nothing(false, out);
    std::string name = stop <= kLongestName ? name_of(rest.substr(0, stop)) : std::string();
    const bool odd = name.find_first_of(" \t\r\n<>{}[]()") != name.npos;
    if (name.empty() || (odd && !is_offered(tools_, name))) return nothing(false, out);
    std::size_t at =
        space + (brace <= middle ? brace : middle + (style_.middle[0] == first ? 0 : style_.middle.size()));
    at += count_space(std::string_view(buffer_).substr(at));
    if (at == buffer_.size()) return end ? nothing(cut, out) : false;
    return buffer_[at] == first ? enter(at, std::move(name), out) : nothing(false, out);
  }

  // Takes the marks and separators in front. False: what comes next is not here, or may become a mark.
  bool look_over(bool end) {
    for (;;) {
      const std::size_t space = count_space(buffer_);
      const std::string_view rest = std::string_view(buffer_).substr(space);
      if (rest.empty()) return false;
      const bool marked = !refused_.empty();
      std::string_view mark;
      std::vector<std::string_view> marks = style_.open;
      if (any_) marks.insert(marks.end(), closers_.begin(), closers_.end());
      for (const std::string_view m : marks)
        if (rest.starts_with(m) && m.size() > mark.size()) mark = m;
      const bool opens = std::find(style_.open.begin(), style_.open.end(), mark) != style_.open.end();
      const auto is = [&](std::string_view all) { return all.find(rest[0]) != all.npos; };
      const bool begins = std::any_of(marks.begin(), marks.end(), [&](auto m) { return m.starts_with(rest); });
      if (mark.empty() && begins && !end) return false;
      if (mark.empty() && ((any_ && is(",;]})")) || (marked && is("[")))) mark = rest.substr(0, 1);
      if (mark.empty()) return !begins || (end && !any_ && !marked);
      const std::size_t size = mark.size();
      if (opens) any_ = guest_ = false;
      if (!any_) refused_ += buffer_.substr(0, space + size);
      buffer_.erase(0, space + size);
    }
  }

  std::string name_of(std::string_view head) const {
    if (style_.name) return style_.name(head);
    head.remove_prefix(count_space(head));
    const auto last = head.find_last_not_of(" \t\r\n");
    return std::string(head.substr(0, last == head.npos ? 0 : last + 1));
  }

  // The arguments, or the object that holds them, begin at `at`.
  bool enter(std::size_t at, std::string name, ToolOutput& out) {
    skipped_ = buffer_.substr(0, at);
    buffer_.erase(0, at);
    begun_ = named_ = !name.empty();
    state_ = State::kObject;
    if (named_) {
      std::vector<std::string> names;
      if (const Json* properties = style_.notation.call ? parameters_of(tools_, name) : nullptr)
        for (const auto& [key, value] : properties->items()) names.push_back(key);
      arguments_ = LooseJson(style_.notation, std::move(names));
      writer_.after_call(out);
      out.calls.push_back({std::move(name), {}});
    } else {
      reader_ = ObjectCallReader(style_.require_arguments, style_.key_is_name, style_.notation.stops);
    }
    return true;
  }

  const LooseJson& loose() const { return named_ ? arguments_ : reader_.loose(); }

  bool object(bool end, bool cut, ToolOutput& out) {
    if (!read(end, out)) return give_up(false, out);
    if (loose().done()) return finish_object(loose().taken());
    if (loose().stopped()) {
      ++failures_;
      return begun_ ? finish_object(loose().taken()) : give_up(false, out);
    }
    if (!end) return false;
    if (!begun_) return give_up(cut, out);
    if (!cut) writer_.write(loose().word(), out);
    buffer_.clear();
    return false;
  }

  // False: it is no call.
  bool read(bool end, ToolOutput& out) {
    if (named_) {
      arguments_.convert(buffer_, end, out.calls.back().arguments);
      return true;
    }
    const bool unmarked = guest_ || (refused_.empty() && !any_);
    if (!begun_ && unmarked && !plausible_call(buffer_)) return false;
    // Without a mark a call is one only when its name is a tool's.
    const std::size_t calls = out.calls.size();
    const auto result = reader_.read(buffer_, end, out);
    if (unmarked && !begun_ && out.calls.size() > calls && tools_ && !is_offered(tools_, out.calls.back().name)) {
      out.calls.pop_back();
      return false;
    }
    if (!begun_ && unmarked && !known_name()) return false;
    if (out.calls.size() > calls) writer_.after_call(out);
    begun_ = begun_ || out.calls.size() > calls;
    return result != ObjectCallReader::Result::kBad;
  }

  bool finish_object(std::size_t size) {
    buffer_.erase(0, size);
    refused_.clear();
    called_ = any_ = true;
    state_ = State::kCalls;
    return true;
  }

  // As soon as the name is there.
  bool known_name() const {
    if (!tools_ || !tools_->is_array()) return true;
    const std::string_view text = reader_.json();
    for (const std::string_view key : {"\"name\"", "\"tool_name\""}) {
      const std::size_t at = text.find(key);
      if (at == text.npos) continue;
      const std::size_t open = text.find('"', at + key.size());
      const std::size_t close = open == text.npos ? text.npos : text.find('"', open + 1);
      return close == text.npos || is_offered(tools_, text.substr(open + 1, close - open - 1));
    }
    return true;
  }

  // What stands here is no call: content, together with the marks in front of it.
  bool nothing(bool cut, ToolOutput& out) {
    state_ = State::kContent;
    if (cut) return buffer_.clear(), refused_.clear(), false;
    if (!refused_.empty()) ++failures_;
    writer_.write(refused_, out);
    refused_.clear();
    return true;
  }

  bool give_up(bool cut, ToolOutput& out) {
    state_ = State::kContent;
    if (cut) return buffer_.clear(), false;
    writer_.write(refused_, out);
    buffer_.insert(0, skipped_);
    refused_.clear();
    ++failures_;
    return true;
  }

  CallStyle style_;
  const Json* tools_;
  std::vector<std::string_view> openers_, closers_, marks_;
  ObjectCallReader reader_;  // of a call that is one object
  LooseJson arguments_;      // of a call whose name stands in front
  std::string refused_;      // marks that become content when nothing comes of them
  std::string skipped_;      // between them and the object
  State state_ = State::kContent;
  int failures_ = 0;
  bool named_ = false;
  bool guest_ = false;   // the opening mark is another family's
  bool begun_ = false;   // the call is in the output
  bool any_ = false;     // a call since the last opening mark
  bool called_ = false;  // a call at all
};

}  // namespace

std::unique_ptr<ToolParser> make_style_parser(const CallStyle& style, const Json* tools) {
  return std::make_unique<StyleParser>(style, tools);
}

int begins_call(std::string_view text) {
  text.remove_prefix(1);
  text.remove_prefix(count_space(text));
  if (!text.empty() && (text[0] == '"' || text[0] == '\'')) text.remove_prefix(1);
  int sure = 0;
  for (const std::string_view key :
       {"name", "type", "function", "parameters", "arguments", "tool_name", "args", "tool"}) {
    if (text.starts_with(key)) return 1;
    if (key.starts_with(text)) sure = -1;
  }
  return sure;
}

void StepParser::push(std::string_view text, ToolOutput& out) {
  buffer_ += text;
  while (step(false, false, out)) {
  }
}

void StepParser::finish(ToolOutput& out, bool cut) {
  while (step(true, cut, out)) {
  }
  writer_.finish(out, cut);
}

}  // namespace kvasir::text
