#include "run/blend_gate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "kv/page.hpp"
#include "model/relocation.hpp"
#include "run/calibration.hpp"
#include "run/logprobs.hpp"

namespace kvasir::run {
namespace {

using Ids = std::vector<std::int32_t>;

constexpr std::size_t kHead = 8;       // tokens in front of the passages
constexpr std::size_t kPassage = 150;  // of each of two
constexpr std::size_t kLast = 64;      // behind them, which are compared

// A sequence that goes when this does.
struct Held {
  kv::Cache& cache;
  kv::Sequence* sequence;
  Held(kv::Cache& c) : cache(c), sequence(c.create()) {}
  ~Held() { cache.release(sequence); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
};

constexpr std::size_t kStep = 64;  // tokens between which somebody else may want the engine
struct Stopped {};

}  // namespace

struct BlendTest::Trial {
 public:
  explicit Trial(Engine& engine) : engine_(engine), cache_(engine.cache()) {}

  std::function<bool()> go_on;
  bool made() const { return !full_.empty(); }

  void make() {
    const Ids text = calibration_tokens(*engine_.tokenizer(), 1 << 20);
    if (text.size() < kHead + 2 * kPassage + kLast)
      throw Error(Code::kUnsupported, "the built-in text has too few tokens in this vocabulary", "blending");
    const auto piece = [&](std::size_t begin, std::size_t n) {
      return Ids(text.begin() + static_cast<std::ptrdiff_t>(begin),
                 text.begin() + static_cast<std::ptrdiff_t>(begin + n));
    };
    const Ids one = piece(kHead, kPassage), two = piece(kHead + kPassage, kPassage);
    const Ids last = piece(text.size() - kLast, kLast);
    const auto add = [](Ids& to, const Ids& ids) { to.insert(to.end(), ids.begin(), ids.end()); };
    // What was computed before: both passages, and so much behind them that their pages are sealed.
    Ids before = piece(0, kHead);
    add(before, one);
    add(before, two);
    const EngineOptions& o = engine_.options();
    const int residual = kv::residual_of({.window = o.window, .residual = o.residual});
    const std::size_t whole = before.size() + 2 * kv::kPageTokens + static_cast<std::size_t>(residual);
    while (before.size() < whole) add(before, one);
    if (moved_.pages.empty()) keep_pages(before);
    ids_ = piece(kHead + 20, kHead / 2);
    moved_.runs = {run(ids_.size(), kHead + kPassage), run(ids_.size() + kPassage, kHead)};
    add(ids_, two);
    add(ids_, one);
    add(ids_, last);
    Held s(cache_);
    full_ = rows(s.sequence, ids_);
  }

  // Mean squared error of keys and values of layer 0 after they were turned.
  double turned() const {
    const BlendPlan plan = plan_of({.reuse = "blend", .strategy = "none"});
    Held none(cache_);
    const int layer = model::check_layer(engine_.model().spec(), 0);
    const std::vector<float> d = deviations(engine_, *none.sequence, {ids_}, moved_, plan, layer);
    double sum = 0;
    for (const float x : d) sum += static_cast<double>(x);
    return sum / static_cast<double>(std::max<std::size_t>(d.size(), 1));
  }

  BlendTrial run_with(const BlendOptions& o) const {
    check();
    BlendPlan plan = plan_of(o);
    Held s(cache_);
    const AdoptedPages pages(cache_, moved_, plan);
    repair(engine_, *s.sequence, {ids_}, moved_, pages, o, &plan);
    borrow(cache_, s.sequence, pages, plan);
    Ids fresh;
    for (const std::int64_t at : plan.fresh) fresh.push_back(ids_[static_cast<std::size_t>(at)]);
    const std::vector<float> got = rows(s.sequence, fresh);
    const std::string name = o.strategy == "none"    ? "naive"
                             : o.strategy == "blend" ? fmt::format("blend {:g}", o.ratio)
                                                     : "first rows";
    BlendTrial t{.name = name, .ratio = o.repaired_ratio()};
    t.computed = static_cast<double>(plan.repaired) / static_cast<double>(2 * kPassage);
    const auto vocab = static_cast<std::size_t>(engine_.model().spec().vocab);
    for (std::size_t r = 0; r < kLast; ++r) compare(r * vocab, vocab, got, &t);
    t.kl /= static_cast<double>(kLast);
    t.same /= static_cast<double>(kLast);
    return t;
  }

 private:
  static store::Moved::Run run(std::size_t begin, std::size_t made_at) {
    store::Moved::Run r{static_cast<std::int64_t>(begin),
                        static_cast<std::int64_t>(begin + kPassage),
                        static_cast<std::int64_t>(made_at),
                        {}};
    for (std::size_t i = made_at / kv::kPageTokens; i <= (made_at + kPassage - 1) / kv::kPageTokens; ++i)
      r.pages.push_back(i);
    return r;
  }

  void keep_pages(const Ids& before) {
    Held s(cache_);
    feed(s.sequence, before);
    const std::int64_t pages =
        std::min<std::int64_t>(cache_.stats(*s.sequence).sealed_tokens / kv::kPageTokens,
                               static_cast<std::int64_t>((kHead + 2 * kPassage) / kv::kPageTokens + 1));
    for (std::int64_t p = 0; p < pages; ++p) {
      std::vector<std::byte>& page = bytes_.emplace_back();
      for (const auto piece : cache_.bytes().sealed_page(*s.sequence, p))
        page.insert(page.end(), piece.begin(), piece.end());
    }
    for (const auto& page : bytes_) {
      store::Found f;
      f.record.payload = page;
      moved_.pages.push_back(std::move(f));
    }
  }

  void check() const {
    if (go_on && !go_on()) throw Stopped();
  }
  void feed(kv::Sequence* sequence, std::span<const std::int32_t> ids) const {
    for (; !ids.empty(); ids = ids.subspan(std::min(kStep, ids.size()))) {
      check();
      engine_.feed(sequence, ids.first(std::min(kStep, ids.size())));
    }
  }

  BlendPlan plan_of(const BlendOptions& o) const {
    return plan_blend(0, static_cast<std::int64_t>(ids_.size()), moved_, o);
  }

  // Feeds the tokens; the logits of the last kLast of them, (kLast, vocab).
  std::vector<float> rows(kv::Sequence* sequence, std::span<const std::int32_t> ids) const {
    const std::size_t front = ids.size() - kLast;
    feed(sequence, ids.first(front));
    std::vector<float> all;
    model::Forward& forward = engine_.forward();
    const std::size_t most =
        static_cast<std::size_t>(std::min<std::int64_t>(forward.max_tokens(), static_cast<std::int64_t>(kLast)));
    for (std::size_t at = front; at < ids.size();) {
      check();
      const std::size_t n = std::min(most, ids.size() - at);
      const model::Input input{.sequence = sequence, .tokens = ids.subspan(at, n), .logits = 0};
      forward.step({&input, 1});
      for (std::size_t done = 0; done < n;) {
        const int some = std::min(forward.max_logits(), static_cast<int>(n - done));
        const std::span<const float> logits = forward.logits_of(static_cast<int>(done), some);
        all.insert(all.end(), logits.begin(), logits.end());
        done += static_cast<std::size_t>(some);
      }
      at += n;
    }
    return all;
  }

  void compare(std::size_t at, std::size_t vocab, const std::vector<float>& got, BlendTrial* t) const {
    const std::span<const float> p = std::span(full_).subspan(at, vocab), q = std::span(got).subspan(at, vocab);
    const double p_sum = log_partition(p), q_sum = log_partition(q);
    double kl = 0;
    for (std::size_t i = 0; i < vocab; ++i) {
      const double a = static_cast<double>(p[i]) - p_sum, b = static_cast<double>(q[i]) - q_sum;
      if (a > -60) kl += std::exp(a) * (a - b);
    }
    t->kl += std::max(kl, 0.0);
    const auto top = [](std::span<const float> x) { return std::max_element(x.begin(), x.end()) - x.begin(); };
    t->same += top(p) == top(q) ? 1 : 0;
  }

  Engine& engine_;
  kv::Cache& cache_;
  std::vector<std::vector<std::byte>> bytes_;
  store::Moved moved_;
  Ids ids_;
  std::vector<float> full_;
};

namespace {

constexpr int kTestVersion = 2;  // another one of the test, or of how rows are repaired, is tested again

nlohmann::json asked_of(const BlendOptions& o) {
  return {{"version", kTestVersion},
          {"ratio", o.ratio},
          {"first_rows", o.first_rows},
          {"check_layer", o.check_layer},
          {"second_layer", o.second_layer}};
}

}  // namespace

std::string to_note(const BlendVerdict& v, const BlendOptions& options) {
  return nlohmann::json{{"asked", asked_of(options)}, {"allowed", v.allowed}, {"ratio", v.ratio}, {"kl", v.kl},
                        {"turned", v.turned},         {"why", v.why}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::optional<BlendVerdict> from_note(std::string_view note, const BlendOptions& options) {
  const auto n = nlohmann::json::parse(note, nullptr, false);
  if (!n.is_object() || n.value("asked", nlohmann::json()) != asked_of(options)) return std::nullopt;
  try {
    BlendVerdict v;
    n.at("allowed").get_to(v.allowed);
    n.at("ratio").get_to(v.ratio);
    n.at("kl").get_to(v.kl);
    n.at("turned").get_to(v.turned);
    n.at("why").get_to(v.why);
    if (!(v.ratio >= 0 && v.ratio <= 1) || v.allowed != v.why.empty()) return std::nullopt;
    return v;
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

BlendTest::BlendTest(Engine& engine, const BlendOptions& options, std::vector<float> ratios)
    : engine_(engine), options_(options), table_(!ratios.empty()) {
  verdict_.why = model::why_not_relocated(engine.model().spec(), engine.options().whole_windows);
  if (verdict_.why.empty() && !engine.tokenizer()) verdict_.why = "the model has no vocabulary to test it with";
  over_ = !verdict_.why.empty();
  for (const float r : {options.ratio, 0.3f, 0.5f})
    if (r >= options.ratio) ratios.push_back(r);
  std::sort(ratios.begin(), ratios.end(), std::greater<>());
  ratios.erase(std::unique(ratios.begin(), ratios.end()), ratios.end());
  for (const float r : ratios) {
    BlendOptions& o = left_.emplace_back(options);
    o.strategy = "blend";
    o.ratio = r;
  }
  if (!table_) return;
  left_.push_back({.reuse = "blend", .strategy = "first_rows", .first_rows = options.first_rows});
  left_.push_back({.reuse = "blend", .strategy = "none"});
}

BlendTest::~BlendTest() = default;

bool BlendTest::run(const std::function<bool()>& go_on) {
  const double start = steady_seconds();
  try {
    if (!over_ && !trial_) trial_ = std::make_unique<Trial>(engine_);
    if (trial_) trial_->go_on = go_on;
    if (!over_ && !trial_->made()) trial_->make();
    if (!over_ && !std::exchange(turned_, true)) verdict_.turned = trial_->turned();
    for (; !over_ && !left_.empty(); left_.pop_back()) {
      const BlendOptions& o = left_.back();
      const BlendTrial& t = verdict_.trials.emplace_back(trial_->run_with(o));
      if (o.strategy != "blend" || verdict_.allowed || o.ratio < options_.ratio || !(t.kl <= kMostBlendedKl)) continue;
      verdict_.allowed = true;
      verdict_.ratio = o.ratio;
      verdict_.kl = t.kl;
      if (!table_) break;
    }
  } catch (const Stopped&) {
    verdict_.seconds += steady_seconds() - start;
    return false;
  }
  if (!over_) judge();
  over_ = true;
  trial_.reset();
  verdict_.seconds += steady_seconds() - start;
  return true;
}

void BlendTest::judge() {
  BlendVerdict& v = verdict_;
  if (!(v.turned <= kMostTurned)) {
    v.allowed = false;
    v.why = fmt::format("the self-test failed: keys of layer 0 differ by {:.2f} at another place, expected at most {}",
                        v.turned, kMostTurned);
  } else if (!v.allowed) {
    v.why = fmt::format("the self-test failed: {:.3f} nats with half of the rows computed again, expected at most {}",
                        v.trials.back().kl, kMostBlendedKl);
  }
}

BlendVerdict test_blend(Engine& engine, const BlendOptions& options, std::vector<float> ratios) {
  BlendTest test(engine, options, std::move(ratios));
  test.run(nullptr);
  return test.verdict();
}

}  // namespace kvasir::run
