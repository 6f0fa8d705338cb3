#include "serve/template_chat.hpp"

#include <fmt/format.h>

#include <atomic>

#include "base/splitmix.hpp"
#include "text/conversation.hpp"
#include "text/tool_grammar.hpp"

namespace kvasir::serve {
namespace {

// Names of tool calls, as clients send them back: unlike each other within a conversation and between answers.
std::string call_id() {
  static std::atomic<std::uint64_t> count{0};
  std::uint64_t state = ++count;
  return fmt::format("call_{:016x}", splitmix64(state));
}

class Parser final : public AnswerParser {
 public:
  explicit Parser(const Entry<text::ToolForm>* form) : parser_(text::make_tool_parser(form)) {}

  ChatDelta feed(std::string_view piece) override {
    text::ToolOutput out;
    parser_->push(piece, out);
    return delta(std::move(out));
  }
  ChatDelta finish() override {
    text::ToolOutput out;
    parser_->finish(out);
    return delta(std::move(out));
  }

 private:
  ChatDelta delta(text::ToolOutput out) {
    ChatDelta d;
    d.content = std::move(out.content);
    for (text::ToolCall& call : out.calls)
      d.calls.push_back(
          {.index = calls_++, .id = call_id(), .name = std::move(call.name), .arguments = std::move(call.arguments)});
    return d;
  }

  std::unique_ptr<text::ToolParser> parser_;
  int calls_ = 0;
};

}  // namespace

std::string TemplateChat::render(const ChatInput& input) const { return template_.render(input); }

text::Prompt TemplateChat::prompt(const ChatInput& input, const text::Tokenizer& tokenizer) const {
  return template_.prompt(input, tokenizer.control_names());
}

std::optional<text::Place> TemplateChat::place(const ChatInput& input, std::size_t at) const {
  return template_.place_at(input, at);
}

// Without tools in the request nothing that the model writes is a call.
std::unique_ptr<AnswerParser> TemplateChat::parser(const ChatInput& input) const {
  const bool tools = input.tools.is_array() && !input.tools.empty();
  return std::make_unique<Parser>(tools ? template_.tool_form() : nullptr);
}

std::shared_ptr<const text::Grammar> TemplateChat::calls(const ChatInput& input) const {
  return text::grammar_of_calls(template_.tool_form(), input.tools, input.must_call.value_or(""), !input.one_call);
}

}  // namespace kvasir::serve
