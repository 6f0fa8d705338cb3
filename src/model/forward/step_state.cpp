#include "model/forward/step_state.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.hpp"
#include "model/adapters.hpp"
#include "model/apply_norm.hpp"
#include "model/spec_fields.hpp"

namespace kvasir::model {
namespace {

// Of feed forwards that Products::make_hidden makes.
std::int64_t widest_hidden(const ModelSpec& spec) {
  std::int64_t most = 0;
  for_each<Dense>(spec, [&](const Dense& d) { most = std::max(most, d.down.columns); });
  return most;
}

std::int64_t pairs_of(const Rope& r) { return static_cast<std::int64_t>(r.frequencies.size()); }

}  // namespace

StepState::Scratch StepState::Scratch::place(ScratchPlan& plan) {
  std::int64_t pairs = 0;
  for (const Rope& r : plan.spec.ropes) pairs += pairs_of(r);
  Scratch s{};
  s.x = plan.rows(plan.spec.dim);
  s.gates = plan.rows(plan.gates);
  s.gate_width = plan.gates;
  s.cos = plan.rows(pairs);
  s.sin = plan.rows(pairs);
  s.rows = cpu::RowScratch::place(plan.widths, plan.max_tokens, plan.threads, plan.placer);
  return s;
}

StepState::StepState(Team& t, const ModelSpec& m, Attends a, int most, bool in_tiles, const Scratch& s,
                     cpu::ProductDevice* device)
    : team(t),
      spec(m),
      cache(a.cache),
      reader(a.reader),
      max_tokens(most),
      tiles(in_tiles),
      scratch(s),
      products(team, scratch.rows, device, device ? widest_hidden(m) : 0) {
  for (const Rope& r : spec.ropes) rotations.push_back({r.frequencies.data(), pairs_of(r), r.pairs});
  const auto n = static_cast<std::size_t>(max_tokens);
  slices.reserve(n);
  both.reserve(n);
  positions.reserve(n);
  places.reserve(spec.has_places() ? n : 0);
  scales.reserve(spec.adapters ? n : 0);
}

int StepState::begin(std::span<const Input> inputs) {
  slices.clear();
  both.clear();
  positions.clear();
  places.clear();
  rows = 0;
  int wanted = 0;
  for (const Input& in : inputs) {
    const int count = static_cast<int>(in.tokens.size());
    KVASIR_CHECK(count >= 1 && in.logits >= 0 && in.logits <= count);
    slices.push_back({in.sequence, rows, count, in.decode});
    KVASIR_CHECK((in.sequence != nullptr) == (cache != nullptr || reader != nullptr) && (!reader || count == 1));
    for (int i = 0; i < count; ++i) {
      positions.push_back(in.sequence ? kv::Cache::position(*in.sequence, i) : i);
      if (spec.has_places()) places.push_back(position_of(in.runs, positions.back()));
    }
    rows += count;
    wanted += in.logits;
    const std::size_t first = both.size();  // it never moves: there are no more runs than rows
    const std::span<const std::int64_t> own = std::span(positions).last(in.tokens.size());
    KVASIR_CHECK(in.runs.empty() || own.front() == in.at);
    for (const RowRun& run : in.runs) {
      if (!run.block->both_ways()) continue;
      const auto begin = std::lower_bound(own.begin(), own.end(), run.begin);
      if (begin == own.end() || *begin >= run.end()) continue;
      KVASIR_CHECK(*begin == run.begin && own.end() - begin >= run.block->count() &&
                   *(begin + run.block->count() - 1) == run.end() - 1);
      both.push_back({run.begin, run.end(), run.block->sight() == Sight::kAllInWindows});
    }
    slices.back().both = std::span(both).subspan(first);
  }
  KVASIR_CHECK(rows >= 1 && rows <= max_tokens);
  take_scales(inputs);
  return wanted;
}

void StepState::take_scales(std::span<const Input> inputs) {
  scales.clear();
  if (!spec.adapters) return;
  bool some = false;
  for (const Input& in : inputs) {
    const std::span<const float> own = in.adapters.empty() ? spec.adapters->scales() : in.adapters;
    KVASIR_CHECK(own.size() == spec.adapters->scales().size());
    some = some || std::any_of(own.begin(), own.end(), [](float s) { return s != 0.0f; });
    scales.insert(scales.end(), in.tokens.size(), own.data());
  }
  if (!some) scales.clear();
}

Angles StepState::angles(int rope, std::int64_t row) const {
  const Rope& r = spec.ropes[static_cast<std::size_t>(rope)];
  std::int64_t at = row * pairs_of(r);
  for (int i = 0; i < rope; ++i) at += max_tokens * pairs_of(spec.ropes[static_cast<std::size_t>(i)]);
  return {scratch.cos + at, scratch.sin + at, pairs_of(r), r.pairs};
}

// position * frequency in double, because a float angle loses digits at long contexts.
void StepState::compute_angles() {
  team.parallel_for(rows, cpu::kRowGrain, [&](std::int64_t begin, std::int64_t end, int) {
    std::int64_t first = 0;
    for (const Rope& r : spec.ropes) {
      const std::int64_t pairs = pairs_of(r);
      for (std::int64_t row = begin; row < end; ++row)
        for (std::int64_t i = 0; i < pairs; ++i) {
          const auto at = static_cast<std::size_t>(row), pair = static_cast<std::size_t>(i);
          const std::int64_t position =
              r.offset + (r.axes.empty() ? positions[at] : places[at][static_cast<std::size_t>(r.axes[pair])]);
          const double angle = static_cast<double>(position) * r.frequencies[pair];
          scratch.cos[first + row * pairs + i] = static_cast<float>(std::cos(angle)) * r.magnitude;
          scratch.sin[first + row * pairs + i] = static_cast<float>(std::sin(angle)) * r.magnitude;
        }
      first += max_tokens * pairs;
    }
  });
}

void StepState::prepare(cpu::Rows& r, std::span<const cpu::Matrix* const> users, const float* x,
                        const Norm& norm) const {
  const std::int64_t k = users[0]->k;
  if (!norm) return products.prepare(r, users, x, k, {});
  products.prepare(r, users, x, k, [&](const float* from, float* out) { apply(norm, from, out, k); });
}

void StepState::multiply(cpu::Rows& r, const float* x, const Norm& norm, std::initializer_list<Product> wanted) const {
  std::array<const cpu::Matrix*, cpu::kMostAddends> users;
  std::array<float*, cpu::kMostAddends> outs;
  std::size_t count = 0;
  for (const Product& p : wanted) {
    if (!p.of) continue;
    KVASIR_CHECK(count < users.size());
    users[count] = &p.of.bound;
    outs[count++] = p.out;
  }
  prepare(r, {users.data(), count}, x, norm);
  products.multiply(r, {users.data(), count}, {outs.data(), count});
}

void StepState::make_hidden(cpu::Rows& r, const Dense& feed) const {
  products.make_hidden(r,
                       {feed.activation, feed.gate ? &feed.gate.bound : nullptr, feed.gate.bias.bound, feed.up.bound,
                        feed.up.bias.bound, &feed.xielu},
                       feed.down.bound);
}

}  // namespace kvasir::model
