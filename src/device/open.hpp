// The door to devices, without what is behind it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace kvasir::kv {
class PageDevice;
class KiviMaker;
}  // namespace kvasir::kv

namespace kvasir {
class Team;
}
namespace kvasir::cpu {
class ProductDevice;
struct Matrix;
}  // namespace kvasir::cpu

namespace kvasir::device {

struct PageOptions {
  std::uint64_t memory = 0;      // bytes for pages, at most; 0: the device's own less 512 MiB and `weights`
  std::int64_t weights = 0;      // what open_products may take; -1: a quarter of the device's
  std::int64_t from_tokens = 0;  // sealed ones of a text, from which on generated tokens use it; -1: measured
  int threads = 1;               // of the host, beside which that is measured
};
// What --device names, for pages. Throws Error(kBadInput) for a name of no device, Error(kUnsupported) where it is not
// there or cannot be used.
std::shared_ptr<kv::PageDevice> open_pages(const std::string& name, const PageOptions& options);
// The same for the products of these matrices with rows of prompts, which live as long as it does. memory: bytes for
// weights; 0: a quarter of the device's, and it is used from the number of rows on from which that was measured to be
// quicker, or never. streamed: panels are where the host has put them for a product alone. Throws besides
// Error(kMemory) where no matrix fits into `memory`.
std::unique_ptr<cpu::ProductDevice> open_products(const std::string& name, std::int64_t memory,
                                                  std::span<const cpu::Matrix* const> matrices, bool streamed,
                                                  Team& team);
// The same for KIVI's arrays.
std::unique_ptr<kv::KiviMaker> open_kivi(const std::string& name);

}  // namespace kvasir::device
