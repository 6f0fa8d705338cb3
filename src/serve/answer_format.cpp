#include "serve/answer_format.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.hpp"
#include "text/schema/pattern.hpp"

namespace kvasir::serve {
namespace {

using Add = std::function<text::Grammar::Node(text::Grammar&)>;

// Some models' first token of an answer in JSON is a word with its space.
Add behind_space(Add add) {
  return [add = std::move(add)](text::Grammar& g) { return g.sequence({g.optional(g.text(" ")), add(g)}); };
}

Add any_object() {
  return behind_space([](text::Grammar& g) { return text::add_objects(g); });
}

Add of_schema(Json schema, bool strict, const std::string& field, text::Warnings& warnings) {
  const auto shared = std::make_shared<const Json>(std::move(schema));
  const auto unknown = strict ? text::Unknown::kRefuse : text::Unknown::kIgnore;
  try {
    text::Warnings own;
    text::Grammar tried;
    tried.finish(text::add_schema(tried, *shared, unknown, &own));
    for (const std::string& text : own) warnings.push_back(field + ": " + text);
  } catch (const Error& e) {
    bad_field(field, e.what(), "invalid_json_schema");
  }
  return behind_space([shared, unknown](text::Grammar& g) { return text::add_schema(g, *shared, unknown, nullptr); });
}

// A schema as an object, or its text.
Add of_guided_json(const Json& value, const std::string& field, text::Warnings& warnings) {
  if (!value.is_string()) return of_schema(value, false, field, warnings);
  Json parsed = Json::parse(value.get_ref<const std::string&>(), nullptr, false);
  if (parsed.is_discarded()) bad_field(field, "expected a JSON Schema or its text", "invalid_json_schema");
  return of_schema(std::move(parsed), false, field, warnings);
}

Add of_choice(const Json& value, const std::string& field) {
  if (!value.is_array() || value.empty())
    bad_field(field, "expected an array of strings, found " + shown(value), "invalid_type");
  std::vector<std::string> texts;
  for (const Json& v : value) {
    if (!v.is_string() || v.get_ref<const std::string&>().empty())
      bad_field(field, "expected strings that are not empty, found " + shown(v), "invalid_type");
    texts.push_back(v.get<std::string>());
  }
  return [texts](text::Grammar& g) {
    std::vector<text::Grammar::Node> nodes;
    for (const std::string& t : texts) nodes.push_back(g.text(t));
    return g.choice(std::move(nodes));
  };
}

// The whole text matches, as vLLM has it.
Add of_regex(const Json& value, const std::string& field) {
  if (!value.is_string()) bad_field(field, "expected a string, found " + shown(value), "invalid_type");
  try {
    const auto strings =
        std::make_shared<const text::Automaton>(text::automaton_of_whole_pattern(value.get_ref<const std::string&>()));
    if (strings->empty()) bad_field(field, "matches no text", "invalid_value");
    return [strings](text::Grammar& g) { return text::JsonGrammar(g).number(*strings); };
  } catch (const Error& e) {
    bad_field(field, e.message(), "invalid_value");
  }
}

Add of_response_format(const Json& value, text::Warnings& warnings) {
  const Fields format(value, "response_format.");
  const std::string* type = format.string("type");
  if (!type) bad_field("response_format.type", "is missing", "missing_required_parameter");
  if (*type == "text") return nullptr;
  if (*type == "json_object") {
    const Json* schema = format.find("schema");
    return schema ? of_schema(*schema, false, format.path("schema"), warnings) : any_object();
  }
  if (*type != "json_schema")
    bad_field("response_format.type", fmt::format("'{}', expected 'text', 'json_object' or 'json_schema'", *type),
              "invalid_value");
  const Json* named = format.object("json_schema");
  if (!named) bad_field("response_format.json_schema", "is missing", "missing_required_parameter");
  const Fields schema(*named, "response_format.json_schema.");
  const bool strict = schema.boolean("strict").value_or(false);
  const Json* content = schema.find("schema");
  if (!content) bad_field(schema.path("schema"), "is missing", "missing_required_parameter");
  return of_schema(*content, strict, schema.path("schema"), warnings);
}

Add of_structured_outputs(const Json& value, text::Warnings& warnings) {
  const Fields outputs(value, "structured_outputs.");
  if (const Json* json = outputs.find("json")) return of_guided_json(*json, outputs.path("json"), warnings);
  if (const Json* choice = outputs.find("choice")) return of_choice(*choice, outputs.path("choice"));
  if (const Json* regex = outputs.find("regex")) return of_regex(*regex, outputs.path("regex"));
  if (outputs.boolean("json_object").value_or(false)) return any_object();
  for (const char* name : {"grammar", "structural_tag"})
    if (outputs.find(name)) unsupported(outputs.path(name), "is not supported, expected 'json', 'choice' or 'regex'");
  return nullptr;
}

}  // namespace

AnswerFormat read_answer_format(const Fields& fields, text::Warnings& warnings) {
  std::string asked;  // the field that said something
  AnswerFormat out;
  const auto take = [&](const char* name, Add add) {
    if (!add) return;
    if (!asked.empty()) bad_field(name, "stands beside '" + asked + "', expected one of them", "invalid_value");
    asked = name;
    out.add = std::move(add);
  };
  if (const Json* v = fields.object("response_format")) take("response_format", of_response_format(*v, warnings));
  for (const char* name : {"json_schema", "guided_json"})
    if (const Json* v = fields.find(name); v && *v != Json("")) take(name, of_guided_json(*v, name, warnings));
  if (const Json* v = fields.find("guided_choice")) take("guided_choice", of_choice(*v, "guided_choice"));
  if (const Json* v = fields.find("guided_regex")) take("guided_regex", of_regex(*v, "guided_regex"));
  if (const Json* v = fields.object("structured_outputs"))
    take("structured_outputs", of_structured_outputs(*v, warnings));
  for (const char* name : {"grammar", "guided_grammar", "structural_tag"})
    if (const Json* v = fields.find(name); v && *v != Json(""))
      unsupported(name, "is not supported, expected a JSON Schema in 'response_format'");
  if (out.add) {
    auto grammar = std::make_shared<text::Grammar>();
    grammar->finish(out.add(*grammar));
    out.grammar = std::move(grammar);
  }
  return out;
}

}  // namespace kvasir::serve
