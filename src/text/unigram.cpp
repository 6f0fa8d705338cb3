#include "text/unigram.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace kvasir::text {
namespace {

constexpr double kUnknownPenalty = 10.0;

struct Step {
  double score;
  std::uint32_t size;  // of the token that ends here; 0: none yet
  std::int32_t id;     // -1: a character that is no token
};

}  // namespace

Unigram::Unigram(const Vocabulary& vocabulary, std::vector<double> scores, bool falls_back)
    : vocabulary_(vocabulary),
      scores_(std::move(scores)),
      trie_(vocabulary, vocabulary.of_type({TokenType::kNormal, TokenType::kUndefined})),
      bytes_(vocabulary),
      falls_back_(falls_back) {
  double worst = 0.0;
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary.type(id) != TokenType::kNormal) continue;
    worst = std::min(worst, scores_[static_cast<std::size_t>(id)]);
    if (vocabulary.piece(id).find(' ', 1) != std::string_view::npos) words_ = false;
  }
  unknown_score_ = worst - kUnknownPenalty;
}

void Unigram::encode(std::string_view word, std::vector<std::int32_t>& out) const {
  std::vector<Step> steps(word.size() + 1, {-std::numeric_limits<double>::infinity(), 0, -1});
  steps[0].score = 0.0;
  for (std::size_t i = 0; i < word.size();) {
    const double score = steps[i].score;
    const auto reach = [&](std::size_t size, std::int32_t id, double gain) {
      Step& step = steps[i + size];
      if (step.size == 0 || score + gain > step.score) step = {score + gain, static_cast<std::uint32_t>(size), id};
    };
    const std::size_t character = unicode::decode_char(word.substr(i)).size;
    bool known = false;
    trie_.prefixes(word.substr(i), [&](std::size_t size, std::int32_t id) {
      known = known || size == character;
      reach(size, id, scores_[static_cast<std::size_t>(id)]);
    });
    if (!known) reach(character, -1, unknown_score_);
    i += character;
  }
  // From the end of the word, so that ids are turned round.
  const auto begin = static_cast<std::ptrdiff_t>(out.size());
  bool unknown = false;  // the token behind is no known one either: both become one
  for (std::size_t i = word.size(); i > 0; i -= steps[i].size) {
    if (steps[i].id >= 0) {
      out.push_back(steps[i].id);
    } else if (falls_back_) {
      const auto at = static_cast<std::ptrdiff_t>(out.size());
      bytes_.append(word.substr(i - steps[i].size, steps[i].size), out);
      std::reverse(out.begin() + at, out.end());
    } else if (!unknown && vocabulary_.ids().unknown >= 0) {
      out.push_back(vocabulary_.ids().unknown);
    }
    unknown = steps[i].id < 0;
  }
  std::reverse(out.begin() + begin, out.end());
}

}  // namespace kvasir::text
