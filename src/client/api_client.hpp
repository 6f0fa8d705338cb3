// One connection to an OpenAI-compatible server, kept open between requests. For files that may use Boost.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/answer_reader.hpp"
#include "client/link.hpp"

namespace kvasir::client {

// Everything happens on the thread that runs `io`, which must outlive this.
class ApiClient : public std::enable_shared_from_this<ApiClient> {
 public:
  // `patience`: seconds without a byte after which an answer counts as dropped.
  ApiClient(boost::asio::io_context& io, DestinationPtr to, double patience);

  using Done = std::function<void(ApiAnswer)>;
  // `target` is the whole path. Calls `done` exactly once. REQUIRES: no other request of this client is open.
  void post(const std::string& target, const Json& body, Done done);
  void get(const std::string& target, Done done);
  void close();  // an open request ends as dropped

 private:
  using Request = boost::beast::http::request<boost::beast::http::string_body>;
  using Parser = boost::beast::http::response_parser<boost::beast::http::string_body>;

  // A connection and what a read of it writes to: handlers hold it, as a read that is late outlives its request.
  struct Session {
    Session(boost::asio::io_context& io, DestinationPtr to) : link(io, std::move(to)) {}
    Link link;
    boost::beast::flat_buffer buffer;
    std::optional<Parser> parser;
  };

  void start(Request request, Done done);
  void connect();
  void disconnect();
  void write();
  void read_header();
  void on_header();
  void read_body();
  void watch();
  void fail(const std::string& what);
  void end(ApiAnswer answer);
  template <class F>
  auto handler(F f);

  boost::asio::io_context& io_;
  const DestinationPtr to_;
  const double patience_;
  std::shared_ptr<Session> session_;  // null: closed
  boost::asio::steady_timer silence_;
  Request request_;
  std::optional<AnswerReader> reader_;
  Done done_;
  double sent_ = 0;
  double heard_ = 0;
  bool reused_ = false;         // the connection had a request before this one
  std::uint64_t exchange_ = 0;  // what handlers of earlier requests are told by
};

// One request and its answer, waited for.
class BlockingClient {
 public:
  BlockingClient(const DestinationPtr& to, double patience);
  ~BlockingClient();
  ApiAnswer post(const std::string& target, const Json& body);
  ApiAnswer get(const std::string& target);

 private:
  ApiAnswer wait();
  boost::asio::io_context io_;
  std::shared_ptr<ApiClient> client_;
  std::optional<ApiAnswer> answer_;
};

// The one model that the server lists, or the first of several. Throws Error(kIo): no such server, or it lists none.
std::string first_model(BlockingClient& client, const Endpoint& endpoint);

}  // namespace kvasir::client
