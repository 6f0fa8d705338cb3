// Records in this process's memory: asked first, gone with the process.
#include <memory>

#include "store/backend.hpp"
#include "store/shelf.hpp"
#include "store/spec.hpp"

namespace kvasir::store::tiers_ram {
namespace {

std::unique_ptr<Backend> open(Spec& spec) {
  constexpr std::uint64_t kGib = std::uint64_t{1} << 30;
  const std::uint64_t size = spec.bytes("size", kGib, 4096, std::uint64_t{1} << 50);
  const std::uint64_t pins = spec.bytes("pins", size / 2, 0, size);
  spec.finish();
  return std::make_unique<Shelf>(size, pins);
}

}  // namespace

const TierKind entry{.summary = "memory of this process",
                     .usage = "ram:?size=1GiB&pins=512MiB",
                     .place = Place::kNone,
                     .open = open,
                     .private_memory = true};

}  // namespace kvasir::store::tiers_ram
