// The parser of forms whose arguments are JSON, by their style; and the one of marks.
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

// What is left of a text that may end inside a mark: a single character is no mark yet.
std::size_t left_of_cut(std::size_t size, std::size_t partial, bool cut) {
  return size - (cut && partial > 1 ? partial : 0);
}

class StyleParser final : public StepParser {
 public:
  StyleParser(CallStyle style, const Json* tools)
      : style_(std::move(style)), tools_(tools), reader_(style_.require_arguments, style_.key_is_name) {
    marks_ = style_.open;
    marks_.insert(marks_.end(), style_.close.begin(), style_.close.end());
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
    const std::vector<std::string_view>& marks = called_ ? marks_ : style_.open;
    const Found found = failures_ < kMaxFailures ? first_of(buffer_, marks) : Found{};
    if (found.at == std::string::npos) {
      const std::size_t partial = failures_ < kMaxFailures ? partial_of(buffer_, marks) : 0;
      const std::size_t keep = end ? 0 : partial;
      const std::size_t size = end ? left_of_cut(buffer_.size(), partial, cut) : buffer_.size() - keep;
      writer_.write(std::string_view(buffer_).substr(0, size), out);
      buffer_.erase(0, buffer_.size() - keep);
      return false;
    }
    writer_.write(std::string_view(buffer_).substr(0, found.at), out);
    buffer_.erase(0, found.at + found.mark.size());
    if (std::find(style_.open.begin(), style_.open.end(), found.mark) == style_.open.end())
      return true;  // a closing one
    refused_ = found.mark;
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
    if (rest[0] == '{' && style_.middle.empty() && (marked || any_ || plausible(rest))) return enter(space, {});
    if (style_.middle.empty() || !(marked || any_)) return nothing(false, out);
    // A name, what stands behind it, and the object; forms that read names themselves may leave the middle out.
    const std::size_t middle = rest.find(style_.middle);
    const std::size_t brace = style_.name ? rest.find('{') : rest.npos;
    const std::size_t stop = std::min(middle, brace);
    if (stop == rest.npos) {
      const bool may_come = rest.size() <= kLongestName;
      return may_come && !end ? false : nothing(cut && may_come, out);
    }
    std::string name = stop <= kLongestName ? name_of(rest.substr(0, stop)) : std::string();
    if (name.empty()) return nothing(false, out);
    std::size_t at = space + (brace <= middle ? brace : middle + style_.middle.size());
    at += count_space(std::string_view(buffer_).substr(at));
    if (at == buffer_.size()) return end ? nothing(cut, out) : false;
    return buffer_[at] == '{' ? enter(at, std::move(name)) : nothing(false, out);
  }

  // Takes the marks and separators in front. False: what comes next is not here, or may become a mark.
  bool look_over(bool end) {
    for (;;) {
      const std::size_t space = count_space(buffer_);
      const std::string_view rest = std::string_view(buffer_).substr(space);
      if (rest.empty()) return false;
      const bool marked = !refused_.empty();
      std::string_view mark;
      for (const std::string_view m : any_ ? marks_ : style_.open)
        if (rest.starts_with(m) && m.size() > mark.size()) mark = m;
      const bool opens = std::find(style_.open.begin(), style_.open.end(), mark) != style_.open.end();
      if (mark.empty() &&
          ((any_ && (rest[0] == ',' || rest[0] == ';' || rest[0] == ']')) || (marked && rest[0] == '[')))
        mark = rest.substr(0, 1);
      if (mark.empty()) {
        const auto& marks = any_ ? marks_ : style_.open;
        const bool begins = std::any_of(marks.begin(), marks.end(), [&](auto m) { return m.starts_with(rest); });
        return !begins || (end && !any_ && !marked);
      }
      const std::size_t size = mark.size();
      if (opens) any_ = false;
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
  bool enter(std::size_t at, std::string name) {
    skipped_ = buffer_.substr(0, at);
    buffer_.erase(0, at);
    reader_ = ObjectCallReader(style_.require_arguments, style_.key_is_name);
    scanner_.reset();
    cleaner_ = {};
    given_ = 0;
    name_ = std::move(name);
    begun_ = false;
    state_ = State::kObject;
    return true;
  }

  bool object(bool end, bool cut, ToolOutput& out) {
    std::size_t size = 0;
    if (!name_.empty()) {
      if (!begun_) {
        writer_.after_call();
        out.calls.push_back({name_, {}});
      }
      begun_ = true;
      size = scanner_.scan(buffer_);
      const std::size_t to = size > 0 ? size : buffer_.size();
      cleaner_.append(std::string_view(buffer_).substr(given_, to - given_), out.calls.back().arguments);
      given_ = to;
    } else {
      const bool unmarked = refused_.empty() && !any_;
      if (!reader_.begun() && unmarked && (!plausible(buffer_) || !known_name())) return give_up(false, out);
      const auto result = reader_.read(buffer_, out);
      if (reader_.begun() && !begun_) writer_.after_call();
      begun_ = reader_.begun();
      if (result == ObjectCallReader::Result::kBad) return give_up(false, out);
      if (result == ObjectCallReader::Result::kDone) {
        size = reader_.size();
        writer_.after_call();
      }
    }
    if (size == 0) {
      if (!end) return false;
      if (!begun_) return give_up(cut, out);
      buffer_.clear();
      return false;
    }
    buffer_.erase(0, size);
    refused_.clear();
    called_ = any_ = true;
    state_ = State::kCalls;
    return true;
  }

  // Without a mark a call is one only when its name is a tool's, as soon as that is known.
  bool known_name() const {
    if (!tools_ || !tools_->is_array()) return true;
    const std::string_view text = buffer_;
    for (const std::string_view key : {"\"name\"", "\"tool_name\""}) {
      const std::size_t at = text.find(key);
      if (at == text.npos) continue;
      const std::size_t open = text.find('"', at + key.size());
      const std::size_t close = open == text.npos ? text.npos : text.find('"', open + 1);
      if (close == text.npos) return true;
      const std::string name(text.substr(open + 1, close - open - 1));
      return std::any_of(tools_->begin(), tools_->end(), [&](const Json& t) {
        return t.is_object() && t.contains("function") && t["function"].value("name", "") == name;
      });
    }
    return true;
  }

  // Whether the object that begins `text` can be a call, as far as its first key tells: other JSON need not be held
  // back.
  static bool plausible(std::string_view text) {
    text.remove_prefix(1);
    text.remove_prefix(count_space(text));
    for (const std::string_view key :
         {"\"name\"", "\"type\"", "\"function\"", "\"parameters\"", "\"arguments\"", "\"tool_name\""})
      if (text.starts_with(key) || key.starts_with(text)) return true;
    return false;
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
  std::vector<std::string_view> marks_;
  ObjectCallReader reader_;
  ObjectScanner scanner_;
  JsonCleaner cleaner_;
  std::size_t given_ = 0;
  std::string name_;     // of a call whose name stands in front of its arguments
  std::string refused_;  // marks that become content when nothing comes of them
  std::string skipped_;  // between them and the object
  State state_ = State::kContent;
  int failures_ = 0;
  bool begun_ = false;   // the call is in the output
  bool any_ = false;     // a call since the last opening mark
  bool called_ = false;  // a call at all
};

}  // namespace

std::unique_ptr<ToolParser> make_style_parser(const CallStyle& style, const Json* tools) {
  return std::make_unique<StyleParser>(style, tools);
}

void StepParser::push(std::string_view text, ToolOutput& out) {
  buffer_ += text;
  while (step(false, false, out)) {
  }
}

void StepParser::finish(ToolOutput& out, bool cut) {
  while (step(true, cut, out)) {
  }
  writer_.finish(out);
}

bool MarkedParser::step(bool end, bool cut, ToolOutput& out) {
  if (!inside_) return content(end, cut, out);
  const Result result = read(buffer_, out, end);
  if (begun()) writer_.after_call();
  if (result == Result::kDone) {
    inside_ = false;
    called_ = behind_ = true;
    return true;
  }
  if (result == Result::kMore) {
    if (!end) return false;
    if (begun() && !cut) complete(out);
    if (begun() || cut) return buffer_.clear(), inside_ = false, false;
  }
  inside_ = false;
  writer_.write(mark_, out);
  ++failures_;
  return true;
}

bool MarkedParser::content(bool end, bool cut, ToolOutput& out) {
  if (behind_) {
    const std::size_t space = count_space(buffer_);
    const std::string_view rest = std::string_view(buffer_).substr(space), mark = closing();
    if (!rest.starts_with(mark) && mark.starts_with(rest)) {
      if (end) buffer_.clear();
      return false;
    }
    behind_ = false;
    if (rest.starts_with(mark)) buffer_.erase(0, space + mark.size());
  }
  const Found found = failures_ < kMaxFailures ? first_of(buffer_, open_) : Found{};
  if (found.at == std::string::npos) {
    const std::size_t partial = failures_ < kMaxFailures ? partial_of(buffer_, open_) : 0;
    const std::size_t keep = end ? 0 : partial;
    const std::size_t cut_off = cut && called_ ? partial : buffer_.size() - left_of_cut(buffer_.size(), partial, cut);
    const std::size_t size = buffer_.size() - (end ? cut_off : keep);
    writer_.write(std::string_view(buffer_).substr(0, size), out);
    buffer_.erase(0, buffer_.size() - keep);
    return false;
  }
  writer_.write(std::string_view(buffer_).substr(0, found.at), out);
  buffer_.erase(0, found.at + found.mark.size());
  mark_ = found.mark;
  begin(mark_);
  inside_ = true;
  return true;
}

}  // namespace kvasir::text
