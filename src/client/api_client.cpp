#include "client/api_client.hpp"

#include <algorithm>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <chrono>
#include <cstdlib>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"

namespace kvasir::client {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using boost::system::error_code;

ApiClient::ApiClient(asio::io_context& io, DestinationPtr to, double patience)
    : io_(io), to_(std::move(to)), patience_(patience), silence_(io) {}

// Handlers keep the client and its session alive, and do nothing once their request is over.
template <class F>
auto ApiClient::handler(F f) {
  return [self = shared_from_this(), session = session_, exchange = exchange_, f](auto... args) {
    if (exchange == self->exchange_ && self->done_) f(*self, args...);
  };
}

void ApiClient::post(const std::string& target, const Json& body, Done done) {
  Request r{http::verb::post, target, 11};
  r.set(http::field::content_type, "application/json");
  r.body() = body.dump(-1, ' ', false, Json::error_handler_t::replace);
  start(std::move(r), std::move(done));
}

void ApiClient::get(const std::string& target, Done done) {
  start(Request{http::verb::get, target, 11}, std::move(done));
}

void ApiClient::start(Request request, Done done) {
  request_ = std::move(request);
  const Endpoint& to = to_->endpoint;
  const bool v6 = to.host.find(':') != std::string::npos;
  request_.set(http::field::host, (v6 ? "[" + to.host + "]" : to.host) + ":" + to.port);
  request_.set(http::field::user_agent, "kvasir-bench");
  if (!to.key.empty()) request_.set(http::field::authorization, "Bearer " + to.key);
  request_.prepare_payload();
  done_ = std::move(done);
  ++exchange_;
  sent_ = heard_ = steady_seconds();
  reader_.reset();
  watch();
  reused_ = session_ != nullptr;
  reused_ ? write() : connect();
}

void ApiClient::close() {
  disconnect();
  if (done_) fail("closed by the client");
}

void ApiClient::disconnect() {
  if (session_) session_->link.close();
  session_.reset();
}

void ApiClient::connect() {
  disconnect();
  session_ = std::make_shared<Session>(io_, to_);
  session_->link.open(handler([](ApiClient& c, const std::string& why) { why.empty() ? c.write() : c.fail(why); }));
}

void ApiClient::write() {
  http::async_write(session_->link, request_, handler([](ApiClient& c, error_code ec, std::size_t) {
                      // A server may answer (and close) before it has read everything: the answer decides.
                      if (ec && c.reused_) return c.reused_ = false, c.connect();
                      c.read_header();
                    }));
}

void ApiClient::read_header() {
  Session& s = *session_;
  s.parser.emplace();
  s.parser->body_limit(std::uint64_t{1} << 30);
  http::async_read_header(s.link, s.buffer, *s.parser, handler([](ApiClient& c, error_code ec, std::size_t n) {
                            // A kept connection may have been closed while it was idle: that says nothing.
                            if (ec && c.reused_ && n == 0) return c.reused_ = false, c.connect();
                            if (ec) return c.fail("no answer: " + ec.message());
                            c.on_header();
                          }));
}

void ApiClient::on_header() {
  heard_ = steady_seconds();
  const auto& header = session_->parser->get();
  const auto type = header[http::field::content_type];
  reader_.emplace(sent_, header.result_int(), type.starts_with("text/event-stream"));
  read_body();
}

void ApiClient::read_body() {
  // What has been read is taken out at once, so that a long stream takes no memory.
  Session& s = *session_;
  auto& message = s.parser->get();
  if (!message.body().empty()) {
    reader_->feed(message.body(), heard_);
    message.body().clear();
  }
  if (s.parser->is_done()) {
    ApiAnswer answer = reader_->finish(true, steady_seconds());
    const auto retry = message[http::field::retry_after];
    answer.retry_after = std::strtod(std::string(retry).c_str(), nullptr);
    if (!message.keep_alive()) disconnect();
    return end(std::move(answer));
  }
  http::async_read_some(s.link, s.buffer, *s.parser, handler([](ApiClient& c, error_code ec, std::size_t) {
                          c.heard_ = steady_seconds();
                          if (ec && !c.session_->parser->is_done()) {
                            c.disconnect();
                            return c.end(c.reader_->finish(false, c.heard_));
                          }
                          c.read_body();
                        }));
}

void ApiClient::watch() {
  silence_.expires_after(std::chrono::duration_cast<asio::steady_timer::duration>(
      std::chrono::duration<double>(std::max(heard_ + patience_ - steady_seconds(), 0.01))));
  silence_.async_wait(handler([](ApiClient& c, error_code ec) {
    if (ec) return;
    if (steady_seconds() < c.heard_ + c.patience_) return c.watch();
    c.fail("silent for too long");
  }));
}

void ApiClient::fail(const std::string& what) {
  ApiAnswer answer;
  answer.sent = sent_;
  answer.ended = steady_seconds();
  answer.error = what;
  disconnect();
  end(std::move(answer));
}

void ApiClient::end(ApiAnswer answer) {
  silence_.cancel();
  const Done done = std::exchange(done_, nullptr);
  done(std::move(answer));
}

BlockingClient::BlockingClient(const DestinationPtr& to, double patience)
    : client_(std::make_shared<ApiClient>(io_, to, patience)) {}

BlockingClient::~BlockingClient() = default;

ApiAnswer BlockingClient::post(const std::string& target, const Json& body) {
  client_->post(target, body, [this](ApiAnswer a) { answer_ = std::move(a); });
  return wait();
}

ApiAnswer BlockingClient::get(const std::string& target) {
  client_->get(target, [this](ApiAnswer a) { answer_ = std::move(a); });
  return wait();
}

ApiAnswer BlockingClient::wait() {
  answer_.reset();
  io_.restart();
  while (!answer_) io_.run_one();
  return std::move(*answer_);
}

std::string first_model(BlockingClient& client, const Endpoint& endpoint) {
  const ApiAnswer answer = client.get(endpoint.path + "/models");
  const std::string where = endpoint.host + ":" + endpoint.port;
  const bool silent = answer.status == 0 && answer.error.starts_with("no answer") && !endpoint.tls;
  if (answer.end != ApiAnswer::End::kComplete)
    throw Error(Code::kIo,
                "cannot be asked for its models: " + answer.error +
                    (silent ? "; a server that speaks TLS wants https:// in --url" : ""),
                where);
  const Json& body = answer.body;
  if (!body.is_object() || !body.contains("data") || !body["data"].is_array() || body["data"].empty() ||
      !body["data"][0].is_object() || !body["data"][0].value("id", Json()).is_string())
    throw Error(Code::kIo, "lists no models", where);
  return body["data"][0]["id"];
}

}  // namespace kvasir::client
