// Reuse of texts that stand at another place (architecture, section 2: borrowed pages). What is known of a prompt at
// other places is read there by turned queries, and a part of its rows is computed again, so that they know the text
// that stands before them now (CacheBlend: Yao et al. 2025, arXiv:2405.16444; first rows: Hu et al. 2024, EPIC,
// arXiv:2410.15332). Everything behind the first such row is an approximation.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/options.hpp"
#include "run/engine.hpp"
#include "store/library.hpp"

namespace kvasir::run {

// Contexts that a prompt, what it borrows and what that is compared with may fill.
inline constexpr int kBlendContexts = 3;

struct BlendOptions {
  std::string reuse = "exact";     // "off", "exact" or "blend": what requests that say nothing get
  std::string strategy = "blend";  // "none", "first_rows", "blend"
  float ratio = 0.15f;             // of relocated rows, those that differ most are computed again
  std::int32_t first_rows = 16;    // of every relocated run, which are computed again
  std::int32_t check_layer = 0;    // whose keys and values say how much rows differ; 0: a tenth of the layers
  std::int32_t second_layer = 0;   // where those that differ most are compared again; 0: nowhere

  // As the strategy has them.
  float repaired_ratio() const { return strategy == "blend" ? ratio : 0.0f; }
  std::int32_t forced_rows() const { return strategy == "none" ? 0 : first_rows; }
};
const OptionTable<BlendOptions>& blend_table();

// Of an engine whose scheduler computes `running` requests together and has these options: blending compares what it
// borrows with what a further sequence computes, and so does the test of the model, when none runs.
int sequences_for(const BlendOptions& options, int running);

// The deeper the check, the better rows are chosen, and the longer it takes: docs/results/blend.md. So all rows are
// compared in an early layer, and, if it is wanted, those that differ most there, kCandidates times as many as are
// computed, in a later one, behind what is known of all others (gradual filtering: CacheBlend, section 4.3).
inline constexpr int kCheckShare = 10;  // one in so many layers
inline constexpr float kCandidates = 2;
struct Checks {
  int first = -1;   // has keys of its own, as the second; -1: nothing is compared
  int second = -1;  // -1: the first one chooses
};
Checks checks_of(const model::ModelSpec& spec, const BlendOptions& options);

// How a text of n tokens is made of which the first `exact` are there.
struct BlendPlan {
  std::vector<store::Moved::Run> runs;  // relocated
  std::vector<std::int64_t> fresh;      // positions, ascending, that are computed: outside of runs, and repaired rows
  std::int64_t exact = 0;
  std::int64_t relocated = 0;  // rows of runs that are read as they are
  std::int64_t repaired = 0;   // rows of runs that are computed
  std::int64_t elements = 0;   // of runs: rows of pictures and the like, which are read as they are, all of them
  double deviation = 0;        // mean of relocated rows, see deviations(); 0: they were not compared
};

// Runs of `moved` behind the exact tokens that pay: the last token is computed, and so is what lies between them.
// Without repair yet: only forced rows are. `rows`: those of the text that are no tokens. A run has all of such rows or
// none, and they are never computed again: whoever has them need not encode the picture.
BlendPlan plan_blend(std::int64_t exact, std::int64_t n, const store::Moved& moved, const BlendOptions& options,
                     std::span<const model::RowRun> rows = {});
// Those of `rows` that the plan computes, by their places among its fresh tokens. REQUIRES: plan_blend saw them.
std::vector<model::RowRun> fresh_rows(const BlendPlan& plan, std::span<const model::RowRun> rows);
// Share of the time of computing [exact, n) that the plan will take, by rows and layers.
double share_of_time(const BlendPlan& plan, std::int64_t n, const Checks& checks, const BlendOptions& options,
                     int layers);

// Stored pages of a plan's runs as pages of the cache. Sequences that borrow them keep them beyond this.
class AdoptedPages {
 public:
  // Throws Error(kMemory).
  AdoptedPages(kv::Cache& cache, const store::Moved& moved, const BlendPlan& plan);
  ~AdoptedPages() { drop(); }
  AdoptedPages(const AdoptedPages&) = delete;
  AdoptedPages& operator=(const AdoptedPages&) = delete;
  std::int32_t slot(std::size_t page) const { return slots_.at(page); }

 private:
  void drop();
  kv::Cache& cache_;
  std::map<std::size_t, std::int32_t> slots_;  // by index in Moved::pages
};

// How much the keys and values of a layer differ from those of the pages, for every token of the plan's runs, in order:
//   |k - k'|^2 / mean |k|^2 + |v - v'|^2 / mean |v|^2
// k, v: computed behind the text that stands before them now, as far as that layer; k', v': the pages', turned. The
// first `exact` tokens are those of `prefix`. With `borrowed` the text is the plan's: rows that are not fresh are read
// as they are, and -1 stands for them. Throws Error(kMemory) when cache or sequences have no room.
struct BlendText {
  std::span<const std::int32_t> ids;
  std::span<const model::RowRun> rows = {};  // as model::Input has them, and these
  std::span<const float> adapters = {};
};
std::vector<float> deviations(Engine& engine, const kv::Sequence& prefix, const BlendText& text,
                              const store::Moved& moved, const BlendPlan& plan, int layer,
                              const AdoptedPages* borrowed = nullptr);

// Adds the tokens with the largest deviations: `ratio` of those in runs that are not fresh yet, 1: all of them.
void add_repairs(BlendPlan* plan, std::span<const float> deviations, float ratio);

// Both, as the options want it. Throws as deviations.
void repair(Engine& engine, const kv::Sequence& prefix, const BlendText& text, const store::Moved& moved,
            const AdoptedPages& pages, const BlendOptions& options, BlendPlan* plan);

// The sequence, of plan.exact tokens, gets the runs; what it computes next are plan.fresh. Throws Error(kMemory).
void borrow(kv::Cache& cache, kv::Sequence* sequence, const AdoptedPages& pages, const BlendPlan& plan);

}  // namespace kvasir::run
