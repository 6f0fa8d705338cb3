#include "text/tool_json.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "text/jinja/json.hpp"

namespace kvasir::text {
namespace {

constexpr std::string_view kToolJsonSpace = " \t\r\n\f\v";

bool is_name_key(std::string_view key) { return key == "name" || key == "tool_name" || key == "function"; }
bool is_arguments_key(std::string_view key) { return key == "arguments" || key == "parameters" || key == "args"; }

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

void append_escaped(std::string& out, char c) {
  constexpr std::string_view kEscaped = "\b\f\n\r\t", kLetters = "bfnrt";
  constexpr char kHex[] = "0123456789abcdef";
  const auto byte = static_cast<unsigned char>(c);
  if (const auto at = kEscaped.find(c); at != kEscaped.npos) {
    out += '\\';
    out += kLetters[at];
  } else if (byte < 0x20) {
    out += "\\u00";
    out += kHex[byte >> 4];
    out += kHex[byte & 15];
  } else {
    out += c;
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

void JsonCleaner::append(std::string_view text, std::string& out) {
  for (const char c : text) {
    if (!in_string_) {
      in_string_ = c == '"';
      out += c;
      continue;
    }
    append_escaped(out, c);
    if (escaped_) {
      escaped_ = false;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      in_string_ = false;
    }
  }
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
  const auto first = [&](std::initializer_list<const char*> keys) {
    for (const char* key : keys)
      if (const auto at = call->find(key); at != call->end()) return at;
    return call->end();
  };
  const auto name = first({"name", "tool_name", "function"});
  if (name == call->end() || !name->is_string() || name->get_ref<const std::string&>().empty()) return {};
  const auto arguments = first({"arguments", "parameters", "args"});
  if (arguments == call->end() || arguments->is_null()) {
    if (require_arguments) return {};
    return ToolCall{name->get<std::string>(), "{}"};
  }
  auto text = arguments_text(*arguments);
  if (!text) return {};
  return ToolCall{name->get<std::string>(), std::move(*text)};
}

ObjectCallReader::Result ObjectCallReader::read(std::string_view text, ToolOutput& out) {
  if (!begun() && !hopeless_) {
    const Head head = read_head(text, key_is_name_);
    hopeless_ = head.state == Head::State::kNone;
    if (head.state == Head::State::kFound) {
      arguments_ = head.arguments;
      out.calls.push_back({head.name, {}});
    }
  }
  size_ = whole_.scan(text);
  if (!begun()) {
    if (size_ == 0) return Result::kMore;
    auto call = parse_call(text.substr(0, size_), require_arguments_, key_is_name_);
    if (!call) return Result::kBad;
    out.calls.push_back(std::move(*call));
    return Result::kDone;
  }
  if (inner_size_ == 0) {
    const std::string_view arguments = text.substr(arguments_);
    inner_size_ = inner_.scan(arguments);
    const std::size_t end = inner_size_ > 0 ? inner_size_ : arguments.size();
    cleaner_.append(arguments.substr(given_, end - given_), out.calls.back().arguments);
    given_ = end;
  }
  return size_ > 0 ? Result::kDone : Result::kMore;
}

void ContentWriter::write(std::string_view text, ToolOutput& out) {
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

void ContentWriter::finish(ToolOutput& out) {
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

ArgumentsWriter::ArgumentsWriter(const Json* tools, std::string_view tool) {
  if (!tools || !tools->is_array()) return;
  for (const Json& t : *tools) {
    if (!t.is_object() || !t.contains("function") || !t["function"].is_object()) continue;
    const Json& f = t["function"];
    if (f.value("name", "") != tool || !f.contains("parameters") || !f["parameters"].is_object()) continue;
    const auto at = f["parameters"].find("properties");
    if (at != f["parameters"].end() && at->is_object()) properties_ = &*at;
  }
}

bool ArgumentsWriter::is_text(std::string_view name) const {
  if (!properties_) return false;
  const auto at = properties_->find(std::string(name));
  if (at == properties_->end() || !at->is_object()) return false;
  if (const auto type = at->find("type"); type != at->end()) return *type == Json("string");
  const auto values = at->find("enum");
  return values != at->end() && values->is_array() && !values->empty() &&
         std::all_of(values->begin(), values->end(), [](const Json& v) { return v.is_string(); });
}

void ArgumentsWriter::begin(std::string_view name, std::string& out) {
  out += (first_ ? "{" : ", ") + Json(name).dump(-1, ' ', false, Json::error_handler_t::replace) + ": ";
  first_ = false;
}

void ArgumentsWriter::text(std::string_view part, std::string& out) {
  if (!in_text_) out += '"';
  in_text_ = true;
  for (const char c : part) append_in_string(out, c);
}

void ArgumentsWriter::value(std::string_view whole, std::string& out) {
  const std::size_t begin = count_space(whole);
  const auto json = Json::parse(whole, nullptr, false);
  if (json.is_discarded() || begin == whole.size()) return text(whole, out);
  out += json.dump();
}

void ArgumentsWriter::end(std::string& out) {
  if (in_text_) out += '"';
  in_text_ = false;
}

void ArgumentsWriter::finish(std::string& out) { out += first_ ? "{}" : "}"; }

void append_in_string(std::string& out, char c) {
  if (c == '"' || c == '\\') out += '\\';
  append_escaped(out, c);
}

Grammar::Node plain_arguments(const CallParts& parts, const PlainArguments& form) {
  Grammar& g = parts.grammar;
  if (!parts.parameters) return g.text("");
  std::vector<Grammar::Node> all;
  for (const SchemaProperty& p : parts.parameters->properties(form.end)) {
    const Grammar::Node one = g.sequence({g.text(std::string(form.before) + p.name + std::string(form.behind)),
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
