// An HTTP server over one Service, or over several that are loaded on demand.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "run/service.hpp"
#include "serve/log.hpp"
#include "serve/options.hpp"

namespace kvasir::run {
class Pictures;  // run/pictures.hpp
}

namespace kvasir::serve {

class ChatFormat;  // serve/chat.hpp
struct Offer;      // serve/roster.hpp

// Throws Error(kUnsupported) in builds without Boost or OpenSSL, so that it is known before a model is loaded.
void require_network();

class Server {
 public:
  // Binds and listens, so that the port is known and what is wrong is thrown here: Error(kBadInput) for options, keys
  // and certificates, Error(kIo) for the address. `service`, `chat` (may be null: no chats) and `pictures` (may be
  // null: none are read) must outlive this.
  Server(ServerOptions options, run::Service& service, const ChatFormat* chat, LogWriter log = {},
         run::Pictures* pictures = nullptr);
  // Of several models, which are loaded on demand within `budget` bytes (serve/roster.hpp). REQUIRES: offers.
  Server(ServerOptions options, std::vector<Offer> offers, std::int64_t budget, LogWriter log = {});
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Serves until stop(), or with `signals` until SIGTERM or SIGINT. Then nothing new is accepted, requests that run are
  // given drain_timeout to end, what is left is cancelled; returns when the service has let go of every request.
  // Call once.
  void run(bool signals = false);

  // From any thread; returns at once. The second call does not wait for running requests.
  void stop();

  std::uint16_t port() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvasir::serve
