// What the Responses API stores: answers by their ids, and the conversations that lead to them.
#pragma once

#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "serve/http.hpp"

namespace kvasir::serve {

// Thread-safe. Kept in this process only; what was used longest ago goes first when the budget is full.
class ResponseMemory {
 public:
  struct Stored {
    std::string messages;  // JSON text: the conversation in the internal form, with the answer
    std::string response;  // JSON text: as it was answered
    std::string input;     // JSON text: the items that the request had
  };

  explicit ResponseMemory(std::int64_t budget) : budget_(budget) {}  // bytes; 0: nothing is kept

  // Whether it is kept: not what is larger than the whole memory.
  bool put(const std::string& tenant, const std::string& id, Stored stored);
  bool on() const { return budget_ > 0; }
  // Nothing for ids that are unknown, gone or another tenant's.
  std::optional<Stored> find(const std::string& tenant, const std::string& id);
  bool erase(const std::string& tenant, const std::string& id);
  std::int64_t bytes() const;

 private:
  struct Item {
    std::string key;
    Stored stored;
    std::int64_t size() const;
  };
  static std::string key_of(const std::string& tenant, const std::string& id) { return tenant + '\n' + id; }
  void drop(std::list<Item>::iterator item);

  const std::int64_t budget_;
  mutable std::mutex mutex_;
  std::list<Item> items_;  // the latest used first
  std::unordered_map<std::string, std::list<Item>::iterator> places_;
  std::int64_t bytes_ = 0;
};

}  // namespace kvasir::serve
