#include "text/tool_form.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "text/jinja/json.hpp"
#include "text/tool_json.hpp"

namespace kvasir::text {
namespace {

constexpr std::string_view kSpace = " \t\n\r\f\v";

class PlainParser : public ToolParser {
 public:
  void push(std::string_view text, ToolOutput& out) override { out.content += text; }
  void finish(ToolOutput&) override {}
};

// The object as text, in the style of chat templates. Nothing for what is no object or nested too deep.
std::optional<std::string> arguments_text(const Json& json) {
  if (json.is_string()) {
    const auto inner = Json::parse(json.get_ref<const std::string&>(), nullptr, false);
    return inner.is_object() ? arguments_text(inner) : std::nullopt;
  }
  if (!json.is_object()) return {};
  try {
    jinja::Meter meter{jinja::Limits{}};
    std::string text;
    jinja::append_json(text, jinja::from_json(json, meter, "arguments"), {}, meter);
    return text;
  } catch (const Error&) {
    return {};
  }
}

}  // namespace

std::size_t ObjectScanner::scan(std::string_view text) {
  for (; at_ < text.size(); ++at_) {
    const char c = text[at_];
    if (in_string_) {
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        in_string_ = false;
      }
    } else if (c == '"') {
      in_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if ((c == '}' || c == ']') && --depth_ == 0) {
      return ++at_;
    }
  }
  return 0;
}

std::optional<ToolCall> parse_call(std::string_view object, bool require_arguments) {
  const auto json = Json::parse(object, nullptr, false);
  if (!json.is_object()) return {};
  const Json* call = &json;
  const auto function = json.find("function");
  if (function != json.end() && function->is_object()) call = &*function;
  auto name = call->find("name");
  if (name == call->end()) name = call->find("function");
  if (name == call->end() || !name->is_string() || name->get_ref<const std::string&>().empty()) return {};
  auto arguments = call->find("arguments");
  if (arguments == call->end()) arguments = call->find("parameters");
  if (arguments == call->end() || arguments->is_null()) {
    if (require_arguments) return {};
    return ToolCall{name->get<std::string>(), "{}"};
  }
  auto text = arguments_text(*arguments);
  if (!text) return {};
  return ToolCall{name->get<std::string>(), std::move(*text)};
}

void ContentWriter::write(std::string_view text, ToolOutput& out) {
  if (after_call_) text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  if (text.empty()) return;
  const auto last = text.find_last_not_of(kSpace);
  if (last == text.npos) {
    space_ += text;
    return;
  }
  after_call_ = false;
  out.content += space_;
  out.content += text.substr(0, last + 1);
  space_ = text.substr(last + 1);
}

void ContentWriter::call(ToolCall call, ToolOutput& out) {
  after_call_ = true;
  out.calls.push_back(std::move(call));
}

void ContentWriter::finish(ToolOutput& out) {
  if (!after_call_) out.content += space_;
}

std::size_t partial_tag(std::string_view text, std::string_view tag) {
  for (std::size_t n = std::min(text.size(), tag.size() - 1); n > 0; --n)
    if (text.ends_with(tag.substr(0, n))) return n;
  return 0;
}

std::size_t count_space(std::string_view text) { return std::min(text.find_first_not_of(kSpace), text.size()); }

const Entry<ToolForm>* find_tool_form(std::string_view chat_template) {
  const Entry<ToolForm>* best = nullptr;
  int surest = 0;
  for (const auto& form : tool_forms()) {
    const int sure = form.value->match(chat_template);
    if (sure <= surest) continue;
    surest = sure;
    best = &form;
  }
  return best;
}

std::unique_ptr<ToolParser> make_tool_parser(const Entry<ToolForm>* form) {
  if (form) return form->value->make();
  return std::make_unique<PlainParser>();
}

ToolOutput parse_tool_calls(const Entry<ToolForm>* form, std::string_view text) {
  ToolOutput out;
  const auto parser = make_tool_parser(form);
  parser->push(text, out);
  parser->finish(out);
  return out;
}

}  // namespace kvasir::text
