// Records in an LMDB database on this machine: they survive restarts, and its processes may share them.
// Library: lmdb (lmdb.h), Debian package liblmdb-dev.
#include <memory>

#include "base/error.hpp"
#include "store/backend.hpp"
#include "store/spec.hpp"
#ifdef KVASIR_LMDB
#include "store/lmdb/disk.hpp"
#endif

namespace kvasir::store::tiers_lmdb {
namespace {

#ifdef KVASIR_LMDB
std::unique_ptr<Backend> open(Spec& spec) {
  constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
  // Address space, so a machine's pointers bound it.
  const std::uint64_t size = spec.bytes("size", 10240 * kMib, kMib, std::uint64_t{1} << 46);
  const bool inspect = spec.choice("mode", "serve", {"serve", "inspect"}) == "inspect";
  spec.finish();
  using Mode = lmdb::Database::Mode;
  return std::make_unique<lmdb::Disk>(spec.address(), size, inspect ? Mode::kInspect : Mode::kServe);
}
#else
std::unique_ptr<Backend> open(Spec& spec) {
  throw Error(Code::kUnsupported, "this build has no LMDB: install liblmdb-dev and build again", spec.shown());
}
#endif

}  // namespace

const TierKind entry{.summary = "an LMDB database on this machine's disk",
                     .usage = "lmdb:FOLDER?size=10GiB",
                     .place = Place::kFolder,
                     .open = open,
                     .file = "data.mdb",
                     .inspect = "mode=inspect"};

}  // namespace kvasir::store::tiers_lmdb
