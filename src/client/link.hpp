// A client's connection to a server: TCP, or TLS over it. Whoever reads and writes through it need not know which. For
// files that may use Boost.
#pragma once

#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "client/answer_reader.hpp"

namespace kvasir::client {

// What all connections to a server have in common.
struct Destination {
  Endpoint endpoint;
  std::vector<boost::asio::ip::tcp::endpoint> addresses;  // the first that answers is taken
  std::unique_ptr<boost::asio::ssl::context> tls;         // null: plain HTTP
};
using DestinationPtr = std::shared_ptr<const Destination>;

// Throws Error(kIo) when the name has no address, Error(kBadInput) naming --ca-file when that holds no certificates.
DestinationPtr resolve(const Endpoint& endpoint);

// Opened once. An AsyncStream of Asio; must live until the handlers of everything that was begun have run.
class Link {
 public:
  using executor_type = boost::asio::ip::tcp::socket::executor_type;

  Link(boost::asio::io_context& io, DestinationPtr to);

  // Calls `done` with "", or with what went wrong and what was expected.
  template <class Done>
  void open(Done done) {
    boost::asio::async_connect(socket_, to_->addresses, [this, done](boost::system::error_code ec, const auto&) {
      if (ec) return done("connecting: " + ec.message());
      boost::system::error_code ignored;
      socket_.set_option(boost::asio::ip::tcp::no_delay(true), ignored);
      if (!tls_) return done(std::string());
      tls_->async_handshake(boost::asio::ssl::stream_base::client, [this, done](boost::system::error_code e) {
        done(e ? handshake_error(e) : std::string());
      });
    });
  }
  bool is_open() const { return socket_.is_open(); }
  void close();

  executor_type get_executor() { return socket_.get_executor(); }
  template <class Buffers, class Handler>
  void async_read_some(const Buffers& buffers, Handler&& handler) {
    tls_ ? tls_->async_read_some(buffers, std::forward<Handler>(handler))
         : socket_.async_read_some(buffers, std::forward<Handler>(handler));
  }
  template <class Buffers, class Handler>
  void async_write_some(const Buffers& buffers, Handler&& handler) {
    tls_ ? tls_->async_write_some(buffers, std::forward<Handler>(handler))
         : socket_.async_write_some(buffers, std::forward<Handler>(handler));
  }

 private:
  std::string handshake_error(boost::system::error_code ec);

  const DestinationPtr to_;
  boost::asio::ip::tcp::socket socket_;
  std::optional<boost::asio::ssl::stream<boost::asio::ip::tcp::socket&>> tls_;
};

}  // namespace kvasir::client
