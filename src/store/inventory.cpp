#include "store/inventory.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "base/error.hpp"
#include "store/tail.hpp"

namespace kvasir::store {
namespace {

constexpr std::size_t kBatchRecords = 256;
constexpr std::uint64_t kBatchBytes = std::uint64_t{16} << 20;

Deadline patience() { return within(std::chrono::minutes(10)); }

void check_status(const Status& status) {
  if (!status.ok()) throw Error(Code::kIo, status.why, "cache");
}

Fault fault_of(Flaw flaw) {
  switch (flaw) {
    case Flaw::kNone:
      return Fault::kNone;
    case Flaw::kForeign:
      return Fault::kForeign;
    case Flaw::kVersion:
      return Fault::kVersion;
    case Flaw::kDamaged:
      break;
  }
  return Fault::kDamaged;
}

// Calls `each` with runs of items that are worth one question.
template <class F>
void in_batches(std::span<const Item> items, F&& each) {
  for (std::size_t begin = 0; begin < items.size();) {
    std::size_t end = begin;
    for (std::uint64_t bytes = 0; end < items.size() && end - begin < kBatchRecords; ++end)
      if ((bytes += items[end].bytes) > kBatchBytes && end > begin) break;
    each(items.subspan(begin, end - begin));
    begin = end;
  }
}

std::vector<Key> keys_of(std::span<const Item> items) {
  std::vector<Key> keys;
  keys.reserve(items.size());
  for (const Item& item : items) keys.push_back(item.key);
  return keys;
}

void describe(const SharedBytes& bytes, Check check, Item* item) {
  const Parsed parsed = parse_record(bytes.bytes, check);
  item->bytes = bytes.bytes.size();
  item->fault = fault_of(parsed.flaw);
  if (!parsed) return;
  const RecordView& r = parsed.record;
  item->kind = r.head.kind;
  item->fingerprint = r.head.fingerprint;
  item->parent = r.head.parent;
  item->cost = r.head.cost;
  item->tokens = static_cast<std::uint32_t>(r.n_tokens());
  if (!key_fits(item->key, r)) item->fault = Fault::kKey;
}

// Depths, origins and what is wrong between records, then the order.
void link(std::vector<Item>& items) {
  std::unordered_map<Key, std::size_t> index;
  for (std::size_t i = 0; i < items.size(); ++i) index.emplace(items[i].key, i);
  std::vector<char> done(items.size(), 0);
  std::vector<std::size_t> way;
  for (std::size_t start = 0; start < items.size(); ++start) {
    // Up to what is known or not here. Keys are hashes of their parents', so only damaged records could form a ring.
    way.clear();
    std::size_t at = start;
    auto next = index.end();
    while (!done[at]) {
      way.push_back(at);
      done[at] = 1;
      next = index.find(items[at].parent);
      if (!items[at].readable() || next == index.end()) break;
      at = next->second;
    }
    for (; !way.empty(); way.pop_back()) {
      Item& item = items[way.back()];
      const auto parent = item.readable() ? index.find(item.parent) : index.end();
      item.origin = item.parent;
      if (parent == index.end() || !items[parent->second].readable()) continue;
      const Item& p = items[parent->second];
      item.depth = p.depth + 1;
      item.origin = p.origin;
      if (p.kind != Kind::kChunk || p.fingerprint != item.fingerprint) item.fault = Fault::kParent;
    }
  }
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return a.origin != b.origin ? a.origin < b.origin : a.depth < b.depth;
  });
}

}  // namespace

std::string_view fault_name(Fault fault) {
  constexpr std::string_view kNames[] = {"none", "damaged", "foreign", "version", "key", "parent"};
  return kNames[static_cast<std::size_t>(fault)];
}

bool key_fits(const Key& key, const RecordView& record) {
  std::vector<std::int32_t> tokens(record.n_tokens());
  record.copy_tokens(tokens.data());
  const Key& parent = record.head.parent;
  return (record.head.kind == Kind::kTail ? key_of_tail(parent, tokens) : chunk_key(parent, tokens)) == key;
}

void read_records(Backend& backend, std::span<const Item> items,
                  const std::function<void(const Item&, const SharedBytes&)>& each) {
  in_batches(items, [&](std::span<const Item> batch) {
    const std::vector<Key> keys = keys_of(batch);
    std::vector<Answer> answers(keys.size());
    check_status(backend.get(keys, patience(), answers));
    for (std::size_t i = 0; i < answers.size(); ++i)
      if (answers[i].outcome == Outcome::kFound) each(batch[i], answers[i].bytes);
  });
}

std::vector<Item> take_inventory(Backend& backend, Check check, const InventoryProgress& progress,
                                 const Wanted& wanted) {
  std::vector<Item> listed;
  const auto note = [&](const Listed& l) {
    const Item item{.key = l.key, .bytes = l.bytes, .uses = l.uses, .written = l.written, .used = l.used};
    if (!wanted || wanted(item)) listed.push_back(item);
    return true;
  };
  check_status(wanted ? backend.list_ages(note, patience()) : backend.list(note, patience()));
  std::vector<Item> items;
  items.reserve(listed.size());
  read_records(backend, listed, [&](const Item& item, const SharedBytes& bytes) {
    items.push_back(item);
    describe(bytes, check, &items.back());
    if (progress) progress(items.size(), listed.size());
  });
  link(items);
  return items;
}

void erase_records(Backend& backend, std::span<const Item> items) {
  in_batches(items, [&](std::span<const Item> batch) { check_status(backend.erase(keys_of(batch), patience())); });
}

}  // namespace kvasir::store
