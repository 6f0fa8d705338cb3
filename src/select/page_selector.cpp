// What a cache asks of a selector with its parameters (kv/page_selector.hpp).
#include <algorithm>

#include "select/selection.hpp"

namespace kvasir::select {

std::int64_t SelectSpec::exact_prompt(const kv::Layout& l, std::int64_t n) const {
  if (window > 0) n = std::max<std::int64_t>(0, n - window);  // their queries are wanted
  if (!chooses_for_prompts() || dense_layers >= static_cast<int>(l.asked.size())) return n;
  for (std::int64_t first = 0; first < n; first += prompt) {
    // As of the last of them: a page that is sealed in between is chosen, or not, by those behind it.
    const std::int64_t sealed = l.sealed_at(std::min(first + prompt, n) - 1);
    if (sealed > 0 && !cut_blocks(*this, first + 1, sealed * kv::kPageTokens).dense) return first;
  }
  return n;
}

std::size_t SelectSpec::summary_bytes(const kv::LayerShape& s) const {
  return kv::round64(select::summary_bytes(*this, s.head_dim)) + kv::round64(mean_bytes(*this, s.sum_dim()));
}

std::size_t SelectSpec::sealing_floats(const kv::LayerShape& s) const {
  return selector->width ? summary_floats(*this, s.head_dim) : 0;
}

int SelectSpec::runs_per_page() const { return select::runs_per_page(block); }

kv::PageSelector::Memory SelectSpec::memory(const kv::Layout& layout, int sequences, int threads) const {
  const SelectLayout l(*this, layout);
  return {.pages = l.outlines(),
          .scratch = kv::product({static_cast<std::size_t>(sequences), l.state_bytes}) + l.answer_bytes(sequences) +
                     kv::product({static_cast<std::size_t>(threads), l.question_bytes()})};
}

bool SelectSpec::asks(const kv::LayerLayout& layer) const { return layer.asked >= dense_layers; }

// As of the first of the positions that share a choice, whichever is computed first.
kv::BlockCut SelectSpec::prompt_cut(const kv::Layout& layout, std::int64_t position) const {
  return cut_blocks(*this, position / prompt * prompt + 1, layout.sealed_at(position) * kv::kPageTokens);
}

void SelectSpec::cut_prompt(const kv::Layout& layout, kv::Part* part) const {
  part->prompt = prompt > 0;
  if (!part->prompt) return;
  part->first = part->position / prompt * prompt;
  part->cut = prompt_cut(layout, part->position);
  // What reads everything stays together.
  std::int64_t end = part->first + prompt;
  while (part->cut.dense && end < part->position + part->tokens && prompt_cut(layout, end).dense) end += prompt;
  part->tokens = static_cast<int>(std::min<std::int64_t>(part->tokens, end - part->position));
}

// The mass that a choice holds is measured.
static bool is_measured(const SelectSpec& s, const kv::Part& p) {
  if (s.meter == 0) return false;
  if (!p.prompt) return (p.position + p.tokens - 1) % s.meter == 0;
  return p.position == p.first && p.first / s.prompt % std::max(1, s.meter / s.prompt) == 0;
}

void SelectSpec::decide(const kv::Layout& layout, bool decode, kv::Part* part) const {
  const bool generated = decode && part->few;
  if (generated)
    part->cut = cut_blocks(*this, part->position + part->tokens, layout.sealed_at(part->position) * kv::kPageTokens);
  part->chosen = (part->prompt || generated) && !part->cut.dense;
  part->measured = part->chosen && is_measured(*this, *part);
  part->reads_keys = part->measured || (part->chosen && (preselect != 0 || selector->exact));
}

std::unique_ptr<kv::Selection> SelectSpec::open(Team& team, const kv::Arena& arena, int max_slices) const {
  return std::make_unique<BlockSelection>(team, *this, arena, max_slices);
}

}  // namespace kvasir::select
