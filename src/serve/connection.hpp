// The network side: connections that read requests, find their routes and send what exchanges write.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "serve/context.hpp"
#include "serve/exchange.hpp"
#include "serve/keys.hpp"

namespace kvasir::serve {

class LiveConnection : public Wire {
 public:
  virtual void start() = 0;
  virtual void drain() = 0;  // any thread: closes when idle, else after the current answer
  virtual void stop() = 0;   // any thread: closes now
};

// What connections share. Outlives the io_context that runs them.
struct Network {
  std::shared_ptr<Context> context;
  KeyRing keys;
  std::unique_ptr<boost::asio::ssl::context> tls;  // null: plain HTTP
  boost::asio::thread_pool* workers = nullptr;
  bool loopback = false;  // bound to a loopback address: the Host header is held against DNS rebinding

  void add(const std::shared_ptr<LiveConnection>& connection);
  void remove(const LiveConnection* connection);
  std::vector<std::shared_ptr<LiveConnection>> all();

 private:
  std::mutex mutex_;
  std::unordered_map<const LiveConnection*, std::weak_ptr<LiveConnection>> live_;
};

// `socket` has a strand as executor. `refuse`: answers the first request with 503 and closes.
std::shared_ptr<LiveConnection> make_connection(Network& network, boost::asio::ip::tcp::socket socket, bool refuse);

}  // namespace kvasir::serve
