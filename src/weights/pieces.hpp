// The bytes of a tensor in its files, which lie in one piece or in several.
#pragma once

#include <span>
#include <vector>

#include "weights/model_file.hpp"

namespace kvasir::weights {

// Rows that are made of more than TensorInfo::bytes.
class PiecedRows : public RowSource {
 public:
  virtual std::vector<std::span<const std::byte>> pieces() const = 0;
};

inline std::vector<std::span<const std::byte>> pieces_of(const TensorInfo& t) {
  const auto* several = dynamic_cast<const PiecedRows*>(t.source.get());
  return several ? several->pieces() : std::vector<std::span<const std::byte>>{t.bytes};
}

}  // namespace kvasir::weights
