// kvasir cache clear, export, import.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <unordered_set>

#include "base/error.hpp"
#include "base/file.hpp"
#include "cli/cache.hpp"
#include "cli/flags.hpp"
#include "cli/json_output.hpp"
#include "cli/terminal.hpp"
#include "store/archive.hpp"

namespace kvasir::cli {
namespace {

using CacheMoveJson = nlohmann::ordered_json;
using store::Fault;
using store::Item;

constexpr std::uint64_t kBatchBytes = std::uint64_t{16} << 20;

struct CacheMoveSettings {
  CachePlace place;
  CacheFilter filter;
  std::string file;
  std::string size;
  bool json = false;
};

// Those that pass, and what continues them: it could not be reached any more.
std::vector<Item> chosen(const std::vector<Item>& items, const CacheFilter& filter) {
  std::vector<Item> out;
  std::unordered_set<store::Key> gone;
  for (const Item& i : items) {  // parents first
    if (!passes(filter, i) && !gone.contains(i.parent)) continue;
    gone.insert(i.key);
    out.push_back(i);
  }
  return out;
}

int clear(const CacheMoveSettings& s) {
  check_filter(s.filter);
  const auto backend = open_cache(s.place);
  std::uint64_t undated = 0;
  const auto is_old = [&](const Item& i) {
    undated += i.used == 0;
    return old_enough(s.filter, i);
  };
  // Where reading a record is a use of it those that stay are not read, or nothing would be old the next time.
  const bool old_only = !s.filter.older_than.empty() && backend->traits().looking_is_use;
  std::vector<Item> items =
      inventory(*backend, store::Check::kHead, "reading", old_only ? store::Wanted(is_old) : store::Wanted());
  const bool all = s.filter.fingerprint.empty() && s.filter.older_than.empty();
  if (!s.filter.older_than.empty() && !old_only) std::for_each(items.begin(), items.end(), is_old);
  if (!all) items = chosen(items, s.filter);
  if (all) {
    const store::Status cleared = backend->clear(store::within(std::chrono::minutes(10)));
    if (!cleared.ok()) throw Error(Code::kIo, cleared.why, shown(s.place));
  } else {
    std::reverse(items.begin(), items.end());  // ends of chains first
    store::erase_records(*backend, items);
  }
  if (s.json) {
    print_json_row(
        {{"cache", shown(s.place)}, {"removed", items.size()}, {"bytes", total_bytes(items)}, {"undated", undated}});
  } else {
    fmt::print("{}: removed {}, {}\n", shown(s.place), records_text(items.size()), human_bytes(total_bytes(items)));
    if (undated > 0) fmt::print("{} kept: the cache does not know when they were used\n", records_text(undated));
  }
  return kSuccess;
}

int export_records(const CacheMoveSettings& s) {
  check_filter(s.filter);
  const auto backend = open_cache(s.place);
  store::ArchiveWriter archive(s.file);
  std::vector<Item> items = inventory(*backend, store::Check::kHead, "reading");
  std::erase_if(items, [&](const Item& i) { return i.fault == Fault::kNone && !passes(s.filter, i); });
  ProgressBar progress("writing");
  std::uint64_t faults = 0, done = 0;
  store::read_records(*backend, items, [&](const Item& i, const store::SharedBytes& bytes) {
    progress.update(++done, items.size());
    const store::Parsed parsed = store::parse_record(bytes.bytes, store::Check::kFull);
    if (!parsed || !store::key_fits(i.key, parsed.record)) {
      ++faults;
      return;
    }
    archive.add(i.key, bytes.bytes);
  });
  progress.finish();
  archive.finish();
  if (s.json) {
    print_json_row({{"cache", shown(s.place)},
                    {"file", s.file},
                    {"records", archive.records()},
                    {"bytes", archive.bytes()},
                    {"damaged", faults}});
  } else {
    fmt::print("{}: {}, {}\n", s.file, records_text(archive.records()), human_bytes(archive.bytes()));
    if (faults > 0) fmt::print("{} left out: damaged (see kvasir cache verify)\n", records_text(faults));
  }
  return kSuccess;
}

struct Imported {
  std::uint64_t stored = 0, kept = 0, refused = 0;
};

void put_batch(store::Backend& backend, const std::vector<store::Offer>& offers, Imported* sum) {
  std::vector<store::PutOutcome> outcomes(offers.size());
  const store::Status status = backend.put(offers, store::within(std::chrono::minutes(10)), outcomes);
  if (!status.ok()) throw Error(Code::kIo, status.why, "cache");
  for (const store::PutOutcome o : outcomes) {
    if (o == store::PutOutcome::kStored) ++sum->stored;
    if (o == store::PutOutcome::kKept) ++sum->kept;
    if (o == store::PutOutcome::kRefused || o == store::PutOutcome::kFailed) ++sum->refused;
  }
}

int import_records(const CacheMoveSettings& s) {
  const auto file = std::make_shared<MappedFile>(s.file);
  const std::vector<store::ArchiveEntry> entries = store::read_archive(file->bytes(), s.file);  // all of it, first
  const auto backend = open_or_make_cache(s.place, s.size);
  ProgressBar progress("importing");
  Imported sum;
  std::vector<store::Offer> offers;
  std::uint64_t bytes = 0, done = 0;
  for (const store::ArchiveEntry& e : entries) {
    store::Offer& offer = offers.emplace_back();
    offer.key = e.key;
    offer.record = {file, e.record, false};
    offer.head = store::parse_record(e.record, store::Check::kHead).record.head;
    progress.update(++done, entries.size());
    if ((bytes += e.record.size()) < kBatchBytes && done < entries.size()) continue;
    put_batch(*backend, offers, &sum);
    offers.clear();
    bytes = 0;
  }
  progress.finish();
  const store::Status safe = backend->sync(store::within(std::chrono::minutes(10)));
  if (!safe.ok()) throw Error(Code::kIo, safe.why, shown(s.place));
  const std::uint64_t evicted = backend->usage().evictions;
  if (s.json) {
    print_json_row({{"cache", shown(s.place)},
                    {"file", s.file},
                    {"stored", sum.stored},
                    {"kept", sum.kept},
                    {"refused", sum.refused},
                    {"evicted", evicted}});
  } else {
    fmt::print("{}: {} stored, {} there already\n", shown(s.place), records_text(sum.stored), sum.kept);
    if (sum.refused > 0) fmt::print("{} refused: the cache has no room for them\n", records_text(sum.refused));
    if (evicted > 0) fmt::print("{} evicted to make room\n", records_text(evicted));
  }
  return sum.refused > 0 ? kFailure : kSuccess;
}

}  // namespace

Action setup_cache_clear(Flags& flags) {
  auto s = std::make_shared<CacheMoveSettings>();
  add_place(flags, s->place);
  add_filter(flags, s->filter, true);
  flags.flag("--json", s->json, "one object");
  return [s] { return clear(*s); };
}

Action setup_cache_export(Flags& flags) {
  auto s = std::make_shared<CacheMoveSettings>();
  flags.value("FILE", s->file, "archive to write", {.required = true});
  add_place(flags, s->place);
  add_filter(flags, s->filter, false);
  flags.flag("--json", s->json, "one object");
  return [s] { return export_records(*s); };
}

Action setup_cache_import(Flags& flags) {
  auto s = std::make_shared<CacheMoveSettings>();
  flags.value("FILE", s->file, "archive to read", {.required = true});
  add_place(flags, s->place);
  flags.value("--cache-size", s->size, "bound of the cache; default: what it has, 10GiB for a new one",
              {.placeholder = "SIZE"});
  flags.flag("--json", s->json, "one object");
  return [s] { return import_records(*s); };
}

}  // namespace kvasir::cli
