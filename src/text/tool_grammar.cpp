#include "text/tool_grammar.hpp"

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "text/json_schema.hpp"

namespace kvasir::text {
namespace {

using Json = nlohmann::ordered_json;

Grammar::Node arguments_of(Grammar& g, const Json& function, const std::string& field) {
  const auto parameters = function.find("parameters");
  if (parameters == function.end() || parameters->is_null()) return g.text("{}");
  const auto strict = function.find("strict");
  const bool enforced = strict != function.end() && *strict == Json(true);
  try {
    return SchemaGrammar(g, enforced ? Unknown::kRefuse : Unknown::kIgnore).schema(*parameters);
  } catch (const Error& e) {
    throw Error(e.code(), e.what(), field + ".function.parameters");
  }
}

}  // namespace

std::shared_ptr<const Grammar> grammar_of_calls(const Entry<ToolForm>* form, const Json& tools, const std::string& name,
                                                bool many) {
  if (!form || form->value->writing.arguments.empty())
    throw Error(Code::kUnsupported, "calls cannot be forced with this chat template", "tool_choice");
  const ToolWriting& w = form->value->writing;
  auto grammar = std::make_shared<Grammar>();
  Grammar& g = *grammar;
  std::vector<Grammar::Node> calls;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const Json& function = tools[i].at("function");
    const Json& called = function.at("name");
    if (!name.empty() && called != name) continue;
    const std::string field = "tools[" + std::to_string(i) + "]";
    calls.push_back(g.sequence(
        {g.text(std::string(w.open) + "{\"name\": " + called.dump() + ", \"" + std::string(w.arguments) + "\": "),
         arguments_of(g, function, field), g.text("}" + std::string(w.close))}));
  }
  if (calls.empty()) throw Error(Code::kBadInput, "no tool is called '" + name + "'", "tool_choice.function.name");
  const Grammar::Node one = g.choice(std::move(calls));
  const Grammar::Node more = g.repeat(g.sequence({g.text(std::string(w.separator)), one}), 0);
  g.finish(many ? g.sequence({one, more}) : one);
  return grammar;
}

}  // namespace kvasir::text
