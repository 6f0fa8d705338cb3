// What BERT's tokenizer takes for which kind of character.
#pragma once

#include <cstdint>

namespace kvasir::text {

bool is_blank(std::uint32_t code);  // white space, not a control character
// Control and format characters and those for private use (Cc, Cf, Co), U+FFFD and bytes that are no UTF-8: left out.
bool is_dropped(std::uint32_t code);
bool is_punctuation(std::uint32_t code);  // \p{P} and all signs of ASCII
bool is_ideograph(std::uint32_t code);    // stands alone: what the original calls Chinese

}  // namespace kvasir::text
