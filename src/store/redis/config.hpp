// How to reach a Redis server or cluster.
#pragma once

#include <chrono>
#include <compare>
#include <string>
#include <vector>

#include "store/backend.hpp"

namespace kvasir::store::redis {

struct Address {
  std::string host;
  int port = 0;
  auto operator<=>(const Address&) const = default;
  std::string shown() const { return host + ":" + std::to_string(port); }
};

struct Config {
  std::vector<Address> seeds;
  std::string user;
  std::string password;
  int database = 0;
  std::string prefix = "kvasir";
  std::chrono::nanoseconds ttl{};  // 0: records stay until the server drops them
  std::chrono::nanoseconds connect = std::chrono::seconds(1);
  // After a failure nobody is asked for this long, then twice as long each time.
  std::chrono::nanoseconds back_off = std::chrono::milliseconds(100);
  std::chrono::nanoseconds back_off_max = std::chrono::seconds(10);
};

}  // namespace kvasir::store::redis
