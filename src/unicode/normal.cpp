#include "unicode/normal.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "unicode/utf8.hpp"

namespace kvasir::unicode {
namespace {

// One step: `code` is first and second (0: first alone). `composes`: form C puts the two together again.
struct Decomposition {
  std::uint32_t code, first, second;
  bool composes;
};

// Combining class of first .. last, not 0.
struct ClassRange {
  std::uint32_t first, last;
  std::uint8_t value;
};

#include "unicode/normal.inc"

// What a character becomes in form KD, where that is more than its canonical decomposition.
struct Compatible {
  std::uint32_t code;
  std::string_view text;
};

#include "unicode/compatible.inc"

// Hangul syllables are made of jamo by arithmetic (the standard's section 3.12).
constexpr std::uint32_t kSyllable = 0xac00, kLead = 0x1100, kVowel = 0x1161, kTrail = 0x11a7;
constexpr std::uint32_t kLeads = 19, kVowels = 21, kTrails = 28, kSyllables = kLeads * kVowels * kTrails;

// Every code below is the same in form C and combines with nothing in front of it.
constexpr std::uint32_t kFirstMark = 0x300;
constexpr std::uint32_t kFirstDecomposed = 0xc0;
constexpr unsigned char kFirstMarkLead = 0xcc;  // the first byte of U+0300

class Tables {
 public:
  static const Tables& get() {
    static const Tables tables;
    return tables;
  }

  // Whether the character is its own form C, has class 0 and joins nothing in front of it: text can be cut there.
  bool plain(std::uint32_t code) const {
    return code < kFirstMark || code >= kInvalidByte || (special_[code >> 6] >> (code & 63) & 1) == 0;
  }

  static std::uint8_t combining_class(std::uint32_t code) {
    if (code < kFirstMark) return 0;
    const auto* r = std::lower_bound(std::begin(kClasses), std::end(kClasses), code,
                                     [](const ClassRange& a, std::uint32_t c) { return a.last < c; });
    return r != std::end(kClasses) && code >= r->first ? r->value : 0;
  }

  // Appends the full decomposition.
  static void decompose(std::uint32_t code, std::vector<std::uint32_t>& out) {
    if (code < kFirstDecomposed) return out.push_back(code);
    if (code - kSyllable < kSyllables) {
      const std::uint32_t s = code - kSyllable;
      out.push_back(kLead + s / (kVowels * kTrails));
      out.push_back(kVowel + s % (kVowels * kTrails) / kTrails);
      if (s % kTrails != 0) out.push_back(kTrail + s % kTrails);
      return;
    }
    const auto* d = std::lower_bound(std::begin(kDecompositions), std::end(kDecompositions), code,
                                     [](const Decomposition& a, std::uint32_t c) { return a.code < c; });
    if (d == std::end(kDecompositions) || d->code != code) return out.push_back(code);
    decompose(d->first, out);  // at most four steps deep
    if (d->second != 0) decompose(d->second, out);
  }

  // The character that the two become, 0 where they stay apart.
  std::uint32_t compose(std::uint32_t first, std::uint32_t second) const {
    if (first - kLead < kLeads && second - kVowel < kVowels)
      return kSyllable + ((first - kLead) * kVowels + (second - kVowel)) * kTrails;
    if (first - kSyllable < kSyllables && (first - kSyllable) % kTrails == 0 && second - kTrail - 1 < kTrails - 1)
      return first + (second - kTrail);
    const auto at = std::lower_bound(pairs_.begin(), pairs_.end(), std::pair{key(first, second), std::uint32_t{0}});
    return at != pairs_.end() && at->first == key(first, second) ? at->second : 0;
  }

 private:
  Tables() : special_(0x110000 / 64) {
    for (const auto& d : kDecompositions) {
      if (d.composes) {
        pairs_.emplace_back(key(d.first, d.second), d.code);
        mark(d.second);
      } else {
        mark(d.code);
      }
    }
    for (const auto& r : kClasses)
      for (std::uint32_t c = r.first; c <= r.last; ++c) mark(c);
    for (std::uint32_t i = 0; i < kVowels; ++i) mark(kVowel + i);
    for (std::uint32_t i = 1; i < kTrails; ++i) mark(kTrail + i);
    std::sort(pairs_.begin(), pairs_.end());
  }

  static std::uint64_t key(std::uint32_t first, std::uint32_t second) { return std::uint64_t{first} << 32 | second; }
  void mark(std::uint32_t code) { special_[code >> 6] |= std::uint64_t{1} << (code & 63); }

  std::vector<std::uint64_t> special_;                          // a bit per code point
  std::vector<std::pair<std::uint64_t, std::uint32_t>> pairs_;  // sorted
};

std::string_view compatible_of(std::uint32_t code) {
  if (code < kCompatible[0].code) return {};
  const auto* c = std::lower_bound(std::begin(kCompatible), std::end(kCompatible), code,
                                   [](const Compatible& a, std::uint32_t x) { return a.code < x; });
  return c != std::end(kCompatible) && c->code == code ? c->text : std::string_view();
}

// The decomposition of `text`, marks in canonical order. An ill-formed byte is kInvalidByte + the byte.
std::vector<std::uint32_t> decomposed(std::string_view text, bool compatible = false) {
  std::vector<std::uint32_t> codes;
  for (std::size_t i = 0; i < text.size();) {
    const Char c = decode_char(text.substr(i));
    const std::string_view plain = compatible ? compatible_of(c.code) : std::string_view();
    if (plain.empty()) Tables::decompose(c.code, codes);
    for (std::size_t j = 0; j < plain.size(); j += decode_char(plain.substr(j)).size)
      codes.push_back(decode_char(plain.substr(j)).code);
    i += c.size;
  }
  for (auto i = codes.begin(); i != codes.end();) {
    const auto is_mark = [](std::uint32_t c) { return Tables::combining_class(c) != 0; };
    const auto first = std::find_if(i, codes.end(), is_mark);
    i = std::find_if_not(first, codes.end(), is_mark);
    std::stable_sort(first, i, [](std::uint32_t a, std::uint32_t b) {
      return Tables::combining_class(a) < Tables::combining_class(b);
    });
  }
  return codes;
}

void append(std::string& out, const std::vector<std::uint32_t>& codes) {
  for (const auto c : codes) {
    if (c >= kInvalidByte)
      out.push_back(static_cast<char>(c - kInvalidByte));
    else
      append_utf8(out, c);
  }
}

// Joins what form C joins: a mark with the starter in front of it unless a mark of the same or a higher class stands
// between.
void compose(std::vector<std::uint32_t>& codes) {
  const Tables& tables = Tables::get();
  std::size_t size = 0, starter = codes.size();
  int last = -1;  // class of the character in front, -1 where that is the starter
  for (const auto c : codes) {
    const int value = Tables::combining_class(c);
    if (starter < size && last < value) {
      if (const auto joined = tables.compose(codes[starter], c)) {
        codes[starter] = joined;
        continue;
      }
    }
    if (value == 0) starter = size;
    last = value == 0 ? -1 : value;
    codes[size++] = c;
  }
  codes.resize(size);
}

// The first character from `i` on that is not plain.
std::size_t next_special(std::string_view text, std::size_t i, std::size_t* starter) {
  const Tables& tables = Tables::get();
  while (i < text.size()) {
    const Char c = decode_char(text.substr(i));
    if (!tables.plain(c.code)) break;
    *starter = i;
    i += c.size;
  }
  return i;
}

bool has_marks(std::string_view text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) >= kFirstMarkLead; });
}

}  // namespace

bool is_nfc(std::string_view text) {
  std::size_t starter = 0;
  return !has_marks(text) || next_special(text, 0, &starter) == text.size();
}

std::string nfc(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  std::size_t done = 0;  // what stands before is in `out`
  for (std::size_t i = 0; i < text.size();) {
    std::size_t starter = i;
    i = next_special(text, i, &starter);
    if (i == text.size()) break;
    while (i < text.size() && !Tables::get().plain(decode_char(text.substr(i)).code))
      i += decode_char(text.substr(i)).size;
    auto codes = decomposed(text.substr(starter, i - starter));
    compose(codes);
    out.append(text.substr(done, starter - done));
    append(out, codes);
    done = i;
  }
  return out.append(text.substr(done));
}

std::string nfd(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  append(out, decomposed(text));
  return out;
}

std::string nfkd(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  append(out, decomposed(text, true));
  return out;
}

std::string nfkc(std::string_view text) {
  auto codes = decomposed(text, true);
  compose(codes);
  std::string out;
  out.reserve(text.size());
  append(out, codes);
  return out;
}

}  // namespace kvasir::unicode
