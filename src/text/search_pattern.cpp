#include "text/search_pattern.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"

#ifdef KVASIR_PCRE2
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#endif

namespace kvasir::text {

SearchPattern SearchPattern::of_texts(std::vector<std::string> texts) {
  std::stable_sort(texts.begin(), texts.end(), [](const auto& a, const auto& b) { return a.size() > b.size(); });
  std::string expression;
  for (const std::string& text : texts) {
    if (!expression.empty()) expression += '|';
    for (const char c : text) {
      if (std::string_view("\\^$.|?*+()[]{}").find(c) != std::string_view::npos) expression += '\\';
      expression += c;
    }
  }
  return SearchPattern(expression);
}

#ifdef KVASIR_PCRE2

namespace {

constexpr std::size_t kMostPatternSteps = 1 << 20;   // of one search
constexpr std::uint32_t kMostPatternHeap = 1 << 16;  // KiB

[[noreturn]] void refuse_pattern(Code code, std::string_view text, std::size_t at, std::string_view what) {
  throw Error(code, fmt::format("pattern '{}', byte {}: {}", text, at, what));
}

// Python's expression as PCRE2 writes it. What Python does not know is refused.
std::string python_pattern(std::string_view text) {
  std::string out;
  bool in_class = false;
  for (std::size_t i = 0, size = 1; i < text.size(); i += size) {
    const std::string_view rest = text.substr(i);
    size = 1;
    if (rest[0] == '\\') {
      const char c = rest.size() > 1 ? rest[1] : '\\';
      const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      if (letter && std::string_view("AbBdDsSwWzZafnrtvux").find(c) == std::string_view::npos)
        refuse_pattern(Code::kUnsupported, text, i, fmt::format("\\{} is not supported", c));
      const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 0;  // without them PCRE2 takes the letter
      if (digits > 0 && (rest.size() < 2 + digits ||
                         rest.substr(2, digits).find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos))
        refuse_pattern(Code::kBadInput, text, i, fmt::format("\\{} lacks digits", c));
      size = std::min<std::size_t>(2, rest.size());
      out += c == 'Z' ? "\\z" : c == 'v' ? "\\x0b" : rest.substr(0, size);
    } else if (in_class) {
      in_class = rest[0] != ']';
      if (rest[0] == '[') out += '\\';  // no [: :] here
      out += rest[0];
    } else if (rest[0] == '[') {
      in_class = true;  // a bracket at its begin does not end it
      size = rest.starts_with("[^]") ? 3 : rest.starts_with("[]") || rest.starts_with("[^") ? 2 : 1;
      out += rest.substr(0, size);
    } else if (rest[0] == '$') {
      out += "(?=\\n?\\z)";  // PCRE2's own does not wait for what may follow the newline
    } else if (rest.starts_with("(?<=") || rest.starts_with("(?<!")) {
      refuse_pattern(Code::kUnsupported, text, i, "look-behind is not supported");
    } else if (rest.starts_with("{,") && rest.find_first_not_of("0123456789", 2) == rest.find('}')) {
      out += "{0,";
      size = 2;
    } else {
      out += rest[0];
    }
  }
  return out;
}

// Bytes at the end that begin a character.
std::size_t begun_character(std::string_view text) {
  for (std::size_t n = 1; n <= std::min<std::size_t>(3, text.size()); ++n) {
    const auto byte = static_cast<unsigned char>(text[text.size() - n]);
    if (byte >= 0xc0) return n < (byte >= 0xf0 ? 4U : byte >= 0xe0 ? 3U : 2U) ? n : 0;
    if (byte < 0x80) return 0;
  }
  return 0;
}

// PCRE2's own limit of steps is one for each place where a match may begin, and a run of characters is one step to it.
struct Effort {
  std::size_t steps = 0, at = 0;
};

int count_step(pcre2_callout_block* block, void* data) {
  Effort& effort = *static_cast<Effort*>(data);
  const std::size_t at = block->current_position;
  effort.steps += 1 + (std::max(at, effort.at) - std::min(at, effort.at)) / 64;
  effort.at = at;
  return effort.steps > kMostPatternSteps ? PCRE2_ERROR_CALLOUT : 0;
}

}  // namespace

bool SearchPattern::available() { return true; }

SearchPattern::SearchPattern(std::string_view expression) {
  const std::string text = python_pattern(expression);
  int error = 0;
  std::size_t at = 0;
  // Callouts count the steps.
  pcre2_code* code = pcre2_compile(
      reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
      PCRE2_UTF | PCRE2_MATCH_INVALID_UTF | PCRE2_UCP | PCRE2_DOTALL | PCRE2_ALT_BSUX | PCRE2_AUTO_CALLOUT, &error, &at,
      nullptr);
  if (!code) {
    unsigned char message[256] = {};
    pcre2_get_error_message(error, message, sizeof(message));
    refuse_pattern(error == PCRE2_ERROR_PATTERN_TOO_LARGE ? Code::kUnsupported : Code::kBadInput, expression, at,
                   reinterpret_cast<const char*>(message));
  }
  code_ = {code, [](void* c) { pcre2_code_free(static_cast<pcre2_code*>(c)); }};
}

SearchPattern::Found SearchPattern::search(std::string_view text, std::size_t from, bool end) const {
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  if (!end) text.remove_suffix(begun_character(text));
  const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(
      pcre2_match_data_create_from_pattern(code, nullptr), pcre2_match_data_free);
  const std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)> limits(
      pcre2_match_context_create(nullptr), pcre2_match_context_free);
  Effort effort;
  pcre2_set_callout(limits.get(), count_step, &effort);
  pcre2_set_match_limit(limits.get(), kMostPatternSteps);
  pcre2_set_heap_limit(limits.get(), kMostPatternHeap);
  const int result = pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from,
                                 end ? 0 : PCRE2_PARTIAL_HARD, data.get(), limits.get());
  const std::size_t* at = pcre2_get_ovector_pointer(data.get());
  if (result == PCRE2_ERROR_PARTIAL) return {std::nullopt, at[0]};
  if (result < 0) return {std::nullopt, text.size()};
  Match match{at[0], at[1] - at[0]};
  std::uint32_t count = 0, size = 0;
  const unsigned char* names = nullptr;
  pcre2_pattern_info(code, PCRE2_INFO_NAMECOUNT, &count);
  pcre2_pattern_info(code, PCRE2_INFO_NAMEENTRYSIZE, &size);
  pcre2_pattern_info(code, PCRE2_INFO_NAMETABLE, &names);
  for (; count > 0; --count, names += size) {  // two bytes of the group's number, its name
    const std::size_t* group = at + 2 * (names[0] << 8 | names[1]);
    if (group[0] != PCRE2_UNSET)
      match.groups[reinterpret_cast<const char*>(names + 2)] = text.substr(group[0], group[1] - group[0]);
  }
  return {std::move(match), at[0]};
}

#else

bool SearchPattern::available() { return false; }

SearchPattern::SearchPattern(std::string_view) {
  throw Error(Code::kUnsupported, "needs PCRE2, and this build was made without libpcre2-dev", "response_template");
}

SearchPattern::Found SearchPattern::search(std::string_view, std::size_t, bool) const { return {}; }

#endif

}  // namespace kvasir::text
