// What the server asks of a chat template: messages to a prompt, and the model's answer back to content and tool calls.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "serve/http.hpp"
#include "text/chat.hpp"
#include "text/conversation.hpp"
#include "text/grammar.hpp"
#include "text/tokenizer.hpp"

namespace kvasir::serve {

// A conversation whose messages are objects with a role and a content: a string, or null in an assistant's message with
// tool_calls.
struct ChatInput : text::Conversation {
  std::optional<std::string> must_call;  // the answer is a call: of the tool with this name, of any where it is empty
  bool one_call = false;                 // and no more than one
};

struct ToolCallDelta {
  int index = 0;
  std::string id, name;   // not empty: this call begins here
  std::string arguments;  // the next part of the JSON text
};

struct ChatDelta {
  std::string content;
  std::string reasoning;  // what the template marks as thinking
  std::vector<ToolCallDelta> calls;
  bool empty() const { return content.empty() && reasoning.empty() && calls.empty(); }
};

// Splits one answer while it is generated; holds text back that may still become a tool call.
class AnswerParser {
 public:
  virtual ~AnswerParser() = default;
  virtual ChatDelta feed(std::string_view text) = 0;
  virtual ChatDelta finish() = 0;  // the end of the text: whatever was held back
};

// Used by several threads at once.
class ChatFormat {
 public:
  virtual ~ChatFormat() = default;
  // The prompt's text. Throws Error(kBadInput) for messages that the template refuses.
  virtual std::string render(const ChatInput& input) const = 0;
  // The same, with the places where the conversation spells names of control tokens.
  virtual text::Prompt prompt(const ChatInput& input, const text::Tokenizer& /*tokenizer*/) const {
    return {render(input), {}};
  }
  // What byte `at` of the prompt is part of; nothing when this format cannot tell.
  virtual std::optional<text::Place> place(const ChatInput& /*input*/, std::size_t /*at*/) const {
    return std::nullopt;
  }
  virtual std::unique_ptr<AnswerParser> parser(const ChatInput& input) const = 0;
  // What answers to input.must_call may be. Throws Error(kUnsupported) when this format cannot tell, Error(kBadInput)
  // for tools that are not there or whose parameters no grammar can be made of.
  virtual std::shared_ptr<const text::Grammar> calls(const ChatInput& /*input*/) const {
    throw Error(Code::kUnsupported, "calls cannot be forced with this chat template", "tool_choice");
  }
};

}  // namespace kvasir::serve
