#include "serve/template_chat.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <utility>

#include "base/splitmix.hpp"
#include "text/call_check.hpp"
#include "text/call_in_thought.hpp"
#include "text/conversation.hpp"
#include "text/tool_grammar.hpp"

namespace kvasir::serve {
namespace {

// Names of tool calls, as clients send them back: unlike each other within a conversation and between answers.
std::string call_id(text::CallIdForm style) {
  static std::atomic<std::uint64_t> count{0};
  std::uint64_t state = ++count;
  const std::uint64_t bits = splitmix64(state);
  if (style != text::CallIdForm::kShort) return fmt::format("call_{:016x}", bits);
  return fmt::format("{:016x}", bits).substr(0, text::kShortId);
}

constexpr std::size_t kMostLookedAt = 64 << 10;  // bytes of an answer in which calls that nobody reads are looked for

class Parser final : public AnswerParser {
 public:
  // `calls_only`: the answer has to be a call, so what is left of one that is cut is no content. `constrained`: it is a
  // text of a grammar.
  Parser(const Entry<text::ToolForm>* form, const Json* tools, bool calls_only, bool constrained,
         std::unique_ptr<text::ToolParser> parser, text::ReasoningSplitter splitter, text::CallIdForm ids)
      : splitter_(std::move(splitter)),
        parser_(std::move(parser)),
        thought_(tools ? form : nullptr, tools),
        tools_(tools),
        calls_only_(calls_only),
        constrained_(constrained),
        ids_(ids) {}

  ChatDelta feed(std::string_view piece) override {
    std::string reasoning, content;
    splitter_.push(piece, reasoning, content);
    reasoning = thought_.push(reasoning, !splitter_.inside());
    if (ids_ == text::CallIdForm::kShort) written_ += content;
    parser_->push(content, out_);
    return delta(std::move(reasoning));
  }
  ChatDelta finish(bool cut) override {
    std::string reasoning, content;
    const bool inside = splitter_.inside();
    splitter_.finish(reasoning, content);
    reasoning = thought_.push(reasoning, false);
    parser_->push(content, out_);
    parser_->finish(out_, cut);
    if (cut && calls_only_) out_.content.clear();
    if (inside && !cut && out_.calls.empty()) end_inside();
    reasoning += thought_.take();
    ChatDelta last = delta(std::move(reasoning));
    check(cut);
    return last;
  }
  bool thinking() const override { return splitter_.inside() || parser_->thinking(); }
  text::Warnings warnings() const override { return warnings_; }

 private:
  // The model ended the answer within its reasoning. A call there that is the last it wrote is what it meant to do.
  void end_inside() {
    out_.calls = thought_.calls();
    if (!out_.calls.empty()) {
      warnings_.emplace_back("the call stood in reasoning that the model did not end");
    } else if (said_.empty()) {
      warnings_.emplace_back("the answer is reasoning alone: the model did not end it");
    }
  }

  // What is not as it should be. The last call of an answer that is cut is as far as it came.
  void check(bool cut) {
    if (!tools_) return;
    for (std::size_t i = 0; i + (cut ? 1 : 0) < out_.calls.size(); ++i)
      for (std::string& fault : text::call_faults(out_.calls[i], *tools_)) warnings_.push_back(std::move(fault));
    if (!out_.calls.empty() || cut || constrained_) return;
    if (const std::string name = text::unread_call(said_, *tools_); !name.empty())
      warnings_.push_back(fmt::format(
          "the answer seems to call '{}' in a form that is not known for this chat template, so it is content", name));
  }

  // What is new: of calls only the last one grows.
  ChatDelta delta(std::string reasoning) {
    ChatDelta d;
    d.reasoning = std::move(reasoning) + std::exchange(out_.reasoning, {});
    d.content = std::exchange(out_.content, {});
    if (said_.size() < kMostLookedAt) said_ += d.content;
    const auto add = [&](std::size_t i, std::size_t from) {
      const text::ToolCall& call = out_.calls[i];
      ToolCallDelta part{.index = static_cast<int>(i), .arguments = call.arguments.substr(from)};
      if (i >= told_) {
        part.id = written_id();
        if (part.id.empty()) part.id = call_id(ids_);
        part.name = call.name;
      }
      if (i >= told_ || !part.arguments.empty()) d.calls.push_back(std::move(part));
    };
    if (told_ > 0) add(told_ - 1, told_bytes_);
    const std::size_t before = told_;
    for (std::size_t i = before; i < out_.calls.size(); ++i) add(i, 0);
    told_ = out_.calls.size();
    if (told_ > 0) told_bytes_ = out_.calls.back().arguments.size();
    return d;
  }

  // The id that a model of Mistral's writes in front of the arguments: [CALL_ID]abcdefghi
  std::string written_id() {
    constexpr std::string_view kMark = "[CALL_ID]";
    const std::size_t at = written_.find(kMark);
    if (at == written_.npos) return {};
    std::string id = written_.substr(at + kMark.size(), text::kShortId);
    written_.erase(0, at + kMark.size());
    const bool fits = id.size() == text::kShortId &&
                      std::all_of(id.begin(), id.end(), [](unsigned char c) { return std::isalnum(c) != 0; });
    return fits ? id : std::string();
  }

  text::ReasoningSplitter splitter_;
  std::unique_ptr<text::ToolParser> parser_;
  text::CallInThought thought_;
  text::ToolOutput out_;
  const Json* const tools_;  // null: none may be called
  text::Warnings warnings_;
  std::string said_;  // content, as far as it is looked at
  const bool calls_only_, constrained_;
  const text::CallIdForm ids_;
  std::string written_;         // of models that write ids: the text behind the last one
  std::size_t told_ = 0;        // calls that the client knows
  std::size_t told_bytes_ = 0;  // of the last one's arguments
};

}  // namespace

const text::ChatTemplate& TemplateChat::of(const ChatInput& input) const {
  if (!input.template_name.empty() && input.template_name != "default") {
    if (const auto at = named_.find(input.template_name); at != named_.end()) return at->second;
    std::string known = "'default'";
    for (const auto& [name, chat] : named_) known += ", '" + name + "'";
    throw Error(Code::kBadInput, "'" + input.template_name + "', expected a template of this model: " + known,
                "chat_template");
  }
  const auto with_tools = named_.find(std::string_view("tool_use"));
  return input.template_name.empty() && input.has_tools() && with_tools != named_.end() ? with_tools->second
                                                                                        : template_;
}

std::string TemplateChat::render(const ChatInput& input) const { return of(input).render(input); }

text::Prompt TemplateChat::prompt(const ChatInput& input, const text::Tokenizer& tokenizer) const {
  return of(input).prompt(input, tokenizer.control_names());
}

std::optional<text::Place> TemplateChat::place(const ChatInput& input, std::size_t at) const {
  return of(input).place_at(input, at);
}

// Without tools that may be called nothing that the model writes is a call.
std::unique_ptr<AnswerParser> TemplateChat::parser(const ChatInput& input, const AnswerStart& start) const {
  const text::ChatTemplate& chat = of(input);
  const Json* tools = input.calls() ? &input.may_call() : nullptr;
  const Entry<text::ToolForm>* form = tools || chat.tool_form()->value->always ? chat.tool_form() : nullptr;
  std::optional<text::ReasoningMarks> marks;
  std::unique_ptr<text::ToolParser> parser;
  if (start.constrained || !chat.response()) {  // in a text of a grammar a call is one in its form alone
    if (chat.reasoning() && !start.constrained) marks = *chat.reasoning();
    parser = text::make_tool_parser(form, tools, !start.constrained);
  } else {
    parser = chat.response()->parser(start.prompt, tools);
  }
  const bool inside = marks && text::ends_in_reasoning(*marks, start.prompt);
  return std::make_unique<Parser>(form, tools, input.must_call.has_value(), start.constrained, std::move(parser),
                                  text::ReasoningSplitter(std::move(marks), inside), chat.traits().ids);
}

std::shared_ptr<const text::Grammar> TemplateChat::calls(
    const ChatInput& input, const std::function<text::Grammar::Node(text::Grammar&)>& otherwise,
    text::Warnings& warnings) const {
  return text::grammar_of_calls(of(input).tool_form(), input.may_call(),
                                {.name = input.must_call.value_or(""), .many = !input.one_call, .otherwise = otherwise},
                                &warnings);
}

std::shared_ptr<const text::Grammar> TemplateChat::other_calls_forbidden(const ChatInput& input,
                                                                         text::Warnings& warnings) const {
  if (of(input).response()) return nullptr;  // it does not tell how calls begin
  return text::grammar_of_text(of(input).tool_form(), input.may_call(), !input.one_call, &warnings);
}

std::vector<std::string> TemplateChat::marks(const ChatInput& input) const {
  std::vector<std::string> all;
  const text::ToolForm& form = *of(input).tool_form()->value;
  if (input.has_tools() || form.always) all.assign(form.marks.begin(), form.marks.end());
  if (const text::ReasoningMarks* marks = of(input).reasoning()) {
    all.emplace_back(marks->open);
    all.emplace_back(marks->close);
  }
  if (const text::ResponseTemplate* response = of(input).response())
    all.insert(all.end(), response->marks().begin(), response->marks().end());
  return all;
}

// Asks the template: what it writes between what was thought and what was said.
ChatFormat::ThinkingEnd TemplateChat::thinking_end(const ChatInput& input) const {
  const text::ReasoningMarks* marks = of(input).reasoning();
  if (!marks) return {};
  constexpr std::string_view kThought = "KVASIRTHOUGHT", kSaid = "KVASIRSAID";
  ChatInput example;
  example.extra = input.extra;
  example.add_generation_prompt = false;
  example.messages = Json::array({{{"role", "user"}, {"content", "?"}},
                                  {{"role", "assistant"}, {"reasoning_content", kThought}, {"content", kSaid}}});
  ThinkingEnd end{*marks, "\n" + marks->close + (marks->anywhere ? "" : "\n\n")};
  try {
    const std::string text = of(input).render(example);
    const std::size_t thought = text.find(kThought);
    const std::size_t from = thought == text.npos ? text.npos : thought + kThought.size();
    const std::size_t said = from == text.npos ? text.npos : text.find(kSaid, from);
    if (said == text.npos) return end;
    const std::string between = text.substr(from, said - from);
    if (between.find(marks->close) != between.npos) end.text = between;
  } catch (const Error&) {  // a template that refuses the example
  }
  return end;
}

text::Warnings TemplateChat::warnings(const ChatInput& input) const { return of(input).warnings(input); }

namespace {

class RefusingChat final : public ChatFormat {
 public:
  explicit RefusingChat(std::string why) : why_(std::move(why)) {}
  std::string render(const ChatInput&) const override {
    throw ApiException({.status = 501, .message = why_, .code = "unsupported"});
  }
  std::unique_ptr<AnswerParser> parser(const ChatInput& input, const AnswerStart&) const override {
    render(input);
    return nullptr;
  }

 private:
  const std::string why_;
};

}  // namespace

std::unique_ptr<ChatFormat> make_refusing_chat(std::string why) {
  return std::make_unique<RefusingChat>(std::move(why));
}

}  // namespace kvasir::serve
