#include "lab/eval/selection_trial.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/check.hpp"
#include "base/error.hpp"
#include "lab/eval/statistics.hpp"
#include "select/spec.hpp"

namespace kvasir::lab::eval {

std::vector<std::vector<std::string>> group_selectors(const std::vector<std::string>& specs) {
  std::vector<std::vector<std::string>> groups;
  std::vector<std::string> kinds;
  const auto rest_of = [](const select::SelectSpec& s) {
    return " " + std::to_string(s.block) + (s.keeps_state() ? " state" : "") + (s.prompt > 1 ? " prompts" : "") +
           (s.adapts() ? " adapts " + std::to_string(s.meter) : "");
  };
  // Those without representatives come last: they need no cache of their own where another one suits.
  for (const bool bare : {false, true})
    for (const std::string& text : specs) {
      const select::SelectSpec spec = select::parse_select(text, "--select");
      if (spec.dense() || bare != (spec.summaries() == "none")) continue;
      const std::string rest = rest_of(spec);
      const auto same = std::find_if(kinds.begin(), kinds.end(), [&](const std::string& kind) {
        return bare ? kind.ends_with(rest) : kind == spec.summaries() + rest;
      });
      const auto at = static_cast<std::size_t>(same - kinds.begin());
      if (at == kinds.size()) {
        kinds.push_back(spec.summaries() + rest);
        groups.push_back({"all"});
      }
      groups[at].push_back(text);
    }
  if (groups.empty()) groups.push_back({"all"});
  return groups;
}

std::string cache_selector(const std::vector<std::string>& group) { return group[group.size() > 1 ? 1 : 0]; }

namespace {
constexpr std::size_t kKept = 16;   // beginnings of the last prompt
constexpr std::size_t kAtOnce = 8;  // continuations of one step, so that weights are read once for all

// The ways of a group to read a prompt: the dense one, and those that choose.
std::vector<std::string> readings(const std::vector<std::string>& group) {
  std::vector<std::string> some{"all"};
  for (const std::string& spec : group)
    if (select::parse_select(spec, "--select").chooses_for_prompts()) some.push_back(spec);
  return some;
}
}  // namespace

Subject::Needs selection_needs(const std::vector<std::string>& specs, std::int64_t ctx) {
  Subject::Needs needs{.sequences = 0, .extra_tokens = 0, .baseline = false, .selectors = {}};
  for (const auto& group : group_selectors(specs)) {
    const auto ways = static_cast<std::int64_t>(readings(group).size());
    const std::int64_t forks = ways * static_cast<std::int64_t>(kKept + 1) + static_cast<std::int64_t>(kAtOnce);
    needs.sequences = std::max(needs.sequences, 1 + static_cast<int>(forks));
    needs.extra_tokens = std::max(needs.extra_tokens, ways * ctx + forks * Subject::kChunk);
    needs.selectors.push_back(cache_selector(group));
  }
  return needs;
}

SelectedRow& SelectedRow::operator+=(const SelectedRow& o) {
  tokens = std::max(tokens, o.tokens);
  trials += o.trials, exact += o.exact, first += o.first, same += o.same;
  logprob += o.logprob, read += o.read, seen += o.seen, mass += o.mass, measured += o.measured;
  return *this;
}

std::optional<double> SelectedRow::mean_mass() const {
  if (measured > 0) return mass / static_cast<double>(measured);
  return seen > 0 ? std::nullopt : std::optional<double>(1);
}

namespace {

class Reader {
 public:
  Reader(Subject& subject, Lane& lane) : s_(subject), lane_(lane) {}

  // A sequence of all of `ids`, as a prompt.
  kv::Sequence* read(std::span<const std::int32_t> ids, const std::string& spec, const std::function<void()>& poll) {
    kv::Sequence* sequence = lane_.cache->create();
    lane_.cache->set_selection(sequence, select::read_selector(spec, "--select"));
    append(sequence, ids, poll);
    return sequence;
  }

  void append(kv::Sequence* sequence, std::span<const std::int32_t> ids, const std::function<void()>& poll) {
    for (std::size_t i = 0; i < ids.size(); i += Subject::kChunk) {
      poll();
      const model::Input input{sequence, ids.subspan(i, std::min<std::size_t>(Subject::kChunk, ids.size() - i)), 0};
      lane_.forward->step({&input, 1});
    }
  }

  // Generated tokens one by one: logits behind the last.
  std::vector<float> decode(kv::Sequence* sequence, std::span<const std::int32_t> ids) {
    std::vector<float> next;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const model::Input input{sequence, ids.subspan(i, 1), i + 1 == ids.size() ? 1 : 0, true};
      const std::span<const float> row = lane_.forward->step({&input, 1});
      if (i + 1 == ids.size()) next.assign(row.begin(), row.end());
    }
    return next;
  }

  struct Answer {
    std::vector<double> scores;  // ln P(candidate | what the sequence holds)
    std::vector<std::int32_t> greedy;
  };

  // Candidates in forks, and behind them greedy decoding of `count` tokens, which moves the sequence itself; kAtOnce of
  // these step by step together. `next`: logits behind the sequence.
  Answer answer(kv::Sequence* sequence, const std::vector<float>& next,
                std::span<const std::vector<std::int32_t>> candidates, std::size_t count,
                const std::function<void()>& poll) {
    std::vector<Line> all;
    for (const auto& candidate : candidates) all.push_back({.given = candidate});
    all.push_back({.count = count});
    Answer a;
    const std::size_t most = std::min(kAtOnce, static_cast<std::size_t>(s_.logits_rows()));
    for (std::size_t first = 0; first < all.size(); first += most) {
      const auto lines = std::span(all).subspan(first, std::min(most, all.size() - first));
      for (Line& line : lines) line.sequence = line.given.empty() ? sequence : lane_.cache->fork(*sequence);
      run(lines, next, poll);
      for (const Line& line : lines) {
        if (line.given.empty()) continue;
        lane_.cache->release(line.sequence);
        if (!std::isfinite(line.sum)) throw Error(Code::kUnsupported, "the model's output is not a number", lane_.name);
        a.scores.push_back(line.sum);
      }
    }
    a.greedy = std::move(all.back().ids);
    return a;
  }

 private:
  // One continuation: given tokens, or the most probable ones.
  struct Line {
    kv::Sequence* sequence = nullptr;
    std::span<const std::int32_t> given{};
    std::size_t count = 0;  // of the most probable ones at most
    std::vector<std::int32_t> ids{};
    double sum = 0;  // of log-probabilities
    bool done = false;

    // Takes the next token by the logits in front of it.
    void take(std::span<const float> next, const text::Tokenizer& tokenizer) {
      const auto id = given.empty() ? static_cast<std::int32_t>(argmax(next)) : given[ids.size()];
      sum += static_cast<double>(next[static_cast<std::size_t>(id)]) - log_sum_exp(next);
      ids.push_back(id);
      done = given.empty() ? ids.size() >= count || tokenizer.is_eog(id) : ids.size() == given.size();
    }
  };

  void run(std::span<Line> lines, const std::vector<float>& next, const std::function<void()>& poll) {
    for (Line& line : lines) line.take(next, s_.tokenizer());
    for (;;) {
      std::vector<Line*> open;
      std::vector<model::Input> inputs;
      for (Line& line : lines)
        if (!line.done) {
          open.push_back(&line);
          inputs.push_back({line.sequence, {&line.ids.back(), 1}, 1, true});
        }
      if (open.empty()) return;
      poll();
      const std::span<const float> rows = lane_.forward->step(inputs);
      const std::size_t width = rows.size() / open.size();
      for (std::size_t i = 0; i < open.size(); ++i) open[i]->take(rows.subspan(i * width, width), s_.tokenizer());
    }
  }

  Subject& s_;
  Lane& lane_;
};

// What the choice of the sequence's next token, `id`, holds. Measured in a fork: the sequence stays as it is.
kv::SelectionStats::Layer measure_next(Reader& reader, kv::Cache& cache, const kv::Sequence& sequence,
                                       const std::string& spec, std::int32_t id) {
  kv::Sequence* fork = cache.fork(sequence);
  kv::SelectionStats::Layer f = cache.stats(*fork).selection.total();
  const double mass = f.mass;
  const std::int64_t measured = f.measured;
  cache.set_selection(fork, select::read_selector(spec + ":meter=1:floor=0:aim=0", "--select"));
  reader.decode(fork, {&id, 1});
  f = cache.stats(*fork).selection.total();
  cache.release(fork);
  return {.measured = f.measured - measured, .mass = f.mass - mass};
}

// Beginnings of the last prompt of a lane, read with `spec`: the next one goes on behind what both share. What a prompt
// chooses depends on its positions and tokens alone, so that a fork has what a prompt that is read anew has.
class Beginnings {
 public:
  Beginnings(Subject& subject, Lane& lane, std::string spec)
      : reader_(subject, lane), cache_(*lane.cache), spec_(std::move(spec)) {}
  ~Beginnings() { drop_behind(0); }
  Beginnings(const Beginnings&) = delete;
  Beginnings& operator=(const Beginnings&) = delete;

  // A sequence of all of `ids`. The caller releases it.
  kv::Sequence* read(std::span<const std::int32_t> ids, const std::function<void()>& poll) {
    drop_behind(
        static_cast<std::size_t>(std::mismatch(ids.begin(), ids.end(), ids_.begin(), ids_.end()).first - ids.begin()));
    ids_.assign(ids.begin(), ids.end());
    const std::size_t chunk = Subject::kChunk, last = ids.size() / chunk * chunk;
    // All but one at even distances, the last at the end of the last whole chunk.
    const std::size_t stride = (last / (kKept - 1) / chunk + 1) * chunk;
    std::size_t at = kept_.empty() ? 0 : static_cast<std::size_t>(kv::Cache::length(*kept_.back()));
    kv::Sequence* sequence = kept_.empty() ? reader_.read({}, spec_, poll) : cache_.fork(*kept_.back());
    while (at < ids.size()) {
      const std::size_t next = std::min({at / stride * stride + stride, at < last ? last : ids.size(), ids.size()});
      reader_.append(sequence, ids.subspan(at, next - at), poll);
      at = next;
      if (at < ids.size() && kept_.size() < kKept) kept_.push_back(cache_.fork(*sequence));
    }
    return sequence;
  }

 private:
  void drop_behind(std::size_t length) {
    while (!kept_.empty() && static_cast<std::size_t>(kv::Cache::length(*kept_.back())) > length) {
      cache_.release(kept_.back());
      kept_.pop_back();
    }
  }

  Reader reader_;
  kv::Cache& cache_;
  std::string spec_;
  std::vector<std::int32_t> ids_;
  std::vector<kv::Sequence*> kept_;  // each a beginning of the next
};

SelectedRow* row_for(std::vector<SelectedRow>* rows, const std::string& kv, const std::string& select,
                     const Probe& probe) {
  for (SelectedRow& r : *rows)
    if (r.kv == kv && r.select == select && r.group == probe.group && r.depth == probe.depth) return &r;
  rows->push_back({.kv = kv, .select = select, .group = probe.group, .depth = probe.depth});
  return &rows->back();
}

}  // namespace

SelectedReport measure_selected(Subject& subject, const std::vector<std::string>& specs, std::span<const Probe> probes,
                                std::int64_t asked, const std::function<void(std::int64_t, std::int64_t)>& poll) {
  KVASIR_CHECK(!probes.empty() && asked >= 1);
  const auto groups = group_selectors(specs);
  SelectedReport report;
  const auto total = static_cast<std::int64_t>(probes.size());
  std::vector<std::map<std::string, Beginnings>> beginnings;  // by lane and way of reading
  for (Lane& lane : subject.lanes()) {
    beginnings.emplace_back();
    for (const std::string& spec : readings(groups[(beginnings.size() - 1) % groups.size()]))
      beginnings.back().try_emplace(spec, subject, lane, spec);
  }
  for (std::int64_t i = 0; i < total; ++i) {
    const Probe& probe = probes[static_cast<std::size_t>(i)];
    report.chance += 1 / static_cast<double>(probe.candidates.size()) / static_cast<double>(total);
    std::size_t l = 0;
    std::vector<std::int32_t> dense;  // of the codecs at hand
    for (Lane& lane : subject.lanes()) {
      std::map<std::string, Beginnings>& known = beginnings[l];
      const std::size_t g = l++ % groups.size();
      kv::Cache& cache = *lane.cache;
      Reader reader(subject, lane);
      const std::span<const std::int32_t> prompt = probe.prompt;
      const std::size_t question = std::min(static_cast<std::size_t>(asked), prompt.size() - 1);
      const auto before = prompt.first(prompt.size() - question);
      const auto read = [&](const std::string& spec) { return known.at(spec).read(before, [&] { poll(i, total); }); };
      // Where the prompt's last tokens vote (`window`), they are read with the selector: their queries are wanted.
      const auto read_with_votes = [&](const std::string& spec, std::size_t votes) {
        const auto front = before.first(before.size() - votes);
        kv::Sequence* sequence = known.at("all").read(front, [&] { poll(i, total); });
        cache.set_selection(sequence, select::read_selector(spec, "--select"));
        reader.append(sequence, before.subspan(front.size()), [&] { poll(i, total); });
        return sequence;
      };
      kv::Sequence* base = nullptr;  // what was read with dense attention, if any selector goes on behind it
      for (const std::string& spec : groups[g]) {
        if (spec == "all" && g > 0) continue;  // the same as in the group before
        const bool anew = spec != "all" && known.count(spec) > 0;
        const auto votes =
            std::min(before.size(), static_cast<std::size_t>(select::parse_select(spec, "--select").window));
        if (!anew && !base) base = read("all");
        kv::Sequence* sequence = anew ? read(spec) : votes > 0 ? read_with_votes(spec, votes) : cache.fork(*base);
        cache.set_selection(sequence, select::read_selector(spec, "--select"));
        reader.decode(sequence, prompt.last(question).first(question - 1));
        kv::SelectionStats::Layer begins;
        if (spec != "all") begins = measure_next(reader, cache, *sequence, spec, prompt.back());
        const std::vector<float> next = reader.decode(sequence, prompt.last(1));
        SelectedRow one{.tokens = static_cast<std::int64_t>(prompt.size()), .trials = 1};
        const auto answer =
            reader.answer(sequence, next, probe.candidates, probe.candidates.front().size(), [&] { poll(i, total); });
        if (spec == "all") dense = answer.greedy;
        one.logprob = answer.scores.front();
        one.exact = subject.tokenizer().decode(answer.greedy).find(probe.answer) <= 1;  // perhaps behind one space
        one.first = std::max_element(answer.scores.begin(), answer.scores.end()) == answer.scores.begin();
        one.same = answer.greedy == dense;
        const kv::SelectionStats::Layer f = cache.stats(*sequence).selection.total();
        one.read = f.read, one.seen = f.seen;
        one.mass = f.mass + begins.mass, one.measured = f.measured + begins.measured;
        cache.release(sequence);
        *row_for(&report.rows, lane.name, spec, probe) += one;
        if (spec == "all") report.dense += one;
      }
      if (base) cache.release(base);
    }
  }
  report.guessing = binomial_tail(report.dense.trials, report.dense.first, report.chance);
  return report;
}

double MassRow::mean_from(std::size_t layer) const {
  if (layer >= mass.size()) layer = 0;
  double sum = 0;
  for (std::size_t i = layer; i < mass.size(); ++i) sum += mass[i];
  return sum / static_cast<double>(mass.size() - layer);
}

std::vector<MassRow> measure_mass(Subject& subject, const std::vector<std::string>& specs,
                                  std::span<const std::int32_t> ids, std::int64_t queries,
                                  const std::function<void(std::int64_t, std::int64_t)>& poll) {
  KVASIR_CHECK(queries >= 1 && queries < static_cast<std::int64_t>(ids.size()));
  const auto groups = group_selectors(specs);
  const auto text = ids.first(ids.size() - static_cast<std::size_t>(queries));
  const auto total = static_cast<std::int64_t>(subject.lanes().size());
  std::vector<MassRow> rows;
  std::int64_t l = 0;
  for (Lane& lane : subject.lanes()) {
    const auto& group = groups[static_cast<std::size_t>(l) % groups.size()];
    Reader reader(subject, lane);
    kv::Cache& cache = *lane.cache;
    kv::Sequence* base = reader.read(text, "all", [&] { poll(l, total); });
    for (const std::string& spec : group) {
      if (spec == "all") continue;
      kv::Sequence* sequence = cache.fork(*base);
      // Below a floor of everything, a measured step reads everything: the queries are those of dense attention. No
      // share moves, because every query is measured.
      cache.set_selection(sequence, select::read_selector(spec + ":meter=1:floor=1:aim=0", "--select"));
      MassRow row{.kv = lane.name, .select = spec};
      for (std::int64_t i = 0; i < queries; ++i) {
        poll(l, total);
        const auto token = ids.subspan(text.size() + static_cast<std::size_t>(i), 1);
        kv::Sequence* chosen = cache.fork(*sequence);
        cache.set_selection(chosen, select::read_selector(spec + ":meter=0:floor=0:aim=0", "--select"));
        const std::vector<float> sparse = reader.decode(chosen, token);
        cache.release(chosen);
        const std::vector<float> dense = reader.decode(sequence, token);
        row.kl += kl_divergence(dense, log_sum_exp(dense), sparse, log_sum_exp(sparse)) / static_cast<double>(queries);
        row.same += argmax(dense) == argmax(sparse) ? 1 / static_cast<double>(queries) : 0;
      }
      const kv::SelectionStats& stats = cache.stats(*sequence).selection;
      for (const kv::SelectionStats::Layer& layer : stats.layers) {
        const auto n = static_cast<double>(std::max<std::int64_t>(layer.measured, 1));
        row.mass.push_back(layer.measured > 0 ? layer.mass / n : 1);
        row.best.push_back(layer.measured > 0 ? layer.best / n : 1);
      }
      const kv::SelectionStats::Layer t = stats.total();
      row.read = t.context > 0 ? t.choice / t.context : 1;
      rows.push_back(std::move(row));
      cache.release(sequence);
    }
    cache.release(base);
    ++l;
  }
  return rows;
}

}  // namespace kvasir::lab::eval
