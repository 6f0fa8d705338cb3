#include "store/notes.hpp"

#include <string>

#include "store/record.hpp"
#include "store/tail.hpp"

namespace kvasir::store {
namespace {

// A note is a tail of one token that no prompt leads to: names of tenants have no zero byte in front.
constexpr std::int32_t kNoteIds[] = {0};

Key note_root(const Fingerprint& fingerprint, std::string_view name) {
  return root_key(fingerprint, std::string(1, '\0') + "note " + std::string(name));
}

}  // namespace

std::optional<std::vector<std::byte>> Notes::read(std::string_view name, Deadline deadline) const {
  const Key root = note_root(fingerprint_, name), key = key_of_tail(root, kNoteIds);
  for (const auto& tier : tiers_) {
    const auto answers = tier->get({&key, 1}, {.fingerprint = fingerprint_, .deadline = deadline}).take(deadline);
    const Found& f = answers.front();
    if (f && f.record.head.kind == Kind::kTail && f.record.head.parent == root && f.record.tokens_are(kNoteIds))
      return std::vector<std::byte>(f.record.payload.begin(), f.record.payload.end());
  }
  return std::nullopt;
}

void Notes::keep(std::string_view name, std::span<const std::byte> bytes, double cost) const {
  const Key root = note_root(fingerprint_, name);
  const SharedBytes record =
      make_record({.kind = Kind::kTail, .fingerprint = fingerprint_, .parent = root, .cost = static_cast<float>(cost)},
                  kNoteIds, {&bytes, 1});
  for (const auto& tier : tiers_) tier->put(key_of_tail(root, kNoteIds), record);
}

}  // namespace kvasir::store
