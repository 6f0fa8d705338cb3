// What a backend holds, looked at record by record: for tools (`kvasir cache`), not for the way of a request.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "store/backend.hpp"
#include "store/record.hpp"

namespace kvasir::store {

// What is wrong with a record. The first four are those of parse_record.
enum class Fault {
  kNone,
  kDamaged,
  kForeign,
  kVersion,
  kKey,     // its key does not follow from its parent and token ids
  kParent,  // it continues a tail, or a record of another fingerprint
};
std::string_view fault_name(Fault fault);

struct Item {
  Key key;
  std::uint64_t bytes = 0;
  Fault fault = Fault::kNone;
  // Of readable records only.
  Kind kind = Kind::kChunk;
  Fingerprint fingerprint;
  Key parent;
  std::uint32_t tokens = 0;
  float cost = 0;
  // As the backend knows them (Listed).
  std::uint32_t uses = 0;
  std::int64_t written = 0, used = 0;
  // The first key of its chain that is not here: the root of a tenant's prompts, or a parent that is gone.
  Key origin;
  std::int64_t depth = 0;  // records of its chain in front of it that are here

  // Whether its envelope says what it is, right or wrong.
  bool readable() const { return fault == Fault::kNone || fault == Fault::kKey || fault == Fault::kParent; }
};

// All records, parents before children. Check::kFull reads all their bytes; kHead the envelopes. Records that go
// meanwhile are left out. Throws Error(kIo) with what the backend says. `progress`: records done, of how many.
// `wanted` is asked for each by its key and times (Backend::list_ages), and the others are not read.
using InventoryProgress = std::function<void(std::uint64_t, std::uint64_t)>;
using Wanted = std::function<bool(const Item&)>;
std::vector<Item> take_inventory(Backend& backend, Check check, const InventoryProgress& progress = {},
                                 const Wanted& wanted = {});

// Reads the records of `items` in batches; absent ones are passed over. Throws as above.
void read_records(Backend& backend, std::span<const Item> items,
                  const std::function<void(const Item&, const SharedBytes&)>& each);

// Erases records, in batches. Throws as above.
void erase_records(Backend& backend, std::span<const Item> items);

// Whether a key is what its record's parent and token ids make it.
bool key_fits(const Key& key, const RecordView& record);

}  // namespace kvasir::store
