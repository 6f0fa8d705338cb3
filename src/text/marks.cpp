#include "text/marks.hpp"

#include <algorithm>

namespace kvasir::text {

std::string marks_to_spaces(std::string_view text) {
  constexpr std::string_view kMark = "\xe2\x96\x81";
  std::string out;
  for (auto at = text.find(kMark); at != std::string_view::npos; at = text.find(kMark)) {
    out.append(text.substr(0, at)).push_back(' ');
    text.remove_prefix(at + kMark.size());
  }
  return out.append(text);
}

ByteFallback::ByteFallback(const Vocabulary& vocabulary) : unknown_(vocabulary.ids().unknown) {
  ids_.fill(-1);
  for (const auto id : vocabulary.of_type({TokenType::kByte})) {
    const auto piece = vocabulary.piece(id);
    if (piece.size() == 1) ids_[static_cast<unsigned char>(piece[0])] = id;
  }
}

bool ByteFallback::complete() const {
  return std::all_of(ids_.begin(), ids_.end(), [](std::int32_t id) { return id >= 0; });
}

void ByteFallback::append(std::string_view bytes, std::vector<std::int32_t>& out) const {
  for (const char c : bytes) {
    const auto byte = ids_[static_cast<unsigned char>(c)];
    const auto id = byte >= 0 ? byte : unknown_;
    if (id >= 0) out.push_back(id);
  }
}

}  // namespace kvasir::text
