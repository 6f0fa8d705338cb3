#include "text/loose_json.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

namespace kvasir::text {
namespace {

constexpr std::string_view kLooseBlanks = " \t\r\n\f\v";

bool is_loose_blank(char c) { return kLooseBlanks.find(c) != kLooseBlanks.npos; }

std::string_view loose_trimmed(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kLooseBlanks), text.size()));
  return text.substr(0, text.find_last_not_of(kLooseBlanks) + 1);
}

std::string json_string(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The JSON of a word that has no quotes: numbers and literals, Python's as well.
std::string word_json(std::string_view word) {
  if (word == "True") return "true";
  if (word == "False") return "false";
  if (word == "None" || word == "undefined") return "null";
  return Json::accept(word) ? std::string(word) : json_string(word);
}

bool all_hex(std::string_view text) { return text.find_first_not_of("0123456789abcdefABCDEF") == text.npos; }

}  // namespace

void append_in_string(std::string& out, char c) {
  constexpr std::string_view kEscaped = "\"\\\b\f\n\r\t", kLetters = "\"\\bfnrt";
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

bool LooseJson::convert(std::string_view text, bool end, std::string& out) {
  const bool ahead = spoken_ == text.npos;  // what is damaged says enough
  while (at_ < text.size() && !done_ && !(ahead && damaged_)) {
    if (stops(text, end)) break;
    const std::string_view rest = text.substr(at_);
    const std::size_t size = in_string_ ? string_step(rest, end, out) : step(rest, out);
    if (size == 0) break;
    at_ += size;
  }
  // A number or the like that is cut stays as far as it came.
  if ((end || stopped_) && !done_ && !word_.empty() && place_ != Place::kKey) {
    const std::string_view word = loose_trimmed(word_);
    if (notation_.exact || Json::accept(word)) {
      begin_value(out);
      out += word;
      word_.clear();
    }
  }
  return done_;
}

// What stands here outside of strings; 0: more must come first.
std::size_t LooseJson::step(std::string_view rest, std::string& out) {
  const std::string_view quote = notation_.quote;
  const char c = rest[0];
  const bool marked = !quote.empty() && rest.starts_with(quote);
  if (!marked && !quote.empty() && quote.starts_with(rest)) return 0;
  if (marked || c == '"' || (c == '\'' && word_.empty())) {
    flush_word(out);
    begin_value(out);
    is_key_ = place_ == Place::kKey;
    in_string_ = true;
    delimiter_ = marked ? quote : c == '"' ? "\"" : "'";
    out += '"';
    return marked ? quote.size() : 1;
  }
  if (is_loose_blank(c)) {
    if (!word_.empty()) {
      word_ += c;
    } else if (notation_.exact) {
      pending_ += c;
    }
    return 1;
  }
  const bool names = c == ':' || (c == '=' && (in_call() || place_ == Place::kColon));
  if (names && !(place_ == Place::kValue && !word_.empty())) {
    if (!word_.empty()) {
      begin_value(out, true);
      const std::string word(loose_trimmed(word_));
      const std::string space = word_.substr(word.size());
      out += json_string(word);
      if (notation_.exact) out += space;
      word_.clear();
      place_ = Place::kColon;
    }
    damaged_ = damaged_ || place_ != Place::kColon;
    out += notation_.exact ? pending_ + ":" : ": ";
    pending_.clear();
    place_ = Place::kValue;
    return 1;
  }
  if (c == ',') {
    flush_word(out);
    if (place_ != Place::kComma) {
      damaged_ = damaged_ || place_ == Place::kColon || (place_ == Place::kValue && stack_.back().object);
      return 1;  // one too many
    }
    pending_ += c;
    place_ = !stack_.empty() && stack_.back().object ? Place::kKey : Place::kValue;
    return 1;
  }
  if (c == '{' || c == '[' || (c == '(' && word_.empty())) {
    open(c, out);
    return 1;
  }
  if (c == '}' || c == ']' || (c == ')' && (word_.empty() || notation_.call))) {
    close(c, out);
    return 1;
  }
  word_ += c;
  return 1;
}

std::size_t LooseJson::string_step(std::string_view rest, bool end, std::string& out) {
  const char c = rest[0];
  const bool marked = delimiter_.size() > 1;
  if (marked && !rest.starts_with(delimiter_)) {
    if (delimiter_.starts_with(rest)) return 0;
    append_in_string(out, c);
    return 1;
  }
  if (c == '\\' && !marked) {
    if (rest.size() < 2) return end ? 1 : 0;
    const char next = rest[1];
    if (next == 'u') {
      if (rest.size() < 6 && !end && all_hex(rest.substr(2))) return 0;
      if (rest.size() >= 6 && all_hex(rest.substr(2, 4))) return out += rest.substr(0, 6), 6;
      if (rest.size() < 6 && all_hex(rest.substr(2))) return rest.size();  // cut
    } else if (next == '\'') {
      return out += '\'', 2;
    } else if (std::string_view("\"\\/bfnrt").find(next) != std::string_view::npos) {
      return out += rest.substr(0, 2), 2;
    }
    return out += "\\\\", 1;
  }
  if (!marked && c != delimiter_[0]) {
    append_in_string(out, c);
    return 1;
  }
  const std::string_view behind = rest.substr(delimiter_.size());
  if (!marked) {  // a quote that nothing follows which may stand behind a string is part of it
    const std::size_t next = std::min(behind.find_first_not_of(kLooseBlanks), behind.size());
    const int mark = mark_at(behind.substr(next), end);
    if ((next == behind.size() && !end) || mark < 0) return 0;
    if (mark == 0 && !closes(behind)) {
      damaged_ = true;
      append_in_string(out, c);
      return 1;
    }
  }
  out += '"';
  in_string_ = false;
  place_ = is_key_ ? Place::kColon : Place::kComma;
  return delimiter_.size();
}

// Nothing is taken: a mark is here, or may come.
bool LooseJson::stops(std::string_view text, bool end) {
  const bool may_hold = in_string_ && !is_key_ && notation_.quote.empty();
  if (may_hold && at_ < spoken_) return false;
  const int mark = mark_at(text.substr(at_), end);
  if (mark > 0 && may_hold && !damaged_) {
    // The string speaks of the mark, or it has lost its end: that shows where the object ends.
    if (!beyond_) beyond_ = std::make_shared<LooseJson>(*this);
    beyond_->spoken_ = text.npos;
    std::string scratch;
    beyond_->convert(text, false, scratch);
    if (!beyond_->damaged_ && !beyond_->done_ && !end) return true;
    if (!beyond_->damaged_ && beyond_->done_) return spoken_ = beyond_->at_, beyond_.reset(), false;
  }
  if (mark > 0) stopped_ = damaged_ = true;
  return mark != 0;
}

// A mark: 1; none: 0; nobody knows yet: -1.
int LooseJson::mark_at(std::string_view rest, bool end) const {
  for (const std::string_view mark : notation_.stops) {
    if (rest.starts_with(mark)) return 1;
    if (!end && mark.starts_with(rest)) return -1;
  }
  return 0;
}

bool LooseJson::closes(std::string_view behind) const {
  const std::size_t next = behind.find_first_not_of(kLooseBlanks);
  if (next == behind.npos) return true;
  if (std::string_view(",:}])").find(behind[next]) != std::string_view::npos) return true;
  if (behind[next] == '=') return notation_.call || is_key_;
  // The next line begins with a key: the comma is missing.
  return (behind[next] == '"' || behind[next] == '\'') && behind.substr(0, next).find('\n') != behind.npos;
}

void LooseJson::begin_value(std::string& out, bool is_word_key) {
  if (place_ == Place::kComma && !stack_.empty()) {  // it was left out
    damaged_ = true;
    out += notation_.exact && !pending_.empty() ? "," : ", ";
    place_ = stack_.back().object ? Place::kKey : Place::kValue;
  } else if (!notation_.exact && !pending_.empty()) {
    pending_ = ", ";
  }
  if (place_ == Place::kColon) damaged_ = true;
  out += pending_;
  pending_.clear();
  if (is_word_key || place_ != Place::kKey || !in_call()) return;
  out +=
      json_string(positional_ < names_.size() ? names_[positional_] : "argument" + std::to_string(positional_)) + ": ";
  ++positional_;
  place_ = Place::kValue;
}

void LooseJson::open(char c, std::string& out) {
  flush_word(out);
  if (!stack_.empty() && place_ == Place::kKey && !in_call()) damaged_ = true;
  begin_value(out);
  const bool object = c == '{' || (c == '(' && stack_.empty() && notation_.call);
  out += object ? '{' : '[';
  stack_.push_back({c == '{' ? '}' : c == '[' ? ']' : ')', object ? '}' : ']', object});
  place_ = object ? Place::kKey : Place::kValue;
}

void LooseJson::close(char c, std::string& out) {
  flush_word(out);
  const auto same = std::find_if(stack_.rbegin(), stack_.rend(), [&](const Level& l) { return l.source == c; });
  damaged_ = damaged_ || same != stack_.rbegin();
  if (same == stack_.rend()) return;  // one too many
  const auto levels = same - stack_.rbegin() + 1;
  for (std::ptrdiff_t i = 0; i < levels; ++i) pop(out);
}

void LooseJson::pop(std::string& out) {
  std::erase(pending_, ',');
  if (stack_.back().object && (place_ == Place::kColon || place_ == Place::kValue)) damaged_ = true;
  if (notation_.exact) out += pending_;
  pending_.clear();
  out += stack_.back().close;
  stack_.pop_back();
  place_ = Place::kComma;
  done_ = stack_.empty();
}

void LooseJson::flush_word(std::string& out) {
  if (word_.empty()) return;
  const std::string word(loose_trimmed(word_));
  const std::string space = word_.substr(word.size());
  word_.clear();
  begin_value(out);
  const bool key = place_ == Place::kKey;
  out += key ? json_string(word) : word_json(word);
  place_ = key ? Place::kColon : Place::kComma;
  if (notation_.exact) pending_ += space;
}

namespace {

// The types that a schema type_allows; nothing: any.
void collect_types(const Json& schema, std::set<std::string>& types, bool& any, int depth = 0) {
  if (!schema.is_object() || depth > 4) return void(any = true);
  if (const auto type = schema.find("type"); type != schema.end()) {
    if (type->is_string()) types.insert(type->get<std::string>());
    if (type->is_array())
      for (const Json& t : *type)
        if (t.is_string()) types.insert(t.get<std::string>());
    if (schema.value("nullable", Json()) == Json(true)) types.insert("null");
    return;
  }
  for (const char* key : {"anyOf", "oneOf"})
    if (const auto all = schema.find(key); all != schema.end() && all->is_array()) {
      for (const Json& one : *all) collect_types(one, types, any, depth + 1);
      return;
    }
  const auto add = [&](const Json& v) {
    types.insert(v.is_string()           ? "string"
                 : v.is_boolean()        ? "boolean"
                 : v.is_null()           ? "null"
                 : v.is_number_integer() ? "integer"
                 : v.is_number()         ? "number"
                 : v.is_array()          ? "array"
                                         : "object");
  };
  if (const auto values = schema.find("enum"); values != schema.end() && values->is_array() && !values->empty()) {
    for (const Json& v : *values) add(v);
  } else if (const auto value = schema.find("const"); value != schema.end()) {
    add(*value);
  } else {
    any = true;
  }
}

std::set<std::string> schema_types(const Json* schema) {
  std::set<std::string> types;
  bool any = schema == nullptr;
  if (schema) collect_types(*schema, types, any);
  if (any) types.clear();
  return types;
}

bool type_allows(const std::set<std::string>& types, const Json& v) {
  const auto is = [&](const char* name) { return types.count(name) > 0; };
  if (types.empty()) return true;
  if (v.is_string()) return is("string");
  if (v.is_boolean()) return is("boolean");
  if (v.is_null()) return is("null");
  if (v.is_number()) return is("number") || (is("integer") && v.is_number_integer());
  return is(v.is_array() ? "array" : "object");
}

std::optional<Json> python_literal(std::string_view text) {
  if (text.starts_with('{') || text.starts_with('[') || text.starts_with('(')) {
    LooseJson loose;
    std::string out;
    if (!loose.convert(text, true, out) || loose.taken() != text.size()) return {};
    Json json = Json::parse(out, nullptr, false);
    if (json.is_discarded()) return {};
    return json;
  }
  if (text == "True" || text == "False") return Json(text == "True");
  if (text == "None") return Json();
  return {};
}

}  // namespace

std::string typed_value(std::string_view text, const Json* schema) {
  const std::set<std::string> types = schema_types(schema);
  const std::string_view inner = loose_trimmed(text);
  const auto dump = [](const Json& v) { return v.dump(-1, ' ', false, Json::error_handler_t::replace); };
  Json json = Json::parse(inner, nullptr, false);
  if (!inner.empty() && !json.is_discarded() && type_allows(types, json)) return dump(json);
  if (const auto python = python_literal(inner); python && type_allows(types, *python)) return dump(*python);
  if (types.empty() || inner.empty()) return json_string(text);
  // Another notation of what is allowed: "3", 3.0, TRUE.
  const std::string word = !json.is_discarded() && json.is_string() ? json.get<std::string>() : std::string(inner);
  const Json again = Json::parse(word, nullptr, false);
  if (!again.is_discarded() && type_allows(types, again)) return dump(again);
  const bool whole = again.is_number_float() && types.count("integer") > 0 && std::abs(again.get<double>()) < 1e15 &&
                     again.get<double>() == std::floor(again.get<double>());
  if (whole) return std::to_string(static_cast<long long>(again.get<double>()));
  std::string low = word;
  std::transform(low.begin(), low.end(), low.begin(), [](unsigned char c) { return std::tolower(c); });
  if (types.count("boolean") > 0 && (low == "true" || low == "false")) return low;
  if (types.count("null") > 0 && (low == "null" || low == "none")) return "null";
  return json_string(text);
}

bool is_text_only(const Json* schema) { return schema_types(schema) == std::set<std::string>{"string"}; }

std::string type_fault(const Json& value, const Json* schema) {
  const std::set<std::string> types = schema_types(schema);
  if (type_allows(types, value)) return {};
  // A whole number may have a point.
  if (value.is_number() && types.count("integer") > 0 && value.get<double>() == std::floor(value.get<double>()))
    return {};
  std::string text = "expected ";
  for (const std::string& type : types) text += (text.size() > 9 ? " or " : "") + type;
  return text;
}

}  // namespace kvasir::text
