// Gemma 4: <|tool_call>call:f{a:1,b:<|"|>text<|"|>,c:[true,{d:2}]}<tool_call|>, keys without quotes, strings between
// marks.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "text/tool_json.hpp"

namespace kvasir::text::tool_forms_gemma4 {
namespace {

constexpr std::string_view kOpen = "<|tool_call>", kClose = "<tool_call|>", kQuote = "<|\"|>", kCall = "call:";
constexpr std::size_t kLongestName = 256;

int match(std::string_view t) { return has(t, kOpen) ? 3 : 0; }

class Parser final : public MarkedParser {
 public:
  Parser() : MarkedParser({kOpen}) {}

 private:
  void begin(std::string_view) override {
    begun_ = in_string_ = in_json_ = escaped_ = false;
    depth_ = 0;
    key_.clear();
  }
  bool begun() const override { return begun_; }
  std::string_view closing() const override { return kClose; }

  Result read(std::string& buffer, ToolOutput& out, bool) override {
    if (!begun_) {
      const std::size_t space = count_space(buffer);
      const std::string_view rest = std::string_view(buffer).substr(space);
      if (!rest.starts_with(kCall)) return kCall.starts_with(rest) ? Result::kMore : Result::kBad;
      const std::size_t brace = rest.find('{');
      if (brace == rest.npos) return rest.size() > kLongestName ? Result::kBad : Result::kMore;
      std::string name(rest.substr(kCall.size(), brace - kCall.size()));
      if (name.empty() || name.size() > kLongestName || name.find_first_of(" <>\n") != name.npos) return Result::kBad;
      out.calls.push_back({std::move(name), {}});
      buffer.erase(0, space + brace);
      begun_ = true;
    }
    return convert(buffer, out.calls.back().arguments) ? Result::kDone : Result::kMore;
  }

  // As far as the buffer goes; true: the object is complete.
  bool convert(std::string& buffer, std::string& out) {
    std::size_t at = 0;
    bool done = false;
    while (at < buffer.size() && !done) {
      const std::string_view rest = std::string_view(buffer).substr(at);
      if (!in_json_ && rest.starts_with(kQuote)) {
        flush_key(out, false);
        out += '"';
        in_string_ = !in_string_;
        at += kQuote.size();
        continue;
      }
      if (!in_json_ && kQuote.starts_with(rest)) break;  // it may become one
      const char c = rest[0];
      ++at;
      if (in_json_) {  // a string as JSON has it
        json_.append(std::string_view(&c, 1), out);
        in_json_ = escaped_ || c != '"';
        escaped_ = !escaped_ && c == '\\';
      } else if (!in_string_ && c == '"' && key_.empty()) {
        json_ = {};
        json_.append(std::string_view(&c, 1), out);
        in_json_ = true;
      } else if (in_string_) {
        append_in_string(out, c);
      } else if (c == ':') {
        flush_key(out, true);
        out += ": ";
      } else if (c == '{' || c == '[') {
        ++depth_;
        out += c;
      } else if (c == '}' || c == ']') {
        flush_key(out, false);
        out += c;
        done = --depth_ == 0;
      } else if (c == ',') {
        flush_key(out, false);
        out += ", ";
      } else if (!key_.empty() || std::string_view(" \t\r\n").find(c) == std::string_view::npos) {
        key_ += c;
      }
    }
    buffer.erase(0, at);
    return done;
  }

  // A bare word: a key, or a number, true, false and null; anything else is a string.
  void flush_key(std::string& out, bool is_key) {
    if (key_.empty()) return;
    while (!key_.empty() && (key_.back() == ' ' || key_.back() == '\n')) key_.pop_back();
    const bool json = !is_key && !Json::parse(key_, nullptr, false).is_discarded();
    if (json) {
      out += key_;
    } else {
      out += Json(key_).dump(-1, ' ', false, Json::error_handler_t::replace);
    }
    key_.clear();
  }

  std::string key_;
  JsonCleaner json_;
  int depth_ = 0;
  bool begun_ = false, in_string_ = false, in_json_ = false, escaped_ = false;
};

std::unique_ptr<ToolParser> make(const Json*) { return std::make_unique<Parser>(); }

Grammar::Node call(const CallParts& p) {
  Grammar& g = p.grammar;
  return g.sequence({g.text("<|tool_call>call:" + p.name + "{"),
                     listed_arguments(p, {.behind = ":", .quote = kQuote, .separator = ","}), g.text("}<tool_call|>")});
}

std::string value_text(const Json& value) {
  if (value.is_string()) return std::string(kQuote) + value.get<std::string>() + std::string(kQuote);
  std::string text;
  if (value.is_object()) {
    for (const auto& [key, v] : value.items()) text += (text.empty() ? "" : ",") + key + ":" + value_text(v);
    return "{" + text + "}";
  }
  if (!value.is_array()) return value.dump();
  for (const Json& v : value) text += (text.empty() ? "" : ",") + value_text(v);
  return "[" + text + "]";
}

std::string write(const std::string& name, const Json& arguments) {
  return "<|tool_call>call:" + name + value_text(arguments) + "<tool_call|>";
}

constexpr std::string_view kMarks[] = {kOpen, kClose, kQuote};

}  // namespace

const ToolForm entry{.match = match, .make = make, .call = call, .write = write, .marks = kMarks};

}  // namespace kvasir::text::tool_forms_gemma4
