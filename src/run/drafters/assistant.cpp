// What an assistant of the model says (model/assistant.hpp). It reads the keys and values of the model's own cache and
// keeps nothing of a text but the state of the last token that was computed. So it drafts as well behind what came from
// a store, in copies and after turns that were cut, from the second token on that the model computes.
#include "model/assistant.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/host.hpp"
#include "model/hparams.hpp"
#include "run/draft_sampler.hpp"

namespace kvasir::run::drafters_assistant {
namespace {

constexpr double kMemory = 0.95;

struct Text final : DraftText {
  explicit Text(DraftSampler d) : draw(std::move(d)) {}
  DraftSampler draw;
  std::vector<float> state;   // (dim of the model), of the last token that was computed ...
  std::int64_t computed = 0;  // ... which has so many up to it; 0: none was
};

EngineOptions options_of(EngineOptions target, const std::string& path) {
  target.model = path;
  target.lora.clear();
  return target;
}

void check_named(const std::string& path) {
  if (path.empty()) throw Error(Code::kBadInput, "names no file, expected assistant:FILE", "--draft assistant");
}

class Assistant final : public Drafter {
 public:
  Assistant(Engine& target, int texts, const std::string& path);

  std::unique_ptr<DraftText> begin(const std::string& tenant, bool reuse, const Answer& answer, std::size_t) override;
  bool reads_states() const override { return true; }
  void computed(DraftText& text, const Computed& step) override;
  void draft(std::span<Round* const> rounds) override;
  double token_seconds() const override { return seconds_; }

 private:
  float* row(std::size_t text) { return rows_.data() + static_cast<std::ptrdiff_t>(text) * 2 * dim_; }

  Engine& target_;
  const int texts_;
  const std::int64_t dim_;  // of the model
  std::unique_ptr<model::Model> model_;
  std::vector<kv::ReaderLayer> layers_;
  std::unique_ptr<kv::Reader> reader_;
  std::unique_ptr<model::Forward> forward_;
  std::vector<float> room_;  // (vocab)
  std::vector<float> rows_;  // (texts, 2 dim): what the next draft tokens are made of
  double seconds_ = 0;       // of a step of one token, a moving mean
  std::vector<Round*> growing_;
  std::vector<model::Input> inputs_;
  std::vector<std::int32_t> last_;
};

Assistant::Assistant(Engine& target, int texts, const std::string& path)
    : target_(target), texts_(texts), dim_(target.model().spec().dim) {
  auto file = open_model(options_of(target.options(), path));
  model::ModelSpec spec = model::read_assistant(*file, target.context());
  set_arithmetic(spec, target.options());
  layers_ = model::layers_read(spec, target.model().spec(), path);
  model_ = model::Model::load(std::move(spec), std::move(file), target.team(),
                              {.exact = target.options().computes_exactly()});
  const auto n = static_cast<std::size_t>(texts);
  room_.resize(static_cast<std::size_t>(target.model().spec().vocab));
  rows_.resize(n * static_cast<std::size_t>(2 * dim_));
  growing_.reserve(n);
  inputs_.reserve(n);
  last_.reserve(n);
}

// With --kv auto there is another cache once the first prompt was seen, so what reads it is made behind that.
std::unique_ptr<DraftText> Assistant::begin(const std::string&, bool, const Answer& answer, std::size_t) {
  if (!reader_) {
    reader_ = target_.cache().reader(layers_, texts_);
    forward_ = std::make_unique<model::Forward>(target_.team(), *model_, *reader_, texts_);
  }
  const auto vocab = static_cast<std::int32_t>(target_.model().spec().vocab);
  auto text = std::make_unique<Text>(DraftSampler(answer, vocab, vocab));
  text->state.resize(static_cast<std::size_t>(dim_));
  return text;
}

void Assistant::computed(DraftText& of, const Computed& step) {
  Text& text = static_cast<Text&>(of);
  step.forward->head().state(step.row + static_cast<int>(step.count) - 1, text.state.data());
  text.computed = step.first + step.count;
}

void Assistant::draft(std::span<Round* const> rounds) {
  growing_.clear();
  for (Round* round : rounds) {
    Text& text = *static_cast<Text*>(round->text);
    const auto length = static_cast<std::int64_t>(round->ids.size());
    if (text.computed < 1 || text.computed + 1 != length || kv::Cache::length(*round->sequence) != text.computed)
      continue;
    text.draw.begin(*round);
    std::copy_n(text.state.data(), dim_, row(growing_.size()) + dim_);
    growing_.push_back(round);
  }
  const auto vocab = room_.size();
  for (int n = 0; !growing_.empty(); ++n) {
    last_.clear();
    inputs_.clear();
    for (const Round* round : growing_) last_.push_back(n == 0 ? round->ids.back() : round->draft_tokens->back().id);
    const std::vector<float> embedded = target_.forward().rows_of(last_);
    for (std::size_t i = 0; i < growing_.size(); ++i) {
      std::copy_n(embedded.data() + static_cast<std::ptrdiff_t>(i) * dim_, dim_, row(i));
      inputs_.push_back(
          {.sequence = growing_[i]->sequence, .tokens = {&last_[i], 1}, .logits = 1, .decode = true, .states = row(i)});
    }
    const double start = steady_seconds();
    std::span<const float> logits;
    try {
      logits = forward_->step(inputs_);
    } catch (const Error& e) {
      if (e.code() != Code::kIo) throw;
      break;  // the model's own step meets the disk, too, and says so
    }
    std::size_t kept = 0;
    for (std::size_t i = 0; i < growing_.size(); ++i) {
      Text& text = *static_cast<Text*>(growing_[i]->text);
      text.draw.add(*growing_[i], logits.subspan(i * vocab, vocab), room_);
      if (!text.draw.goes_on(*growing_[i], n + 1)) continue;
      forward_->head().next(static_cast<int>(i), row(kept) + dim_);
      growing_[kept++] = growing_[i];
    }
    growing_.resize(kept);
    const double now = steady_seconds() - start;
    seconds_ = seconds_ > 0 ? kMemory * seconds_ + (1 - kMemory) * now : now;
  }
}

Beside memory(const EngineOptions& target, int texts, std::int64_t pool_tokens, const std::string& path) {
  check_named(path);
  const model::ModelSpec model = model::read_spec(*open_model(target));
  const std::int64_t context = context_for(target, model);
  const auto file = open_model(options_of(target, path));
  model::ModelSpec spec = model::read_assistant(*file, context);
  set_arithmetic(spec, target);
  std::vector<kv::LayerShape> shapes;
  for (const kv::ReaderLayer& l : model::layers_read(spec, model, path)) {
    const auto& a = std::get<model::Attention>(model.layers[static_cast<std::size_t>(l.of)].mixer);
    shapes.push_back({a.kv_heads, l.query_heads, a.d, a.dv, l.window});
  }
  const int threads = target.threads > 0 ? target.threads : describe_host().usable_cores;
  return {model::Model::planned_bytes(spec, *file, target.computes_exactly()),
          kv::Reader::planned_bytes(shapes, std::max(pool_tokens, context), texts, threads) +
              model::Forward::planned_scratch(spec, texts, texts, threads) + texts * 3 * std::int64_t{model.dim} * 4};
}

std::unique_ptr<Drafter> make(Engine& engine, int texts, const std::string& parameters) {
  check_named(parameters);
  return std::make_unique<Assistant>(engine, texts, parameters);
}

}  // namespace

const DrafterKind entry = {"assistant:FILE: what an assistant of the model says, which reads the model's own cache",
                           make,
                           memory,
                           {0.15, 0.3, 0.5, 0.67, 0.8, 0.9, 0.95, 0.98}};

}  // namespace kvasir::run::drafters_assistant
