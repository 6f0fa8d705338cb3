#include "text/tool_grammar.hpp"

#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.hpp"

namespace kvasir::text {
namespace {

constexpr int kNumbered = 4;  // calls of one answer that have numbers of their own in forms that write them

// One call of `tool`, the answer's call number `index`.
Grammar::Node call_of(Grammar& g, const ToolForm& form, const Json& tool, const std::string& field, int index,
                      Warnings* warnings, Work& work) {
  const Json& function = tool.at("function");
  const auto name = function.at("name").get<std::string>();
  const auto parameters = function.find("parameters");
  const auto strict = function.find("strict");
  const bool enforced = strict != function.end() && *strict == Json(true);
  std::optional<SchemaGrammar> schema;
  Warnings own;
  try {
    if (parameters != function.end() && !parameters->is_null())
      schema.emplace(g, enforced ? Unknown::kRefuse : Unknown::kIgnore, *parameters, &own, &work);
    const Grammar::Node node = form.call({g, name, schema ? &*schema : nullptr, std::to_string(index)});
    if (warnings && index == 0)
      for (const std::string& text : own) warnings->push_back(field + ".function.parameters: " + text);
    return node;
  } catch (const Error& e) {
    throw Error(e.code(), e.what(), field + ".function.parameters");
  }
}

}  // namespace

std::shared_ptr<const Grammar> grammar_of_calls(const Entry<ToolForm>* form, const Json& tools, const CallRules& rules,
                                                Warnings* warnings) {
  if (!form || !form->value->call)
    throw Error(Code::kUnsupported, "calls cannot be forced with this chat template", "tool_choice");
  const ToolForm& f = *form->value;
  auto grammar = std::make_shared<Grammar>();
  Grammar& g = *grammar;
  Work work;  // of all tools
  const auto any = [&](int index) {
    std::vector<Grammar::Node> calls;
    for (std::size_t i = 0; i < tools.size(); ++i) {
      if (!rules.name.empty() && tools[i].at("function").at("name") != rules.name) continue;
      calls.push_back(call_of(g, f, tools[i], "tools[" + std::to_string(i) + "]", index, warnings, work));
    }
    if (calls.empty())
      throw Error(Code::kBadInput, "no tool is called '" + rules.name + "'", "tool_choice.function.name");
    return g.choice(std::move(calls));
  };
  std::vector<Grammar::Node> parts = {g.text(std::string(f.begin)), any(0)};
  if (rules.many) {
    // Forms that number calls have a grammar for each of the first ones; in the others all are the same.
    Grammar::Node rest = g.text("");
    if (f.numbered) {
      for (int i = kNumbered - 1; i > 0; --i)
        rest = g.optional(g.sequence({g.text(std::string(f.separator)), any(i), rest}));
    } else {
      rest = g.repeat(g.sequence({g.text(std::string(f.separator)), parts[1]}), 0);
    }
    parts.push_back(rest);
  }
  parts.push_back(g.text(std::string(f.end)));
  const Grammar::Node calls = g.sequence(std::move(parts));
  g.finish(rules.otherwise ? g.choice({calls, rules.otherwise(g)}) : calls);
  return grammar;
}

}  // namespace kvasir::text
