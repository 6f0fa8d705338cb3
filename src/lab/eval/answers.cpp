#include "lab/eval/answers.hpp"

#include <algorithm>
#include <cmath>

#include "base/check.hpp"
#include "base/error.hpp"
#include "lab/eval/statistics.hpp"

namespace kvasir::lab::eval {
namespace {

class Answerer {
 public:
  Answerer(Subject& subject, Lane& lane) : s_(subject), lane_(lane), sequence_(lane.cache->create()) {}
  ~Answerer() { lane_.cache->release(sequence_); }
  Answerer(const Answerer&) = delete;
  Answerer& operator=(const Answerer&) = delete;

  std::vector<std::int32_t> answer(std::span<const std::int32_t> prompt, int most, const std::function<void()>& poll) {
    std::span<const float> next;
    const auto chunk = static_cast<std::size_t>(Subject::kChunk);
    for (std::size_t i = 0; i < prompt.size(); i += chunk) {
      poll();
      next = logits(prompt.subspan(i, std::min(chunk, prompt.size() - i)), false);
    }
    std::vector<std::int32_t> ids;
    for (;;) {
      const auto id = static_cast<std::int32_t>(argmax(next));
      if (!std::isfinite(next[static_cast<std::size_t>(id)]))
        throw Error(Code::kUnsupported, "the model's output is not a number", lane_.name);
      if (s_.tokenizer().is_eog(id)) return ids;
      ids.push_back(id);
      if (static_cast<int>(ids.size()) == most) return ids;
      poll();
      next = logits({&ids.back(), 1}, true);
    }
  }

 private:
  std::span<const float> logits(std::span<const std::int32_t> ids, bool decode) {
    const model::Input input{sequence_, ids, 1, decode};
    return lane_.forward->step({&input, 1});
  }

  Subject& s_;
  Lane& lane_;
  kv::Sequence* sequence_;
};

std::int64_t common_prefix(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

}  // namespace

AnswersReport measure_answers(Subject& subject, std::span<const std::vector<std::int32_t>> prompts,
                              std::span<const int> most, const std::function<void(std::int64_t, std::int64_t)>& poll,
                              const std::function<void(std::size_t, const AnswersReport&)>& answered) {
  KVASIR_CHECK(!prompts.empty() && (most.size() == 1 || most.size() == prompts.size()));
  subject.choose_codecs(prompts.front());
  AnswersReport report;
  for (const Lane& lane : subject.all()) report.rows.push_back({.kv = lane.name, .note = lane.note, .cost = lane.cost});
  const auto total = static_cast<std::int64_t>(prompts.size() * report.rows.size());
  std::int64_t done = 0;
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    const int longest = most.size() == 1 ? most.front() : most[p];
    KVASIR_CHECK(longest >= 1 && !prompts[p].empty() &&
                 static_cast<std::int64_t>(prompts[p].size()) + longest <= subject.context());
    for (std::size_t l = 0; l < report.rows.size(); ++l, ++done) {
      AnswerOf a;
      a.ids = Answerer(subject, subject.all()[l]).answer(prompts[p], longest, [&] { poll(done, total); });
      a.text = subject.tokenizer().decode(a.ids);
      const std::vector<std::int32_t>& reference = l == 0 ? a.ids : report.rows.front().answers.back().ids;
      a.same = common_prefix(a.ids, reference);
      a.equal = a.ids == reference;
      report.rows[l].same += a.same;
      report.rows[l].equal += a.equal;
      report.rows[l].answers.push_back(std::move(a));
    }
    report.tokens = report.rows.front().same;
    if (answered) answered(p, report);
  }
  return report;
}

}  // namespace kvasir::lab::eval
