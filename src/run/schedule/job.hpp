// One request inside the scheduler: what was asked, its tokens, and what the scheduler's parts note about it. Whatever
// is one part's is written by that part alone, but that all of it goes with the sequence (Lifecycle).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kv/cache.hpp"
#include "kv/page.hpp"
#include "run/answer.hpp"
#include "run/drafting.hpp"
#include "run/pooling.hpp"
#include "run/row_loader.hpp"
#include "run/service.hpp"
#include "select/spec.hpp"
#include "store/library.hpp"

namespace kvasir::run {

struct Job {
  // Asked.
  RequestId id = 0;
  ServiceRequest asked;
  std::vector<float> adapters;  // their scales, as model::Input has them
  std::string space;            // of caches: only jobs of the same meet; the tenant, with scales of its own
  std::shared_ptr<Listener> listener;

  // Its tokens, and their keys and values.
  std::unique_ptr<Answer> answer;
  std::vector<std::int32_t> ids;  // prompt, then the answer
  std::int64_t prompt = 0;        // tokens of it
  kv::Sequence* sequence = nullptr;
  std::unique_ptr<Pooled> vector;   // with Request::pooling, once something of it is computed
  std::vector<TokenRecord> scores;  // of the last step, with Request::prompt_logprobs
  std::int64_t scored = 0;          // tokens of the prompt whose log-probabilities were said

  std::unique_ptr<Drafting::Text> draft;  // of Speculation: with drafts, once its answer has begun

  // Of Sharing: another job computes the first `share` tokens for this one, too.
  struct Lead {
    Job* job = nullptr;
    std::int64_t share = 0;
  } leader;

  // Of Reuse, with a library.
  struct Kept {
    std::shared_ptr<store::Library::Search> search;  // not over, or its answer not looked at yet
    std::unique_ptr<store::Chain> chain;
    std::vector<std::int64_t> checkpoints;  // that are still to come, the next one last
    bool prompt_offered = false;

    // The first whole pages of so many tokens are those of another job.
    void share(const Kept& leader, std::int64_t tokens) {
      if (chain && leader.chain) chain->share(*leader.chain, tokens / kv::kPageTokens);
    }
  } kept;

  // Of Blending, with text that was relocated: what is computed of it, in order; its tokens do not follow each other.
  struct Blended {
    std::vector<std::int32_t> ids;
    std::vector<model::RowRun> runs;  // among them, by their places in `ids`
    std::int64_t known_rows = 0;      // of other runs
    std::size_t done = 0;
    bool on() const { return !ids.empty(); }
    bool pending() const { return done < ids.size(); }
    void computed(std::size_t tokens) { done = std::min(ids.size(), done + tokens); }
  } blended;

  // Of AwaitedRows: rows of its prompt that are computed beside the steps.
  struct Rows {
    std::vector<RowLoader::Block> wanted;  // not ready when last looked at, in the prompt's order
    double since = 0;                      // that it can do nothing but wait for some; 0: it does not
    std::int64_t said = -1;                // parts of the work that its listener knows of
  } rows;

  // Seconds; 0: not yet.
  struct Times {
    double submitted = 0, started = 0, first_token = 0;
  } at;

  weights::StreamStats weights_before;  // when it started
  Outcome outcome;
  bool over = false;  // finished; goes at the next sweep

  std::int64_t cached() const { return sequence ? kv::Cache::length(*sequence) : 0; }
  std::int64_t length() const { return static_cast<std::int64_t>(ids.size()); }
  std::int64_t written() const { return answer ? answer->size() : 0; }  // tokens of the answer
  bool waits() const { return leader.job || kept.search; }
  // Elements that it computes in a row, of which the first `done` are there, and the runs of rows among these: its
  // text, or what is blended of it.
  struct Way {
    std::span<const model::RowRun> runs;
    std::int64_t done;
  };
  Way way() const {
    return blended.pending() ? Way{blended.runs, static_cast<std::int64_t>(blended.done)}
                             : Way{asked.request.runs, cached()};
  }
  // The next rows are not computed yet (AwaitedRows).
  bool lacks_rows() const;
  // How far up to `end` of its way all rows are there.
  std::int64_t rows_end(std::int64_t end) const;
  bool runs() const { return !over && !waits() && !lacks_rows(); }
  // Log-probabilities of the prompt's tokens need its logits, so nothing of it is taken from elsewhere; nor is what a
  // shift left, which nobody else has.
  bool reuses() const { return asked.reuse && !asked.request.prompt_logprobs && !pools() && outcome.shifts == 0; }
  bool pools() const { return asked.request.pooling != model::Pooling::kNone; }
  bool scores_prompt() const { return asked.request.prompt_logprobs && scored < prompt; }
  // The next step's one token is the one that was generated last.
  bool decodes() const { return sequence && !blended.pending() && length() > prompt && cached() == length() - 1; }
  // Tokens that it computes next.
  std::span<const std::int32_t> next() const {
    return blended.pending() ? std::span(blended.ids).subspan(blended.done)
                             : std::span(ids).subspan(static_cast<std::size_t>(cached()));
  }
  // Draft tokens behind it that the next step computes.
  int drafted() const { return draft && decodes() ? draft->drafted() : 0; }
  std::shared_ptr<const kv::PageSelector> selector() const {
    return select::read_selector(asked.request.select, "select");
  }
  // First tokens of its prompt that are computed as every request computes them.
  std::int64_t exact_prompt(const kv::Cache& cache) const {
    return cache.rules().exact_prompt(selector().get(), length());
  }

  // The answer's next token, by its row of logits and so many tokens in the cache. False: the answer is over.
  bool draw(std::span<const float> row, std::int64_t tokens);
  void say_rest();  // text that was held back and that no token brought
  void note_first_token();
};
using Jobs = std::vector<std::unique_ptr<Job>>;

}  // namespace kvasir::run
