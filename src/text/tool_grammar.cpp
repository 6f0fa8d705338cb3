#include "text/tool_grammar.hpp"

#include <algorithm>
#include <bitset>
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

// One call or more of `tools`, with what the form writes around them.
Grammar::Node calls_of(Grammar& g, const ToolForm& f, const Json& tools, const CallRules& rules, Warnings* warnings) {
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
  return g.sequence(std::move(parts));
}

// Any text without one of `opens`: an automaton (Aho and Corasick, 1975) whose states are what of them stands at the
// text's end. At any place `calls` may follow, and behind that `after`; -1: nothing is called.
Grammar::Node text_without(Grammar& g, std::span<const std::string_view> opens, Grammar::Node calls,
                           Grammar::Node after) {
  std::vector<std::string> states;  // beginnings of opens, the empty one first
  for (const std::string_view open : opens)
    for (std::size_t n = 0; n < open.size(); ++n)
      if (std::find(states.begin(), states.end(), open.substr(0, n)) == states.end())
        states.emplace_back(open.substr(0, n));
  std::vector<Grammar::Node> nodes;
  for (std::size_t i = 0; i < states.size(); ++i) nodes.push_back(g.declare());
  for (std::size_t i = 0; i < states.size(); ++i) {
    std::vector<std::bitset<256>> to(states.size());
    for (int byte = 0; byte < 256; ++byte) {
      std::string end = states[i] + static_cast<char>(byte);
      const auto opened = [&] {
        return std::any_of(opens.begin(), opens.end(), [&](std::string_view o) { return end.ends_with(o); });
      };
      if (opened()) continue;
      auto at = states.end();
      while ((at = std::find(states.begin(), states.end(), end)) == states.end()) end.erase(0, 1);
      to[static_cast<std::size_t>(at - states.begin())].set(static_cast<std::size_t>(byte));
    }
    std::vector<Grammar::Node> next = {g.text("")};
    for (std::size_t t = 0; t < states.size(); ++t)
      if (to[t].any()) next.push_back(g.sequence({g.byte(to[t]), nodes[t]}));
    if (calls >= 0) next.push_back(g.sequence({calls, after < 0 ? nodes[0] : after}));
    g.define(nodes[i], g.choice(std::move(next)));
  }
  return nodes[0];
}

}  // namespace

std::shared_ptr<const Grammar> grammar_of_calls(const Entry<ToolForm>* form, const Json& tools, const CallRules& rules,
                                                Warnings* warnings) {
  if (!form || !form->value->call)
    throw Error(Code::kUnsupported, "calls cannot be forced with this chat template", "tool_choice");
  auto grammar = std::make_shared<Grammar>();
  Grammar& g = *grammar;
  const Grammar::Node calls = calls_of(g, *form->value, tools, rules, warnings);
  g.finish(rules.otherwise ? g.choice({calls, rules.otherwise(g)}) : calls);
  return grammar;
}

std::shared_ptr<const Grammar> grammar_of_text(const Entry<ToolForm>* form, const Json& tools, bool many,
                                               Warnings* warnings) {
  const ToolForm& f = *form->value;
  const std::span<const std::string_view> opens =
      f.opens.empty() ? f.marks.first(std::min<std::size_t>(1, f.marks.size())) : f.opens;
  if (opens.empty() || (!tools.empty() && !f.call)) return nullptr;
  auto grammar = std::make_shared<Grammar>();
  Grammar& g = *grammar;
  const Grammar::Node calls = tools.empty() ? -1 : calls_of(g, f, tools, {.many = many}, warnings);
  g.finish(text_without(g, opens, calls, tools.empty() || many ? -1 : text_without(g, opens, -1, -1)));
  return grammar;
}

}  // namespace kvasir::text
