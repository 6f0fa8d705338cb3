// LFM2: a list of calls as Python has them:
//   <|tool_call_start|>[f(a=1, b="text"), g()]<|tool_call_end|>
#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "text/tool_json.hpp"

namespace kvasir::text::tool_forms_lfm2 {
namespace {

constexpr std::string_view kOpen = "<|tool_call_start|>", kClose = "<|tool_call_end|>";
constexpr std::size_t kLongestName = 256;

int match(std::string_view t) { return has(t, "<|tool_list_start|>") || has(t, kOpen) ? 3 : 0; }

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == '-' || c == '+';
}

class Parser final : public MarkedParser {
 public:
  Parser() : MarkedParser({kOpen}) {}

 private:
  void begin(std::string_view) override {
    begun_ = in_call_ = opened_ = false;
    stack_.clear();
    word_.clear();
  }
  bool begun() const override { return begun_; }
  std::string_view closing() const override { return kClose; }

  Result read(std::string& buffer, ToolOutput& out, bool) override {
    for (;;) {
      if (in_call_) {
        if (!convert(buffer, out.calls.back().arguments)) return Result::kMore;
        in_call_ = false;
      }
      std::size_t at = 0;
      while (at < buffer.size() &&
             (std::string_view(" \t\r\n").find(buffer[at]) != std::string_view::npos || (begun_ && buffer[at] == ',')))
        ++at;
      const std::string_view rest = std::string_view(buffer).substr(at);
      if (rest.empty()) return Result::kMore;
      if (!opened_ && rest[0] == '[') {
        opened_ = true;
        buffer.erase(0, at + 1);
        continue;
      }
      if (begun_ && rest[0] == ']') {
        buffer.erase(0, at + 1);
        return Result::kDone;
      }
      const std::size_t stop = std::find_if_not(rest.begin(), rest.end(), is_word) - rest.begin();
      if (stop == rest.size()) {
        if (rest.size() <= kLongestName) return Result::kMore;
        return begun_ ? Result::kDone : Result::kBad;
      }
      if (stop == 0 || rest[stop] != '(') {
        if (begun_) return Result::kDone;
        if (opened_) buffer.insert(0, "[");
        return Result::kBad;
      }
      out.calls.push_back({std::string(rest.substr(0, stop)), {}});
      buffer.erase(0, at + stop);
      begun_ = in_call_ = true;
    }
  }

  // Python's arguments to the JSON text of an object; true: the closing bracket was there.
  bool convert(std::string& buffer, std::string& out) {
    std::size_t at = 0;
    bool done = false;
    for (; at < buffer.size() && !done; ++at) {
      const char c = buffer[at];
      if (quote_ != 0) {
        string_char(c, out);
        continue;
      }
      if (is_word(c)) {
        word_ += c;
        continue;
      }
      if (c == '=' && stack_.size() == 1) {
        out += Json(word_).dump() + ": ";
        word_.clear();
        continue;
      }
      flush_word(out);
      switch (c) {
        case '"':
        case '\'':
          quote_ = c;
          out += '"';
          break;
        case '(':
          out += stack_.empty() ? '{' : '[';
          stack_ += stack_.empty() ? '}' : ']';
          break;
        case '[':
        case '{':
          out += c;
          stack_ += c == '[' ? ']' : '}';
          break;
        case ')':
        case ']':
        case '}':
          if (stack_.empty()) break;
          out += stack_.back();
          stack_.pop_back();
          done = stack_.empty();
          break;
        case ',':
          out += ", ";
          break;
        case ':':
          out += ": ";
          break;
        default:
          break;
      }
    }
    buffer.erase(0, at);
    return done;
  }

  void string_char(char c, std::string& out) {
    if (escaped_) {
      escaped_ = false;
      if (std::string_view("nrtbfu/").find(c) != std::string_view::npos) {
        out += '\\';
        out += c;
      } else if (c == '\'' || c == '"' || c == '\\') {
        append_in_string(out, c);
      } else {
        append_in_string(out, '\\');
        append_in_string(out, c);
      }
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == quote_) {
      quote_ = 0;
      out += '"';
    } else {
      append_in_string(out, c);
    }
  }

  void flush_word(std::string& out) {
    if (word_.empty()) return;
    if (word_ == "True") word_ = "true";
    if (word_ == "False") word_ = "false";
    if (word_ == "None") word_ = "null";
    const bool json = !Json::parse(word_, nullptr, false).is_discarded();
    out += json ? word_ : Json(word_).dump();
    word_.clear();
  }

  std::string word_, stack_;
  char quote_ = 0;
  bool begun_ = false, in_call_ = false, opened_ = false, escaped_ = false;
};

std::unique_ptr<ToolParser> make(const Json*) { return std::make_unique<Parser>(); }

Grammar::Node call(const CallParts& p) {
  Grammar& g = p.grammar;
  return g.sequence(
      {g.text(p.name + "("), listed_arguments(p, {.behind = "=", .quote = "", .separator = ", "}), g.text(")")});
}

std::string value_text(const Json& value) {
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_null()) return "None";
  if (!value.is_structured()) return value.dump();
  std::string text;
  if (value.is_array()) {
    for (const Json& v : value) text += (text.empty() ? "" : ", ") + value_text(v);
    return "[" + text + "]";
  }
  for (const auto& [key, v] : value.items())
    text += (text.empty() ? "" : ", ") + Json(key).dump() + ": " + value_text(v);
  return "{" + text + "}";
}

std::string write(const std::string& name, const Json& arguments) {
  std::string text;
  for (const auto& [key, value] : arguments.items()) text += (text.empty() ? "" : ", ") + key + "=" + value_text(value);
  return name + "(" + text + ")";
}

constexpr std::string_view kMarks[] = {kOpen, kClose};

}  // namespace

const ToolForm entry{.match = match,
                     .make = make,
                     .call = call,
                     .begin = "<|tool_call_start|>[",
                     .separator = ", ",
                     .end = "]<|tool_call_end|>",
                     .write = write,
                     .marks = kMarks};

}  // namespace kvasir::text::tool_forms_lfm2
