#include "run/answer.hpp"

#include <algorithm>
#include <limits>
#include <variant>

#include "base/check.hpp"
#include "base/error.hpp"
#include "model/adapters.hpp"
#include "run/prefix.hpp"
#include "select/spec.hpp"

namespace kvasir::run {

std::string_view name(Finish finish) {
  constexpr std::string_view kNames[] = {"end", "stop", "length", "context", "cancelled", "nothing to choose"};
  return kNames[static_cast<std::size_t>(finish)];
}

namespace {

void check_rows(const Engine& engine, const Request& request) {
  if (request.runs.empty()) return engine.check_ids(request.prompt);
  const model::ModelSpec& spec = engine.model().spec();
  const auto refuse = [](const std::string& what) { throw Error(Code::kBadInput, what, "rows"); };
  if (spec.embedding.join) refuse("the model reads states beside tokens");
  for (const model::LayerSpec& layer : spec.layers)
    if (layer.ngrams) refuse("have no ids, and the model looks up what stands in its tables for the last tokens' ids");
  if (request.prompt_logprobs) refuse("have no log-probabilities, and those of the prompt are asked for");
  if (request.keep >= 0) refuse("cannot be left out where the context is full");
  const std::span<const std::int32_t> ids = request.prompt;
  std::int64_t at = 0;
  const auto tokens_to = [&](std::int64_t end) {
    engine.check_ids(ids.subspan(static_cast<std::size_t>(at), static_cast<std::size_t>(end - at)));
  };
  for (const model::RowRun& run : request.runs) {
    const std::string where = "at " + std::to_string(run.begin);
    if (!run.block || run.block->count() == 0) refuse(where + " are none");
    if (run.block->width() != spec.dim)
      refuse(where + " have " + std::to_string(run.block->width()) + " numbers each, expected the model's " +
             std::to_string(spec.dim));
    if (run.block->grid() && !spec.has_places())
      refuse(where + " lie in a plane, and the model's positions have one part, not three (M-RoPE)");
    if (run.block->deep() > spec.deep)
      refuse(where + " have rows for " + std::to_string(run.block->deep()) + " layers, expected at most the model's " +
             std::to_string(spec.deep));
    if (run.block->both_ways()) {
      const std::int64_t most = std::min<std::int64_t>(engine.options().chunk, engine.context()) - engine.sequences();
      if (run.block->count() > most)
        refuse(where + " see each other and are " + std::to_string(run.block->count()) + ", expected at most " +
               std::to_string(most) + ", which fit a step beside answers (see --chunk)");
      const bool in_windows = run.block->sight() == model::Sight::kAllInWindows;
      for (int l = 0; l < spec.layer_count(); ++l) {
        const auto* a = std::get_if<model::Attention>(&spec.layers[static_cast<std::size_t>(l)].mixer);
        if (!a || (in_windows && a->window == 0)) continue;
        const bool fits = !in_windows || run.block->count() <= a->window;
        if (a->latent || a->kv_of >= 0 || !a->slopes.empty() || a->distances || !fits)
          refuse(where + " see each other, which layer " + std::to_string(l) + " cannot compute");
      }
    }
    if (run.begin < at || run.end() > static_cast<std::int64_t>(ids.size()))
      refuse(where + " lie outside of the prompt or in the rows before");
    if (!std::equal(run.block->ids().begin(), run.block->ids().end(), ids.begin() + run.begin))
      refuse(where + " are not those that the prompt's ids name");
    tokens_to(run.begin);
    at = run.end();
  }
  tokens_to(static_cast<std::int64_t>(ids.size()));
}

}  // namespace

std::vector<float> adapter_scales(const Engine& engine, const Request& request) {
  const auto refuse = [&](const std::string& what) { throw Error(Code::kBadInput, what, "lora"); };
  const auto& adapters = engine.model().spec().adapters;
  if (request.lora.empty()) return {};
  if (!adapters) {
    if (request.lora != "none") refuse("is '" + request.lora + "', but this engine has no adapters (see --lora)");
    return {};
  }
  if (request.pooling != model::Pooling::kNone)
    refuse("is for answers: vectors have the adapters as the engine has them");
  std::vector<float> scales = adapters->read_scales(request.lora);
  if (std::equal(scales.begin(), scales.end(), adapters->scales().begin())) scales.clear();
  return scales;
}

void check_request(const Engine& engine, const Request& request) {
  if (request.prompt.empty()) throw Error(Code::kBadInput, "is empty, expected at least one token", "prompt");
  const auto tokens = static_cast<std::int64_t>(request.prompt.size());
  if (tokens >= engine.context())
    throw Error(Code::kBadInput,
                "has " + std::to_string(tokens) + " tokens, expected fewer than the context's " +
                    std::to_string(engine.context()) + " (see --ctx)",
                "prompt");
  check_rows(engine, request);
  check_prefix(engine, request);
  adapter_scales(engine, request);
  if (!request.select.empty()) {
    const kv::PageSelector& own = *engine.cache_options().selector;
    if (const char* why = select::parse_select(request.select, "select").refused_in(own))
      throw Error(Code::kBadInput,
                  "is '" + request.select + "', which does not suit --select " + std::string(own.text()) + ": " + why,
                  "select");
  }
  if (request.grammar && !engine.tokenizer())
    throw Error(Code::kUnsupported, "needs a model with a vocabulary, this one runs on ids", "grammar");
}

namespace {

constexpr std::size_t kMostBehind = 4;  // tokens that a character may be longer than a budget of thinking
constexpr std::size_t kTextRoom = 256;  // bytes that one token releases: more than the longest piece, and what was held

const Request& checked(const Engine& engine, const Request& request) {
  check_request(engine, request);
  return request;
}

// Whatever a request wants of it, a suppressed token is none that the model was made to write.
SamplingOptions sampling_of(const Engine& engine, const Request& request) {
  SamplingOptions options = request.sampling;
  if (const text::Tokenizer* tokenizer = engine.tokenizer())
    for (const std::int32_t id : tokenizer->suppressed())
      if (id < engine.model().spec().vocab) options.logit_bias[id] = -std::numeric_limits<float>::infinity();
  return options;
}

std::int32_t vocabulary(const Engine& engine) { return static_cast<std::int32_t>(engine.model().spec().vocab); }

}  // namespace

Answer::Answer(const Engine& engine, const Request& request)
    : request_(checked(engine, request)),
      tokenizer_(engine.tokenizer()),
      context_(engine.context()),
      sampler_(sampling_of(engine, request), vocabulary(engine)),
      matcher_(request.stop),
      logits_(static_cast<std::size_t>(vocabulary(engine))) {
  sampler_.accept_prompt(request.prompt);
  // Here and not while it grows (law 6).
  const auto room = context_ - static_cast<std::int64_t>(request.prompt.size()) + 1;
  ids_.reserve(
      static_cast<std::size_t>(request.max_tokens < 0 ? room : std::min<std::int64_t>(request.max_tokens, room)));
  text_.reserve(kTextRoom);
  if (request.top_logprobs > 0) record_.best.reserve(static_cast<std::size_t>(request.top_logprobs));
  if (tokenizer_) stream_.emplace(*tokenizer_, request.prompt.back(), false, request.shown);
  if (request.thinking && tokenizer_) {
    thinking_.emplace(request.thinking.marks, request.thinking.inside);
    think({});
  }
  if (request.grammar) {
    constraint_.emplace(request.grammar, engine.token_order(), vocabulary(engine));
    for (const std::int32_t id : request.shown) constraint_->allow_control(id, tokenizer_->piece(id));
  }
}

bool Answer::next(std::span<const float> row, std::int64_t cached) {
  KVASIR_CHECK(!over_);
  text_.clear();
  if (request_.max_tokens >= 0 && size() >= request_.max_tokens) return end(Finish::kLength);
  const double partition = request_.top_logprobs >= 0 ? log_partition(row) : 0;
  const std::int32_t id = choose(row);
  if (id < 0) return end(Finish::kNothing);
  // A grammar lets the text end only where it may, and nothing can follow there that ignores the end.
  if (tokenizer_ && tokenizer_->is_eog(id) && (constraint_ || !request_.ignore_eos)) return end(Finish::kEnd);
  sampler_.accept(id);
  ids_.push_back(id);
  record_.id = id;
  record_.logprob = 0;
  if (request_.top_logprobs >= 0) {
    record_.logprob = logprob_of(row, id, partition);
    record_.best.resize(static_cast<std::size_t>(request_.top_logprobs));
    record_.best.resize(top_logprobs(row, partition, record_.best));
  }
  if (stream_) {
    const std::string piece = stream_->push(id);
    if (thinking_) think(piece);
    if (release(piece)) return end(Finish::kStop);
  }
  if (constraint_) {
    constraint_->accept(tokenizer_->piece(id));
    if (constraint_->over()) return end(Finish::kEnd);
  }
  // The chosen token is one more, though nothing computes it.
  if (cached + 1 >= context_ && request_.keep < 0) return end(Finish::kContext);
  if (request_.max_tokens >= 0 && size() >= request_.max_tokens) return end(Finish::kLength);
  return true;
}

// The next token: what the budget of thinking says, or the sampler's choice; -1: no logit is a number.
std::int32_t Answer::choose(std::span<const float> row) {
  const std::vector<std::int32_t>& closing = request_.thinking.closing;
  if (thinking_cut_ >= 0 && closed_ < closing.size()) return closing[closed_++];
  std::copy(row.begin(), row.end(), logits_.begin());
  if (constraint_) constraint_->mask(logits_);
  return sampler_.sample(logits_).id;
}

bool Answer::follow(Ahead& at, std::int32_t id) {
  if (at.over || id < 0 || id >= static_cast<std::int32_t>(logits_.size())) return false;
  if (tokenizer_ && tokenizer_->is_eog(id) && (constraint_ || !request_.ignore_eos)) {
    at.over = true;
    return !constraint_ || constraint_->may_end(at.state);
  }
  if (!constraint_) return true;
  at.state = constraint_->after(at.state, tokenizer_->piece(id));
  return at.state != text::Matcher::kDead;
}

// Counts a token of thinking by what it adds to the text. At the budget the end follows, behind a whole character.
void Answer::think(std::string_view piece) {
  if (thinking_cut_ >= 0) return;
  const bool before = thinking_->inside();
  thinking_->push(piece, thoughts_, said_);
  thoughts_.clear();
  said_.clear();
  if (before) thought_ += size() > 0;
  const std::int64_t most = request_.thinking.most;
  if (!thinking_->inside() || thought_ < most) return;
  if (stream_->pending() > 0 && thought_ < most + static_cast<std::int64_t>(kMostBehind)) return;
  thinking_cut_ = thought_;
}

void Answer::stop(Finish finish) {
  if (over_) return;
  text_.clear();
  end(finish);
}

bool Answer::end(Finish finish) {
  over_ = true;
  finish_ = finish;
  flush();
  return false;
}

bool Answer::release(const std::string& piece) {
  const StopMatcher::Step step = matcher_.feed(piece);
  text_ += step.text;
  if (step.stopped) stopped_by_ = step.which;
  return step.stopped;
}

void Answer::flush() {
  if (!stream_ || matcher_.stopped()) return;
  if (!release(stream_->flush())) text_ += matcher_.finish();
}

}  // namespace kvasir::run
