#include "store/redis/connection.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace kvasir::store::redis {
namespace {

constexpr std::size_t kReceive = 1 << 18;
constexpr std::string_view kEnd = "\r\n";

void begin(Command* c, std::size_t arguments) { c->head = "*" + std::to_string(arguments) + "\r\n"; }

void add(Command* c, std::string_view argument) {
  c->head += "$" + std::to_string(argument.size()) + "\r\n";
  c->head += argument;
  c->head += kEnd;
}

}  // namespace

Command command(std::initializer_list<std::string_view> arguments) {
  Command c;
  begin(&c, arguments.size());
  for (const auto a : arguments) add(&c, a);
  return c;
}

Command command_with_body(std::initializer_list<std::string_view> arguments, std::span<const std::byte> body) {
  Command c;
  begin(&c, arguments.size() + 1);
  for (const auto a : arguments) add(&c, a);
  c.head += "$" + std::to_string(body.size()) + "\r\n";
  c.body = body;
  return c;
}

Connection::~Connection() { close(); }

void Connection::close() {
  if (context_) ::redisFree(context_);
  context_ = nullptr;
  connected_ = false;
  login_left_ = 0;
  out_.clear();
}

void Connection::start(std::span<const Command> commands, std::span<Reply> replies) {
  replies_ = replies;
  done_ = 0;
  total_ = commands.size();
  error_.clear();
  if (total_ == 0) return;
  if (context_ && hung_up()) close();
  if (!context_) {
    if (Clock::now() < retry_at_) {
      error_ = last_failure_ + " (not asked again yet)";
      done_ = total_;
      return;
    }
    connect();
    if (!context_) return;
  }
  for (const Command& c : commands) append(c);
}

// A server that was restarted, or does not keep idle connections, is no failure.
bool Connection::hung_up() const {
  char byte;
  return ::recv(context_->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

void Connection::append(const Command& c) {
  out_.push_back(std::as_bytes(std::span(c.head)));
  if (c.body.data() == nullptr) return;
  out_.push_back(c.body);
  out_.push_back(std::as_bytes(std::span(kEnd)));
}

void Connection::connect() {
  context_ = ::redisConnectNonBlock(address_.host.c_str(), address_.port);
  if (!context_ || context_->err != 0) {
    fail(context_ ? context_->errstr : "out of memory");
    return;
  }
  connect_until_ = within(config_.connect);
  login_.clear();
  if (!config_.password.empty() && !config_.user.empty())
    login_.push_back(command({"AUTH", config_.user, config_.password}));
  else if (!config_.password.empty())
    login_.push_back(command({"AUTH", config_.password}));
  if (config_.database != 0) login_.push_back(command({"SELECT", std::to_string(config_.database)}));
  login_left_ = login_.size();
  for (const Command& c : login_) append(c);
}

void Connection::fail(const std::string& why) {
  error_ = last_failure_ = address_.shown() + ": " + why;
  close();
  done_ = total_;
  back_off_ = back_off_.count() == 0 ? config_.back_off : std::min(2 * back_off_, config_.back_off_max);
  retry_at_ = within(std::chrono::duration_cast<Clock::duration>(back_off_));
}

int Connection::descriptor() const { return context_ ? context_->fd : -1; }

short Connection::events() const {
  if (!connected_) return POLLOUT;
  return static_cast<short>(POLLIN | (out_.empty() ? 0 : POLLOUT));
}

void Connection::step(short ready) {
  if (!connected_) {
    if (ready == 0) {
      if (Clock::now() >= connect_until_) fail("no answer to the attempt to connect");
      return;
    }
    int code = 0;
    socklen_t size = sizeof code;
    if (::getsockopt(context_->fd, SOL_SOCKET, SO_ERROR, &code, &size) != 0) code = errno;
    if (code != 0) {
      fail(std::strerror(code));
      return;
    }
    connected_ = true;
  }
  if (context_ && (ready & POLLOUT) != 0) send_some();
  if (context_ && (ready & (POLLIN | POLLERR | POLLHUP)) != 0) receive_some();
}

void Connection::send_some() {
  while (!out_.empty()) {
    iovec parts[64];
    const std::size_t n = std::min(out_.size(), std::size(parts));
    for (std::size_t i = 0; i < n; ++i) parts[i] = {const_cast<std::byte*>(out_[i].data()), out_[i].size()};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = n;
    ssize_t sent = ::sendmsg(context_->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) fail(std::strerror(errno));
      return;
    }
    for (auto left = static_cast<std::size_t>(sent);;) {
      if (out_.empty()) break;
      auto& first = out_.front();
      const std::size_t some = std::min(left, first.size());
      first = first.subspan(some);
      left -= some;
      if (!first.empty()) break;
      out_.pop_front();
    }
  }
}

void Connection::receive_some() {
  if (buffer_.empty()) buffer_.resize(kReceive);
  const ssize_t n = ::recv(context_->fd, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
  if (n <= 0) {
    fail(n == 0 ? "the server closed the connection" : std::strerror(errno));
    return;
  }
  if (::redisReaderFeed(context_->reader, buffer_.data(), static_cast<std::size_t>(n)) != REDIS_OK) {
    fail(context_->reader->errstr);
    return;
  }
  while (context_) {
    void* raw = nullptr;
    if (::redisReaderGetReply(context_->reader, &raw) != REDIS_OK) {
      fail(context_->reader->errstr);
      return;
    }
    if (!raw) return;
    take_reply(Reply(static_cast<redisReply*>(raw), ::freeReplyObject));
  }
}

void Connection::take_reply(Reply reply) {
  if (login_left_ > 0) {
    --login_left_;
    if (is_error(reply)) fail("login: " + std::string(text_of(*reply)));
    return;
  }
  if (done_ >= total_) {
    fail("a reply that nobody asked for");
    return;
  }
  replies_[done_++] = std::move(reply);
  back_off_ = std::chrono::nanoseconds(0);
}

void converse(std::span<Connection* const> connections, Deadline deadline) {
  std::vector<pollfd> polls;
  std::vector<Connection*> busy;
  for (;;) {
    polls.clear();
    busy.clear();
    for (Connection* c : connections) {
      if (!c->busy()) continue;
      busy.push_back(c);
      polls.push_back({c->descriptor(), c->events(), 0});
    }
    if (busy.empty()) return;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) break;
    // Wakes at least this often to see whether an attempt to connect has lasted too long.
    const int n = ::poll(polls.data(), polls.size(), static_cast<int>(std::min<std::int64_t>(left, 20)));
    if (n < 0 && errno != EINTR) break;
    for (std::size_t i = 0; i < busy.size(); ++i) busy[i]->step(n < 0 ? short{0} : polls[i].revents);
  }
  for (Connection* c : busy)
    if (c->busy()) c->fail("no answer in time");
}

}  // namespace kvasir::store::redis
