#include "model/bundles.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "model/spec_fields.hpp"

namespace kvasir::model {
namespace {

template <class S>
void take(S& part, Bundle& bundle) {
  for_each<Linear>(part, [&](Linear& l) {
    if (!l.lent) bundle.linears.push_back(&l);
  });
}

}  // namespace

std::int64_t Bundle::part_bytes() const {
  std::int64_t bytes = 0;
  for (const Linear* l : linears) bytes += whole_lines(l->bound.bytes());
  for (const Stack* s : stacks)
    bytes += (kind == BundleKind::kExperts ? 1 : s->count) * whole_lines(s->bound.first.bytes());
  return bytes;
}

void Bundle::bind(const std::byte* base, std::int64_t stride) const {
  for (Linear* l : linears) {
    l->bound.panels = base;
    base += whole_lines(l->bound.bytes());
  }
  for (Stack* s : stacks) {
    const std::int64_t one = whole_lines(s->bound.first.bytes());
    s->bound.first.panels = base;
    s->bound.stride = kind == BundleKind::kExperts ? stride : one;
    s->bound.places = nullptr;
    base += kind == BundleKind::kExperts ? one : s->count * one;
  }
}

void Bundle::bind(const std::byte* const* places) const {
  KVASIR_CHECK(kind == BundleKind::kExperts && linears.empty());
  std::int64_t offset = 0;
  for (Stack* s : stacks) {
    s->bound.first.panels = nullptr;
    s->bound.places = places;
    s->bound.offset = offset;
    offset += whole_lines(s->bound.first.bytes());
  }
}

std::vector<Bundle> bundles_of(ModelSpec& spec) {
  std::vector<Bundle> bundles;
  const auto keep = [&](Bundle& b) {
    if (b.linears.empty() && b.stacks.empty()) return;
    const int of = b.layer < 0 ? -1 : spec.layers[static_cast<std::size_t>(b.layer)].weights_of;
    if (of >= 0) {
      const auto first = std::find_if(bundles.begin(), bundles.end(),
                                      [&](const Bundle& other) { return other.layer == of && other.kind == b.kind; });
      KVASIR_CHECK(of < b.layer && first != bundles.end() && first->same_as < 0);
      b.same_as = static_cast<int>(first - bundles.begin());
    }
    bundles.push_back(std::move(b));
  };
  for (int l = 0; l < spec.layer_count(); ++l) {
    LayerSpec& layer = spec.layers[static_cast<std::size_t>(l)];
    Bundle mixer{l, BundleKind::kMixer}, feed{l, BundleKind::kFeed}, experts{l, BundleKind::kExperts};
    take(layer.mixer, mixer);
    take(layer.beside, mixer);
    for_each<Stack>(layer.mixer, [&](Stack& s) { mixer.stacks.push_back(&s); });
    take(layer.residuals, mixer);
    take(layer.mixer_smoothing, mixer);
    take(layer.ngrams, mixer);
    take(layer.mixer_streams, mixer);
    take(layer.feed, feed);
    take(layer.feed_smoothing, feed);
    take(layer.feed_streams, feed);
    take(layer.input, feed);
    for_each<Stack>(layer.feed, [&](Stack& s) { experts.stacks.push_back(&s); });
    for_each<Experts>(layer.feed, [&](const Experts& e) { experts.used = e.routing.used; });
    keep(mixer);
    keep(feed);
    keep(experts);
  }
  Bundle other;
  take(spec.embedding, other);
  take(spec.head, other);
  take(spec.rank, other);
  take(spec.projections, other);
  keep(other);
  return bundles;
}

}  // namespace kvasir::model
