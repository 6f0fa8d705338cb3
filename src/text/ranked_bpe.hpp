// BPE of pieces that steps of a tokenizer.json made (text/stepped.hpp): ranked merges of bytes or of characters.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/byte_level.hpp"
#include "text/marks.hpp"
#include "text/merge.hpp"
#include "text/ranks.hpp"
#include "text/vocabulary.hpp"

namespace kvasir::text {

class RankedBpe {
 public:
  // `bytes`: symbols are bytes, else characters with U+2581 as a space.
  RankedBpe(const weights::Metadata& m, const Vocabulary& vocabulary, bool bytes)
      : vocabulary_(vocabulary),
        ranks_(m, vocabulary, bytes ? token_bytes : marks_to_spaces),
        fallback_(vocabulary),
        bytes_(bytes),
        whole_words_(m.get_bool("tokenizer.kvasir.whole_words").value_or(false)),
        falls_back_(m.get_bool("tokenizer.kvasir.byte_fallback").value_or(false) && fallback_.complete()),
        fuses_unknown_(m.get_bool("tokenizer.kvasir.fuse_unknown").value_or(false)) {
    if (bytes) byte_ids_ = byte_ids(vocabulary);
  }

  void encode(std::string_view word, Merger& merger, std::vector<std::int32_t>& out) const {
    if (whole_words_)
      if (const auto id = vocabulary_.find_word(word); id >= 0) return out.push_back(id);
    merger.clear();
    if (bytes_)
      for (std::uint32_t i = 0; i < word.size(); ++i)
        merger.push({i, 1, byte_ids_[static_cast<unsigned char>(word[i])]});
    else
      each_char(word, [&](std::size_t begin, unicode::Char c) {
        merger.push({static_cast<std::uint32_t>(begin), c.size, vocabulary_.find_word(word.substr(begin, c.size))});
      });
    merger.run([&](const Merger::Symbol& left, const Merger::Symbol& right) { return ranks_.join(left.id, right.id); });
    bool unknown = false;  // the symbol before was
    merger.each([&](const Merger::Symbol& s) {
      const bool was_unknown = unknown;
      unknown = false;
      if (s.id >= 0) return out.push_back(s.id);
      if (falls_back_) return fallback_.append(word.substr(s.begin, s.size), out);
      unknown = true;
      if (vocabulary_.ids().unknown >= 0 && !(was_unknown && fuses_unknown_)) out.push_back(vocabulary_.ids().unknown);
    });
  }

 private:
  const Vocabulary& vocabulary_;
  const Ranks ranks_;
  const ByteFallback fallback_;
  const bool bytes_, whole_words_, falls_back_, fuses_unknown_;
  std::array<std::int32_t, 256> byte_ids_{};
};

}  // namespace kvasir::text
