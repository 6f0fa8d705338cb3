// SentencePiece's table of normalisations (tokenizer.ggml.precompiled_charsmap).
//
// Bytes: u32 size of the tree, the tree, then texts that end in 0. The tree is a double array of u32 units
// (darts-clone):
//   bits 0-7   label: the byte that leads here
//   bit  8     a text ends here: the unit that the offset leads to is its value
//   bit  9     the offset counts 256
//   bits 10-30 offset to the children
//   bit  31    a value: bits 0-30 are the place of the replacement among the texts
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kvasir::text {

class Charsmap {
 public:
  Charsmap() = default;  // maps everything to itself
  // Throws Error(kBadInput), context `context`, for a table that is cut off. What a broken tree says is bounded.
  Charsmap(const std::vector<std::int64_t>& bytes, const std::string& context);

  struct Match {
    std::size_t size = 0;  // bytes of the text that are replaced; 0: none
    std::string_view text;
  };

  // The longest beginning of `text` that is replaced. Replacements live as long as this.
  Match find(std::string_view text) const;
  // What the shortest beginning of `text` that is replaced becomes, which Hugging Face takes for the whole of it.
  std::optional<std::string_view> first(std::string_view text) const;

 private:
  template <class Visit>  // visit(match) says whether to go on
  void walk(std::string_view text, Visit visit) const;

  std::vector<std::uint32_t> units_;
  std::string texts_;  // ends in 0
};

}  // namespace kvasir::text
