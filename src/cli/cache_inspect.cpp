// kvasir cache ls, stats, verify.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "base/error.hpp"
#include "cli/cache.hpp"
#include "cli/eval.hpp"
#include "cli/flags.hpp"
#include "cli/json_output.hpp"
#include "cli/terminal.hpp"

namespace kvasir::cli {
namespace {

using CacheInspectJson = nlohmann::ordered_json;
using store::Fault;
using store::Item;

const char* kind_text(const Item& i) {
  if (!i.readable()) return "?";
  return i.kind == store::Kind::kChunk ? "chunk" : "tail";
}

std::string age_text(std::int64_t since) {
  if (since == 0) return "-";
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch());
  const std::int64_t s = std::max<std::int64_t>(now.count() - since, 0);
  if (s < 120) return fmt::format("{} s", s);
  if (s < 2 * 3600) return fmt::format("{} min", s / 60);
  if (s < 2 * 86400) return fmt::format("{} h", s / 3600);
  return fmt::format("{} d", s / 86400);
}

CacheInspectJson time_json(std::int64_t t) { return t == 0 ? CacheInspectJson(nullptr) : CacheInspectJson(t); }

CacheInspectJson item_json(const Item& i) {
  CacheInspectJson row{{"key", store::to_hex(i.key)}, {"bytes", i.bytes}};
  row["fault"] = i.fault == Fault::kNone ? CacheInspectJson(nullptr) : CacheInspectJson(store::fault_name(i.fault));
  row["uses"] = i.uses;
  row["written"] = time_json(i.written);
  row["used"] = time_json(i.used);
  if (!i.readable()) return row;
  row["kind"] = kind_text(i);
  row["tokens"] = i.tokens;
  row["depth"] = i.depth;
  row["cost"] = i.cost;
  row["fingerprint"] = store::to_hex(i.fingerprint);
  row["parent"] = store::to_hex(i.parent);
  row["origin"] = store::to_hex(i.origin);
  row["open"] = i.origin == store::root_key(i.fingerprint);
  return row;
}

struct CacheInspectSettings {
  CachePlace place;
  CacheFilter filter;
  bool repair = false;
  bool json = false;
};

int list(const CacheInspectSettings& s) {
  check_filter(s.filter);
  const auto backend = open_cache(s.place);
  if (!s.filter.older_than.empty() && backend->traits().looking_is_use)
    throw Error(Code::kBadInput,
                "cannot be used here: looking at a record of this tier is a use of it; cache clear --older-than works",
                "--older-than");
  const std::vector<Item> items = inventory(*backend, store::Check::kHead, "reading");
  std::vector<std::vector<std::string>> table{
      {"key", "kind", "tokens", "depth", "bytes", "uses", "written", "used", "fingerprint", "origin", ""}};
  std::uint64_t shown_items = 0, bytes = 0;
  for (const Item& i : items) {
    if (!passes(s.filter, i)) continue;
    ++shown_items;
    bytes += i.bytes;
    if (s.json) {
      print_json_row(item_json(i));
      continue;
    }
    const bool known = i.readable();
    table.push_back({store::to_hex(i.key).substr(0, 12), kind_text(i), known ? std::to_string(i.tokens) : "-",
                     known ? std::to_string(i.depth) : "-", human_bytes(i.bytes), i.uses ? std::to_string(i.uses) : "-",
                     age_text(i.written), age_text(i.used), known ? store::to_hex(i.fingerprint).substr(0, 8) : "-",
                     known ? origin_text(i) : "-",
                     i.fault == Fault::kNone ? "" : std::string(store::fault_name(i.fault))});
  }
  if (s.json) return kSuccess;
  if (shown_items > 0) print_table(table);
  fmt::print("{}, {}\n", records_text(shown_items), human_bytes(bytes));
  return kSuccess;
}

struct Sum {
  std::uint64_t records = 0, bytes = 0, tokens = 0;
  void add(const Item& i) {
    ++records;
    bytes += i.bytes;
    tokens += i.tokens;
  }
  CacheInspectJson json() const { return {{"records", records}, {"bytes", bytes}, {"tokens", tokens}}; }
};

int stats(const CacheInspectSettings& s) {
  const auto backend = open_cache(s.place);
  const std::vector<Item> items = inventory(*backend, store::Check::kHead, "reading");
  std::map<std::string, Sum> kinds, prints;
  std::set<store::Key> origins;
  Sum all;
  std::uint64_t faults = 0;
  for (const Item& i : items) {
    all.add(i);
    if (!i.readable()) {
      ++faults;
      continue;
    }
    kinds[kind_text(i)].add(i);
    prints[store::to_hex(i.fingerprint)].add(i);
    origins.insert(i.origin);
  }
  const store::Usage usage = backend->usage();
  if (s.json) {
    CacheInspectJson out{{"cache", shown(s.place)}, {"records", all.records}, {"record_bytes", all.bytes},
                         {"bytes", usage.bytes},    {"budget", usage.budget}, {"origins", origins.size()},
                         {"unreadable", faults}};
    out["kinds"] = CacheInspectJson::object();
    for (const auto& [kind, sum] : kinds) out["kinds"][kind] = sum.json();
    out["fingerprints"] = CacheInspectJson::object();
    for (const auto& [print, sum] : prints) out["fingerprints"][print] = sum.json();
    print_json_row(out);
    return kSuccess;
  }
  fmt::print("{}: {}, {}", shown(s.place), records_text(all.records), human_bytes(all.bytes));
  if (usage.budget > 0)
    fmt::print("; {} of the {} that the database may take ({:.1f} %)", human_bytes(usage.bytes),
               human_bytes(usage.budget), 100.0 * static_cast<double>(usage.bytes) / static_cast<double>(usage.budget));
  fmt::print("\norigins of chains (roots of tenants, or parents that are gone): {}\n", origins.size());
  std::vector<std::vector<std::string>> table{{"", "records", "bytes", "tokens"}};
  const auto row = [&](const std::string& name, const Sum& sum) {
    table.push_back({name, std::to_string(sum.records), human_bytes(sum.bytes), std::to_string(sum.tokens)});
  };
  for (const auto& [kind, sum] : kinds) row(kind, sum);
  for (const auto& [print, sum] : prints) row("fingerprint " + print, sum);
  print_table(table);
  if (faults > 0) fmt::print("{} cannot be read; see kvasir cache verify\n", records_text(faults));
  return kSuccess;
}

int verify(const CacheInspectSettings& s) {
  const auto backend = open_cache(s.place);
  std::vector<Item> items = inventory(*backend, store::Check::kFull, "verifying");
  const std::uint64_t records = items.size(), bytes = total_bytes(items);
  std::erase_if(items, [](const Item& i) { return i.fault == Fault::kNone; });
  if (s.repair) store::erase_records(*backend, items);
  if (s.json) {
    CacheInspectJson out{{"cache", shown(s.place)}, {"records", records}, {"bytes", bytes}, {"repaired", s.repair}};
    out["faults"] = CacheInspectJson::array();
    for (const Item& i : items) out["faults"].push_back(item_json(i));
    print_json_row(out);
  } else {
    for (const Item& i : items)
      fmt::print("{} {} ({} bytes){}\n", store::to_hex(i.key), store::fault_name(i.fault), i.bytes,
                 s.repair ? ", erased" : "");
    fmt::print("{}: {} read, {}; {} with faults{}\n", shown(s.place), records_text(records), human_bytes(bytes),
               items.size(), items.empty() || s.repair ? "" : "; --repair erases them");
  }
  return items.empty() ? kSuccess : kFailure;
}

}  // namespace

Action setup_cache_ls(Flags& flags) {
  auto s = std::make_shared<CacheInspectSettings>();
  add_place(flags, s->place);
  add_filter(flags, s->filter, true);
  flags.flag("--json", s->json, "one object per record");
  return [s] { return list(*s); };
}

Action setup_cache_stats(Flags& flags) {
  auto s = std::make_shared<CacheInspectSettings>();
  add_place(flags, s->place);
  flags.flag("--json", s->json, "one object");
  return [s] { return stats(*s); };
}

Action setup_cache_verify(Flags& flags) {
  auto s = std::make_shared<CacheInspectSettings>();
  add_place(flags, s->place);
  flags.flag("--repair", s->repair, "erase what is damaged; it is computed again when it is wanted");
  flags.flag("--json", s->json, "one object");
  return [s] { return verify(*s); };
}

}  // namespace kvasir::cli
