// What all requests of a server share.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>

#include "run/service.hpp"
#include "serve/log.hpp"
#include "serve/metrics.hpp"
#include "serve/options.hpp"
#include "serve/prefix_id.hpp"
#include "serve/response_memory.hpp"
#include "serve/turn_memory.hpp"

namespace kvasir::serve {

class ChatFormat;  // serve/chat.hpp

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

struct Context {
  // `chat` may be null: then /v1/chat/completions answers 501. The references must outlive this. Throws as PrefixIds.
  Context(ServerOptions server_options, run::Service& run_service, const ChatFormat* chat_format, LogSink log_sink);

  const ServerOptions options;
  run::Service& service;
  const ChatFormat* const chat;
  const double start;             // steady_seconds
  const std::int64_t created;     // Unix time
  const std::string fingerprint;  // what computes the answers: version of the cache's arithmetic, from the model card
  const PrefixIds prefix_ids;

  TurnMemory turns;
  ResponseMemory responses;
  Metrics metrics;
  InFlight in_flight;
  std::atomic<bool> draining{false};
  std::atomic<std::int64_t> connections{0};

  void log(std::string_view line);

  // "req-" and 16 hexadecimal digits that no other call of this process gets. Not secret.
  std::string next_id(std::string_view prefix);

 private:
  LogSink sink_;
  std::mutex log_mutex_;
  std::atomic<std::uint64_t> ids_;
};

}  // namespace kvasir::serve
