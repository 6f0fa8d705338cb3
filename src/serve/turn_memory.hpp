// The tokens of answers that this server generated, by where they began.
//
// A model need not write the tokens that its text would be encoded to: sampling, the end of max_tokens and bytes of
// characters all part from that. What its tokens left in the cache is found by tokens, so the text alone finds it no
// more when the next turn brings it back. Hence they are kept: 4 bytes a token.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
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

// Thread-safe. What is used longest ago goes first when the budget is full.
class TurnMemory {
 public:
  struct Answer {
    std::vector<std::int32_t> ids;
    std::int32_t last;  // id in front of them
  };
  using AnswerPtr = std::shared_ptr<const Answer>;

  explicit TurnMemory(std::int64_t budget);  // bytes; 0: off

  bool on() const { return budget_ > 0; }
  const store::Key& secret() const { return secret_; }

  // Several answers may begin at one place; the same one again counts as used.
  void remember(std::string_view tenant, const TurnPlace& place, std::vector<std::int32_t> ids);

  // How the prompts ended whose answers are remembered (TurnPlace::end): only there a place can be. A chat template
  // has few such ends; of each tenant the newest kEnds are kept.
  std::vector<std::uint64_t> ends(std::string_view tenant) const;

  std::vector<AnswerPtr> find(const store::Key& key) const;
  void use(const store::Key& key, const AnswerPtr& answer);  // found at `key`; it may be gone

  std::int64_t bytes() const;
  std::int64_t answers() const;

  static constexpr std::size_t kEnds = 16;
  static constexpr std::size_t kMostAtOnePlace = 128;  // the oldest go
  static constexpr std::int64_t kAnswerBytes = 256;  // of an answer besides its ids: three allocations and their heads

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

  const std::int64_t budget_;
  const store::Key secret_;

  mutable std::mutex mutex_;
  Items items_;  // the latest used first
  std::unordered_map<store::Key, std::vector<Items::iterator>> places_;
  std::unordered_map<std::string, Ends> ends_;  // tenants are those of the key file
  std::int64_t bytes_ = 0;
};

}  // namespace kvasir::serve
