// Metadata of a model file under "ARCH.", read with checks. Every error names file, key and expectation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weights/model_file.hpp"

namespace kvasir::model {

inline constexpr std::int64_t kMostNumber = 1
                                            << 24;  // no width, head count or layer count of a real model comes near it

class ArchMetadata {
 public:
  // `metadata` must outlive it.
  explicit ArchMetadata(const weights::Metadata& metadata)
      : m_(metadata), arch_(metadata.require_string("general.architecture")) {}

  const std::string& arch() const { return arch_; }
  // Keys are without "ARCH.".
  bool has(std::string_view key) const;
  std::int64_t integer(std::string_view key, std::int64_t low, std::int64_t high) const;
  std::int64_t integer_or(std::string_view key, std::int64_t low, std::int64_t high, std::int64_t fallback) const;
  double number(std::string_view key) const;
  double number_or(std::string_view key, double fallback) const;
  bool flag_or(std::string_view key, bool fallback) const;
  std::string text_or(std::string_view key, std::string_view fallback) const;
  // One number for all layers, or an array with one for each. Without a fallback the key is required.
  int in_layer(std::string_view key, int layer, std::optional<int> fallback = {}, int least = 1) const;

  // An array of `count` elements (any number of them: -1) within [low, high].
  std::vector<std::int64_t> integers(std::string_view key, int count, std::int64_t low, std::int64_t high) const;
  // Of a layer, from an array with an element for each, or one number of all; `key` is whole.
  double number_in_layer(const std::string& key, int layer) const;
  // Of a layer, from an array with an element for each.
  bool flag_in_layer(std::string_view key, int layer) const;

  [[noreturn]] void unsupported(std::string_view key, const std::string& text) const;
  [[noreturn]] void bad(std::string_view key, const std::string& text) const;

 protected:
  std::string full(std::string_view key) const { return arch_ + "." + std::string(key); }
  const weights::Metadata& metadata() const { return m_; }
  int blocks_ = 0;  // all layers: what the arrays of the metadata have an element for
  int layers_ = 0;  // those that do not predict further tokens
  void check_count(const std::string& name, std::size_t elements) const;  // throws unless there is one for each

 private:
  const weights::Metadata& m_;
  const std::string arch_;
};

}  // namespace kvasir::model
