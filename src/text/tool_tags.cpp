// The parser of forms whose arguments are tags. No tag is trusted to be there: what opens ends what was open, a value
// counts without the tags around it, and a damaged tag costs its own parameter.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "text/open_call.hpp"
#include "text/tag_lexer.hpp"
#include "text/tool_json.hpp"

namespace kvasir::text {
namespace {

constexpr std::string_view kTagParserBlanks = " \t\r\n";
using TagKind = Tag::Kind;

// `size` without white space at the end.
std::size_t trim_end(std::string_view text, std::size_t size) {
  while (size > 0 && kTagParserBlanks.find(text[size - 1]) != kTagParserBlanks.npos) --size;
  return size;
}

// Where the last line in front of the tag begins, if it may be the name of a tool.
std::size_t name_at(std::string_view buffer, const Tag& tag, bool at_line, const Json* tools) {
  const std::string_view text = buffer.substr(0, tag.at);
  const std::size_t last = text.find_last_not_of(kTagParserBlanks);
  const std::size_t line = last == text.npos ? text.npos : text.rfind('\n', last);
  const std::size_t begin = line == text.npos ? 0 : line + 1;
  if (begin == 0 && !at_line) return tag.at;
  std::string_view name = text.substr(begin);
  name = name.substr(0, name.find_last_not_of(kTagParserBlanks) + 1);
  if (name.empty() || !tools || !tools->is_array()) return tag.at;
  if (tag.kind == TagKind::kKey) return is_offered(tools, name) ? begin : tag.at;
  for (const Json& t : *tools)
    if (t.is_object() && t.contains("function") && t["function"].value("name", "").starts_with(name)) return begin;
  return tag.at;
}

bool may_be_name(std::string_view text, const Json* tools) {
  const std::string_view name = text.substr(0, text.find_first_of("\r\n"));
  if (name.empty() || name.size() > TagLexer::kLongest) return false;
  return name.find_first_of(" {}\"") == name.npos || is_offered(tools, name);
}

class TagParser final : public StepParser {
 public:
  TagParser(TagStyle style, const Json* tools)
      : style_(std::move(style)), lexer_(style_), tools_(tools), call_(tools) {}

 private:
  enum class State { kContent, kSection, kCall, kKey, kBeforeValue, kValue, kOther };

  Tag find_tag(std::size_t from, bool end) const { return lexer_.find(buffer_, from, end); }

  bool step(bool end, bool cut, ToolOutput& out) override {
    if (state_ == State::kOther) return other(end, cut, out);
    const bool over = end && !cut;  // what a cut answer ends with may have become a tag
    const Tag tag = find_tag(searched_, over);
    if (state_ == State::kContent) return content(tag, end, cut, out);
    if (tag.kind == TagKind::kNone) return open_end(tag, end, cut, out);
    switch (state_) {
      case State::kSection:
        return section(tag, out);
      case State::kCall:
        return call(tag, out);
      case State::kKey:
        return key(tag, out);
      case State::kBeforeValue:
        return before_value(tag, out);
      default:
        return value(tag, over, out);
    }
  }

  // What stands in front of the tag, without white space around it.
  std::string_view before(const Tag& tag) const {
    const std::string_view text = std::string_view(buffer_).substr(0, trim_end(buffer_, tag.at));
    return text.substr(count_space(text));
  }
  bool take(const Tag& tag, State next) {
    buffer_.erase(0, tag.at + tag.size);
    searched_ = 0;
    state_ = next;
    at_line_ = true;
    return true;
  }

  bool content(const Tag& tag, bool end, bool cut, ToolOutput& out) {
    const std::size_t name = style_.call.empty() ? name_at(buffer_, tag, at_line_, tools_) : tag.at;
    if (tag.kind == TagKind::kKey && name < tag.at) {  // the call's own tag was left out
      writer_.write(std::string_view(buffer_).substr(0, name), out);
      begin_call(std::string(before(tag).substr(before(tag).rfind('\n') + 1)), out);
      buffer_.erase(0, tag.at);
      state_ = State::kCall;
      return true;
    }
    const bool open = tag.kind == TagKind::kNone;
    const std::size_t size = open && end ? (cut ? tag.at : buffer_.size()) : open ? std::min(tag.at, name) : tag.at;
    writer_.write(std::string_view(buffer_).substr(0, size), out);
    if (size > 0) at_line_ = buffer_[size - 1] == '\n';
    if (open) {
      buffer_.erase(0, end ? buffer_.size() : size);
      return false;
    }
    mark_ = buffer_.substr(tag.at, tag.size);
    if (tag.kind == TagKind::kCall) begin_call(tag.name, out);
    if (tag.kind == TagKind::kSection) return take(tag, State::kSection);
    if (tag.kind == TagKind::kCall) return take(tag, State::kCall);
    writer_.mark(mark_, out);
    return take(tag, State::kContent);
  }

  // No tag to the end of what is here.
  bool open_end(const Tag& tag, bool end, bool cut, ToolOutput& out) {
    const std::string_view text = before(tag);
    if (state_ == State::kSection) {
      if (text.empty() || (end && cut)) return end ? (buffer_.clear(), false) : false;
      if (const int list = may_be_list(text); list != 0 && !(list < 0 && end))
        return list > 0 ? become_other(out) : false;
      if (behind_ || !style_.call.empty()) return no_call(out);
      const bool named = text.find('\n') == text.npos ? text.size() <= TagLexer::kLongest : may_be_name(text, tools_);
      if (named && !end) return false;
      const std::string rest(text.substr(std::min(text.find('\n'), text.size())));
      if (!named || !named_call(text, true, out)) return no_call(out);
      call_.end(out);
      writer_.write(rest, out);
      return buffer_.clear(), false;
    }
    if (state_ == State::kCall && fresh_ && text.starts_with('{')) return enter_json();
    if (state_ == State::kBeforeValue && !text.empty()) return begin_value(), true;
    if (state_ == State::kValue && call_.is_text()) give(trim_end(buffer_, end && !cut ? buffer_.size() : tag.at), out);
    if (!end && state_ == State::kValue && !call_.is_text()) searched_ = tag.at;
    if (!end) return false;
    const bool again = state_ == State::kValue && !call_.wrote() && call_.is_again();
    if (state_ == State::kValue && !cut && !again) end_value(buffer_.size(), false, out);
    if (!cut) call_.end(out);
    const bool spare = !cut && (state_ == State::kCall || state_ == State::kKey || again);  // nothing came of it
    const std::string rest(spare ? text : std::string_view());
    buffer_.clear();
    state_ = State::kContent;
    writer_.write(rest, out);
    return false;
  }

  bool section(const Tag& tag, ToolOutput& out) {
    const std::string_view text = before(tag);
    if (!text.empty()) {
      if (may_be_list(text) > 0) return become_other(out);
      if (behind_ || !style_.call.empty() || !named_call(text, tag.kind != TagKind::kKey, out)) return no_call(out);
      buffer_.erase(0, tag.at);
      searched_ = 0;
      return true;
    }
    if (tag.kind == TagKind::kCall) {
      begin_call(tag.name, out);
      return take(tag, State::kCall);
    }
    if (tag.kind == TagKind::kSectionEnd) return behind_ = false, take(tag, State::kContent);
    return take(tag, behind_ || tag.kind == TagKind::kSection ? State::kSection : State::kContent);
  }

  // Calls as JSON in this form's tags: 1; none: 0; nobody knows yet: -1.
  int may_be_list(std::string_view text) const {
    if (behind_ || (text[0] != '{' && text[0] != '[')) return 0;
    if (text[0] == '[') text.remove_prefix(1 + count_space(text.substr(1)));
    if (text.empty()) return -1;
    return text[0] == '{' ? begins_call(text) : 0;
  }

  // A name that stands as text in front of the first tag; `alone`: that is no parameter.
  bool named_call(std::string_view text, bool alone, ToolOutput& out) {
    const std::string name(text.substr(0, text.find_first_of("\r\n")));
    if (!may_be_name(text, tools_) || (alone && tools_ && !is_offered(tools_, name))) return false;
    begin_call(name, out);
    state_ = State::kCall;
    return true;
  }

  // What stands behind the opening tag is no call.
  bool no_call(ToolOutput& out) {
    if (!behind_) writer_.mark(mark_, out);
    behind_ = false;
    state_ = State::kContent;
    return true;
  }

  // Between the parameters.
  bool call(const Tag& tag, ToolOutput& out) {
    const std::string_view text = before(tag);
    if (fresh_ && text.starts_with('{')) return enter_json();
    if (fresh_ && tag.kind == TagKind::kCall && tag.name == call_.name() && text.empty())
      return take(tag, State::kCall);  // doubled
    fresh_ = false;
    const bool goes_on = tag.kind != TagKind::kSection && tag.kind != TagKind::kCall;
    if (!text.empty() && !goes_on) {  // the call was over, and this is content
      call_.end(out);
      state_ = State::kContent;
      return true;
    }
    switch (tag.kind) {
      case TagKind::kKeyEnd:
        if (text.empty()) return take(tag, State::kCall);
        key_ = text;
        return take(tag, State::kBeforeValue);
      case TagKind::kValue:
        if (!text.empty()) key_ = text.substr(text.rfind('\n') + 1);
        if (text.empty() || !call_.has_parameter(key_)) return take(tag, State::kCall);
        return state_ = State::kBeforeValue, buffer_.erase(0, tag.at), true;
      default:
        return structure(tag, out);
    }
  }

  // A tag that begins or ends a parameter, a call or a section.
  bool structure(const Tag& tag, ToolOutput& out) {
    switch (tag.kind) {
      case TagKind::kKey:
        key_ = tag.name;
        if (tag.name.empty()) return take(tag, State::kKey);
        take(tag, State::kValue);
        return begin_value(tag.text), true;
      case TagKind::kCall:
        call_.end(out);
        begin_call(tag.name, out);
        return take(tag, State::kCall);
      case TagKind::kCallEnd:
      case TagKind::kSection:
        call_.end(out);
        behind_ = tag.kind == TagKind::kCallEnd;
        mark_ = buffer_.substr(tag.at, tag.size);
        return take(tag, State::kSection);
      case TagKind::kSectionEnd:
        call_.end(out);
        return take(tag, State::kContent);
      default:
        return take(tag, State::kCall);
    }
  }

  bool key(const Tag& tag, ToolOutput& out) {
    const std::string_view text = before(tag);
    if (tag.kind == TagKind::kKeyEnd || tag.kind == TagKind::kValue) {
      key_ = text;
      if (key_.empty()) return take(tag, tag.kind == TagKind::kValue ? State::kCall : State::kKey);
      if (tag.kind == TagKind::kKeyEnd) return take(tag, State::kBeforeValue);
      take(tag, State::kValue);
      return begin_value(), true;
    }
    return structure(tag, out);
  }

  bool before_value(const Tag& tag, ToolOutput& out) {
    if (!before(tag).empty()) return begin_value(), true;
    if (tag.kind == TagKind::kKeyEnd) return take(tag, State::kBeforeValue);
    if (tag.kind != TagKind::kValue) return structure(tag, out);
    take(tag, State::kValue);
    return begin_value(), true;
  }

  void begin_value(std::optional<bool> text = {}) {
    call_.begin_value(key_, text);
    at_first_ = true;
    state_ = State::kValue;
  }

  bool value(const Tag& tag, bool end, ToolOutput& out) {
    const bool empty = before(tag).empty() && !call_.wrote();
    if (empty && (tag.kind == TagKind::kValue || tag.kind == TagKind::kKeyEnd))
      return take(tag, State::kValue);  // doubled
    if (call_.is_text() && (tag.kind == TagKind::kCallEnd || tag.kind == TagKind::kSectionEnd)) {
      const int real = lexer_.ends_value(buffer_, tag, end);
      if (real < 0) return give(trim_end(buffer_, tag.at), out), false;
      if (real == 0) return searched_ = tag.at + tag.size, true;  // the text speaks of such a tag
    }
    const bool own = tag.kind == TagKind::kValueEnd;
    if (empty && !own) {  // nothing came of its tag, or it is there twice
      buffer_.erase(0, tag.at);
    } else {
      end_value(tag.at, own, out);
    }
    if (own) buffer_.erase(0, tag.size);
    searched_ = 0;
    state_ = State::kCall;
    return true;
  }

  // Of a text what is sure.
  void give(std::size_t size, ToolOutput& out) {
    if (at_first_ && size > 0) {
      if (style_.lines && buffer_[0] == '\n') buffer_.erase(0, 1), --size, searched_ -= searched_ > 0;
      at_first_ = false;
    }
    if (size == 0) return;
    call_.text(std::string_view(buffer_).substr(0, size), out);
    buffer_.erase(0, size);
    searched_ -= std::min(searched_, size);
  }

  // `own`: by the tag that belongs there.
  void end_value(std::size_t size, bool own, ToolOutput& out) {
    std::string_view whole = std::string_view(buffer_).substr(0, own ? size : trim_end(buffer_, size));
    if (style_.lines && at_first_ && whole.starts_with('\n')) whole.remove_prefix(1);
    if (style_.lines && own && whole.ends_with('\n')) whole.remove_suffix(1);
    call_.end_value(whole, out);
    buffer_.erase(0, size);
  }

  void begin_call(std::string name, ToolOutput& out) {
    writer_.after_call(out);
    call_.begin(std::move(name), out);
    behind_ = false;
    fresh_ = true;
  }

  // The arguments are one object after all.
  bool enter_json() {
    buffer_.erase(0, count_space(buffer_));
    json_ = LooseJson({.stops = lexer_.marks()});
    fresh_ = false;
    call_.leave();
    searched_ = 0;
    state_ = State::kOther;
    return true;
  }

  bool object(bool end, bool cut, ToolOutput& out) {
    const bool done = json_.convert(buffer_, end && !cut, out.calls.back().arguments);
    if (!done && !json_.stopped() && !end) return false;
    buffer_.erase(0, json_.taken());
    state_ = State::kCall;
    return true;
  }

  // Another form within the same tags: its parser reads the rest of the answer.
  bool become_other(ToolOutput& out) {
    other_ = make_style_parser({.open = style_.section, .close = style_.section_end}, tools_);
    buffer_.insert(0, style_.section.front());
    calls_before_ = out.calls.size();
    state_ = State::kOther;
    return true;
  }

  bool other(bool end, bool cut, ToolOutput& out) {
    if (!other_) return object(end, cut, out);
    other_->push(buffer_, out);
    buffer_.clear();
    if (out.calls.size() > calls_before_) writer_.after_call(out);
    if (!end) return false;
    other_->finish(out, cut);
    state_ = State::kContent;
    return false;
  }

  TagStyle style_;
  TagLexer lexer_;
  const Json* tools_;
  OpenCall call_;
  LooseJson json_;                     // of arguments that are one object
  std::unique_ptr<ToolParser> other_;  // of calls in another form
  std::string mark_, key_;
  std::size_t searched_ = 0, calls_before_ = 0;
  State state_ = State::kContent;
  bool behind_ = false;    // a call is over and its section is not
  bool at_line_ = true;    // of content: a line begins here
  bool fresh_ = false;     // nothing of the call's arguments was read
  bool at_first_ = false;  // of a value
};

}  // namespace

std::unique_ptr<ToolParser> make_tag_parser(const TagStyle& style, const Json* tools) {
  return std::make_unique<TagParser>(style, tools);
}

}  // namespace kvasir::text
