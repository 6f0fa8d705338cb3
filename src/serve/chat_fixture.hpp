// A chat format for tests: "<|begin|>role: text\n" per message, and "<call>NAME ARGUMENTS</call>" in answers.
#pragma once

#include <fmt/format.h>

#include "base/error.hpp"
#include "serve/chat.hpp"

namespace kvasir::serve {

class FakeParser : public AnswerParser {
 public:
  ChatDelta feed(std::string_view text) override {
    held_ += text;
    if (held_.find("<broken>") != std::string::npos) throw std::runtime_error("a parser's own error");
    return take(false);
  }
  ChatDelta finish(bool) override { return take(true); }

 private:
  static constexpr std::string_view kBegin = "<call>", kEnd = "</call>";

  ChatDelta take(bool last) {
    ChatDelta out;
    for (;;) {
      const std::size_t begin = held_.find(kBegin);
      const std::size_t end = held_.find(kEnd);
      if (begin == std::string::npos || (end == std::string::npos && last)) break;
      out.content += held_.substr(0, begin);
      held_.erase(0, begin);
      if (end == std::string::npos) return out;  // the call is not complete
      const std::string call = held_.substr(kBegin.size(), held_.find(kEnd) - kBegin.size());
      const std::size_t blank = call.find(' ');
      out.calls.push_back({.index = calls_,
                           .id = fmt::format("call_{}", calls_),
                           .name = call.substr(0, blank),
                           .arguments = blank == std::string::npos ? "{}" : call.substr(blank + 1)});
      ++calls_;
      held_.erase(0, held_.find(kEnd) + kEnd.size());
    }
    std::size_t keep = 0;  // what may still become "<call>"
    for (std::size_t n = 1; !last && n < kBegin.size() && n <= held_.size(); ++n)
      if (held_.ends_with(kBegin.substr(0, n))) keep = n;
    out.content += held_.substr(0, held_.size() - keep);
    held_.erase(0, held_.size() - keep);
    return out;
  }

  std::string held_;
  int calls_ = 0;
};

class FakeChat : public ChatFormat {
 public:
  std::string render(const ChatInput& input) const override {
    std::string text = "<|begin|>";
    if (!input.tools.is_null()) text += "tools: " + dump(input.tools) + "\n";
    for (const Json& m : input.messages) {
      if (m["role"] == "refused") throw Error(Code::kBadInput, "this role is refused", "messages");
      text +=
          m["role"].get<std::string>() + ": " + (m["content"].is_null() ? "" : m["content"].get<std::string>()) + "\n";
    }
    if (input.add_generation_prompt) text += "assistant: ";
    return text;
  }
  std::unique_ptr<AnswerParser> parser(const ChatInput&, const AnswerStart&) const override {
    return std::make_unique<FakeParser>();
  }
};

}  // namespace kvasir::serve
