#include "model/layer_weights.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"

namespace kvasir::model {

LayerWeights::LayerWeights(std::unique_ptr<weights::PackedFile> file, std::vector<Bundle> bundles,
                           const Residency& residency, const std::vector<int>& first_blocks, const OpenReads& open)
    : file_(std::move(file)), bundles_(std::move(bundles)) {
  std::vector<int> blocks;
  std::vector<weights::ExpertCache::Layer> cached;
  std::vector<std::size_t> cached_bundles, passes;  // the latter: further ones of layers that are cached
  for (std::size_t i = 0; i < bundles_.size(); ++i) {
    const Bundle& b = bundles_[i];
    if (residency.places[i] == Place::kCached && b.same_as >= 0) {
      cached_.resize(static_cast<std::size_t>(b.layer) + 1, -1);
      cached_.back() = cached_[static_cast<std::size_t>(bundles_[static_cast<std::size_t>(b.same_as)].layer)];
      passes.push_back(i);
    } else if (residency.places[i] == Place::kCached) {
      cached_.resize(static_cast<std::size_t>(b.layer) + 1, -1);
      cached_.back() = static_cast<int>(cached.size());
      cached.push_back({first_blocks[i], static_cast<int>(b.count())});
      cached_bundles.push_back(i);
    }
    if (residency.places[i] != Place::kStreamed) continue;
    KVASIR_CHECK(b.layer >= 0 && (b.kind == BundleKind::kMixer || b.kind == BundleKind::kFeed));
    auto& of = b.kind == BundleKind::kMixer ? mixers_ : feeds_;
    of.resize(std::max(of.size(), static_cast<std::size_t>(b.layer) + 1), -1);
    of[static_cast<std::size_t>(b.layer)] = static_cast<int>(order_.size());
    order_.push_back({static_cast<int>(i)});
    blocks.push_back(first_blocks[i]);
  }
  const auto reads = [&] {
    auto opened = open();
    reads_name_ = opened->name();
    return opened;
  };
  if (!blocks.empty())
    stream_ = std::make_unique<weights::Stream>(*file_, std::move(blocks), residency.ring_bytes, reads());
  if (cached.empty()) return;
  experts_ = std::make_unique<weights::ExpertCache>(*file_, cached, residency.expert_places, reads());
  for (std::size_t i = 0; i < cached.size(); ++i)
    bundles_[cached_bundles[i]].bind(experts_->places(static_cast<int>(i)));
  for (const std::size_t i : passes)
    bundles_[i].bind(experts_->places(cached_[static_cast<std::size_t>(bundles_[i].layer)]));
}

int LayerWeights::streamed(int layer, BundleKind part) const {
  const auto& of = part == BundleKind::kMixer ? mixers_ : feeds_;
  return static_cast<std::size_t>(layer) < of.size() ? of[static_cast<std::size_t>(layer)] : -1;
}

bool LayerWeights::bound(int layer, BundleKind part) const {
  const int i = streamed(layer, part);
  return i < 0 || order_[static_cast<std::size_t>(i)].held;
}

void LayerWeights::enter(int layer, BundleKind part) {
  const int i = streamed(layer, part);
  if (i < 0) return;
  Streamed& s = order_[static_cast<std::size_t>(i)];
  KVASIR_CHECK(!s.held);
  bundles_[static_cast<std::size_t>(s.bundle)].bind(stream_->acquire(i), 0);
  s.held = true;
}

void LayerWeights::leave(int layer) {
  for (const BundleKind part : {BundleKind::kMixer, BundleKind::kFeed}) {
    const int i = streamed(layer, part);
    if (i < 0 || !order_[static_cast<std::size_t>(i)].held) continue;
    stream_->release(i);
    order_[static_cast<std::size_t>(i)].held = false;
  }
}

void LayerWeights::leave_all() {
  for (std::size_t i = 0; i < order_.size(); ++i) {
    if (!order_[i].held) continue;
    stream_->release(static_cast<int>(i));
    order_[i].held = false;
  }
}

cpu::ExpertSource* LayerWeights::experts(int layer) const {
  const int i = static_cast<std::size_t>(layer) < cached_.size() ? cached_[static_cast<std::size_t>(layer)] : -1;
  return i < 0 ? nullptr : &experts_->layer(i);
}

weights::StreamStats LayerWeights::stats() const {
  weights::StreamStats f = stream_ ? stream_->stats() : weights::StreamStats{};
  if (experts_) f += experts_->stats();
  return f;
}

const std::string& LayerWeights::path() const {
  static const std::string none;
  return file_ ? file_->path() : none;
}

}  // namespace kvasir::model
