#include "run/generate.hpp"

#include <memory>
#include <optional>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "run/sampler.hpp"
#include "run/stop.hpp"
#include "text/stream.hpp"

namespace kvasir::run {
namespace {

// Token ids to released text: characters are completed, stop strings looked for.
class Writer {
 public:
  Writer(const text::Tokenizer* tokenizer, const Request& request, const Events& events, Generated& out)
      : matcher_(request.stop), events_(events), out_(out) {
    if (tokenizer) stream_.emplace(*tokenizer, request.prompt.back());
  }

  bool push(std::int32_t id) { return stream_ && feed(stream_->push(id)); }  // true: a stop string was hit

  void finish() {
    if (!stream_ || matcher_.stopped()) return;
    if (!feed(stream_->flush())) emit(matcher_.finish());
  }

 private:
  bool feed(const std::string& piece) {
    const StopMatcher::Step step = matcher_.feed(piece);
    emit(step.text);
    return step.stopped;
  }
  void emit(std::string_view text) {
    if (text.empty()) return;
    out_.text += text;
    if (events_.text) events_.text(text);
  }

  std::optional<text::TextStream> stream_;
  StopMatcher matcher_;
  const Events& events_;
  Generated& out_;
};

struct Releaser {
  kv::Cache* cache;
  void operator()(kv::Sequence* s) const { cache->release(s); }
};

void record(const Request& request, std::span<const float> logits, std::int32_t id, double partition, Generated& out) {
  TokenRecord r{id, logprob_of(logits, id, partition), {}};
  r.best.resize(static_cast<std::size_t>(request.top_logprobs));
  r.best.resize(top_logprobs(logits, partition, r.best));
  out.logprobs.push_back(std::move(r));
}

}  // namespace

std::string_view name(Finish finish) {
  switch (finish) {
    case Finish::kEnd:
      return "end";
    case Finish::kStop:
      return "stop";
    case Finish::kLength:
      return "length";
    case Finish::kContext:
      return "context";
    case Finish::kCancelled:
      return "cancelled";
    case Finish::kNothing:
      return "nothing to choose";
  }
  return "?";
}

Generated generate(Engine& engine, const Request& request, const Events& events) {
  if (request.prompt.empty()) throw Error(Code::kBadInput, "is empty, expected at least one token", "prompt");
  const auto prompt_tokens = static_cast<std::int64_t>(request.prompt.size());
  if (prompt_tokens >= engine.context())
    throw Error(Code::kBadInput,
                "has " + std::to_string(prompt_tokens) + " tokens, expected fewer than the context's " +
                    std::to_string(engine.context()) + " (see --ctx)",
                "prompt");
  engine.check_ids(request.prompt);
  const auto vocab = static_cast<std::int32_t>(engine.model().config().vocab);
  SamplerChain sampler(request.sampling, vocab);
  sampler.accept_prompt(request.prompt);
  Generated out;
  out.seed = sampler.seed();
  out.prompt_tokens = prompt_tokens;
  Writer writer(engine.tokenizer(), request, events, out);
  const double start = steady_seconds();
  engine.choose_codecs(request.prompt);
  const std::unique_ptr<kv::Sequence, Releaser> sequence(engine.cache().create(), Releaser{&engine.cache()});
  const auto cancelled = [&] { return events.cancelled && events.cancelled(); };
  std::vector<float> logits(static_cast<std::size_t>(vocab));  // the sampler works in a copy

  std::span<const float> row = engine.feed(sequence.get(), request.prompt, 1, [&](std::int64_t done) {
    if (events.prefill) events.prefill(done, prompt_tokens);
    return !cancelled();
  });
  out.prefill_seconds = steady_seconds() - start;
  if (events.prefill) events.prefill(prompt_tokens, prompt_tokens);
  if (row.empty()) {
    out.finish = Finish::kCancelled;
    return out;
  }
  double decode_start = 0;
  for (;;) {
    if (request.max_tokens >= 0 && static_cast<std::int64_t>(out.ids.size()) >= request.max_tokens) {
      out.finish = Finish::kLength;
      break;
    }
    const double partition = request.top_logprobs >= 0 ? log_partition(row) : 0;
    std::copy(row.begin(), row.end(), logits.begin());
    const std::int32_t id = sampler.sample(logits).id;
    if (out.ids.empty()) {
      out.first_token_seconds = steady_seconds() - start;
      decode_start = steady_seconds();
    }
    if (id < 0) {
      out.finish = Finish::kNothing;
      break;
    }
    if (engine.tokenizer() && engine.tokenizer()->is_eog(id) && !request.ignore_eos) {
      out.finish = Finish::kEnd;
      break;
    }
    sampler.accept(id);
    out.ids.push_back(id);
    if (request.top_logprobs >= 0) record(request, row, id, partition, out);
    if (writer.push(id)) {
      out.finish = Finish::kStop;
      break;
    }
    if (kv::Cache::length(*sequence) >= engine.context()) {
      out.finish = Finish::kContext;
      break;
    }
    if (cancelled()) {
      out.finish = Finish::kCancelled;
      break;
    }
    if (request.max_tokens >= 0 && static_cast<std::int64_t>(out.ids.size()) >= request.max_tokens) continue;
    row = engine.decode(sequence.get(), id);
    ++out.decode_steps;
    out.decode_bytes += static_cast<double>(engine.model().bytes_per_token()) +
                        static_cast<double>(engine.cache().kv_bytes_read(*sequence));
  }
  if (!out.ids.empty()) out.decode_seconds = steady_seconds() - decode_start;
  writer.finish();
  return out;
}

}  // namespace kvasir::run
