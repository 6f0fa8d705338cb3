// Bytes that are no part of a prompt, kept in tiers by name: what was learned about a model, rows of a picture.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "store/key.hpp"
#include "store/tier.hpp"

namespace kvasir::store {

class Notes {
 public:
  // Names mean something under this fingerprint alone. tiers: the fastest first.
  Notes(const Fingerprint& fingerprint, std::vector<std::shared_ptr<Tier>> tiers)
      : fingerprint_(fingerprint), tiers_(std::move(tiers)) {}

  // Worth as much as the dearest records: for what is small, and made in seconds.
  static constexpr double kDear = 1e7;

  // Nothing: there is none, or no tier answered in time. Any thread.
  std::optional<std::vector<std::byte>> read(std::string_view name, Deadline deadline) const;
  // cost: microseconds that it took to make, by which tiers decide what goes first. Any thread.
  void keep(std::string_view name, std::span<const std::byte> bytes, double cost) const;

 private:
  const Fingerprint fingerprint_;
  const std::vector<std::shared_ptr<Tier>> tiers_;
};

}  // namespace kvasir::store
