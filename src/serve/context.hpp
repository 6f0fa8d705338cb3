// What all requests of a server share.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "run/service.hpp"
#include "serve/log.hpp"
#include "serve/metrics.hpp"
#include "serve/options.hpp"
#include "serve/picture_urls.hpp"
#include "serve/prefix_id.hpp"
#include "serve/response_memory.hpp"
#include "serve/turn_memory.hpp"

namespace kvasir::run {
class Pictures;  // run/pictures.hpp
}

namespace kvasir::serve {

class ChatFormat;  // serve/chat.hpp
class Roster;      // serve/roster.hpp

// Requests that the service has not finished with: it may still call their listeners.
class InFlight {
 public:
  void enter();
  void leave();
  std::int64_t count() const;
  bool wait_idle(double seconds) const;  // true: none is left

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable idle_;
  std::int64_t count_ = 0;
};

// What all models of a server have in common.
struct Shared {
  Shared(ServerOptions server_options, LogWriter log_writer);

  const ServerOptions options;
  const double start;          // steady_seconds
  const std::int64_t created;  // Unix time
  Roster* roster = nullptr;    // the models of a server that has several; null: there is one

  ResponseMemory responses;
  PictureFetcher picture_urls;
  Metrics metrics;
  InFlight in_flight;
  std::atomic<bool> draining{false};
  std::atomic<std::int64_t> connections{0};

  void log(std::string_view line);
  std::string next_id(std::string_view prefix);

 private:
  LogWriter write_log_;
  std::mutex log_mutex_;
  std::atomic<std::uint64_t> ids_;
};

// What is remembered of a model's requests, also while it is not loaded.
struct ModelMemory {
  // Throws as PrefixIds.
  ModelMemory(const ServerOptions& options, const run::ModelCard& card);

  const PrefixIds prefix_ids;
  TurnMemory turns;
};

// What all requests to a model share. Of a server with several models: also what requests to none of them share; its
// service then runs nothing (serve/roster.hpp).
struct Context {
  // Of the only model. `chat` may be null: then /v1/chat/completions answers 501. The references must outlive this.
  // Throws as PrefixIds.
  Context(ServerOptions server_options, run::Service& run_service, const ChatFormat* chat_format, LogWriter log_writer,
          run::Pictures* of_pictures = nullptr);
  Context(std::shared_ptr<Shared> of_all, std::shared_ptr<ModelMemory> of_model, run::Service& run_service,
          const ChatFormat* chat_format, run::Pictures* of_pictures = nullptr);

  const std::shared_ptr<Shared> shared;
  const std::shared_ptr<ModelMemory> memory;
  run::Service& service;
  const ChatFormat* const chat;
  run::Pictures* const pictures;  // null: the model reads none
  const std::string fingerprint;  // what computes the answers: version of the cache's arithmetic, from the model card

  const ServerOptions& options = shared->options;
  const double start = shared->start;
  const std::int64_t created = shared->created;
  const PrefixIds& prefix_ids = memory->prefix_ids;
  TurnMemory& turns = memory->turns;
  ResponseMemory& responses = shared->responses;
  Metrics& metrics = shared->metrics;
  InFlight& in_flight = shared->in_flight;
  std::atomic<bool>& draining = shared->draining;
  std::atomic<std::int64_t>& connections = shared->connections;

  void log(std::string_view line) { shared->log(line); }

  // "req-" and 16 hexadecimal digits that no other call of this process gets. Not secret.
  std::string next_id(std::string_view prefix) { return shared->next_id(prefix); }
};

}  // namespace kvasir::serve
