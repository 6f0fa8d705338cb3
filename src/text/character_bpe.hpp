// BPE that starts from characters, with a space where files write U+2581: neighbours are joined, the best first;
// characters that are no token fall back to bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/marks.hpp"
#include "text/merge.hpp"
#include "text/tables.hpp"
#include "text/tokenizer.hpp"

namespace kvasir::text {

// Cuts a text where two characters meet that stand side by side in no token. No merge can reach across, so the parts
// are encoded independently: in most vocabularies these are the words.
class Seams {
 public:
  explicit Seams(const Vocabulary& vocabulary) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
    for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
      if (vocabulary.type(id) != TokenType::kNormal && vocabulary.type(id) != TokenType::kUndefined) continue;
      longest_ = std::max(longest_, vocabulary.piece(id).size());
      std::uint32_t previous = 0;
      each_char(vocabulary.piece(id), [&](std::size_t begin, unicode::Char c) {
        if (begin > 0) pairs.emplace_back(previous, c.code);
        previous = c.code;
      });
    }
    std::sort(pairs.begin(), pairs.end());
    pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
    neighbours_.reserve(pairs.size());
    for (const auto& [left, right] : pairs) neighbours_.insert(left, right, true);
  }

  std::size_t longest() const { return longest_; }  // bytes of the longest normal token

  template <class Visit>
  void split(std::string_view text, Visit visit) const {
    std::size_t start = 0;
    std::uint32_t previous = 0;
    each_char(text, [&](std::size_t begin, unicode::Char c) {
      if (begin > start && !neighbours_.find(previous, c.code)) {
        visit(text.substr(start, begin - start));
        start = begin;
      }
      previous = c.code;
    });
    visit(text.substr(start));
  }

 private:
  PairMap<bool> neighbours_;
  std::size_t longest_ = 0;
};

// `Joins` says what joining neighbours gives: Merger::Join operator()(left, right, bytes of both).
template <class Joins>
class CharacterBpe final : public Encoder {
 public:
  struct Options {
    bool adds_space;  // in front of text at the start and behind special tokens
    bool add_bos;     // where the file does not say
    // Of tokenizer.json's Metaspace: only where the text has none, and with `space_first` only at its very beginning.
    bool space_where_none = false, space_first = false;
  };

  CharacterBpe(const Vocabulary& vocabulary, Joins joins, Options options)
      : vocabulary_(vocabulary), joins_(std::move(joins)), options_(options), bytes_(vocabulary), seams_(vocabulary) {}

  bool adds_space() const override { return options_.adds_space; }
  bool default_add_bos() const override { return options_.add_bos; }

  // A literal U+2581 reads as a space, as SentencePiece has it.
  void encode(std::string_view text, std::vector<std::int32_t>& out, EncodeScratch& scratch) const override {
    std::string spaced = marks_to_spaces(text);
    const bool wanted =
        (!options_.space_where_none || !spaced.starts_with(' ')) && (!options_.space_first || scratch.first);
    if (options_.adds_space && wanted) spaced.insert(0, 1, ' ');
    encode_spaced(scratch.keep(std::move(spaced)), out, scratch);
  }
  void encode_behind(std::string_view text, std::vector<std::int32_t>& out, EncodeScratch& scratch) const override {
    encode_spaced(scratch.keep(marks_to_spaces(text)), out, scratch);
  }

 private:
  void encode_spaced(std::string_view spaced, std::vector<std::int32_t>& out, EncodeScratch& scratch) const {
    seams_.split(spaced, [&](std::string_view part) {
      scratch.cache.append(part, [&] { encode_part(part, scratch.merger, out); });
    });
  }

  void encode_part(std::string_view part, Merger& merger, std::vector<std::int32_t>& out) const {
    const auto slice = [&](std::uint32_t begin, std::uint32_t size) { return part.substr(begin, size); };
    merger.clear();
    each_char(part, [&](std::size_t begin, unicode::Char c) {
      const auto b = static_cast<std::uint32_t>(begin);
      merger.push({b, c.size, vocabulary_.find_word(slice(b, c.size))});
    });
    merger.run([&](const Merger::Symbol& left, const Merger::Symbol& right) -> Merger::Join {
      const auto size = left.size + right.size;
      // The bound keeps look-ups from hashing long stretches.
      return size > seams_.longest() ? Merger::Join{0, -1} : joins_(left, right, slice(left.begin, size));
    });
    merger.each([&](const Merger::Symbol& s) {
      if (s.id >= 0) return out.push_back(s.id);
      bytes_.append(slice(s.begin, s.size), out);
    });
  }

  const Vocabulary& vocabulary_;
  Joins joins_;
  Options options_;
  ByteFallback bytes_;
  Seams seams_;
};

}  // namespace kvasir::text
