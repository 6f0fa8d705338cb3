// Methods of strings. Positions and widths count characters.
#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/builtins.hpp"
#include "text/jinja/lexer.hpp"
#include "text/jinja/machine.hpp"
#include "text/jinja/operators.hpp"
#include "text/jinja/strings.hpp"
#include "unicode/classes.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::text::jinja {
namespace {

Value text(Machine& m, std::string_view v) { return make_text(m.meter(), std::string(v)); }

// Before `v` is split: at most so many parts as there are bytes that a separator can begin with.
template <class Begins>
void allow_parts(Machine& m, std::string_view v, const Begins& begins) {
  m.meter().scan(v.size());
  m.meter().allocate(static_cast<std::size_t>(std::count_if(v.begin(), v.end(), begins)) + 1, sizeof(std::string_view));
}

Value list(Machine& m, const std::vector<std::string_view>& parts) {
  m.meter().allocate(parts.size(), sizeof(Value));
  std::vector<Value> items;
  items.reserve(parts.size());
  for (const auto part : parts) items.push_back(text(m, part));
  return make_list(m.meter(), std::move(items));
}

template <std::string (*change)(std::string_view)>
Value changed_text(Machine& m, const Value& self, Args& args) {
  no_arguments(args, "the method");
  m.meter().scan(self.view().size());
  return make_text(m.meter(), change(self.view()));
}

std::string swapcase(std::string_view v) {
  std::string out;
  for (std::size_t i = 0; i < v.size();) {
    const std::string_view one = v.substr(i, unicode::decode_char(v.substr(i)).size);
    const std::string up = upper(one);
    out += up == one ? lower(one) : up;
    i += one.size();
  }
  return out;
}

template <bool left, bool right>
Value strip(Machine& m, const Value& self, Args& args) {
  const auto [chars] = bind(args, "strip", {"chars"});
  m.meter().scan(self.view().size());
  const bool given = chars && !chars->is_none();
  const std::string_view set = given ? view_or(chars, {}, "strip") : std::string_view();
  const auto stripped = strip_text(self.view(), given ? &set : nullptr, left, right);
  return stripped.size() == self.view().size() ? self : text(m, stripped);
}

template <bool from_right>
Value split(Machine& m, const Value& self, Args& args) {
  const auto [sep, maxsplit] = bind(args, "split", {"sep", "maxsplit"});
  const bool given = sep && !sep->is_none();
  const std::string_view separator = given ? view_or(sep, {}, "split") : std::string_view();
  if (given && separator.empty()) fail("split: empty separator");
  allow_parts(m, self.view(), [&](char c) {
    return given ? c == separator[0] : static_cast<unsigned char>(c) <= ' ' || static_cast<unsigned char>(c) >= 0xc0;
  });
  const std::int64_t limit = int_or(maxsplit, -1, "split");
  return list(m, (from_right ? rsplit_text : split_text)(self.view(), given ? &separator : nullptr, limit));
}

Value splitlines(Machine& m, const Value& self, Args& args) {
  const auto [keep] = bind(args, "splitlines", {"keepends"});
  allow_parts(m, self.view(),
              [](char c) { return static_cast<unsigned char>(c) < ' ' || static_cast<unsigned char>(c) >= 0xc0; });
  return list(m, split_lines(self.view(), bool_or(keep, false)));
}

template <bool from_right>
Value partition(Machine& m, const Value& self, Args& args) {
  const auto [sep] = bind(args, "partition", {"sep"}, 1);
  const std::string_view separator = view_or(sep, {}, "partition"), v = self.view();
  if (separator.empty()) fail("partition: empty separator");
  m.meter().scan(v.size());
  const auto at = from_right ? rfind_text(v, separator) : find_text(v, separator);
  std::vector<Value> parts;
  if (at == v.npos) {
    for (int i = 0; i < 3; ++i) parts.push_back(text(m, i == (from_right ? 2 : 0) ? v : std::string_view()));
  } else {
    for (const auto part : {v.substr(0, at), separator, v.substr(at + separator.size())})
      parts.push_back(text(m, part));
  }
  return make_sequence(m.meter(), SequenceKind::kTuple, std::move(parts));
}

// `text` between characters [start, end) as Python slices it; `skipped` gets the number of characters in front.
std::string_view between(Machine& m, std::string_view v, const Value* start, const Value* end, std::int64_t* skipped) {
  const bool has_start = start && !start->is_none(), has_end = end && !end->is_none();
  *skipped = 0;
  if (!has_start && !has_end) return v;
  const auto starts = character_starts(v, m.meter());
  const auto n = static_cast<std::int64_t>(starts.size()) - 1;
  const auto clip = [n](std::int64_t i) { return std::clamp<std::int64_t>(i < 0 ? std::max(i, -n) + n : i, 0, n); };
  const std::int64_t raw = has_start ? int_or(start, 0, "find") : 0;
  const std::int64_t from = clip(raw), to = has_end ? clip(int_or(end, 0, "find")) : n;
  *skipped = from;
  if (raw > n || to < from) return {nullptr, 0};  // not even an empty string is found there
  return v.substr(starts[static_cast<std::size_t>(from)],
                  starts[static_cast<std::size_t>(to)] - starts[static_cast<std::size_t>(from)]);
}

template <bool from_right, bool must>
Value find(Machine& m, const Value& self, Args& args) {
  const auto [sub, start, end] = bind(args, "find", {"sub", "start", "end"}, 1);
  std::int64_t skipped = 0;
  const std::string_view v = between(m, self.view(), start, end, &skipped), what = view_or(sub, {}, "find");
  m.meter().scan(v.size());
  const auto at = !v.data() ? v.npos : from_right ? rfind_text(v, what) : find_text(v, what);
  if (at == v.npos && must) fail("substring not found");
  return Value(at == v.npos ? std::int64_t{-1} : skipped + count_characters(v.substr(0, at)));
}

Value text_methods_count(Machine& m, const Value& self, Args& args) {
  const auto [sub, start, end] = bind(args, "count", {"sub", "start", "end"}, 1);
  std::int64_t skipped = 0, n = 0;
  const std::string_view v = between(m, self.view(), start, end, &skipped), what = view_or(sub, {}, "count");
  m.meter().scan(v.size());
  if (!v.data()) return Value(std::int64_t{0});
  if (what.empty()) return Value(count_characters(v) + 1);
  for (auto at = find_text(v, what); at != v.npos; at = find_text(v, what, at + what.size())) ++n;
  m.meter().step(static_cast<std::uint64_t>(n));
  return Value(n);
}

template <bool end>
Value affix(Machine& m, const Value& self, Args& args) {
  const auto [what, start, stop] = bind(args, end ? "endswith" : "startswith", {"prefix", "start", "end"}, 1);
  std::int64_t skipped = 0;
  const std::string_view v = between(m, self.view(), start, stop, &skipped);
  const auto matches = [&](const Value& one) {
    const std::string_view x = view_or(&one, {}, end ? "endswith" : "startswith");
    m.meter().scan(x.size());
    return v.data() && (end ? v.ends_with(x) : v.starts_with(x));
  };
  const Sequence* s = what->sequence();
  if (!s || s->kind != SequenceKind::kTuple) return Value(matches(*what));
  return Value(std::any_of(s->items.begin(), s->items.end(), matches));
}

template <bool end>
Value remove_affix(Machine& m, const Value& self, Args& args) {
  const auto [what] = bind(args, "remove", {"affix"}, 1);
  const std::string_view v = self.view(), x = view_or(what, {}, end ? "removesuffix" : "removeprefix");
  if (x.empty() || !(end ? v.ends_with(x) : v.starts_with(x))) return self;
  return text(m, end ? v.substr(0, v.size() - x.size()) : v.substr(x.size()));
}

Value replace(Machine& m, const Value& self, Args& args) {
  const auto [from, to, text_methods_count] = bind(args, "replace", {"old", "new", "count"}, 2);
  const std::string_view old_text = view_or(from, {}, "replace"), new_text = view_or(to, {}, "replace");
  return make_text(m.meter(),
                   replace_text(self.view(), old_text, new_text, int_or(text_methods_count, -1, "replace"), m.meter()));
}

Value join(Machine& m, const Value& self, Args& args) {
  const auto [iterable] = bind(args, "join", {"iterable"}, 1);
  std::string out;
  const auto items = iterate(*iterable, m.meter());
  for (std::size_t i = 0; i < items->items.size(); ++i) {
    if (i > 0) out += self.view();
    m.meter().step();
    m.meter().check_output(out.size());
    const Value& item = items->items[i];
    if (!item.is_text()) fail(fmt::format("sequence item {}: expected str instance, {} found", i, type_name(item)));
    append_str(out, item, m.meter());
  }
  return make_text(m.meter(), std::move(out));
}

// ljust, rjust, center: how much of the padding goes to the left.
enum class Side { kLeft, kRight, kBoth };

template <Side side>
Value justify(Machine& m, const Value& self, Args& args) {
  const auto [width, fill] = bind(args, "justify", {"width", "fillchar"}, 1);
  const std::string_view with = view_or(fill, " ", "justify");
  if (count_characters(with) != 1) fail("the fill character must be exactly one character long");
  const std::int64_t wanted = int_or(width, 0, "justify"), missing = wanted - count_characters(self.view());
  if (missing <= 0) return self;
  const auto n = static_cast<std::size_t>(missing);
  std::size_t left = side == Side::kLeft ? 0 : n;
  if (side == Side::kBoth) left = n / 2 + (n & static_cast<std::size_t>(wanted) & 1);
  m.meter().allocate(n, with.size());
  return make_text(m.meter(), repeat_text(with, left, m.meter()) + std::string(self.view()) +
                                  repeat_text(with, n - left, m.meter()));
}

Value zfill(Machine& m, const Value& self, Args& args) {
  const auto [width] = bind(args, "zfill", {"width"}, 1);
  const std::int64_t missing = int_or(width, 0, "zfill") - count_characters(self.view());
  if (missing <= 0) return self;
  const std::size_t sign = !self.view().empty() && (self.view()[0] == '-' || self.view()[0] == '+') ? 1 : 0;
  return make_text(m.meter(), std::string(self.view().substr(0, sign)) +
                                  repeat_text("0", static_cast<std::size_t>(missing), m.meter()) +
                                  std::string(self.view().substr(sign)));
}

Value expandtabs(Machine& m, const Value& self, Args& args) {
  const auto [tabsize] = bind(args, "expandtabs", {"tabsize"});
  const std::int64_t size = int_or(tabsize, 8, "expandtabs");
  if (size > 1000) fail("expandtabs: the tab size is limited to 1000");
  std::string out;
  std::int64_t column = 0;
  m.meter().scan(self.view().size());
  for (const char c : self.view()) {
    if (c == '\t') {
      const std::int64_t n = size > 0 ? size - column % size : 0;
      out.append(static_cast<std::size_t>(n), ' ');
      column += n;
      m.meter().check_output(out.size());
    } else {
      out += c;
      column = c == '\n' || c == '\r' ? 0 : column + ((c & 0xc0) != 0x80);
    }
  }
  return make_text(m.meter(), std::move(out));
}

Value format(Machine& m, const Value& self, Args& args) {
  return make_text(m.meter(), brace_format(self.view(), args, m.meter()));
}

template <bool (*predicate)(std::uint32_t)>
Value all(Machine& m, const Value& self, Args& args) {
  no_arguments(args, "the method");
  m.meter().scan(self.view().size());
  const std::string_view v = self.view();
  for (std::size_t i = 0; i < v.size();) {
    const auto [code, size] = unicode::decode_char(v.substr(i));
    if (!predicate(code)) return Value(false);
    i += size;
  }
  return Value(!v.empty());
}

bool is_letter(std::uint32_t c) { return unicode::is_letter(unicode::char_class(c)); }
// Decimal digits are told from other numbers only in ASCII and Latin-1.
bool text_methods_is_digit(std::uint32_t c) {
  return (c >= '0' && c <= '9') ||
         (c > 0x2000 ? false : c > 0x7f && unicode::is_number(unicode::char_class(c)) && (c < 0xbc || c > 0xbe));
}
bool is_decimal(std::uint32_t c) { return text_methods_is_digit(c) && c != 0xb2 && c != 0xb3 && c != 0xb9; }
bool is_numeric(std::uint32_t c) { return unicode::is_number(unicode::char_class(c)); }
bool is_alnum(std::uint32_t c) { return is_letter(c) || is_numeric(c); }

Value islower(Machine& m, const Value& self, Args& args) {
  no_arguments(args, "islower");
  m.meter().scan(self.view().size());
  return Value(lower(self.view()) == self.view() && upper(self.view()) != self.view());
}

Value isupper(Machine& m, const Value& self, Args& args) {
  no_arguments(args, "isupper");
  m.meter().scan(self.view().size());
  return Value(upper(self.view()) == self.view() && lower(self.view()) != self.view());
}

Value istitle(Machine& m, const Value& self, Args& args) {
  no_arguments(args, "istitle");
  m.meter().scan(self.view().size());
  return Value(title(self.view()) == self.view() && lower(self.view()) != self.view());
}

Value isascii(Machine& m, const Value& self, Args& args) {
  no_arguments(args, "isascii");
  m.meter().scan(self.view().size());
  return Value(std::all_of(self.view().begin(), self.view().end(), [](char c) { return (c & 0x80) == 0; }));
}

constexpr Method kMethods[] = {
    {"capitalize", changed_text<capitalize>},
    {"casefold", changed_text<lower>},
    {"center", justify<Side::kBoth>},
    {"count", text_methods_count},
    {"endswith", affix<true>},
    {"expandtabs", expandtabs},
    {"find", find<false, false>},
    {"format", format},
    {"index", find<false, true>},
    {"isalnum", all<is_alnum>},
    {"isalpha", all<is_letter>},
    {"isascii", isascii},
    {"isdecimal", all<is_decimal>},
    {"isdigit", all<text_methods_is_digit>},
    {"islower", islower},
    {"isnumeric", all<is_numeric>},
    {"isspace", all<is_space>},
    {"istitle", istitle},
    {"isupper", isupper},
    {"join", join},
    {"ljust", justify<Side::kLeft>},
    {"lower", changed_text<lower>},
    {"lstrip", strip<true, false>},
    {"partition", partition<false>},
    {"removeprefix", remove_affix<false>},
    {"removesuffix", remove_affix<true>},
    {"replace", replace},
    {"rfind", find<true, false>},
    {"rindex", find<true, true>},
    {"rjust", justify<Side::kRight>},
    {"rpartition", partition<true>},
    {"rsplit", split<true>},
    {"rstrip", strip<false, true>},
    {"split", split<false>},
    {"splitlines", splitlines},
    {"startswith", affix<false>},
    {"strip", strip<true, true>},
    {"swapcase", changed_text<swapcase>},
    {"title", changed_text<title>},
    {"upper", changed_text<upper>},
    {"zfill", zfill},
};

}  // namespace

std::span<const Method> text_methods() { return kMethods; }

}  // namespace kvasir::text::jinja
