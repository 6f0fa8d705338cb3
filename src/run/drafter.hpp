// Drafters guess the tokens that follow a text. The model then computes all of them in the step of its next token, and
// those that it would have chosen itself are free.
//
// A guess is right if it is the token that the request's sampler draws, with the random number that it would have had
// without drafts. So whatever drafters do, an answer is the one that it would be without them, and its distribution,
// too.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/registry.hpp"
#include "run/acceptance.hpp"
#include "run/answer.hpp"
#include "run/engine.hpp"

namespace kvasir::run {

inline constexpr int kMostDraft = 16;  // tokens that are drafted behind one text in one step

// What a drafter remembers of one text.
class DraftText {
 public:
  virtual ~DraftText() = default;
};

// What is to be drafted behind one text. The drafter appends to `guesses`.
struct Round {
  std::span<const std::int32_t> ids;  // prompt and answer so far
  int most = 0;                       // tokens wanted at most, >= 1
  double worth = 0;                   // a guess pays if it and all before it are right with this chance
  Answer* answer = nullptr;
  const Acceptance* acceptance = nullptr;  // of this drafter in this text
  DraftText* text = nullptr;
  std::vector<Guess>* guesses = nullptr;  // room for kMostDraft; empty
};

class Drafter {
 public:
  virtual ~Drafter() = default;
  // Null: it has nothing for texts of this tenant, or of requests that reuse nothing. `room`: tokens that the text may
  // have.
  virtual std::unique_ptr<DraftText> begin(const std::string& tenant, bool reuse, const Answer& answer,
                                           std::size_t room) = 0;
  // Several texts at once.
  virtual void draft(std::span<Round* const> rounds) = 0;
  // The text is complete, or its request was cancelled.
  virtual void end(std::unique_ptr<DraftText> /*text*/, std::span<const std::int32_t> /*ids*/) {}
  // Seconds that a token costs, of all texts of a call together; 0: none worth mentioning.
  virtual double token_seconds() const { return 0; }
};

// An entry of drafters/. parameters: what stands behind "NAME:". Throws Error(kBadInput).
struct DrafterKind {
  std::string_view help;
  std::unique_ptr<Drafter> (*make)(Engine& engine, int texts, const std::string& parameters);
  // Chances of guesses by their sureness, until some were checked. Low ones cost nothing where guesses are free: those
  // that are not computed are checked, too.
  std::array<double, kSureness> priors = {0.04, 0.08, 0.15, 0.3, 0.5, 0.7, 0.8, 0.9};
};

std::span<const Entry<DrafterKind>> drafters();

}  // namespace kvasir::run
