// Filters of strings. As in Jinja, other values become strings first.
#include <fmt/format.h>

#include "text/jinja/builtins.hpp"
#include "text/jinja/machine.hpp"
#include "text/jinja/operators.hpp"
#include "text/jinja/strings.hpp"
#include "unicode/classes.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::text::jinja {
namespace {

// str(v), without a copy for what is a string already.
class Soft {
 public:
  Soft(Machine& m, const Value& v) {
    if (v.is_text()) {
      view_ = v.view();
    } else {
      copy_ = to_str(v, m.meter());
      view_ = copy_;
    }
    m.meter().scan(view_.size());
  }
  Soft(const Soft&) = delete;
  Soft& operator=(const Soft&) = delete;
  std::string_view view() const { return view_; }

 private:
  std::string copy_;
  std::string_view view_;
};

template <std::string (*change)(std::string_view)>
Value changed(Machine& m, const Value& v, Args& args) {
  no_arguments(args, "the filter");
  return make_text(m.meter(), change(Soft(m, v).view()));
}

// Unlike str.title, words begin behind white space, '-' and opening brackets only.
std::string filter_title(std::string_view text) {
  std::string out;
  bool begins = true;
  for (std::size_t i = 0; i < text.size();) {
    const auto size = unicode::decode_char(text.substr(i)).size;
    const std::string_view one = text.substr(i, size);
    out += begins ? upper(one) : lower(one);
    begins = one.size() == 1 && std::string_view("-({[< \t\n\r\f\v").find(one[0]) != std::string_view::npos;
    i += size;
  }
  return out;
}

Value filter_center(Machine& m, const Value& v, Args& args) {
  const auto [width] = bind(args, "center", {"width"});
  const Soft text(m, v);
  const std::int64_t missing = int_or(width, 80, "center") - count_characters(text.view());
  if (missing <= 0) return make_text(m.meter(), std::string(text.view()));
  const auto total = static_cast<std::size_t>(missing);
  const std::size_t left = total / 2 + (total & static_cast<std::size_t>(missing + count_characters(text.view())) & 1);
  return make_text(m.meter(), repeat_text(" ", left, m.meter()) + std::string(text.view()) +
                                  repeat_text(" ", total - left, m.meter()));
}

Value filter_escape(Machine& m, const Value& v, Args& args) {
  no_arguments(args, "escape");
  if (v.is_text() && v.text()->markup) return v;
  const Soft text(m, v);
  m.meter().allocate(6, text.view().size());
  return make_text(m.meter(), escape_html(text.view()), true);
}

Value filter_forceescape(Machine& m, const Value& v, Args& args) {
  no_arguments(args, "forceescape");
  const Soft text(m, v);
  m.meter().allocate(6, text.view().size());
  return make_text(m.meter(), escape_html(text.view()), true);
}

Value filter_safe(Machine& m, const Value& v, Args& args) {
  no_arguments(args, "safe");
  return make_text(m.meter(), std::string(Soft(m, v).view()), true);
}

Value filter_string(Machine& m, const Value& v, Args& args) {
  no_arguments(args, "string");
  return v.is_text() ? v : make_text(m.meter(), to_str(v, m.meter()));
}

Value filter_format(Machine& m, const Value& v, Args& args) {
  if (!args.positional.empty() && !args.named.empty()) fail("format: takes positional or keyword arguments, not both");
  Value arg;
  if (args.named.empty()) {
    arg = make_sequence(m.meter(), SequenceKind::kTuple, std::move(args.positional));
  } else {
    DictMaker dict(m.meter());
    for (auto& [name, value] : args.named) dict.set(Value(name), std::move(value));
    arg = dict.take();
  }
  return make_text(m.meter(), percent_format(Soft(m, v).view(), arg, m.meter()));
}

Value filter_indent(Machine& m, const Value& v, Args& args) {
  const auto [width, first, blank] = bind(args, "indent", {"width", "first", "blank"});
  if (v.undefined()) fail_undefined(*v.undefined());
  if (!v.is_text()) fail(fmt::format("indent: expected a string, got {}", type_name(v)));
  const std::string indention =
      width && width->is_text()
          ? std::string(width->view())
          : repeat_text(" ", static_cast<std::size_t>(std::max<std::int64_t>(0, int_or(width, 4, "indent"))),
                        m.meter());
  const std::string text = std::string(v.view()) + "\n";  // so that a line break at the end counts
  const auto lines = split_lines(text, false);
  m.meter().allocate(lines.size(), indention.size() + 1);
  m.meter().check_output(text.size() + lines.size() * indention.size());
  std::string out = bool_or(first, false) ? indention : "";
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      out += '\n';
      if (bool_or(blank, false) || !lines[i].empty()) out += indention;
    }
    out += lines[i];
  }
  return make_text(m.meter(), std::move(out), v.text()->markup);
}

Value filter_replace(Machine& m, const Value& v, Args& args) {
  const auto [from, to, count] = bind(args, "replace", {"old", "new", "count"}, 2);
  const Soft text(m, v), old_text(m, *from), new_text(m, *to);
  const std::int64_t n = count && !count->is_none() ? int_or(count, -1, "replace") : -1;
  return make_text(m.meter(), replace_text(text.view(), old_text.view(), new_text.view(), n, m.meter()));
}

Value filter_trim(Machine& m, const Value& v, Args& args) {
  const auto [chars] = bind(args, "trim", {"chars"});
  const Soft text(m, v);
  const std::string_view set = chars && !chars->is_none() ? view_or(chars, {}, "trim") : std::string_view();
  const bool given = chars && !chars->is_none();
  const auto stripped = strip_text(text.view(), given ? &set : nullptr, true, true);
  if (v.is_text() && stripped.size() == v.view().size()) return v;
  return make_text(m.meter(), std::string(stripped), v.is_text() && v.text()->markup);
}

Value filter_truncate(Machine& m, const Value& v, Args& args) {
  const auto [max_length, killwords, end, leeway] = bind(args, "truncate", {"length", "killwords", "end", "leeway"});
  const std::string_view ellipsis = view_or(end, "...", "truncate");
  const std::int64_t limit = int_or(max_length, 255, "truncate");
  const std::int64_t slack = leeway && !leeway->is_none() ? int_or(leeway, 5, "truncate") : 5;
  const std::int64_t keep = limit - count_characters(ellipsis);
  if (keep < 0 || slack < 0) fail("truncate: the length is below that of the end, or the leeway is negative");
  const std::int64_t size = length(v);
  if (size >= 0 && (size <= limit || size - limit <= slack)) return v;
  if (!v.is_text()) fail(fmt::format("truncate: expected a string, got {}", type_name(v)));
  const auto starts = character_starts(v.view(), m.meter());
  std::string_view kept = v.view().substr(0, starts[static_cast<std::size_t>(keep)]);
  if (!bool_or(killwords, false))
    if (const auto space = kept.rfind(' '); space != kept.npos) kept = kept.substr(0, space);
  return make_text(m.meter(), std::string(kept) + std::string(ellipsis));
}

bool unreserved(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' ||
         c == '.' || c == '~';
}

void text_filters_append_quoted(std::string& out, std::string_view text, bool query) {
  for (const char c : text) {
    if (unreserved(c) || (c == '/' && !query)) {
      out += c;
    } else if (c == ' ' && query) {
      out += '+';
    } else {
      fmt::format_to(std::back_inserter(out), "%{:02X}", static_cast<unsigned char>(c));
    }
  }
}

Value filter_urlencode(Machine& m, const Value& v, Args& args) {
  no_arguments(args, "urlencode");
  std::string out;
  if (v.is_text() || !is_iterable(v)) {
    const Soft text(m, v);
    m.meter().allocate(3, text.view().size());
    text_filters_append_quoted(out, text.view(), false);
    return make_text(m.meter(), std::move(out));
  }
  const auto pair = [&](const Value& key, const Value& value) {
    const Soft k(m, key), w(m, value);
    m.meter().allocate(3, k.view().size() + w.view().size());
    if (!out.empty()) out += '&';
    text_filters_append_quoted(out, k.view(), true);
    out += '=';
    text_filters_append_quoted(out, w.view(), true);
    m.meter().check_output(out.size());
  };
  if (const Dict* d = v.dict()) {
    for (const auto& [key, value] : d->entries) pair(key, value);
  } else {
    const auto items = iterate(v, m.meter());
    for (const auto& item : items->items) {
      const auto two = iterate(item, m.meter());
      if (two->items.size() != 2) fail("urlencode: expected pairs");
      pair(two->items[0], two->items[1]);
    }
  }
  return make_text(m.meter(), std::move(out));
}

Value filter_wordcount(Machine& m, const Value& v, Args& args) {
  no_arguments(args, "wordcount");
  const Soft text(m, v);
  std::int64_t words = 0;
  bool inside = false;
  for (std::size_t i = 0; i < text.view().size();) {
    const auto [code, size] = unicode::decode_char(text.view().substr(i));
    const unicode::CharClass c = unicode::char_class(code);
    const bool word = code == '_' || unicode::is_letter(c) || unicode::is_number(c);
    words += word && !inside;
    inside = word;
    i += size;
  }
  return Value(words);
}

constexpr Filter kTextFilters[] = {
    {"capitalize", changed<capitalize>},
    {"center", filter_center},
    {"e", filter_escape},
    {"escape", filter_escape},
    {"forceescape", filter_forceescape},
    {"format", filter_format},
    {"indent", filter_indent},
    {"lower", changed<lower>},
    {"replace", filter_replace},
    {"safe", filter_safe},
    {"string", filter_string},
    {"title", changed<filter_title>},
    {"trim", filter_trim},
    {"truncate", filter_truncate},
    {"upper", changed<upper>},
    {"urlencode", filter_urlencode},
    {"wordcount", filter_wordcount},
};

}  // namespace

std::span<const Filter> text_filters() { return kTextFilters; }

}  // namespace kvasir::text::jinja
