#include "weights/model_file.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/file.hpp"
#include "weights/format.hpp"

namespace kvasir::weights {

namespace {

constexpr std::size_t kHeadBytes = 64;

// What a file starts with, as text where it is text.
std::string shown(std::span<const std::byte> head) {
  std::string out;
  for (const std::byte b : head.first(std::min<std::size_t>(head.size(), 8))) {
    const int c = std::to_integer<int>(b);
    out += c >= 0x20 && c < 0x7f && c != '\\' ? std::string(1, static_cast<char>(c)) : fmt::format("\\x{:02x}", c);
  }
  return out;
}

}  // namespace

std::unique_ptr<ModelFile> open_model_file(const std::string& path) {
  const Format* format = nullptr;
  {
    const MappedFile file(path);
    const auto head = file.bytes().first(std::min(file.bytes().size(), kHeadBytes));
    for (const auto& f : formats())
      if (!format && f.value->recognises(head)) format = f.value;
    if (!format)
      throw Error(Code::kBadInput,
                  fmt::format("no model file: it starts with '{}'; expected one of the formats {}", shown(head),
                              names(formats())),
                  path);
  }
  return format->open(path);
}

}  // namespace kvasir::weights
