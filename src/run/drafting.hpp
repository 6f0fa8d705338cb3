// Drafts for the scheduler: which drafter is asked for which text, how many draft tokens are worth a step's time, and
// what came of them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/options.hpp"
#include "run/draft_stats.hpp"
#include "run/drafter.hpp"
#include "run/pace.hpp"

namespace kvasir::run {

struct DraftOptions {
  std::vector<std::string> draft;  // NAME or NAME:PARAMETERS, asked in this order; empty: no drafts
  std::int32_t draft_tokens = 8;   // behind one text in one step at most
  bool draft_always = false;       // draft tokens are never too unlikely to be computed: for tests and measurements

  bool wanted() const { return !draft.empty(); }
};
const OptionTable<DraftOptions>& draft_table();

// Rows of a step that drafts of all texts may take together: so many more rows of logits an engine for them needs.
int drafted_rows(const DraftOptions& options, int texts);

// What drafters for an engine with these options will take; pool_tokens: see Engine::Needs. Throws Error(kBadInput) for
// unknown drafters, and what a drafter's model throws.
Beside drafts_memory(const DraftOptions& options, const EngineOptions& engine, int texts, std::int64_t pool_tokens = 0);

class Drafting {
 public:
  // Throws Error(kBadInput) for unknown drafters and their parameters, Error(kUnsupported) where the cache cannot cut
  // drafts back, and what a drafter's model throws. The engine was made for drafted_rows() more rows (Engine::Needs)
  // and must outlive this.
  Drafting(Engine& engine, const DraftOptions& options, int texts);

  // Of one request.
  struct Source {  // one drafter
    std::size_t drafter;
    std::unique_ptr<DraftText> text;
    Acceptance acceptance;
    std::vector<DraftToken> draft_tokens;  // of this step
    std::int64_t sleeps_until = 0;         // tokens of the text
    std::int64_t nap = 512;                // tokens that it sleeps the next time
  };
  struct Text {
    Answer* answer = nullptr;
    std::vector<Source> sources;
    // Of this step.
    std::span<const std::int32_t> ids;  // prompt and answer
    kv::Sequence* sequence = nullptr;   // of the model's cache
    int most = 0;                       // draft tokens that the answer and the cache have room for
    Source* from = nullptr;             // whose draft tokens may be computed
    std::vector<std::int32_t> fed;      // the answer's last token and the draft tokens that are computed
    DraftStats stats;
    int drafted() const { return fed.empty() ? 0 : static_cast<int>(fed.size()) - 1; }
  };
  // names: of drafters that this request is for; null: all. Null when none is.
  std::unique_ptr<Text> begin(const std::string& tenant, bool reuse, const std::vector<std::string>* names,
                              Answer& answer, std::size_t room);
  // Whether a request with these names has drafters that read the model's states: then it begins with its prompt, and
  // `computed` is called for every step of it, before the next call of any other.
  bool reads_states(const std::vector<std::string>* names) const;
  void computed(Text& text, const Computed& step);
  // Fills `fed` of texts whose next tokens are computed in one step, `answers` with those that have no drafts at all.
  void draft(std::span<Text* const> texts, std::int64_t answers);
  // `tokens` are those that the step gave: all but the last were drafted.
  void verified(Text& text, std::span<const std::int32_t> tokens);
  // A step took so long; its rows are answers' tokens and draft tokens.
  void stepped(std::int64_t rows, double seconds) { pace_.learn(static_cast<double>(rows), seconds); }
  void end(std::unique_ptr<Text> text, std::span<const std::int32_t> ids);
  // What drafters know may outlive the process in the library's tiers: it is read there from now on, and written there
  // now and then and by keep().
  void open(store::Library& library);
  void keep();

  // Throws Error(kBadInput) for a name that is not among the drafters.
  void check_names(std::span<const std::string> names) const;

 private:
  struct Known {
    std::string name;
    std::unique_ptr<Drafter> drafter;
    std::unique_ptr<Acceptance> acceptance;  // of all texts
  };
  static bool is_for(const Known& known, const std::vector<std::string>* names);
  void ask(std::size_t drafter, std::span<Text* const> texts, double rate);
  static void keep_possible(Text& text, Source& source);
  void share_rows(std::span<Text* const> texts, std::int64_t answers);
  double threshold(double rate) const { return options_.draft_always ? 0 : rate * pace_.row_seconds(); }

  DraftOptions options_;
  int rows_;
  std::vector<Known> known_;
  Pace pace_;
  // Of one step.
  std::vector<Round> rounds_;
  std::vector<Round*> asked_;
  struct Choice {
    double chance;  // that it and all before it are right
    Text* text;
    int place;
  };
  std::vector<Choice> candidates_;
};

}  // namespace kvasir::run
