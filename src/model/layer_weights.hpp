// The packed weights of a model's layers, for a pass: which of them are in memory is decided when the model is loaded
// (model/residency.hpp), and the others are read while the layers before them are computed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/bundles.hpp"
#include "model/residency.hpp"
#include "tensor/buffer.hpp"
#include "weights/expert_cache.hpp"
#include "weights/stream.hpp"

namespace kvasir::model {

class LayerWeights {
 public:
  using OpenReads = std::function<std::unique_ptr<weights::Reads>()>;
  // Everything is bound for good.
  LayerWeights() = default;
  // Bundles of a layer whose place is kStreamed come from the file, in the order of the bundles.
  // first_blocks: of every bundle, its first block in the file.
  LayerWeights(std::unique_ptr<weights::PackedFile> file, std::vector<Bundle> bundles, const Residency& residency,
               const std::vector<int>& first_blocks, const OpenReads& open);

  // Whether passes have to say what they use. Then there is one pass at a time.
  bool streams() const { return stream_ || experts_; }
  // The matrices of this part of the layer are bound from here to leave(). Waits for them. Throws Error(kIo) naming the
  // file when the disk does not give them; the pass is over then. REQUIRES: one thread.
  void enter(int layer, BundleKind part);
  void leave(int layer);  // both parts
  void leave_all();       // of whatever layer
  // Whether the part is bound now.
  bool bound(int layer, BundleKind part) const;
  // Of a layer whose experts are not all in memory; else null.
  cpu::ExpertSource* experts(int layer) const;

  weights::StreamStats stats() const;  // with experts: the pass's thread
  const std::string& reads_name() const { return reads_name_; }
  std::int64_t buffer_bytes() const { return (stream_ ? stream_->room() : 0) + (experts_ ? experts_->bytes() : 0); }
  const std::string& path() const;

 private:
  struct Streamed {
    int bundle;
    bool held = false;
  };
  int streamed(int layer, BundleKind part) const;

  std::unique_ptr<weights::PackedFile> file_;
  std::string reads_name_;
  std::vector<Bundle> bundles_;
  std::vector<Streamed> order_;
  std::vector<int> mixers_, feeds_;  // of every layer, its place in `order_`; -1: in memory
  std::unique_ptr<weights::Stream> stream_;
  std::vector<int> cached_;  // of every layer, which of the cache's layers it is; -1: none
  std::unique_ptr<weights::ExpertCache> experts_;
};

}  // namespace kvasir::model
