// What the parts of a selection share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "kv/step.hpp"
#include "select/memory.hpp"
#include "select/question.hpp"

namespace kvasir::select {

// The selector of a part's sequence. REQUIRES: Sequence::selects(), with a selector that this cache does not refuse
inline const SelectSpec& spec_of(const kv::Sequence& s) { return static_cast<const SelectSpec&>(*s.selector); }
inline const SelectSpec& spec_of(const kv::Part& p) { return spec_of(*p.sequence); }

inline bool keeps_choice(const kv::Part& p) { return p.prompt ? spec_of(p).keeps_choices() : spec_of(p).keeps_state(); }

// What the selector asks representatives with, (rows, pitch) in q.asked. Returns the rows.
inline int load_question(const kv::LayerStep& step, const kv::Part& p, int head, const Question& q, int worker) {
  const Selector& selector = *spec_of(p).selector;
  const kv::Rows rows = step.load_queries(p, head, 0, p.asking(), step.scratch(worker));
  const int d = step.layer().shape.head_dim;
  const int pitch = summary_pitch(selector, d);
  for (int r = 0; r < rows.count; ++r) {
    float* const to = q.asked + static_cast<std::ptrdiff_t>(r) * pitch;
    std::fill_n(to, pitch, 0.0f);
    const float* const from = rows.q + static_cast<std::ptrdiff_t>(r) * d;
    selector.ask ? selector.ask(from, d, to) : void(std::copy_n(from, d, to));
  }
  return rows.count;
}

// f(block) for every block of a head's runs.
template <class F>
void each_block(std::span<const kv::PageRun> runs, int block, F&& f) {
  for (const kv::PageRun& run : runs) {
    const std::int64_t page = std::int64_t{run.page} * kv::kPageTokens;
    for (int t = run.begin; t < run.end; t += block)
      if (!run.is_hidden(t)) f((page + t) / block);
  }
}

}  // namespace kvasir::select
