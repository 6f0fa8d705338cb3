// A model file format: copy to src/weights/formats/NAME.cpp and rename `skeleton` to NAME. Contract:
// weights/format.hpp.
#include "weights/format.hpp"

namespace kvasir::weights::entries::formats {
namespace {

bool recognises(std::span<const std::byte> /*head*/) { return false; }

}  // namespace

extern const Format skeleton;
const Format skeleton{.summary = "a format that no file has", .recognises = recognises, .open = nullptr};

}  // namespace kvasir::weights::entries::formats
