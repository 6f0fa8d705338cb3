#include "serve/embedding.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/clock.hpp"
#include "run/rank.hpp"
#include "serve/failure.hpp"

namespace kvasir::serve {
namespace {

constexpr std::size_t kAtOnce = 64;  // texts that are with the service together

// The texts of one request. All of it happens on the connection's strand, but for what listeners bring.
class Job : public std::enable_shared_from_this<Job> {
 public:
  Job(const std::shared_ptr<Exchange>& exchange, std::vector<EncodedText> texts, model::Pooling pooling,
      std::function<Json(Vectors)> answer)
      : exchange_(exchange),
        context_(exchange->context()),
        texts_(std::move(texts)),
        pooling_(pooling),
        answer_(std::move(answer)),
        start_(steady_seconds()) {
    out_.rows.resize(texts_.size());
    for (const EncodedText& t : texts_) out_.tokens += static_cast<std::int64_t>(t.ids.size());
  }

  void start() {
    submit(0);  // what it throws is the whole answer
    next_ = 1;
    exchange_->post([self = shared_from_this()] {
      self->exchange_->on_close([self] { self->end(); });
      if (const double limit = self->context_->options.request_timeout; limit > 0)
        self->exchange_->arm(limit, [self, limit] {
          self->fail({.status = 504,
                      .message = fmt::format("the request took longer than {} seconds", limit),
                      .type = "server_error",
                      .code = "timeout"});
        });
      self->submit_more();
    });
  }

 private:
  class Listener : public run::Listener {
   public:
    Listener(std::shared_ptr<Job> job, std::size_t index) : job_(std::move(job)), index_(index) {}
    void pieces(std::span<const run::Piece>) override {}
    void pooled(std::span<const float> vector) override { vector_.assign(vector.begin(), vector.end()); }
    void done(const run::Outcome& outcome) override {
      const auto context = job_->context_;
      job_->exchange_->post([job = job_, index = index_, vector = std::move(vector_), outcome]() mutable {
        job->on_done(index, std::move(vector), outcome);
      });
      context->in_flight.leave();
    }

   private:
    const std::shared_ptr<Job> job_;
    const std::size_t index_;
    std::vector<float> vector_;
  };

  void submit(std::size_t index) {
    run::ServiceRequest r;
    r.request.prompt = texts_[index].ids;
    r.request.second = texts_[index].second;
    r.request.max_tokens = 0;
    r.request.pooling = pooling_;
    r.reuse = false;
    r.tenant = exchange_->request().tenant;
    r.timeout = context_->options.queue_timeout;
    context_->in_flight.enter();
    try {
      const run::RequestId id =
          context_->service.submit(std::move(r), std::make_shared<Listener>(shared_from_this(), index));
      const std::lock_guard lock(mutex_);
      ids_.push_back(id);
    } catch (...) {
      context_->in_flight.leave();
      throw;
    }
    ++running_;
  }

  // A queue that is full takes more when some of these are done.
  void submit_more() {
    while (!over_ && next_ < texts_.size() && running_ < kAtOnce) {
      try {
        submit(next_);
      } catch (const Error& e) {
        if (e.code() != Code::kBusy || running_ == 0) return fail(api_error(e));
        return;
      }
      ++next_;
    }
  }

  void on_done(std::size_t index, std::vector<float> vector, const run::Outcome& outcome) {
    --running_;
    ++done_;
    if (over_) return;
    if (const std::optional<ApiError> error = failure_of(outcome)) return fail(*error);
    if (vector.empty()) return end();  // cancelled
    for (const float x : vector)
      if (!std::isfinite(x))
        return fail({.status = 500, .message = "the model gave no numbers for a text", .type = "server_error"});
    out_.rows[index] = std::move(vector);
    if (done_ < texts_.size()) return submit_more();
    over_ = true;
    exchange_->arm(0, {});
    out_.seconds = steady_seconds() - start_;
    exchange_->note(fmt::format("texts={} prompt={} seconds={:.6f}", texts_.size(), out_.tokens, out_.seconds));
    context_->metrics.prompt_tokens += static_cast<std::uint64_t>(out_.tokens);
    context_->metrics.request_time.observe(out_.seconds);
    exchange_->reply(json_response(answer_(std::move(out_))));
  }

  void fail(const ApiError& error) {
    if (over_) return;
    end();
    exchange_->reply(error_response(error));
  }

  void end() {
    over_ = true;
    std::vector<run::RequestId> ids;
    {
      const std::lock_guard lock(mutex_);
      ids.swap(ids_);
    }
    for (const run::RequestId id : ids) context_->service.cancel(id);
  }

  const std::shared_ptr<Exchange> exchange_;
  const std::shared_ptr<Context> context_;
  const std::vector<EncodedText> texts_;
  const model::Pooling pooling_;
  const std::function<Json(Vectors)> answer_;
  const double start_;
  std::mutex mutex_;
  std::vector<run::RequestId> ids_;
  Vectors out_;
  std::size_t next_ = 0, running_ = 0, done_ = 0;
  bool over_ = false;
};

void check_length(EncodedText& text, const std::string& field, const TextLimits& limits) {
  const auto tokens = static_cast<std::int64_t>(text.ids.size());
  std::int64_t most = limits.context;
  if (limits.most > 0) most = std::min(most, limits.most);
  if (tokens == 0) bad_field(field, "holds no token", "invalid_value");
  if (tokens <= most) return;
  throw ApiException({.message = fmt::format("This model's maximum context length is {} tokens. However, '{}' has {} "
                                             "tokens. Please reduce its length.",
                                             most, field, tokens),
                      .param = field,
                      .code = "context_length_exceeded"});
}

// The end goes, but not what stands behind the text.
void cut(EncodedText& text, std::int64_t most, bool keep_last) {
  const auto excess = static_cast<std::int64_t>(text.ids.size()) - most;
  if (excess <= 0) return;
  const auto end = text.ids.end() - (keep_last ? 1 : 0);
  text.ids.erase(end - std::min<std::ptrdiff_t>(excess, end - text.ids.begin()), end);
}

std::int64_t most_of(const TextLimits& limits) {
  return limits.most > 0 ? std::min(limits.context, limits.most) : limits.context;
}

}  // namespace

std::vector<EncodedText> encode_texts(const std::vector<Prompt>& texts, const std::string& field,
                                      const text::Tokenizer* tokenizer, const TextLimits& limits) {
  std::vector<EncodedText> all;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (!texts[i].is_ids && !tokenizer)
      throw ApiException(
          {.status = 501, .message = "this model has no tokenizer, expected token ids", .code = "unsupported"});
    const bool eos = !texts[i].is_ids && tokenizer->add_eos();
    EncodedText text{texts[i].is_ids
                         ? texts[i].ids
                         : tokenizer->encode(texts[i].text, {.add_bos = tokenizer->add_bos(), .add_eos = eos})};
    if (limits.cut) cut(text, most_of(limits), eos);
    check_length(text, texts.size() == 1 ? field : fmt::format("{}[{}]", field, i), limits);
    all.push_back(std::move(text));
  }
  return all;
}

EncodedText encode_pair(const run::ModelCard& card, const text::Tokenizer& tokenizer, const std::string& query,
                        const std::string& document, const std::string& field, const TextLimits& limits) {
  run::RankPair pair = run::encode_pair(card, tokenizer, query, document);
  EncodedText out{std::move(pair.ids), pair.second};
  if (limits.cut && out.second >= 0 && out.second < most_of(limits)) cut(out, most_of(limits), tokenizer.add_eos());
  check_length(out, field, limits);
  return out;
}

void compute_vectors(const std::shared_ptr<Exchange>& exchange, std::vector<EncodedText> texts, model::Pooling pooling,
                     std::function<Json(Vectors)> answer) {
  std::make_shared<Job>(exchange, std::move(texts), pooling, std::move(answer))->start();
}

model::Pooling read_pooling(const Fields& fields, const run::ModelCard& card) {
  const std::string* name = fields.string("pooling");
  if (!name) return card.pooling;
  for (const model::Pooling p : {model::Pooling::kMean, model::Pooling::kCls, model::Pooling::kLast})
    if (*name == model::name(p)) return p;
  bad_field(fields.path("pooling"), fmt::format("'{}', expected 'mean', 'cls' or 'last'", *name), "invalid_value");
}

std::int64_t read_dimensions(const Fields& fields, const run::ModelCard& card) {
  return fields.integer("dimensions", 1, card.width).value_or(0);
}

}  // namespace kvasir::serve
