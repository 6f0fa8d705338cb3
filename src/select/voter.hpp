// How blocks get votes: the kinds of selectors. An entry of selectors/ is of one kind; a new kind is a class and its
// line in Voters::of.
#pragma once

#include "select/meter.hpp"
#include "select/unread.hpp"

namespace kvasir::select {

class Voter {
 public:
  virtual ~Voter() = default;
  // Votes of blocks [initial, local) of a part's cut in one head; others are not written.
  virtual void vote(const kv::LayerStep& step, const kv::Part& part, int head, int worker, float* votes) const = 0;
  // Bytes that this reads in all heads of a layer, of a part that chooses. `owner` has the keys.
  virtual std::size_t bytes_read(const kv::LayerLayout& owner, const kv::Part& part) const = 0;
};

// No block has a vote: of equals the latest are chosen.
class NoVotes final : public Voter {
 public:
  void vote(const kv::LayerStep& step, const kv::Part& part, int head, int worker, float* votes) const override;
  std::size_t bytes_read(const kv::LayerLayout&, const kv::Part&) const override { return 0; }
};

// By the attention mass itself: all keys are read.
class KeyVotes final : public Voter {
 public:
  KeyVotes(const Meter& meter, const SelectScratch& scratch) : meter_(meter), scratch_(scratch) {}
  void vote(const kv::LayerStep& step, const kv::Part& part, int head, int worker, float* votes) const override;
  std::size_t bytes_read(const kv::LayerLayout& owner, const kv::Part& part) const override;

 private:
  const Meter& meter_;
  const SelectScratch& scratch_;
};

// By the scores of representatives. Where many blocks may be left out, outlines are scored first and representatives of
// the best blocks alone.
class RepresentativeVotes final : public Voter {
 public:
  RepresentativeVotes(const kv::Arena& arena, const SelectMemory& memory, const SelectScratch& scratch,
                      const Unread& unread)
      : arena_(arena), memory_(memory), scratch_(scratch), unread_(unread) {}
  void vote(const kv::LayerStep& step, const kv::Part& part, int head, int worker, float* votes) const override;
  std::size_t bytes_read(const kv::LayerLayout& owner, const kv::Part& part) const override;

 private:
  void score(const kv::LayerStep& step, const kv::Part& part, int head, const Question& question, int rows) const;
  void score_outlines(const kv::LayerStep& step, const kv::Part& part, int head, const Question& question,
                      int rows) const;
  void score_again(const kv::LayerStep& step, const kv::Part& part, int head, const Question& question, int rows,
                   float* votes) const;

  const kv::Arena& arena_;
  const SelectMemory& memory_;
  const SelectScratch& scratch_;
  const Unread& unread_;
};

class Voters {
 public:
  Voters(const kv::Arena& arena, const SelectMemory& memory, const SelectScratch& scratch, const Meter& meter,
         const Unread& unread)
      : keys_(meter, scratch), representatives_(arena, memory, scratch, unread) {}
  const Voter& of(const Selector& selector) const {
    if (selector.exact) return keys_;
    if (selector.width) return representatives_;
    return none_;
  }

 private:
  NoVotes none_;
  KeyVotes keys_;
  RepresentativeVotes representatives_;
};

}  // namespace kvasir::select
