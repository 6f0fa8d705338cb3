// The tokens of the answers that this server generated, found by the place where an answer began.
//
// A model's tokens may differ from the tokens that its text is encoded to, because of sampling, of max_tokens, or of
// characters that are split into bytes. The cache is searched by tokens. So when the next turn brings an answer back as
// text, encoding the text could miss the answer's pages. Therefore the tokens are kept, 4 bytes each.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "store/key.hpp"

namespace kvasir::serve {

// Where an answer begins: the end of a prompt.
struct TurnPlace {
  store::Key key;          // of the tenant and of all that decides the prompt's ids (turns.cpp)
  std::uint64_t end = 0;   // the last 8 bytes of the prompt's text
  std::int32_t last = -1;  // its last id
};

// Thread-safe. When the budget is full, the least recently used answer goes first.
class TurnMemory {
 public:
  struct Answer {
    std::vector<std::int32_t> ids;
    std::int32_t last;         // id in front of them
    std::size_t plain;         // ids in front of the first control token
    std::string message = {};  // what clients were given (serve/given.hpp); empty: not known
    std::size_t index = 0;     // of that message in its conversation
    std::string shown = {};    // the text that the template makes of it; empty: not known
  };
  using AnswerPtr = std::shared_ptr<const Answer>;

  explicit TurnMemory(std::int64_t budget);  // bytes; 0: off

  bool on() const { return budget_ > 0; }
  const store::Key& secret() const { return secret_; }

  // Several answers may begin at one place; the same one again counts as used. `plain`: Answer's, or all.
  void remember(std::string_view tenant, const TurnPlace& place, std::vector<std::int32_t> ids,
                std::size_t plain = SIZE_MAX);
  // Says of the answer with these ids what became of it.
  void describe(const store::Key& key, std::span<const std::int32_t> ids, std::string message, std::size_t index);
  void show(const store::Key& key, const AnswerPtr& answer, std::string shown);  // it may be gone

  // TurnPlace::end of the prompts with remembered answers. An answer can begin only after one of these bytes. A chat
  // template has few such ends; the newest kEnds of each tenant are kept.
  std::vector<std::uint64_t> ends(std::string_view tenant) const;

  std::vector<AnswerPtr> find(const store::Key& key) const;
  void use(const store::Key& key, const AnswerPtr& answer);  // found at `key`; it may be gone

  std::int64_t bytes() const;
  std::int64_t answers() const;

  static constexpr std::size_t kEnds = 16;
  static constexpr std::size_t kMostAtOnePlace = 128;  // the oldest go
  static constexpr std::int64_t kAnswerBytes = 256;  // of an answer besides ids and texts: allocations and their heads

 private:
  struct Item {
    store::Key key;
    AnswerPtr answer;
  };
  using Items = std::list<Item>;
  struct Ends {
    std::array<std::uint64_t, kEnds> list{};
    std::size_t count = 0;  // ever: the newest stand at the highest count modulo kEnds
  };

  static std::int64_t bytes_of(const Answer& answer);
  void drop(Items::iterator item);
  void change(Items::iterator item, Answer answer);

  const std::int64_t budget_;
  const store::Key secret_;

  mutable std::mutex mutex_;
  Items items_;  // the latest used first
  std::unordered_map<store::Key, std::vector<Items::iterator>> places_;
  std::unordered_map<std::string, Ends> ends_;  // tenants are those of the key file
  std::int64_t bytes_ = 0;
};

}  // namespace kvasir::serve
