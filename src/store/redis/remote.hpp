// Records on a Redis server or cluster: the backend of the tier `redis`. The record with key K is the Redis string
// PREFIX:K, with K in hexadecimal. A full server decides itself what it drops (maxmemory-policy allkeys-lfu suits). If
// it drops a parent, nothing reads the rest of the chain, until the server drops the rest too.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "store/backend.hpp"
#include "store/redis/client.hpp"
#include "store/redis/config.hpp"

namespace kvasir::store::redis {

class Remote : public Backend {
 public:
  explicit Remote(Config config) : config_(std::move(config)) {}

  Traits traits() const override { return {.immediate = false, .readers = 2, .looking_is_use = true}; }
  Status get(std::span<const Key> keys, Deadline deadline, std::span<Answer> answers) override;
  Status contains(std::span<const Key> keys, Deadline deadline, std::span<Outcome> outcomes) override;
  Status put(std::span<const Offer> offers, Deadline deadline, std::span<PutOutcome> outcomes) override;
  Status erase(std::span<const Key> keys, Deadline deadline) override;
  Status touch(std::span<const Key> keys, Deadline deadline) override;
  Status clear(Deadline deadline) override;
  Status list(FunctionRef<bool(const Listed&)> each, Deadline deadline) override;
  // Times of uses, unless the server's policy is one that keeps counts of them in place of times (LFU).
  Status list_ages(FunctionRef<bool(const Listed&)> each, Deadline deadline) override;
  // Bytes and budget are the server's (used_memory, maxmemory), records those of its database.
  Usage usage() override;
  Status sync(Deadline /*deadline*/) override { return {}; }  // what is acknowledged is out of this process

 private:
  // A client of its own for whoever works at the same time.
  class Lease;
  std::string name(const Key& key) const;
  std::vector<Request> requests(std::span<const Key> keys, std::string_view verb) const;
  Status scan(Client& client, FunctionRef<bool(const std::vector<std::string>&)> each, Deadline deadline);
  // Puts a question about every record, many at once. Its reply is null where the server keeps no times.
  Status ask_all(FunctionRef<Command(const std::string&)> question, Deadline deadline,
                 FunctionRef<bool(const Key&, const Request&)> each);

  const Config config_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Client>> idle_;
  Usage usage_;
  Clock::time_point usage_at_{};
};

}  // namespace kvasir::store::redis
