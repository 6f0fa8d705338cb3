// What the subcommands of `kvasir cache` share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "store/inventory.hpp"

namespace kvasir::cli {

// Each registers its options on `flags` and returns what to run, as Command::setup does.
Action setup_cache_ls(Flags& flags);
Action setup_cache_stats(Flags& flags);
Action setup_cache_verify(Flags& flags);
Action setup_cache_clear(Flags& flags);
Action setup_cache_export(Flags& flags);
Action setup_cache_import(Flags& flags);
Action setup_cache_explain(Flags& flags);

// Which cache.
struct CachePlace {
  std::string folder;
  std::string tier;
};
void add_place(Flags& flags, CachePlace& place);
std::string shown(const CachePlace& place);  // for people; without passwords

// Throws Error(kBadInput) naming the folder and what was expected when there is no cache or no permission. Makes
// nothing.
std::unique_ptr<store::Backend> open_cache(const CachePlace& place);
// Makes the cache when there is none. `size`: its bound; empty keeps what it has, or is 10GiB for a new one.
std::unique_ptr<store::Backend> open_or_make_cache(const CachePlace& place, const std::string& size);

// Which records.
struct CacheFilter {
  std::string fingerprint;  // the first digits; empty: any
  std::string older_than;   // "7d": last used before that; empty: any
};
void add_filter(Flags& flags, CacheFilter& filter, bool with_age);
// Checks the texts; throws Error(kBadInput) naming the flag.
void check_filter(const CacheFilter& filter);
bool passes(const CacheFilter& filter, const store::Item& item);
bool old_enough(const CacheFilter& filter, const store::Item& item);  // the part of it that needs no envelope

// All records, or those that are wanted, with a progress bar.
std::vector<store::Item> inventory(store::Backend& backend, store::Check check, const char* doing,
                                   const store::Wanted& wanted = {});

std::uint64_t total_bytes(const std::vector<store::Item>& items);
std::string records_text(std::uint64_t n);  // "1 record", "5 records"
// Of a chain's origin: "open" for prompts without a tenant, else its first digits.
std::string origin_text(const store::Item& item);

}  // namespace kvasir::cli
