#include "run/encoder.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/host.hpp"
#include "model/adapters.hpp"
#include "model/hparams.hpp"
#include "run/model_card.hpp"
#include "run/pooling.hpp"
#include "weights/rounded_file.hpp"

namespace kvasir::run {

bool is_encoder(const std::string& path) { return !model::read_spec(*weights::open_model_file(path)).causal; }

static int threads_of(const EngineOptions& options) {
  return options.threads > 0 ? options.threads : std::clamp(describe_host().usable_cores, 1, 512);
}

std::int64_t Encoder::planned_bytes(const EngineOptions& options, const weights::ModelFile& file) {
  model::ModelSpec spec = model::read_spec(file, options.ctx);
  set_arithmetic(spec, options);
  model::Adapters::attach(spec, file, options.lora, options.computes_exactly());
  const int threads = threads_of(options);
  return model::Model::planned_bytes(spec, file, options.computes_exactly()) +
         std::max(model::Model::planned_load_scratch(spec, file, options.computes_exactly(), threads),
                  model::Forward::planned_scratch(spec, static_cast<int>(context_for(options, spec)), 1, threads));
}

Encoder::Encoder(const EngineOptions& options, std::string name, std::int32_t waiting,
                 const std::function<void(std::int64_t, std::int64_t)>& progress)
    : waiting_(waiting) {
  team_ = std::make_unique<Team>(threads_of(options));
  auto file = weights::open_model_file(options.model);
  if (!options.weights.empty()) file = weights::rounded(std::move(file), options.weights);
  model::ModelSpec spec = model::read_spec(*file, options.ctx);
  if (spec.causal) throw Error(Code::kUnsupported, "is a model that writes texts, expected an encoder", options.model);
  set_arithmetic(spec, options);
  model::Adapters::attach(spec, *file, options.lora, options.computes_exactly());
  tokenizer_ = text::make_tokenizer(file->metadata());
  if (tokenizer_ && tokenizer_->size() > spec.vocab)
    throw Error(Code::kBadInput,
                "the vocabulary has " + std::to_string(tokenizer_->size()) + " tokens, token_embd.weight only " +
                    std::to_string(spec.vocab) + " rows",
                options.model);
  const std::int64_t context = context_for(options, spec);
  const std::int64_t scratch = model::Forward::planned_scratch(spec, static_cast<int>(context), 1, threads_of(options));
  const model::ResidencyOptions where =
      residency_options(options, scratch, model::Model::planned_bytes(spec, *file, options.computes_exactly()));
  const std::int64_t bytes = model::Model::plan(spec, *file, options.computes_exactly(), where).memory() + scratch;
  if (const auto machine = describe_host().memory_total; machine > 0 && static_cast<std::uint64_t>(bytes) > machine)
    throw Error(Code::kMemory,
                "weights and scratch of " + std::to_string(bytes / 1000000) + " MB do not fit into this machine's " +
                    std::to_string(machine / 1000000) + " MB (see --ctx, --weights-memory)",
                options.model);
  model_ = model::Model::load(std::move(spec), std::move(file), *team_,
                              {.exact = options.computes_exactly(), .residency = where, .progress = progress});
  forward_ = std::make_unique<model::Forward>(*team_, *model_, static_cast<int>(context));
  card_ = card_of(model_->spec(), model_->file(), std::move(name));
  card_.context = context;
  card_.generates = false;
  card_.running = 1;
  thread_ = std::thread([this] { loop(); });
}

Encoder::~Encoder() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

RequestId Encoder::submit(ServiceRequest request, std::shared_ptr<Listener> listener) {
  if (request.request.pooling == model::Pooling::kNone)
    throw Error(Code::kUnsupported, "reads texts and writes none: ask for embeddings or ranks", "model");
  check_pooled(*model_, card_, request.request);
  const std::lock_guard lock(mutex_);
  if (draining_ || stop_ || static_cast<std::int32_t>(queue_.size()) > waiting_) {
    ++stats_.rejected;
    if (draining_ || stop_) throw Error(Code::kBusy, "is ending, no further requests are taken", "server");
    throw Error(Code::kBusy, "has " + std::to_string(queue_.size()) + " requests, as many as it may hold", "queue");
  }
  ++stats_.requests;
  stats_.waiting = static_cast<std::int64_t>(queue_.size()) + 1;
  queue_.push_back({next_id_, std::move(request), std::move(listener), steady_seconds()});
  wake_.notify_all();
  return next_id_++;
}

void Encoder::cancel(RequestId id) {
  Job job;
  {
    const std::lock_guard lock(mutex_);
    const auto at = std::find_if(queue_.begin(), queue_.end(), [&](const Job& j) { return j.id == id; });
    if (at == queue_.end()) return;
    job = std::move(*at);
    queue_.erase(at);
    ++stats_.cancelled;
    if (queue_.empty() && stats_.running == 0) idle_.notify_all();
  }
  end(job, Finish::kCancelled);
}

bool Encoder::drain(double seconds) {
  std::unique_lock lock(mutex_);
  draining_ = true;
  return idle_.wait_for(lock, std::chrono::duration<double>(seconds),
                        [&] { return queue_.empty() && stats_.running == 0; });
}

ServiceStats Encoder::stats() const {
  const std::lock_guard lock(mutex_);
  ServiceStats s = stats_;
  s.waiting = static_cast<std::int64_t>(queue_.size());
  return s;
}

std::vector<Encoder::Job> Encoder::take() {
  std::unique_lock lock(mutex_);
  stats_.running = 0;
  if (queue_.empty()) idle_.notify_all();
  wake_.wait(lock, [&] { return stop_ || !queue_.empty(); });
  std::vector<Job> batch;
  if (stop_) return batch;
  std::size_t tokens = 0;
  while (!queue_.empty()) {
    tokens += queue_.front().asked.request.prompt.size();
    if (!batch.empty() && tokens > static_cast<std::size_t>(forward_->max_tokens())) break;
    batch.push_back(std::move(queue_.front()));
    queue_.pop_front();
  }
  stats_.running = static_cast<std::int64_t>(batch.size());
  return batch;
}

void Encoder::loop() {
  for (;;) {
    std::vector<Job> batch = take();
    if (batch.empty()) break;
    const double now = steady_seconds();
    std::erase_if(batch, [&](const Job& job) {
      const bool late = job.asked.timeout > 0 && now - job.submitted > job.asked.timeout;
      if (late) end(job, Finish::kCancelled, Failure::kQueueTimeout, "the request waited longer than its time-out");
      return late;
    });
    if (!batch.empty()) compute(batch);
  }
  std::deque<Job> rest;
  {
    const std::lock_guard lock(mutex_);
    rest.swap(queue_);
  }
  for (const Job& job : rest) end(job, Finish::kCancelled);
}

void Encoder::compute(std::vector<Job>& batch) {
  std::vector<model::Input> inputs;
  std::size_t tokens = 0;
  for (Job& job : batch) {
    job.started = steady_seconds();
    job.listener->started();
    const run::Request& r = job.asked.request;
    inputs.push_back({.tokens = r.prompt, .logits = 0, .second = r.second});
    tokens += r.prompt.size();
  }
  try {
    forward_->step(inputs);
  } catch (const std::exception& e) {
    for (const Job& job : batch) end(job, Finish::kCancelled, Failure::kEngine, e.what());
    return;
  }
  int row = 0;
  for (const Job& job : batch) {
    const run::Request& r = job.asked.request;
    Pooled pooled(*forward_, r.pooling, model_->spec());
    pooled.add(row, static_cast<std::int64_t>(r.prompt.size()));
    job.listener->pooled(pooled.take());
    row += static_cast<int>(r.prompt.size());
    end(job, Finish::kEnd);
  }
  const std::lock_guard lock(mutex_);
  stats_.prompt_tokens += tokens;
}

void Encoder::end(const Job& job, Finish finish, Failure failure, std::string error) {
  Outcome out;
  out.finish = finish;
  out.failure = failure;
  out.error = std::move(error);
  out.prompt_tokens = static_cast<std::int64_t>(job.asked.request.prompt.size());
  if (job.started > 0) {
    out.receipt.queue_seconds = job.started - job.submitted;
    out.prompt_seconds = out.receipt.prefill_seconds = steady_seconds() - job.started;
    out.receipt.spans.push_back({0, out.prompt_tokens, "computed"});
  }
  job.listener->done(out);
}

}  // namespace kvasir::run
