// A choice of selector with its parameters, as users write it: quest:budget=4096:block=64:heads=shared.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "kv/page_run.hpp"
#include "kv/page_selector.hpp"
#include "select/selector.hpp"

namespace kvasir::select {

// How the heads of a group (or of all groups) agree on blocks.
enum class Vote {
  kSum,   // the scores are added
  kBest,  // every head's scores count from its best block's, and the head that wants a block most decides
  kMass,  // scores are exponents of 2: the shares of their sum are added
};

struct SelectSpec final : kv::PageSelector {
  std::string name = "all";  // as the user wrote it
  const Selector* selector = nullptr;
  std::string kind = "all";  // the entry that `selector` is

  int block = 64;              // tokens: 1, 8, 16, 32, 64, 128
  std::int64_t budget = 4096;  // tokens that are read, the raw ones of whole blocks included
  double share = 0;            // > 0: that share of the tokens in place of a number
  std::int64_t local = -1;     // newest tokens that are always read; -1: a quarter of the budget, at most 1024
  std::int64_t initial = -1;   // first tokens that are always read; -1: one block, at least 64 tokens
  int anchors = 1;
  int token_step = 1;          // positions between choices
  int layer_step = 1;          // layers that share a choice
  int dense_layers = 0;        // first layers that read everything
  bool shared = false;         // one choice for all KV heads
  std::int64_t preselect = 0;  // blocks that stay choosable of those before the answer; -1: as many as the budget
  std::int64_t pool = -1;      // in its votes tokens on both sides of a block count, too; -1: see pooled()
  int window = 0;              // so many last tokens of the prompt vote; 0: the answer's first token does
  Vote vote = Vote::kMass;
  double p = 0;           // > 0: the fewest blocks with that share of the estimated mass, within the budget
  std::int64_t from = 0;  // shorter contexts are read whole
  int meter = 64;         // positions between measurements of the mass that a choice holds; 0: none
  double aim = 0;         // > 0: measured mass that every layer's own p is moved towards, from `p` on
  double floor = 0;       // where that measured mass is less, the step reads everything
  int prompt = 0;         // positions of a prompt that one choice serves, a divisor of 128; 0: prompts read everything
  bool unread = false;    // what is not read counts as the mean of its values, with its estimated mass

  std::string_view text() const override { return name; }
  bool dense() const override { return selector->dense && preselect == 0; }
  bool keeps_state() const override { return token_step > 1 || layer_step > 1 || preselect != 0; }
  bool adapts() const { return aim > 0 && p > 0 && meter > 0; }
  bool keeps_choices() const { return keeps_state() || prompt > 1; }
  bool chooses_for_prompts() const { return prompt > 0 && !dense(); }
  // A quarter of a block; of single tokens the three on both sides, a kernel of 7 as SnapKV has it.
  int pooled() const { return pool >= 0 ? static_cast<int>(pool) : block >= 4 ? block / 4 : 3; }
  int blocks_per_page() const { return kv::kPageTokens / block; }
  // Tokens that are read of n, at least one block.
  std::int64_t budget_of(std::int64_t n) const;
  // What is stored with pages: "none", "quest 64" or "spread 64 with values".
  std::string summaries() const override;
  const char* refused_in(const kv::PageSelector& cache) const override;

  // What the cache asks (select/page_selector.cpp).
  std::int64_t exact_prompt(const kv::Layout& layout, std::int64_t n) const override;
  std::size_t summary_bytes(const kv::LayerShape& shape) const override;
  std::size_t sealing_floats(const kv::LayerShape& shape) const override;
  int runs_per_page() const override;
  Memory memory(const kv::Layout& layout, int sequences, int threads) const override;
  bool asks(const kv::LayerLayout& layer) const override;
  void cut_prompt(const kv::Layout& layout, kv::Part* part) const override;
  void decide(const kv::Layout& layout, bool decode, kv::Part* part) const override;
  std::unique_ptr<kv::Selection> open(Team& team, const kv::Arena& arena, int max_slices) const override;

 private:
  std::string representatives() const;
  const char* refused_beside(const SelectSpec& cache) const;
  kv::BlockCut prompt_cut(const kv::Layout& layout, std::int64_t position) const;
};

// "NAME" or "NAME:KEY=VALUE:KEY=VALUE", keys: budget (TOKENS or N%), block, local, initial, anchors, token_step,
// layer_step, dense_layers, heads (separate, shared), preselect (blocks, or budget), pool, window, vote (sum, best,
// mass), p, from,
// meter, aim, floor, prompt (positions), tail (none, mean). Throws Error(kBadInput) with `context`.
SelectSpec parse_select(std::string_view text, const std::string& context);
// The same for a cache; null for an empty text.
std::shared_ptr<const kv::PageSelector> read_selector(std::string_view text, const std::string& context);

}  // namespace kvasir::select
