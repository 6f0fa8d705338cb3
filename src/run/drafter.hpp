// Drafters propose the tokens that follow a text. The model then computes all of them in the step of its next
// token, and those that it would have chosen itself are free.
//
// A draft token is right if it is the token that the request's sampler draws, with the random number that it would have
// had without drafts. So whatever drafters do, an answer is the one that it would be without them, and its
// distribution, too.
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

namespace kvasir::store {
class Library;
}

namespace kvasir::run {

inline constexpr int kMostDraft = 16;  // tokens that are drafted behind one text in one step

// What a drafter remembers of one text.
class DraftText {
 public:
  virtual ~DraftText() = default;
  std::string message;  // what the user should know, from the beginning on; usually empty
};

// What is to be drafted behind one text. The drafter appends to `draft_tokens`.
struct Round {
  std::span<const std::int32_t> ids;  // prompt and answer so far; ids of rows (model/rows.hpp) are below -1
  int most = 0;                       // tokens wanted at most, >= 1
  double worth = 0;                   // a draft token pays if it and all before it are right with this chance
  Answer* answer = nullptr;
  const Acceptance* acceptance = nullptr;  // of this drafter in this text
  DraftText* text = nullptr;
  std::vector<DraftToken>* draft_tokens = nullptr;  // room for kMostDraft; empty
  kv::Sequence* sequence = nullptr;                 // of the model's cache: all of `ids` but the last
};

// What a step computed of a text, for drafters that read the model's states.
struct Computed {
  std::span<const std::int32_t> ids;        // prompt and answer so far
  std::int64_t first = 0;                   // of the tokens that the step computed and that are right ...
  std::int64_t count = 0;                   // ... how many there are behind each other
  int row = 0;                              // of the first one in the step
  const model::Forward* forward = nullptr;  // state_of gives the states
};

class Drafter {
 public:
  virtual ~Drafter() = default;
  // Null: it has nothing for texts of this tenant, or of requests that reuse nothing. `room`: tokens that the text may
  // have.
  virtual std::unique_ptr<DraftText> begin(const std::string& tenant, bool reuse, const Answer& answer,
                                           std::size_t room) = 0;
  // Whether it wants to see what the model computes of a text, from the first token of the prompt on; of a prompt with
  // rows, from behind the last one on.
  virtual bool reads_states() const { return false; }
  virtual void computed(DraftText& /*text*/, const Computed& /*step*/) {}
  // Several texts at once.
  virtual void draft(std::span<Round* const> rounds) = 0;
  // The text is complete, or its request was cancelled.
  virtual void end(std::unique_ptr<DraftText> /*text*/, std::span<const std::int32_t> /*ids*/) {}
  // Where notes outlive the process; it outlives the calls of keep().
  virtual void open(store::Library& /*library*/) {}
  // Writes what is to outlive the process.
  virtual void keep() {}
  // Seconds that a token costs, of all texts of a call together; 0: none worth mentioning.
  virtual double token_seconds() const { return 0; }
};

// An entry of drafters/. parameters: what stands behind "NAME:". Throws Error(kBadInput).
struct DrafterKind {
  std::string_view help;
  std::unique_ptr<Drafter> (*make)(Engine& engine, int texts, const std::string& parameters);
  // What it will take beside an engine of these options whose cache has `pool_tokens` tokens. Throws as `make`, as far
  // as it can be known from headers of files. Null: little.
  Beside (*memory)(const EngineOptions& engine, int texts, std::int64_t pool_tokens,
                   const std::string& parameters) = nullptr;
  // Chances of draft tokens by their confidence, until some were checked. Low ones cost nothing where draft tokens are
  // free: those that are not computed are checked, too.
  std::array<double, kConfidence> priors = {0.04, 0.08, 0.15, 0.3, 0.5, 0.7, 0.8, 0.9};
};

std::span<const Entry<DrafterKind>> drafters();

}  // namespace kvasir::run
