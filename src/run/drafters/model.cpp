// A second, smaller model with the same vocabulary (Leviathan et al. 2023; Chen et al. 2023). It draws as the request
// does, with the random numbers that the request will draw with, so that both often draw the same. Its cache is its own
// and stays when a request ends: the next turn of a conversation goes on there.
#include <algorithm>
#include <list>
#include <optional>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "model/hparams.hpp"
#include "run/draft_sampler.hpp"
#include "weights/model_file.hpp"

namespace kvasir::run::drafters_model {
namespace {

constexpr std::int64_t kLeastShare = 16;  // equal tokens for which an old sequence is taken over
constexpr double kMemory = 0.95;

// A sequence of the model's cache, and the tokens that it has.
struct Line {
  std::string tenant;
  kv::Sequence* sequence = nullptr;
  std::vector<std::int32_t> ids;
};

std::int64_t common(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  const auto n = static_cast<std::ptrdiff_t>(std::min(a.size(), b.size()));
  return std::mismatch(a.begin(), a.begin() + n, b.begin()).first - a.begin();
}

class Text final : public DraftText {
 public:
  std::optional<Line> line;  // none: not begun, or there was no room
  std::string tenant;
  bool reuse = false;
  bool hopeless = false;  // too long for the model, or a token that it does not have
  bool rows = false;      // its prompt has some
  // Then: the text without them, which the model has not learned to read. It drafts what follows the words.
  std::vector<std::int32_t> words;
  std::size_t read = 0;  // ids of the text that were looked at
  DraftSampler draw;
  explicit Text(DraftSampler d) : draw(std::move(d)) {}
};

class Model final : public Drafter {
 public:
  Model(Engine& target, int texts, const std::string& file);

  std::unique_ptr<DraftText> begin(const std::string& tenant, bool reuse, const Answer& answer, std::size_t) override;
  void draft(std::span<Round* const> rounds) override;
  void end(std::unique_ptr<DraftText> text, std::span<const std::int32_t> ids) override;
  double token_seconds() const override { return seconds_; }

 private:
  static std::span<const std::int32_t> words_of(Text& text, std::span<const std::int32_t> ids);
  void place(Text& text, std::span<const std::int32_t> ids);
  bool feed(const model::Input& input);
  bool catch_up(Text& text, std::span<const std::int32_t> ids);
  void drop_oldest();

  Engine& target_;
  Engine engine_;
  std::int32_t vocab_;    // ids below are the same in both
  std::list<Line> idle_;  // the oldest first
  std::vector<float> logits_;
  double seconds_ = 0;  // of a step of one token, a moving mean
  std::vector<Round*> growing_;
  std::vector<model::Input> inputs_;
  std::vector<std::int32_t> last_;
};

// Of an engine for the drafts of one with these options and contexts of so many tokens.
EngineOptions options_for(const EngineOptions& target, std::int64_t context, const weights::ModelFile& file,
                          const std::string& path) {
  EngineOptions o;
  o.model = path;
  o.threads = target.threads;
  o.chunk = target.chunk;
  o.kv = "f16";  // cut anywhere
  const std::int64_t most = model::read_spec(file, context).most_positions();
  o.ctx = static_cast<std::int32_t>(most > 0 ? std::min(most, context) : context);
  return o;
}

// Texts that run, and as many that ended and may go on.
Model::Model(Engine& target, int texts, const std::string& file)
    : target_(target),
      engine_(options_for(target.options(), target.context(), *weights::open_model_file(file), file),
              {.sequences = 2 * texts,
               .pool_tokens = std::max(target.cache().memory().tokens, target.context()),
               .logits = texts,
               .team = &target.team()}) {
  const text::Tokenizer *own = engine_.tokenizer(), *theirs = target.tokenizer();
  const auto bad = [&](const std::string& why) { throw Error(Code::kBadInput, why, "--draft model:" + file); };
  if (!own != !theirs) bad("expected a vocabulary, as the model has one, or none, as it has none");
  const std::int64_t vocab = target.model().spec().vocab;
  vocab_ = static_cast<std::int32_t>(std::min(engine_.model().spec().vocab, vocab));
  if (own) {
    if (own->size() != theirs->size())
      bad("has " + std::to_string(own->size()) + " tokens, expected the model's " + std::to_string(theirs->size()));
    for (std::int32_t id = 0; id < own->size(); ++id)
      if (own->piece(id) != theirs->piece(id))
        bad("has '" + std::string(own->piece(id)) + "' as token " + std::to_string(id) + ", expected the model's '" +
            std::string(theirs->piece(id)) + "'");
  } else if (engine_.model().spec().vocab != vocab) {
    bad("has " + std::to_string(engine_.model().spec().vocab) + " tokens, expected the model's " +
        std::to_string(vocab));
  }
  logits_.resize(static_cast<std::size_t>(vocab));
  growing_.reserve(static_cast<std::size_t>(texts));
  inputs_.reserve(static_cast<std::size_t>(texts));
  last_.reserve(static_cast<std::size_t>(texts));
}

// Texts with rows only grow; others may lose their middle.
std::span<const std::int32_t> Model::words_of(Text& text, std::span<const std::int32_t> ids) {
  if (text.read == 0) text.rows = std::any_of(ids.begin(), ids.end(), [](std::int32_t id) { return id < 0; });
  if (!text.rows) {
    text.read = ids.size();
    return ids;
  }
  for (; text.read < ids.size(); ++text.read)
    if (ids[text.read] >= 0) text.words.push_back(ids[text.read]);
  return text.words;
}

std::unique_ptr<DraftText> Model::begin(const std::string& tenant, bool reuse, const Answer& answer, std::size_t) {
  auto text =
      std::make_unique<Text>(DraftSampler(answer, static_cast<std::int32_t>(target_.model().spec().vocab), vocab_));
  text->tenant = tenant;
  text->reuse = reuse;
  return text;
}

void Model::end(std::unique_ptr<DraftText> text, std::span<const std::int32_t>) {
  Text& t = *static_cast<Text*>(text.get());
  if (!t.line) return;
  if (t.reuse) {
    idle_.push_back(std::move(*t.line));
    if (static_cast<int>(idle_.size()) > engine_.sequences() / 2) drop_oldest();
  } else {
    engine_.cache().release(t.line->sequence);
  }
}

void Model::drop_oldest() {
  engine_.cache().release(idle_.front().sequence);
  idle_.pop_front();
}

// Gives the text the sequence that has most of it.
void Model::place(Text& text, std::span<const std::int32_t> ids) {
  auto best = idle_.end();
  std::int64_t most = kLeastShare - 1;
  for (auto it = idle_.begin(); text.reuse && it != idle_.end(); ++it) {
    if (it->tenant != text.tenant) continue;
    const std::int64_t equal = common(it->ids, ids);
    if (equal <= most || !engine_.cache().rules().can_truncate(*it->sequence, equal)) continue;
    best = it, most = equal;
  }
  if (best != idle_.end()) {
    text.line = std::move(*best);
    idle_.erase(best);
  } else {
    text.line = Line{text.tenant, engine_.cache().create(), {}};
  }
  text.line->ids.reserve(static_cast<std::size_t>(engine_.context()));
}

// Feeds what the sequence has not, but for the last token. False: it has to wait, or there is no room.
bool Model::catch_up(Text& text, std::span<const std::int32_t> ids) {
  if (text.hopeless) return false;
  if (static_cast<std::int64_t>(ids.size()) + kMostDraft >= engine_.context()) return !(text.hopeless = true);
  if (!text.line) place(text, ids);
  Line& line = *text.line;
  kv::Cache& cache = engine_.cache();
  std::int64_t have = std::min(common(line.ids, ids), static_cast<std::int64_t>(ids.size()) - 1);
  if (have < cache.length(*line.sequence)) {
    if (!cache.rules().can_truncate(*line.sequence, have)) have = 0;
    cache.truncate(line.sequence, have);
  }
  line.ids.resize(static_cast<std::size_t>(have));
  const std::span<const std::int32_t> missing =
      ids.subspan(static_cast<std::size_t>(have), ids.size() - 1 - static_cast<std::size_t>(have));
  for (const std::int32_t id : missing)
    if (id >= engine_.model().spec().vocab) return !(text.hopeless = true);
  if (missing.empty()) return true;
  // A chunk at a time, so that a long prompt does not hold up the texts beside it.
  const auto now = missing.first(std::min(missing.size(), static_cast<std::size_t>(engine_.forward().max_tokens())));
  if (!feed({line.sequence, now, 0})) return !(text.hopeless = true);
  line.ids.insert(line.ids.end(), now.begin(), now.end());
  return now.size() == missing.size();
}

// Old sequences go where there is no room. False: there is none all the same.
bool Model::feed(const model::Input& input) {
  for (;;) {
    try {
      engine_.forward().step({&input, 1});
      return true;
    } catch (const Error& e) {
      if (e.code() != Code::kMemory) throw;
      if (idle_.empty()) return false;
      drop_oldest();
    }
  }
}

void Model::draft(std::span<Round* const> rounds) {
  growing_.clear();
  for (Round* round : rounds) {
    Text& text = *static_cast<Text*>(round->text);
    if (!catch_up(text, words_of(text, round->ids))) continue;
    text.draw.begin(*round);
    if (round->ids.back() < engine_.model().spec().vocab) growing_.push_back(round);
  }
  for (int n = 0; !growing_.empty(); ++n) {
    inputs_.clear();
    last_.clear();
    for (Round* round : growing_) last_.push_back(n == 0 ? round->ids.back() : round->draft_tokens->back().id);
    for (std::size_t i = 0; i < growing_.size(); ++i)
      inputs_.push_back({static_cast<Text*>(growing_[i]->text)->line->sequence, {&last_[i], 1}, 1, true});
    const double start = steady_seconds();
    std::span<const float> rows;
    try {
      rows = engine_.forward().step(inputs_);
    } catch (const Error& e) {
      if (e.code() != Code::kMemory) throw;
      return;
    }
    const auto vocab = static_cast<std::size_t>(engine_.model().spec().vocab);
    for (std::size_t i = 0; i < growing_.size(); ++i) {
      static_cast<Text*>(growing_[i]->text)->line->ids.push_back(last_[i]);
      static_cast<Text*>(growing_[i]->text)->draw.add(*growing_[i], rows.subspan(i * vocab, vocab), logits_);
    }
    const double now = steady_seconds() - start;
    seconds_ = seconds_ > 0 ? kMemory * seconds_ + (1 - kMemory) * now : now;
    std::erase_if(growing_, [&](const Round* round) {
      return !static_cast<const Text*>(round->text)->draw.goes_on(*round, n + 1) ||
             round->draft_tokens->back().id >= engine_.model().spec().vocab;
    });
  }
}

void check_parameters(const std::string& parameters) {
  if (parameters.empty()) throw Error(Code::kBadInput, "names no file, expected model:FILE", "--draft model");
}

Beside memory(const EngineOptions& target, int texts, std::int64_t pool_tokens, const std::string& path) {
  check_parameters(path);
  const std::int64_t context = context_for(target, model::read_spec(*weights::open_model_file(target.model)));
  const auto file = weights::open_model_file(path);
  const EngineOptions own = options_for(target, context, *file, path);
  const EnginePlan plan = plan_engine(*file, own, 2 * texts, texts, std::max(pool_tokens, context));
  return {plan.weight_bytes, plan.total() - plan.weight_bytes};
}

std::unique_ptr<Drafter> make(Engine& engine, int texts, const std::string& parameters) {
  check_parameters(parameters);
  return std::make_unique<Model>(engine, texts, parameters);
}

}  // namespace

const DrafterKind entry = {"model:FILE: what a smaller model of the same vocabulary says",
                           make,
                           memory,
                           {0.15, 0.3, 0.5, 0.67, 0.8, 0.9, 0.95, 0.98}};

}  // namespace kvasir::run::drafters_model
