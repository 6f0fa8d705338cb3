#include "text/step_patterns.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "hub/patterns.hpp"
#include "text/marks.hpp"
#include "text/signs.hpp"
#include "text/split.hpp"
#include "text/words.hpp"

namespace kvasir::text {
namespace {

using StepJson = nlohmann::json;
using namespace hub::patterns;

// The matches of a scanner's pattern, one behind the other, and what lies between.
template <class Match>
std::vector<Stretch> matches(std::string_view text, Match match) {
  const Scanner scanner(text);
  std::vector<Stretch> out;
  std::size_t gap = 0;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end = match(scanner, i);
    if (end == i) {
      i += scanner.at(i).size;
      continue;
    }
    if (gap < i) out.push_back({gap, i, false});
    out.push_back({i, end, true});
    gap = i = end;
  }
  if (gap < text.size()) out.push_back({gap, text.size(), false});
  return out;
}

template <class Match>
StepPattern scanned(Match match) {
  return [match](std::string_view text) { return matches(text, match); };
}

// A pattern whose matches tile every text.
template <class Split>
StepPattern tiled(Split split) {
  return [split](std::string_view text) {
    std::vector<Stretch> out;
    split(text, [&](std::string_view piece) {
      const auto begin = static_cast<std::size_t>(piece.data() - text.data());
      out.push_back({begin, begin + piece.size(), true});
    });
    return out;
  };
}

StepPattern literal(std::string wanted) {
  return [wanted = std::move(wanted)](std::string_view text) {
    std::vector<Stretch> out;
    std::size_t gap = 0;
    for (std::size_t at; !wanted.empty() && (at = text.find(wanted, gap)) != text.npos; gap = at + wanted.size()) {
      if (gap < at) out.push_back({gap, at, false});
      out.push_back({at, at + wanted.size(), true});
    }
    if (gap < text.size()) out.push_back({gap, text.size(), false});
    return out;
  };
}

template <class Is>
auto run_of(Is is) {
  return [is](const Scanner& s, std::size_t i) { return s.skip(i, is); };
}
template <class Is>
auto one_of(Is is) {
  return [is](const Scanner& s, std::size_t i) {
    const Scanner::Item c = s.at(i);
    return c.size > 0 && is(c) ? i + c.size : i;
  };
}
// At least `least` of them, at most `most` where that is not 0.
template <class Is>
auto some_of(Is is, std::size_t least, std::size_t most) {
  return [=](const Scanner& s, std::size_t i) {
    std::size_t end = i, n = 0;
    for (Scanner::Item c = s.at(end); c.size > 0 && is(c) && (most == 0 || n < most); c = s.at(end), ++n) end += c.size;
    return n >= least ? end : i;
  };
}

bool is_space(const Scanner::Item& c) { return c.space(); }
bool item_is_blank(const Scanner::Item& c) { return c.is(' '); }
bool is_newline(const Scanner::Item& c) { return c.newline(); }
bool is_digit(const Scanner::Item& c) { return c.kind == unicode::CharClass::kDigit; }
bool is_ascii_digit(const Scanner::Item& c) { return c.within('0', '9'); }
bool is_number(const Scanner::Item& c) { return c.number(); }
bool is_sign(const Scanner::Item& c) { return c.kind == unicode::CharClass::kPunctuation; }

// \s?[of]+
template <class Is>
auto spaced_run(Is is) {
  return [is](const Scanner& s, std::size_t i) {
    const Scanner::Item c = s.at(i);
    const std::size_t begin = c.size > 0 && c.space() && !is(c) ? i + c.size : i;
    const std::size_t end = s.skip(begin, is);
    return end > begin ? end : i;
  };
}

bool is_letter(const Scanner::Item& c) { return c.letter(); }
bool is_east_asian(const Scanner::Item& c) { return c.within(0x800, 0x9fa5) || c.within(0xac00, 0xd7ff); }

// An expression without a sign that means something.
bool is_plain(std::string_view text) { return text.find_first_of("\\^$.|?*+()[]{}") == text.npos; }

StepPattern expression(const std::string& text, const std::string& context) {
  if (is_plain(text)) return literal(text);
  if (text == R"(\s+)") return scanned(run_of(is_space));
  if (text == R"(\s)") return scanned(one_of(is_space));
  if (text == " +" || text == "[ ]+") return scanned(run_of(item_is_blank));
  if (text == " {2,}") return scanned(some_of(item_is_blank, 2, 0));
  if (text == R"(\s{2,}|[\n\r\t])")
    return scanned([](const Scanner& s, std::size_t i) {
      const std::size_t end = some_of(is_space, 2, 0)(s, i);
      return end > i ? end : one_of([](const Scanner::Item& c) { return c.newline() || c.is('\t'); })(s, i);
    });
  if (text == R"([\r\n]+)") return scanned(run_of(is_newline));
  if (text == R"([\r\n])") return scanned(one_of(is_newline));
  if (text == R"(\n)") return literal("\n");
  if (text == R"(\d)" || text == R"(\p{Nd})") return scanned(one_of(is_digit));
  if (text == R"(\d+)") return scanned(run_of(is_digit));
  if (text == "[0-9]") return scanned(one_of(is_ascii_digit));
  if (text == "[0-9]+") return scanned(run_of(is_ascii_digit));
  if (text == "[0-9][0-9][0-9]") return scanned(some_of(is_ascii_digit, 3, 3));
  if (text == R"(\p{N})") return scanned(one_of(is_number));
  if (text == R"(\p{N}+)") return scanned(run_of(is_number));
  if (text == R"(\p{N}{1,3})") return scanned(some_of(is_number, 1, 3));
  if (text == R"(\p{P})") return scanned(one_of(is_sign));
  if (text == R"(\p{P}+)") return scanned(run_of(is_sign));
  if (text == R"(\w+|[^\w\s]+)") return words_and_signs();
  if (text == kGpt2) return gpt2_words();
  if (text == kWords3) return tiled(split_words<Words{.digits = 3}>);
  if (text == kWords1) return tiled(split_words<Words{.digits = 1}>);
  if (text == kMarkedWords) return tiled(split_words<Words{.letters = Words::Letters::kMarked, .digits = 1}>);
  if (text == kTekken)
    return tiled(split_words<Words{.contraction = Words::Contraction::kNone,
                                   .letters = Words::Letters::kCased,
                                   .digits = 1,
                                   .behind = Words::Behind::kNewlinesAndSlashes}>);
  if (text == kGpt4o)
    return tiled(split_words<Words{.contraction = Words::Contraction::kBehind,
                                   .letters = Words::Letters::kCased,
                                   .behind = Words::Behind::kNewlinesAndSlashes}>);
  if (text == kHanOrKana) return scanned(han_or_kana);
  if (text == kSigns) return scanned([](const Scanner& s, std::size_t i) { return signs_match(s, i); });
  if (text == kSpacedWord) return scanned(spaced_run(is_letter));
  if (text == kSpacedPunctuation) return scanned(spaced_run(is_sign));
  if (text == kEastAsian) return scanned(run_of(is_east_asian));
  if (text == kBloom) return scanned(bloom_word);
  throw Error(Code::kUnsupported, fmt::format("has the pattern '{}', which no scanner here knows", text.substr(0, 400)),
              context);
}

// \w: letters, marks, decimal digits, what joins words, and the letters among numbers and symbols.
bool in_word(std::uint32_t code) {
  using unicode::CharClass;
  const CharClass c = unicode::char_class(code);
  if (unicode::is_letter(c) || unicode::is_mark(c) || c == CharClass::kDigit) return true;
  const auto within = [&](std::uint32_t first, std::uint32_t last) { return code >= first && code <= last; };
  if (c == CharClass::kNumber)  // Nl
    return within(0x16ee, 0x16f0) || within(0x2160, 0x2188) || code == 0x3007 || within(0x3021, 0x3029) ||
           within(0x3038, 0x303a) || within(0xa6e6, 0xa6ef) || within(0x10140, 0x10174) || code == 0x10341 ||
           code == 0x1034a || within(0x103d1, 0x103d5) || within(0x12400, 0x1246e);
  if (c == CharClass::kPunctuation)  // Pc
    return code == '_' || within(0x203f, 0x2040) || code == 0x2054 || within(0xfe33, 0xfe34) ||
           within(0xfe4d, 0xfe4f) || code == 0xff3f;
  return within(0x200c, 0x200d) || within(0x24b6, 0x24e9) || within(0x1f130, 0x1f149) || within(0x1f150, 0x1f169) ||
         within(0x1f170, 0x1f189);
}

}  // namespace

StepPattern each_of(std::function<bool(std::uint32_t)> is) {
  return [is = std::move(is)](std::string_view text) {
    std::vector<Stretch> out;
    each_char(text, [&](std::size_t begin, unicode::Char c) {
      const bool match = is(c.code);
      if (!match && !out.empty() && !out.back().match)
        out.back().end = begin + c.size;
      else
        out.push_back({begin, begin + c.size, match});
    });
    return out;
  };
}

StepPattern words_and_signs() {
  return scanned([](const Scanner& s, std::size_t i) {
    const std::size_t word = s.skip(i, [](const Scanner::Item& c) { return in_word(c.code); });
    if (word > i) return word;
    return s.skip(i, [](const Scanner::Item& c) { return !c.space() && !in_word(c.code); });
  });
}

StepPattern gpt2_words() { return tiled(split_gpt2); }

StepPattern read_pattern(const StepJson& pattern, const std::string& context) {
  if (pattern.is_object() && pattern.contains("String") && pattern["String"].is_string())
    return literal(pattern["String"].get<std::string>());
  if (pattern.is_object() && pattern.contains("Regex") && pattern["Regex"].is_string())
    return expression(pattern["Regex"].get<std::string>(), context);
  throw Error(Code::kBadInput, "has no 'pattern', expected {\"String\": …} or {\"Regex\": …}", context);
}

Behaviour read_behaviour(const StepJson& step, Behaviour otherwise, const std::string& context) {
  const auto given = step.find("behavior");
  if (given == step.end()) return otherwise;
  constexpr std::pair<const char*, Behaviour> kNames[] = {{"Removed", Behaviour::kRemoved},
                                                          {"Isolated", Behaviour::kIsolated},
                                                          {"MergedWithPrevious", Behaviour::kWithPrevious},
                                                          {"MergedWithNext", Behaviour::kWithNext},
                                                          {"Contiguous", Behaviour::kContiguous}};
  for (const auto& [name, behaviour] : kNames)
    if (*given == name) return behaviour;
  throw Error(Code::kUnsupported,
              fmt::format("has the behavior {}, expected Removed, Isolated, MergedWithPrevious, MergedWithNext or "
                          "Contiguous",
                          given->dump().substr(0, 80)),
              context);
}

std::vector<Stretch> cut_by(std::vector<Stretch> stretches, Behaviour behaviour) {
  std::vector<Stretch> out;
  const bool backwards = behaviour == Behaviour::kWithNext;
  if (backwards) std::reverse(stretches.begin(), stretches.end());
  bool before = false;  // whether the stretch before was a match
  for (const Stretch& s : stretches) {
    const bool joins = behaviour == Behaviour::kContiguous ? s.match == before
                                                           : behaviour != Behaviour::kIsolated &&
                                                                 behaviour != Behaviour::kRemoved && s.match && !before;
    before = s.match;
    if (behaviour == Behaviour::kRemoved && s.match) continue;
    if (joins && !out.empty()) {
      out.back().begin = std::min(out.back().begin, s.begin);
      out.back().end = std::max(out.back().end, s.end);
    } else {
      out.push_back(s);
    }
  }
  if (backwards) std::reverse(out.begin(), out.end());
  std::erase_if(out, [](const Stretch& s) { return s.begin == s.end; });
  return out;
}

}  // namespace kvasir::text
