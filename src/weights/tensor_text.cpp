#include "weights/tensor_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/hash.hpp"
#include "weights/pieces.hpp"

namespace kvasir::weights {
namespace {

std::uint64_t sample_hash(std::span<const std::byte> bytes) {
  constexpr std::size_t kSamples = 16, kSampleBytes = 4096;
  std::uint64_t hash = bytes.size();
  const std::size_t room = bytes.size() > kSampleBytes ? bytes.size() - kSampleBytes : 0;
  for (std::size_t i = 0; i < kSamples; ++i) {
    const std::size_t at = room / (kSamples - 1) * i;
    hash = hash_bytes(bytes.subspan(at, std::min(kSampleBytes, bytes.size() - at)), hash);
    if (room == 0) break;
  }
  return hash;
}

}  // namespace

std::string tensor_text(const ModelFile& file) {
  std::string text;
  for (const TensorInfo& t : file.tensors()) {
    text += fmt::format("{} {} {}x{}x{}x{}", t.name, t.kept().quant, t.shape[0], t.shape[1], t.shape[2], t.shape[3]);
    for (const auto piece : pieces_of(t)) text += fmt::format(" {:016x}", sample_hash(piece));
    text += '\n';
  }
  return text;
}

}  // namespace kvasir::weights
