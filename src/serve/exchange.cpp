#include "serve/exchange.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "serve/log.hpp"
#include "serve/route.hpp"

namespace kvasir::serve {
namespace {

constexpr int kClientGone = 499;  // nginx's number for it; only in logs and metrics

bool listed(std::string_view origin, const ServerOptions& options) {
  const auto& all = options.cors_origins;
  return std::any_of(all.begin(), all.end(), [&](const std::string& o) { return o == "*" || o == origin; });
}

}  // namespace

void guarded(const std::shared_ptr<Exchange>& exchange, FunctionRef<void()> run) {
  ApiError error{.status = 500, .message = "internal error", .type = "server_error"};
  try {
    return run();
  } catch (const ApiException& e) {
    error = e.error();
  } catch (const Error& e) {
    error = api_error(e);
  } catch (const std::bad_alloc&) {
    error.message = "out of memory";
  } catch (const std::exception& e) {
    // What it says may be about other people's requests: the operator reads it, the client does not.
    exchange->context()->log("error id=" + exchange->request().id + " what=" + log_value(e.what()));
  }
  exchange->reply(error_response(error));
}

bool origin_allowed(std::string_view origin, std::string_view host, const ServerOptions& options) {
  if (origin.empty() || listed(origin, options)) return true;
  const std::size_t scheme = origin.find("://");
  return scheme != std::string_view::npos && origin.substr(scheme + 3) == host;
}

Exchange::Exchange(std::shared_ptr<Context> context, std::weak_ptr<Wire> wire, HttpRequest request, std::string route)
    : context_(std::move(context)),
      wire_(std::move(wire)),
      request_(std::move(request)),
      route_(std::move(route)),
      start_(steady_seconds()) {}

bool Exchange::post(std::function<void()> task) {
  const auto wire = wire_.lock();
  if (wire) wire->post(std::move(task));
  return wire != nullptr;
}

std::size_t Exchange::backlog() const {
  const auto wire = wire_.lock();
  return wire ? wire->backlog() : 0;
}

bool Exchange::keep_alive() const { return request_.keep_alive && !context_->draining.load(); }

std::string Exchange::head(int status, std::string_view content_type) const {
  std::string out =
      fmt::format("HTTP/1.1 {0} {1}\r\nDate: {3:%a, %d %b %Y %H:%M:%S} GMT\r\nX-Request-Id: {2}\r\nrequest-id: {2}\r\n",
                  status, reason(status), request_.id, fmt::gmtime(std::time(nullptr)));
  if (!content_type.empty()) out += fmt::format("Content-Type: {}\r\n", content_type);
  if (!prefix_.empty()) out += fmt::format("X-Kvasir-Prefix: {}\r\n", prefix_);
  const std::string_view origin = request_.header("origin");
  if (!origin.empty() && listed(origin, context_->options))
    out += fmt::format(
        "Access-Control-Allow-Origin: {}\r\nAccess-Control-Expose-Headers: X-Request-Id, request-id, "
        "X-Kvasir-Prefix\r\n"
        "Vary: Origin\r\n",
        origin);
  return out;
}

void Exchange::send(std::string bytes) {
  sent_ += bytes.size();
  if (const auto wire = wire_.lock()) wire->send(std::move(bytes));
}

void Exchange::reply(Response response) {
  post([self = shared_from_this(), r = std::move(response)]() mutable {
    if (self->state_ != State::kWaiting) return;
    if (r.error) r.body = dump(error_shape(self->request_.path)(*r.error));
    const bool keep = self->keep_alive() && !r.close;
    std::string out = self->head(r.status, r.body.empty() ? std::string_view{} : std::string_view(r.content_type));
    for (const auto& [name, value] : r.headers) out += fmt::format("{}: {}\r\n", name, value);
    if (r.status != 204) out += fmt::format("Content-Length: {}\r\n", r.body.size());
    out += keep ? (self->request_.http10 ? "Connection: keep-alive\r\n\r\n" : "\r\n") : "Connection: close\r\n\r\n";
    if (self->request_.method != "HEAD") out += r.body;
    self->send(std::move(out));
    self->finish(r.status, keep);
  });
}

void Exchange::name_prefix(std::string name) {
  post([self = shared_from_this(), n = std::move(name)]() mutable { self->prefix_ = std::move(n); });
}

void Exchange::begin_stream(std::string_view content_type) {
  if (state_ != State::kWaiting) return;
  state_ = State::kStreaming;
  std::string out = head(200, content_type);
  // No buffering on the way: the header is nginx's.
  out += "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n";
  if (!request_.http10) out += "Transfer-Encoding: chunked\r\n";
  out += keep_alive() && !request_.http10 ? "\r\n" : "Connection: close\r\n\r\n";
  send(std::move(out));
}

void Exchange::write(std::string_view bytes) {
  if (state_ != State::kStreaming || bytes.empty()) return;
  send(request_.http10 ? std::string(bytes) : fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes));
}

void Exchange::end_stream() {
  if (state_ != State::kStreaming) return;
  if (!request_.http10) send("0\r\n\r\n");
  finish(200, keep_alive() && !request_.http10);
}

void Exchange::abort() {
  if (!open()) return;
  if (const auto wire = wire_.lock()) wire->abort();  // comes back as client_gone
}

void Exchange::on_close(std::function<void()> task) {
  if (state_ == State::kGone) {
    task();
  } else if (open()) {
    on_close_ = std::move(task);
  }
}

void Exchange::arm(double seconds, std::function<void()> on_expiry) {
  if (const auto wire = wire_.lock(); wire && open()) wire->arm(seconds, std::move(on_expiry));
}

void Exchange::client_gone() {
  if (!open()) return;
  const auto task = std::move(on_close_);
  finish(kClientGone, false);
  if (task) task();
}

void Exchange::finish(int status, bool keep) {
  state_ = status == kClientGone ? State::kGone : State::kDone;
  on_close_ = nullptr;
  context_->metrics.count_request(route_, status);
  context_->log(fmt::format("id={} peer={} tenant={} method={} path={} status={} bytes={} seconds={:.6f}{}{}",
                            request_.id, request_.peer, log_value(request_.tenant), log_value(request_.method),
                            log_value(request_.path), status, sent_, steady_seconds() - start_,
                            note_.empty() ? "" : " ", note_));
  if (const auto wire = wire_.lock()) {
    wire->arm(0, nullptr);
    if (state_ == State::kDone) wire->done(keep);
  }
}

}  // namespace kvasir::serve
