// The door to devices, without what is behind it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace kvasir::kv {
class PageDevice;
class KiviMaker;
}  // namespace kvasir::kv

namespace kvasir::device {

// What --device names, for pages of at most `memory` bytes; 0: the device's own less 512 MiB. Throws Error(kBadInput)
// for a name of no device, Error(kUnsupported) where it is not there or cannot be used.
std::shared_ptr<kv::PageDevice> open_pages(const std::string& name, std::uint64_t memory);
// The same for KIVI's arrays.
std::unique_ptr<kv::KiviMaker> open_kivi(const std::string& name);

}  // namespace kvasir::device
