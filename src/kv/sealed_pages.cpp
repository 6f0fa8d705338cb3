#include "kv/sealed_pages.hpp"

#include <utility>

namespace kvasir::kv {

SealedPages::SealedPages(const Layout& layout, const PagePool& pool, const std::string& disk)
    : layout_(layout), pool_(pool) {
  if (layout.disk_memory > 0) {
    hot_ = std::make_unique<HotPages>(layout, make_page_file(disk, layout.memory.disk_bytes));
    staging_ = tensor::Buffer(tensor::Tag::kCache, layout.page_bytes + kReadSlack);
  } else {
    memory_ = tensor::Buffer(tensor::Tag::kCache,
                             static_cast<std::size_t>(layout.memory.pages) * layout.page_bytes + kReadSlack);
  }
}

void SealedPages::attach(std::shared_ptr<PageDevice> device, std::vector<DeviceLayer> layers) {
  if (device_) device_->close();
  device_.reset();
  layers_.clear();
  if (!device) return;
  for (const DeviceLayer& l : layers) layers_.push_back(l.layer);
  device->open({pool_.total(), std::move(layers), this});
  device_ = std::move(device);
}

bool SealedPages::folds(int layer) const {
  return device_ && std::binary_search(layers_.begin(), layers_.end(), layer);
}

std::span<const std::span<const std::byte>> SealedPages::fetch(std::int32_t slot) {
  load(slot);
  pieces_.clear();
  for (const int i : layers_) {
    const LayerLayout& l = layout_.layers[static_cast<std::size_t>(i)];
    for (int head = 0; head < l.shape.kv_heads; ++head) {
      const Blocks b = whole(l, head, slot);
      pieces_.emplace_back(b.k, l.sealed.k_bytes);
      if (l.sealed.v_bytes > 0) pieces_.emplace_back(b.v, l.sealed.v_bytes);
    }
  }
  return pieces_;
}

}  // namespace kvasir::kv
