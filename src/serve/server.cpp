#include "serve/server.hpp"

#include <fmt/format.h>
#include <openssl/ssl.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/threads.hpp"
#include "serve/connection.hpp"
#include "serve/roster.hpp"

namespace kvasir::serve {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr int kSpareConnections = 64;  // over the limit, to say so; those beyond are closed without a word

std::unique_ptr<asio::ssl::context> make_tls(const ServerOptions& options) {
  if (options.tls_cert.empty()) return nullptr;
  auto tls = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_server);
  SSL_CTX_set_min_proto_version(tls->native_handle(), TLS1_2_VERSION);
  error_code ec;
  tls->use_certificate_chain_file(options.tls_cert, ec);
  if (ec) throw Error(Code::kBadInput, "no usable certificate chain (PEM): " + ec.message(), options.tls_cert);
  tls->use_private_key_file(options.tls_key, asio::ssl::context::pem, ec);
  if (ec) throw Error(Code::kBadInput, "no private key (PEM) of the certificate: " + ec.message(), options.tls_key);
  return tls;
}

}  // namespace

void require_network() {}

struct Server::Impl {
  explicit Impl(std::shared_ptr<Context> only)
      : context(std::move(only)), acceptor(asio::make_strand(io)), signals(io), retry(acceptor.get_executor()) {
    begin();
  }
  Impl(std::unique_ptr<Shared> of_all, std::vector<Offer> offers, std::int64_t budget)
      : shared(std::move(of_all)),
        roster(std::make_unique<Roster>(*shared, std::move(offers), budget)),
        context(roster->lobby()),
        acceptor(asio::make_strand(io)),
        signals(io),
        retry(acceptor.get_executor()) {
    begin();
  }

  void begin() {
    network.context = context;
    network.workers = &workers;
    if (!context->options.api_key_file.empty()) network.keys = KeyRing::load(context->options.api_key_file);
    network.tls = make_tls(context->options);
    listen();
  }

  void listen() {
    const ServerOptions& o = context->options;
    const std::string where = fmt::format("{}:{}", o.host, o.port);
    error_code ec;
    tcp::resolver resolver(io);
    const auto found = resolver.resolve(o.host, std::to_string(o.port), tcp::resolver::passive, ec);
    if (ec || found.empty()) throw Error(Code::kIo, "cannot find this address: " + ec.message(), where);
    const tcp::endpoint endpoint = *found.begin();
    network.loopback = endpoint.address().is_loopback();
    const auto check = [&](const char* what) {
      if (ec) throw Error(Code::kIo, fmt::format("cannot {}: {}", what, ec.message()), where);
    };
    acceptor.open(endpoint.protocol(), ec);
    check("open a socket");
    acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
    acceptor.bind(endpoint, ec);
    check("bind");
    acceptor.listen(asio::socket_base::max_listen_connections, ec);
    check("listen");
    port = acceptor.local_endpoint().port();
  }

  void accept() {
    acceptor.async_accept(asio::make_strand(io), [this](error_code ec, tcp::socket socket) {
      if (!acceptor.is_open()) return;
      if (ec) {
        // Most likely no descriptor is left: trying again at once would spin.
        retry.expires_after(std::chrono::milliseconds(100));
        retry.async_wait([this](error_code e) {
          if (!e && acceptor.is_open()) accept();
        });
        return;
      }
      take(std::move(socket));
      accept();
    });
  }

  void take(tcp::socket socket) {
    context->metrics.connections.fetch_add(1);
    const std::int64_t open = context->connections.load();
    const bool over = open >= context->options.max_connections;
    if (over) context->metrics.refused.fetch_add(1);
    if (open >= context->options.max_connections + kSpareConnections) return;
    make_connection(network, std::move(socket), over)->start();
  }

  void run(bool with_signals) {
    if (with_signals) {
      ignore_signals();
      wait_for_signal();
    }
    auto work = asio::make_work_guard(io);
    std::vector<std::thread> threads;
    start_threads(
        threads, context->options.threads, "threads of the network", [this](int) { serve(); }, [this] { io.stop(); });
    asio::post(acceptor.get_executor(), [this] { accept(); });
    context->log(fmt::format("listening address={}://{}:{} model={}", network.tls ? "https" : "http",
                             context->options.host, port, log_value(names())));
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return stops > 0; });
    }
    drain();
    work.reset();
    io.stop();
    join_all(threads);
    workers.join();
  }

  std::string names() const {
    if (!roster) return context->service.card().name;
    std::string all;
    for (const Roster::Entry& e : roster->list()) all += (all.empty() ? "" : ",") + e.card.name;
    return all;
  }

  // A handler may run out of memory: that ends its request at most, not the server.
  void serve() {
    for (;;) {
      try {
        io.run();
        return;
      } catch (const std::exception& e) {
        context->log("error what=" + log_value(e.what()));
      }
    }
  }

  // What would end the process by default and is an error of a call otherwise: a write to a connection that is gone, a
  // file that reached the limit of its size.
  static void ignore_signals() {
    for (const int number : {SIGPIPE, SIGXFSZ}) std::signal(number, SIG_IGN);
  }

  void wait_for_signal() {
    error_code ec;
    for (const int number : {SIGTERM, SIGINT}) {
      signals.add(number, ec);
      if (ec) throw Error(Code::kIo, "cannot wait for signals: " + ec.message());
    }
    signals.async_wait([this](error_code e, int) {
      if (e) return;
      stop();
      wait_for_signal();
    });
  }

  void stop() {
    const std::lock_guard lock(mutex);
    ++stops;
    changed.notify_all();
  }

  // Waits up to `seconds` for `done`, asked every few milliseconds; a second stop ends the wait.
  template <class F>
  bool wait_until(double seconds, F done) {
    const double end = steady_seconds() + seconds;
    std::unique_lock lock(mutex);
    while (!done()) {
      if (stops > 1 || steady_seconds() >= end) return false;
      changed.wait_for(lock, std::chrono::milliseconds(5));
    }
    return true;
  }

  void drain() {
    context->draining.store(true);
    asio::post(acceptor.get_executor(), [this] {
      error_code ec;
      acceptor.close(ec);
      retry.cancel();
    });
    for (const auto& connection : network.all()) connection->drain();
    context->log(fmt::format("draining requests={}", context->in_flight.count()));
    const bool all_done = wait_until(context->options.drain_timeout, [&] { return context->connections.load() == 0; });
    for (const auto& connection : network.all()) connection->stop();
    context->shared->picture_urls.stop();
    // The workers may be in the middle of submitting; then every listener must have heard the end.
    workers.wait();
    while (!context->in_flight.wait_idle(10))
      context->log(fmt::format("waiting requests={}", context->in_flight.count()));
    context->log(fmt::format("stopped complete={}", all_done));
  }

  const std::unique_ptr<Shared> shared;    // with the roster:
  const std::unique_ptr<Roster> roster;    // of several models; waits at its end for those who hold one
  const std::shared_ptr<Context> context;  // of the only model, or the roster's
  asio::thread_pool workers{static_cast<std::size_t>(context->options.workers)};
  Network network;
  asio::io_context io;  // after `network`: connections die with it
  tcp::acceptor acceptor;
  asio::signal_set signals;
  asio::steady_timer retry;
  std::uint16_t port = 0;

  std::mutex mutex;
  std::condition_variable changed;
  int stops = 0;
};

Server::Server(ServerOptions options, run::Service& service, const ChatFormat* chat, LogWriter log,
               run::Pictures* pictures) {
  validate(options);
  impl_ =
      std::make_unique<Impl>(std::make_shared<Context>(std::move(options), service, chat, std::move(log), pictures));
}

Server::Server(ServerOptions options, std::vector<Offer> offers, std::int64_t budget, LogWriter log) {
  validate(options);
  impl_ =
      std::make_unique<Impl>(std::make_unique<Shared>(std::move(options), std::move(log)), std::move(offers), budget);
}

Server::~Server() = default;

void Server::run(bool signals) { impl_->run(signals); }

void Server::stop() { impl_->stop(); }

std::uint16_t Server::port() const { return impl_->port; }

}  // namespace kvasir::serve
