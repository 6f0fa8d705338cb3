// What the server asks of a chat template: messages to a prompt, and the model's answer back to content and tool calls.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "run/picture_prompt.hpp"
#include "serve/http.hpp"
#include "text/chat.hpp"
#include "text/conversation.hpp"
#include "text/grammar.hpp"
#include "text/json_schema.hpp"
#include "text/pictures.hpp"
#include "text/reasoning.hpp"
#include "text/tokenizer.hpp"

namespace kvasir::serve {

struct ChatPicture : text::PictureFile {
  std::shared_ptr<const run::PromptPicture> rows = nullptr;  // null until read_pictures (serve/pictures.hpp)
};

// A conversation whose messages are objects with a role and a content: a string, in which marks stand for pictures, or
// null in an assistant's message with tool_calls.
struct ChatInput : text::Conversation {
  std::optional<std::string> must_call;  // the answer is a call: of the tool with this name, of any where it is empty
  std::optional<Json> callable = {};     // of `tools` those that may be called, none perhaps; without: all
  bool one_call = false;                 // and no more than one
  std::string template_name = {};        // of the model's chat templates the one with this name; empty: by the tools
  std::vector<ChatPicture> pictures = {};

  bool has_tools() const { return tools.is_array() && !tools.empty(); }
  const Json& may_call() const { return callable ? *callable : tools; }  // an array, or null
  bool calls() const { return may_call().is_array() && !may_call().empty(); }
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
  // The end of the text: whatever was held back. `cut`: the model had not ended it.
  virtual ChatDelta finish(bool cut) = 0;
  virtual bool thinking() const { return false; }  // what was fed last is reasoning, or may be
  // Behind the end: what of the answer is not as it should be, such as a broken call.
  virtual text::Warnings warnings() const { return {}; }
};

// Where an answer begins.
struct AnswerStart {
  std::string_view prompt;   // its text; only read while the parser is made
  bool constrained = false;  // the answer is a text of a grammar: it holds no reasoning
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
  virtual std::unique_ptr<AnswerParser> parser(const ChatInput& input, const AnswerStart& start) const = 0;
  // The template's text where there is one.
  virtual std::string_view source() const { return {}; }
  virtual bool knows_tools() const { return false; }     // and how the model writes calls
  virtual bool knows_thinking() const { return false; }  // and between which marks
  // What answers to input.must_call may be. Throws Error(kUnsupported) when this format cannot tell, Error(kBadInput)
  // for tools that are not there or whose parameters no grammar can be made of.
  // With `otherwise`, what is added by it may be the answer, too. What tools ask for and does not hold is said in
  // `warnings`.
  virtual std::shared_ptr<const text::Grammar> calls(
      const ChatInput& /*input*/, const std::function<text::Grammar::Node(text::Grammar&)>& /*otherwise*/,
      text::Warnings& /*warnings*/) const {
    throw Error(Code::kUnsupported, "calls cannot be forced with this chat template", "tool_choice");
  }
  // Any answer that calls nothing but input.may_call(); null: this format cannot tell how calls begin.
  virtual std::shared_ptr<const text::Grammar> other_calls_forbidden(const ChatInput& /*input*/,
                                                                     text::Warnings& /*warnings*/) const {
    return nullptr;
  }
  // What ends a model's thinking, as the template writes it.
  struct ThinkingEnd {
    std::optional<text::ReasoningMarks> marks = {};  // without: this format knows none
    std::string text = {};                           // the closing mark and what stands around it
  };
  virtual ThinkingEnd thinking_end(const ChatInput& /*input*/) const { return {}; }
  // Control tokens that are part of an answer's text: marks of calls and of reasoning.
  virtual std::vector<std::string> marks(const ChatInput& /*input*/) const { return {}; }
  // What of the conversation reaches the model in words alone.
  virtual text::Warnings warnings(const ChatInput& /*input*/) const { return {}; }
};

}  // namespace kvasir::serve
