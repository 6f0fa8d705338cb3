#include "lab/eval/ppl.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "base/error.hpp"
#include "kv/page.hpp"
#include "lab/eval/statistics.hpp"

namespace kvasir::lab::eval {

double PplRow::ppl_change() const { return std::expm1(nll_difference); }
double PplRow::ppl_change_error() const { return std::exp(nll_difference) * nll_difference_error; }

namespace {

bool wants_bos(const text::Tokenizer& t) { return t.add_bos() && t.bos() >= 0; }

}  // namespace

std::vector<std::int32_t> ppl_tokens(const text::Tokenizer& tokenizer, const std::string& text) {
  return tokenizer.encode(text, {.add_bos = wants_bos(tokenizer)});
}

std::int64_t count_windows(std::int64_t tokens, std::int64_t ctx, std::int64_t most, const std::string& source) {
  const std::int64_t used = most > 0 ? std::min(tokens, most) : tokens;
  if (used >= ctx) return used / ctx;
  std::string found = "has " + std::to_string(tokens) + " tokens";
  if (used < tokens) found += ", of which --tokens takes " + std::to_string(used);
  throw Error(Code::kBadInput, found + "; one window of --ctx needs " + std::to_string(ctx), source);
}

namespace {

// The running score of one lane.
struct Score {
  Moments nll, difference, kl;
  std::vector<Moments> parts;  // nll, of a curve
  std::int64_t same_top = 0;
  std::vector<float> kls;  // of every token, for the percentile
};

// What one position says about one lane.
struct Point {
  double nll, kl;
  bool same_top;
};

class Evaluation {
 public:
  Evaluation(Subject& subject, std::int64_t windows, PplScoring how)
      : s_(subject), decode_(how.decode), curve_(how.curve), scores_(subject.all().size()) {
    for (Lane& lane : s_.all()) sequences_.push_back(lane.cache->create());
    const auto scored = static_cast<std::size_t>(windows * (s_.context() - 1 - first(s_.context())));
    if (curve_)
      for (Score& score : scores_) score.parts.resize(kCurveParts);
    for (std::size_t i = 1; i < scores_.size(); ++i) scores_[i].kls.reserve(scored);
    base_sums_.resize(static_cast<std::size_t>(s_.logits_rows()));
    base_tops_.resize(base_sums_.size());
    points_.resize(base_sums_.size());
  }
  ~Evaluation() {
    for (std::size_t i = 0; i < sequences_.size(); ++i) s_.all()[i].cache->release(sequences_[i]);
  }
  Evaluation(const Evaluation&) = delete;
  Evaluation& operator=(const Evaluation&) = delete;

  // One window, in steps that all lanes take side by side so that only one step's logits exist.
  void window(std::span<const std::int32_t> ids, const std::function<void(std::int64_t)>& poll) {
    const std::int64_t first = this->first(static_cast<std::int64_t>(ids.size()));
    const std::int64_t end = static_cast<std::int64_t>(ids.size()) - 1;  // the last token is only predicted
    for (std::size_t i = 0; i < sequences_.size(); ++i) s_.all()[i].cache->truncate(sequences_[i], 0);
    for (std::int64_t p = 0; p < end;) {
      const bool scored = p >= first;
      const int most = decode_ ? 1 : s_.logits_rows();
      const std::int64_t n = std::min<std::int64_t>(scored ? most : Subject::kChunk, (scored ? end : first) - p);
      poll(p);
      step(ids, p, static_cast<int>(n), scored);
      p += n;
    }
  }

  std::span<Score> scores() { return scores_; }

 private:
  std::int64_t first(std::int64_t window) const { return curve_ ? 0 : window / 2; }  // place that is scored

  void step(std::span<const std::int32_t> ids, std::int64_t p, int n, bool scored) {
    const auto tokens = ids.subspan(static_cast<std::size_t>(p), static_cast<std::size_t>(n));
    std::span<const float> base;
    for (std::size_t i = 0; i < sequences_.size(); ++i) {
      const model::Input input{sequences_[i], tokens, scored ? n : 0, scored && decode_};
      const std::span<const float> logits = s_.all()[i].forward->step({&input, 1});
      if (!scored) continue;
      if (i == 0) base = logits;
      compare(i, base, logits, n, p, ids.data() + p + 1);
    }
  }

  // at: place of the first row in the window.
  void compare(std::size_t lane, std::span<const float> base, std::span<const float> logits, int n, std::int64_t at,
               const std::int32_t* targets) {
    const auto vocab = static_cast<std::size_t>(s_.spec().vocab);
    s_.team().parallel_for(n, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (auto r = static_cast<std::size_t>(begin); r < static_cast<std::size_t>(end); ++r) {
        const auto row = logits.subspan(r * vocab, vocab);
        const double sum = log_sum_exp(row);
        const std::size_t top = argmax(row);
        Point& point = points_[r];
        point.nll = sum - static_cast<double>(row[static_cast<std::size_t>(targets[r])]);
        if (lane == 0) base_sums_[r] = sum, base_tops_[r] = top;
        point.kl = lane == 0 ? 0 : kl_divergence(base.subspan(r * vocab, vocab), base_sums_[r], row, sum);
        point.same_top = top == base_tops_[r];
      }
    });
    if (lane == 0) base_points_.assign(points_.begin(), points_.begin() + n);
    Score& score = scores_[lane];
    for (std::size_t r = 0; r < static_cast<std::size_t>(n); ++r) {
      const Point& point = points_[r];
      if (!std::isfinite(point.nll) || !std::isfinite(point.kl))
        throw Error(Code::kUnsupported, "the model's output is not a number", s_.all()[lane].name);
      score.nll.add(point.nll);
      if (curve_) score.parts[part(at + static_cast<std::int64_t>(r))].add(point.nll);
      if (lane == 0) continue;
      score.difference.add(point.nll - base_points_[r].nll);
      score.kl.add(point.kl);
      score.kls.push_back(static_cast<float>(point.kl));
      score.same_top += point.same_top;
    }
  }

  std::size_t part(std::int64_t place) const { return static_cast<std::size_t>(place * kCurveParts / s_.context()); }

  Subject& s_;
  bool decode_, curve_;
  std::vector<kv::Sequence*> sequences_;
  std::vector<Score> scores_;  // of every lane, the baseline first
  // of the rows of one step
  std::vector<double> base_sums_;
  std::vector<std::size_t> base_tops_;
  std::vector<Point> points_, base_points_;
};

// A query at position p sees the pages sealed that lie in the first p + 1 - residual tokens, sinks aside.
double sealed_share(const SubjectOptions& o, bool curve) {
  double sealed = 0, all = 0;
  const int residual = kv::residual_of({.window = o.window, .residual = o.residual});
  for (std::int64_t p = curve ? 0 : o.ctx / 2; p < o.ctx - 1; ++p) {
    const std::int64_t pages = std::max<std::int64_t>(0, p + 1 - residual) / kv::kPageTokens;
    sealed += static_cast<double>(std::max<std::int64_t>(0, pages * kv::kPageTokens - o.sinks));
    all += static_cast<double>(p + 1);
  }
  return sealed / all;
}

std::vector<double> curve_of(const Score& score) {
  std::vector<double> curve;
  for (const Moments& part : score.parts) curve.push_back(part.mean());
  return curve;
}

PplReport report_of(Subject& subject, std::span<Score> scores, std::int64_t windows) {
  PplReport report;
  report.windows = windows;
  report.bos = wants_bos(subject.tokenizer());
  const std::int64_t parts = static_cast<std::int64_t>(scores[0].parts.size());
  report.sealed_share = sealed_share(subject.options(), parts > 0);
  for (std::int64_t i = 1; i <= parts; ++i) report.places.push_back((i * subject.context() + parts - 1) / parts);
  report.baseline_curve = curve_of(scores[0]);
  report.scored = scores[0].nll.count();
  report.baseline_ppl = std::exp(scores[0].nll.mean());
  for (std::size_t i = 1; i < scores.size(); ++i) {
    Score& score = scores[i];
    const Lane& lane = subject.all()[i];
    PplRow row{.kv = lane.name, .note = lane.note, .cost = lane.cost};
    row.curve = curve_of(score);
    row.nll = score.nll.mean();
    row.ppl = std::exp(row.nll);
    row.nll_difference = score.difference.mean();
    row.nll_difference_error = score.difference.standard_error();
    row.kl_mean = score.kl.mean();
    row.kl_p99 = percentile(score.kls, 0.99);
    row.top1 = static_cast<double>(score.same_top) / static_cast<double>(report.scored);
    report.rows.push_back(std::move(row));
  }
  return report;
}

}  // namespace

PplReport measure_ppl(Subject& subject, std::span<const std::int32_t> ids, std::int64_t windows, PplScoring how,
                      const std::function<void(std::int64_t, std::int64_t)>& poll,
                      const std::function<void(const PplReport&)>& so_far) {
  const std::int64_t ctx = subject.context();
  KVASIR_CHECK(windows >= 1 && windows * ctx <= static_cast<std::int64_t>(ids.size()));
  subject.choose_codecs(ids);
  Evaluation evaluation(subject, windows, how);
  std::vector<std::int32_t> window(static_cast<std::size_t>(ctx));
  for (std::int64_t w = 0; w < windows; ++w) {
    std::copy_n(ids.begin() + w * ctx, ctx, window.begin());
    if (wants_bos(subject.tokenizer())) window[0] = subject.tokenizer().bos();
    evaluation.window(window, [&](std::int64_t p) { poll(w * ctx + p, windows * ctx); });
    if (so_far && w + 1 < windows) so_far(report_of(subject, evaluation.scores(), w + 1));
  }
  return report_of(subject, evaluation.scores(), windows);
}

}  // namespace kvasir::lab::eval
