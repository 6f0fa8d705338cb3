#include "run/blend.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "kernel/ops.hpp"
#include "kv/page.hpp"
#include "model/relocation.hpp"

namespace kvasir::run {

using kv::kPageTokens;

const OptionTable<BlendOptions>& blend_table() {
  using O = BlendOptions;
  static const OptionTable<O> table{
      "blend",
      {{"reuse",
        &O::reuse,
        {.help = "what requests that say nothing reuse: nothing, what begins alike (the answer is the same), or known "
                 "text at any place (the answer is an approximation)",
         .choices = {"off", "exact", "blend"}}},
       {"blend_strategy",
        &O::strategy,
        {.help = "what is computed again of text that moved: nothing, the first rows of every piece, or besides them "
                 "the rows that differ most",
         .choices = {"none", "first_rows", "blend"}}},
       {"blend_ratio",
        &O::ratio,
        {.help = "with blend: share of the rows that moved that is computed again; 1 computes all, exactly",
         .low = 0,
         .high = 1}},
       {"blend_first_rows",
        &O::first_rows,
        {.help = "rows at the beginning of every piece that moved that are computed again",
         .unit = "tokens",
         .low = 0,
         .high = 4096}},
       {"blend_check_layer",
        &O::check_layer,
        {.help = "layer whose keys and values say how much a row differs; 0 is a tenth of the layers",
         .low = 0,
         .high = 1024}},
       {"blend_second_layer",
        &O::second_layer,
        {.help = "layer in which the rows that differ most are compared again, to choose among them; 0: none",
         .low = 0,
         .high = 1024}}}};
  return table;
}

int sequences_for(const BlendOptions& options, int running) { return options.reuse == "blend" ? running + 1 : running; }

Checks checks_of(const model::ModelSpec& spec, const BlendOptions& options) {
  if (options.repaired_ratio() <= 0) return {};
  const int layers = spec.layer_count();
  const auto near = [&](int layer) { return model::check_layer(spec, std::min(layer, layers - 1)); };
  Checks c;
  c.first = near(options.check_layer > 0 ? options.check_layer : std::max(1, layers / kCheckShare));
  if (options.second_layer > 0) c.second = near(options.second_layer);
  return c;
}

namespace {

// The first of `rows` that ends behind `at`; its end: none.
auto row_run_behind(std::span<const model::RowRun> rows, std::int64_t at) {
  return std::find_if(rows.begin(), rows.end(), [&](const model::RowRun& r) { return at < r.end(); });
}

// What is left of a moved run where runs of rows are whole or out, and those that are not sure are out.
store::Moved::Run with_whole_rows(store::Moved::Run run, std::span<const model::RowRun> rows) {
  for (auto r = row_run_behind(rows, run.begin); r != rows.end() && r->begin < run.end; ++r) {
    const bool sure = r->block->count() >= model::kSureRows;
    if (r->begin >= run.begin && r->end() <= run.end && sure) continue;
    if (r->begin > run.begin) {
      run.end = r->begin;
      break;
    }
    const std::int64_t cut = std::min(r->end(), run.end) - run.begin, page = run.made_at / kPageTokens;
    run.begin += cut;
    run.made_at += cut;
    run.pages.erase(run.pages.begin(), run.pages.begin() + std::min<std::ptrdiff_t>(run.made_at / kPageTokens - page,
                                                                                    std::ssize(run.pages)));
  }
  return run;
}

}  // namespace

BlendPlan plan_blend(std::int64_t exact, std::int64_t n, const store::Moved& moved, const BlendOptions& options,
                     std::span<const model::RowRun> rows) {
  KVASIR_CHECK(n > exact);
  BlendPlan plan{.exact = exact};
  std::int64_t at = exact;
  const auto compute = [&](std::int64_t end) {
    for (; at < end; ++at) plan.fresh.push_back(at);
  };
  for (store::Moved::Run run : moved.runs) {
    KVASIR_CHECK(run.begin >= at);
    run.end = std::min(run.end, n - 1);
    run = with_whole_rows(std::move(run), rows);
    // Forced rows are computed whether they are known or not, so a run that has no others is none.
    if (run.end - run.begin < std::max<std::int64_t>(store::kLeastPiece, 2 * options.forced_rows())) continue;
    run.pages.resize(static_cast<std::size_t>((run.made_at + run.end - run.begin - 1) / kPageTokens -
                                              run.made_at / kPageTokens + 1));
    compute(run.begin);
    std::int64_t forced = 0;
    for (auto r = row_run_behind(rows, at); at < run.end && forced < options.forced_rows(); ++at) {
      if (r != rows.end() && at == r->begin) at = (r++)->end();
      if (at == run.end) break;
      plan.fresh.push_back(at);
      ++forced;
    }
    for (auto r = row_run_behind(rows, run.begin); r != rows.end() && r->end() <= run.end; ++r)
      plan.elements += r->block->count();
    plan.repaired += forced;
    plan.relocated += run.end - run.begin - forced;
    at = run.end;
    plan.runs.push_back(std::move(run));
  }
  compute(n);
  return plan;
}

std::vector<model::RowRun> fresh_rows(const BlendPlan& plan, std::span<const model::RowRun> rows) {
  std::vector<model::RowRun> fresh;
  for (const model::RowRun& run : rows) {
    const auto at = std::lower_bound(plan.fresh.begin(), plan.fresh.end(), run.begin);
    if (at != plan.fresh.end() && *at == run.begin) fresh.push_back({at - plan.fresh.begin(), run.block});
  }
  return fresh;
}

double share_of_time(const BlendPlan& plan, std::int64_t n, const Checks& checks, const BlendOptions& options,
                     int layers) {
  const double known = static_cast<double>(plan.relocated + plan.repaired - plan.elements);
  double rows = static_cast<double>(plan.fresh.size());
  if (checks.first >= 0 && !plan.runs.empty()) {
    const double ratio = static_cast<double>(options.repaired_ratio());
    rows += ratio * known;
    rows += static_cast<double>(plan.runs.back().end - plan.exact - plan.elements) * checks.first / layers;
    if (checks.second > checks.first) rows += std::min(1.0, kCandidates * ratio) * known * checks.second / layers;
  }
  return rows / static_cast<double>(n - plan.exact);
}

namespace {

// Compares rows with those of pages, which are unpacked one at a time.
class Comparison {
 public:
  Comparison(Engine& engine, const store::Moved& moved, const BlendPlan& plan, int layer)
      : engine_(engine), moved_(moved), plan_(plan), layer_(layer) {
    const model::ModelSpec& spec = engine.model().spec();
    attention_ = std::get_if<model::Attention>(&spec.layers[static_cast<std::size_t>(layer)].mixer);
    KVASIR_CHECK(attention_ && attention_->k);
    if (attention_->rope >= 0) rope_ = &spec.ropes[static_cast<std::size_t>(attention_->rope)];
    k_row_ = static_cast<std::size_t>(attention_->kv_heads * attention_->d);
    v_row_ = static_cast<std::size_t>(attention_->kv_heads * attention_->dv);
    k_.resize(kPageTokens * k_row_);
    v_.resize(kPageTokens * v_row_);
    turned_.resize(k_row_);
  }

  // Rows of keys and values of the text's tokens at `positions`, which ascend.
  void see(std::span<const std::int64_t> positions, const float* k, const float* v) {
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const std::int64_t position = positions[i];
      while (run_ < plan_.runs.size() && position >= plan_.runs[run_].end)
        before_ += plan_.runs[run_].end - plan_.runs[run_].begin, ++run_;
      if (run_ == plan_.runs.size()) return;
      if (position < plan_.runs[run_].begin) continue;
      compare(position, k + i * k_row_, v + i * v_row_);
      at_.push_back(static_cast<std::size_t>(before_ + position - plan_.runs[run_].begin));
    }
  }

  // For every token of the runs; -1: it was not seen.
  std::vector<float> take() const {
    const auto n = static_cast<double>(std::max<std::size_t>(wrong_k_.size(), 1));
    const double mean_k = std::max(size_k_ / n, 1e-30), mean_v = std::max(size_v_ / n, 1e-30);
    std::size_t tokens = 0;
    for (const store::Moved::Run& run : plan_.runs) tokens += static_cast<std::size_t>(run.end - run.begin);
    std::vector<float> all(tokens, -1.0f);
    for (std::size_t i = 0; i < wrong_k_.size(); ++i)
      all[at_[i]] = static_cast<float>(wrong_k_[i] / mean_k + wrong_v_[i] / mean_v);
    return all;
  }

 private:
  void compare(std::int64_t position, const float* k, const float* v) {
    const store::Moved::Run& run = plan_.runs[run_];
    const std::int64_t made_at = run.made_at + position - run.begin;
    const auto page = run.pages[static_cast<std::size_t>(made_at / kPageTokens - run.made_at / kPageTokens)];
    if (page != page_) {
      // Sinks of the page's text are no rows of it.
      engine_.cache().borrowing().unseal(moved_.pages[page].record.payload, layer_, 0, k_.data(), v_.data());
      page_ = page;
    }
    turn_back(k, run.begin - run.made_at);
    const auto row = static_cast<std::size_t>(made_at % kPageTokens);
    double size = 0;
    wrong_k_.push_back(distance(turned_.data(), k_.data() + row * k_row_, k_row_, &size));
    size_k_ += size;
    wrong_v_.push_back(distance(v, v_.data() + row * v_row_, v_row_, &size));
    size_v_ += size;
  }

  // The keys of a row as they were at the place where the page was made.
  void turn_back(const float* k, std::int64_t shift) {
    std::copy_n(k, k_row_, turned_.data());
    if (!rope_ || shift == 0) return;
    const auto pairs = static_cast<std::int64_t>(rope_->frequencies.size());
    if (shift != shift_ || cos_.empty()) {
      cos_.clear();
      sin_.clear();
      for (const double f : rope_->frequencies) {
        cos_.push_back(static_cast<float>(std::cos(-static_cast<double>(shift) * f)));
        sin_.push_back(static_cast<float>(std::sin(-static_cast<double>(shift) * f)));
      }
      shift_ = shift;
    }
    for (int h = 0; h < attention_->kv_heads; ++h)
      kernel::ops().rope(turned_.data() + std::ptrdiff_t{h} * attention_->d, cos_.data(), sin_.data(), pairs,
                         rope_->pairs);
  }

  static double distance(const float* a, const float* b, std::size_t n, double* size) {
    double wrong = 0;
    *size = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double x = a[i];
      wrong += (x - static_cast<double>(b[i])) * (x - static_cast<double>(b[i]));
      *size += x * x;
    }
    return wrong;
  }

  Engine& engine_;
  const store::Moved& moved_;
  const BlendPlan& plan_;
  const int layer_;
  const model::Attention* attention_;
  const model::Rope* rope_ = nullptr;
  std::size_t k_row_, v_row_;
  std::vector<float> k_, v_, turned_, cos_, sin_;
  std::int64_t shift_ = 0;
  std::size_t run_ = 0;
  std::size_t page_ = static_cast<std::size_t>(-1);
  std::int64_t before_ = 0;  // tokens of the runs before run_
  std::vector<std::size_t> at_;
  std::vector<double> wrong_k_, wrong_v_;
  double size_k_ = 0, size_v_ = 0;
};

}  // namespace

std::vector<float> deviations(Engine& engine, const kv::Sequence& prefix, const BlendText& text,
                              const store::Moved& moved, const BlendPlan& plan, int layer,
                              const AdoptedPages* borrowed) {
  if (plan.runs.empty()) return {};
  KVASIR_CHECK(kv::Cache::length(prefix) == plan.exact);
  kv::Cache& cache = engine.cache();
  Comparison comparison(engine, moved, plan, layer);
  const std::int64_t end = plan.runs.back().end;
  std::vector<std::int64_t> positions;
  if (borrowed) {
    for (const std::int64_t at : plan.fresh)
      if (at < end) positions.push_back(at);
  } else {
    for (std::int64_t at = plan.exact; at < end; ++at) positions.push_back(at);
  }
  std::vector<std::int32_t> tokens;
  for (const std::int64_t at : positions) tokens.push_back(text.ids[static_cast<std::size_t>(at)]);
  const auto most =
      static_cast<std::size_t>(std::min<std::int64_t>(engine.options().chunk, engine.forward().max_tokens()));
  kv::Sequence* const scout = cache.fork(prefix);
  try {
    if (borrowed) borrow(cache, scout, *borrowed, plan);
    for (std::size_t at = 0; at < tokens.size();) {
      std::size_t count = std::min(most, tokens.size() - at);
      // Rows that see each other are computed together. (Scheduler refuses those that are more than a step.)
      const std::int64_t last = positions[at + count - 1];
      const auto cut = row_run_behind(text.rows, last);
      if (cut != text.rows.end() && cut->block->both_ways() && cut->begin <= last && last + 1 < cut->end())
        count -= static_cast<std::size_t>(last + 1 - cut->begin);
      KVASIR_CHECK(count > 0);
      const model::Input input{.sequence = scout,
                               .tokens = std::span(tokens).subspan(at, count),
                               .logits = 0,
                               .runs = text.rows,
                               .at = positions[at],
                               .adapters = text.adapters};
      engine.forward().look({&input, 1}, layer, [&](int, auto, const float*, const float* k, const float* v) {
        comparison.see(std::span(positions).subspan(at, count), k, v);
      });
      at += count;
    }
  } catch (...) {
    cache.release(scout);
    throw;
  }
  cache.release(scout);
  return comparison.take();
}

void add_repairs(BlendPlan* plan, std::span<const float> deviations, float ratio) {
  // Places of tokens that are read as they are, with their positions. Nothing else is negative: it was not compared.
  std::vector<std::pair<std::size_t, std::int64_t>> rows;
  std::size_t at = 0;
  auto fresh = plan->fresh.begin();
  for (const store::Moved::Run& run : plan->runs)
    for (std::int64_t t = run.begin; t < run.end; ++t, ++at) {
      fresh = std::lower_bound(fresh, plan->fresh.end(), t);
      if ((fresh == plan->fresh.end() || *fresh != t) && deviations[at] >= 0) rows.emplace_back(at, t);
    }
  KVASIR_CHECK(at == deviations.size());
  const double wanted = static_cast<double>(ratio) * (static_cast<double>(at) - static_cast<double>(plan->elements));
  const std::size_t count = std::min(rows.size(), static_cast<std::size_t>(std::floor(wanted + 1e-6)));
  const auto more = [&](const auto& a, const auto& b) {
    return deviations[a.first] != deviations[b.first] ? deviations[a.first] > deviations[b.first] : a.second < b.second;
  };
  std::partial_sort(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(count), rows.end(), more);
  for (std::size_t i = 0; i < count; ++i) plan->fresh.push_back(rows[i].second);
  std::sort(plan->fresh.begin(), plan->fresh.end());
  plan->repaired += static_cast<std::int64_t>(count);
  plan->relocated -= static_cast<std::int64_t>(count);
}

AdoptedPages::AdoptedPages(kv::Cache& cache, const store::Moved& moved, const BlendPlan& plan) : cache_(cache) {
  try {
    for (const store::Moved::Run& run : plan.runs)
      for (const std::size_t page : run.pages)
        if (!slots_.contains(page)) slots_[page] = cache.borrowing().adopt_page(moved.pages[page].record.payload);
  } catch (...) {
    drop();
    throw;
  }
}

void AdoptedPages::drop() {
  for (const auto& [page, slot] : slots_) cache_.borrowing().drop_page(slot);
}

void borrow(kv::Cache& cache, kv::Sequence* sequence, const AdoptedPages& pages, const BlendPlan& plan) {
  std::vector<kv::BorrowedRun> runs;
  for (const store::Moved::Run& run : plan.runs) {
    kv::BorrowedRun r{run.begin, run.end, run.made_at, {}};
    for (const std::size_t page : run.pages) r.slots.push_back(pages.slot(page));
    runs.push_back(std::move(r));
  }
  cache.borrowing().borrow(sequence, runs, plan.fresh);
}

void repair(Engine& engine, const kv::Sequence& prefix, const BlendText& text, const store::Moved& moved,
            const AdoptedPages& pages, const BlendOptions& options, BlendPlan* plan) {
  const Checks checks = checks_of(engine.model().spec(), options);
  if (checks.first < 0) return;
  const float ratio = options.repaired_ratio();
  std::vector<float> d;
  if (plan->elements == 0) {
    d = deviations(engine, prefix, text, moved, *plan, checks.first);
  } else {  // all tokens are compared, behind the rows as they are
    BlendPlan compared = *plan;
    compared.fresh.clear();
    auto rows = row_run_behind(text.rows, plan->exact);
    for (std::int64_t t = plan->exact; t < std::ssize(text.ids); ++t) {
      while (rows != text.rows.end() && t >= rows->end()) ++rows;
      const bool known =
          rows != text.rows.end() && t >= rows->begin && !std::binary_search(plan->fresh.begin(), plan->fresh.end(), t);
      if (!known) compared.fresh.push_back(t);
    }
    d = deviations(engine, prefix, text, moved, compared, checks.first, &pages);
  }
  double sum = 0;
  for (const float x : d) sum += static_cast<double>(std::max(x, 0.0f));
  const auto compared = static_cast<std::int64_t>(d.size()) - plan->elements;
  plan->deviation = compared > 0 ? sum / static_cast<double>(compared) : 0;
  if (checks.second > checks.first && kCandidates * ratio < 1) {
    BlendPlan wide = *plan;
    add_repairs(&wide, d, kCandidates * ratio);
    d = deviations(engine, prefix, text, moved, wide, checks.second, &pages);
  }
  add_repairs(plan, d, ratio);
}

}  // namespace kvasir::run
