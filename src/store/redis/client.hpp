// A client of one Redis server or of a cluster. It finds the server of a key and follows redirections.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "store/redis/connection.hpp"
#include "store/redis/slot.hpp"

namespace kvasir::store::redis {

struct Request {
  Command command;
  int slot = -1;  // of its key
  Reply reply;    // null: there is none, `error` says why
  std::string error;

 private:
  friend class Client;
  std::optional<Address> sent_to;
  std::optional<Address> redirected;
  bool ask = false;  // the redirection holds for this once
  bool open = true;
};

// Used by one thread at a time.
class Client {
 public:
  explicit Client(const Config& config) : config_(config) {}

  // Sends every request to the server that has its slot, and fills in its reply or its error. An error reply of a
  // server is an error. The status is not ok if any request has an error.
  Status run(std::span<Request> requests, Deadline deadline);
  // Sends the same commands to every master. replies[i] are those of master i.
  Status run_everywhere(std::span<const Command> commands, Deadline deadline, std::vector<std::vector<Reply>>* replies);
  // Sends commands to master number `master` of run_everywhere.
  Status run_at(std::size_t master, std::span<const Command> commands, Deadline deadline, std::vector<Reply>* replies);

 private:
  Status learn(Deadline deadline);
  bool read_slots(const redisReply& reply, const Address& from);
  std::vector<Address> masters() const;
  Address owner(const Request& request) const;
  Connection& connection(const Address& address);
  void round(std::span<Request> requests, Deadline deadline);
  void settle(Request* request, Reply reply, const std::string& why);
  bool redirect(Request* request, std::string_view error);

  const Config& config_;
  bool known_ = false;
  bool cluster_ = false;
  bool stale_ = false;  // a server failed or has moved slots: ask again who has what
  Clock::time_point learn_at_{};
  std::vector<Address> owners_;  // by slot, in a cluster
  Address single_;
  std::map<Address, std::unique_ptr<Connection>> connections_;
};

}  // namespace kvasir::store::redis
