#include "text/jinja/strings.hpp"

#include <string.h>

#include <algorithm>

#include "text/jinja/lexer.hpp"
#include "text/jinja/value.hpp"
#include "unicode/case.hpp"
#include "unicode/classes.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::text::jinja {

std::size_t find_text(std::string_view text, std::string_view what, std::size_t from) {
  if (from > text.size()) return text.npos;
  if (what.empty()) return from;
  // The two-way algorithm; std::string::find is quadratic in the worst case.
  const void* at = memmem(text.data() + from, text.size() - from, what.data(), what.size());
  return at ? static_cast<std::size_t>(static_cast<const char*>(at) - text.data()) : text.npos;
}

std::size_t rfind_text(std::string_view text, std::string_view what) {
  if (what.size() <= 64) return text.rfind(what);
  const std::string mirrored(text.rbegin(), text.rend()), mirrored_what(what.rbegin(), what.rend());
  const auto at = find_text(mirrored, mirrored_what);
  return at == text.npos ? at : text.size() - at - what.size();
}

std::string replace_text(std::string_view text, std::string_view from, std::string_view to, std::int64_t count,
                         Meter& meter) {
  meter.scan(text.size());
  std::string out;
  std::size_t at = 0;
  // An empty `from` stands between all characters.
  const auto next = [&](std::size_t begin) { return find_text(text, from, begin); };
  for (std::int64_t done = 0; count < 0 || done < count; ++done) {
    const auto hit = next(at);
    if (hit == text.npos) break;
    meter.step();
    out += text.substr(at, hit - at);
    meter.check_output(out.size() + to.size());
    out += to;
    at = hit + from.size();
    if (from.empty()) {
      if (at >= text.size()) return out;
      const auto size = unicode::decode_char(text.substr(at)).size;
      out += text.substr(at, size);
      at += size;
    }
  }
  if (at <= text.size()) out += text.substr(at);
  return out;
}

std::string repeat_text(std::string_view text, std::size_t times, Meter& meter) {
  meter.allocate(times, text.size());
  std::string out;
  if (text.empty()) return out;
  meter.check_output(times * text.size());
  out.reserve(times * text.size());
  for (std::size_t i = 0; i < times; ++i) out += text;
  return out;
}

std::string_view strip_text(std::string_view text, const std::string_view* chars, bool left, bool right) {
  const auto drop = [chars](std::string_view one) {
    return chars ? chars->find(one) != chars->npos : is_space(unicode::decode_char(one).code);
  };
  while (left && !text.empty()) {
    const auto size = unicode::decode_char(text).size;
    if (!drop(text.substr(0, size))) break;
    text.remove_prefix(size);
  }
  while (right && !text.empty()) {
    std::size_t begin = text.size() - 1;
    while (begin > 0 && (text[begin] & 0xc0) == 0x80) --begin;
    if (!drop(text.substr(begin))) break;
    text.remove_suffix(text.size() - begin);
  }
  return text;
}

namespace {

std::size_t word_end(std::string_view text, std::size_t begin) {
  std::size_t i = begin;
  while (i < text.size()) {
    const auto [code, size] = unicode::decode_char(text.substr(i));
    if (is_space(code)) break;
    i += size;
  }
  return i;
}

std::size_t word_begin(std::string_view text) {
  std::size_t begin = text.size();
  while (begin > 0) {
    std::size_t previous = begin - 1;
    while (previous > 0 && (text[previous] & 0xc0) == 0x80) --previous;
    if (is_space(unicode::decode_char(text.substr(previous)).code)) break;
    begin = previous;
  }
  return begin;
}

std::size_t line_break(std::string_view text, std::size_t i, std::size_t* size) {
  for (; i < text.size(); i += *size) {
    const auto c = unicode::decode_char(text.substr(i));
    *size = c.size;
    if (c.code == '\r' && i + 1 < text.size() && text[i + 1] == '\n') *size = 2;
    if ((c.code >= 10 && c.code <= 13) || (c.code >= 0x1c && c.code <= 0x1e) || c.code == 0x85 || c.code == 0x2028 ||
        c.code == 0x2029) {
      return i;
    }
  }
  return text.npos;
}

bool alphabetic(std::uint32_t code) { return unicode::is_letter(unicode::char_class(code)); }

}  // namespace

std::vector<std::string_view> split_text(std::string_view text, const std::string_view* separator, std::int64_t limit) {
  std::vector<std::string_view> parts;
  const auto full = [&] { return limit >= 0 && static_cast<std::int64_t>(parts.size()) >= limit; };
  if (!separator) {
    for (text = strip_text(text, nullptr, true, false); !text.empty(); text = strip_text(text, nullptr, true, false)) {
      const std::size_t end = full() ? text.size() : word_end(text, 0);
      parts.push_back(text.substr(0, end));
      text.remove_prefix(end);
    }
    return parts;
  }
  std::size_t begin = 0;
  while (!full()) {
    const auto hit = find_text(text, *separator, begin);
    if (hit == text.npos) break;
    parts.push_back(text.substr(begin, hit - begin));
    begin = hit + separator->size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::vector<std::string_view> rsplit_text(std::string_view text, const std::string_view* separator,
                                          std::int64_t limit) {
  if (limit < 0) return split_text(text, separator, limit);
  std::vector<std::string_view> parts;
  const auto full = [&] { return static_cast<std::int64_t>(parts.size()) >= limit; };
  if (!separator) {
    for (text = rstrip(text); !text.empty(); text = rstrip(text)) {
      const std::size_t begin = full() ? 0 : word_begin(text);
      parts.push_back(text.substr(begin));
      text = text.substr(0, begin);
    }
  } else {
    while (!full()) {
      const auto hit = rfind_text(text, *separator);
      if (hit == text.npos) break;
      parts.push_back(text.substr(hit + separator->size()));
      text = text.substr(0, hit);
    }
    parts.push_back(text);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::vector<std::string_view> split_lines(std::string_view text, bool keep_ends) {
  std::vector<std::string_view> lines;
  std::size_t begin = 0;
  while (begin < text.size()) {
    std::size_t size = 0;
    const auto end = line_break(text, begin, &size);
    if (end == text.npos) {
      lines.push_back(text.substr(begin));
      break;
    }
    lines.push_back(text.substr(begin, end - begin + (keep_ends ? size : 0)));
    begin = end + size;
  }
  return lines;
}

std::vector<std::size_t> character_starts(std::string_view text, Meter& meter) {
  meter.allocate(text.size() + 1, sizeof(std::size_t));
  std::vector<std::size_t> starts;
  starts.reserve(text.size() + 1);
  for (std::size_t i = 0; i < text.size(); ++i)
    if ((text[i] & 0xc0) != 0x80) starts.push_back(i);
  starts.push_back(text.size());
  return starts;
}

std::int64_t count_characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; });
}

std::string upper(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const auto [code, size] = unicode::decode_char(text.substr(i));
    unicode::append_upper(out, code);
    i += size;
  }
  return out;
}

std::string lower(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const auto [code, size] = unicode::decode_char(text.substr(i));
    unicode::append_lower(out, code);
    i += size;
  }
  return out;
}

std::string capitalize(std::string_view text) {
  if (text.empty()) return {};
  const auto size = unicode::decode_char(text).size;
  return upper(text.substr(0, size)) + lower(text.substr(size));
}

std::string title(std::string_view text) {
  std::string out;
  bool inside = false;
  for (std::size_t i = 0; i < text.size();) {
    const auto [code, size] = unicode::decode_char(text.substr(i));
    if (inside) {
      unicode::append_lower(out, code);
    } else {
      unicode::append_upper(out, code);
    }
    inside = alphabetic(code);
    i += size;
  }
  return out;
}

}  // namespace kvasir::text::jinja
