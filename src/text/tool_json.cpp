#include "text/tool_json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "text/jinja/json.hpp"

namespace kvasir::text {
namespace {

constexpr std::string_view kToolJsonSpace = " \t\r\n\f\v";

// The names that models give to the parts of a call, the usual ones first.
constexpr std::string_view kNameKeys[] = {"name", "tool_name", "function", "function_name", "tool"};
constexpr std::string_view kArgumentsKeys[] = {"arguments", "parameters", "args", "input", "tool_input", "params"};

bool is_name_key(std::string_view key) {
  return std::find(std::begin(kNameKeys), std::end(kNameKeys), key) != std::end(kNameKeys);
}
bool is_arguments_key(std::string_view key) {
  return std::find(std::begin(kArgumentsKeys), std::end(kArgumentsKeys), key) != std::end(kArgumentsKeys);
}

// The object as text. Nothing for what is no object or nested too deep.
std::optional<std::string> arguments_text(const Json& json) {
  if (json.is_string()) {
    const std::string& text = json.get_ref<const std::string&>();
    if (text.find_first_not_of(kToolJsonSpace) == text.npos) return "{}";
    const auto inner = Json::parse(text, nullptr, false);
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

// A string at the front of `text`: its end behind the closing quote, 0 when it is not complete or no string.
std::size_t string_end(std::string_view text) {
  if (!text.starts_with('"')) return 0;
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '\\')
      ++i;
    else if (text[i] == '"')
      return i + 1;
  }
  return 0;
}

// The begin of an object up to its arguments.
struct Head {
  enum class State { kMore, kFound, kNone } state;
  std::string name = {};
  std::size_t arguments = 0;  // where their '{' stands
};

Head read_head(std::string_view text, bool key_is_name) {
  std::string name;
  std::size_t at = 1;
  const Head more{Head::State::kMore}, none{Head::State::kNone};
  for (;;) {
    at += count_space(text.substr(at));
    if (at >= text.size()) return more;
    if (text[at] == ',') {
      ++at;
      continue;
    }
    if (text[at] != '"') return none;
    const std::size_t key_size = string_end(text.substr(at));
    if (key_size == 0) return more;
    const std::string_view key = text.substr(at + 1, key_size - 2);
    at += key_size;
    at += count_space(text.substr(at));
    if (at >= text.size()) return more;
    if (text[at] != ':') return none;
    ++at;
    at += count_space(text.substr(at));
    if (at >= text.size()) return more;
    if (key_is_name) {
      const auto called = Json::parse("\"" + std::string(key) + "\"", nullptr, false);
      if (text[at] != '{' || !called.is_string() || key.empty()) return none;
      return {Head::State::kFound, called.get<std::string>(), at};
    }
    if (text[at] == '{') {
      if (is_arguments_key(key) && !name.empty()) return {Head::State::kFound, name, at};
      if (key != "function" || !name.empty()) return none;
      ++at;  // name and arguments stand within
      continue;
    }
    if (text[at] != '"') return none;
    const std::size_t value_size = string_end(text.substr(at));
    if (value_size == 0) return more;
    if (is_name_key(key)) {
      const auto value = Json::parse(text.substr(at, value_size), nullptr, false);
      if (!value.is_string()) return none;
      name = value.get<std::string>();
    } else if (is_arguments_key(key)) {
      return none;
    }
    at += value_size;
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

std::optional<ToolCall> parse_call(std::string_view object, bool require_arguments, bool key_is_name) {
  const auto json = Json::parse(object, nullptr, false);
  if (!json.is_object()) return {};
  if (key_is_name) {
    if (json.size() != 1 || json.begin().key().empty()) return {};
    auto text = arguments_text(json.front());
    if (!text) return {};
    return ToolCall{json.begin().key(), std::move(*text)};
  }
  const Json* call = &json;
  const auto function = json.find("function");
  if (function != json.end() && function->is_object()) call = &*function;
  const auto first = [&](std::span<const std::string_view> keys) {
    for (const std::string_view key : keys)
      if (const auto at = call->find(std::string(key)); at != call->end()) return at;
    return call->end();
  };
  const auto name = first(kNameKeys);
  if (name == call->end() || !name->is_string() || name->get_ref<const std::string&>().empty()) return {};
  const auto arguments = first(kArgumentsKeys);
  if (arguments == call->end() || arguments->is_null()) {
    if (require_arguments) return {};
    return ToolCall{name->get<std::string>(), "{}"};
  }
  auto text = arguments_text(*arguments);
  if (!text) return {};
  return ToolCall{name->get<std::string>(), std::move(*text)};
}

ObjectCallReader::Result ObjectCallReader::read(std::string_view text, bool end, ToolOutput& out) {
  loose_.convert(text, end, json_);
  if (!begun() && !hopeless_) {
    const Head head = read_head(json_, key_is_name_);
    hopeless_ = head.state == Head::State::kNone;
    if (head.state == Head::State::kFound) {
      arguments_ = head.arguments;
      out.calls.push_back({head.name, {}});
    }
  }
  if (!begun()) {
    if (!loose_.done()) return Result::kMore;
    auto call = parse_call(json_, require_arguments_, key_is_name_);
    if (!call) return Result::kBad;
    out.calls.push_back(std::move(*call));
    return Result::kDone;
  }
  if (inner_size_ == 0) {
    const std::string_view arguments = std::string_view(json_).substr(arguments_);
    inner_size_ = inner_.scan(arguments);
    const std::size_t until = inner_size_ > 0 ? inner_size_ : arguments.size();
    out.calls.back().arguments += arguments.substr(given_, until - given_);
    given_ = until;
  }
  return loose_.done() ? Result::kDone : Result::kMore;
}

void ContentWriter::write(std::string_view text, ToolOutput& out) {
  held_ += text;
  take(false, out);
}

void ContentWriter::mark(std::string_view text, ToolOutput& out) {
  take(true, out);
  if (!mark_.empty()) decide("<", out);
  mark_ = text;
}

// All but what may become a mark.
void ContentWriter::take(bool end, ToolOutput& out) {
  const std::string text = std::exchange(held_, {});
  for (std::size_t at = 0; at < text.size();) {
    if (!mark_.empty()) {
      if (!end && at + 1 == text.size()) return void(held_ = text.substr(at));
      decide(std::string_view(text).substr(at), out);
    }
    std::size_t here = at;
    std::string_view found;
    for (; here < text.size(); ++here) {
      const std::string_view rest = std::string_view(text).substr(here);
      bool may_come = false;
      for (const std::string_view mark : marks_) {
        if (mark[0] != rest[0]) continue;
        if (rest.starts_with(mark) && mark.size() > found.size()) found = mark;
        may_come = may_come || (!end && mark.size() > rest.size() && mark.starts_with(rest));
      }
      if (!found.empty()) break;
      if (may_come) {
        held_ = rest;
        break;
      }
    }
    put(std::string_view(text).substr(at, here - at), out);
    if (found.empty()) return;
    mark_ = found;
    at = here + found.size();
  }
}

// Whether the mark in front of `behind` is one that a sentence speaks of.
void ContentWriter::decide(std::string_view behind, ToolOutput& out) {
  constexpr std::string_view kLeft = "`\"'(*", kRight = "`\"')*";
  const std::string mark = std::exchange(mark_, {});
  const std::size_t quote = kLeft.find(last_);
  const bool quoted = quote != kLeft.npos && behind[0] == kRight[quote];
  const bool point = std::string_view(".,;:!?").find(behind[0]) != std::string_view::npos;
  const bool goes_on = point ? behind.size() == 1 || count_space(behind.substr(1, 1)) > 0 : behind[0] == ' ';
  const bool word = last_ == ' ' && goes_on;
  if (quoted || word) put(mark, out);
}

void ContentWriter::after_call(ToolOutput& out) {
  take(true, out);
  mark_.clear();
  after_call_ = true;
}

void ContentWriter::put(std::string_view text, ToolOutput& out) {
  if (!text.empty()) last_ = text.back();
  if (after_call_) text.remove_prefix(std::min(text.find_first_not_of(kToolJsonSpace), text.size()));
  if (text.empty()) return;
  const auto last = text.find_last_not_of(kToolJsonSpace);
  if (last == text.npos) {
    space_ += text;
    return;
  }
  after_call_ = false;
  out.content += space_;
  out.content += text.substr(0, last + 1);
  space_ = text.substr(last + 1);
}

void ContentWriter::finish(ToolOutput& out, bool cut) {
  if (cut) held_.clear();
  take(true, out);
  mark_.clear();
  if (!after_call_) out.content += space_;
}

std::size_t partial_tag(std::string_view text, std::string_view tag) {
  for (std::size_t n = std::min(text.size(), tag.size() - 1); n > 0; --n)
    if (text.ends_with(tag.substr(0, n))) return n;
  return 0;
}

std::size_t count_space(std::string_view text) { return std::min(text.find_first_not_of(kToolJsonSpace), text.size()); }

bool has(std::string_view chat_template, std::string_view what) {
  return chat_template.find(what) != chat_template.npos;
}

const Json* parameters_of(const Json* tools, std::string_view tool) {
  if (!tools || !tools->is_array()) return nullptr;
  for (const Json& t : *tools) {
    if (!t.is_object() || !t.contains("function") || !t["function"].is_object()) continue;
    const Json& f = t["function"];
    if (f.value("name", Json()) != Json(tool) || !f.contains("parameters") || !f["parameters"].is_object()) continue;
    const auto at = f["parameters"].find("properties");
    if (at != f["parameters"].end() && at->is_object()) return &*at;
  }
  return nullptr;
}

bool is_offered(const Json* tools, std::string_view tool) {
  return tools && tools->is_array() && std::any_of(tools->begin(), tools->end(), [&](const Json& t) {
           return t.is_object() && t.contains("function") && t["function"].is_object() &&
                  t["function"].value("name", Json()) == Json(tool);
         });
}

ArgumentsWriter::ArgumentsWriter(const Json* tools, std::string_view tool) : properties_(parameters_of(tools, tool)) {}

bool ArgumentsWriter::is_text(std::string_view name) const {
  if (!properties_) return false;
  const auto at = properties_->find(std::string(name));
  return at != properties_->end() && is_text_only(&*at);
}

bool ArgumentsWriter::has(std::string_view name) const {
  return std::find(given_.begin(), given_.end(), name) != given_.end();
}

void ArgumentsWriter::begin(std::string_view name, std::string& out) {
  again_ = has(name);
  if (again_) return;
  out += (given_.empty() ? "{" : ", ") + Json(name).dump(-1, ' ', false, Json::error_handler_t::replace) + ": ";
  given_.emplace_back(name);
  const auto at = properties_ ? properties_->find(given_.back()) : Json::const_iterator();
  schema_ = properties_ && at != properties_->end() ? &*at : nullptr;
}

void ArgumentsWriter::text(std::string_view part, std::string& out) {
  if (again_) return;
  if (!in_text_) out += '"';
  in_text_ = true;
  for (const char c : part) append_in_string(out, c);
}

void ArgumentsWriter::value(std::string_view whole, std::string& out) {
  if (!again_) out += typed_value(whole, schema_);
}

void ArgumentsWriter::end(std::string& out) {
  if (in_text_) out += '"';
  in_text_ = false;
}

void ArgumentsWriter::finish(std::string& out) { out += given_.empty() ? "{}" : "}"; }

Grammar::Node plain_arguments(const CallParts& parts, const PlainArguments& form) {
  Grammar& g = parts.grammar;
  if (!parts.parameters) return g.text("");
  std::vector<Grammar::Node> all;
  for (const SchemaProperty& p : parts.parameters->properties(form.end)) {
    const std::string_view behind = p.text || form.behind_json.empty() ? form.behind : form.behind_json;
    const Grammar::Node one = g.sequence({g.text(std::string(form.before) + p.name + std::string(behind)),
                                          p.text ? *p.text : p.json, g.text(std::string(form.end))});
    all.push_back(p.required ? one : g.optional(one));
  }
  return g.sequence(std::move(all));
}

namespace {

std::string head_of(const ObjectCall& call, const std::string& name) {
  return std::string(call.open) + "{\"name\": " + Json(name).dump() + ", \"" + std::string(call.arguments_key) + "\": ";
}

}  // namespace

Grammar::Node ObjectCall::grammar(const CallParts& parts) const {
  Grammar& g = parts.grammar;
  return g.sequence({g.text(head_of(*this, parts.name)), parts.arguments(), g.text("}" + std::string(close))});
}

std::string ObjectCall::write(const std::string& name, const Json& arguments) const {
  return head_of(*this, name) + arguments.dump() + "}" + std::string(close);
}

Grammar::Node listed_arguments(const CallParts& parts, const ListedArguments& form) {
  Grammar& g = parts.grammar;
  if (!parts.parameters) return g.text("");
  const std::string quote(form.quote);
  std::vector<std::pair<Grammar::Node, bool>> all;
  for (const SchemaProperty& p : parts.parameters->properties(quote)) {
    const Grammar::Node value = p.text && !quote.empty() ? g.sequence({g.text(quote), *p.text, g.text(quote)}) : p.json;
    all.emplace_back(g.sequence({g.text(p.name + std::string(form.behind)), value}), p.required);
  }
  // Whether a separator comes first depends on what was left out.
  Grammar::Node first = g.text(""), rest = first;
  for (std::size_t i = all.size(); i-- > 0;) {
    const Grammar::Node here = g.sequence({all[i].first, rest});
    const Grammar::Node behind = g.sequence({g.text(std::string(form.separator)), all[i].first, rest});
    first = all[i].second ? here : g.choice({here, first});
    rest = all[i].second ? behind : g.choice({behind, rest});
  }
  return first;
}

}  // namespace kvasir::text
