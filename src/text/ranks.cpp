#include "text/ranks.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace kvasir::text {
namespace {

constexpr const char* kMerges = "tokenizer.ggml.merges";

}  // namespace

std::int32_t find_written(const Vocabulary& vocabulary, std::string_view token,
                          std::string (*bytes)(std::string_view)) {
  const auto word = vocabulary.find_word(bytes(token));
  return word >= 0 ? word : vocabulary.find_special(token);
}

Ranks::Ranks(const weights::Metadata& metadata, const Vocabulary& vocabulary, std::string (*bytes)(std::string_view)) {
  const auto fail = [&](const std::string& message) {
    throw Error(Code::kBadInput, message, metadata.path() + ": " + kMerges);
  };
  const auto* merges = metadata.get_strings(kMerges);
  if (!merges) fail("is missing, expected the merges of a BPE vocabulary");
  if (merges->size() > std::size_t{1} << 28) fail("has more than 2^28 entries");
  // Most files list merges in the order of the tokens they make, so `before`, what the merge before it made, and its
  // successor are tried first: that spares a look-up in a table larger than the caches.
  const auto joined_token = [&](std::string_view left, std::string_view right, std::int32_t before) {
    const std::string both = bytes(left) + bytes(right);
    for (const auto id : {before, before + 1}) {
      if (vocabulary.type(id) == TokenType::kNormal && vocabulary.piece(id) == both) return id;
    }
    const auto word = vocabulary.find_word(both);
    return word >= 0 ? word : vocabulary.find_special(std::string(left).append(right));
  };
  merges_.reserve(merges->size());
  std::int32_t joined = -1;
  for (std::size_t rank = 0; rank < merges->size(); ++rank) {
    const std::string& line = (*merges)[rank];
    const auto space = line.find(' ', 1);
    if (space == std::string::npos || space + 1 == line.size()) {
      fail(fmt::format("entry {} is '{}', expected two tokens with a space between", rank, line));
    }
    const auto left_text = std::string_view(line).substr(0, space);
    const auto right_text = std::string_view(line).substr(space + 1);
    const auto left = find_written(vocabulary, left_text, bytes);
    const auto right = find_written(vocabulary, right_text, bytes);
    joined = joined_token(left_text, right_text, joined);
    if (left < 0 || right < 0 || joined < 0) {
      fail(fmt::format("entry {} is '{}', expected tokens that the vocabulary has, joined and apart", rank, line));
    }
    merges_.insert(static_cast<std::uint32_t>(left), static_cast<std::uint32_t>(right),
                   {static_cast<std::int32_t>(rank), joined});
  }
}

}  // namespace kvasir::text
