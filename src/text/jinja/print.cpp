// str() and repr() of values, as Python writes them.
#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "text/jinja/value.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::text::jinja {
namespace {

// str.isprintable for what occurs: controls, format characters, separators other than the space, private use and
// non-characters are written as escapes. Unassigned code points count as printable.
bool printable(std::uint32_t c) {
  static constexpr std::uint32_t kHidden[][2] = {
      {0, 0x1f},          {0x7f, 0xa0},        {0xad, 0xad},       {0x600, 0x605},     {0x61c, 0x61c},
      {0x6dd, 0x6dd},     {0x70f, 0x70f},      {0x1680, 0x1680},   {0x180e, 0x180e},   {0x2000, 0x200f},
      {0x2028, 0x202f},   {0x205f, 0x206f},    {0x3000, 0x3000},   {0xd800, 0xf8ff},   {0xfeff, 0xfeff},
      {0xfff0, 0xfffb},   {0xfffe, 0xffff},    {0x110bd, 0x110bd}, {0x1bca0, 0x1bca3}, {0x1d173, 0x1d17a},
      {0xe0000, 0xe00ff}, {0xe01f0, 0x10ffff},
  };
  for (const auto& range : kHidden)
    if (c >= range[0] && c <= range[1]) return false;
  return true;
}

void append_quoted(std::string& out, std::string_view text) {
  const char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  out += quote;
  for (std::size_t i = 0; i < text.size();) {
    const auto [code, size] = unicode::decode_char(text.substr(i));
    if (code == '\\' || code == static_cast<std::uint32_t>(quote)) {
      out += '\\';
      out += static_cast<char>(code);
    } else if (code == '\n' || code == '\r' || code == '\t') {
      out += code == '\n' ? "\\n" : code == '\r' ? "\\r" : "\\t";
    } else if (printable(code)) {
      out += text.substr(i, size);
    } else if (code < 0x100) {
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", code);
    } else {
      fmt::format_to(std::back_inserter(out), fmt::runtime(code < 0x10000 ? "\\u{:04x}" : "\\U{:08x}"), code);
    }
    i += size;
  }
  out += quote;
}

void append_items(std::string& out, const std::vector<Value>& items, Meter& meter, int depth) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i) out += ", ";
    append_repr(out, items[i], meter, depth + 1);
  }
}

void append_sequence(std::string& out, const Sequence& s, Meter& meter, int depth) {
  switch (s.kind) {
    case SequenceKind::kList:
      out += '[';
      append_items(out, s.items, meter, depth);
      out += ']';
      break;
    case SequenceKind::kTuple:
      out += '(';
      append_items(out, s.items, meter, depth);
      out += s.items.size() == 1 ? ",)" : ")";
      break;
    case SequenceKind::kKeys:
    case SequenceKind::kValues:
    case SequenceKind::kItems:
      out += s.kind == SequenceKind::kKeys     ? "dict_keys(["
             : s.kind == SequenceKind::kValues ? "dict_values(["
                                               : "dict_items([";
      append_items(out, s.items, meter, depth);
      out += "])";
      break;
    case SequenceKind::kRange:
      if (s.step == 0) fail("a part of a range cannot be printed; make it a list first");
      out += s.step == 1 ? fmt::format("range({}, {})", s.start, s.stop)
                         : fmt::format("range({}, {}, {})", s.start, s.stop, s.step);
      break;
    case SequenceKind::kGenerator:
      fail("a generator cannot be printed; make it a list first");
  }
}

void append_dict(std::string& out, const Dict& d, Meter& meter, int depth) {
  out += '{';
  bool first = true;
  for (const auto& [key, value] : d.entries) {
    if (!first) out += ", ";
    first = false;
    append_repr(out, key, meter, depth + 1);
    out += ": ";
    append_repr(out, value, meter, depth + 1);
  }
  out += '}';
}

}  // namespace

// The shortest digits that read back as `d`, with an exponent below 1e-4 and from 1e16 on.
void append_real(std::string& out, double d) {
  if (std::isnan(d) || std::isinf(d)) {
    out += std::isnan(d) ? "nan" : d < 0 ? "-inf" : "inf";
    return;
  }
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof digits, d, std::chars_format::scientific).ptr;
  const std::string_view all(digits, static_cast<std::size_t>(end - digits));
  const auto e = all.find('e');
  int exponent = 0;
  const auto from = e + (all[e + 1] == '+' ? 2u : 1u);
  std::from_chars(all.data() + from, end, exponent);
  if (exponent < -4 || exponent >= 16) {
    out += all.substr(0, e);
    fmt::format_to(std::back_inserter(out), "e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
    return;
  }
  char plain[32];
  const auto stop = std::to_chars(plain, plain + sizeof plain, d, std::chars_format::fixed).ptr;
  const std::string_view text(plain, static_cast<std::size_t>(stop - plain));
  out += text;
  if (text.find('.') == text.npos) out += ".0";
}

void append_repr(std::string& out, const Value& v, Meter& meter, int depth) {
  meter.step();
  meter.check_output(out.size());
  // Deeper than any container: a namespace that holds itself.
  if (depth > 2 * kMaxValueDepth) fail("the value to print contains itself");
  switch (v.kind()) {
    case Value::Kind::kUndefined:
      out += "Undefined";
      break;
    case Value::Kind::kNone:
      out += "None";
      break;
    case Value::Kind::kBool:
      out += v.boolean() ? "True" : "False";
      break;
    case Value::Kind::kInt:
      fmt::format_to(std::back_inserter(out), "{}", v.integer());
      break;
    case Value::Kind::kReal:
      append_real(out, v.real());
      break;
    case Value::Kind::kText:
      meter.scan(v.view().size());
      if (v.text()->markup) out += "Markup(";
      append_quoted(out, v.view());
      if (v.text()->markup) out += ')';
      break;
    case Value::Kind::kSequence:
      append_sequence(out, *v.sequence(), meter, depth);
      break;
    case Value::Kind::kDict:
      append_dict(out, *v.dict(), meter, depth);
      break;
    case Value::Kind::kObject:
      v.object()->print(out, meter, depth);
      break;
  }
}

void append_str(std::string& out, const Value& v, Meter& meter) {
  if (v.is_text()) {
    meter.check_output(out.size() + v.view().size());
    meter.scan(v.view().size());
    out += v.view();
  } else if (!v.is_undefined()) {
    append_repr(out, v, meter);
  }
}

std::string to_str(const Value& v, Meter& meter) {
  std::string out;
  append_str(out, v, meter);
  return out;
}

std::string to_repr(const Value& v, Meter& meter) {
  std::string out;
  append_repr(out, v, meter);
  return out;
}

}  // namespace kvasir::text::jinja
