#include "lab/eval/recall.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "base/error.hpp"
#include "lab/eval/statistics.hpp"

namespace kvasir::lab::eval {
namespace {

// What one lane says to one probe.
struct Answer {
  std::vector<std::int32_t> greedy;
  std::size_t choice = 0;
  double logprob = 0;  // of the right candidate
  bool exact = false;
};

class Examiner {
 public:
  Examiner(Subject& subject, Lane& lane) : s_(subject), lane_(lane) {}

  Answer ask(const Probe& probe, const std::function<void()>& poll) {
    kv::Sequence* sequence = lane_.cache->create();
    const std::span<const std::int32_t> prompt = probe.prompt;
    const auto chunk = static_cast<std::size_t>(Subject::kChunk);
    std::vector<float> next;  // logits behind the prompt
    for (std::size_t i = 0; i < prompt.size(); i += chunk) {
      poll();
      const auto piece = prompt.subspan(i, std::min(chunk, prompt.size() - i));
      next = logits(sequence, piece, i + chunk >= prompt.size() ? 1 : 0);
    }
    Answer a;
    double best = 0;
    for (std::size_t c = 0; c < probe.candidates.size(); ++c) {
      const double score = score_of(*sequence, next, probe.candidates[c]);
      if (c == 0) a.logprob = score;
      if (c == 0 || score > best) best = score, a.choice = c;
    }
    a.greedy = decode(sequence, next, probe.candidates.front().size());
    a.exact = s_.tokenizer().decode(a.greedy).find(probe.answer) <= 1;  // perhaps behind one space
    lane_.cache->release(sequence);
    return a;
  }

 private:
  std::vector<float> logits(kv::Sequence* sequence, std::span<const std::int32_t> ids, int rows, bool decode = false) {
    const model::Input input{sequence, ids, rows, decode};
    const std::span<const float> all = lane_.forward->step({&input, 1});
    return {all.begin(), all.end()};
  }

  // ln P(ids | everything so far), in a fork.
  double score_of(const kv::Sequence& sequence, std::span<const float> next, std::span<const std::int32_t> ids) {
    const auto vocab = static_cast<std::size_t>(s_.spec().vocab);
    double sum = static_cast<double>(next[static_cast<std::size_t>(ids[0])]) - log_sum_exp(next);
    if (ids.size() > 1) {
      kv::Sequence* fork = lane_.cache->fork(sequence);
      const auto most = static_cast<std::size_t>(s_.logits_rows());
      for (std::size_t done = 0; done + 1 < ids.size();) {
        const std::size_t n = std::min(most, ids.size() - 1 - done);
        const std::vector<float> rows = logits(fork, ids.subspan(done, n), static_cast<int>(n));
        for (std::size_t r = 0; r < n; ++r) {
          const auto row = std::span(rows).subspan(r * vocab, vocab);
          sum += static_cast<double>(row[static_cast<std::size_t>(ids[done + r + 1])]) - log_sum_exp(row);
        }
        done += n;
      }
      lane_.cache->release(fork);
    }
    if (!std::isfinite(sum)) throw Error(Code::kUnsupported, "the model's output is not a number", lane_.name);
    return sum;
  }

  std::vector<std::int32_t> decode(kv::Sequence* sequence, std::vector<float> next, std::size_t count) {
    std::vector<std::int32_t> ids;
    while (ids.size() < count) {
      const auto id = static_cast<std::int32_t>(argmax(next));
      ids.push_back(id);
      if (s_.tokenizer().is_eog(id) || ids.size() == count) break;
      next = logits(sequence, {&id, 1}, 1, true);
    }
    return ids;
  }

  Subject& s_;
  Lane& lane_;
};

RecallRow* row_for(std::vector<RecallRow>* rows, const Lane& lane, const Probe& probe) {
  for (RecallRow& r : *rows)
    if (r.kv == lane.name && r.group == probe.group && r.depth == probe.depth) return &r;
  rows->push_back({.kv = lane.name, .group = probe.group, .depth = probe.depth});
  return &rows->back();
}

}  // namespace

RecallRow& RecallRow::operator+=(const RecallRow& o) {
  tokens = std::max(tokens, o.tokens);
  trials += o.trials;
  exact += o.exact;
  first += o.first;
  logprob += o.logprob;
  same_greedy += o.same_greedy;
  same_choice += o.same_choice;
  logprob_shift += o.logprob_shift;
  return *this;
}

RecallReport measure_recall(Subject& subject, std::span<const Probe> probes,
                            const std::function<void(std::int64_t, std::int64_t)>& poll) {
  KVASIR_CHECK(!probes.empty());
  subject.choose_codecs(probes.front().prompt);
  const std::size_t lanes = subject.all().size();
  RecallReport report;
  report.baseline.kv = subject.baseline().name;
  std::vector<std::vector<RecallRow>> rows(lanes);  // a name may equal the baseline's
  const auto total = static_cast<std::int64_t>(probes.size());
  for (std::int64_t i = 0; i < total; ++i) {
    const Probe& probe = probes[static_cast<std::size_t>(i)];
    report.chance += 1 / static_cast<double>(probe.candidates.size()) / static_cast<double>(total);
    Answer reference;
    for (std::size_t l = 0; l < lanes; ++l) {
      Lane& lane = subject.all()[l];
      const Answer a = Examiner(subject, lane).ask(probe, [&] { poll(i, total); });
      if (l == 0) reference = a;
      RecallRow one{.tokens = static_cast<std::int64_t>(probe.prompt.size()), .trials = 1};
      one.exact = a.exact;
      one.first = a.choice == 0;
      one.logprob = a.logprob;
      one.same_greedy = a.greedy == reference.greedy;
      one.same_choice = a.choice == reference.choice;
      one.logprob_shift = std::abs(a.logprob - reference.logprob);
      *row_for(&rows[l], lane, probe) += one;
      if (l == 0) report.baseline += one;
    }
  }
  for (const auto& r : rows) report.rows.insert(report.rows.end(), r.begin(), r.end());
  report.guessing = binomial_tail(report.baseline.trials, report.baseline.first, report.chance);
  return report;
}

}  // namespace kvasir::lab::eval
