// Models that read texts and write none (ModelSpec::causal is false): a service that answers requests for embeddings
// and ranks, and refuses all others.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#include "model/forward.hpp"
#include "model/model.hpp"
#include "run/engine.hpp"
#include "run/service.hpp"

namespace kvasir::run {

class Encoder final : public Service {
 public:
  // Loads the model. Of the options only model, lora, weights, threads, ctx and exact count. `waiting`: requests in the
  // queue. Throws Error: a bad file, one without a vocabulary, too little memory.
  Encoder(const EngineOptions& options, std::string name, std::int32_t waiting,
          const std::function<void(std::int64_t, std::int64_t)>& progress = {});
  // Memory that it takes, from the file's header alone.
  static std::int64_t planned_bytes(const EngineOptions& options, const weights::ModelFile& file);
  ~Encoder() override;  // cancels what waits

  const ModelCard& card() const override { return card_; }
  const text::Tokenizer* tokenizer() const override { return tokenizer_.get(); }
  RequestId submit(ServiceRequest request, std::shared_ptr<Listener> listener) override;
  void cancel(RequestId id) override;
  bool unpin(const ServiceRequest&) override { return false; }
  bool drain(double seconds) override;
  ServiceStats stats() const override;

 private:
  struct Job {
    RequestId id = 0;
    ServiceRequest asked;
    std::shared_ptr<Listener> listener;
    double submitted = 0, started = 0;
  };

  void loop();
  void compute(std::vector<Job>& batch);
  std::vector<Job> take();  // those that a step holds together; empty: the end
  static void end(const Job& job, Finish finish, Failure failure = Failure::kNone, std::string error = {});

  std::unique_ptr<Team> team_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<model::Forward> forward_;
  ModelCard card_;
  const std::int32_t waiting_;

  mutable std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::deque<Job> queue_;
  RequestId next_id_ = 1;
  bool stop_ = false, draining_ = false;
  ServiceStats stats_;
  std::thread thread_;
};

// Whether the file holds such a model.
bool is_encoder(const std::string& path);

}  // namespace kvasir::run
