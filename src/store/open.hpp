// From a tier's name to the tier.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "store/tier.hpp"

namespace kvasir::store {

// `specification`: NAME[:ADDRESS][?OPTION=VALUE&...] (store/spec.hpp), NAME a stem of src/store/tiers. Besides those of
// the backend every tier has the options
//   queue=64MiB    puts that wait, in bytes; what comes when it is full is dropped and counted
//   rate=200MiB    bytes written per second; without it any
//   timeout=250ms  of one batch of lookups
//   check=full     'full' compares the checksum on every read, 'head' lengths and fields only (default of ram)
// `wrap` puts something around the backend. Throws Error(kBadInput), Error(kUnsupported) with the name of the package
// that this build lacks, Error(kIo).
using Wrap = std::function<std::unique_ptr<Backend>(std::unique_ptr<Backend>)>;
std::unique_ptr<Tier> open_tier(std::string_view specification, const Wrap& wrap = {});

// The backend alone, for tools that look at what is stored: no threads, no checks, no counters.
std::unique_ptr<Backend> open_backend(std::string_view specification);

}  // namespace kvasir::store
