// Where packed weights are kept: all in memory, in a mapped file, or a fixed part in memory and the rest read as it is
// used.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/bundles.hpp"
#include "model/kept_weights.hpp"

namespace kvasir::model {

struct ResidencyOptions {
  // full_resident, mapped, partial_resident, ffn_only_stream, full_stream; auto: full_resident if that fits into
  // `memory`, else as many layers as fit.
  std::string mode = "auto";
  std::int64_t memory = 0;  // most bytes of weights in memory; 0: no bound
  // Layers at both ends that stay in memory where a mode streams; -1: the mode's own. With auto 0.
  int keep_first = -1, keep_last = -1;
  std::string file;  // of packed weights; "": beside the model
  KeepWeights keep;  // of a model that is all in memory
};

enum class Place : std::uint8_t { kResident, kStreamed, kCached, kMapped };  // kCached: experts, by use

struct Residency {
  std::vector<Place> places;        // of every bundle
  std::int64_t resident_bytes = 0;  // of bundles that stay in memory
  std::int64_t vector_bytes = 0;    // of norms and biases, which do, too
  std::int64_t streamed_bytes = 0;  // read in every pass
  std::int64_t ring_bytes = 0;      // that these go through
  std::int64_t mapped_bytes = 0;    // in the page cache
  std::int64_t expert_bytes = 0;    // of experts that are read when they are chosen
  int expert_places = 0;            // of every such layer
  std::int64_t cache_bytes = 0;     // that these take

  bool streams() const { return streamed_bytes > 0 || expert_bytes > 0; }
  bool needs_file() const { return streams() || mapped_bytes > 0; }
  // In this process's memory.
  std::int64_t memory() const { return resident_bytes + vector_bytes + ring_bytes + cache_bytes; }
  std::string text() const;  // for people: "1.2 GB in memory, 2.4 GB read in every pass through 345 MB"
};

// Throws Error(kBadInput) for modes that do not exist, Error(kMemory) when `memory` is too little for what has to be
// there. REQUIRES: matrices of the bundles have their format and shape.
Residency plan_residency(const std::vector<Bundle>& bundles, std::int64_t vector_bytes, const ResidencyOptions& options,
                         int layers);

}  // namespace kvasir::model
