// Hermes, Qwen2.5, Qwen3:
//   <tool_call>
//   {"name": "f", "arguments": {"a": 1}}
//   </tool_call>
// any number of times, with or without text around.
#include "text/tool_json.hpp"

namespace kvasir::text {
namespace {

constexpr std::string_view kOpen = "<tool_call>", kClose = "</tool_call>";

// So many calls that are none, and the rest is taken as content: text that repeats the opening tag would cost quadratic
// time.
constexpr int kMaxFailures = 64;

class HermesParser : public ToolParser {
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
  // Takes one piece of the buffer; false when more text is needed, or nothing is left at the end.
  bool step(bool end, ToolOutput& out) { return inside_ ? call(end, out) : content(end, out); }

  bool content(bool end, ToolOutput& out) {
    const auto at = failures_ < kMaxFailures ? buffer_.find(kOpen) : buffer_.npos;
    if (at == buffer_.npos) {
      const auto keep = end ? 0 : partial_tag(buffer_, kOpen);
      writer_.write(std::string_view(buffer_).substr(0, buffer_.size() - keep), out);
      buffer_.erase(0, buffer_.size() - keep);
      return false;
    }
    writer_.write(std::string_view(buffer_).substr(0, at), out);
    buffer_.erase(0, at + kOpen.size());
    inside_ = true;
    scanner_.reset();
    size_ = 0;
    return true;
  }

  // Behind an opening tag.
  bool call(bool end, ToolOutput& out) {
    const std::string_view text = buffer_;
    const std::size_t begin = count_space(text);
    if (begin == text.size()) return end && refuse(out);
    if (text[begin] != '{') return refuse(out);
    if (size_ == 0) size_ = scanner_.scan(text.substr(begin));
    if (size_ == 0) return end && refuse(out);
    const std::size_t stop = begin + size_, tag = stop + count_space(text.substr(stop));
    const std::string_view behind = text.substr(tag);
    // A model that stops without the closing tag has written a call all the same.
    const bool closed = behind.starts_with(kClose), broken_off = end && kClose.starts_with(behind);
    if (!closed && !broken_off) return kClose.starts_with(behind) ? false : refuse(out);
    auto parsed = parse_call(text.substr(begin, size_), false);
    if (!parsed) return refuse(out);
    writer_.call(std::move(*parsed), out);
    buffer_.erase(0, closed ? tag + kClose.size() : buffer_.size());
    inside_ = false;
    return true;
  }

  // It was no call: the tag is content, and what follows is looked at again.
  bool refuse(ToolOutput& out) {
    writer_.write(kOpen, out);
    inside_ = false;
    ++failures_;
    return true;
  }

  std::string buffer_;
  ContentWriter writer_;
  ObjectScanner scanner_;
  std::size_t size_ = 0;  // of the object, once it is complete
  int failures_ = 0;
  bool inside_ = false;
};

// GLM and Qwen3-Coder put other things between the same tags.
int match(std::string_view chat_template) {
  const auto has = [&](std::string_view what) { return chat_template.find(what) != chat_template.npos; };
  return has(kOpen) && has("arguments") && !has("<arg_key>") && !has("<function=") ? 2 : 0;
}

}  // namespace

namespace entries::tool_forms {
extern const ToolForm hermes;
const ToolForm hermes = {match,
                         [] { return std::unique_ptr<ToolParser>(std::make_unique<HermesParser>()); },
                         {"<tool_call>\n", "arguments", "\n</tool_call>", "\n"}};
}  // namespace entries::tool_forms

}  // namespace kvasir::text
