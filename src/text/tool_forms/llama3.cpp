// Llama 3.1 and later: the text is a call and nothing else, with or without the tag, several separated by ';':
//   <|python_tag|>{"name": "f", "parameters": {"a": 1}}
// A tag may also follow content.
#include <array>

#include "text/tool_json.hpp"

namespace kvasir::text {
namespace {

constexpr std::string_view kTag = "<|python_tag|>";
constexpr int kMaxFailures = 64;  // as in hermes.cpp

// Whether the object that begins `text` can be a call, as far as its first key tells: other JSON need not be held back.
bool plausible(std::string_view text) {
  static constexpr std::array<std::string_view, 5> kKeys = {"\"name\"", "\"type\"", "\"function\"", "\"parameters\"",
                                                            "\"arguments\""};
  text.remove_prefix(1);
  text.remove_prefix(count_space(text));
  for (const auto key : kKeys)
    if (text.starts_with(key) || key.starts_with(text)) return true;
  return false;
}

class Llama3Parser : public ToolParser {
 public:
  void push(std::string_view text, ToolOutput& out) override {
    buffer_ += text;
    while (step(false, out)) {
    }
  }

  void finish(ToolOutput& out) override {
    while (step(true, out)) {
    }
    writer_.finish(out);
  }

 private:
  enum class State { kContent, kMayCall };

  bool step(bool end, ToolOutput& out) { return state_ == State::kContent ? content(end, out) : may_call(end, out); }

  bool content(bool end, ToolOutput& out) {
    const auto at = failures_ < kMaxFailures ? buffer_.find(kTag) : buffer_.npos;
    const std::size_t keep = end || at != buffer_.npos ? 0 : partial_tag(buffer_, kTag);
    const std::size_t size = at != buffer_.npos ? at : buffer_.size() - keep;
    writer_.write(std::string_view(buffer_).substr(0, size), out);
    buffer_.erase(0, size);
    if (at == buffer_.npos || size != at) return false;
    state_ = State::kMayCall;
    return true;
  }

  // At the begin, at a tag, and behind a call.
  bool may_call(bool end, ToolOutput& out) {
    const std::string_view text = buffer_;
    std::size_t begin = count_space(text);
    if (called_ && begin < text.size() && (text[begin] == ';' || text[begin] == ',')) {
      begin += 1 + count_space(text.substr(begin + 1));
    }
    const std::string_view rest = text.substr(begin);
    std::size_t tag_end = 0;
    if (rest.starts_with(kTag)) {
      tag_end = begin + kTag.size();
      begin = tag_end + count_space(text.substr(tag_end));
    } else if (!rest.empty() && kTag.starts_with(rest)) {
      return end && refuse(0, out);
    }
    // Behind a call, a separator alone is nothing.
    if (begin == text.size()) return end && (!called_ || tag_end > 0) && !text.empty() && refuse(tag_end, out);
    if (text[begin] != '{' || !plausible(text.substr(begin))) return refuse(tag_end, out);
    const std::size_t size = scanner_.scan(text.substr(begin));
    if (size == 0) return end && refuse(tag_end, out);
    auto parsed = parse_call(text.substr(begin, size), true);
    if (!parsed) return refuse(tag_end, out);
    writer_.call(std::move(*parsed), out);
    buffer_.erase(0, begin + size);
    scanner_.reset();
    called_ = true;
    return true;
  }

  // It is no call: content, the first `size` bytes, which end in a tag, included.
  bool refuse(std::size_t size, ToolOutput& out) {
    writer_.write(std::string_view(buffer_).substr(0, size), out);
    buffer_.erase(0, size);
    scanner_.reset();
    state_ = State::kContent;
    ++failures_;
    return true;
  }

  std::string buffer_;
  ContentWriter writer_;
  ObjectScanner scanner_;
  State state_ = State::kMayCall;
  int failures_ = 0;
  bool called_ = false;
};

int match(std::string_view chat_template) {
  const auto has = [&](std::string_view what) { return chat_template.find(what) != chat_template.npos; };
  return has(kTag) || (has("\"parameters\": ") && has("{\"name\": ")) ? 1 : 0;
}

}  // namespace

namespace entries::tool_forms {
extern const ToolForm llama3;
const ToolForm llama3 = {
    match, [] { return std::unique_ptr<ToolParser>(std::make_unique<Llama3Parser>()); }, {"", "parameters", "", "; "}};
}  // namespace entries::tool_forms

}  // namespace kvasir::text
