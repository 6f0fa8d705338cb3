#include "run/generate.hpp"

#include <memory>

#include "base/clock.hpp"
#include "run/answer.hpp"

namespace kvasir::run {
namespace {

struct Releaser {
  kv::Cache* cache;
  void operator()(kv::Sequence* s) const { cache->release(s); }
};

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
  Answer answer(engine, request);
  const auto prompt_tokens = static_cast<std::int64_t>(request.prompt.size());
  Generated out;
  out.seed = answer.seed();
  out.prompt_tokens = prompt_tokens;
  const auto cancelled = [&] { return events.cancelled && events.cancelled(); };
  const double start = steady_seconds();
  engine.choose_codecs(request.prompt);
  const std::unique_ptr<kv::Sequence, Releaser> sequence(engine.cache().create(), Releaser{&engine.cache()});

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
  for (bool more = true; more;) {
    const std::int64_t before = answer.size();
    more = answer.next(row, kv::Cache::length(*sequence));
    if (decode_start == 0) {
      decode_start = steady_seconds();
      out.first_token_seconds = decode_start - start;
    }
    if (answer.size() > before && request.top_logprobs >= 0) out.logprobs.push_back(answer.record());
    out.text += answer.text();
    if (events.text && !answer.text().empty()) events.text(answer.text());
    if (more && cancelled()) {
      answer.stop(Finish::kCancelled);
      out.text += answer.text();
      if (events.text && !answer.text().empty()) events.text(answer.text());
      break;
    }
    if (!more) break;
    row = engine.decode(sequence.get(), answer.token());
    ++out.decode_steps;
    out.decode_bytes += static_cast<double>(engine.model().bytes_per_token()) +
                        static_cast<double>(engine.cache().kv_bytes_read(*sequence));
  }
  out.finish = answer.finish();
  out.ids.assign(answer.ids().begin(), answer.ids().end());
  if (!out.ids.empty()) out.decode_seconds = steady_seconds() - decode_start;
  return out;
}

}  // namespace kvasir::run
