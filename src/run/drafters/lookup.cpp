// What followed the longest end of the text where it stood before, in the prompt or the answer: prompt lookup decoding
// (Saxena 2023) with a suffix automaton (Hu et al. 2024, "SAM Decoding", section 3).
#include <algorithm>

#include "base/error.hpp"
#include "run/drafter.hpp"
#include "run/match_confidence.hpp"
#include "run/suffix_automaton.hpp"

namespace kvasir::run::drafters_lookup {
namespace {

class Text final : public DraftText {
 public:
  explicit Text(std::size_t room) : automaton_(room) {}

  void draft(const Round& round) {
    // A text that lost its middle is another one.
    if (automaton_.size() > static_cast<std::int64_t>(round.ids.size())) automaton_.clear();
    const bool grows = automaton_.size() < static_cast<std::int64_t>(round.ids.size());
    while (automaton_.size() < static_cast<std::int64_t>(round.ids.size()))
      automaton_.push(round.ids[static_cast<std::size_t>(automaton_.size())]);
    if (grows) match_ = automaton_.longest();
    if (match_.length == 0) return;
    std::vector<DraftToken>& draft_tokens = *round.draft_tokens;
    const auto known = static_cast<std::int64_t>(round.ids.size());
    for (std::int64_t i = 0; i < round.most; ++i) {
      const std::int64_t at = match_.next + i;  // beyond the text's end a period goes on
      const std::int32_t id =
          at < known ? round.ids[static_cast<std::size_t>(at)] : draft_tokens[static_cast<std::size_t>(at - known)].id;
      draft_tokens.push_back({id, confidence_of_match(match_.length + i)});
    }
  }

 private:
  SuffixAutomaton automaton_;
  SuffixAutomaton::Match match_;
};

class Lookup final : public Drafter {
 public:
  std::unique_ptr<DraftText> begin(const std::string&, bool, const Answer&, std::size_t room) override {
    return std::make_unique<Text>(room);
  }
  void draft(std::span<Round* const> rounds) override {
    for (Round* round : rounds) static_cast<Text*>(round->text)->draft(*round);
  }
};

}  // namespace

const DrafterKind entry = {"what followed the same words earlier in the prompt or the answer",
                           [](Engine&, int, const std::string& parameters) -> std::unique_ptr<Drafter> {
                             if (!parameters.empty())
                               throw Error(Code::kBadInput, "has '" + parameters + "', expected no parameters",
                                           "--draft lookup");
                             return std::make_unique<Lookup>();
                           }};

}  // namespace kvasir::run::drafters_lookup
