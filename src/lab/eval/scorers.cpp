#include "lab/eval/scorers.hpp"

#include <algorithm>
#include <map>

namespace kvasir::lab::eval {
namespace {

using Words = std::vector<std::string>;

bool is_ascii_word(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }
char ascii_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
bool is_ascii_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_ascii_punctuation(char c) {
  return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

Words split_spaces(std::string_view text) {
  Words words;
  std::string word;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && !is_ascii_space(text[i])) {
      word += text[i];
    } else if (!word.empty()) {
      words.push_back(std::move(word));
      word.clear();
    }
  }
  return words;
}

// Bytes of the UTF-8 character at i; 1 where there is none.
std::size_t character_bytes(std::string_view text, std::size_t i) {
  const auto c = static_cast<unsigned char>(text[i]);
  const std::size_t n = c < 0xc0 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
  return i + n <= text.size() ? n : 1;
}

// Runs of lower-case letters and digits of ASCII; with `others` every character beyond it, too.
Words plain_words(std::string_view text, bool others) {
  Words words;
  std::string word;
  for (std::size_t i = 0; i <= text.size();) {
    const char c = i < text.size() ? ascii_lower(text[i]) : ' ';
    if (is_ascii_word(c)) {
      word += c;
      ++i;
      continue;
    }
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
    const std::size_t n = i < text.size() ? character_bytes(text, i) : 1;
    if (others && n > 1) words.emplace_back(text.substr(i, n));
    i += n;
  }
  return words;
}

double f1_of(double common, std::size_t predicted, std::size_t right) {
  if (common == 0 || predicted == 0 || right == 0) return 0;
  const double precision = common / static_cast<double>(predicted), recall = common / static_cast<double>(right);
  return 2 * precision * recall / (precision + recall);
}

double f1_of_words(const Words& predicted, const Words& right) {
  std::map<std::string, std::int64_t> left;
  for (const std::string& w : right) ++left[w];
  double common = 0;
  for (const std::string& w : predicted)
    if (const auto at = left.find(w); at != left.end() && at->second-- > 0) ++common;
  return f1_of(common, predicted.size(), right.size());
}

// CJK ideographs one by one, without the punctuation of either script; runs of ASCII as words.
Words chinese_words(std::string_view text) {
  Words words;
  std::string word;
  const auto end_word = [&] {
    if (!word.empty()) words.push_back(std::move(word));
    word.clear();
  };
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t n = character_bytes(text, i);
    if (n == 1) {
      const char c = ascii_lower(text[i]);
      is_ascii_word(c) ? void(word += c) : end_word();
    } else {
      end_word();
      const auto lead = static_cast<unsigned char>(text[i]);
      // U+3400 to U+9FFF begin with E3 90 to E9; U+3000 to U+303F and U+FF00 to U+FFEF are punctuation.
      if (n == 4 || (lead >= 0xe4 && lead <= 0xe9) || (lead == 0xe3 && static_cast<unsigned char>(text[i + 1]) >= 0x90))
        words.emplace_back(text.substr(i, n));
    }
    i += n;
  }
  end_word();
  return words;
}

Words numbers_in(std::string_view text) {
  Words numbers;
  std::string number;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] >= '0' && text[i] <= '9') {
      number += text[i];
    } else if (!number.empty()) {
      numbers.push_back(std::move(number));
      number.clear();
    }
  }
  return numbers;
}

std::string_view first_line_of(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
  return text.substr(0, text.find('\n'));
}

}  // namespace

const char* name_of(Scorer scorer) {
  switch (scorer) {
    case Scorer::kF1:
      return "F1";
    case Scorer::kF1Chinese:
      return "F1 of characters";
    case Scorer::kRougeL:
      return "ROUGE-L";
    case Scorer::kExact:
      return "exact";
    case Scorer::kClass:
      return "class";
    case Scorer::kParagraph:
      return "paragraph";
    case Scorer::kCount:
      return "count";
  }
  return "";
}

std::string normalised(std::string_view text) {
  std::string plain;
  for (const char c : text)
    if (!is_ascii_punctuation(c)) plain += ascii_lower(c);
  std::string joined;
  for (const std::string& w : split_spaces(plain)) {
    if (w == "a" || w == "an" || w == "the") continue;
    joined += (joined.empty() ? "" : " ") + w;
  }
  return joined;
}

double f1(std::string_view predicted, std::string_view answer) {
  return f1_of_words(split_spaces(normalised(predicted)), split_spaces(normalised(answer)));
}

double f1_chinese(std::string_view predicted, std::string_view answer) {
  return f1_of_words(chinese_words(predicted), chinese_words(answer));
}

double rouge_l(std::string_view predicted, std::string_view answer) {
  const Words a = plain_words(predicted, false), b = plain_words(answer, false);
  std::vector<std::size_t> longest(b.size() + 1);  // common subsequence of the words so far with the first ones of b
  for (const std::string& word : a) {
    std::size_t before = 0;  // of one word less of each
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t here = longest[j + 1];
      longest[j + 1] = word == b[j] ? before + 1 : std::max(here, longest[j]);
      before = here;
    }
  }
  return f1_of(static_cast<double>(longest.back()), a.size(), b.size());
}

double within(std::string_view predicted, std::string_view answer) {
  const Words a = plain_words(predicted, true), b = plain_words(answer, true);
  if (b.empty()) return a.empty() ? 1 : 0;
  return std::search(a.begin(), a.end(), b.begin(), b.end()) != a.end() ? 1 : 0;
}

double class_share(std::string_view predicted, std::string_view answer, std::span<const std::string> classes) {
  double named = 0;
  bool right = false;
  for (const std::string& name : classes) {
    if (predicted.find(name) == predicted.npos) continue;
    if (name != answer && answer.find(name) != answer.npos) continue;
    ++named;
    right = right || name == answer;
  }
  return right ? 1 / named : 0;
}

double number_share(std::string_view predicted, std::string_view answer) {
  const Words wanted = numbers_in(answer), found = numbers_in(predicted);
  if (wanted.empty() || found.empty()) return 0;
  return static_cast<double>(std::count(found.begin(), found.end(), wanted.front())) /
         static_cast<double>(found.size());
}

double score(Scorer scorer, std::string_view predicted, std::span<const std::string> answers,
             std::span<const std::string> classes, bool first_line) {
  if (first_line) predicted = first_line_of(predicted);
  double best = 0;
  for (const std::string& answer : answers) {
    const double one = scorer == Scorer::kF1          ? f1(predicted, answer)
                       : scorer == Scorer::kF1Chinese ? f1_chinese(predicted, answer)
                       : scorer == Scorer::kRougeL    ? rouge_l(predicted, answer)
                       : scorer == Scorer::kExact     ? within(predicted, answer)
                       : scorer == Scorer::kClass     ? class_share(predicted, answer, classes)
                                                      : number_share(predicted, answer);
    best = std::max(best, one);
  }
  return best;
}

}  // namespace kvasir::lab::eval
