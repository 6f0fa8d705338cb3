// Contract of an entry in text/pretokenizers: how a byte-level BPE vocabulary cuts text into pieces that no merge
// crosses.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/function_ref.hpp"
#include "base/registry.hpp"

namespace kvasir::text {

using Emit = FunctionRef<void(std::string_view piece)>;

struct Pretokenizer {
  // The values of tokenizer.ggml.pre that mean this entry. No two entries share one.
  std::span<const std::string_view> serves;

  // Emits non-empty views that tile `text` in order. Takes time linear in the text, whatever its bytes: bytes that are
  // not UTF-8 count as characters that are neither letter, number nor space.
  void (*split)(std::string_view text, Emit emit);

  bool whole_words = false;  // a piece that is itself a token becomes that token, whatever the merges say
  bool add_bos = false;      // when the file does not say
  bool nfc = false;          // texts are composed (unicode/normal.hpp) before they are cut
};

std::span<const Entry<Pretokenizer>> pretokenizers();

// The entry that serves `name`. Throws Error(kUnsupported) that lists the known names; `context` says where the name
// stood.
const Pretokenizer& pretokenizer_for(std::string_view name, const std::string& context);

}  // namespace kvasir::text
