// One request and the way its answer goes: what routes write to, without a network library.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/function_ref.hpp"
#include "serve/context.hpp"
#include "serve/http.hpp"

namespace kvasir::serve {

// A connection as an exchange uses it. Its strand is the order in which everything of one connection happens.
class Wire {
 public:
  virtual ~Wire() = default;
  virtual void post(std::function<void()> task) = 0;  // from any thread; runs on the strand
  virtual std::size_t backlog() const = 0;            // from any thread: bytes sent that the network has not taken

  // On the strand only.
  virtual void send(std::string bytes) = 0;
  virtual void done(bool keep_alive) = 0;                                 // the answer is complete
  virtual void arm(double seconds, std::function<void()> on_expiry) = 0;  // one timer; 0 disarms
  virtual void abort() = 0;                                               // close now, whatever was not sent
};

class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(std::shared_ptr<Context> context, std::weak_ptr<Wire> wire, HttpRequest request, std::string route);

  const HttpRequest& request() const { return request_; }
  const std::shared_ptr<Context>& context() const { return context_; }

  // From any thread. Runs `task` on the strand; false: never, the connection is gone.
  bool post(std::function<void()> task);
  std::size_t backlog() const;
  void reply(Response response);       // the whole answer; does nothing when there already is one
  void name_prefix(std::string name);  // for the header X-Kvasir-Prefix of what is answered from here on

  // The rest: on the strand only, and without effect once the exchange is not open().
  bool open() const { return state_ == State::kWaiting || state_ == State::kStreaming; }
  bool streaming() const { return state_ == State::kStreaming; }
  void begin_stream(std::string_view content_type);
  void write(std::string_view bytes);
  void end_stream();
  void abort();                               // the stream cannot be completed: closes the connection
  void on_close(std::function<void()> task);  // the client went away before the answer was complete
  void arm(double seconds, std::function<void()> on_expiry);
  // The model's, once it is known which (serve/roster.hpp): before the route runs.
  void adopt(std::shared_ptr<Context> context) { context_ = std::move(context); }
  void note(std::string fields) { note_ = std::move(fields); }  // for this request's line in the log

  void client_gone();  // by the connection

 private:
  enum class State { kWaiting, kStreaming, kDone, kGone };

  std::string head(int status, std::string_view content_type) const;
  bool keep_alive() const;
  void finish(int status, bool keep);
  void send(std::string bytes);

  std::shared_ptr<Context> context_;
  const std::weak_ptr<Wire> wire_;
  const HttpRequest request_;
  const std::string route_;  // its entry's name, for metrics
  const double start_;
  State state_ = State::kWaiting;
  std::function<void()> on_close_;
  std::string note_;
  std::string prefix_;
  std::size_t sent_ = 0;
};

// Answers with what `run` throws.
void guarded(const std::shared_ptr<Exchange>& exchange, FunctionRef<void()> run);

// "https://a.example" may call: it is listed, or * is, or it is where the request itself went (host).
bool origin_allowed(std::string_view origin, std::string_view host, const ServerOptions& options);

}  // namespace kvasir::serve
