#include "store/lmdb/ledger.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstring>

#include "store/policy.hpp"

namespace kvasir::store::lmdb {
namespace {

constexpr char kTotals[] = "totals";
// Rows in the other tables, and their share of pages that are not full.
constexpr std::uint64_t kRowsCharge = 512;

MDB_val totals_key() { return {sizeof kTotals - 1, const_cast<char*>(kTotals)}; }
MDB_val key_value(const Key& key) { return value_of(key.bytes); }

template <class T>
MDB_val struct_value(const T& value) {
  return {sizeof value, const_cast<T*>(&value)};
}

// Priorities are not negative, so their bits, highest byte first, sort as they do.
using OrderKey = std::array<std::byte, 8 + 32>;
OrderKey order_key(double priority, const Key& key) {
  OrderKey out;
  const std::uint64_t bits = __builtin_bswap64(std::bit_cast<std::uint64_t>(priority));
  std::memcpy(out.data(), &bits, sizeof bits);
  std::memcpy(out.data() + 8, key.bytes.data(), key.bytes.size());
  return out;
}

// False: absent.
bool get(MDB_txn* txn, MDB_dbi table, MDB_val key, MDB_val* value) {
  const int code = ::mdb_get(txn, table, &key, value);
  if (code == MDB_NOTFOUND) return false;
  check(code);
  return true;
}

void put_value(MDB_txn* txn, MDB_dbi table, MDB_val key, MDB_val value) {
  check(::mdb_put(txn, table, &key, &value, 0));
}

bool erase(MDB_txn* txn, MDB_dbi table, MDB_val key) {
  const int code = ::mdb_del(txn, table, &key, nullptr);
  if (code == MDB_NOTFOUND) return false;
  check(code);
  return true;
}

template <class T>
std::optional<T> get_struct(MDB_txn* txn, MDB_dbi table, MDB_val key) {
  MDB_val value;
  if (!get(txn, table, key, &value)) return std::nullopt;
  if (value.mv_size != sizeof(T)) throw Failure{MDB_CORRUPTED};
  T out;
  std::memcpy(&out, value.mv_data, sizeof out);
  return out;
}

// Rows of version 1 lack the times at the end.
std::optional<Row> get_row(MDB_txn* txn, MDB_dbi table, const Key& key) {
  MDB_val value;
  if (!get(txn, table, key_value(key), &value)) return std::nullopt;
  if (value.mv_size != sizeof(Row) && value.mv_size != kRowBytes1) throw Failure{MDB_CORRUPTED};
  Row row{};
  std::memcpy(&row, value.mv_data, value.mv_size);
  return row;
}

std::uint32_t seconds_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::seconds>(now).count());
}

Key parent_of(const Row& row) {
  Key key;
  std::memcpy(key.bytes.data(), row.parent, sizeof row.parent);
  return key;
}

}  // namespace

Ledger::Ledger(const Database::Transaction& transaction, std::uint64_t page_size)
    : txn_(transaction.get()), tables_(transaction.tables()), page_size_(page_size) {
  if (const auto t = read_totals(transaction)) totals_ = *t;
  totals_.version = kLedgerVersion;
}

std::optional<Row> Ledger::read_row(const Database::Transaction& transaction, const Key& key) {
  return get_row(transaction.get(), transaction.tables().rows, key);
}

std::optional<Totals> Ledger::read_totals(const Database::Transaction& transaction) {
  const auto t = get_struct<Totals>(transaction.get(), transaction.tables().totals, totals_key());
  if (t && (t->version < 1 || t->version > kLedgerVersion)) throw Failure{MDB_VERSION_MISMATCH};
  return t;
}

void Ledger::save() { put_value(txn_, tables_.totals, totals_key(), struct_value(totals_)); }

std::uint64_t Ledger::charge_of(std::uint64_t record_bytes) const {
  // Records of more than about half a page have pages of their own, with a head of 16 bytes.
  if (record_bytes < page_size_ / 2) return record_bytes + kRowsCharge;
  return (record_bytes + 16 + page_size_ - 1) / page_size_ * page_size_ + kRowsCharge;
}

PutOutcome Ledger::put(const Offer& offer, std::uint64_t limit, std::uint64_t* evicted) {
  const auto bytes = offer.record.bytes;
  Row row{};
  row.charge = charge_of(bytes.size());
  if (row.charge > limit) return PutOutcome::kRefused;
  MDB_val there;
  if (get(txn_, tables_.records, key_value(offer.key), &there)) {
    const auto mine = envelope(bytes), other = envelope(bytes_of(there));
    if (there.mv_size == bytes.size() && std::equal(mine.begin(), mine.end(), other.begin(), other.end())) {
      use(offer.key, 1);
      return PutOutcome::kKept;
    }
    remove(offer.key);
  }
  // First the parent has a child: making room for the child must not drop it.
  add_child(offer.head.parent);
  while (totals_.charge + row.charge > limit) {
    if (evict_one()) {
      ++*evicted;
      continue;
    }
    drop_child(offer.head.parent);
    return PutOutcome::kRefused;
  }
  MDB_val key = key_value(offer.key);
  MDB_val place{bytes.size(), nullptr};
  check(::mdb_put(txn_, tables_.records, &key, &place, MDB_RESERVE));
  std::memcpy(place.mv_data, bytes.data(), bytes.size());

  row.uses = 1;
  row.written = row.used = seconds_now();
  row.cost = offer.head.cost;
  row.priority = priority(totals_.age, 1, row.cost, row.charge);
  std::memcpy(row.parent, offer.head.parent.bytes.data(), sizeof row.parent);
  save_row(offer.key, row);
  if (children(offer.key) == 0) into_order(offer.key, row);
  totals_.charge += row.charge;
  ++totals_.records;
  return PutOutcome::kStored;
}

bool Ledger::remove(const Key& key) {
  const auto r = row(key);
  if (!r) return false;
  out_of_order(key, *r);
  erase(txn_, tables_.records, key_value(key));
  erase(txn_, tables_.rows, key_value(key));
  totals_.charge -= std::min(totals_.charge, r->charge);
  totals_.records -= std::min<std::uint64_t>(totals_.records, 1);
  drop_child(parent_of(*r));
  return true;
}

void Ledger::use(const Key& key, std::uint32_t times) {
  auto r = row(key);
  if (!r) return;
  const bool leaf = children(key) == 0;
  if (leaf) out_of_order(key, *r);
  r->uses += std::min(times, UINT32_MAX - r->uses);
  r->used = seconds_now();
  r->priority = priority(totals_.age, r->uses, r->cost, r->charge);
  save_row(key, *r);
  if (leaf) into_order(key, *r);
}

bool Ledger::evict_one() {
  MDB_cursor* cursor = nullptr;
  check(::mdb_cursor_open(txn_, tables_.order, &cursor));
  MDB_val first, nothing;
  const int code = ::mdb_cursor_get(cursor, &first, &nothing, MDB_FIRST);
  Key key;
  const bool fits = code == 0 && first.mv_size == sizeof(OrderKey);
  if (fits) std::memcpy(key.bytes.data(), static_cast<const std::byte*>(first.mv_data) + 8, key.bytes.size());
  ::mdb_cursor_close(cursor);
  if (code == MDB_NOTFOUND) return false;
  check(code);
  const auto r = fits ? row(key) : std::nullopt;
  if (!r) throw Failure{MDB_CORRUPTED};
  totals_.age = std::max(totals_.age, r->priority);
  ++totals_.evictions;
  return remove(key);
}

void Ledger::clear() {
  for (const MDB_dbi table : {tables_.records, tables_.rows, tables_.order, tables_.children})
    check(::mdb_drop(txn_, table, 0));
  totals_.charge = totals_.records = 0;
}

std::optional<Row> Ledger::row(const Key& key) const { return get_row(txn_, tables_.rows, key); }

void Ledger::save_row(const Key& key, const Row& row) {
  put_value(txn_, tables_.rows, key_value(key), struct_value(row));
}

std::uint32_t Ledger::children(const Key& key) const {
  return get_struct<std::uint32_t>(txn_, tables_.children, key_value(key)).value_or(0);
}

void Ledger::set_children(const Key& key, std::uint32_t n) {
  if (n == 0)
    erase(txn_, tables_.children, key_value(key));
  else
    put_value(txn_, tables_.children, key_value(key), struct_value(n));
}

void Ledger::add_child(const Key& parent) {
  const std::uint32_t n = children(parent);
  set_children(parent, n + 1);
  if (n > 0) return;
  if (const auto r = row(parent)) out_of_order(parent, *r);
}

void Ledger::drop_child(const Key& parent) {
  const std::uint32_t n = children(parent);
  if (n == 0) throw Failure{MDB_CORRUPTED};
  set_children(parent, n - 1);
  if (n > 1) return;
  if (const auto r = row(parent)) into_order(parent, *r);
}

void Ledger::into_order(const Key& key, const Row& row) {
  const OrderKey place = order_key(row.priority, key);
  put_value(txn_, tables_.order, value_of(place), {0, nullptr});
}

void Ledger::out_of_order(const Key& key, const Row& row) {
  const OrderKey place = order_key(row.priority, key);
  erase(txn_, tables_.order, value_of(place));
}

}  // namespace kvasir::store::lmdb
