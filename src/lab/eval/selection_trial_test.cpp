#include "lab/eval/selection_trial.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.hpp"
#include "base/file.hpp"
#include "lab/eval/eval_fixture.hpp"
#include "lab/eval/tasks.hpp"
#include "select/spec.hpp"

namespace kvasir::lab::eval {
namespace {

const std::vector<std::string> kSpecs{"quest:budget=1000", "quest:budget=192:block=16:local=16",
                                      "sink_recent:budget=128", "quest:budget=1000:block=16"};

Subject subject_for(const std::vector<std::string>& specs, const char* kv, int ctx = 512) {
  SubjectOptions options = fixture::options(kv, ctx);
  options.window = 0;
  return Subject(options, selection_needs(specs, options.ctx));
}

TEST(SelectionTrial, SpecsAreGroupedByWhatTheirCachesHold) {
  const auto groups =
      group_selectors({"quest", "all", "mean", "quest:budget=1%", "quest:block=16", "quest:token_step=2"});
  ASSERT_EQ(groups.size(), 4u);
  EXPECT_EQ(groups[0], (std::vector<std::string>{"all", "quest", "quest:budget=1%"}));
  EXPECT_EQ(groups[1].back(), "mean");
  // What needs no summaries joins the first cache with its block.
  const auto mixed = group_selectors({"keys:block=16", "sink_recent", "mean:block=16", "quest", "keys:token_step=2"});
  ASSERT_EQ(mixed.size(), 3u);
  EXPECT_EQ(mixed[0], (std::vector<std::string>{"all", "mean:block=16", "keys:block=16"}));
  EXPECT_EQ(mixed[1], (std::vector<std::string>{"all", "quest", "sink_recent"}));
  EXPECT_EQ(mixed[2], (std::vector<std::string>{"all", "keys:token_step=2"}));
  for (const auto& group : mixed)
    for (const std::string& spec : group)
      EXPECT_EQ(select::parse_select(spec, "").refused_in(select::parse_select(cache_selector(group), "")), nullptr)
          << spec;
  EXPECT_EQ(group_selectors({"all"}), (std::vector<std::vector<std::string>>{{"all"}}));
  EXPECT_THROW(group_selectors({"nothing"}), Error);
}

TEST(SelectionTrial, WholeBudgetsAnswerAsDenseAttention) {
  Subject subject = subject_for(kSpecs, "f16");
  const auto probes =
      task_probes(subject.tokenizer(), "needle", {480}, {20, 80}, 1, {.ctx = 512, .seed = 5, .distractors = 3});
  subject.load({});
  const SelectedReport report = measure_selected(subject, kSpecs, probes, 8, [](std::int64_t, std::int64_t) {});
  EXPECT_DOUBLE_EQ(report.chance, 0.25);
  EXPECT_EQ(report.dense.trials, 2);
  ASSERT_EQ(report.rows.size(), 10u);  // dense and four specs at two depths
  double dense = 0;
  for (const SelectedRow& r : report.rows) {
    EXPECT_EQ(r.trials, 1);
    if (r.depth != 20) continue;
    if (r.select == "all") dense = r.logprob;
    if (r.select.find("budget=1000") != std::string::npos) {
      EXPECT_EQ(r.logprob, dense) << r.select;
      EXPECT_EQ(r.same, 1) << r.select;
      EXPECT_EQ(r.seen, 0) << r.select;
      EXPECT_EQ(r.mean_mass(), 1.0) << r.select;
    } else if (r.select != "all") {
      EXPECT_NE(r.logprob, dense) << r.select;
      EXPECT_LT(r.read, 0.6 * r.seen) << r.select;
      ASSERT_GT(r.measured, 0) << r.select;  // the answer ends before the selector's own meter measures
      EXPECT_GT(*r.mean_mass(), 0) << r.select;
      EXPECT_LT(*r.mean_mass(), 1) << r.select;
    }
  }
  for (Lane& lane : subject.lanes()) lane.cache->check_integrity();
}

// The prompt's last tokens vote though one token alone is asked with: their queries are there. Without any, the
// answer's first token votes, as it does for snapkv.
TEST(SelectionTrial, WindowsOfThePromptVote) {
  const std::vector<std::string> specs{"snapkv_window:block=16:budget=96:local=16",
                                       "snapkv:block=16:budget=96:local=16",
                                       "snapkv_window:block=16:budget=96:local=16:window=0"};
  Subject subject = subject_for(specs, "f16");
  const auto probes =
      task_probes(subject.tokenizer(), "needle", {480}, {20, 80}, 2, {.ctx = 512, .seed = 5, .distractors = 3});
  subject.load({});
  std::map<std::string, std::map<double, double>> logprobs;
  for (const SelectedRow& r : measure_selected(subject, specs, probes, 1, [](std::int64_t, std::int64_t) {}).rows)
    logprobs[r.select][r.depth] = r.logprob;
  EXPECT_NE(logprobs.at(specs[0]), logprobs.at(specs[1]));
  EXPECT_EQ(logprobs.at(specs[2]), logprobs.at(specs[1]));
  for (Lane& lane : subject.lanes()) lane.cache->check_integrity();
}

// Candidates are ranked several at once, here eight, then two beside the greedy answer. What the right one has does not
// depend on the others.
TEST(SelectionTrial, CandidatesDoNotChangeEachOther) {
  const std::vector<std::string> specs{"quest:budget=192:block=16:local=16", "keys:budget=192:block=16:local=16"};
  Subject subject = subject_for(specs, "balanced");
  ASSERT_EQ(subject.lanes().size(), 1u);
  const auto many =
      task_probes(subject.tokenizer(), "needles", {480}, {20, 80}, 1, {.ctx = 512, .seed = 5, .distractors = 9});
  subject.load({});
  const auto nothing = [](std::int64_t, std::int64_t) {};
  const SelectedReport together = measure_selected(subject, specs, many, 8, nothing);
  for (std::size_t first = 0; first < many.size(); ++first)
    for (std::size_t c = 0; c < 10; ++c) {
      ASSERT_EQ(many[first].candidates.size(), 10u);
      Probe probe = many[first];
      probe.candidates = {many[first].candidates[c]};
      if (c > 0 && probe.candidates[0].size() > many[first].candidates[0].size()) continue;
      const SelectedReport alone = measure_selected(subject, specs, {&probe, 1}, 8, nothing);
      ASSERT_EQ(alone.rows.size(), 3u);
      for (const SelectedRow& r : together.rows) {
        if (r.depth != probe.depth) continue;
        const auto same = std::find_if(alone.rows.begin(), alone.rows.end(),
                                       [&](const SelectedRow& a) { return a.select == r.select; });
        ASSERT_NE(same, alone.rows.end());
        if (c == 0) {
          EXPECT_EQ(std::tie(same->logprob, same->exact), std::tie(r.logprob, r.exact)) << r.select;
        } else if (r.first == 1) {
          EXPECT_LE(same->logprob, r.logprob) << r.select << " candidate " << c;
        }
      }
    }
}

// Prompts of several chunks share beginnings, are computed from there, and have the answers that they have alone.
TEST(SelectionTrial, SharedBeginningsSaveWorkAndChangeNothing) {
  const std::vector<std::string> specs{"quest:budget=64:block=16:local=16",
                                       "quest:budget=128:block=16:local=16:prompt=16"};
  constexpr int kCtx = 2 * Subject::kChunk + 176;
  Subject subject = subject_for(specs, "balanced", kCtx);
  subject.load({});
  ProbeOptions options{.ctx = kCtx, .seed = 5, .distractors = 1, .questions = 2};
  std::vector<Probe> probes = task_probes(subject.tokenizer(), "needles", {kCtx}, {60}, 1, options);
  options.questions = 1;
  const auto other = task_probes(subject.tokenizer(), "passkey", {100}, {90}, 1, options);
  probes.insert(probes.end(), other.begin(), other.end());
  ASSERT_EQ(probes.size(), 3u);
  int calls = 0, calls_alone = 0;  // one per chunk that is computed and per answer that is ranked
  const SelectedReport together =
      measure_selected(subject, specs, probes, 8, [&](std::int64_t, std::int64_t) { ++calls; });
  std::vector<SelectedRow> sums;
  for (const Probe& probe : probes) {
    const SelectedReport one =
        measure_selected(subject, specs, {&probe, 1}, 8, [&](std::int64_t, std::int64_t) { ++calls_alone; });
    for (const SelectedRow& r : one.rows) {
      const auto same = std::find_if(sums.begin(), sums.end(), [&](const SelectedRow& s) {
        return s.select == r.select && s.group == r.group && s.depth == r.depth;
      });
      if (same == sums.end())
        sums.push_back(r);
      else
        *same += r;
    }
  }
  EXPECT_EQ(calls, calls_alone - 4);  // two whole chunks of the second question, dense and chosen
  ASSERT_EQ(together.rows.size(), sums.size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const SelectedRow &a = together.rows[i], &b = sums[i];
    EXPECT_EQ(std::tie(a.select, a.group, a.depth, a.trials, a.exact, a.first, a.same, a.logprob, a.read, a.seen),
              std::tie(b.select, b.group, b.depth, b.trials, b.exact, b.first, b.same, b.logprob, b.read, b.seen));
  }
  for (Lane& lane : subject.lanes()) lane.cache->check_integrity();
}

// Of choices with as many tokens none holds more than the best; and the queries are those of dense attention, so that
// a larger budget of the same kind never holds less.
TEST(SelectionTrial, MassGrowsWithTheBudget) {
  const std::vector<std::string> specs{"quest:block=16:local=16:budget=160", "quest:block=16:local=16:budget=320",
                                       "sink_recent:block=16:initial=16:local=16:budget=32",
                                       "quest:block=16:budget=1000", "auto:from=0:budget=320"};
  Subject subject = subject_for(specs, "f16");
  std::string text;
  for (int i = 0; i < 90; ++i) text += "The quick brown fox saw " + std::to_string(i * 37 % 100) + " dogs. ";
  std::vector<std::int32_t> ids = subject.tokenizer().encode(text, {});
  ASSERT_GE(ids.size(), 500u);
  ids.resize(500);
  subject.load({});
  const auto rows = measure_mass(subject, specs, ids, 4, [](std::int64_t, std::int64_t) {});
  ASSERT_EQ(rows.size(), 5u);
  for (const MassRow& r : rows)
    for (std::size_t l = 0; l < r.mass.size(); ++l) EXPECT_LE(r.mass[l], r.best[l] + 1e-6) << r.select << " " << l;
  const auto of = [&](const std::string& spec) -> const MassRow& {
    for (const MassRow& r : rows)
      if (r.select == spec) return r;
    throw Error(Code::kBadInput, "is not there", spec);
  };
  EXPECT_GT(of(specs[1]).mean_from(0), of(specs[0]).mean_from(0));
  EXPECT_GT(of(specs[0]).mean_from(0), of(specs[2]).mean_from(0));
  EXPECT_LT(of(specs[0]).read, 0.4);
  EXPECT_EQ(of(specs[3]).mean_from(0), 1);
  EXPECT_GT(of(specs[4]).mean_from(0), 0.5);
}

}  // namespace
}  // namespace kvasir::lab::eval
