// The network side of Boost.Beast is compiled here and nowhere else.
#include "serve/connection.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/read.hpp>
#include <chrono>
#include <optional>

#include "base/error.hpp"
#include "serve/admit.hpp"
#include "serve/choose_model.hpp"
#include "serve/outbox.hpp"
#include "serve/request_parser.hpp"
#include "serve/route.hpp"

namespace kvasir::serve {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::size_t kMostPipelined = 16 << 10;  // bytes of further requests that are read while one is answered
constexpr std::size_t kReadSize = 4096;
constexpr double kLingerSeconds = 1;
constexpr std::uint64_t kSmallBody = 64 << 10;  // read to its end for an answer that does not depend on it
constexpr double kCancelSeconds = 0.02;         // between attempts to end a read that is late
constexpr int kMostCancels = 50;

void run_route(const Entry<Route>& route, const std::shared_ptr<Exchange>& exchange, asio::thread_pool& workers) {
  const auto run = [&route, exchange] {
    guarded(exchange, [&] { route.value->handle(*exchange->context(), exchange); });
  };
  Roster* const roster = exchange->context()->shared->roster;
  if (!roster || !route.value->needs_model) return run();
  guarded(exchange, [&] { choose_model(*roster, exchange, [run, &workers] { asio::post(workers, run); }); });
}

tcp::socket& socket_of(tcp::socket& stream) { return stream; }
tcp::socket& socket_of(asio::ssl::stream<tcp::socket>& stream) { return stream.next_layer(); }

// TLS says goodbye; `done` is called when the client has, too.
template <class Done>
void say_goodbye(tcp::socket&, Done) {}
template <class Done>
void say_goodbye(asio::ssl::stream<tcp::socket>& stream, Done done) {
  stream.async_shutdown(done);
}

// Calls `expired` once, `seconds` from now, unless the timer is set anew or stopped before.
template <class Expired>
void expire_in(asio::steady_timer& timer, double seconds, Expired expired) {
  timer.expires_after(std::chrono::duration_cast<asio::steady_timer::duration>(std::chrono::duration<double>(seconds)));
  timer.async_wait([&timer, expired](error_code ec) {
    // A wait that had expired when the timer was set anew reports success all the same.
    if (!ec && timer.expiry() <= asio::steady_timer::clock_type::now()) expired();
  });
}

std::string name_of(const tcp::endpoint& peer) {
  const std::string address = peer.address().to_string();
  return (peer.address().is_v6() ? "[" + address + "]" : address) + ":" + std::to_string(peer.port());
}

template <class Stream>
class Connection final : public LiveConnection, public std::enable_shared_from_this<Connection<Stream>> {
 public:
  static constexpr bool kTls = !std::is_same_v<Stream, tcp::socket>;

  template <class... Args>
  Connection(Network& network, bool over_limit, tcp::socket peer, Args&... args)
      : network_(network),
        context_(network.context),
        over_limit_(over_limit),
        stream_(std::move(peer), args...),
        deadline_(stream_.get_executor()),
        write_deadline_(stream_.get_executor()),
        task_timer_(stream_.get_executor()) {
    context_->connections.fetch_add(1);
  }
  ~Connection() override {
    network_.remove(this);
    context_->connections.fetch_sub(1);
  }

  void start() override {
    post([self = this->shared_from_this()] { self->begin(); });
  }
  void drain() override {
    post([self = this->shared_from_this()] {
      if (self->phase_ == Phase::kIdle && self->backlog() == 0) self->abort();
    });
  }
  void stop() override {
    post([self = this->shared_from_this()] { self->abort(); });
  }

  // Wire
  void post(std::function<void()> task) override {
    asio::post(stream_.get_executor(), [self = this->shared_from_this(), task = std::move(task)] { task(); });
  }
  std::size_t backlog() const override { return outbox_.size(); }

  // Closes the connection at once.
  void abort() override {
    if (closed_) return;
    closed_ = true;
    error_code ec;
    deadline_.cancel();
    write_deadline_.cancel();
    task_timer_.cancel();
    on_task_ = nullptr;
    socket_of(stream_).close(ec);
    if (const auto exchange = std::exchange(exchange_, nullptr)) exchange->client_gone();
  }

  void send(std::string bytes) override {
    if (closed_) return;
    if (outbox_.add(bytes)) flush();
  }

  void done(bool keep_alive) override {
    exchange_.reset();
    after_flush_ = keep_alive && !unread_body_ && !context_->draining.load() ? After::kNext : After::kClose;
    if (outbox_.idle()) flush();
  }

  void arm(double seconds, std::function<void()> on_expiry) override {
    on_task_ = std::move(on_expiry);
    if (seconds <= 0) {
      task_timer_.cancel();
      return;
    }
    expire_in(task_timer_, seconds, handler([](Connection& c) {
                if (const auto task = std::move(c.on_task_)) task();
              }));
  }

 private:
  enum class Phase { kHandshake, kIdle, kHeader, kBody, kBusy, kLinger, kShutdown };
  enum class After { kNothing, kNext, kClose };

  // A handler that keeps this alive and runs nothing once the connection is closed.
  template <class F>
  auto handler(F f) {
    return [self = this->shared_from_this(), f](auto... args) {
      if (!self->closed_) f(*self, args...);
    };
  }

  void enter(Phase phase, double seconds) {
    phase_ = phase;
    if (seconds > 0) {
      expire_in(deadline_, seconds, handler([](Connection& c) { c.expired(); }));
    } else {
      deadline_.expires_at(asio::steady_timer::time_point::max());
    }
  }

  void expired() {
    if ((phase_ == Phase::kHeader || phase_ == Phase::kBody) && cancels_ < kMostCancels) {
      late_ = true;  // the read ends with an error, and that is answered 408
      socket_of(stream_).cancel();
      // A read that had ended just before is not called back: the next one begins all the same, and is to end too.
      ++cancels_;
      expire_in(deadline_, kCancelSeconds, handler([](Connection& c) { c.expired(); }));
    } else if (phase_ == Phase::kIdle) {
      // A request that is here is late only because this server is: the pending read is about to end, or has ended and
      // waits for this strand. Otherwise its end closes the connection. It need not come of itself: part of a TLS
      // record is taken without ending a read.
      if (error_code ec; socket_of(stream_).available(ec) == 0) socket_of(stream_).cancel();
      expire_in(deadline_, kCancelSeconds, handler([](Connection& c) { c.expired(); }));
    } else {
      abort();
    }
  }

  void begin() {
    error_code ec;
    const auto remote = socket_of(stream_).remote_endpoint(ec);
    if (ec) return abort();
    peer_ = name_of(remote);
    socket_of(stream_).set_option(tcp::no_delay(true), ec);
    if constexpr (kTls) {
      enter(Phase::kHandshake, context_->options.header_timeout);
      stream_.async_handshake(asio::ssl::stream_base::server, handler([](Connection& c, error_code error) {
                                return error ? c.abort() : c.next(c.context_->options.header_timeout);
                              }));
    } else {
      next(context_->options.header_timeout);
    }
  }

  // Waits for a request, at most `seconds` for its first byte.
  void next(double seconds) {
    if (context_->draining.load()) return abort();
    enter(Phase::kIdle, seconds);
    if (buffer_.size() == 0) return watch();
    // The next request is here in part or whole; a read that is pending would be a second one.
    if (watching_) {
      socket_of(stream_).cancel();
    } else {
      read_header();
    }
  }

  // Keeps one read pending while no request is being read: it tells when the client goes away.
  void watch() {
    if (watching_ || buffer_.size() >= kMostPipelined) return;
    watching_ = true;
    stream_.async_read_some(buffer_.prepare(kReadSize), handler([](Connection& c, error_code ec, std::size_t n) {
                              c.watching_ = false;
                              c.on_watch(ec, n);
                            }));
  }

  void on_watch(error_code ec, std::size_t n) {
    if (phase_ == Phase::kShutdown) return say_goodbye(stream_, handler([](Connection& c, error_code) { c.abort(); }));
    const bool recalled = ec == asio::error::operation_aborted && phase_ == Phase::kIdle && buffer_.size() > 0;
    if (ec && !recalled) return abort();
    buffer_.commit(n);
    if (phase_ == Phase::kIdle) return read_header();
    if (phase_ == Phase::kLinger) buffer_.consume(buffer_.size());
    watch();
  }

  void read_header() {
    parser_.emplace();
    set_limits(*parser_, context_->options);
    enter(Phase::kHeader, context_->options.header_timeout);
    read_some();
  }

  // Reads on piece by piece: `late_` is seen after each. A read of the whole, whose pieces are all there already, would
  // have none pending that expired() can cancel.
  void read_some() {
    http::async_read_some(stream_, buffer_, *parser_, handler([](Connection& c, error_code ec, std::size_t) {
                            const bool header = c.phase_ == Phase::kHeader;
                            const bool whole = header ? c.parser_->is_header_done() : c.parser_->is_done();
                            if (!c.late_ && !ec && !whole) return c.read_some();
                            return header ? c.on_header(ec) : c.on_body(ec);
                          }));
  }

  void on_header(error_code ec) {
    if (!late_ && ec && !is_protocol_error(ec)) return abort();
    bool target_ok = true;
    HttpRequest request = to_request(parser_->get(), *context_, peer_, target_ok);
    if (late_) return refuse(std::move(request), {.status = 408, .message = "the request took too long to arrive"});
    if (ec) return refuse(std::move(request), protocol_error(ec));
    unread_body_ = !parser_->is_done();
    Admission admission =
        over_limit_ ? too_many_connections() : admit(request, target_ok, network_.keys, *context_, network_.loopback);
    route_ = admission.route;
    const std::string_view expect = request.header("expect");
    if (admission.response && !parser_->is_done()) {
      // A client keeps the connection for its next request, which the rest of this one must not stand in front of.
      const auto length = parser_->content_length();
      const bool small = length && *length <= kSmallBody && expect.empty() && !admission.response->close;
      if (!small) admission.response->close = true;
      if (small) early_ = std::move(admission.response);
    }
    if (admission.response && !early_) {
      open_exchange(std::move(request), admission.route);
      return exchange_->reply(std::move(*admission.response));
    }
    request_ = std::move(request);
    if (parser_->is_done()) return on_body({});
    if (!expect.empty() && !request_.http10) send("HTTP/1.1 100 Continue\r\n\r\n");
    enter(Phase::kBody, context_->options.body_timeout);
    parser_->eager(true);
    read_some();
  }

  void on_body(error_code ec) {
    if (late_) return refuse(std::move(request_), {.status = 408, .message = "the request took too long to arrive"});
    if (ec && is_protocol_error(ec)) return refuse(std::move(request_), protocol_error(ec));
    if (ec) return abort();
    unread_body_ = false;
    if (const auto early = std::exchange(early_, std::nullopt)) {
      open_exchange(std::move(request_), route_);
      return exchange_->reply(*early);
    }
    request_.body = std::move(parser_->get().body());
    open_exchange(std::move(request_), route_);
    asio::post(*network_.workers, [exchange = exchange_, route = route_, workers = network_.workers] {
      run_route(*route, exchange, *workers);
    });
  }

  void open_exchange(HttpRequest request, const Entry<Route>* route) {
    parser_.reset();
    enter(Phase::kBusy, 0);
    exchange_ = std::make_shared<Exchange>(context_, this->weak_from_this(), std::move(request),
                                           route ? std::string(route->name) : "none");
    watch();
  }

  // An answer to what could not be read: the rest of it is in the way, so the connection ends.
  void refuse(HttpRequest request, const ApiError& error) {
    unread_body_ = true;
    early_.reset();
    late_ = false;
    request.keep_alive = false;
    open_exchange(std::move(request), nullptr);
    exchange_->reply(error_response(error));
  }

  void flush() {
    if (!outbox_.begin()) return flushed();
    expire_in(write_deadline_, context_->options.write_timeout, handler([](Connection& c) {
                c.context_->metrics.slow_readers.fetch_add(1);
                c.abort();
              }));
    const std::string_view left = outbox_.left();
    stream_.async_write_some(asio::buffer(left.data(), left.size()),
                             handler([](Connection& c, error_code ec, std::size_t n) {
                               if (ec) return c.abort();
                               c.outbox_.wrote(n);
                               c.flush();
                             }));
  }

  void flushed() {
    write_deadline_.expires_at(asio::steady_timer::time_point::max());
    const After what = std::exchange(after_flush_, After::kNothing);
    if (what == After::kNext) next(context_->options.idle_timeout);
    if (what == After::kClose) finish();
  }

  // Closing at once would reset the connection if the client has still something to say, and it might lose the answer.
  void finish() {
    enter(kTls ? Phase::kShutdown : Phase::kLinger, kLingerSeconds);
    if constexpr (kTls) {
      if (watching_) {
        socket_of(stream_).cancel();  // goes on in on_watch
      } else {
        say_goodbye(stream_, handler([](Connection& c, error_code) { c.abort(); }));
      }
    } else {
      error_code ec;
      socket_of(stream_).shutdown(tcp::socket::shutdown_send, ec);
      buffer_.consume(buffer_.size());
      watch();
    }
  }

  Network& network_;
  const std::shared_ptr<Context> context_;
  const bool over_limit_;
  Stream stream_;
  asio::steady_timer deadline_, write_deadline_, task_timer_;
  std::function<void()> on_task_;
  std::string peer_;

  Phase phase_ = Phase::kHandshake;
  bool closed_ = false;
  bool watching_ = false;
  bool late_ = false;
  int cancels_ = 0;
  bool unread_body_ = false;
  // What was read and is not parsed. Its bound is that of lines that the parser waits for the end of and that count
  // towards neither header nor body: extensions and trailers of chunked bodies.
  boost::beast::flat_buffer buffer_{
      std::max<std::size_t>(static_cast<std::size_t>(context_->options.max_header), kMostPipelined) + kReadSize};
  std::optional<RequestParser> parser_;
  HttpRequest request_;
  const Entry<Route>* route_ = nullptr;
  std::optional<Response> early_;  // the answer, once the body is read
  std::shared_ptr<Exchange> exchange_;

  Outbox outbox_;
  After after_flush_ = After::kNothing;
};

}  // namespace

void Network::add(const std::shared_ptr<LiveConnection>& connection) {
  const std::lock_guard lock(mutex_);
  live_.emplace(connection.get(), connection);
}

void Network::remove(const LiveConnection* connection) {
  const std::lock_guard lock(mutex_);
  live_.erase(connection);
}

std::vector<std::shared_ptr<LiveConnection>> Network::all() {
  std::vector<std::shared_ptr<LiveConnection>> out;
  const std::lock_guard lock(mutex_);
  for (const auto& [key, weak] : live_)
    if (auto connection = weak.lock()) out.push_back(std::move(connection));
  return out;
}

std::shared_ptr<LiveConnection> make_connection(Network& network, tcp::socket socket, bool refuse) {
  std::shared_ptr<LiveConnection> connection;
  if (network.tls) {
    connection =
        std::make_shared<Connection<asio::ssl::stream<tcp::socket>>>(network, refuse, std::move(socket), *network.tls);
  } else {
    connection = std::make_shared<Connection<tcp::socket>>(network, refuse, std::move(socket));
  }
  network.add(connection);
  return connection;
}

}  // namespace kvasir::serve
