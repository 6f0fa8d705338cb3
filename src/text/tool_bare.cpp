// Answers that are nothing but calls, without the marks of their form.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "text/tool_json.hpp"

namespace kvasir::text {
namespace {

// What models put in front of calls that are not in their form, and in between a name and its arguments.
constexpr std::array<std::string_view, 18> kBareOpen = {
    "<tools>",  "<tool>", "<tool_call>",   "<tool_calls>",   "<function_call>", "<function_calls>",
    "<call>",   "<json>", "<|tool_call|>", "<|python_tag|>", "[TOOL_CALLS]",    "<|tool_call_start|>",
    "<answer>", "<code>", "<response>",    "<|tool_calls|>", "Action:",         "<|action_start|>"};
constexpr std::array<std::string_view, 4> kBareMiddle = {"[ARGS]", "<｜tool▁sep｜>", "<|tool_call_argument_begin|>",
                                                         "<|message|>"};
constexpr std::array<std::string_view, 3> kBarePrefix = {"call:", "functions.", "function:"};
constexpr std::size_t kLongestBareTag = 256;

class BareParser final : public ToolParser {
 public:
  BareParser(std::unique_ptr<ToolParser> inner, std::vector<std::string_view> own, const Json& tools)
      : inner_(std::move(inner)), own_(std::move(own)), tools_(tools) {
    for (const std::string_view mark : own_)
      if (!mark.starts_with('{')) (mark.find('"') != mark.npos ? quote_ = mark : stops_.emplace_back(mark));
  }

  void push(std::string_view text, ToolOutput& out) override {
    if (state_ == State::kNo) return inner_->push(text, out);
    held_ += text;
    read(false);
    if (state_ == State::kNo) inner_->push(std::exchange(held_, {}), out);
  }

  void finish(ToolOutput& out, bool cut) override {
    if (state_ != State::kNo) {
      read(true);
      const bool half = state_ == State::kObject && cut && (begin_of_call() || !calls_.empty());
      if ((state_ == State::kBehind && !calls_.empty()) || half) {
        for (ToolCall& call : calls_) out.calls.push_back(std::move(call));
        return;
      }
      inner_->push(held_, out);
    }
    inner_->finish(out, cut);
  }

 private:
  enum class State { kFront, kObject, kBehind, kNo };

  std::string_view rest() {
    at_ += count_space(std::string_view(held_).substr(at_));
    return std::string_view(held_).substr(at_);
  }
  bool no() {
    state_ = State::kNo;
    return false;
  }

  void read(bool end) {
    while (state_ != State::kNo && (state_ == State::kObject ? object(end) : around(end))) {
    }
  }

  // In front of a call or behind one. False: nothing more can be said.
  bool around(bool end) {
    const std::string_view text = rest();
    if (text.empty()) return false;
    const auto starts = [&](std::string_view mark) { return text.starts_with(mark); };
    const auto may_come = [&](std::string_view mark) {
      return !end && mark.size() > text.size() && mark.starts_with(text);
    };
    const bool behind = state_ == State::kBehind;
    if (at_ == count_space(held_) && std::any_of(own_.begin(), own_.end(), starts)) return no();
    if (std::any_of(own_.begin(), own_.end(), may_come) || std::any_of(kBareOpen.begin(), kBareOpen.end(), may_come))
      return false;
    for (const std::string_view mark : kBareOpen)
      if (starts(mark)) return at_ += mark.size(), true;
    if (may_come("```")) return false;
    if (starts("```")) {
      const std::size_t line = text.find('\n');
      const bool word = text.substr(3, line - 3).find_first_not_of("abcdefghijklmnopqrstuvwxyz_- \r") == text.npos;
      if (!word || (line == text.npos && text.size() > kLongestBareTag)) return no();
      if (line == text.npos && !end) return false;
      at_ += line == text.npos ? text.size() : line + 1;
      return true;
    }
    if (behind) {
      if (std::string_view(",;]})").find(text[0]) != text.npos) return ++at_, true;
      if (text[0] == '<' || (text[0] == '[' && text.size() > 1 && text[1] != '{')) {  // a closing tag, known or not
        const std::size_t close = text.find_first_of(">]\n");
        if (close == text.npos && text.size() <= kLongestBareTag && !end) return false;
        if (close == text.npos || text[close] == '\n' || text.find(' ') < close) return no();
        return at_ += close + 1, true;
      }
    }
    if (text[0] == '[') return ++at_, true;
    if (text[0] == '{') {
      const std::string_view inner = text.substr(1 + count_space(text.substr(1)));
      if (inner.empty()) return false;
      if (inner[0] == '{') return ++at_, true;
      if (!plausible_call(text)) return no();
      loose_ = LooseJson({.stops = stops_});
      begin_ = at_;
      name_.clear();
    } else if (!named(text, end)) {
      return false;
    }
    json_.clear();
    state_ = State::kObject;
    return true;
  }

  // NAME(...), NAME[ARGS]{...}, call:NAME{...}: the name is a tool's. False: it is not, or nobody knows yet.
  bool named(std::string_view text, bool end) {
    std::size_t at = 0;
    for (const std::string_view prefix : kBarePrefix) {
      if (!end && prefix.size() > text.size() && prefix.starts_with(text)) return false;
      if (text.starts_with(prefix)) at = prefix.size();
    }
    std::string_view name = text.substr(at);
    name = name.substr(0, name.find_first_of("({[<: \t\n"));
    if (at + name.size() == text.size() && !end) return may_be_offered(name) ? false : no();
    if (!is_offered(&tools_, name)) return no();
    at += name.size();
    if (at < text.size() && text[at] == ':') at = std::min(text.find_first_not_of("0123456789", at + 1), text.size());
    at += count_space(text.substr(at));
    for (const std::string_view middle : kBareMiddle) {
      if (!end && middle.size() > text.size() - at && middle.starts_with(text.substr(at))) return false;
      if (text.substr(at).starts_with(middle)) at += middle.size(), at += count_space(text.substr(at));
    }
    if (at == text.size()) return end ? no() : false;
    if (text[at] != '(' && text[at] != '{') return no();
    std::vector<std::string> names;
    if (const Json* properties = parameters_of(&tools_, name))
      for (const auto& [key, value] : properties->items()) names.push_back(key);
    name_ = name;
    loose_ = text[at] == '(' ? LooseJson({.call = true, .exact = false, .stops = stops_}, std::move(names))
                             : LooseJson({.quote = quote_, .exact = quote_.empty(), .stops = stops_});
    at_ += at;
    begin_ = at_;
    return true;
  }

  bool may_be_offered(std::string_view name) const {
    return std::any_of(tools_.begin(), tools_.end(), [&](const Json& t) {
      return t.is_object() && t.contains("function") && t["function"].value("name", "").starts_with(name);
    });
  }

  bool object(bool end) {
    loose_.convert(std::string_view(held_).substr(begin_), end, json_);
    if (name_.empty() && !(plausible_call(std::string_view(held_).substr(begin_)) && offered())) return no();
    if (loose_.stopped()) {
      if (!begin_of_call()) return no();
    } else if (!loose_.done()) {
      return false;
    } else if (name_.empty()) {
      // Without arguments it is a call only when nothing else is there either; with a description it is no call.
      const Json object = Json::parse(json_, nullptr, false);
      auto call = parse_call(json_, !object.is_object() || object.size() > 1);
      if (!call || !is_offered(&tools_, call->name) || describes_tool(object)) return no();
      calls_.push_back(std::move(*call));
    } else {
      calls_.push_back({name_, json_});
    }
    at_ = begin_ + loose_.taken();
    state_ = State::kBehind;
    return true;
  }

  // As far as the object's name is known: it is a tool's.
  bool offered() const {
    const std::string_view json = json_;
    for (const std::string_view key : {"\"name\"", "\"tool_name\""}) {
      const std::size_t at = json.find(key);
      if (at == json.npos) continue;
      const std::size_t open = json.find('"', at + key.size());
      const std::size_t close = open == json.npos ? json.npos : json.find('"', open + 1);
      return close == json.npos || is_offered(&tools_, json.substr(open + 1, close - open - 1));
    }
    return true;
  }

  // What there is of a call that is cut within its arguments.
  bool begin_of_call() {
    if (!name_.empty()) return calls_.push_back({name_, json_}), true;
    ToolOutput out;
    ObjectCallReader reader(true, false);
    if (reader.read(json_, true, out) != ObjectCallReader::Result::kMore || !reader.begun()) return false;
    if (!is_offered(&tools_, out.calls[0].name)) return false;
    calls_.push_back(std::move(out.calls[0]));
    return true;
  }

  static bool describes_tool(const Json& object) {
    const auto inner = object.find("function");
    const Json& function = inner != object.end() && inner->is_object() ? *inner : object;
    return function.contains("description") && function.contains("parameters");
  }

  std::unique_ptr<ToolParser> inner_;
  const std::vector<std::string_view> own_;
  std::vector<std::string_view> stops_;
  const Json& tools_;
  std::string_view quote_;  // of the form's own around strings
  std::string held_, json_, name_;
  std::vector<ToolCall> calls_;
  LooseJson loose_;
  std::size_t at_ = 0, begin_ = 0;
  State state_ = State::kFront;
};

}  // namespace

std::unique_ptr<ToolParser> make_bare_parser(std::unique_ptr<ToolParser> inner, std::vector<std::string_view> own,
                                             const Json& tools) {
  return std::make_unique<BareParser>(std::move(inner), std::move(own), tools);
}

}  // namespace kvasir::text
