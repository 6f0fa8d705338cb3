#include "text/steps.hpp"

#include <fmt/format.h>

#include <memory>
#include <optional>
#include <utility>

#include "base/base64.hpp"
#include "base/error.hpp"
#include "text/bert_text.hpp"
#include "text/byte_level.hpp"
#include "text/charsmap.hpp"
#include "text/marks.hpp"
#include "text/step_patterns.hpp"
#include "unicode/case.hpp"
#include "unicode/classes.hpp"
#include "unicode/normal.hpp"
#include "unicode/utf8.hpp"

namespace kvasir::text {
namespace {

using unicode::CharClass;

std::string type_of(const StepJson& step) {
  const auto type = step.is_object() ? step.find("type") : step.end();
  return step.is_object() && type != step.end() && type->is_string() ? type->get<std::string>() : "?";
}

std::string steps_text_of(const StepJson& step, const char* field, const std::string& context) {
  const auto value = step.find(field);
  if (value == step.end() || !value->is_string())
    throw Error(Code::kBadInput, fmt::format("has no '{}', expected a text", field), context);
  return value->get<std::string>();
}

bool flag(const StepJson& step, const char* field, bool otherwise) {
  const auto value = step.find(field);
  return value != step.end() && value->is_boolean() ? value->get<bool>() : otherwise;
}

// Appends a character, or the byte that is none.
void append_char(std::string& out, std::string_view text, std::size_t begin, unicode::Char c) {
  out.append(text.substr(begin, c.size));
}

template <class Keep>
std::string kept(std::string_view text, Keep keep) {
  std::string out;
  each_char(text, [&](std::size_t begin, unicode::Char c) {
    if (keep(c.code)) append_char(out, text, begin, c);
  });
  return out;
}

bool is_white(std::uint32_t code) { return unicode::char_class(code) == CharClass::kSpace; }

std::string lowered(std::string_view text) {
  std::string out;
  each_char(text, [&](std::size_t begin, unicode::Char c) {
    if (c.code >= unicode::kInvalidByte)
      append_char(out, text, begin, c);
    else
      unicode::append_lower(out, c.code);
  });
  return out;
}

std::string stripped(std::string_view text, bool left, bool right) {
  std::size_t begin = text.size(), end = 0;
  each_char(text, [&](std::size_t at, unicode::Char c) {
    if (is_white(c.code)) return;
    begin = std::min(begin, at);
    end = at + c.size;
  });
  begin = left ? begin : 0;
  end = right ? end : text.size();
  return begin < end ? std::string(text.substr(begin, end - begin)) : std::string();
}

// SentencePiece's own table, nmt_nfkc without the normalisation.
std::string nmt(std::string_view text) {
  std::string out;
  each_char(text, [&](std::size_t begin, unicode::Char c) {
    const std::uint32_t x = c.code;
    if ((x >= 0x1 && x <= 0x8) || x == 0xb || (x >= 0xe && x <= 0x1f) || x == 0x7f || x == 0x8f || x == 0x9f) return;
    const bool space = x == 0x9 || x == 0xa || x == 0xc || x == 0xd || x == 0x1680 || (x >= 0x200b && x <= 0x200f) ||
                       x == 0x2028 || x == 0x2029 || x == 0x2581 || x == 0xfeff || x == 0xfffd;
    if (space)
      out.push_back(' ');
    else
      append_char(out, text, begin, c);
  });
  return out;
}

// Where a user's character ends that begins at `i`: a character with what modifies it (the Unicode standard's annex 29,
// as far as the whole can have less than 6 bytes).
std::size_t cluster_end(std::string_view text, std::size_t i) {
  const auto extends = [](std::uint32_t c) {
    return unicode::is_mark(unicode::char_class(c)) || c == 0x200c || c == 0x200d || (c >= 0x1f3fb && c <= 0x1f3ff);
  };
  const auto precedes = [](std::uint32_t c) {
    return (c >= 0x600 && c <= 0x605) || c == 0x6dd || c == 0x70f || c == 0x890 || c == 0x891 || c == 0x8e2;
  };
  const auto controls = [&](std::uint32_t c) {
    const bool spares = precedes(c) || c == 0x200c || c == 0x200d || (c >= 0xe000 && c <= 0xf8ff) || c >= 0xf0000;
    return c == '\t' || c == '\n' || c == '\r' || c == 0x2028 || c == 0x2029 ||
           (is_dropped(c) && c != 0xfffd && !spares);
  };
  const auto at = [&](std::size_t k) { return unicode::decode_char(text.substr(k)); };
  unicode::Char c = at(i);
  std::size_t end = i + c.size;
  if (c.code == '\r') return end < text.size() && text[end] == '\n' ? end + 1 : end;
  if (controls(c.code)) return end;
  while (end < text.size() && precedes(c.code)) {
    c = at(end);
    if (controls(c.code)) return end;
    end += c.size;
  }
  while (end < text.size() && extends(at(end).code)) end += at(end).size;
  return end;
}

// A user's character of less than 6 bytes is looked up as a whole.
std::string precompiled(std::string_view text, const Charsmap& map) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = cluster_end(text, i);
    const std::string_view whole = text.substr(i, end - i);
    const auto of_whole = whole.size() < 6 ? map.first(whole) : std::nullopt;
    if (of_whole) {
      out += *of_whole;
    } else {
      each_char(whole, [&](std::size_t begin, unicode::Char c) {
        const auto one = map.first(whole.substr(begin, c.size));
        if (one)
          out += *one;
        else
          append_char(out, whole, begin, c);
      });
    }
    i = end;
  }
  return out;
}

std::string bert(std::string text, bool cleans, bool parts_ideographs, bool strips, bool lowers) {
  std::string out;
  each_char(text, [&](std::size_t begin, unicode::Char c) {
    if (cleans && is_dropped(c.code)) return;
    if (cleans && (is_blank(c.code) || is_white(c.code))) return out.push_back(' ');
    const bool apart = parts_ideographs && is_ideograph(c.code);
    if (apart) out.push_back(' ');
    append_char(out, text, begin, c);
    if (apart) out.push_back(' ');
  });
  if (strips)
    out = kept(unicode::nfd(out), [](std::uint32_t c) { return unicode::char_class(c) != CharClass::kAccent; });
  return lowers ? lowered(out) : out;
}

std::string replaced(std::string_view text, const StepPattern& pattern, const std::string& content) {
  std::string out;
  for (const Stretch& s : pattern(text)) out += s.match ? content : std::string(text.substr(s.begin, s.end - s.begin));
  return out;
}

void cut(std::vector<StepPiece>& pieces, const StepPattern& pattern, Behaviour behaviour, bool invert = false) {
  std::vector<StepPiece> out;
  for (const StepPiece& p : pieces) {
    std::vector<Stretch> stretches = pattern(p.text);
    if (invert)
      for (Stretch& s : stretches) s.match = !s.match;
    for (const Stretch& s : cut_by(std::move(stretches), behaviour))
      out.push_back({p.text.substr(s.begin, s.end - s.begin), p.first && s.begin == 0});
  }
  pieces = std::move(out);
}

}  // namespace

Steps::Steps(const StepJson& normalizer, const StepJson& pre_tokenizer, const std::string& context) {
  if (!normalizer.is_null()) add_normal(normalizer, context + ": 'normalizer'");
  if (!pre_tokenizer.is_null()) add_cut(pre_tokenizer, context + ": 'pre_tokenizer'");
}

void Steps::add_normal(const StepJson& step, const std::string& context) {
  const std::string type = type_of(step), here = context + ": " + type;
  if (type == "Sequence") {
    const auto inner = step.find("normalizers");
    if (inner == step.end() || !inner->is_array())
      throw Error(Code::kBadInput, "has no 'normalizers', expected an array", here);
    for (const StepJson& s : *inner) add_normal(s, context);
  } else if (type == "NFC") {
    normal_.push_back([](const std::string& t) { return unicode::nfc(t); });
  } else if (type == "NFD") {
    normal_.push_back([](const std::string& t) { return unicode::nfd(t); });
  } else if (type == "NFKC") {
    normal_.push_back([](const std::string& t) { return unicode::nfkc(t); });
  } else if (type == "NFKD") {
    normal_.push_back([](const std::string& t) { return unicode::nfkd(t); });
  } else if (type == "Lowercase") {
    normal_.push_back([](const std::string& t) { return lowered(t); });
  } else if (type == "StripAccents") {
    normal_.push_back([](const std::string& t) {
      return kept(t, [](std::uint32_t c) { return !unicode::is_mark(unicode::char_class(c)); });
    });
  } else if (type == "Nmt") {
    normal_.push_back([](const std::string& t) { return nmt(t); });
  } else if (type == "ByteLevel") {
    normal_.push_back([](const std::string& t) { return bytes_as_characters(t); });
  } else if (type == "Strip") {
    const bool left = flag(step, "strip_left", true), right = flag(step, "strip_right", true);
    normal_.push_back([=](const std::string& t) { return stripped(t, left, right); });
  } else if (type == "Prepend") {
    const std::string front = steps_text_of(step, "prepend", here);
    normal_.push_back([=](const std::string& t) { return t.empty() ? t : front + t; });
  } else if (type == "Replace") {
    const auto pattern = step.find("pattern");
    const StepPattern read = read_pattern(pattern == step.end() ? StepJson() : *pattern, here);
    const std::string content = steps_text_of(step, "content", here);
    normal_.push_back([=](const std::string& t) { return replaced(t, read, content); });
  } else if (type == "BertNormalizer") {
    const bool lowers = flag(step, "lowercase", true), strips = flag(step, "strip_accents", lowers);
    const bool cleans = flag(step, "clean_text", true), parts = flag(step, "handle_chinese_chars", true);
    normal_.push_back([=](const std::string& t) { return bert(t, cleans, parts, strips, lowers); });
  } else if (type == "Precompiled") {
    const auto bytes = from_base64(steps_text_of(step, "precompiled_charsmap", here));
    if (!bytes) throw Error(Code::kBadInput, "has a 'precompiled_charsmap' that is no base64", here);
    std::vector<std::int64_t> numbers;
    for (const char c : *bytes) numbers.push_back(static_cast<unsigned char>(c));
    const auto map =
        numbers.empty() ? std::make_shared<const Charsmap>() : std::make_shared<const Charsmap>(numbers, here);
    normal_.push_back([=](const std::string& t) { return precompiled(t, *map); });
  } else {
    throw Error(
        Code::kUnsupported,
        fmt::format("has a step of the type '{}', expected one of BertNormalizer, ByteLevel, Lowercase, NFC, NFD, "
                    "NFKC, NFKD, Nmt, Precompiled, Prepend, Replace, Sequence, Strip, StripAccents",
                    type.substr(0, 80)),
        context);
  }
}

void Steps::add_cut(const StepJson& step, const std::string& context) {
  const std::string type = type_of(step), here = context + ": " + type;
  const auto add = [&](StepPattern pattern, Behaviour behaviour, bool invert = false) {
    cuts_.push_back([=](std::vector<StepPiece>& p) { cut(p, pattern, behaviour, invert); });
  };
  if (type == "Sequence") {
    const auto inner = step.find("pretokenizers");
    if (inner == step.end() || !inner->is_array())
      throw Error(Code::kBadInput, "has no 'pretokenizers', expected an array", here);
    for (const StepJson& s : *inner) add_cut(s, context);
  } else if (type == "Whitespace") {
    add(words_and_signs(), Behaviour::kRemoved, true);
  } else if (type == "WhitespaceSplit") {
    add(each_of(is_white), Behaviour::kRemoved);
  } else if (type == "BertPreTokenizer") {
    add(each_of(is_white), Behaviour::kRemoved);
    add(each_of(is_punctuation), Behaviour::kIsolated);
  } else if (type == "Punctuation") {
    add(each_of(is_punctuation), read_behaviour(step, Behaviour::kIsolated, here));
  } else if (type == "Digits") {
    const auto is_number = [](std::uint32_t c) { return unicode::is_number(unicode::char_class(c)); };
    add(each_of(is_number), flag(step, "individual_digits", false) ? Behaviour::kIsolated : Behaviour::kContiguous);
  } else if (type == "CharDelimiterSplit") {
    add(read_pattern({{"String", steps_text_of(step, "delimiter", here)}}, here), Behaviour::kRemoved);
  } else if (type == "Split") {
    const auto pattern = step.find("pattern");
    add(read_pattern(pattern == step.end() ? StepJson() : *pattern, here),
        read_behaviour(step, Behaviour::kIsolated, here), flag(step, "invert", false));
  } else if (type == "ByteLevel") {
    const bool space = flag(step, "add_prefix_space", true);
    marks_first_ = marks_first_ || space;
    if (space)
      cuts_.push_back([](std::vector<StepPiece>& pieces) {
        for (StepPiece& p : pieces)
          if (!p.text.starts_with(' ')) p.text.insert(0, 1, ' ');
      });
    if (flag(step, "use_regex", true)) add(gpt2_words(), Behaviour::kIsolated);
    cuts_.push_back([](std::vector<StepPiece>& pieces) {
      for (StepPiece& p : pieces) p.text = bytes_as_characters(p.text);
    });
  } else if (type == "Metaspace") {
    const std::string sign = step.contains("replacement") ? steps_text_of(step, "replacement", here) : "\u2581";
    const std::string scheme = step.contains("prepend_scheme")        ? steps_text_of(step, "prepend_scheme", here)
                               : flag(step, "add_prefix_space", true) ? "always"
                                                                      : "never";
    if (scheme != "always" && scheme != "first" && scheme != "never")
      throw Error(Code::kUnsupported,
                  fmt::format("has the prepend_scheme '{}', expected always, first or never", scheme.substr(0, 40)),
                  here);
    marks_first_ = marks_first_ || scheme != "never";
    const StepPattern spaces = read_pattern({{"String", " "}}, here), signs = read_pattern({{"String", sign}}, here);
    cuts_.push_back([=](std::vector<StepPiece>& pieces) {
      for (StepPiece& p : pieces) {
        p.text = replaced(p.text, spaces, sign);
        if ((scheme == "always" || (scheme == "first" && p.first)) && !p.text.starts_with(sign)) p.text = sign + p.text;
      }
    });
    if (flag(step, "split", true)) add(signs, Behaviour::kWithNext);
  } else {
    throw Error(
        Code::kUnsupported,
        fmt::format("has a step of the type '{}', expected one of BertPreTokenizer, ByteLevel, CharDelimiterSplit, "
                    "Digits, Metaspace, Punctuation, Sequence, Split, Whitespace, WhitespaceSplit",
                    type.substr(0, 80)),
        context);
  }
}

std::vector<StepPiece> Steps::pieces(std::string_view text, bool first) const {
  std::string normal(text);
  for (const Normal& step : normal_) normal = step(std::move(normal));
  std::vector<StepPiece> pieces;
  if (!normal.empty()) pieces.push_back({std::move(normal), first});
  for (const Cut& step : cuts_) step(pieces);
  return pieces;
}

}  // namespace kvasir::text
