// printf-style formats and str.format, as far as templates use them.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include "text/jinja/operators.hpp"
#include "text/jinja/strings.hpp"

namespace kvasir::text::jinja {
namespace {

constexpr int kMaxWidth = 10000;

// [[fill]align][sign][0][width][.precision][type], and their like in printf.
struct Spec {
  std::string fill = " ";
  char align = '\0';  // '<' '>' '^', '=' pads between sign and digits
  char sign = '-';
  bool alternate = false;
  int width = 0;
  int precision = -1;
  char type = '\0';
};

std::string pad(const Spec& spec, std::string text, char usual_align) {
  const auto size = count_characters(text);
  if (size >= spec.width) return text;
  const std::size_t missing = static_cast<std::size_t>(spec.width - size);
  const char align = spec.align ? spec.align : usual_align;
  std::size_t left = align == '>' || align == '=' ? missing : align == '^' ? missing / 2 : 0;
  std::string before, after;
  for (std::size_t i = 0; i < missing; ++i) (i < left ? before : after) += spec.fill;
  const std::size_t at = align == '=' && !text.empty() && (text[0] == '-' || text[0] == '+' || text[0] == ' ') ? 1 : 0;
  return text.substr(0, at) + before + text.substr(at) + after;
}

std::string signed_text(const Spec& spec, bool negative, std::string digits) {
  return (negative ? "-" : spec.sign == '+' ? "+" : spec.sign == ' ' ? " " : "") + std::move(digits);
}

std::string format_int(const Spec& spec, std::int64_t i) {
  const std::uint64_t magnitude = i < 0 ? 0 - static_cast<std::uint64_t>(i) : static_cast<std::uint64_t>(i);
  std::string digits;
  const char* prefix = "";
  switch (spec.type) {
    case 'x':
      digits = fmt::format("{:x}", magnitude);
      prefix = "0x";
      break;
    case 'X':
      digits = fmt::format("{:X}", magnitude);
      prefix = "0X";
      break;
    case 'o':
      digits = fmt::format("{:o}", magnitude);
      prefix = "0o";
      break;
    case 'b':
      digits = fmt::format("{:b}", magnitude);
      prefix = "0b";
      break;
    default:
      digits = fmt::format("{}", magnitude);
  }
  while (static_cast<int>(digits.size()) < spec.precision) digits.insert(digits.begin(), '0');
  return signed_text(spec, i < 0, (spec.alternate ? prefix : "") + digits);
}

std::string format_real(const Spec& spec, double d) {
  if (std::isnan(d) || std::isinf(d)) return signed_text(spec, d < 0, std::isnan(d) ? "nan" : "inf");
  const char type = spec.type == '%' ? 'f' : spec.type;
  const char form[] = {'%', '.', '*', type, '\0'};
  const double magnitude = std::fabs(spec.type == '%' ? d * 100 : d);
  const int precision = spec.precision < 0 ? 6 : spec.precision;
  std::string digits(static_cast<std::size_t>(precision) + 330, '\0');
  // NOLINTNEXTLINE: the format is one of %.*f, %.*e, %.*g and their capitals
  const int n = std::snprintf(digits.data(), digits.size(), form, precision, magnitude);
  digits.resize(static_cast<std::size_t>(n));
  if (spec.type == '%') digits += '%';
  return signed_text(spec, std::signbit(d), std::move(digits));
}

bool is_real_type(char t) { return t && std::string_view("eEfFgG").find(t) != std::string_view::npos; }

int parse_number(std::string_view format, std::size_t& i) {
  int n = 0;
  for (; i < format.size() && format[i] >= '0' && format[i] <= '9'; ++i) {
    n = n * 10 + (format[i] - '0');
    if (n > kMaxWidth) fail(fmt::format("widths in formats are limited to {}", kMaxWidth));
  }
  return n;
}

std::string first_characters(std::string_view text, int count) {
  std::size_t i = 0;
  for (int k = 0; i < text.size(); ++i)
    if ((text[i] & 0xc0) != 0x80 && k++ == count) break;
  return std::string(text.substr(0, i));
}

// One conversion of a printf-style format; `i` stands behind the type.
std::string convert(const Spec& spec, const Value& v, Meter& meter) {
  if (v.undefined() && spec.type != 's' && spec.type != 'r') fail_undefined(*v.undefined());
  switch (spec.type) {
    case 's':
    case 'r':
    case 'a': {
      std::string text = spec.type == 's' ? to_str(v, meter) : to_repr(v, meter);
      if (spec.precision >= 0) text = first_characters(text, spec.precision);
      return pad(spec, std::move(text), '>');
    }
    case 'c': {
      if (!v.is_text() || count_characters(v.view()) != 1) fail("%c requires a single character");
      return pad(spec, std::string(v.view()), '>');
    }
    default:
      break;
  }
  if (!v.is_number()) fail(fmt::format("%{} format: a number is required, not {}", spec.type, type_name(v)));
  if (is_real_type(spec.type)) return pad(spec, format_real(spec, v.real()), '>');
  if (!v.is_int() && spec.type != 'd' && spec.type != 'i' && spec.type != 'u') {
    fail(fmt::format("%{} format: an integer is required, not float", spec.type));
  }
  if (!v.is_int() && !(std::fabs(v.real()) < 9.2e18)) fail("the number to format is too large");
  Spec plain = spec;
  if (plain.type == 'i' || plain.type == 'u') plain.type = 'd';
  return pad(plain, format_int(plain, v.is_int() ? v.integer() : static_cast<std::int64_t>(v.real())), '>');
}

class PercentFormatter {
 public:
  PercentFormatter(std::string_view format, const Value& arg, Meter& meter)
      : format_(format), arg_(arg), meter_(meter) {
    if (arg.sequence() && arg.sequence()->kind == SequenceKind::kTuple) tuple_ = arg.sequence();
  }

  std::string run() {
    while (i_ < format_.size()) {
      if (format_[i_] != '%') {
        out_ += format_[i_++];
        continue;
      }
      ++i_;
      conversion();
      meter_.step();
      meter_.check_output(out_.size());
    }
    // What has items by key or index may give none: Python takes it for a mapping.
    const Sequence* s = arg_.sequence();
    const bool mapping = arg_.dict() || arg_.is_undefined() ||
                         (s && (s->kind == SequenceKind::kList || s->kind == SequenceKind::kRange));
    const bool all_used = tuple_ ? next_ >= tuple_->items.size() : next_ > 0 || mapping;
    if (!all_used) fail("not all arguments converted during string formatting");
    return std::move(out_);
  }

 private:
  const Value& take() {
    if (tuple_ ? next_ >= tuple_->items.size() : next_ > 0) fail("not enough arguments for format string");
    const std::size_t k = next_++;
    return tuple_ ? tuple_->items[k] : arg_;
  }

  int star_or_number() {
    if (i_ >= format_.size() || format_[i_] != '*') return parse_number(format_, i_);
    ++i_;
    const Value& v = take();
    if (!v.is_int() || v.integer() < -kMaxWidth || v.integer() > kMaxWidth) fail("* wants a small int");
    return static_cast<int>(v.integer());
  }

  void conversion() {
    const Value* keyed = nullptr;
    Value found;
    if (i_ < format_.size() && format_[i_] == '(') {
      const auto end = format_.find(')', i_);
      if (end == format_.npos) fail("incomplete format key");
      if (!arg_.dict()) fail("format requires a mapping");
      const std::string_view key = format_.substr(i_ + 1, end - i_ - 1);
      keyed = arg_.dict()->find(key);
      if (!keyed) fail(fmt::format("format: there is no key '{}'", key));
      i_ = end + 1;
    }
    Spec spec = flags();
    spec.width = star_or_number();
    if (spec.width < 0) {
      spec.align = '<';
      spec.width = -spec.width;
    }
    if (i_ < format_.size() && format_[i_] == '.') {
      ++i_;
      spec.precision = std::max(0, star_or_number());
    }
    if (i_ >= format_.size()) fail("incomplete format");
    spec.type = format_[i_++];
    if (spec.type == '%') {
      out_ += '%';
      return;
    }
    if (std::string_view("diouxXeEfFgGcrsa").find(spec.type) == std::string_view::npos) {
      fail(fmt::format("unsupported format character '{}'", spec.type));
    }
    if (spec.align == '=' && std::string_view("crsa").find(spec.type) != std::string_view::npos) {
      spec.align = '>';
      spec.fill = " ";
    }
    out_ += convert(spec, keyed ? *keyed : take(), meter_);
  }

  Spec flags() {
    Spec spec;
    for (; i_ < format_.size(); ++i_) {
      const char c = format_[i_];
      if (c == '-') {
        spec.align = '<';
        spec.fill = " ";
      } else if (c == '0') {
        if (spec.align != '<') {
          spec.align = '=';
          spec.fill = "0";
        }
      } else if (c == '+' || (c == ' ' && spec.sign != '+')) {
        spec.sign = c;
      } else if (c == '#') {
        spec.alternate = true;
      } else {
        break;
      }
    }
    return spec;
  }

  std::string_view format_;
  const Value& arg_;
  Meter& meter_;
  const Sequence* tuple_ = nullptr;
  std::size_t i_ = 0, next_ = 0;
  std::string out_;
};

Spec parse_spec(std::string_view text) {
  Spec spec;
  std::size_t i = 0;
  const auto is_align = [&](std::size_t at) {
    return at < text.size() && std::string_view("<>^=").find(text[at]) != std::string_view::npos;
  };
  std::size_t first = text.empty() ? 0 : 1;
  while (first < text.size() && (text[first] & 0xc0) == 0x80) ++first;
  if (!text.empty() && is_align(first)) {
    spec.fill = text.substr(0, first);
    spec.align = text[first];
    i = first + 1;
  } else if (is_align(0)) {
    spec.align = text[0];
    i = 1;
  }
  if (i < text.size() && (text[i] == '+' || text[i] == '-' || text[i] == ' ')) spec.sign = text[i++];
  if (i < text.size() && text[i] == '#') {
    spec.alternate = true;
    ++i;
  }
  if (i < text.size() && text[i] == '0' && !spec.align) {
    spec.align = '=';
    spec.fill = "0";
  }
  spec.width = parse_number(text, i);
  if (i < text.size() && text[i] == '.') {
    ++i;
    spec.precision = parse_number(text, i);
  }
  if (i < text.size()) spec.type = text[i++];
  if (i != text.size()) fail(fmt::format("the format '{}' is not supported", text));
  return spec;
}

std::string format_field(const Value& v, char conversion, std::string_view text, Meter& meter) {
  const Spec spec = parse_spec(text);
  if (conversion == 'r' || conversion == 's' || v.is_text() || (!v.is_number() && text.empty())) {
    std::string s = conversion == 'r' ? to_repr(v, meter) : to_str(v, meter);
    if (spec.type && spec.type != 's') fail(fmt::format("unknown format code '{}' for a string", spec.type));
    if (spec.precision >= 0) s = first_characters(s, spec.precision);
    return pad(spec, std::move(s), '<');
  }
  if (!v.is_number()) fail(fmt::format("unsupported format string passed to {}", type_name(v)));
  if (text.empty()) return to_str(v, meter);
  if (is_real_type(spec.type) || spec.type == '%') return pad(spec, format_real(spec, v.real()), '>');
  if (v.is_int() && (!spec.type || std::string_view("dxXob").find(spec.type) != std::string_view::npos)) {
    return pad(spec, format_int(spec, v.integer()), '>');
  }
  if (spec.type || spec.precision >= 0) fail(fmt::format("the format '{}' is not supported", text));
  return pad(spec, to_str(v, meter), '>');
}

// "0", "name", "name.attr" and "0[key]"
Value lookup_field(std::string_view path, const Args& args, std::size_t& next, Meter& meter) {
  const auto end = std::min(path.find_first_of(".["), path.size());
  const std::string_view head = path.substr(0, end);
  Value v;
  std::size_t index = 0;
  const auto [stop, error] = std::from_chars(head.data(), head.data() + head.size(), index);
  if (head.empty() || (error == std::errc{} && stop == head.data() + head.size())) {
    if (head.empty()) index = next++;
    if (index >= args.positional.size()) fail("format: an argument is missing");
    v = args.positional[index];
  } else {
    const Value* found = nullptr;
    for (const auto& [name, value] : args.named)
      if (name->bytes == head) found = &value;
    if (!found) fail(fmt::format("format: there is no argument '{}'", head));
    v = *found;
  }
  path.remove_prefix(end);
  while (!path.empty()) {
    if (path[0] != '[') fail("format: attributes are not supported, only [keys]");
    const auto close = path.find(']');
    if (close == path.npos) fail("format: ']' is missing");
    const std::string_view key = path.substr(1, close - 1);
    std::int64_t i = 0;
    const auto number = std::from_chars(key.data(), key.data() + key.size(), i);
    const bool is_index = !key.empty() && number.ec == std::errc{} && number.ptr == key.data() + key.size();
    v = item(v, is_index ? Value(i) : Value(std::string(key)), meter);
    if (v.undefined()) fail_undefined(*v.undefined());
    path.remove_prefix(close + 1);
  }
  return v;
}

}  // namespace

std::string percent_format(std::string_view format, const Value& arg, Meter& meter) {
  meter.scan(format.size());
  return PercentFormatter(format, arg, meter).run();
}

std::string brace_format(std::string_view format, const Args& args, Meter& meter) {
  meter.scan(format.size());
  std::string out;
  std::size_t next = 0;
  for (std::size_t i = 0; i < format.size(); ++i) {
    const char c = format[i];
    if (c != '{' && c != '}') {
      out += c;
      continue;
    }
    if (i + 1 < format.size() && format[i + 1] == c) {
      out += c;
      ++i;
      continue;
    }
    const auto end = format.find('}', i);
    if (c == '}' || end == format.npos) fail(fmt::format("single '{}' encountered in format string", c));
    std::string_view field = format.substr(i + 1, end - i - 1), spec;
    if (const auto colon = field.find(':'); colon != field.npos) {
      spec = field.substr(colon + 1);
      field = field.substr(0, colon);
    }
    char conversion = '\0';
    if (field.size() >= 2 && field[field.size() - 2] == '!') {
      conversion = field.back();
      field.remove_suffix(2);
    }
    if (spec.find('{') != spec.npos) fail("format: fields within fields are not supported");
    meter.step();
    out += format_field(lookup_field(field, args, next, meter), conversion, spec, meter);
    meter.check_output(out.size());
    i = end;
  }
  return out;
}

}  // namespace kvasir::text::jinja
