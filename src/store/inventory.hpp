// A list of all records of a backend. For tools (`kvasir cache`), too slow for requests.
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
  // From the backend's own list (Listed), not from the record.
  std::uint32_t uses = 0;
  std::int64_t written = 0, used = 0;
  // The key before the first record of its chain that is here: the root of a tenant's prompts, or a parent that is
  // gone.
  Key origin;
  std::int64_t depth = 0;  // number of records of its chain before it that are here

  // Whether its envelope could be read, even if the record has another fault.
  bool readable() const { return fault == Fault::kNone || fault == Fault::kKey || fault == Fault::kParent; }
};

// Lists all records, parents before children. Check::kFull reads all bytes of a record, kHead its envelope. Records
// that disappear meanwhile are left out. `progress` gets the records done and their total. If `wanted` is given, it
// sees key and times of each record (Backend::list_ages), and only records for which it is true are read. Throws
// Error(kIo) with the backend's words.
using InventoryProgress = std::function<void(std::uint64_t, std::uint64_t)>;
using Wanted = std::function<bool(const Item&)>;
std::vector<Item> take_inventory(Backend& backend, Check check, const InventoryProgress& progress = {},
                                 const Wanted& wanted = {});

// Reads the records of `items` in batches; absent ones are passed over. Throws as above.
void read_records(Backend& backend, std::span<const Item> items,
                  const std::function<void(const Item&, const SharedBytes&)>& each);

// Erases records, in batches. Throws as above.
void erase_records(Backend& backend, std::span<const Item> items);

// Whether `key` is the key that follows from the record's parent and token ids.
bool key_fits(const Key& key, const RecordView& record);

}  // namespace kvasir::store
