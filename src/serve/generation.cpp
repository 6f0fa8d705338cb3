#include "serve/generation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/clock.hpp"
#include "serve/failure.hpp"
#include "serve/miss.hpp"
#include "serve/prompt.hpp"
#include "serve/turns.hpp"

namespace kvasir::serve {

struct Generation::Stream {
  Stream(Kind kind, const text::Tokenizer* tokenizer) : logprobs(kind, tokenizer) {}
  LogprobWriter logprobs;
  std::unique_ptr<AnswerParser> parser;
  ChatDelta given;  // all of the answer so far, of chats
  double last_token = 0;
  double started_at = 0;
  std::size_t scored = 0;  // tokens of the prompt whose log-probabilities came
  bool started = false;
  bool echoed = false;  // or there is no echo
  bool begun = false;   // its first chunk was sent
};

class ChoiceListener : public run::Listener {
 public:
  ChoiceListener(std::shared_ptr<Generation> generation, int choice, const EncodedPrompt& prompt)
      : generation_(std::move(generation)),
        choice_(choice),
        prompt_(prompt),
        remembers_(prompt.place && generation_->request_.service.reuse) {}

  void started() override { generation_->deliver({.choice = choice_, .time = steady_seconds()}); }

  void prefill(std::int64_t done, std::int64_t total, std::int64_t reused) override {
    say({.total = total, .reused = reused, .done = done, .seconds = 0, .rows = {}});
  }

  void rows(const RowProgress& p) override {
    say({.total = p.total, .reused = p.reused, .done = p.cached, .seconds = 0, .rows = p});
  }

  void scored(std::span<const run::TokenRecord> tokens) override {
    generation_->deliver(
        {.choice = choice_, .what = Generation::What::kScored, .records = {tokens.begin(), tokens.end()}});
  }

  void pieces(std::span<const run::Piece> pieces) override {
    Generation::Event event{.choice = choice_, .what = Generation::What::kPieces, .time = steady_seconds()};
    for (const run::Piece& p : pieces) {
      event.text += p.text;
      if (p.token.id < 0) continue;  // no token: text that was held back until the end
      ++event.tokens;
      if (remembers_) ids_.push_back(p.token.id);
      if (generation_->request_.logprobs) event.records.push_back(p.token);
    }
    generation_->deliver(std::move(event));
  }

  void done(const run::Outcome& outcome) override {
    const auto context = generation_->context_;  // outlives what may be destroyed when nothing is in flight
    // Before the client has the answer, with which it may ask again at once.
    if (remembers_)
      remember_turn(context->turns, *context->service.tokenizer(), generation_->exchange_->request().tenant, prompt_,
                    ids_);
    generation_->deliver({.choice = choice_,
                          .what = Generation::What::kDone,
                          .time = steady_seconds(),
                          .ids = std::move(ids_),
                          .outcome = outcome});
    context->in_flight.leave();
  }

 private:
  void say(const Progress& progress) {
    if (!generation_->request_.stream) return;
    generation_->deliver(
        {.choice = choice_, .what = Generation::What::kProgress, .time = steady_seconds(), .progress = progress});
  }

  const std::shared_ptr<Generation> generation_;
  const int choice_;
  const EncodedPrompt& prompt_;  // the generation's
  const bool remembers_;
  std::vector<std::int32_t> ids_;
};

namespace {

constexpr double kProgressPeriod = 1;  // seconds: what a stream that did not ask for progress says of it

void append(ChatDelta& to, ChatDelta&& from) {
  to.content += from.content;
  to.reasoning += from.reasoning;
  for (ToolCallDelta& call : from.calls) {
    const auto same =
        std::find_if(to.calls.begin(), to.calls.end(), [&](const ToolCallDelta& c) { return c.index == call.index; });
    if (same == to.calls.end()) {
      to.calls.push_back(std::move(call));
    } else {
      same->arguments += call.arguments;
    }
  }
}

}  // namespace

Generation::Generation(const std::shared_ptr<Exchange>& exchange, const Dialect& dialect, ApiRequest request,
                       std::vector<EncodedPrompt> prompts)
    : context_(exchange->context()),
      exchange_(exchange),
      request_(std::move(request)),
      prompts_(std::move(prompts)),
      writer_(dialect.writer({.context = *context_,
                              .request = request_,
                              .tenant = exchange->request().tenant,
                              .prompt_tokens = static_cast<std::int64_t>(prompts_.front().ids.size())})),
      start_(steady_seconds()) {}

void Generation::start(const std::shared_ptr<Exchange>& exchange, const Dialect& dialect, ApiRequest request,
                       std::vector<EncodedPrompt> prompts) {
  const std::shared_ptr<Generation> self(new Generation(exchange, dialect, std::move(request), std::move(prompts)));
  const std::size_t n = static_cast<std::size_t>(self->request_.n);
  self->choices_.resize(self->prompts_.size() * n);
  for (std::size_t i = 0; i < self->choices_.size(); ++i) {
    Stream& stream = self->streams_.emplace_back(self->request_.logprob_items ? Kind::kChat : self->request_.kind,
                                                 self->context_->service.tokenizer());
    if (self->request_.kind == Kind::kChat) {
      const bool constrained = self->request_.service.request.grammar && !self->request_.any_text;
      stream.parser = self->context_->chat->parser(self->request_.chat, {self->prompts_[i / n].text, constrained});
    }
    if (self->request_.echo)
      self->choices_[i].text.content = echo_text(self->request_.prompts[i / n], self->context_->service.tokenizer());
  }
  self->last_write_ = self->start_;
  const bool connected = exchange->post([self] {
    self->exchange_->on_close([self] {
      self->context_->metrics.disconnects.fetch_add(1);
      self->cancel();
    });
    self->tick();
  });
  if (connected) self->submit();
}

void Generation::submit() {
  const int n = request_.n;
  int index = 0;
  try {
    for (const EncodedPrompt& prompt : prompts_) {
      for (int i = 0; i < n; ++i, ++index) {
        run::ServiceRequest r = request_.service;
        r.request.prompt = prompt.ids;
        r.request.runs = prompt.runs;
        r.request.keep = prompt.keep;
        r.partings = prompt.partings;
        if (r.request.sampling.seed >= 0) r.request.sampling.seed = (r.request.sampling.seed + i) & INT64_MAX;
        r.tenant = exchange_->request().tenant;
        r.timeout = context_->options.queue_timeout;
        context_->in_flight.enter();
        run::RequestId id = 0;
        try {
          id = context_->service.submit(std::move(r),
                                        std::make_shared<ChoiceListener>(shared_from_this(), index, prompt));
        } catch (...) {
          context_->in_flight.leave();
          throw;
        }
        bool too_late = false;
        {
          const std::lock_guard lock(mutex_);
          ids_.push_back(id);
          too_late = cancelled_;
        }
        if (too_late) context_->service.cancel(id);
      }
    }
  } catch (const Error& e) {
    take_back(api_error(e));
    throw;
  } catch (...) {
    take_back({.status = 500, .message = "internal error", .type = "server_error"});
    throw;
  }
}

// The caller answers with the error, and what the submitted ones still deliver must not; but when one of them has begun
// the stream already, that is the only place where the error can go.
void Generation::take_back(const ApiError& error) {
  exchange_->post([self = shared_from_this(), error] {
    if (self->answered_) return;
    if (self->exchange_->streaming()) return self->fail(error);
    self->answered_ = true;
  });
  cancel();  // only now: what the cancelled ones say must come behind the error
}

void Generation::cancel() {
  std::vector<run::RequestId> ids;
  {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    ids = ids_;
  }
  for (const run::RequestId id : ids) context_->service.cancel(id);
}

void Generation::deliver(Event event) {
  bool post = false;
  {
    const std::lock_guard lock(mutex_);
    if (event.what == What::kPieces) {
      if (cancelled_ || overflow_) return;
      inbox_bytes_ += event.text.size() + event.records.size() * sizeof(run::TokenRecord);
      overflow_ = request_.stream && inbox_bytes_ > static_cast<std::size_t>(context_->options.stream_buffer);
    }
    inbox_.push_back(std::move(event));
    post = !posted_;
    posted_ = true;
  }
  if (post) exchange_->post([self = shared_from_this()] { self->drain(); });
}

bool Generation::over_limit() const {
  return request_.stream && exchange_->backlog() > static_cast<std::size_t>(context_->options.stream_buffer);
}

void Generation::drain() {
  std::vector<Event> events;
  bool overflow = false;
  {
    const std::lock_guard lock(mutex_);
    events.swap(inbox_);
    inbox_bytes_ = 0;
    posted_ = false;
    overflow = overflow_;
  }
  if (!answered_ && exchange_->open() && (overflow || over_limit())) {
    answered_ = true;
    context_->metrics.slow_readers.fetch_add(1);
    exchange_->note("error=\"the client did not read\"");
    cancel();
    exchange_->abort();
  }
  for (Event& event : events) {
    if (answered_ || !exchange_->open()) return;
    try {
      handle(event);
    } catch (const std::exception& e) {  // a parser of answers, or memory
      context_->log("error id=" + exchange_->request().id + " what=" + log_value(e.what()));
      if (!answered_) fail({.status = 500, .message = "internal error", .type = "server_error"});
    }
  }
}

void Generation::handle(Event& event) {
  Stream& stream = streams_[static_cast<std::size_t>(event.choice)];
  if (event.what == What::kDone) return on_done(stream, event.choice, event);
  if (!stream.started) stream.started_at = event.time;
  stream.started = true;
  const bool waits = event.what == What::kStarted && !event.is_last && writer_->begins_with_prompt();
  if (request_.stream && !stream.begun && !waits) {
    stream.begun = true;
    if (event.what == What::kProgress) writer_->prompt_begun(event.progress);
    open();
    write(writer_->begin(event.choice));
    if (!request_.service.request.prompt_logprobs) say_echo(stream, event.choice);
  }
  if (event.what == What::kProgress) on_progress(stream, event.choice, event);
  if (event.what == What::kScored) on_scored(stream, event.choice, event);
  if (event.what == What::kPieces) on_pieces(stream, event.choice, event);
}

// With the log-probabilities of the prompt, where they are wanted.
void Generation::say_echo(Stream& stream, int index) {
  if (!request_.stream || std::exchange(stream.echoed, true)) return;
  const ChatDelta& echo = choices_[static_cast<std::size_t>(index)].text;
  Json logprobs = stream.logprobs.take();
  if (!echo.empty() || !logprobs.is_null()) write(writer_->delta(index, echo, std::move(logprobs)));
}

void Generation::on_progress(Stream& stream, int index, const Event& event) {
  Progress progress = event.progress;
  progress.seconds = event.time - stream.started_at;
  const bool due = progress.done < progress.total && steady_seconds() - last_write_ >= kProgressPeriod;
  if (request_.progress || due) write(writer_->progress(index, progress));
}

void Generation::on_scored(Stream& stream, int index, const Event& event) {
  const auto i = static_cast<std::size_t>(index / request_.n);
  const text::Tokenizer* tokenizer = context_->service.tokenizer();
  for (const run::TokenRecord& r : event.records) {
    const bool control = tokenizer && tokenizer->is_control(r.id);
    const bool added = stream.scored == 0 && control && !prompts_[i].text.starts_with(tokenizer->piece(r.id));
    stream.logprobs.add_prompt(r, !control || (!prompts_[i].text.empty() && !added));
    ++stream.scored;
  }
}

void Generation::count_tokens(Stream& stream, const Event& event) {
  if (event.tokens == 0) return;
  Metrics& metrics = context_->metrics;
  if (stream.last_token == 0) {
    metrics.first_token.observe(event.time - start_);
    if (event.tokens > 1) metrics.inter_token.observe(0, event.tokens - 1);
  } else {
    metrics.inter_token.observe((event.time - stream.last_token) / static_cast<double>(event.tokens), event.tokens);
  }
  stream.last_token = event.time;
}

void Generation::on_pieces(Stream& stream, int index, Event& event) {
  count_tokens(stream, event);
  say_echo(stream, index);
  for (const run::TokenRecord& r : event.records) stream.logprobs.add(r);
  ChatDelta delta;
  if (stream.parser) {
    delta = stream.parser->feed(event.text);
  } else {
    delta.content = std::move(event.text);
  }
  if (stream.parser) append(stream.given, ChatDelta(delta));
  Choice& choice = choices_[static_cast<std::size_t>(index)];
  if (stream.parser && stream.parser->thinking()) choice.reasoning_tokens += static_cast<std::int64_t>(event.tokens);
  if (!request_.stream) return append(choice.text, std::move(delta));
  Json logprobs = stream.logprobs.take();
  if (delta.empty() && logprobs.is_null()) return;
  // That there are calls decides the finish reason.
  for (const ToolCallDelta& call : delta.calls)
    if (!call.name.empty()) choice.text.calls.push_back({.index = call.index});
  write(writer_->delta(index, delta, std::move(logprobs)));
}

void Generation::on_done(Stream& stream, int index, Event& event) {
  Choice& choice = choices_[static_cast<std::size_t>(index)];
  choice.outcome = std::move(event.outcome);
  const run::Outcome& outcome = choice.outcome;
  if (const std::optional<ApiError> error = failure_of(outcome)) return fail(*error);
  choice.remembered_tokens = prompts_[static_cast<std::size_t>(index / request_.n)].remembered;
  choice.pinned = request_.service.pin && outcome.receipt.pin_error.empty();
  locate_miss(index);
  if (!stream.begun) {  // no token at all
    Event started{.choice = index, .is_last = true};
    handle(started);
  }
  say_echo(stream, index);
  ++done_;
  finish_choice(stream, index, event.ids);
  if (done_ == choices_.size()) finish();
}

// Of one answer per prompt: it takes some renders of the template.
void Generation::locate_miss(int index) {
  Choice& choice = choices_[static_cast<std::size_t>(index)];
  run::Receipt& receipt = choice.outcome.receipt;
  if (receipt.miss_token < 0 || index % request_.n != 0) return;
  try {
    std::string words;
    choice.miss_at = locate_token(request_, prompts_[static_cast<std::size_t>(index / request_.n)], receipt.miss_token,
                                  context_->service.tokenizer(), context_->chat, &words);
    if (!words.empty()) receipt.miss += " (" + words + ")";
  } catch (const Error&) {  // a template that refuses the question: the token says it too
  }
}

// Before the client has the last of it: what it will send back is known as this answer.
void Generation::describe(int index, const Stream& stream, std::span<const std::int32_t> ids) {
  const Choice& choice = choices_[static_cast<std::size_t>(index)];
  const ChatInput& chat = request_.chat;
  const bool whole = choice.outcome.finish == run::Finish::kEnd || choice.outcome.finish == run::Finish::kLength ||
                     choice.outcome.finish == run::Finish::kContext;
  if (!stream.parser || ids.empty() || !whole || chat.continue_last || !chat.add_generation_prompt) return;
  describe_turn(context_->turns, *context_->service.tokenizer(), prompts_[static_cast<std::size_t>(index / request_.n)],
                ids, request_.service.request.shown, stream.given, chat.messages.size());
}

void Generation::finish_choice(Stream& stream, int index, std::span<const std::int32_t> ids) {
  Choice& choice = choices_[static_cast<std::size_t>(index)];
  ChatDelta rest;
  if (stream.parser) rest = stream.parser->finish(choice.outcome.finish != run::Finish::kEnd);
  if (stream.parser) choice.warnings = stream.parser->warnings();
  append(stream.given, ChatDelta(rest));
  describe(index, stream, ids);
  const bool calls = !choice.text.calls.empty() || !rest.calls.empty();
  choice.finish = finish_reason(choice.outcome.finish);
  if (calls && choice.finish == "stop") choice.finish = "tool_calls";
  if (!request_.stream) {
    append(choice.text, std::move(rest));
    choice.logprobs = stream.logprobs.take();
    return;
  }
  if (!rest.empty()) write(writer_->delta(index, rest, nullptr));
  write(writer_->end(index, choices_, done_ == choices_.size()));
}

void Generation::finish() {
  answered_ = true;
  measure();
  if (!request_.stream) return exchange_->reply(json_response(writer_->whole(choices_)));
  write(writer_->finish(choices_));
  exchange_->end_stream();
}

void Generation::measure() {
  const Json usage = usage_json(choices_, request_.n);
  Metrics& metrics = context_->metrics;
  const auto prompt = usage["prompt_tokens"].get<std::uint64_t>();
  const auto cached = usage["prompt_tokens_details"]["cached_tokens"].get<std::uint64_t>();
  const auto completion = usage["completion_tokens"].get<std::uint64_t>();
  metrics.prompt_tokens += prompt;
  metrics.cached_tokens += cached;
  for (const EncodedPrompt& p : prompts_) metrics.remembered_tokens += static_cast<std::uint64_t>(p.remembered);
  metrics.completion_tokens += completion;
  metrics.request_time.observe(steady_seconds() - start_);
  const run::Outcome& first = choices_.front().outcome;
  exchange_->note(fmt::format(
      "prompt={} reused={} generated={} loaded={} queue={:.6f} prefill={:.6f} decode={:.6f} finish={} miss={}", prompt,
      cached, completion, first.receipt.loaded_bytes, first.receipt.queue_seconds, first.receipt.prefill_seconds,
      first.decode_seconds, choices_.front().finish, log_value(first.receipt.miss)));
}

void Generation::open() {
  if (exchange_->streaming()) return;
  exchange_->begin_stream(writer_->content_type());
  last_write_ = steady_seconds();
}

void Generation::write(std::string_view bytes) {
  if (bytes.empty()) return;
  exchange_->write(bytes);
  last_write_ = steady_seconds();
}

void Generation::fail(const ApiError& error) {
  answered_ = true;
  cancel();
  exchange_->note("error=" + log_value(error.message));
  if (!exchange_->streaming()) return exchange_->reply(error_response(error));
  write(writer_->error(error));
  exchange_->end_stream();
}

void Generation::tick() {
  if (answered_ || !exchange_->open()) return;
  const ServerOptions& o = context_->options;
  const double now = steady_seconds();
  if (o.request_timeout > 0 && now - start_ >= o.request_timeout)
    return fail({.status = 504,
                 .message = fmt::format("the request took longer than {} seconds", o.request_timeout),
                 .type = "server_error",
                 .code = "timeout"});
  double wait = 1e9;
  if (o.request_timeout > 0) wait = start_ + o.request_timeout - now;
  if (request_.stream && o.keepalive > 0) {
    if (now - last_write_ >= o.keepalive) {
      // So that nothing on the way takes a long prefill for a dead connection.
      open();
      exchange_->write(writer_->keep_alive());
      last_write_ = now;
    }
    wait = std::min(wait, last_write_ + o.keepalive - now);
  }
  if (wait < 1e9) exchange_->arm(std::max(wait, 0.001), [self = shared_from_this()] { self->tick(); });
}

}  // namespace kvasir::serve
