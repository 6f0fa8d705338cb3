#include "text/tool_form.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/check.hpp"
#include "text/tool_json.hpp"

namespace kvasir::text {
namespace {

class PlainParser : public ToolParser {
 public:
  void push(std::string_view text, ToolOutput& out) override { out.content += text; }
  void finish(ToolOutput&, bool) override {}
};

std::string write_call(const ToolForm& form, const std::string& name, const Json& arguments) {
  if (form.write) return form.write(name, arguments);
  return R"({"name": )" + Json(name).dump() + R"(, "arguments": )" + arguments.dump() + "}";
}

}  // namespace

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

const Entry<ToolForm>* generic_tool_form() {
  for (const auto& form : tool_forms())
    if (form.name == "generic") return &form;
  KVASIR_CHECK(false);
  return nullptr;
}

std::unique_ptr<ToolParser> make_tool_parser(const Entry<ToolForm>* form, const Json* tools, bool anyhow) {
  if (!form) return std::make_unique<PlainParser>();
  auto parser = form->value->make(tools);
  if (!anyhow || !tools || !tools->is_array() || tools->empty()) return parser;
  std::vector<std::string_view> own(form->value->marks.begin(), form->value->marks.end());
  if (form->value->bare) own.emplace_back("{");
  return make_bare_parser(std::move(parser), std::move(own), *tools);
}

std::string write_tool_calls(const Entry<ToolForm>& form, std::span<const ToolCall> calls) {
  const ToolForm& f = *form.value;
  std::string text(f.begin);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Json arguments = Json::parse(calls[i].arguments, nullptr, false);
    text += (i > 0 ? std::string(f.separator) : "") +
            write_call(f, calls[i].name, arguments.is_object() ? arguments : Json::object());
  }
  return text + std::string(f.end);
}

std::string tool_instructions(const Entry<ToolForm>& form, const Json& tools) {
  std::string text = "You can call these functions:\n";
  for (const Json& tool : tools) text += (tool.contains("function") ? tool["function"] : tool).dump() + "\n";
  const ToolCall example{"NAME", R"({"PARAMETER": "VALUE"})"};
  text += "To call one, answer with nothing but this, with its name and parameters:\n";
  text += write_tool_calls(form, {&example, 1});
  return text;
}

}  // namespace kvasir::text
