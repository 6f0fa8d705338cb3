#include "model/orders.hpp"

#include <algorithm>
#include <initializer_list>

#include "model/spec_fields.hpp"

namespace kvasir::model {

const std::vector<std::int32_t>* order_of(const Linear& l, const weights::ModelFile& file) {
  const weights::TensorInfo* t = l && !l.in_floats ? file.find(l.name) : nullptr;
  return t && t->ordered ? t->ordered->order.get() : nullptr;
}

int orders_at_once(const ModelSpec& spec, const weights::ModelFile& file) {
  int most = 0;
  const auto together = [&](std::initializer_list<const Linear*> readers) {
    std::vector<const std::vector<std::int32_t>*> orders;
    for (const Linear* l : readers) {
      const auto* const order = order_of(*l, file);
      if (order && std::none_of(orders.begin(), orders.end(), [&](const auto* o) { return *o == *order; }))
        orders.push_back(order);
    }
    most = std::max(most, static_cast<int>(orders.size()));
  };
  for_each<Linear>(spec, [&](const Linear& l) { together({&l}); });
  for_each<Attention>(spec, [&](const Attention& a) {
    together({&a.latent.down, &a.q, &a.k, &a.v, &a.gate, &a.indexer.q, &a.indexer.k, &a.indexer.weights});
  });
  for_each<ShortConv>(spec, [&](const ShortConv& c) { together({&c.b, &c.c, &c.u}); });
  for_each<Delta>(spec, [&](const Delta& d) { together({&d.qkv, &d.z, &d.beta, &d.alpha, &d.qkvz, &d.ba}); });
  for_each<KeyedDelta>(spec, [&](const KeyedDelta& d) {
    together({&d.q, &d.k, &d.v, &d.qkv, &d.beta, d.a_down ? &d.a_down : &d.a, d.z_down ? &d.z_down : &d.z});
  });
  for_each<Mamba>(spec, [&](const Mamba& m) { together({&m.z, &m.x}), together({&m.t, &m.k, &m.q}); });
  for_each<Mamba2>(spec, [&](const Mamba2& m) { together({&m.z, &m.x, &m.dt}); });
  for_each<Dense>(spec, [&](const Dense& d) { together({&d.gate, &d.up}); });
  for_each<Experts>(spec, [&](const Experts& e) {
    together({&e.router, &e.shared.gate, &e.shared.up, &e.shared_gate, &e.into});
  });
  return most;
}

std::int64_t order_bytes(const weights::ModelFile& file) {
  std::int64_t bytes = 0;
  for (const weights::TensorInfo& t : file.tensors())
    if (t.ordered) bytes += static_cast<std::int64_t>(t.ordered->order->size() * sizeof(std::int32_t));
  return bytes;
}

}  // namespace kvasir::model
