// What a cache has of its selector. As it is here it chooses nothing: everything is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "kv/fold.hpp"
#include "kv/plan.hpp"
#include "kv/step.hpp"

namespace kvasir::kv {

class Selection {
 public:
  // layers: that are asked about.
  explicit Selection(std::size_t layers) : none_{} { none_.layers.resize(layers), none_.prompts.resize(layers); }
  virtual ~Selection() = default;
  Selection(const Selection&) = delete;
  Selection& operator=(const Selection&) = delete;

  virtual std::size_t scratch_bytes() const { return 0; }
  virtual double seconds() const { return 0; }  // spent on choosing

  // Pages. Summaries of a page that is sealed in one layer, head and side, whose raw form is `raw`. q: with
  // wants_queries, queries of the token whose coming seals the page, (group, head_dim), scaled. scratch: of the thread.
  virtual bool wants_queries() const { return false; }
  virtual void on_seal(int /*layer*/, int /*head*/, Side /*side*/, const Sequence& /*s*/, std::int64_t /*page*/,
                       const Blocks& /*raw*/, const float* /*q*/, float* /*scratch*/) const {}
  // A page whose summaries came from elsewhere.
  virtual void on_restore(const Sequence& /*s*/, std::int64_t /*page*/) {}

  // Sequences. A new one; another selector, or none of its tokens are left; queries from position n on are gone; `to`
  // has become what `from` is.
  virtual void reset(const Sequence& /*s*/) {}
  virtual void forget(const Sequence& /*s*/) {}
  virtual void cut(const Sequence& /*s*/, std::int64_t /*n*/) {}
  virtual void copy(const Sequence& /*from*/, const Sequence& /*to*/) {}

  // A step.
  virtual void begin_step(const Sequence& /*s*/) {}
  // Before the first stage of a layer: what the newest tokens of prompts ask.
  virtual void remember(std::span<const Slice> /*slices*/, const Tensors& /*x*/) const {}
  // Chooses for all parts of a stage that ask, and counts what all of them read.
  virtual void run(const LayerStep& /*step*/, Plan& /*plan*/) {}
  // That a head of a part reads of the sealed pages. REQUIRES: Part::chosen
  virtual std::span<const PageRun> runs(const Part& /*part*/, int /*head*/) const { return {}; }
  // Merges an estimate of what such a head does not read into room.total, where the selector has one.
  virtual void add_unread(const LayerStep& /*step*/, const Part& /*part*/, int /*head*/, int /*rows*/,
                          const FoldScratch& /*room*/) const {}

  // Of a sequence's last step: sealed bytes and summaries that were read for a choice, and the position from which on
  // pages were left out; kAllExact: none were.
  virtual std::size_t bytes_read(const Sequence& /*s*/) const { return 0; }
  virtual std::int64_t left_out_from(const Sequence& /*s*/) const { return kAllExact; }
  // Since the sequence was made.
  virtual const SelectionStats& stats(const Sequence& /*s*/) const { return none_; }

 private:
  SelectionStats none_;
};

}  // namespace kvasir::kv
