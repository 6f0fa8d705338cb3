#include "text/jinja/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::text::jinja {
namespace {

[[noreturn]] void refuse(const std::string& where, const std::string& message) {
  throw Error(Code::kBadInput, message, where);
}

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto [code, size] = unicode::decode_char(text.substr(i));
    if (code >= unicode::kInvalidByte) return false;
    i += size;
  }
  return true;
}

Value json_convert(const Json& json, Meter& meter, const std::string& where, int depth) {
  if (depth >= kMaxValueDepth) refuse(where, fmt::format("nested more than {} deep", kMaxValueDepth));
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value(json.get<bool>());
    case Json::value_t::number_integer:
      return Value(json.get<std::int64_t>());
    case Json::value_t::number_unsigned: {
      const auto u = json.get<std::uint64_t>();
      return u <= INT64_MAX ? Value(static_cast<std::int64_t>(u)) : Value(static_cast<double>(u));
    }
    case Json::value_t::number_float:
      return Value(json.get<double>());
    case Json::value_t::string: {
      const auto& text = json.get_ref<const std::string&>();
      if (!is_utf8(text)) refuse(where, "a string is not well-formed UTF-8");
      return make_text(meter, text);
    }
    case Json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(json_convert(item, meter, where, depth + 1));
      return make_list(meter, std::move(items));
    }
    case Json::value_t::object: {
      // Keys of a JSON object are different already.
      auto dict = std::make_shared<Dict>();
      for (const auto& [name, value] : json.items()) {
        if (!is_utf8(name)) refuse(where, "a name is not well-formed UTF-8");
        Value inner = json_convert(value, meter, where, depth + 1);
        const int below = inner.dict() ? inner.dict()->depth : inner.sequence() ? inner.sequence()->depth : 0;
        dict->depth = std::max(dict->depth, below + 1);
        dict->entries.emplace_back(make_text(meter, name), std::move(inner));
      }
      meter.allocate(dict->entries.size(), 2 * sizeof(Value));
      return Value(DictRef(std::move(dict)));
    }
    case Json::value_t::binary: {
      const auto& bytes = json.get_binary();
      std::string text(bytes.begin(), bytes.end());
      if (!is_utf8(text)) refuse(where, "a text is not well-formed UTF-8");
      meter.allocate(text.size());
      return Value(std::make_shared<const Text>(Text{std::move(text), false, true}));
    }
    default:
      return Value(None{});
  }
}

void append_string(std::string& out, std::string_view text, bool ensure_ascii) {
  out += '"';
  for (std::size_t i = 0; i < text.size();) {
    const auto [code, size] = unicode::decode_char(text.substr(i));
    static constexpr std::string_view kShort = "\"\\\n\r\t\f\b", kLetters = "\"\\nrtfb";
    const auto k = code < 0x80 ? kShort.find(static_cast<char>(code)) : kShort.npos;
    if (k != kShort.npos) {
      out += '\\';
      out += kLetters[k];
    } else if (code < 0x20 || (ensure_ascii && code > 0x7e && code < 0x10000)) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", code);
    } else if (ensure_ascii && code >= 0x10000) {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}\\u{:04x}", 0xd800 + ((code - 0x10000) >> 10),
                     0xdc00 + ((code - 0x10000) & 0x3ff));
    } else {
      out += text.substr(i, size);
    }
    i += size;
  }
  out += '"';
}

void append_number(std::string& out, double d) {
  if (std::isnan(d) || std::isinf(d)) {
    out += std::isnan(d) ? "NaN" : d < 0 ? "-Infinity" : "Infinity";
  } else {
    append_real(out, d);
  }
}

void append_key(std::string& out, const Value& key, const JsonStyle& style) {
  switch (key.kind()) {
    case Value::Kind::kText:
      return append_string(out, key.view(), style.ensure_ascii);
    case Value::Kind::kNone:
      out += "\"null\"";
      return;
    case Value::Kind::kBool:
      out += key.boolean() ? "\"true\"" : "\"false\"";
      return;
    case Value::Kind::kInt:
      out += fmt::format("\"{}\"", key.integer());
      return;
    case Value::Kind::kReal:
      out += '"';
      append_number(out, key.real());
      out += '"';
      return;
    default:
      fail(fmt::format("keys must be str, int, float, bool or None, not {}", type_name(key)));
  }
}

void new_line(std::string& out, const JsonStyle& style, int depth) {
  if (!style.lines) return;
  out += '\n';
  for (int i = 0; i < depth; ++i) out += style.indent;
}

template <class Items, class Each>
void append_all(std::string& out, const Items& items, char open, char close, const JsonStyle& style, int depth,
                const Each& each) {
  out += open;
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += style.item_separator;
    first = false;
    new_line(out, style, depth + 1);
    each(item);
  }
  if (!first) new_line(out, style, depth);
  out += close;
}

std::vector<std::pair<Value, Value>> sorted_entries(const Dict& dict, Meter& meter) {
  auto entries = dict.entries;
  meter.allocate(entries.size(), sizeof(entries[0]));
  std::stable_sort(entries.begin(), entries.end(),
                   [&](const auto& a, const auto& b) { return compare(a.first, b.first, meter) < 0; });
  return entries;
}

}  // namespace

Value from_json(const Json& json, Meter& meter, const std::string& where) {
  return json_convert(json, meter, where, 0);
}

void append_json(std::string& out, const Value& v, const JsonStyle& style, Meter& meter, int depth) {
  const Nesting nesting(meter);
  meter.step();
  meter.check_output(out.size());
  const auto entry = [&](const std::pair<Value, Value>& e) {
    append_key(out, e.first, style);
    out += style.key_separator;
    append_json(out, e.second, style, meter, depth + 1);
  };
  switch (v.kind()) {
    case Value::Kind::kNone:
      out += "null";
      break;
    case Value::Kind::kBool:
      out += v.boolean() ? "true" : "false";
      break;
    case Value::Kind::kInt:
      fmt::format_to(std::back_inserter(out), "{}", v.integer());
      break;
    case Value::Kind::kReal:
      append_number(out, v.real());
      break;
    case Value::Kind::kText:
      meter.scan(v.view().size());
      if (v.text()->json) {
        out += v.view();
      } else {
        append_string(out, v.view(), style.ensure_ascii);
      }
      break;
    case Value::Kind::kDict:
      if (style.sort_keys) {
        append_all(out, sorted_entries(*v.dict(), meter), '{', '}', style, depth, entry);
      } else {
        append_all(out, v.dict()->entries, '{', '}', style, depth, entry);
      }
      break;
    case Value::Kind::kSequence:
      if (v.sequence()->kind <= SequenceKind::kTuple) {
        append_all(out, v.sequence()->items, '[', ']', style, depth,
                   [&](const Value& item) { append_json(out, item, style, meter, depth + 1); });
        break;
      }
      [[fallthrough]];
    default:
      fail(fmt::format("Object of type {} is not JSON serializable", type_name(v)));
  }
}

}  // namespace kvasir::text::jinja
