// What the model's own block for further tokens says (model/mtp_head.hpp). It reads the states of every token that the
// model computes, so it follows a text from the first step of its prompt on, in a cache of its own with one row less
// than the model's. What the model takes from a store has no states: there the block begins behind it, and knows what
// was before only from the states, unless an earlier text of the tenant left the rows.
#include <algorithm>
#include <list>
#include <optional>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/host.hpp"
#include "model/hparams.hpp"
#include "model/mtp_head.hpp"
#include "model/spec_fields.hpp"
#include "run/draft_sampler.hpp"

namespace kvasir::run::drafters_mtp {
namespace {

constexpr std::int64_t kPending = 2 * kMostDraft;  // states that wait, so that they are computed together
constexpr double kMemory = 0.95;

std::int64_t common(std::span<const std::int32_t> a, std::span<const std::int32_t> b) {
  const auto n = static_cast<std::ptrdiff_t>(std::min(a.size(), b.size()));
  return std::mismatch(a.begin(), a.begin() + n, b.begin()).first - a.begin();
}

// A sequence of the block's cache. Its row r is of token first + r of `ids`, and the last row is of the last but one.
struct Line {
  std::string tenant;
  kv::Sequence* sequence = nullptr;
  std::int64_t first = 0;
  std::vector<std::int32_t> ids;

  std::int64_t end() const { return static_cast<std::int64_t>(ids.size()) - 1; }  // the first token that has no row
};

struct Text final : DraftText {
  explicit Text(DraftSampler d) : draw(std::move(d)) {}
  std::string tenant;
  bool reuse = false;
  bool hopeless = false;      // there was no room
  std::optional<Line> line;   // none: nothing was computed yet
  std::vector<float> states;  // (kPending, dim): of tokens behind those that have rows
  std::int64_t pending = 0;   // how many
  DraftSampler draw;
  const float* state = nullptr;  // of the round: what the next draft token is made of
};

kv::CacheOptions cache_for(const EngineOptions& target, int texts, std::int64_t context, std::int64_t pool_tokens) {
  kv::CacheOptions cache;
  cache.k_codec = cache.v_codec = "f16";  // cut anywhere
  cache.max_tokens = std::max(pool_tokens, context);
  cache.step_tokens = static_cast<int>(std::max(std::min<std::int64_t>(target.chunk, context), texts * kPending));
  cache.max_sequences = 2 * texts;  // texts that run, and as many that ended and may go on
  return cache;
}

struct Block {
  std::unique_ptr<weights::ModelFile> file;
  model::ModelSpec spec;
};

// Of the model's own file, or of `path`. `model`: what it drafts for.
Block block_of(EngineOptions target, const model::ModelSpec& model, std::int64_t context, const std::string& path) {
  if (!path.empty()) target.model = path;
  auto file = open_model(target);
  model::ModelSpec spec = model::read_mtp_head(*file, context);
  set_arithmetic(spec, target);  // the model's: it may lend matrices
  if (spec.arch != model.arch || spec.dim != model.dim || spec.vocab != model.vocab)
    throw Error(Code::kBadInput,
                "has layers of a " + spec.arch + " model, " + std::to_string(spec.dim) + " wide, with " +
                    std::to_string(spec.vocab) + " tokens; expected the model's: " + model.arch + ", " +
                    std::to_string(model.dim) + " and " + std::to_string(model.vocab),
                path);
  bool has = false;
  model::for_each<model::Linear>(
      model, [&](const model::Linear& l) { has |= l.name == spec.head.output.name && l.cut.of == 0; });
  spec.head.output.lent &= has;
  return {std::move(file), std::move(spec)};
}

class Mtp final : public Drafter {
 public:
  Mtp(Engine& target, int texts, const std::string& path);

  std::unique_ptr<DraftText> begin(const std::string& tenant, bool reuse, const Answer& answer, std::size_t) override;
  bool reads_states() const override { return true; }
  void computed(DraftText& text, const Computed& step) override;
  void draft(std::span<Round* const> rounds) override;
  void end(std::unique_ptr<DraftText> text, std::span<const std::int32_t> ids) override;
  double token_seconds() const override { return seconds_; }

 private:
  void place(Text& text, const Computed& step);
  bool cut(Line& line, std::int64_t end);
  void feed(Text& text, std::span<const std::int32_t> ids, const float* states, std::int64_t count);
  void flush(Text& text, std::span<const std::int32_t> ids);
  bool make_room();
  void leave(Text& text);

  Engine& target_;
  std::int64_t dim_;
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<kv::Cache> cache_;
  std::unique_ptr<model::Forward> forward_;
  std::size_t texts_;
  std::list<Line> idle_;       // the oldest first
  std::vector<Text*> active_;  // with a line
  std::vector<float> room_;    // (vocab)
  std::vector<float> chunk_;   // (rows of a step, dim)
  std::vector<float> own_;     // (texts, dim): states of the round
  double seconds_ = 0;         // of a step of one token, a moving mean
  std::vector<Round*> growing_;
  std::vector<model::Input> inputs_;
  std::vector<std::int32_t> last_;
};

Mtp::Mtp(Engine& target, int texts, const std::string& path)
    : target_(target), dim_(target.model().spec().dim), texts_(static_cast<std::size_t>(texts)) {
  Block block = block_of(target.options(), target.model().spec(), target.context(), path);
  model_ = model::Model::load(std::move(block.spec), std::move(block.file), target.team(),
                              {.exact = target.options().computes_exactly(), .lender = &target.model()});
  const kv::CacheOptions cache = cache_for(target.options(), texts, target.context(), target.cache().memory().tokens);
  cache_ = std::make_unique<kv::Cache>(target.team(), model::cache_shape(model_->spec()), cache);
  forward_ = std::make_unique<model::Forward>(target.team(), *model_, *cache_, cache.step_tokens, texts);
  room_.resize(static_cast<std::size_t>(target.model().spec().vocab));
  chunk_.resize(static_cast<std::size_t>(cache.step_tokens * dim_));
  own_.resize(texts_ * static_cast<std::size_t>(dim_));
  growing_.reserve(texts_);
  inputs_.reserve(texts_);
  last_.reserve(texts_);
  active_.reserve(texts_);
}

std::unique_ptr<DraftText> Mtp::begin(const std::string& tenant, bool reuse, const Answer& answer, std::size_t) {
  const auto vocab = static_cast<std::int32_t>(target_.model().spec().vocab);
  auto text = std::make_unique<Text>(DraftSampler(answer, vocab, vocab));
  text->tenant = tenant;
  text->reuse = reuse;
  text->states.resize(static_cast<std::size_t>(kPending * dim_));
  return text;
}

void Mtp::leave(Text& text) {
  std::erase(active_, &text);
  text.pending = 0;
  if (text.line) cache_->release(text.line->sequence);
  text.line.reset();
}

// Old sequences go where there is no room. False: there are none.
bool Mtp::make_room() {
  if (idle_.empty()) return false;
  cache_->release(idle_.front().sequence);
  idle_.pop_front();
  return true;
}

// Cuts a line to the tokens before `end`. False: that is not possible.
bool Mtp::cut(Line& line, std::int64_t end) {
  if (end < line.first || end > line.end() || !cache_->rules().can_truncate(*line.sequence, end - line.first))
    return false;
  cache_->truncate(line.sequence, end - line.first);
  line.ids.resize(static_cast<std::size_t>(end) + 1);
  return true;
}

// The sequence that has the most rows before the step's first token: one that ended, or a copy of one that runs; else
// an empty one.
void Mtp::place(Text& text, const Computed& step) {
  const auto fits = [&](const Line& line) {
    return line.tenant == text.tenant && line.first < step.first && line.end() >= step.first &&
           common(line.ids, step.ids) > step.first;
  };
  auto best = idle_.end();
  for (auto it = idle_.begin(); text.reuse && it != idle_.end(); ++it)
    if (fits(*it) && (best == idle_.end() || it->first < best->first)) best = it;
  if (best != idle_.end()) {
    Line line = std::move(*best);
    idle_.erase(best);
    if (cut(line, step.first))
      text.line = std::move(line);
    else
      cache_->release(line.sequence);
  }
  for (const Text* other : active_)
    if (!text.line && text.reuse && other->reuse && fits(*other->line)) {
      Line line = *other->line;
      try {
        line.sequence = cache_->fork(*other->line->sequence);
      } catch (const Error&) {
        break;
      }
      if (cut(line, step.first))
        text.line = std::move(line);
      else
        cache_->release(line.sequence);
    }
  if (!text.line) {
    kv::Sequence* sequence = cache_->create();
    const auto ids = step.ids.first(static_cast<std::size_t>(step.first) + 1);
    text.line = Line{text.tenant, sequence, step.first, {ids.begin(), ids.end()}};
  }
  text.line->ids.reserve(static_cast<std::size_t>(target_.context()) + 1);
  active_.push_back(&text);
}

// Rows of the next `count` tokens, whose next ones are known.
void Mtp::feed(Text& text, std::span<const std::int32_t> ids, const float* states, std::int64_t count) {
  Line& line = *text.line;
  const auto next = ids.subspan(line.ids.size(), static_cast<std::size_t>(count));
  const model::Input input{.sequence = line.sequence, .tokens = next, .logits = 0, .states = states};
  for (;;) {
    try {
      forward_->step({&input, 1});
      break;
    } catch (const Error& e) {
      if (e.code() != Code::kMemory) throw;
      if (make_room()) continue;
      text.hopeless = true;
      return leave(text);
    }
  }
  line.ids.insert(line.ids.end(), next.begin(), next.end());
}

// Rows of the states that wait, as far as their next tokens are known.
void Mtp::flush(Text& text, std::span<const std::int32_t> ids) {
  const std::int64_t count = std::min(text.pending, static_cast<std::int64_t>(ids.size()) - 1 - text.line->end());
  if (count < 1) return;
  feed(text, ids, text.states.data(), count);
  if (!text.line) return;
  std::copy_n(text.states.data() + count * dim_, (text.pending - count) * dim_, text.states.data());
  text.pending -= count;
}

void Mtp::computed(DraftText& of, const Computed& step) {
  Text& text = static_cast<Text&>(of);
  if (text.hopeless) return;
  if (text.line && step.first != text.line->end() + text.pending) {
    // The text was computed again, or lost its middle.
    text.pending = 0;
    const bool same = common(text.line->ids, step.ids) > step.first && text.line->first < step.first;
    if (!same || !cut(*text.line, step.first)) leave(text);
  }
  if (!text.line) place(text, step);
  const auto known = static_cast<std::int64_t>(step.ids.size()) - 1;  // tokens whose next one is known
  std::int64_t done = 0;
  while (text.line && done < step.count) {
    const std::int64_t left = step.count - done;
    if (text.pending + left <= kPending) {
      for (; done < step.count; ++done)
        step.forward->head().state(step.row + static_cast<int>(done), text.states.data() + text.pending++ * dim_);
      return;
    }
    if (text.pending > 0) {
      flush(text, step.ids);
      if (text.pending > 0) break;
      continue;
    }
    const std::int64_t most = static_cast<std::int64_t>(chunk_.size()) / dim_;
    const std::int64_t count = std::min({left, most, known - (step.first + done)});
    if (count < 1) break;
    for (std::int64_t i = 0; i < count; ++i)
      step.forward->head().state(step.row + static_cast<int>(done + i), chunk_.data() + i * dim_);
    feed(text, step.ids, chunk_.data(), count);
    done += count;
  }
}

void Mtp::draft(std::span<Round* const> rounds) {
  growing_.clear();
  for (Round* round : rounds) {
    Text& text = *static_cast<Text*>(round->text);
    if (!text.line || text.pending < 1) continue;
    const auto length = static_cast<std::int64_t>(round->ids.size());
    if (text.line->end() + text.pending + 1 != length || length + kMostDraft >= target_.context()) continue;
    text.draw.begin(*round);
    growing_.push_back(round);
  }
  // First the rows of all states that wait, then one row for every further draft token.
  for (int n = 0; !growing_.empty(); ++n) {
    inputs_.clear();
    last_.clear();
    for (const Round* round : growing_) last_.push_back(n == 0 ? 0 : round->draft_tokens->back().id);
    for (std::size_t i = 0; i < growing_.size(); ++i) {
      const Text& text = *static_cast<Text*>(growing_[i]->text);
      if (n == 0)
        inputs_.push_back({.sequence = text.line->sequence,
                           .tokens = growing_[i]->ids.last(static_cast<std::size_t>(text.pending)),
                           .logits = 1,
                           .decode = true,
                           .states = text.states.data()});
      else
        inputs_.push_back({.sequence = text.line->sequence,
                           .tokens = {&last_[i], 1},
                           .logits = 1,
                           .decode = true,
                           .states = text.state});
    }
    const double start = steady_seconds();
    std::span<const float> rows;
    try {
      rows = forward_->step(inputs_);
    } catch (const Error& e) {
      if (e.code() != Code::kMemory) throw;
      break;
    }
    const auto vocab = room_.size();
    int row = -1;
    for (std::size_t i = 0; i < growing_.size(); ++i) {
      Text& text = *static_cast<Text*>(growing_[i]->text);
      row += static_cast<int>(inputs_[i].tokens.size());
      if (n == 0) {
        const auto fed = inputs_[i].tokens;
        text.line->ids.insert(text.line->ids.end(), fed.begin(), fed.end());
        text.pending = 0;
      }
      float* const state = own_.data() + static_cast<std::ptrdiff_t>(i) * dim_;
      forward_->head().state(row, state);
      text.draw.add(*growing_[i], rows.subspan(i * vocab, vocab), room_);
    }
    for (std::size_t i = 0; i < growing_.size(); ++i)
      static_cast<Text*>(growing_[i]->text)->state = own_.data() + static_cast<std::ptrdiff_t>(i) * dim_;
    if (n > 0) {
      const double now = steady_seconds() - start;
      seconds_ = seconds_ > 0 ? kMemory * seconds_ + (1 - kMemory) * now : now;
    }
    std::erase_if(growing_, [&](const Round* round) {
      return !static_cast<const Text*>(round->text)->draw.goes_on(*round, n + 1);
    });
  }
  // Rows of draft tokens go: those of what is right are computed again, of the model's own states.
  for (const Round* round : rounds) {
    Text& text = *static_cast<Text*>(round->text);
    if (text.line && !cut(*text.line, text.line->end())) leave(text);
  }
}

void Mtp::end(std::unique_ptr<DraftText> of, std::span<const std::int32_t> ids) {
  Text& text = *static_cast<Text*>(of.get());
  if (text.line && text.reuse) flush(text, ids);
  if (!text.line || !text.reuse) return leave(text);
  std::erase(active_, &text);
  idle_.push_back(std::move(*text.line));
  if (idle_.size() > texts_) make_room();
}

Beside memory(const EngineOptions& target, int texts, std::int64_t pool_tokens, const std::string& path) {
  const model::ModelSpec model = model::read_spec(*open_model(target));
  const std::int64_t context = context_for(target, model);
  const auto [file, spec] = block_of(target, model, context, path);
  const kv::CacheOptions cache = cache_for(target, texts, context, pool_tokens);
  const int threads = target.threads > 0 ? target.threads : describe_host().usable_cores;
  const std::int64_t rows = cache.step_tokens + texts * (kPending + 1);
  return {model::Model::planned_bytes(spec, *file, target.computes_exactly()),
          static_cast<std::int64_t>(kv::plan_memory(model::cache_shape(spec), cache, threads).total()) +
              model::Forward::planned_scratch(spec, cache.step_tokens, texts, threads) + rows * spec.dim * 4};
}

std::unique_ptr<Drafter> make(Engine& engine, int texts, const std::string& parameters) {
  return std::make_unique<Mtp>(engine, texts, parameters);
}

}  // namespace

const DrafterKind entry = {"what the model's own layers for further tokens say (nextn), of its file or mtp:FILE",
                           make,
                           memory,
                           {0.15, 0.3, 0.5, 0.67, 0.8, 0.9, 0.95, 0.98}};

}  // namespace kvasir::run::drafters_mtp
