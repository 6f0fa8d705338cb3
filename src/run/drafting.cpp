#include "run/drafting.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/error.hpp"

namespace kvasir::run {
namespace {

// Rows beyond which a step of drafts is slower than steps without: products are bound by arithmetic then.
constexpr int kMostRows = 64;
// Checked draft tokens after which a costly drafter may be found not to pay.
constexpr double kTrial = 12;
constexpr double kTrust = 0.6;  // that its draft tokens are right before that

std::string name_of(const std::string& spec) { return spec.substr(0, spec.find(':')); }
std::string parameters_of(const std::string& spec) {
  const std::size_t colon = spec.find(':');
  return colon == spec.npos ? "" : spec.substr(colon + 1);
}

const DrafterKind& kind_of(const std::string& spec) {
  const DrafterKind* kind = find(drafters(), name_of(spec));
  if (!kind)
    throw Error(Code::kBadInput, "unknown drafter '" + name_of(spec) + "', expected one of: " + names(drafters()),
                "--draft");
  return *kind;
}

}  // namespace

const OptionTable<DraftOptions>& draft_table() {
  using O = DraftOptions;
  static const OptionTable<O> table{
      "draft",
      {{"draft",
        &O::draft,
        {.help = "draft further tokens and compute them together with the next one: lookup, store, mtp, mtp:FILE, "
                 "assistant:FILE or "
                 "model:FILE (see `kvasir registries`); several are asked in their order. Answers stay what they are",
         .placeholder = "NAME"}},
       {"draft_tokens",
        &O::draft_tokens,
        {.help = "most draft tokens in one step", .unit = "tokens", .low = 1, .high = kMostDraft}},
       {"draft_always",
        &O::draft_always,
        {.help = "compute unlikely draft tokens, too, which is slower; for measurements"}}}};
  return table;
}

int drafted_rows(const DraftOptions& options, int texts) {
  return options.wanted() ? std::min(kMostRows, options.draft_tokens * texts) : 0;
}

Beside drafts_memory(const DraftOptions& options, const EngineOptions& engine, int texts, std::int64_t pool_tokens) {
  Beside sum;
  for (const std::string& spec : options.draft) {
    const DrafterKind& kind = kind_of(spec);
    if (!kind.memory) continue;
    const Beside one = kind.memory(engine, texts, pool_tokens, parameters_of(spec));
    sum.weights += one.weights;
    sum.others += one.others;
  }
  return sum;
}

Drafting::Drafting(Engine& engine, const DraftOptions& options, int texts)
    : options_(options), rows_(drafted_rows(options, texts)) {
  if (!engine.cache().rules().can_draft())
    throw Error(Code::kUnsupported,
                "cannot be used with --select " + engine.options().select +
                    ", which remembers what it chose: a draft token that was wrong would change its choices",
                "--draft");
  for (const std::string& spec : options.draft) {
    const std::string name = name_of(spec);
    const DrafterKind& kind = kind_of(spec);
    for (const Known& k : known_)
      if (k.name == name) throw Error(Code::kBadInput, "names '" + name + "' twice", "--draft");
    known_.push_back({name, kind.make(engine, texts, parameters_of(spec)), std::make_unique<Acceptance>(kind.priors)});
  }
  const auto n = static_cast<std::size_t>(texts);
  rounds_.reserve(n);
  asked_.reserve(n);
  candidates_.reserve(n * kMostDraft);
}

void Drafting::check_names(std::span<const std::string> wanted) const {
  std::string all;
  for (const Known& k : known_) all += (all.empty() ? "" : ", ") + k.name;
  for (const std::string& name : wanted)
    if (std::none_of(known_.begin(), known_.end(), [&](const Known& k) { return k.name == name; }))
      throw Error(Code::kBadInput, "unknown drafter '" + name + "', expected one of: " + all, "draft");
}

std::unique_ptr<Drafting::Text> Drafting::begin(const std::string& tenant, bool reuse,
                                                const std::vector<std::string>* names, Answer& answer,
                                                std::size_t room) {
  auto text = std::make_unique<Text>();
  for (std::size_t i = 0; i < known_.size(); ++i) {
    if (!is_for(known_[i], names)) continue;
    auto own = known_[i].drafter->begin(tenant, reuse, answer, room);
    if (!own) continue;
    Source& s = text->sources.emplace_back(Source{i, std::move(own), Acceptance(known_[i].acceptance.get())});
    s.draft_tokens.reserve(kMostDraft);
    text->stats.sources.push_back({known_[i].name});
    if (!s.text->message.empty()) text->stats.message = s.text->message;
  }
  if (text->sources.empty()) return nullptr;
  text->answer = &answer;
  text->fed.reserve(kMostDraft + 1);
  return text;
}

void Drafting::open(store::Library& library) {
  for (Known& k : known_) k.drafter->open(library);
}

void Drafting::keep() {
  for (Known& k : known_) k.drafter->keep();
}

bool Drafting::is_for(const Known& known, const std::vector<std::string>* names) {
  return !names || std::find(names->begin(), names->end(), known.name) != names->end();
}

bool Drafting::reads_states(const std::vector<std::string>* names) const {
  return std::any_of(known_.begin(), known_.end(),
                     [&](const Known& k) { return k.drafter->reads_states() && is_for(k, names); });
}

void Drafting::computed(Text& text, const Computed& step) {
  const double start = steady_seconds();
  for (Source& s : text.sources)
    if (known_[s.drafter].drafter->reads_states()) known_[s.drafter].drafter->computed(*s.text, step);
  text.stats.draft_seconds += steady_seconds() - start;
}

void Drafting::end(std::unique_ptr<Text> text, std::span<const std::int32_t> ids) {
  for (Source& s : text->sources) known_[s.drafter].drafter->end(std::move(s.text), ids);
}

// Cuts draft tokens that a grammar forbids, and those behind the end of the text; rows of a prompt are no tokens.
void Drafting::keep_possible(Text& text, Source& source) {
  Answer::Ahead at = text.answer->ahead();
  std::size_t n = 0;
  while (n < source.draft_tokens.size() && source.draft_tokens[n].id >= 0 &&
         text.answer->follow(at, source.draft_tokens[n].id))
    ++n;
  source.draft_tokens.resize(n);
}

// Asks a drafter for texts that have no draft tokens worth a row.
void Drafting::ask(std::size_t drafter, std::span<Text* const> texts, double rate) {
  Drafter& d = *known_[drafter].drafter;
  const auto source = [&](const Text& t) {
    return std::find_if(t.sources.begin(), t.sources.end(), [&](const Source& s) { return s.drafter == drafter; });
  };
  const auto wants = [&](const Text& t) { return !t.from && t.most > 0 && source(t) != t.sources.end(); };
  const auto many = std::count_if(texts.begin(), texts.end(), [&](const Text* t) { return wants(*t); });
  const double row = threshold(rate);
  const double cost =
      options_.draft_always ? 0 : rate * d.token_seconds() / static_cast<double>(std::max<std::ptrdiff_t>(many, 1));
  rounds_.clear();
  for (Text* t : texts) {
    if (!wants(*t)) continue;
    Source& s = t->sources[static_cast<std::size_t>(source(*t) - t->sources.begin())];
    const auto length = static_cast<std::int64_t>(t->ids.size());
    if (cost > 0) {  // it sleeps while its draft tokens do not earn their time
      if (length < s.sleeps_until) continue;
      if (s.acceptance.tries() > kTrial && s.acceptance.mean(kTrust) < row + cost) {
        s.sleeps_until = length + s.nap;
        s.nap *= 2;
        continue;
      }
    }
    rounds_.push_back({t->ids, std::min(t->most, options_.draft_tokens), row + cost, t->answer, &s.acceptance,
                       s.text.get(), &s.draft_tokens, t->sequence});
  }
  if (rounds_.empty()) return;
  asked_.clear();
  for (Round& r : rounds_) asked_.push_back(&r);
  d.draft(asked_);
  for (Text* t : texts) {
    if (!wants(*t)) continue;
    Source& s = t->sources[static_cast<std::size_t>(source(*t) - t->sources.begin())];
    keep_possible(*t, s);
    if (!s.draft_tokens.empty() && s.acceptance.chance(s.draft_tokens[0].confidence) >= row) t->from = &s;
  }
}

void Drafting::draft(std::span<Text* const> texts, std::int64_t answers) {
  const double start = steady_seconds();
  const auto n = static_cast<double>(std::max<std::int64_t>(1, answers));
  const double rate = pace_.known() ? n / pace_.seconds(n) : 0;  // tokens per second without drafts
  for (Text* t : texts) {
    for (Source& s : t->sources) s.draft_tokens.clear();
    t->fed.clear();
    t->from = nullptr;
  }
  if (!pace_.known() && !options_.draft_always) return;  // the first steps show what a step costs
  for (std::size_t i = 0; i < known_.size(); ++i) ask(i, texts, rate);
  share_rows(texts, answers);
  const double seconds = steady_seconds() - start;
  for (Text* t : texts) t->stats.draft_seconds += seconds;
}

// The draft tokens that make tokens come fastest: the likeliest of all texts, as long as each brings more tokens than
// the step without it in the time that it takes.
void Drafting::share_rows(std::span<Text* const> texts, std::int64_t answers) {
  candidates_.clear();
  for (Text* t : texts) {
    double chance = 1;
    for (std::size_t i = 0; t->from && i < t->from->draft_tokens.size(); ++i) {
      chance *= t->from->acceptance.chance(t->from->draft_tokens[i].confidence);
      candidates_.push_back({chance, t, static_cast<int>(i)});
    }
  }
  std::stable_sort(candidates_.begin(), candidates_.end(),
                   [](const Choice& a, const Choice& b) { return a.chance > b.chance; });
  double tokens = static_cast<double>(answers), seconds = pace_.seconds(tokens);
  const double row = pace_.row_seconds();
  int rows = 0;
  for (const Choice& c : candidates_) {
    if (rows == rows_) break;
    if (!options_.draft_always && c.chance * seconds < row * tokens) break;
    std::vector<std::int32_t>& fed = c.text->fed;
    if (fed.empty()) fed.push_back(c.text->ids.back());
    if (static_cast<int>(fed.size()) != c.place + 1) continue;  // equal chances may stand in another order
    fed.push_back(c.text->from->draft_tokens[static_cast<std::size_t>(c.place)].id);
    tokens += c.chance;
    seconds += row;
    ++rows;
  }
}

void Drafting::verified(Text& text, std::span<const std::int32_t> tokens) {
  DraftStats& f = text.stats;
  ++f.steps;
  f.tokens += static_cast<std::int64_t>(tokens.size());
  for (Source& s : text.sources)  // those that were not computed teach as much
    for (std::size_t i = 0; i < std::min(tokens.size(), s.draft_tokens.size()); ++i) {
      const bool right = s.draft_tokens[i].id == tokens[i];
      s.acceptance.learn(s.draft_tokens[i].confidence, right);
      known_[s.drafter].acceptance->learn(s.draft_tokens[i].confidence, right, Acceptance::kLongMemory);
      if (!right) break;
    }
  const auto drafted = static_cast<std::size_t>(text.drafted());
  if (drafted > 0) {
    std::size_t right = 0;
    while (right < std::min(drafted, tokens.size()) && text.fed[right + 1] == tokens[right]) ++right;
    for (std::size_t i = 0; i < drafted; ++i) ++f.drafted_at[i];
    for (std::size_t i = 0; i < right; ++i) ++f.accepted_at[i];
    DraftStats::Source& own = f.sources[static_cast<std::size_t>(text.from - text.sources.data())];
    f.drafted += static_cast<std::int64_t>(drafted), own.drafted += static_cast<std::int64_t>(drafted);
    f.accepted += static_cast<std::int64_t>(right), own.accepted += static_cast<std::int64_t>(right);
  }
  text.fed.clear();
}

}  // namespace kvasir::run
