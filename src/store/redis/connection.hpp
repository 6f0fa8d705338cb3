// One connection to one server: commands go out and replies come in as the socket allows, for many connections at once.
#pragma once

#include <hiredis/hiredis.h>

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/redis/config.hpp"

namespace kvasir::store::redis {

using Reply = std::shared_ptr<redisReply>;
inline std::string_view text_of(const redisReply& r) { return r.str ? std::string_view(r.str, r.len) : ""; }
inline bool is_error(const Reply& r) { return r && r->type == REDIS_REPLY_ERROR; }

// A command as it goes over the wire. The last argument may stand apart, so that records are not copied.
struct Command {
  std::string head;
  std::span<const std::byte> body;  // valid until the exchange is over
};
Command command(std::initializer_list<std::string_view> arguments);
Command command_with_body(std::initializer_list<std::string_view> arguments, std::span<const std::byte> body);

class Connection {
 public:
  Connection(Address address, const Config& config) : address_(std::move(address)), config_(config) {}
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const Address& address() const { return address_; }

  // Sends the commands, connecting if need be. Each gets its reply, or null when there is none. `commands` and
  // `replies` stay where they are until the exchange is over.
  void start(std::span<const Command> commands, std::span<Reply> replies);
  bool busy() const { return done_ < total_ || !out_.empty(); }
  int descriptor() const;
  short events() const;  // what to poll for
  void step(short ready);
  // Gives up what has not come: the connection is closed, and the server not asked again for a while.
  void fail(const std::string& why);
  const std::string& error() const { return error_; }  // of the last exchange; empty: none

 private:
  void connect();
  bool hung_up() const;
  void append(const Command& c);
  void send_some();
  void receive_some();
  void take_reply(Reply reply);
  void close();

  const Address address_;
  const Config& config_;
  redisContext* context_ = nullptr;
  bool connected_ = false;
  std::vector<Command> login_;
  std::size_t login_left_ = 0;  // replies that belong to the login
  std::span<Reply> replies_;
  std::size_t done_ = 0;
  std::size_t total_ = 0;
  std::deque<std::span<const std::byte>> out_;  // what is to be sent yet
  std::vector<char> buffer_;
  std::string error_;
  std::string last_failure_;
  std::chrono::nanoseconds back_off_{0};
  Clock::time_point retry_at_{};
  Clock::time_point connect_until_{};
};

// Steps all of them until none is busy or the deadline has come; then those still busy fail.
void converse(std::span<Connection* const> connections, Deadline deadline);

}  // namespace kvasir::store::redis
